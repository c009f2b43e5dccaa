/* SPDX-License-Identifier: Apache-2.0 */
/* tile_body.h - the loops of tile.h, which a compiler turns into vectors.  STK_TILE names the table. */
#include "kern/point.h"
#include "kern/tile.h"

static void linear(uint32_t *px, size_t n, float mul, float add)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_px(stk_pt_linear(stk_px_r(px[i]), mul, add),
                       stk_pt_linear(stk_px_g(px[i]), mul, add),
                       stk_pt_linear(stk_px_b(px[i]), mul, add));
}

static void flip(uint32_t *px, size_t n, uint32_t mask)
{
    for (size_t i = 0; i < n; i++)
        px[i] ^= mask;
}

static void keep(uint32_t *px, size_t n, uint32_t mask)
{
    for (size_t i = 0; i < n; i++)
        px[i] &= mask;
}

static void solarize(uint32_t *px, size_t n, uint32_t from)
{
    uint8_t *p = (uint8_t *)px, first = (uint8_t)from;

    if (from > 255)
        return;
    for (size_t i = 0; i < 4 * n; i++)
        p[i] = p[i] >= first ? (uint8_t)~p[i] : p[i];
}

static void table(uint32_t *px, size_t n, const stk_tables *t)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = px[i];

        px[i] = stk_px(t->of[0][x & 255], t->of[1][x >> 8 & 255], t->of[2][x >> 16 & 255]);
    }
}

static void saturation(uint32_t *px, size_t n, float mul)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_pt_saturation(px[i], mul);
}

static void hue(uint32_t *px, size_t n, int32_t turn)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_pt_hue(px[i], turn);
}

static void hsv(uint32_t *px, size_t n, const stk_action *a)
{
    int32_t turn = (int32_t)a->v.u[0];
    float sat = a->v.f[1], val = a->v.f[2];

    for (size_t i = 0; i < n; i++)
        px[i] = stk_pt_hsv(px[i], turn, sat, val);
}

static void grayscale(uint32_t *px, size_t n)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_pt_grayscale(px[i]);
}

static void shuffle(uint32_t *px, size_t n, uint32_t order)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_pt_shuffle(px[i], order);
}

static uint64_t gray_sum(const uint32_t *px, size_t n)
{
    uint64_t all = 0;

    for (size_t at = 0; at < n; at += 65536) { /* 255 * 65536 fits */
        size_t end = n - at < 65536 ? n : at + 65536;
        uint32_t sum = 0;

        for (size_t i = at; i < end; i++)
            sum += (uint32_t)stk_pt_gray(px[i]);
        all += sum;
    }
    return all;
}

/* Bytes side by side, as many as a vector has. */
static void range(const uint32_t *px, size_t n, uint32_t *min, uint32_t *max)
{
    const uint8_t *p = (const uint8_t *)px;
    uint8_t lo[32], hi[32], *l = (uint8_t *)min, *h = (uint8_t *)max;
    size_t i = 0;

    for (int k = 0; k < 32; k++) {
        lo[k] = l[k & 3];
        hi[k] = h[k & 3];
    }
    for (; i + 32 <= 4 * n; i += 32)
        for (int k = 0; k < 32; k++) {
            lo[k] = p[i + (size_t)k] < lo[k] ? p[i + (size_t)k] : lo[k];
            hi[k] = p[i + (size_t)k] > hi[k] ? p[i + (size_t)k] : hi[k];
        }
    for (int k = 0; k < 32; k++) {
        l[k & 3] = lo[k] < l[k & 3] ? lo[k] : l[k & 3];
        h[k & 3] = hi[k] > h[k & 3] ? hi[k] : h[k & 3];
    }
    for (; i < 4 * n; i++) {
        l[i & 3] = p[i] < l[i & 3] ? p[i] : l[i & 3];
        h[i & 3] = p[i] > h[i & 3] ? p[i] : h[i & 3];
    }
}

static void count(const uint32_t *px, size_t n, uint32_t out[3][256])
{
    uint32_t odd[3][256] = { { 0 } }; /* two of each: neighbours are often equal */
    size_t i = 0;

    for (; i + 2 <= n; i += 2)
        for (int c = 0; c < 3; c++) {
            out[c][px[i] >> 8 * c & 255]++;
            odd[c][px[i + 1] >> 8 * c & 255]++;
        }
    for (; i < n; i++)
        for (int c = 0; c < 3; c++)
            out[c][px[i] >> 8 * c & 255]++;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            out[c][v] += odd[c][v];
}

const stk_tile_kern STK_TILE = { .linear = linear,
                                 .flip = flip,
                                 .keep = keep,
                                 .solarize = solarize,
                                 .table = table,
                                 .saturation = saturation,
                                 .hue = hue,
                                 .hsv = hsv,
                                 .grayscale = grayscale,
                                 .shuffle = shuffle,
                                 .gray_sum = gray_sum,
                                 .range = range,
                                 .count = count };
