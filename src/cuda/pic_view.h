/* SPDX-License-Identifier: Apache-2.0 */
/* pic_view.h - turns planes into pixels of the output on a GPU: enlarges chroma, converts color,
 * runs the filters across and down, and converts the type.  It does what kern_c.c and jpeg_idct.c
 * do, for threads that take four pixels each.
 *
 * Sums are exact integers; color is one multiplication and one addition, rounded apart.  Pixels
 * between the passes are words: R, G, B from the low byte on. */
#ifndef STOKER_PIC_VIEW_H
#define STOKER_PIC_VIEW_H

#include "cuda/pic_geom.h"
#include "cuda/pic_idct.h"
#include "kern/patch.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <string.h>
#endif

/* ---- samples ---- */

/* One component of one row of the picture. */
typedef struct stk_pic_line {
    const uint8_t *near, *far; /* the sample row, and the other one that a filter looks at */
    int32_t lo, hi;            /* samples that there are, first and last, counted from near[0] */
    uint32_t x;                /* the component's column of near[0] */
    uint32_t hx, up, bias;
} stk_pic_line;

STK_PIC_FN stk_pic_line stk_pic_line_of(const stk_pic_plane *p, const uint8_t *planes, uint32_t y)
{
    uint32_t row = y / p->vx, other = row, last = p->w - 1 - p->x;
    stk_pic_line l;

    if (y & 1)
        other += row + 1 < p->h;
    else
        other -= row > 0;
    if (p->up != STK_PIC_UP_V2 && p->up != STK_PIC_UP_H2V2)
        other = row;
    l.near = planes + p->at + (uint64_t)(row - p->y) * p->pw;
    l.far = planes + p->at + (uint64_t)(other - p->y) * p->pw;
    l.lo = 0;
    l.hi = (int32_t)(last < p->pw - 1 ? last : p->pw - 1);
    l.x = p->x;
    l.hx = p->hx;
    l.up = p->up;
    l.bias = 1 + (y & 1);
    return l;
}

STK_PIC_FN uint32_t stk_pic_at(const stk_pic_line *l, int32_t i)
{
    return (uint32_t)(i < l->lo ? l->lo : i > l->hi ? l->hi : i);
}

STK_PIC_FN uint32_t stk_pic_word_at(const uint8_t *p)
{
    return *(const uint32_t *)(const void *)p;
}

/* Samples of the pixels x to x + 3, x a multiple of 4; those after the edge mean nothing. */
STK_PIC_FN uint32_t stk_pic_up4(const stk_pic_line *l, uint32_t x)
{
    uint32_t s[4], v = 0;

    if (l->up == STK_PIC_UP_NONE)
        return stk_pic_word_at(l->near + (x - l->x));
    if (l->up == STK_PIC_UP_V2) {
        uint32_t n = stk_pic_word_at(l->near + (x - l->x)),
                 f = stk_pic_word_at(l->far + (x - l->x));

        for (int i = 0; i < 4; i++)
            v |= ((n >> 8 * i & 255) * 3 + (f >> 8 * i & 255) + l->bias) >> 2 << 8 * i;
        return v;
    }
    if (l->up == STK_PIC_UP_BOX) {
        for (uint32_t i = 0; i < 4; i++)
            v |= (uint32_t)l->near[stk_pic_at(l, (int32_t)((x + i) / l->hx - l->x))] << 8 * i;
        return v;
    }
    for (int32_t i = 0; i < 4; i++) {
        uint32_t at = stk_pic_at(l, (int32_t)(x / 2 - l->x) + i - 1);

        s[i] = l->near[at];
        if (l->up == STK_PIC_UP_H2V2)
            s[i] = s[i] * 3 + l->far[at];
    }
    if (l->up == STK_PIC_UP_H2V2)
        return (s[1] * 3 + s[0] + 8) >> 4 | (s[1] * 3 + s[2] + 7) >> 4 << 8 |
               (s[2] * 3 + s[1] + 8) >> 4 << 16 | (s[2] * 3 + s[3] + 7) >> 4 << 24;
    return (s[1] * 3 + s[0] + 1) >> 2 | (s[1] * 3 + s[2] + 2) >> 2 << 8 |
           (s[2] * 3 + s[1] + 1) >> 2 << 16 | (s[2] * 3 + s[3] + 2) >> 2 << 24;
}

/* Y, Cb, Cr to a pixel; sixteen fractional bits, half added, as libjpeg's tables have it. */
STK_PIC_FN uint32_t stk_pic_rgb(uint32_t y, uint32_t cb, uint32_t cr)
{
    int32_t b = (int32_t)cb - 128, r = (int32_t)cr - 128, v[4];

    v[0] = (int32_t)y + ((91881 * r + 32768) >> 16);
    v[1] = (int32_t)y + ((-22554 * b - 46802 * r + 32768) >> 16);
    v[2] = (int32_t)y + ((116130 * b + 32768) >> 16);
    v[3] = 255;
    return stk_pic_pack8(v);
}

/* The i-th of four of each plane; no one looks at the highest byte. */
STK_PIC_FN uint32_t stk_pic_plane3(uint32_t r, uint32_t g, uint32_t b, uint32_t i)
{
#if defined(__CUDA_ARCH__)
    return __byte_perm(__byte_perm(r, g, 0x40 + 0x11 * i), b, 0x0010 | (4 + i) << 8);
#else
    return (r >> 8 * i & 255) | (g >> 8 * i & 255) << 8 | (b >> 8 * i & 255) << 16;
#endif
}

/* The pixels x to x + 3 of a row. */
STK_PIC_FN stk_pic_v4 stk_pic_pixels4(const stk_pic_line line[3], uint32_t n_comps, uint32_t x)
{
    uint32_t y = stk_pic_up4(&line[0], x), cb = 0x80808080u, cr = 0x80808080u, v[4];
    stk_pic_v4 out;

    if (n_comps == 3) {
        cb = stk_pic_up4(&line[1], x);
        cr = stk_pic_up4(&line[2], x);
    }
    for (uint32_t i = 0; i < 4; i++)
        v[i] = stk_pic_rgb(y >> 8 * i & 255, cb >> 8 * i & 255, cr >> 8 * i & 255);
    out.x = v[0];
    out.y = v[1];
    out.z = v[2];
    out.w = v[3];
    return out;
}

/* One row of a picture that is on the GPU. */
typedef struct stk_pic_reach {
    const uint8_t *row; /* pixel 0, red */
    int64_t step_x, step_c;
    uint32_t width;
    uint32_t
        words; /* four pixels from a multiple of 4 on: 1: of each plane, 3: together, are words */
} stk_pic_reach;

STK_PIC_FN stk_pic_reach stk_pic_reach_of(const stk_pic_source *s, uint32_t y)
{
    stk_pic_reach r;

    r.row = s->data + (int64_t)y * s->step_y;
    r.step_x = s->step_x;
    r.step_c = s->step_c;
    r.width = s->width;
    r.words = 0;
    if ((uintptr_t)r.row % 4 == 0) {
        if (r.step_x == 1 && r.step_c % 4 == 0)
            r.words = 1;
        else if (r.step_x == 3 && r.step_c == 1)
            r.words = 3;
    }
    return r;
}

/* Its pixels x to x + 3, x a multiple of 4; those after the edge mean nothing, nor does the highest
 * byte of any. */
STK_PIC_FN stk_pic_v4 stk_pic_reach4(const stk_pic_reach *r, uint32_t x)
{
    const uint8_t *p = r->row + (int64_t)x * r->step_x;
    uint32_t v[4];
    stk_pic_v4 out;

    if (r->words && x + 4 <= r->width) {
        int64_t next = r->words == 3 ? 4 : r->step_c;
        uint32_t a = stk_pic_word_at(p), b = stk_pic_word_at(p + next),
                 c = stk_pic_word_at(p + 2 * next);

        for (uint32_t i = 0; i < 4; i++)
            v[i] = stk_pic_plane3(a, b, c, i);
        out.x = r->words == 3 ? a : v[0];
        out.y = r->words == 3 ? a >> 24 | b << 8 : v[1];
        out.z = r->words == 3 ? b >> 16 | c << 16 : v[2];
        out.w = r->words == 3 ? c >> 8 : v[3];
        return out;
    }
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *q = p + (int64_t)(x + i < r->width ? i : 0) * r->step_x;

        v[i] = q[0] | (uint32_t)q[r->step_c] << 8 | (uint32_t)q[2 * r->step_c] << 16;
    }
    out.x = v[0];
    out.y = v[1];
    out.z = v[2];
    out.w = v[3];
    return out;
}

/* ---- filters ---- */

/* Add two pixels, each with its weight (the low half of w2 is the first's). */
STK_PIC_FN void stk_pic_add2(int32_t sum[3], uint32_t p, uint32_t q, uint32_t w2)
{
#if defined(__CUDA_ARCH__)
    uint32_t rg = __byte_perm(p, q, 0x5140), b = __byte_perm(p, q, 0x7362);

    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum[0]) : "r"(w2), "r"(rg));
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(sum[1]) : "r"(w2), "r"(rg));
    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum[2]) : "r"(w2), "r"(b));
#else
    for (int c = 0; c < 3; c++)
        sum[c] += (int32_t)(p >> 8 * c & 255) * (int16_t)(w2 & 0xFFFF) +
                  (int32_t)(q >> 8 * c & 255) * (int16_t)(w2 >> 16);
#endif
}

STK_PIC_FN uint32_t stk_pic_clamp8(int32_t v)
{
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

STK_PIC_FN uint32_t stk_pic_clamp3(const int32_t sum[3], uint32_t shift)
{
    return stk_pic_clamp8(sum[0] >> shift) | stk_pic_clamp8(sum[1] >> shift) << 8 |
           stk_pic_clamp8(sum[2] >> shift) << 16;
}

/* Sums of weights >> 8, to which those of weights & 255 are added next. */
STK_PIC_FN void stk_pic_widen(int32_t sum[3], int32_t half)
{
    for (int c = 0; c < 3; c++)
        sum[c] = (int32_t)((uint32_t)sum[c] << 8) + half;
}

#define STK_PIC_LINE 648 /* pixels of a row that the pass across holds at once, and a few more */

/* Outputs that one pass of a row makes: from j on, as many as have their inputs in one line.
 * *lo, *hi: those inputs, counted from the side's lo; the number of outputs. */
STK_PIC_FN uint32_t stk_pic_tile(const uint8_t *taps, const stk_pic_side *s, uint32_t j,
                                 uint32_t *lo, uint32_t *hi)
{
    const uint32_t *word = (const uint32_t *)(const void *)(taps + s->at);
    uint32_t n = s->end - j;

    for (;; n = (n + 1) / 2) {
        uint32_t a = word[j], b = word[j + n - 1];

        if ((b & 0xFFFF) < (a & 0xFFFF)) { /* mirrored */
            uint32_t t = a;

            a = b;
            b = t;
        }
        *lo = a & 0xFFFF;
        *hi = (b & 0xFFFF) + (b >> 16);
        if (*hi < *lo + (a >> 16))
            *hi = *lo + (a >> 16);
        if (*hi - *lo <= STK_PIC_LINE - 16 || n == 1)
            return n;
    }
}

/* Output j of two rows: their pixels from input `base` (counted from lo) on are `pitch` apart, each
 * readable one further than any window. */
STK_PIC_FN stk_pic_v2 stk_pic_across2(const uint8_t *taps, const stk_pic_side *s, uint32_t j,
                                      const uint32_t *row, uint32_t pitch, uint32_t base)
{
    const uint32_t *word = (const uint32_t *)(const void *)(taps + s->at);
    const uint32_t *w2 = word + s->n + (uint64_t)j * (s->stride / 2 << s->fine);
    const uint32_t *p = row + ((word[j] & 0xFFFF) - base);
    uint32_t count = word[j] >> 16, shift = s->shift;
    int32_t half = 1 << (shift - 1), from = s->fine ? 0 : half;
    int32_t a[3] = { from, from, from }, b[3] = { from, from, from };
    stk_pic_v2 out = { 0, 0 };

    if (!count)
        return out;
    if (s->stride == 1) {
        out.x = p[0];
        out.y = p[pitch];
        return out;
    }
    for (uint32_t part = 0;; part++, w2 += s->stride / 2) {
        for (uint32_t k = 0; k < count; k += 2) {
            uint32_t two = w2[k / 2];

            stk_pic_add2(a, p[k], p[k + 1], two);
            stk_pic_add2(b, p[pitch + k], p[pitch + k + 1], two);
        }
        if (part == s->fine)
            break;
        stk_pic_widen(a, half);
        stk_pic_widen(b, half);
    }
    out.x = stk_pic_clamp3(a, shift);
    out.y = stk_pic_clamp3(b, shift);
    return out;
}

/* Sums of four neighbouring pixels of output row j, before the shift; returns 0 where the row is
 * black.  rows: those of the job from the first pixel on, `pixels` apart.  sum: zero, or half of a
 * unit where weights are not fine. */
STK_PIC_FN uint32_t stk_pic_down4(const uint8_t *taps, const stk_pic_side *s, uint32_t j,
                                  const uint32_t *rows, uint32_t pixels, int32_t sum[4][3])
{
    const uint32_t *word = (const uint32_t *)(const void *)(taps + s->at);
    const uint16_t *w = (const uint16_t *)(const void *)(word + s->n) +
                        (uint64_t)j * (s->stride << s->fine);
    uint32_t count = word[j] >> 16;
    const uint32_t *p = rows + (uint64_t)(word[j] & 0xFFFF) * pixels;

    for (uint32_t part = 0;; part++, w += s->stride) {
        for (uint32_t k = 0; k < count; k += 2) {
            uint32_t two = k + 1 < count; /* a window's last row may be the picture's */
            uint32_t w2 = w[k] | (two ? (uint32_t)w[k + 1] << 16 : 0);
            stk_pic_v4 a = *(const stk_pic_v4 *)(const void *)(p + (uint64_t)k * pixels);
            stk_pic_v4 b = *(const stk_pic_v4 *)(const void *)(p + (uint64_t)(k + two) * pixels);

            stk_pic_add2(sum[0], a.x, b.x, w2);
            stk_pic_add2(sum[1], a.y, b.y, w2);
            stk_pic_add2(sum[2], a.z, b.z, w2);
            stk_pic_add2(sum[3], a.w, b.w, w2);
        }
        if (part == s->fine)
            return count;
        for (int i = 0; i < 4; i++)
            stk_pic_widen(sum[i], 1 << (s->shift - 1));
    }
}

/* ---- color and type ---- */

STK_PIC_FN float stk_pic_mul(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

STK_PIC_FN float stk_pic_add(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

STK_PIC_FN uint32_t stk_pic_f32_bits(float v)
{
#if defined(__CUDA_ARCH__)
    return __float_as_uint(v);
#else
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
#endif
}

STK_PIC_FN uint32_t stk_pic_f16_bits(float v)
{
#if defined(__CUDA_ARCH__)
    return __half_as_ushort(__float2half_rn(v));
#else
    uint32_t u = stk_pic_f32_bits(v), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

    if (a >= 0x47800000) /* 65536 and more */
        return sign | 0x7c00;
    if (a < 0x33000000) /* under half of the smallest subnormal */
        return sign;
    if (a < 0x38800000) { /* subnormal: units of 2^-24 */
        uint32_t m = (a & 0x7fffff) | 0x800000, s = 126 - (a >> 23);
        uint32_t q = m >> s, rest = m & ((1u << s) - 1), tie = 1u << (s - 1);

        return sign | (q + (rest > tie || (rest == tie && (q & 1))));
    }
    a += 0xfff + (a >> 13 & 1);
    return sign | (a - 0x38000000) >> 13;
#endif
}

STK_PIC_FN uint32_t stk_pic_bf16_bits(float v)
{
    uint32_t u = stk_pic_f32_bits(v);

    return (u + 0x7fff + (u >> 16 & 1)) >> 16 & 0xFFFF;
}

STK_PIC_FN uint32_t stk_pic_u8_bits(float v)
{
    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    return (uint32_t)stk_pic_add(stk_pic_add(v, 8388608.0f), -8388608.0f);
}

/* What an element becomes, in the low bits. */
STK_PIC_FN uint32_t stk_pic_as(uint32_t dtype, float v)
{
    switch (dtype) {
    case STK_PIC_AS_F16: return stk_pic_f16_bits(v);
    case STK_PIC_AS_BF16: return stk_pic_bf16_bits(v);
    case STK_PIC_AS_F32: return stk_pic_f32_bits(v);
    default: return stk_pic_u8_bits(v);
    }
}

STK_PIC_FN uint32_t stk_pic_elem(uint32_t dtype)
{
    return dtype == STK_PIC_AS_F32 ? 4 : dtype == STK_PIC_AS_U8 ? 1 : 2;
}

/* The output of a picture: lines of pixels, or patches. */
typedef struct stk_pic_target {
    uint8_t *out;
    uint32_t w, h; /* pixels of a line; lines */
    uint32_t packed;
    stk_patch_spec patch; /* side 0: it is not cut */
} stk_pic_target;

/* `laid`: l->laid, which kernels know when they are compiled. */
STK_PIC_FN stk_pic_target stk_pic_target_of(const stk_pic_launch *l, const stk_pic_job *j,
                                            uint32_t w, uint32_t h, int laid)
{
    stk_pic_target t;

    t.out = j->out;
    t.w = laid && j->lay.w ? j->lay.w : w;
    t.h = laid && j->lay.w ? j->lay.h : h;
    t.packed = l->packed;
    t.patch = j->lay.patch;
    if (!laid)
        t.patch.side = 0;
    return t;
}

/* Where a pixel of the output goes, and those after it. */
typedef struct stk_pic_dst {
    uint8_t *at;     /* channel 0, in the first frame */
    uint64_t plane;  /* elements from channel to channel; 1: interleaved */
    uint32_t step;   /* elements from pixel to pixel ... */
    uint32_t run;    /* ... of so many, with this one */
    uint32_t vector; /* four elements (planes) or twelve (interleaved) may be stored as words */
    uint32_t frames, frame; /* equal ones; elements from one to the next */
} stk_pic_dst;

STK_PIC_FN stk_pic_dst stk_pic_dst_at(const stk_pic_target *t, uint32_t x, uint32_t y,
                                      uint32_t dtype)
{
    const stk_patch_spec *p = &t->patch;
    uint32_t elem = stk_pic_elem(dtype), aligned = (uintptr_t)t->out % 16 == 0;
    stk_pic_dst d;

    if (p->side) {
        d.plane = stk_patch_channel(p);
        d.step = p->first ? 1 : 3;
        d.run = p->side - x % p->side;
        d.vector = p->side % 4 == 0 && aligned;
        d.frames = p->frames;
        d.frame = stk_patch_frame(p);
        d.at = t->out + stk_patch_at(p, t->w, x, y) * elem;
        return d;
    }
    d.plane = t->packed ? 1 : (uint64_t)t->w * t->h;
    d.step = t->packed ? 3 : 1;
    d.run = t->w - x;
    d.vector = t->w % 4 == 0 && aligned;
    d.frames = 1;
    d.frame = 0;
    d.at = t->out + ((uint64_t)y * t->w + x) * d.step * elem;
    return d;
}

STK_PIC_FN void stk_pic_put_elem(uint8_t *at, uint32_t dtype, uint32_t v)
{
    switch (stk_pic_elem(dtype)) {
    case 1: *at = (uint8_t)v; break;
    case 2: *(uint16_t *)(void *)at = (uint16_t)v; break;
    default: *(uint32_t *)(void *)at = v; break;
    }
}

/* Four elements side by side, as few words as they take. */
STK_PIC_FN void stk_pic_put4(uint8_t *at, uint32_t dtype, const uint32_t v[4])
{
    uint32_t elem = stk_pic_elem(dtype);

    if (elem == 1) {
        *(uint32_t *)(void *)at = v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24;
    } else if (elem == 2) {
        stk_pic_v2 two = { v[0] | v[1] << 16, v[2] | v[3] << 16 };

        *(stk_pic_v2 *)(void *)at = two;
    } else {
        stk_pic_v4 four = { v[0], v[1], v[2], v[3] };

        *(stk_pic_v4 *)(void *)at = four;
    }
}

/* One pixel, into all frames. */
STK_PIC_FN void stk_pic_store1(const stk_pic_dst *d, uint32_t dtype, const uint32_t v[3])
{
    uint32_t elem = stk_pic_elem(dtype);
    uint8_t *at = d->at;

    for (uint32_t f = 0; f < d->frames; f++, at += d->frame * elem)
        for (uint32_t c = 0; c < 3; c++)
            stk_pic_put_elem(at + c * d->plane * elem, dtype, v[c]);
}

/* Four pixels, as few words as they take. */
STK_PIC_FN void stk_pic_store_words(const stk_pic_dst *d, uint32_t dtype, const uint32_t v[4][3])
{
    uint32_t elem = stk_pic_elem(dtype);
    uint8_t *at = d->at;

    for (uint32_t f = 0; f < d->frames; f++, at += d->frame * elem)
        for (int c = 0; c < 3; c++) {
            uint32_t four[4];

            for (int i = 0; i < 4; i++)
                four[i] = d->step == 1 ? v[i][c] : v[(c * 4 + i) / 3][(c * 4 + i) % 3];
            stk_pic_put4(at + (d->step == 1 ? c * d->plane : (uint32_t)c * 4) * elem, dtype, four);
        }
}

/* n <= 4 pixels of row y from pixel x, a multiple of 4, on; v[pixel][channel] as stk_pic_as() gives
 * them. */
STK_PIC_FN void stk_pic_store4(const stk_pic_target *t, uint32_t dtype, uint32_t x, uint32_t y,
                               uint32_t n, const uint32_t v[4][3])
{
    stk_pic_dst d = stk_pic_dst_at(t, x, y, dtype);
    uint32_t step = d.step * stk_pic_elem(dtype);

    if (d.vector && n == 4) { /* sides of patches are multiples of 4 then */
        stk_pic_store_words(&d, dtype, v);
        return;
    }
    STK_PIC_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        if (i >= n)
            continue;
        if (!d.run)
            d = stk_pic_dst_at(t, x + i, y, dtype);
        stk_pic_store1(&d, dtype, v[i]);
        d.at += step;
        d.run--;
    }
}

/* What the pass down of one picture needs. */
typedef struct stk_pic_pass {
    const uint8_t *taps;  /* begins with its stk_pic_taps */
    const uint32_t *rows; /* made by the pass across */
    float mul[3], add[3];
    uint32_t dtype, fill;
} stk_pic_pass;

STK_PIC_FN stk_pic_pass stk_pic_pass_of(const stk_pic_launch *l, const stk_pic_job *j,
                                        uint32_t dtype, uint32_t fill)
{
    stk_pic_pass p;

    p.taps = l->scratch + j->taps;
    p.rows = (const uint32_t *)(const void *)(l->scratch + j->rows);
    p.dtype = dtype;
    p.fill = fill;
    for (int c = 0; c < 3; c++) {
        p.mul[c] = l->mul[c];
        p.add[c] = l->add[c];
    }
    return p;
}

/* Channels of the pixels x to x + 3 of output row j: the filter down. */
STK_PIC_FN void stk_pic_channels4(const stk_pic_pass *p, uint32_t j, uint32_t x, uint32_t px[4][3])
{
    const stk_pic_taps *t = (const stk_pic_taps *)(const void *)p->taps;
    uint32_t shift = t->y.shift, count;
    int32_t half = t->y.fine ? 0 : 1 << (shift - 1);
    int32_t sum[4][3] = {
        { half, half, half }, { half, half, half }, { half, half, half }, { half, half, half }
    };

    count = stk_pic_down4(p->taps, &t->y, j, p->rows + x, stk_pic_row_pixels(t->x.n), sum);
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++)
            px[i][c] = count ? stk_pic_clamp8(sum[i][c] >> shift) : p->fill >> 8 * c & 255;
}

/* Pixels x to x + 3 of output row j: the filter down, color, type, store. */
STK_PIC_FN void stk_pic_finish4(const stk_pic_pass *p, uint32_t j, uint32_t x,
                                const stk_pic_target *to)
{
    uint32_t w = ((const stk_pic_taps *)(const void *)p->taps)->x.n, px[4][3], v[4][3];

    stk_pic_channels4(p, j, x, px);
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++)
            v[i][c] = stk_pic_as(p->dtype,
                                 stk_pic_add(stk_pic_mul((float)px[i][c], p->mul[c]), p->add[c]));
    stk_pic_store4(to, p->dtype, x, j, w - x < 4 ? w - x : 4, v);
}

/* A pixel that the host sampled, of three bytes. */
STK_PIC_FN void stk_pic_color1(const stk_pic_launch *l, uint32_t dtype, const uint8_t *rgb,
                               const stk_pic_dst *d)
{
    uint32_t v[3];

    for (uint32_t c = 0; c < 3; c++)
        v[c] = stk_pic_as(dtype, stk_pic_add(stk_pic_mul((float)rgb[c], l->mul[c]), l->add[c]));
    stk_pic_store1(d, dtype, v);
}

/* Pixel i of a record whose pixels are as they must be, but not where. */
STK_PIC_FN void stk_pic_move1(const stk_pic_target *t, uint32_t dtype, const stk_pic *r, uint32_t i)
{
    uint32_t elem = stk_pic_elem(dtype), plane = t->packed ? 1 : r->x.n * r->y.n;
    const uint8_t *from = (const uint8_t *)r + r->data_at +
                          (uint64_t)i * (t->packed ? 3 : 1) * elem;
    stk_pic_dst d = stk_pic_dst_at(t, i % r->x.n, i / r->x.n, dtype);
    uint32_t v[3];

    for (uint32_t c = 0; c < 3; c++, from += (uint64_t)plane * elem)
        v[c] = elem == 1   ? *from
               : elem == 2 ? *(const uint16_t *)(const void *)from
                           : *(const uint32_t *)(const void *)from;
    stk_pic_store1(&d, dtype, v);
}

#endif
