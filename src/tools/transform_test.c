/* SPDX-License-Identifier: Apache-2.0 */
/* transform_test.c - decoded pictures through a chain: strides, gray, bounds, errors, failing
 * memory.  That the pixels are a loader's is looked at in python/tests/test_transform.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/transform.h>

#include "base/mem.h"

enum { W = 40, H = 30, N = 24, SIDE = 8 };

static uint8_t hwc[N][H][W][3], chw[N][3][H][W];

static void fill(void)
{
    uint32_t x = 7;

    for (int i = 0; i < N; i++)
        for (int y = 0; y < H; y++)
            for (int k = 0; k < W; k++)
                for (int c = 0; c < 3; c++) {
                    x = x * 1664525u + 1013904223u;
                    hwc[i][y][k][c] = chw[i][c][y][k] = (uint8_t)(x >> 24);
                }
}

static stk_picture interleaved(int i, void *out, size_t size)
{
    return (stk_picture){ .data = hwc[i],
                          .width = W,
                          .height = H,
                          .channels = 3,
                          .step_x = 3,
                          .step_y = W * 3,
                          .step_c = 1,
                          .position = (uint64_t)i,
                          .out = out,
                          .out_size = size };
}

static stk_picture planar(int i, void *out, size_t size)
{
    stk_picture p = interleaved(i, out, size);

    p.data = chw[i];
    p.step_x = 1;
    p.step_y = W;
    p.step_c = W * H;
    return p;
}

static stk_transform *opened(const char *chain, uint32_t workers)
{
    stk_transform_options o = { .size = sizeof o, .num_workers = workers, .seed = 5 };
    stk_transform *t = NULL;
    stk_error err;

    if (stk_transform_open(&t, chain, &o, &err) < 0)
        fail_msg("%s", err.message);
    return t;
}

static void refused(const char *chain, const char *why)
{
    stk_transform *t = (void *)1;
    stk_error err = { 0 };

    assert_int_equal(stk_transform_open(&t, chain, NULL, &err), STK_EINVAL);
    assert_null(t);
    if (!strstr(err.message, why))
        fail_msg("%s: %s", chain, err.message);
}

static void test_layouts_and_threads_agree(void **state)
{
    static uint8_t a[N][3 * SIDE * SIDE], b[N][3 * SIDE * SIDE];
    stk_transform *one = opened("random_resized_crop(8) | hflip", 1),
                  *many = opened("random_resized_crop(8) | hflip", 3);
    stk_picture pa[N], pb[N];
    stk_error err;

    (void)state;
    for (int i = 0; i < N; i++) {
        pa[i] = interleaved(i, a[i], sizeof a[i]);
        pb[i] = planar(i, b[i], sizeof b[i]);
    }
    assert_int_equal(stk_transform_run(one, 2, pa, N, &err), 0);
    assert_int_equal(stk_transform_run(many, 2, pb, N, &err), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(stk_transform_run(many, 3, pb, N, &err), 0);
    assert_memory_not_equal(a, b, sizeof a); /* another epoch, other draws */
    assert_int_equal(stk_transform_run(many, 3, pb, 0, &err), 0);
    stk_transform_close(&one);
    stk_transform_close(&many);
    stk_transform_close(&many);
}

/* Upside down and mirrored by strides is upside down and mirrored. */
static void test_negative_strides(void **state)
{
    static uint8_t out[H][W][3];
    stk_picture p = interleaved(0, out, sizeof out);
    stk_transform *t = opened("to(u8, hwc)", 1);
    stk_error err;

    (void)state;
    p.data = &hwc[0][H - 1][W - 1][2];
    p.step_x = -3;
    p.step_y = -W * 3;
    p.step_c = -1;
    assert_int_equal(stk_transform_run(t, 0, &p, 1, &err), 0);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(out[y][x][c], hwc[0][H - 1 - y][W - 1 - x][2 - c]);
    stk_transform_close(&t);
}

static void test_gray_fills_all_channels(void **state)
{
    static uint8_t out[3][H][W];
    stk_picture p = planar(1, out, sizeof out);
    stk_transform *t = opened("image", 1);
    stk_error err;

    (void)state;
    p.channels = 1;
    assert_int_equal(stk_transform_sizes(t, 0, &p, 1, &err), 0);
    assert_int_equal(p.out_width, W);
    assert_int_equal(p.out_height, H);
    assert_int_equal(stk_transform_run(t, 0, &p, 1, &err), 0);
    for (int c = 0; c < 3; c++)
        assert_memory_equal(out[c], chw[1][0], sizeof out[c]);
    stk_transform_close(&t);
}

static void test_info(void **state)
{
    stk_transform_info info = { .size = sizeof info };
    stk_transform *t = opened("from(png) | image | resize((8, 6)) | to(f16, channels_last)", 0);

    (void)state;
    stk_transform_describe(t, &info);
    assert_int_equal(info.dtype, STK_F16);
    assert_int_equal(info.width, 6);
    assert_int_equal(info.height, 8);
    assert_string_equal(info.layout, "channels_last");
    stk_transform_close(&t);
}

static void test_refusals(void **state)
{
    static uint8_t out[3 * SIDE * SIDE];
    stk_transform *t = opened("center_crop(8)", 1);
    stk_picture p[2] = { interleaved(0, out, sizeof out), interleaved(1, out, sizeof out - 1) };
    stk_error err;

    (void)state;
    refused("int", "decoded pictures");
    refused("gunzip | image | resize(8)", "leave `gunzip` away");
    refused("resise(8)", "did you mean `resize`?");
    refused("", "");
    assert_int_equal(stk_transform_run(t, 0, p, 2, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "picture 1: it takes 192 bytes and was given 191"));
    p[0].channels = 4;
    assert_int_equal(stk_transform_sizes(t, 0, p, 2, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "picture 0: it is 40x30 with 4 channels"));
    p[0].channels = 3;
    p[0].width = p[0].height = 65535;
    assert_int_equal(stk_transform_sizes(t, 0, p, 1, &err), STK_ELIMIT);
    stk_transform_close(&t);
}

static void test_every_allocation_may_fail(void **state)
{
    static uint8_t out[N][3 * SIDE * SIDE];
    stk_transform_options o = { .size = sizeof o, .num_workers = 1 };
    stk_picture p[2] = { interleaved(0, out[0], sizeof out[0]),
                         interleaved(1, out[1], sizeof out[1]) };
    stk_transform *t;
    stk_error err;
    int rc = -1;

    (void)state;
    for (uint64_t n = 1; rc < 0 && n < 100; n++) {
        stk_mem_fail_at(n);
        rc = stk_transform_open(&t, "random_resized_crop(8) | hflip", &o, &err);
        if (rc == 0)
            rc = stk_transform_run(t, 0, p, 2, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        stk_transform_close(&t);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_and_threads_agree),
        cmocka_unit_test(test_negative_strides),
        cmocka_unit_test(test_gray_fills_all_channels),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
