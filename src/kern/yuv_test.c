/* SPDX-License-Identifier: Apache-2.0 */
/* yuv_test - planes to pixels: the same bits at every CPU level, and whatever rectangle is asked
 * for; nothing is written past it.  The definition itself is compared in
 * tests/video/test_clips.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kern/yuv.h"

#define SIDE 150u
#define GUARD 0xa5a5a5a5u

static uint8_t memory[3][SIDE * SIDE * 2 + 64];

/* A frame of random values, w x h. */
static stk_planes planes(stk_rng *rng, uint32_t w, uint32_t h)
{
    static const uint32_t bits[] = { 8, 8, 10, 12 }, matrix[] = { 0, 1, 2, 6, 9 };
    stk_planes p = { .kind = stk_rng_below(rng, 4) ? STK_PLANES_YUV : STK_PLANES_NV12,
                     .bits = bits[stk_rng_below(rng, 4)],
                     .matrix = matrix[stk_rng_below(rng, 5)],
                     .full_range = stk_rng_below(rng, 2),
                     .siting = stk_rng_below(rng, 5),
                     .half_x = stk_rng_below(rng, 3) > 0,
                     .half_y = stk_rng_below(rng, 2),
                     .area = { 0, 0, w, h } };

    if (p.kind == STK_PLANES_NV12)
        p.bits = 8, p.matrix = 1;
    if (!p.matrix)
        p.half_x = p.half_y = 0;
    for (uint32_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < sizeof memory[k]; i++)
            memory[k][i] = (uint8_t)stk_rng_u32(rng);
        for (size_t i = 1; p.bits > 8 && i < sizeof memory[k]; i += 2)
            memory[k][i] &= (uint8_t)((1u << (p.bits - 8)) - 1);
        p.data[k] = memory[k];
        p.stride[k] = SIDE * 2;
    }
    if (!stk_rng_below(rng, 8) && p.matrix)
        p.data[1] = p.data[2] = NULL; /* gray */
    return p;
}

static void convert(stk_cpu level, const stk_planes *p, const stk_rect *need, uint32_t *dst)
{
    uint16_t *room = malloc(2 * STK_YUV_ROOM(need->w) * sizeof *room);
    size_t n = (size_t)need->w * need->h;
    stk_error err;
    stk_yuv c;

    assert_int_equal(stk_yuv_init(&c, p, &err), 0);
    dst[n] = GUARD;
    stk_yuv_rgbx(level, &c, p, need, room, dst);
    assert_int_equal(dst[n], GUARD);
    for (size_t i = 0; i < n; i++)
        dst[i] &= 0xffffff;
    free(room);
}

static void levels_and_rectangles_agree(void **state)
{
    static uint32_t all[SIDE * SIDE + 1], part[SIDE * SIDE + 1];
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, 20261117, 5, 0, 0, 0);
    for (int k = 0; k < 400; k++) {
        uint32_t w = 1 + stk_rng_below(&rng, SIDE - 2), h = 1 + stk_rng_below(&rng, 9);
        stk_planes p = planes(&rng, w, h);
        stk_rect need = { stk_rng_below(&rng, w), stk_rng_below(&rng, h), 0, 0 };

        need.w = 1 + stk_rng_below(&rng, w - need.x);
        need.h = 1 + stk_rng_below(&rng, h - need.y);
        convert(STK_CPU_NONE, &p, &p.area, all);
        for (stk_cpu level = STK_CPU_AVX2; level <= stk_cpu_level(); level++) {
            convert(level, &p, &p.area, part);
            assert_memory_equal(all, part, (size_t)w * h * sizeof *all);
        }
        convert(stk_cpu_level(), &p, &need, part);
        for (uint32_t y = 0; y < need.h; y++)
            assert_memory_equal(part + (size_t)y * need.w, all + (size_t)(need.y + y) * w + need.x,
                                need.w * sizeof *all);
    }
}

static void gray_stays_gray(void **state)
{
    static uint32_t out[SIDE + 1];
    stk_planes p = { .kind = STK_PLANES_YUV,
                     .bits = 8,
                     .matrix = 1,
                     .half_x = 1,
                     .half_y = 1,
                     .area = { 0, 0, 4, 1 },
                     .data = { memory[0], memory[1], memory[2] },
                     .stride = { SIDE, SIDE, SIDE } };
    static const uint8_t luma[] = { 16, 235, 126, 0 };

    (void)state;
    memcpy(memory[0], luma, 4);
    memset(memory[1], 128, 4);
    memset(memory[2], 128, 4);
    convert(STK_CPU_NONE, &p, &p.area, out);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 0xffffff);
    assert_int_equal(out[2], 0x808080);
    assert_int_equal(out[3], 0);
    p.matrix = 8;
    assert_int_equal(stk_yuv_init(&(stk_yuv){ 0 }, &p, NULL), STK_ENOTSUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_rectangles_agree),
        cmocka_unit_test(gray_stays_gray),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
