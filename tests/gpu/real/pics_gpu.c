/* SPDX-License-Identifier: Apache-2.0 */
/* pics_gpu FOLDER [--views N] [--hostile N] [--bench] [--batch N] - pictures on the GPU
 * against the CPU path, bit for bit, over random views of a folder's JPEGs; then, if asked, how
 * fast.  Exits with 1 at any difference. */
#include "pics_gpu.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#define MOST 1200 /* JPEGs taken of the folder */
#define SEED 20260612u

const kind_of kinds_of[8] = {
    { STK_F16, STK_PIC_AS_F16, STK_CHW, "f16 planes" },
    { STK_U8, STK_PIC_AS_U8, STK_HWC, "u8 interleaved" },
    { STK_BF16, STK_PIC_AS_BF16, STK_CHW, "bf16 planes" },
    { STK_F32, STK_PIC_AS_F32, STK_HWC, "f32 interleaved" },
    { STK_F16, STK_PIC_AS_F16, STK_HWC, "f16 interleaved" },
    { STK_U8, STK_PIC_AS_U8, STK_CHW, "u8 planes" },
    { STK_BF16, STK_PIC_AS_BF16, STK_HWC, "bf16 interleaved" },
    { STK_F32, STK_PIC_AS_F32, STK_CHW, "f32 planes" },
};

double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- pictures ---- */

static stk_bytes read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    stk_bytes b = { NULL, 0 };
    uint8_t *data;
    struct stat s;

    if (!f)
        return b;
    if (fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
        data = malloc((size_t)s.st_size);
        b.len = fread(data, 1, (size_t)s.st_size, f);
        b.data = data;
    }
    fclose(f);
    return b;
}

/* 1: taken. */
static int add_photo(album *a, const char *path)
{
    photo *p = &a->photo[a->n];
    stk_jpeg_head head;
    stk_bytes packed;
    uint8_t *kept;

    p->in = read_all(path);
    stk_scratch_reset(&a->scratch);
    if (!p->in.data || stk_jpeg_parse(&head, p->in, NULL) < 0 || head.restart ||
        stk_jpeg_seek_build(a->j, &head, p->in, &a->scratch, &packed, NULL) < 0) {
        free((void *)p->in.data);
        return 0;
    }
    kept = malloc(packed.len);
    memcpy(kept, packed.data, packed.len);
    packed.data = kept;
    if (stk_jpeg_seek_open(&p->seek, &p->head, packed, &a->err) < 0)
        exit(1);
    a->n++;
    return 1;
}

static void add_folder(album *a, const char *folder, int deep)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    uint32_t left = 0;
    char path[4096];

    if (!d) {
        fprintf(stderr, "no folder '%s'\n", folder);
        exit(1);
    }
    while ((e = readdir(d)) && a->n < MOST) {
        struct stat s;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
            if (deep)
                add_folder(a, path, deep - 1);
            continue;
        }
        left += !add_photo(a, path);
    }
    closedir(d);
    if (left)
        printf("%s: %u files that are not for the GPU\n", folder, left);
}

static void describe(const album *a)
{
    uint64_t bytes = 0, pixels = 0, steps = 0, rows = 0, full = 0;

    for (uint32_t i = 0; i < a->n; i++) {
        const photo *p = &a->photo[i];

        bytes += p->in.len;
        pixels += (uint64_t)p->head.width * p->head.height;
        steps += p->seek.dc_step;
        rows += p->seek.rows_only || p->seek.dc_step == p->seek.chunks;
        full += stk_jpeg_mcu_blocks(&p->head) <= 3;
    }
    printf("%u JPEGs: mean %.1f KB, %.0f kpx, %.1f chunks a unit; %.0f %% without subsampling, "
           "%.0f %% with a unit a row\n",
           a->n, (double)bytes / a->n / 1e3, (double)pixels / a->n / 1e3, (double)steps / a->n,
           100.0 * (double)full / a->n, 100.0 * (double)rows / a->n);
}

/* ---- checks ---- */

/* Elements that differ, and by how much in units of the last bit. */
static uint64_t differ(const set *s, uint32_t i, const void *want, uint32_t *worst)
{
    const uint8_t *got = s->out + (uint64_t)s->item[i].row * s->l.row_bytes, *w = want;
    uint32_t elem = (uint32_t)stk_dtype_size(kinds_of[s->type].dtype);
    uint64_t n = 0;

    if (!memcmp(got, want, s->l.row_bytes))
        return 0;
    for (uint64_t at = 0; at < s->l.row_bytes; at += elem) {
        uint32_t a = 0, b = 0, d;

        memcpy(&a, got + at, elem);
        memcpy(&b, w + at, elem);
        d = a > b ? a - b : b - a;
        n += d != 0;
        *worst = d > *worst ? d : *worst;
    }
    return n;
}

static void host_view(album *a, const set *s, uint32_t i, void **out)
{
    const photo *p = &a->photo[s->of[i]];
    stk_pixels px = { 0 };
    stk_jpeg_job job = { .head = &p->head, .in = p->in, .seek = &p->seek };
    stk_sample_job m = { .view = &s->view[i], .pixels = &px };
    stk_rect need;

    m.dtype = kinds_of[s->type].dtype;
    m.layout = kinds_of[s->type].layout;
    memcpy(m.mul, s->l.mul, sizeof m.mul);
    memcpy(m.add, s->l.add, sizeof m.add);
    stk_scratch_reset(&a->scratch);
    stk_sample_need(&s->view[i], &need);
    if (need.w && stk_jpeg_decode(a->j, &job, &(stk_decode_request){ .need = need }, &a->scratch,
                                  &px, &a->err) < 0) {
        fprintf(stderr, "host: %s\n", a->err.message);
        exit(1);
    }
    m.dst = stk_scratch_get(&a->scratch, (size_t)s->l.row_bytes);
    if (stk_sample_run(stk_kern_table(stk_cpu_level()), &m, &a->scratch, &a->err) < 0)
        exit(1);
    *out = m.dst;
}

int check_all(album *a, uint32_t views)
{
    static const uint32_t sizes[][2] = { { 224, 224 }, { 96, 64 }, { 61, 47 }, { 320, 300 } };
    uint64_t elements = 0;
    uint32_t done = 0, wrong = 0, bad = 0, worst = 0;
    double t = now();

    for (uint32_t round = 0; done < views; round++) {
        uint32_t n = views - done < 256 ? views - done : 256;
        set s;

        set_open(&s, n, sizes[round % 4][0], sizes[round % 4][1], round % 8);
        s.whole = round % 4 == 3;
        set_fill(&s, a, round % 3 == 0);
        set_plan(&s);
        s.l.blocks = round % 5 == 4 ? 97 : 0;
        set_copy(&s);
        set_launch(&s);
        set_fetch(&s);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t d;
            void *want;

            host_view(a, &s, i, &want);
            d = differ(&s, i, want, &worst);
            bad += s.status[i] != 0;
            wrong += d != 0;
            elements += d;
            if ((d || s.status[i]) && wrong + bad < 10)
                printf("  view %u of round %u (photo %u %ux%u, %s%s): status %u, %llu "
                       "differ\n",
                       i, round, s.of[i], a->photo[s.of[i]].head.width,
                       a->photo[s.of[i]].head.height, kinds_of[s.type].name,
                       s.whole ? ", no points" : "", s.status[i], (unsigned long long)d);
        }
        done += n;
        set_close(&s);
    }
    printf("check: %u views, %u differ (%llu elements, worst by %u), %u with a status; %.1f s\n",
           done, wrong, (unsigned long long)elements, worst, bad, now() - t);
    return wrong || bad;
}

int hostile_all(album *a, uint32_t batches)
{
    uint32_t found = 0, n = 64;

    for (uint32_t round = 0; round < batches; round++) {
        set s;

        set_open(&s, n, 40 + round % 9, 32, round % 8);
        s.whole = round % 3 == 2;
        set_fill(&s, a, 0);
        set_plan(&s);
        for (uint32_t i = 0; i < n; i++) { /* after the plan's back */
            uint8_t *rec = s.slab + s.item[i].at;
            uint32_t room = stk_rng_below(&a->rng, 3) ? ((stk_pic *)(void *)rec)->data_at
                                                      : ((stk_pic *)(void *)rec)->size;

            for (uint32_t k = 0; k < 1 + stk_rng_below(&a->rng, 6); k++)
                rec[stk_rng_below(&a->rng, stk_rng_below(&a->rng, 2) ? sizeof(stk_pic) : room)] ^=
                    (uint8_t)(1u << stk_rng_below(&a->rng, 8));
        }
        set_copy(&s);
        set_launch(&s);
        set_fetch(&s);
        for (uint32_t i = 0; i < n; i++)
            found += s.status[i] != 0;
        set_close(&s);
    }
    printf("hostile: %u records, %u found, no error of the device\n", batches * n, found);
    return !found;
}

static uint32_t number(int argc, char **argv, const char *name, uint32_t otherwise)
{
    for (int i = 2; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return (uint32_t)strtoul(argv[i + 1], NULL, 10);
    return otherwise;
}

static int has(int argc, char **argv, const char *name)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    album a = { 0 };
    int rc = 0;

    if (argc < 2) {
        fprintf(stderr, "pics_gpu FOLDER [--views N] [--hostile N] [--bench] [--batch N]\n");
        return 2;
    }
    a.photo = calloc(MOST + 1, sizeof *a.photo);
    stk_rng_init(&a.rng, SEED, 1, 0, 0, 0);
    if (!a.photo || stk_jpeg_open(&a.j, stk_cpu_level(), &a.err) < 0)
        return 1;
    add_folder(&a, argv[1], 2);
    if (!a.n) {
        fprintf(stderr, "no JPEG in '%s'\n", argv[1]);
        return 1;
    }
    printf("seed %u\n", SEED);
    describe(&a);
    rc |= check_all(&a, number(argc, argv, "--views", 4096));
    rc |= hostile_all(&a, number(argc, argv, "--hostile", 40));
    if (has(argc, argv, "--bench"))
        rc |= bench_all(&a, number(argc, argv, "--batch", 256));
    printf(rc ? "FAILED\n" : "all is well\n");
    return rc;
}
