/* SPDX-License-Identifier: Apache-2.0 */
/* cache_arrays_test.c - cache="device" with arrays and token files: rows that the device gathers
 * are those that the host would; where they do not fit, everything is as without it. */
#include <time.h>

#include "../../seams/seam.h"

#define ROWS 3000
#define WIDE 12
#define TOKENS 20001
#define MAX_OUT 4

static uint16_t tokens[2][TOKENS];
static int16_t wide[ROWS * WIDE * 2];
static uint8_t pixels[ROWS * 48];
static float odd[ROWS * 3];
static int64_t label[ROWS];
static uint8_t narrow[ROWS];
static stk_dataset *joined, *text[2];

typedef struct setting {
    stk_dataset **data;
    uint32_t n_data;
    stk_output out[MAX_OUT];
    uint32_t n_out;
    int32_t workers;
    uint64_t limit;
} setting;

static stk_loader *open_loader(const setting *x, const char *cache)
{
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = 50,
                             .outputs = x->out,
                             .n_outputs = x->n_out,
                             .num_workers = x->workers,
                             .prefetch = 4,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 9,
                             .device = cache ? "cuda" : NULL,
                             .cache = cache,
                             .device_cache_limit = cache ? x->limit : 0 };

    return seam_loader(x->data, x->n_data, &o);
}

static void same_tensor(const stk_tensor *t, const stk_tensor *u)
{
    size_t size = stk_dtype_size(t->dtype), row = size;

    assert_true(t->dtype == u->dtype && t->ndim == u->ndim);
    assert_int_equal(u->gpu, 1);
    for (uint32_t i = 0; i < t->ndim; i++) {
        assert_int_equal(t->shape[i], u->shape[i]);
        assert_int_equal(t->strides[i], u->strides[i]);
        row *= i ? (size_t)t->shape[i] : 1;
    }
    for (int64_t r = 0; r < t->shape[0]; r++)
        assert_memory_equal((uint8_t *)t->data + (size_t)(r * t->strides[0]) * size,
                            (uint8_t *)u->data + (size_t)(r * t->strides[0]) * size, row);
}

static void follow(stk_loader *a, stk_loader *b, uint32_t n_out)
{
    stk_batch *x, *y;
    stk_tensor t, u;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(a, &x, -1, &err)) == 0) {
        seam_ok(stk_loader_next(b, &y, -1, &err), &err);
        assert_int_equal(stk_batch_rows(x), stk_batch_rows(y));
        assert_memory_equal(stk_batch_ids(x), stk_batch_ids(y), stk_batch_rows(x) * 8);
        for (uint32_t i = 0; i < n_out; i++) {
            assert_int_equal(stk_batch_dense(x, i, &t), 0);
            assert_int_equal(stk_batch_dense(y, i, &u), 0);
            same_tensor(&t, &u);
        }
        stk_batch_release(&x);
        stk_batch_release(&y);
    }
    assert_int_equal(rc, STK_END);
    assert_int_equal(stk_loader_next(b, &y, -1, &err), STK_END);
}

/* Epochs until rows are gathered, and two more; a seek in the middle. */
static void check(const setting *x)
{
    stk_loader *a = open_loader(x, NULL), *b = open_loader(x, "device");
    const struct timespec pause = { 0, 5000000 };
    stk_stats s = { .size = sizeof s };
    stk_error err;

    for (int i = 0; i < 200 && !s.gpu_cache_hits; i++, stk_loader_stats(b, &s)) {
        follow(a, b, x->n_out);
        nanosleep(&pause, NULL);
    }
    assert_true(s.gpu_cache_hits > 0 && s.gpu_cache_bytes <= s.gpu_cache_limit);
    follow(a, b, x->n_out);
    seam_ok(stk_loader_resume(a, 7, 170, &err), &err);
    seam_ok(stk_loader_resume(b, 7, 170, &err), &err);
    follow(a, b, x->n_out);
    stk_loader_close(&a);
    stk_loader_close(&b);
}

static void rows(void **state)
{
    const int32_t workers[] = { STK_NONE, 3 };

    (void)state;
    for (int k = 0; k < 2; k++) {
        check(&(setting){ &joined,
                          1,
                          { { "a", "from(wide)" },
                            { "b", "from(wide) | to(i64)" },
                            { "c", "from(pixels)" },
                            { "d", "from(label)" } },
                          4,
                          workers[k],
                          0 });
        check(&(setting){ &joined,
                          1,
                          { { "a", "from(odd)" },
                            { "b", "from(narrow)" }, /* its places would be larger than its rows */
                            { "c", "from(pixels) | to(i32)" },
                            { "d", "from(pixels) | to(f32)" } }, /* made here */
                          4,
                          workers[k],
                          1 << 20 });
    }
}

static void windows(void **state)
{
    static const char *const chain[][2] = {
        { "tokens(block=64)", "tokens(block=64, shift=1)" },
        { "tokens(block=64, share=true)", "tokens(block=64, shift=1, share=true)" },
        { "tokens(block=33, stride=20) | to(i32)",
          "tokens(block=33, stride=20, shift=5) | to(u16)" },
        { "tokens(block=64, random=true)", "tokens(block=64, random=true, shift=1)" },
    };

    (void)state;
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t n = 1; n <= 2; n++)
            check(&(setting){ text, n, { { "x", chain[k][0] }, { "y", chain[k][1] } }, 2, 2, 0 });
}

static void as_without(const setting *x)
{
    stk_loader *a = open_loader(x, NULL), *b = open_loader(x, "device");
    stk_stats s = { .size = sizeof s };

    follow(a, b, x->n_out);
    follow(a, b, x->n_out);
    stk_loader_stats(b, &s);
    assert_true(!s.gpu_cache_hits && !s.gpu_cache_bytes);
    stk_loader_close(&a);
    stk_loader_close(&b);
}

static void do_not_fit(void **state)
{
    (void)state;
    as_without(&(setting){ text, 2, { { "x", "tokens(block=64)" } }, 1, 2, 1000 });
    as_without(&(setting){ text, 1, { { "x", "tokens(block=64) | to(f32)" } }, 1, 2, 0 });
}

static void closed_early(void **state)
{
    setting x = { text, 2, { { "x", "tokens(block=16)" } }, 1, 2, 0 };
    stk_error err;

    (void)state;
    for (int n = 0; n < 12; n++) {
        stk_loader *l = open_loader(&x, "device");
        stk_batch *b = NULL;

        for (int i = 0; i < n * 3; i++) {
            stk_batch_release(&b);
            seam_ok(stk_loader_next(l, &b, -1, &err), &err);
        }
        stk_loader_close(&l);
        stk_batch_release(&b);
    }
}

static int setup(void **state)
{
    static const int64_t twelve[] = { WIDE }, three[] = { 3 }, picture[] = { 4, 12 };
    const stk_array_in in[] = {
        { .name = "wide",
          .data = wide,
          .rows = ROWS,
          .stride = WIDE * 4,
          .dtype = STK_I16,
          .ndim = 1,
          .shape = twelve },
        { .name = "pixels",
          .data = pixels,
          .rows = ROWS,
          .stride = 48,
          .dtype = STK_U8,
          .ndim = 2,
          .shape = picture },
        { .name = "odd",
          .data = odd,
          .rows = ROWS,
          .stride = 12,
          .dtype = STK_F32,
          .ndim = 1,
          .shape = three },
        { .name = "label", .data = label, .rows = ROWS, .stride = 8, .dtype = STK_I64 },
        { .name = "narrow", .data = narrow, .rows = ROWS, .stride = 1, .dtype = STK_U8 },
    };
    uint64_t v = 1;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < sizeof wide; i++)
        ((uint8_t *)wide)[i] = (uint8_t)((v = v * 6364136223846793005u + 1) >> 56);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)((v = v * 6364136223846793005u + 1) >> 56);
    for (size_t i = 0; i < ROWS; i++) {
        odd[3 * i] = (float)i;
        odd[3 * i + 2] = -(float)i / 7;
        label[i] = (int64_t)i * -77777777777;
        narrow[i] = (uint8_t)(i * 5);
    }
    seam_ok(stk_dataset_join(&joined, in, 5, &err), &err);
    for (int k = 0; k < 2; k++) {
        const char *url = seam_path(k ? "1.bin" : "0.bin");
        FILE *f = fopen(url, "wb");

        assert_non_null(f);
        for (size_t i = 0; i < TOKENS; i++)
            tokens[k][i] = (uint16_t)((v = v * 6364136223846793005u + 1) >> 48);
        assert_int_equal(fwrite(tokens[k], 2, TOKENS, f), TOKENS);
        fclose(f);
        seam_ok(stk_dataset_open(&text[k], &url, 1, NULL, &err), &err);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&joined);
    stk_dataset_unref(&text[0]);
    stk_dataset_unref(&text[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(windows),
                                        cmocka_unit_test(do_not_fit),
                                        cmocka_unit_test(closed_early) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
