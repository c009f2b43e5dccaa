/* SPDX-License-Identifier: Apache-2.0 */
/* yuv.c - see yuv.h.  The plain C of yuv_body.h is the reference. */
#include <config.h>
#include <math.h>

#define YUV(name) stk_yuv_c_##name
#include "kern/yuv_body.h"

const stk_yuv_kern stk_yuv_c_kern = { YUV(down), YUV(across), YUV(color) };

#define BITS 13 /* of coefficients */

static int weights_of(uint32_t matrix, double *kr, double *kb)
{
    static const struct {
        uint32_t matrix;
        double kr, kb;
    } all[] = { { 1, 0.2126, 0.0722 }, { 2, 0.299, 0.114 }, { 4, 0.30, 0.11 },
                { 5, 0.299, 0.114 },   { 6, 0.299, 0.114 }, { 7, 0.212, 0.087 },
                { 9, 0.2627, 0.0593 } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].matrix == matrix) {
            *kr = all[i].kr;
            *kb = all[i].kb;
            return 1;
        }
    return 0;
}

int stk_yuv_init(stk_yuv *c, const stk_planes *p, stk_error *err)
{
    double kr, kb, kg, one = 1 << BITS, y, u;
    double deep = (double)(1u << (p->bits - 8)), most = (double)((1u << p->bits) - 1);

    *c = (stk_yuv){ .shift = BITS + p->bits - 8, .gbr = p->matrix == 0, .wide = p->bits > 8 };
    if (c->gbr)
        return 0;
    if (!weights_of(p->matrix, &kr, &kb))
        return stk_fail(err, STK_ENOTSUP,
                        "colors of matrix %u (H.273) are not converted: BT.601, 709 and 2020 are",
                        p->matrix);
    kg = 1 - kr - kb;
    y = p->full_range ? 255 * deep / most : 255.0 / 219;
    u = p->full_range ? 255 * deep / most : 255.0 / 224;
    c->y_zero = p->full_range ? 0 : 16 << (p->bits - 8);
    c->c_zero = 128 << (p->bits - 8);
    c->y = (int32_t)lround(one * y);
    c->rv = (int32_t)lround(one * u * 2 * (1 - kr));
    c->bu = (int32_t)lround(one * u * 2 * (1 - kb));
    c->gu = (int32_t)lround(one * u * 2 * kb * (1 - kb) / kg);
    c->gv = (int32_t)lround(one * u * 2 * kr * (1 - kr) / kg);
    return 0;
}

static const stk_yuv_kern *kern_of(stk_cpu level)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX512)
        return &stk_yuv_avx512_kern;
    if (level >= STK_CPU_AVX2)
        return &stk_yuv_avx2_kern;
#endif
    (void)level;
    return &stk_yuv_c_kern;
}

/* ---- U and V ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

typedef struct chroma { /* one plane of U or V */
    const uint8_t *data;
    size_t stride;
    uint32_t step, w, h; /* step: 2 of NV12, where values of both take turns */
} chroma;

/* Which two rows row y of Y is between. */
static stk_yuv_row row_of(const stk_planes *p, const chroma *c, uint32_t y)
{
    int top = p->siting == STK_SITING_TOP_LEFT || p->siting == STK_SITING_TOP;
    uint32_t i = p->half_y ? y / 2 : y, a = least(i, c->h - 1), b = a;
    int32_t weight = 0;

    if (p->half_y && top) {
        b = least(i + 1, c->h - 1);
        weight = y & 1 ? 2 : 0;
    } else if (p->half_y) {
        b = y & 1 ? least(i + 1, c->h - 1) : i ? least(i - 1, c->h - 1) : 0;
        weight = 1;
    }
    return (stk_yuv_row){ c->data + a * c->stride, c->data + b * c->stride, weight, c->step,
                          p->bits > 8 };
}

/* U or V of a row for the columns of `need`, 16 times as large.  t: room for half of them. */
static uint16_t *spread(const stk_yuv_kern *k, const stk_planes *p, const stk_yuv_row *r,
                        const stk_rect *need, uint32_t width, uint16_t *t)
{
    int left = p->siting != STK_SITING_CENTER && p->siting != STK_SITING_TOP;
    uint32_t first = need->x / 2, n = (need->x + need->w + 1) / 2 - first;
    uint32_t lo = first ? first - 1 : 0, hi = least(first + n + 1, width);
    uint16_t *out = t + n + 8;

    if (!p->half_x) {
        k->down(r, need->x, need->w, t);
        for (uint32_t i = 0; i < need->w; i++)
            t[i] = (uint16_t)(4 * t[i]);
        return t;
    }
    k->down(r, lo, hi - lo, t + (first ? 0 : 1));
    if (!first)
        t[0] = t[1];
    if (hi < first + n + 1) /* beyond the last one */
        t[n + 1] = t[n];
    k->across(t, n, left, out);
    return out + (need->x & 1);
}

/* ---- pixels ---- */

static inline uint32_t value(const uint8_t *row, int wide, uint32_t x)
{
    return wide ? (uint32_t)row[2 * x] | (uint32_t)row[2 * x + 1] << 8 : row[x];
}

static void gbr_row(const stk_planes *p, uint32_t y, const stk_rect *need, uint32_t *dst)
{
    const uint32_t shift = p->bits - 8, half = shift ? 1u << (shift - 1) : 0;

    for (uint32_t i = 0; i < need->w; i++) {
        dst[i] = 0;
        for (uint32_t k = 0; k < 3; k++) { /* planes are G, B, R */
            const uint8_t *row = p->data[(k + 2) % 3] + y * p->stride[(k + 2) % 3];
            uint32_t v = (value(row, shift > 0, need->x + i) + half) >> shift;

            dst[i] |= least(v, 255) << (8 * k);
        }
    }
}

void stk_yuv_rgbx(stk_cpu level, const stk_yuv *c, const stk_planes *p, const stk_rect *need,
                  uint16_t *room, uint32_t *dst)
{
    const uint32_t cw = p->half_x ? (p->area.w + 1) / 2 : p->area.w;
    const uint32_t ch = p->half_y ? (p->area.h + 1) / 2 : p->area.h;
    const stk_yuv_kern *k = kern_of(level);
    const int both = p->kind == STK_PLANES_NV12;
    const chroma plane[2] = { { p->data[1], p->stride[1], both ? 2 : 1, cw, ch },
                              { both && p->data[1] ? p->data[1] + 1 : p->data[2],
                                p->stride[both ? 1 : 2], both ? 2 : 1, cw, ch } };
    uint16_t *second = room + STK_YUV_ROOM(need->w);
    const uint16_t *u = room, *v = room;

    for (uint32_t i = 0; !p->data[1] && i < need->w; i++)
        room[i] = (uint16_t)(c->c_zero * 16); /* gray */
    for (uint32_t y = need->y; y < need->y + need->h; y++, dst += need->w) {
        if (c->gbr) {
            gbr_row(p, y, need, dst);
            continue;
        }
        if (p->data[1]) {
            stk_yuv_row a = row_of(p, &plane[0], y), b = row_of(p, &plane[1], y);

            u = spread(k, p, &a, need, cw, room);
            v = spread(k, p, &b, need, cw, second);
        }
        k->color(c, p->data[0] + y * p->stride[0] + ((size_t)need->x << c->wide), u, v, need->w,
                 dst);
    }
}
