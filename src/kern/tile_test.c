/* SPDX-License-Identifier: Apache-2.0 */
/* Every loop at every CPU level gives the bits of plain C, for every width, and touches nothing
 * past it; runs of actions give what the actions give one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scratch.h"
#include "config.h"
#include "kern/jpeg_loss.h"
#include "kern/kern.h"
#include "kern/normal.h"
#include "kern/pixel.h"
#include "kern/point.h"
#include "kern/tile.h"

#define MAX 67 /* every tail of every vector width */
#define PAD 16

static uint32_t next_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 32);
}

static void fill(uint32_t *px, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        px[i] = next_random(&seed);
        if (i % 7 == 0)
            px[i] = (px[i] & 255) * 0x01010101u; /* grays: no hue */
    }
}

static stk_action made(uint16_t code, uint64_t *s)
{
    stk_action a = { .code = code };

    for (int i = 0; i < 12; i++)
        a.v.u[i] = next_random(s);
    switch (code) {
    case STK_ACT_BRIGHTNESS:
    case STK_ACT_CONTRAST:
    case STK_ACT_saturation: a.v.f[0] = (float)(next_random(s) % 300) / 100; break;
    case STK_ACT_solarize: a.v.u[0] %= 257; break;
    case STK_ACT_posterize: a.v.u[0] &= 255; break;
    case STK_ACT_hue: a.v.u[0] %= 6 * 65536; break;
    case STK_ACT_channel_shuffle: a.v.u[0] = 0x12; break;
    case STK_ACT_hsv:
        a.v.u[0] %= 6 * 65536;
        a.v.f[1] = (float)(next_random(s) % 200) / 100;
        a.v.f[2] = (float)(next_random(s) % 200) / 100;
        break;
    case STK_ACT_NOISE:
        a.v.f[5] = 3;
        a.v.f[6] = 25.5f;
        break;
    case STK_ACT_BLUR:
        a.v.u[0] %= 12;
        a.v.u[1] %= 12;
        a.v.f[2] = (float)(1 + next_random(s) % 400) / 100;
        break;
    case STK_ACT_JPEG: a.v.u[0] = 1 + a.v.u[0] % 100; break;
    case STK_ACT_SHARPNESS: a.v.f[0] = (float)(next_random(s) % 300) / 100; break;
    default: break;
    }
    return a;
}

static void run(const stk_tile_kern *k, const stk_action *a, uint32_t n, uint32_t *px,
                const uint32_t size[2])
{
    stk_tile t = { px, size[0], size[1] };
    stk_scratch scratch = { 0 };
    stk_tile_room room = { .scratch = &scratch };
    stk_error err;

    assert_int_equal(stk_tile_run(k, a, n, &t, &room, &err), 0);
    if (t.data != px)
        memcpy(px, t.data, (size_t)size[0] * size[1] * 4); /* it moved */
    stk_scratch_fini(&scratch);
}

static int same_colors(const uint32_t *a, const uint32_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((a[i] ^ b[i]) & 0xffffff)
            return 0;
    return 1;
}

#define STK_PIXEL(name) STK_ACT_##name,
static const uint16_t codes[] = {
    STK_ACT_BRIGHTNESS, STK_ACT_CONTRAST, STK_ACT_AUTOCONTRAST, STK_ACT_EQUALIZE,
    STK_ACT_NOISE,      STK_ACT_BLUR,     STK_ACT_SHARPNESS,    STK_ACT_JPEG,
#include "op/pixels.def"
};
#define CODES (sizeof codes / sizeof *codes)

/* Tables that this machine can run, but for the reference. */
static uint32_t all_tables(const stk_tile_kern *out[3])
{
    uint32_t n = 0;

#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX2)
        out[n++] = &stk_tile_avx2;
    if (stk_cpu_level() >= STK_CPU_AVX512)
        out[n++] = &stk_tile_avx512;
    if (stk_kern_table(stk_cpu_level())->tile == &stk_tile_vbmi)
        out[n++] = &stk_tile_vbmi;
#endif
    return n;
}

static void agree(const stk_tile_kern *k, const stk_action *a, uint32_t w, uint64_t seed)
{
    uint32_t ref[MAX * 3 + PAD], got[MAX * 3 + PAD], was[MAX * 3 + PAD];
    const uint32_t size[2] = { w, 1 + w % 3 };
    size_t n = (size_t)size[0] * size[1];

    fill(was, MAX * 3 + PAD, seed);
    memcpy(ref, was, sizeof ref);
    memcpy(got, was, sizeof got);
    run(&stk_tile_c, a, 1, ref, size);
    run(k, a, 1, got, size);
    assert_true(same_colors(ref, got, n));
    assert_memory_equal(got + n, was + n, sizeof was - n * 4);
    assert_memory_equal(ref + n, was + n, sizeof was - n * 4);
}

static void levels_agree(void **state)
{
    const stk_tile_kern *table[3];
    uint32_t n = all_tables(table);
    uint64_t seed = 1;

    (void)state;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < CODES; c++)
            for (uint32_t w = 0; w <= MAX; w++) {
                stk_action a = made(codes[c], &seed);

                agree(table[t], &a, w, w + 1000u * c);
            }
}

/* A block that is quantized by multiplications is what divisions make of it, at every level: noise,
 * flat and extreme blocks, every quantizer. */
static void blocks_are_the_reference(void **state)
{
    const stk_tile_kern *table[4] = { &stk_tile_c };
    uint32_t n = 1 + all_tables(table + 1);
    uint64_t seed = 3;

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        uint8_t was[8 * 24], ref[8 * 24];
        uint16_t q[64];
        stk_quantizers fast;

        for (int i = 0; i < 8 * 24; i++) {
            uint32_t r = next_random(&seed);

            was[i] = (uint8_t)(round % 3 == 0 ? r : round % 3 == 1 ? (r & 1 ? 255 : 0) : round);
        }
        for (int i = 0; i < 64; i++) {
            q[i] = (uint16_t)(1 + next_random(&seed) % 255);
            fast.q[i] = q[i];
            fast.inverse[i] = ((1u << 20) + q[i] - 1u) / q[i];
        }
        memcpy(ref, was, sizeof ref);
        for (int x = 0; x < 24; x += 8)
            stk_block_loss(ref + x, 24, q);
        for (uint32_t t = 0; t < n; t++) {
            uint8_t got[8 * 24];

            memcpy(got, was, sizeof got);
            table[t]->jpeg_loss(got, 24, &fast);
            assert_memory_equal(got, ref, sizeof ref);
        }
    }
    for (int32_t q = 1; q < 256; q++)
        for (int32_t v = -9300; v <= 9300; v++)
            if (stk_quantized(v, q) !=
                stk_quantized_by(v, q, ((1u << 20) + (uint32_t)q - 1) / (uint32_t)q))
                fail_msg("quantizer %d of %d", q, v);
}

/* Fused or one by one: the same. */
static void runs_are_their_parts(void **state)
{
    const stk_tile_kern *k = stk_kern_table(stk_cpu_level())->tile;
    static uint32_t one[70 * 61], all[70 * 61];
    const uint32_t size[2] = { 70, 61 };
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 60; round++) {
        stk_action a[14];
        uint32_t n = 1 + next_random(&seed) % 14;

        for (uint32_t i = 0; i < n; i++)
            a[i] = made(codes[next_random(&seed) % CODES], &seed);
        fill(one, 70 * 61, (uint64_t)round);
        memcpy(all, one, sizeof all);
        run(k, a, n, all, size);
        for (uint32_t i = 0; i < n; i++)
            run(k, &a[i], 1, one, size);
        assert_true(same_colors(one, all, 70 * 61));
    }
}

/* Noise is addressed: block i / 2 of the stream, two words a pixel. */
static void noise_is_its_stream(void **state)
{
    uint32_t px[77];
    stk_action a = { .code = STK_ACT_NOISE, .v.u = { 1, 2, 3, 4, 5 } };
    const stk_rng_stream s = { { 1, 2 }, { 3, 4, 5 } };

    (void)state;
    a.v.f[5] = 2;
    a.v.f[6] = 20;
    for (uint32_t i = 0; i < 77; i++)
        px[i] = 0x808080;
    run(stk_kern_table(stk_cpu_level())->tile, &a, 1, px, (uint32_t[2]){ 7, 11 });
    for (uint32_t i = 0; i < 77; i++) {
        uint32_t bits[4];
        stk_pair p, q;

        stk_rng_stream_block(&s, i / 2, bits);
        p = stk_normal_pair(bits[2 * (i & 1)]);
        q = stk_normal_pair(bits[2 * (i & 1) + 1]);
        assert_int_equal(px[i], stk_px(stk_pt_cut(128 + (p.a * 20 + 2.5f)),
                                       stk_pt_cut(128 + (p.b * 20 + 2.5f)),
                                       stk_pt_cut(128 + (q.a * 20 + 2.5f))));
    }
}

/* Every value and every threshold, with any neighbours. */
static void solarize_is_by_value(void **state)
{
    stk_action a = { .code = STK_ACT_solarize, .n = 1 };
    uint64_t s = 5;

    (void)state;
    for (a.v.u[0] = 0; a.v.u[0] <= 257; a.v.u[0]++)
        for (uint32_t v = 0; v < 256; v++) {
            uint32_t px = next_random(&s) & 0xffff0000u, got, want = v >= a.v.u[0] ? 255 - v : v;

            got = stk_pixel_solarize(px | v << 8 | v, &a);
            assert_int_equal(got & 0xffff, want << 8 | want);
            got = stk_pixel_solarize(v << 16 | (px >> 16), &a);
            assert_int_equal(got >> 16 & 255, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(solarize_is_by_value),
        cmocka_unit_test(blocks_are_the_reference),
        cmocka_unit_test(runs_are_their_parts),
        cmocka_unit_test(noise_is_its_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
