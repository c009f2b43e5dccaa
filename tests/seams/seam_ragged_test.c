/* SPDX-License-Identifier: Apache-2.0 */
/* seam_ragged_test.c - outputs whose rows differ: bytes and text, pictures at their own size as
 * a list or one by one.
 *
 * Pictures have a format of their own, read by a decoder that this test plugs in; so are an op on
 * pixels and one on their neighbours (docs/adding.md). */
#include <stdatomic.h>

#include "make_tar.h"
#include "seam.h"

#define N 90

static uint32_t width(uint64_t k)
{
    return (uint32_t)(1 + k * 7 % 40);
}

static uint32_t height(uint64_t k)
{
    return (uint32_t)(1 + k * 5 % 23);
}

static uint8_t pixel(uint64_t k, uint32_t x, uint32_t y, uint32_t c)
{
    return (uint8_t)(k * 31 + x * 3 + y * 11 + c * 101);
}

typedef struct ppm {
    const uint8_t *data;
    uint32_t w, h;
} ppm;

static _Atomic int contexts;

static int ppm_probe(stk_bytes head)
{
    return head.len > 3 && !memcmp(head.data, "PX\n", 3);
}

static int ppm_open(void **ctx, stk_error *err)
{
    (void)err;
    *ctx = calloc(1, sizeof(ppm));
    atomic_fetch_add(&contexts, 1);
    return 0;
}

static int ppm_header(void *ctx, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    char head[64] = "";
    ppm *p = ctx;
    int n = 0;

    (void)points;
    memcpy(head, in.data, in.len < 63 ? in.len : 63);
    if (sscanf(head, "PX\n%u %u\n255%n", &p->w, &p->h, &n) != 2 || !n ||
        in.len < (size_t)n + 1 + (size_t)p->w * p->h * 3)
        return stk_fail(err, STK_ECORRUPT, "this picture is cut short");
    p->data = in.data + n + 1;
    *out = (stk_media_info){ .tracks = 1, .width = p->w, .height = p->h, .units = 1 };
    return 0;
}

static int ppm_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    const stk_rect *need = &job->ask->need;
    size_t stride = (size_t)need->w * 4;
    uint8_t *to = stk_scratch_get(job->scratch, stride * need->h + 64);
    ppm *p = ctx;

    assert_true(job->n_parts == 1 && !job->part->offset && job->part->bytes.data < p->data);
    if (!to)
        return stk_fail(err, STK_ENOMEM, "no memory");
    for (uint32_t y = 0; y < need->h; y++)
        for (uint32_t x = 0; x < need->w; x++)
            memcpy(to + y * stride + x * 4,
                   p->data + ((size_t)(need->y + y) * p->w + need->x + x) * 3, 3);
    return job->sink->frame(job->sink->cookie, 0, 0,
                            &(stk_planes){ .kind = STK_PLANES_RGBX,
                                           .bits = 8,
                                           .data = { to },
                                           .stride = { stride },
                                           .area = *need },
                            err);
}

static void ppm_close(void *ctx)
{
    atomic_fetch_sub(&contexts, 1);
    free(ctx);
}

static const stk_decoder ppm_decoder = { .abi = STK_PLUGIN_ABI,
                                         .size = sizeof(stk_decoder),
                                         .name = "px",
                                         .help = "pictures of this test",
                                         .probe = ppm_probe,
                                         .open = ppm_open,
                                         .header = ppm_header,
                                         .decode = ppm_decode,
                                         .close = ppm_close };
/* A pixel op: every value becomes 255 minus it. */
static int own_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    return spec->kind == STK_KIND_IMAGE ? 0 : stk_fail(err, STK_EINVAL, "it works on pictures");
}

static uint32_t own_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    (void)state;
    (void)rng;
    (void)canvas;
    *out = (stk_action){ .code = STK_ACT_OWN };
    return 1;
}

static void negative_tile(const void *state, const stk_action *a, stk_tile *t)
{
    (void)state;
    (void)a;
    for (size_t i = 0; i < (size_t)t->width * t->height; i++)
        t->data[i] ^= 0xffffff;
}

/* A neighbourhood op: a pixel becomes the larger of itself and the one to its right, by channel. */
static void smear_tile(const void *state, const stk_action *a, stk_tile *t)
{
    (void)state;
    (void)a;
    for (size_t i = 0; i < (size_t)t->width * t->height; i++) {
        uint32_t px = t->data[i], right = (i + 1) % t->width ? t->data[i + 1] : px, out = 0;

        for (int c = 0; c < 24; c += 8)
            out |= ((px >> c & 255) > (right >> c & 255) ? px >> c & 255 : right >> c & 255) << c;
        t->data[i] = out;
    }
}

static const stk_op negative = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "negative",
                                 .help = "255 minus every value",
                                 .plan = own_plan,
                                 .act = own_act,
                                 .tile = negative_tile,
                                 .can = STK_OP_POINT };
static const stk_op smear = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "smear",
                              .help = "the larger of a pixel and its right neighbour",
                              .plan = own_plan,
                              .act = own_act,
                              .tile = smear_tile,
                              .can = STK_OP_NEAR };
static stk_dataset *ds, *text;

static int setup(void **state)
{
    FILE *f = fopen(seam_path("pics.tar"), "wb");
    stk_error err;

    (void)state;
    for (uint64_t k = 0; k < N; k++) {
        uint8_t data[4096];
        char name[32];
        int n = sprintf((char *)data, "PX\n%u %u\n255\n", width(k), height(k));

        for (uint32_t y = 0; y < height(k); y++)
            for (uint32_t x = 0; x < width(k); x++)
                for (uint32_t c = 0; c < 3; c++)
                    data[n++] = pixel(k, x, y, c);
        snprintf(name, sizeof name, "%06u.ppm", (unsigned)k);
        tar_member(f, name, data, (size_t)n);
    }
    tar_end(f);
    fclose(f);
    ds = seam_open("", "pics.tar", NULL);
    seam_shards("a", 2, 100, 0);
    text = seam_open("", "a-{0..1}.tar", NULL);
    seam_ok(stk_plugin_add(STK_PLUGIN_OP, &negative, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_OP, &smear, &err), &err);
    return stk_plugin_add(STK_PLUGIN_DECODER, &ppm_decoder, &err);
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    stk_dataset_unref(&text);
    return atomic_load(&contexts); /* every context was closed */
}

static void check(const stk_tensor *t, uint32_t lead, uint64_t k)
{
    assert_int_equal(t->ndim, 3 + lead);
    assert_int_equal(t->dtype, STK_U8);
    if (lead)
        assert_int_equal(t->shape[0], 1);
    assert_int_equal(t->shape[lead], height(k));
    assert_int_equal(t->shape[lead + 1], width(k));
    assert_int_equal(t->shape[lead + 2], 3);
    for (uint32_t y = 0; y < height(k); y++)
        for (uint32_t x = 0; x < width(k); x++)
            for (uint32_t c = 0; c < 3; c++)
                assert_int_equal(
                    ((uint8_t *)t->data)[y * t->strides[lead] + x * t->strides[lead + 1] + c],
                    pixel(k, x, y, c));
}

static void run(uint32_t batch, int32_t workers, stk_collate collate)
{
    static const stk_output out[] = { { "image", "from(ppm) | image | to(u8, layout=hwc)" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 1,
                             .batch_size = batch,
                             .num_workers = workers,
                             .collate = collate,
                             .shuffle = STK_SHUFFLE_EXACT };
    stk_loader *l = seam_loader(&ds, 1, &o);

    for (int epoch = 0; epoch < 3; epoch++) { /* the buffer grows to its high water */
        stk_batch *b = NULL, *last = NULL;
        uint64_t rows = 0;
        stk_error err;
        stk_tensor t;

        while (stk_loader_next(l, &b, 60000, &err) == 0) {
            assert_int_equal(stk_batch_output_kind(b, 0), batch > 1 ? STK_OUT_LIST : STK_OUT_DENSE);
            for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
                assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
                check(&t, 0, stk_batch_ids(b)[i]);
            }
            assert_int_equal(stk_batch_dense(b, 0, &t), batch > 1 ? STK_EINVAL : 0);
            if (batch == 1)
                check(&t, 1, stk_batch_ids(b)[0]);
            stk_batch_release(&last);
            last = b; /* it holds while the next one is made */
            b = NULL;
        }
        assert_int_equal(rows, N);
        stk_batch_release(&last);
    }
    stk_loader_close(&l);
}

static void pictures_as_a_list(void **state)
{
    (void)state;
    run(7, STK_NONE, STK_COLLATE_LIST);
    run(7, 1, STK_COLLATE_LIST);
    run(16, 4, STK_COLLATE_LIST);
}

static void pictures_one_by_one(void **state)
{
    (void)state;
    run(1, STK_NONE, STK_COLLATE_STACK);
    run(1, 4, STK_COLLATE_STACK);
}

/* What the two ops make of pixel x, y, channel c of picture k. */
static uint8_t smeared(uint64_t k, uint32_t x, uint32_t y, uint32_t c)
{
    uint8_t here = (uint8_t)(255 - pixel(k, x, y, c));
    uint8_t right = x + 1 < width(k) ? (uint8_t)(255 - pixel(k, x + 1, y, c)) : here;

    return here > right ? here : right;
}

static void pixel_and_neighbourhood_ops_of_ones_own(void **state)
{
    static const stk_output out[] = {
        { "image", "from(ppm) | image | negative | smear | to(u8, layout=hwc)" }
    };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 1,
                             .batch_size = 7,
                             .num_workers = 2,
                             .collate = STK_COLLATE_LIST,
                             .shuffle = STK_SHUFFLE_EXACT };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    uint64_t rows = 0;
    stk_error err;
    stk_tensor t;

    (void)state;
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
            uint64_t k = stk_batch_ids(b)[i];

            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            for (uint32_t y = 0; y < height(k); y++)
                for (uint32_t x = 0; x < width(k) * 3; x++)
                    assert_int_equal(((uint8_t *)t.data)[y * t.strides[0] + x],
                                     smeared(k, x / 3, y, x % 3));
        }
        stk_batch_release(&b);
    }
    assert_int_equal(rows, N);
    stk_loader_close(&l);
}

/* A sum over every byte of an epoch's batches, from `step` on. */
static uint64_t digest(int32_t workers, uint32_t prefetch, uint64_t step)
{
    static const stk_output out[] = {
        { "image", "from(ppm) | image | random_resized_crop((9, 8)) | hflip | normalize(imagenet) "
                   "| to(f16)" },
        { "other", "from(ppm) | image | random_resized_crop(4) | hflip(p=0.3) | to(u8)" },
    };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 2,
                             .batch_size = 4,
                             .num_workers = workers,
                             .prefetch = prefetch,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 11 };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    uint64_t h = 1469598103934665603u;
    stk_error err;

    seam_ok(stk_loader_seek(l, 2, step, &err), &err);
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        for (uint32_t k = 0; k < 2 && stk_batch_step(b) >= 10; k++) {
            stk_tensor t;
            size_t len;

            assert_int_equal(stk_batch_dense(b, k, &t), 0);
            len = stk_dtype_size(t.dtype) *
                  (size_t)(t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]);
            for (size_t i = 0; i < len; i++)
                h = (h ^ ((uint8_t *)t.data)[i]) * 1099511628211u;
        }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    return h;
}

/* Steps 10 to the end of epoch 2: from its beginning, after a resume, for any number of workers
 * and any prefetch. */
static void the_same_pixels(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 2, 8 };
    uint64_t want = digest(STK_NONE, 1, 0);

    (void)state;
    for (int w = 0; w < 4; w++)
        for (uint64_t step = 0; step <= 10; step += 5) {
            assert_int_equal(digest(workers[w], 1, step), want);
            assert_int_equal(digest(workers[w], 4, step), want);
        }
}

/* floats: the number k of a .cls field as 1 + k % 5 rows of k % 4 numbers; f32, or f64 where k is
 * odd. */
struct floats {
    char *taken; /* by plan(), given back by fini() */
};

static _Atomic int floats_planned;

static int64_t floats_number(stk_bytes in)
{
    return atoi((const char *)in.data) + 1000; /* a newline follows */
}

static int floats_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct floats *f = state;

    (void)args;
    atomic_fetch_add(&floats_planned, 1);
    f->taken = malloc(10);
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_LIST };
    return f->taken ? 0 : stk_fail(err, STK_ENOMEM, "no memory");
}

static void floats_fini(void *state)
{
    atomic_fetch_sub(&floats_planned, 1);
    free(((struct floats *)state)->taken);
}

static int floats_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    int64_t k = floats_number(in);

    (void)state, (void)err;
    row->dtype = k % 2 ? STK_F64 : STK_F32;
    row->ndim = 2;
    row->shape[0] = 1 + k % 5;
    row->shape[1] = k % 4;
    return 0;
}

static int floats_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                        stk_error *err)
{
    int64_t k = floats_number(in), n = (1 + k % 5) * (k % 4);

    (void)state, (void)err;
    for (int64_t i = 0; i < n; i++)
        if (k % 2)
            ((double *)dst)[i] = (double)(k + i);
        else
            ((float *)dst)[i] = (float)(k + i);
    return 0;
}

static const stk_codec floats_codec = { .abi = STK_PLUGIN_ABI,
                                        .size = sizeof(stk_codec),
                                        .name = "test_floats",
                                        .help = "rows that say their shape",
                                        .state_size = sizeof(struct floats),
                                        .plan = floats_plan,
                                        .shape = floats_shape,
                                        .parse = floats_parse,
                                        .fini = floats_fini };

static void check_floats(const stk_tensor *t, uint32_t lead, uint64_t id)
{
    int64_t k = seam_number(id) + 1000, n = (1 + k % 5) * (k % 4);

    assert_int_equal(t->dtype, k % 2 ? STK_F64 : STK_F32);
    assert_int_equal(t->ndim, lead + 2);
    assert_int_equal(t->shape[lead], 1 + k % 5);
    assert_int_equal(t->shape[lead + 1], k % 4);
    for (int64_t i = 0; i < n; i++)
        assert_true((k % 2 ? ((double *)t->data)[i] : ((float *)t->data)[i]) == (double)(k + i));
}

static void run_floats(uint32_t batch, int32_t workers)
{
    static const stk_output out[] = { { "x", "from(cls) | test_floats" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 1,
                             .batch_size = batch,
                             .num_workers = workers,
                             .collate = STK_COLLATE_LIST };
    stk_loader *l = seam_loader(&text, 1, &o);

    for (int epoch = 0; epoch < 3; epoch++) {
        stk_batch *b = NULL;
        uint64_t rows = 0;
        stk_error err;
        stk_tensor t;

        while (stk_loader_next(l, &b, 60000, &err) == 0) {
            for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
                assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
                check_floats(&t, 0, stk_batch_ids(b)[i]);
            }
            assert_int_equal(stk_batch_dense(b, 0, &t), batch > 1 ? STK_EINVAL : 0);
            if (batch == 1)
                check_floats(&t, 1, stk_batch_ids(b)[0]);
            stk_batch_release(&b);
        }
        assert_int_equal(rows, 200);
    }
    stk_loader_close(&l);
    assert_int_equal(atomic_load(&floats_planned), 0);
}

static void values_that_say_their_shape(void **state)
{
    static const stk_output out[] = { { "x", "from(cls) | test_floats" } };
    stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 1, .batch_size = 2 };
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &floats_codec, &err), &err);
    run_floats(1, STK_NONE);
    run_floats(7, STK_NONE);
    run_floats(16, 4);
    assert_int_equal(stk_loader_open(&l, &text, 1, &o, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "output x: its rows may differ in shape"));
    assert_int_equal(atomic_load(&floats_planned), 0);
}

static void pictures_that_make_no_tensor(void **state)
{
    static const stk_output out[] = { { "image", "from(ppm) | image" } };
    stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 1, .batch_size = 2 };
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_non_null(strstr(
        err.message, "output image: its pictures differ in size, so 2 of them make no tensor"));
}

static void bytes_and_text(void **state)
{
    uint64_t ids[200];
    stk_loader_options o = seam_options(33, 4);
    stk_loader *l = seam_loader(&text, 1, &o);

    (void)state;
    for (int epoch = 0; epoch < 4; epoch++)
        seam_epoch(l, 200, ids);
    stk_loader_close(&l);
}

/* One row far larger than memory_limit allows: an error there, each time, and the batches after it
 * are made all the same once one goes past it. */
static void one_row_too_large(void **state)
{
    static const stk_output out[] = { { "d", "from(dat) | bytes" } };
    static uint8_t big[900000];
    FILE *f = fopen(seam_path("big.tar"), "wb");
    stk_dataset *d;

    (void)state;
    for (unsigned k = 0; k < 40; k++) {
        char name[32];

        memset(big, (int)k, sizeof big);
        snprintf(name, sizeof name, "%06u.dat", k);
        tar_member(f, name, big, k == 9 ? sizeof big : 3000 + k);
    }
    tar_end(f);
    fclose(f);
    d = seam_open("", "big.tar", NULL);
    for (int w = 0; w < 2; w++) {
        stk_loader_options o = { .size = sizeof o,
                                 .outputs = out,
                                 .n_outputs = 1,
                                 .batch_size = 4,
                                 .prefetch = 2,
                                 .num_workers = w ? 2 : STK_NONE,
                                 .memory_limit = 1500000 };
        stk_loader *l = seam_loader(&d, 1, &o);

        for (int epoch = 0; epoch < 3; epoch++)
            for (uint64_t step = 0; step < 11; step++) {
                stk_batch *b = NULL;
                stk_error err;
                stk_tensor t;
                int rc = stk_loader_next(l, &b, 60000, &err);

                if (step == 10) {
                    assert_int_equal(rc, STK_END);
                } else if (step == 2) {
                    assert_int_equal(rc, STK_ELIMIT); /* it can never fit */
                    assert_string_equal(err.key, "000009");
                    assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_ELIMIT);
                    seam_ok(stk_loader_seek(l, (uint64_t)epoch, 3, &err), &err);
                } else {
                    seam_ok(rc, &err);
                    assert_int_equal(stk_batch_row(b, 0, 3, &t), 0);
                    assert_int_equal(t.shape[0], 3000 + step * 4 + 3);
                    assert_int_equal(((uint8_t *)t.data)[0], step * 4 + 3);
                }
                stk_batch_release(&b);
            }
        stk_loader_close(&l);
    }
    stk_dataset_unref(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_as_a_list),
        cmocka_unit_test(pictures_one_by_one),
        cmocka_unit_test(pixel_and_neighbourhood_ops_of_ones_own),
        cmocka_unit_test(the_same_pixels),
        cmocka_unit_test(pictures_that_make_no_tensor),
        cmocka_unit_test(values_that_say_their_shape),
        cmocka_unit_test(bytes_and_text),
        cmocka_unit_test(one_row_too_large),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
