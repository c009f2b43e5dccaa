/* SPDX-License-Identifier: Apache-2.0 */
/* transform_test.c - decoded pictures and recordings through a chain: strides, gray, bounds,
 * errors, failing memory.  That pixels and samples are a loader's is looked at in
 * python/tests/test_transform.py and tests/sound/test_transform_sound.py. */
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
    refused("fbank(80)", "put `sound` before it");
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

/* ---- recordings ---- */

enum { LONG = 4000, SHORT = 2500 };

static float wave[2][LONG];

static void fill_waves(void)
{
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < LONG; i++)
            wave[c][i] = (float)((i * 37 + c * 11) % 201 - 100) / 128;
}

static stk_recording recording(uint64_t samples)
{
    return (stk_recording){
        .data = wave[0], .samples = samples, .channels = 2, .rate = 8000, .step_c = sizeof wave[0]
    };
}

static stk_transform *hears(const char *chain, uint32_t rate)
{
    stk_transform_options o = { .size = sizeof o, .num_workers = 2, .seed = 5, .rate = rate };
    stk_transform *t = NULL;
    stk_error err;

    if (stk_transform_open(&t, chain, &o, &err) < 0)
        fail_msg("%s", err.message);
    return t;
}

static void let_go(stk_tensor *out, int n)
{
    for (int i = 0; i < n; i++)
        if (out[i].buffer)
            stk_buffer_unref(out[i].buffer);
}

static void test_recordings(void **state)
{
    stk_recording in[2] = { recording(LONG), recording(SHORT) };
    stk_transform_info info = { .size = sizeof info };
    stk_transform *t = hears("sound(mono=false)", 0);
    stk_tensor out[2];
    stk_error err;

    (void)state;
    stk_transform_describe(t, &info);
    assert_int_equal(info.sound, 1);
    assert_int_equal(info.ndim, 0);
    assert_int_equal(info.dtype, STK_F32);
    in[1].data = wave[1]; /* the channels, the other way round */
    in[1].step_c = -in[1].step_c;
    assert_int_equal(stk_transform_run_sound(t, 0, in, 2, out, &err), 0);
    assert_int_equal(out[0].ndim, 2);
    assert_int_equal(out[0].shape[1], LONG);
    assert_int_equal(out[1].strides[0], SHORT);
    assert_memory_equal(out[0].data, wave, sizeof wave);
    assert_memory_equal(out[1].data, wave[1], SHORT * sizeof(float));
    assert_memory_equal((float *)out[1].data + SHORT, wave[0], SHORT * sizeof(float));
    let_go(out, 2);
    assert_int_equal(stk_transform_run_sound(t, 0, in, 0, out, &err), 0);
    stk_transform_close(&t);
}

static void test_rows_of_one_shape(void **state)
{
    stk_recording in[2] = { recording(LONG), recording(SHORT) };
    stk_transform_info info = { .size = sizeof info };
    stk_transform *t = hears("part(0.1, 0.2) | pad_to(0.25) | to(f16)", 8000);
    stk_tensor out[2];
    stk_error err;

    (void)state;
    stk_transform_describe(t, &info);
    assert_int_equal(info.ndim, 1);
    assert_int_equal(info.shape[0], 2000);
    assert_int_equal(info.dtype, STK_F16);
    assert_int_equal(stk_transform_run_sound(t, 0, in, 2, out, &err), 0);
    assert_ptr_equal(out[1].data, (char *)out[0].data + 4000);
    assert_memory_equal(out[0].data, out[1].data, 4000); /* one part of the same samples */
    let_go(out, 2);
    stk_transform_close(&t);
}

static void test_bad_recordings(void **state)
{
    stk_recording in[2] = { recording(LONG), recording(SHORT) };
    stk_transform_options o = { .size = sizeof o, .rate = 8000 };
    stk_transform *t = hears("part(0.4)", 8000), *pictures = opened("hflip", 1);
    static uint8_t room[8];
    stk_picture p = interleaved(0, room, sizeof room);
    stk_tensor out[2];
    stk_error err;

    (void)state;
    assert_int_equal(stk_transform_run_sound(t, 0, in, 2, out, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "recording 1: part: the recording has 0.312 seconds"));
    assert_null(out[0].buffer);
    in[0].rate = 0;
    assert_int_equal(stk_transform_run_sound(t, 0, in, 1, out, &err), STK_ECORRUPT);
    in[0].rate = 8000;
    in[0].channels = 257;
    assert_int_equal(stk_transform_run_sound(t, 0, in, 1, out, &err), STK_ECORRUPT);
    assert_int_equal(stk_transform_run_sound(pictures, 0, in, 1, out, &err), STK_EINVAL);
    assert_int_equal(stk_transform_run(t, 0, &p, 1, &err), STK_EINVAL);
    assert_int_equal(stk_transform_sizes(t, 0, &p, 1, &err), STK_EINVAL);
    assert_int_equal(stk_transform_run_gpu(t, 0, &p, 1, NULL, &err), STK_EINVAL);
    stk_transform_close(&t);
    stk_transform_close(&pictures);
    assert_int_equal(stk_transform_open(&t, "image | hflip", &o, &err), STK_EINVAL);
    o.rate = 4000001;
    assert_int_equal(stk_transform_open(&t, "gain(3)", &o, &err), STK_EINVAL);
    assert_null(t);
}

static void test_every_allocation_for_sound_may_fail(void **state)
{
    stk_transform_options o = { .size = sizeof o, .num_workers = 1, .rate = 16000 };
    stk_recording in[2] = { recording(LONG), recording(SHORT) };
    stk_tensor out[2];
    stk_transform *t;
    stk_error err;
    int rc = -1;

    (void)state;
    for (uint64_t n = 1; rc < 0 && n < 500; n++) {
        stk_mem_fail_at(n);
        rc = stk_transform_open(&t, "speed(0.9, 1.1) | fbank(20)", &o, &err);
        if (rc == 0)
            rc = stk_transform_run_sound(t, 0, in, 2, out, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        if (rc == 0)
            let_go(out, 2);
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
        cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_rows_of_one_shape),
        cmocka_unit_test(test_bad_recordings),
        cmocka_unit_test(test_every_allocation_for_sound_may_fail),
    };

    fill();
    fill_waves();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
