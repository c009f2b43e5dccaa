/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.c - our JPEG decoder against libjpeg-turbo, one thread, on a folder of photographs.
 *
 *     bench_jpeg FOLDER [--rounds 9] [--only SIDE] [--images N]
 *
 * Every round runs every side on every picture before the next picture, so that a noisy neighbour
 * hurts all alike; a side's time is the sum over pictures of the best round (processor time of
 * the thread).  Crops are RandomResizedCrop's: scale .08 to 1, ratio 3/4 to 4/3, one a picture, the
 * same for all sides.  --only runs one side alone once, for callgrind: see
 * tools/bench_jpeg.sh, which also writes the results file. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "kern/sample.h"
#include "codec/jpeg_idct.h"
#include "tests/codec/jpeg_testing.h"

#define OUT 224
#define MAX_ROUNDS 100

typedef struct photo {
    stk_bytes in, packed;
    stk_jpeg_head head;
    stk_view view;
    stk_rect need;
} photo;

typedef struct world {
    photo *photos;
    size_t n;
    struct jpeg_decompress_struct turbo;
    jpeg_judge judge;
    stk_jpeg *ours;
    const stk_kern *kern;
    stk_scratch scratch;
    uint8_t *pixels; /* room for any picture, 4 bytes a pixel */
    void *row;
    uint64_t sum; /* what was made is looked at */
} world;

static void die(const char *what)
{
    fprintf(stderr, "bench_jpeg: %s\n", what);
    exit(1);
}

/* ---- sides ---- */

static void turbo_open(world *w, const photo *p)
{
    jpeg_mem_src(&w->turbo, p->in.data, p->in.len);
    jpeg_read_header(&w->turbo, TRUE);
}

static void turbo_full(world *w, const photo *p)
{
    struct jpeg_decompress_struct *d = &w->turbo;

    turbo_open(w, p);
    d->out_color_space = JCS_RGB;
    jpeg_start_decompress(d);
    while (d->output_scanline < d->output_height) {
        JSAMPROW rows[8];

        for (unsigned i = 0; i < 8; i++)
            rows[i] = w->pixels + (size_t)(d->output_scanline + i) * d->output_width * 3;
        jpeg_read_scanlines(
            d, rows,
            d->output_height - d->output_scanline < 8 ? d->output_height - d->output_scanline : 8);
    }
    jpeg_abort_decompress(d);
}

static void turbo_coefs(world *w, const photo *p)
{
    turbo_open(w, p);
    w->sum += jpeg_read_coefficients(&w->turbo) != NULL;
    jpeg_abort_decompress(&w->turbo);
}

static void turbo_crop(world *w, const photo *p)
{
    struct jpeg_decompress_struct *d = &w->turbo;
    JDIMENSION x = p->need.x, cols = p->need.w;
    JSAMPROW rows[1];

    turbo_open(w, p);
    d->out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(d);
    if (cols < d->output_width)
        jpeg_crop_scanline(d, &x, &cols);
    if (p->need.y)
        jpeg_skip_scanlines(d, p->need.y);
    for (uint32_t y = 0; y < p->need.h; y++) {
        rows[0] = w->pixels + (size_t)y * cols * 4;
        jpeg_read_scanlines(d, rows, 1);
    }
    jpeg_abort_decompress(d);
}

static void check(int rc, const stk_error *err)
{
    if (rc < 0)
        die(err->message);
}

/* What the codec does with every picture before it decodes: markers, and points if it has any. */
typedef struct opened {
    stk_jpeg_head head, known;
    stk_jpeg_seek points;
} opened;

static stk_jpeg_job begin(world *w, const photo *p, int seek, opened *o)
{
    stk_error err;

    stk_scratch_reset(&w->scratch);
    seek = seek && p->packed.len;
    check(stk_jpeg_parse(&o->head, p->in, &err), &err);
    if (seek)
        check(stk_jpeg_seek_open(&o->points, &o->known, p->packed, &err), &err);
    return (stk_jpeg_job){ &o->head, p->in, seek ? &o->points : NULL };
}

static void our_coefs(world *w, const photo *p, int seek)
{
    opened o;
    stk_jpeg_job job = begin(w, p, seek, &o);
    int16_t *out;
    stk_error err;

    check(stk_jpeg_coefs(w->ours, &job, &w->scratch, &out, &err), &err);
    w->sum += (uint64_t)out[0];
}

static void coefs_plain(world *w, const photo *p)
{
    our_coefs(w, p, 0);
}

static void coefs_seek(world *w, const photo *p)
{
    our_coefs(w, p, 1);
}

static void our_pixels(world *w, const photo *p, int seek, const stk_rect *need, stk_pixels *px)
{
    opened o;
    stk_jpeg_job job = begin(w, p, seek, &o);
    stk_error err;

    check(stk_jpeg_decode(w->ours, &job, &(stk_decode_request){ .need = *need }, &w->scratch, px,
                          &err),
          &err);
    w->sum += px->data[0];
}

static void full_plain(world *w, const photo *p)
{
    stk_pixels px;

    our_pixels(w, p, 0, &(stk_rect){ 0, 0, p->head.width, p->head.height }, &px);
}

static void full_seek(world *w, const photo *p)
{
    stk_pixels px;

    our_pixels(w, p, 1, &(stk_rect){ 0, 0, p->head.width, p->head.height }, &px);
}

static void crop_plain(world *w, const photo *p)
{
    stk_pixels px;

    our_pixels(w, p, 0, &p->need, &px);
}

static void crop_seek(world *w, const photo *p)
{
    stk_pixels px;

    our_pixels(w, p, 1, &p->need, &px);
}

static void row(world *w, const photo *p, int seek)
{
    stk_pixels px;
    stk_sample_job job = { .view = &p->view,
                           .pixels = &px,
                           .dtype = STK_F16,
                           .layout = STK_CHW,
                           .mul = { .01712475f, .017507f, .01742919f },
                           .add = { -2.117904f, -2.035714f, -1.804444f },
                           .dst = w->row };
    stk_error err;

    our_pixels(w, p, seek, &p->need, &px);
    check(stk_sample_run(w->kern, &job, &w->scratch, &err), &err);
}

static void row_plain(world *w, const photo *p)
{
    row(w, p, 0);
}

static void row_seek(world *w, const photo *p)
{
    row(w, p, 1);
}

static void build(world *w, const photo *p)
{
    stk_jpeg_head head;
    stk_bytes out;
    stk_error err;

    stk_scratch_reset(&w->scratch);
    check(stk_jpeg_parse(&head, p->in, &err), &err);
    check(stk_jpeg_seek_build(w->ours, &head, p->in, &w->scratch, &out, &err), &err);
}

static void nothing(world *w, const photo *p)
{
    w->sum += p->in.len;
}

static const struct side {
    const char *name;
    void (*run)(world *w, const photo *p);
    int against;   /* the side that it is measured against, -1: none */
    double target; /* times as fast */
} sides[] = {
    { "turbo: whole RGB", turbo_full, -1, 0 },
    { "turbo: coefficients", turbo_coefs, -1, 0 },
    { "turbo: crop (crop, skip, stop)", turbo_crop, 0, 0 },
    { "coefficients, seek points", coefs_seek, 1, 1.6 },
    { "coefficients, none", coefs_plain, 1, 1.4 },
    { "whole RGB, seek points", full_seek, 0, 0 },
    { "whole RGB, none", full_plain, 0, 0 },
    { "crop RGBX, seek points", crop_seek, 0, 0 },
    { "crop RGBX, none", crop_plain, 0, 0 },
    { "row f16 224, seek points", row_seek, 0, 2.0 },
    { "row f16 224, none", row_plain, 0, 1.4 },
    { "build seek points", build, 0, 1.0 },
    { "nothing", nothing, -1, 0 },
};
#define SIDES (sizeof sides / sizeof *sides - 1)

/* ---- photographs ---- */

static stk_bytes read_file(const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    uint8_t *data;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
        if (f)
            fclose(f);
        return (stk_bytes){ 0 };
    }
    data = malloc((size_t)st.st_size + 1);
    if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        die("can't read a file");
    fclose(f);
    return (stk_bytes){ data, (size_t)st.st_size };
}

/* Keep the photo, with its seek points if an index would keep them; 0: not ours. */
static int take(world *w, photo *p)
{
    stk_bytes packed;
    stk_error err;
    uint8_t *copy;

    if (!p->in.data || stk_jpeg_parse(&p->head, p->in, &err) < 0)
        return 0;
    stk_scratch_reset(&w->scratch);
    if (stk_jpeg_seek_build(w->ours, &p->head, p->in, &w->scratch, &packed, &err) < 0)
        return 0;
    if (!stk_jpeg_seek_pays(packed, p->in))
        return 1;
    copy = malloc(packed.len);
    if (!copy)
        die("no memory");
    memcpy(copy, packed.data, packed.len);
    p->packed = (stk_bytes){ copy, packed.len };
    return 1;
}

/* Not worth measuring if it is not right: the whole picture, both ways, against libjpeg-turbo. */
static void verify(world *w, const photo *p)
{
    stk_rect all = { 0, 0, p->head.width, p->head.height };
    stk_pixels px;
    long warnings;
    uint8_t *ref = jpeg_reference(p->in, &warnings);

    if (!ref)
        die("libjpeg-turbo refuses a picture that we take");
    for (int seek = 0; seek < 2; seek++) {
        our_pixels(w, p, seek, &all, &px);
        for (uint32_t y = 0; y < all.h; y++)
            if (memcmp(px.data + y * px.stride, ref + (size_t)y * all.w * 4, (size_t)all.w * 4))
                die("pixels differ from libjpeg-turbo's");
    }
    free(ref);
}

static void load(world *w, const char *folder, size_t most, int check_all)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort);
    size_t left_out = 0, largest = 0, bytes = 0, points = 0, small = 0;

    if (n < 0)
        die("can't read the folder");
    w->photos = calloc((size_t)n, sizeof *w->photos);
    for (int i = 0; i < n; i++) {
        photo *p = &w->photos[w->n];

        p->in = w->n < most ? read_file(folder, names[i]->d_name) : (stk_bytes){ 0 };
        if (p->in.data && !take(w, p)) {
            free((void *)p->in.data);
            left_out++;
        } else if (p->in.data) {
            size_t size = (size_t)p->head.width * p->head.height * 4;

            if (check_all)
                verify(w, p);
            largest = size > largest ? size : largest;
            bytes += p->in.len;
            points += p->packed.len;
            small += !p->packed.len;
            w->n++;
        }
        free(names[i]);
    }
    free(names);
    w->pixels = malloc(largest + 65536 * 8 * 4);
    w->row = malloc((size_t)OUT * OUT * 3 * 4);
    if (!w->n || !w->pixels || !w->row)
        die("no baseline JPEGs there");
    printf("%zu JPEGs, %.1f MB (%zu files are not ours); seek points %.2f %% of them, %zu are too "
           "small for any\n",
           w->n, (double)bytes * 1e-6, left_out, 100.0 * (double)points / (double)bytes, small);
}

/* As torchvision draws. */
static void draw(photo *p, uint64_t i)
{
    uint32_t width = p->head.width, height = p->head.height, cw = width, ch = height;
    stk_rng rng;

    stk_rng_init(&rng, 1, i, 0, 0, 0);
    for (int k = 0; k < 10; k++) {
        double area = (double)width * height * (.08 + .92 * stk_rng_unit(&rng));
        double ratio = exp(log(.75) + log(16. / 9) * stk_rng_unit(&rng));
        double x = sqrt(area * ratio), y = sqrt(area / ratio);

        if (x >= 1 && x <= width && y >= 1 && y <= height) {
            cw = (uint32_t)x;
            ch = (uint32_t)y;
            break;
        }
    }
    stk_view_init(&p->view, width, height);
    stk_view_crop(&p->view, (int32_t)stk_rng_below(&rng, width - cw + 1),
                  (int32_t)stk_rng_below(&rng, height - ch + 1), cw, ch);
    stk_view_resize(&p->view, OUT, OUT);
    stk_sample_need(&p->view, &p->need);
}

/* ---- measuring ---- */

static double thread_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void measure(world *w, int rounds, double total[SIDES])
{
    double *best = calloc(w->n * SIDES, sizeof *best);

    if (!best)
        die("no memory");
    for (size_t i = 0; i < w->n; i++)
        draw(&w->photos[i], i);
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < w->n; i++)
            for (size_t s = 0; s < SIDES; s++) {
                double t = thread_s(), *b = &best[i * SIDES + s];

                sides[s].run(w, &w->photos[i]);
                t = thread_s() - t;
                *b = !r || t < *b ? t : *b;
            }
    for (size_t s = 0; s < SIDES; s++) {
        total[s] = 0;
        for (size_t i = 0; i < w->n; i++)
            total[s] += best[i * SIDES + s];
    }
    free(best);
}

static void print_table(const world *w, const double total[SIDES])
{
    printf("%-34s %10s %10s %8s\n", "", "us/image", "images/s", "ratio");
    for (size_t s = 0; s < SIDES; s++) {
        int a = sides[s].against;

        printf("%-34s %10.1f %10.0f", sides[s].name, total[s] * 1e6 / (double)w->n,
               (double)w->n / total[s]);
        if (a >= 0)
            printf(" %7.2fx of %s", total[a] / total[s], sides[a].name);
        if (a >= 0 && sides[s].target > 0)
            printf(", >= %.1fx: %s", sides[s].target,
                   total[a] / total[s] >= sides[s].target ? "ok" : "MISSED");
        printf("\n");
    }
}

static void run_only(world *w, const char *name)
{
    for (size_t s = 0; s <= SIDES; s++) {
        if (strcmp(sides[s].name, name))
            continue;
        for (size_t i = 0; i < w->n; i++) {
            draw(&w->photos[i], i);
            sides[s].run(w, &w->photos[i]);
        }
        return;
    }
    for (size_t s = 0; s <= SIDES; s++)
        printf("%s\n", sides[s].name);
    die("no such side");
}

typedef struct options {
    const char *folder, *only;
    size_t images;
    int rounds;
} options;

static void parse_args(options *o, int argc, char **argv)
{
    *o = (options){ .folder = argc > 1 ? argv[1] : NULL, .images = SIZE_MAX, .rounds = 9 };
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--rounds"))
            o->rounds = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--only"))
            o->only = argv[i + 1];
        else if (!strcmp(argv[i], "--images"))
            o->images = strtoul(argv[i + 1], NULL, 10);
        else
            die("unknown option");
    }
    if (!o->folder || o->rounds < 1 || o->rounds > MAX_ROUNDS)
        die("usage: bench_jpeg FOLDER [--rounds 9] [--only SIDE] [--images N]");
}

static void run(world *w, const options *o)
{
    double total[SIDES];
    stk_error err;

    check(stk_jpeg_open(&w->ours, stk_cpu_level(), &err), &err);
    w->kern = stk_kern_table(stk_cpu_level());
    load(w, o->folder, o->images, !o->only);
    if (o->only) {
        run_only(w, o->only);
        return;
    }
    measure(w, o->rounds, total);
    printf("pixels of every picture equal libjpeg-turbo's; one thread, %d rounds, best of each "
           "picture, kernels %s\n",
           o->rounds, stk_jpeg_kern_table(stk_cpu_level())->name);
    print_table(w, total);
}

int main(int argc, char **argv)
{
    static world w;
    options o;

    parse_args(&o, argc, argv);
    jpeg_judge_init(&w.turbo, &w.judge);
    if (setjmp(w.judge.escape))
        die("libjpeg refuses a picture");
    jpeg_create_decompress(&w.turbo);
    run(&w, &o);
    return 0;
}
