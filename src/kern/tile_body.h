/* SPDX-License-Identifier: Apache-2.0 */
/* tile_body.h - the loops of tile.h, which a compiler turns into vectors.  The files that compile
 * them for a CPU define STK_TILE, the name of the table, and include this one. */
#include <string.h>

#include "kern/near.h"
#include "kern/normal.h"
#include "kern/pixel.h"
#include "kern/point.h"
#include "kern/tile.h"
#include "kern/tile_jpeg_body.h"
#include "kern/tile_table_body.h"

static void linear(uint32_t *px, size_t n, float mul, float add)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_px(stk_pt_linear(stk_px_r(px[i]), mul, add),
                       stk_pt_linear(stk_px_g(px[i]), mul, add),
                       stk_pt_linear(stk_px_b(px[i]), mul, add));
}

/* The action is a copy: what is written can't change it. */
#define STK_PIXEL(name)                                                                            \
    static void pixel_##name(uint32_t *px, size_t n, const stk_action *a)                          \
    {                                                                                              \
        const stk_action own = *a;                                                                 \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            px[i] = stk_pixel_##name(px[i], &own);                                                 \
    }
#include "op/pixels.def"

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

/* ---- noise ---- */

#define NOISE_BLOCKS 16u /* two pixels a block */

/* Upper and lower half of a product apart: together they make no vectors. */
static inline uint32_t upper(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Random bits of some blocks (philox.h), a round for all of them at once so that they make
 * vectors. */
static void noise_bits(const stk_rng_stream *s, uint32_t first, uint32_t bits[4][NOISE_BLOCKS])
{
    uint32_t k0 = s->key[0], k1 = s->key[1];

    for (uint32_t i = 0; i < NOISE_BLOCKS; i++) {
        for (int k = 0; k < 3; k++)
            bits[k][i] = s->at[k];
        bits[3][i] = first + i;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (uint32_t i = 0; i < NOISE_BLOCKS; i++) {
            uint32_t x = bits[0][i], y = bits[2][i];

            bits[0][i] = upper(0xCD9E8D57u, y) ^ bits[1][i] ^ k0;
            bits[1][i] = 0xCD9E8D57u * y;
            bits[2][i] = upper(0xD2511F53u, x) ^ bits[3][i] ^ k1;
            bits[3][i] = 0xD2511F53u * x;
        }
}

static void noise_values(const uint32_t *bits, float mean, float dev, float *a, float *b)
{
    for (uint32_t i = 0; i < NOISE_BLOCKS; i++) {
        stk_pair v = stk_normal_pair(bits[i]);

        a[i] = v.a * dev + mean;
        b[i] = v.b * dev + mean;
    }
}

static inline uint32_t noisy(uint32_t x, float r, float g, float b)
{
    return stk_px(stk_pt_cut((float)stk_px_r(x) + r), stk_pt_cut((float)stk_px_g(x) + g),
                  stk_pt_cut((float)stk_px_b(x) + b));
}

/* Pixel i has words 2 (i & 1) and the next of block i / 2: four numbers, of which it takes
 * three. */
static void noise(uint32_t *px, size_t n, uint64_t first, const stk_action *a)
{
    const stk_rng_stream s = { { a->v.u[0], a->v.u[1] }, { a->v.u[2], a->v.u[3], a->v.u[4] } };
    float mean = a->v.f[5] + 0.5f, dev = a->v.f[6], v[4][2][NOISE_BLOCKS];
    uint32_t bits[4][NOISE_BLOCKS], tail[2 * NOISE_BLOCKS] = { 0 }, *p = px;

    for (size_t at = 0; at < n; at += 2 * NOISE_BLOCKS, p += 2 * NOISE_BLOCKS) {
        size_t m = n - at < 2 * NOISE_BLOCKS ? n - at : 2 * NOISE_BLOCKS;
        uint32_t *to = m < 2 * NOISE_BLOCKS ? memcpy(tail, p, m * 4) : p;

        noise_bits(&s, (uint32_t)((first + at) / 2), bits);
        for (int k = 0; k < 4; k++)
            noise_values(bits[k], mean, dev, v[k][0], v[k][1]);
        for (uint32_t i = 0; i < NOISE_BLOCKS; i++) {
            to[2 * i] = noisy(to[2 * i], v[0][0][i], v[0][1][i], v[1][0][i]);
            to[2 * i + 1] = noisy(to[2 * i + 1], v[2][0][i], v[2][1][i], v[3][0][i]);
        }
        if (to == tail)
            memcpy(p, tail, m * 4);
    }
}

/* ---- neighbours ---- */

#define SPAN 256 /* bytes whose sums stay in registers and L1 */

static void blur_across(uint16_t *dst, const uint8_t *src, size_t n, const uint16_t *w,
                        uint32_t half)
{
    const uint8_t *mid = src + 4 * (size_t)half;
    uint16_t sum[SPAN];

    for (size_t at = 0; at < n; at += SPAN) {
        size_t m = n - at < SPAN ? n - at : SPAN;

        for (size_t i = 0; i < m; i++)
            sum[i] = stk_blur_begin(half);
        for (uint32_t k = 0; k <= half; k++) {
            const uint8_t *a = mid + at - 4 * (size_t)k, *b = mid + at + 4 * (size_t)k;

            for (size_t i = 0; i < m; i++)
                sum[i] = (uint16_t)(sum[i] + stk_blur_pair(a[i], b[i], w[k]));
        }
        memcpy(dst + at, sum, m * sizeof *sum);
    }
}

static void blur_down(uint8_t *dst, const uint16_t *const *rows, size_t n, const uint16_t *w,
                      uint32_t half)
{
    uint16_t sum[SPAN];

    for (size_t at = 0; at < n; at += SPAN) {
        size_t m = n - at < SPAN ? n - at : SPAN;

        for (size_t i = 0; i < m; i++)
            sum[i] = stk_blur_begin(half);
        for (uint32_t k = 0; k <= half; k++) {
            const uint16_t *a = rows[half - k] + at, *b = rows[half + k] + at;

            for (size_t i = 0; i < m; i++)
                sum[i] = (uint16_t)(sum[i] + stk_blur_pair_down(a[i], b[i], w[k]));
        }
        for (size_t i = 0; i < m; i++)
            dst[at + i] = stk_blur_end(sum[i]);
    }
}

static void sharpen(uint32_t *dst, const uint32_t *const src[3], size_t n, float away)
{
    const uint8_t *a = (const uint8_t *)src[0], *b = (const uint8_t *)src[1],
                  *c = (const uint8_t *)src[2];
    uint8_t *out = (uint8_t *)dst;
    int16_t sum[SPAN];

    for (size_t at = 0; at < 4 * n; at += SPAN) {
        size_t m = 4 * n - at < SPAN ? 4 * n - at : SPAN;

        for (size_t i = 0; i < m; i++) {
            const uint8_t *p = a + at + i, *q = b + at + i, *r = c + at + i;

            sum[i] = (int16_t)(p[-4] + p[0] + p[4] + q[-4] + 5 * q[0] + q[4] + r[-4] + r[0] + r[4]);
        }
        for (size_t i = 0; i < m; i++)
            out[at + i] = stk_sharpen(b[at + i], sum[i], away);
    }
}

const stk_tile_kern STK_TILE = { .linear = linear,
                                 .table = table,
                                 .table_is_quick = STK_TABLE_IS_QUICK,
#define STK_PIXEL(name) .pixel[STK_ACT_##name - STK_ACT_PIXEL - 1] = pixel_##name,
#include "op/pixels.def"
                                 .gray_sum = gray_sum,
                                 .range = range,
                                 .count = count,
                                 .noise = noise,
                                 .blur_across = blur_across,
                                 .blur_down = blur_down,
                                 .sharpen = sharpen,
                                 .jpeg_ycc = jpeg_ycc,
                                 .jpeg_half = jpeg_half,
                                 .jpeg_loss = jpeg_loss,
                                 .jpeg_grow = jpeg_grow,
                                 .jpeg_rgb = jpeg_rgb };
