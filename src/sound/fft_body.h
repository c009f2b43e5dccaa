/* SPDX-License-Identifier: Apache-2.0 */
/* fft_body.h - complex transforms of eight signals at once, one per lane: Stockham's, which needs
 * no reordering, with radices 2 to 5 and odd ones up to 19.  Included by the kernels of spectral.h
 * (for doubles by spectral_exact_body.h, of as many signals as a vector has) and resample_fft.h,
 * which are compiled for any machine and for AVX2, with the same bits. */
#ifndef STOKER_SOUND_FFT_BODY_H
#define STOKER_SOUND_FFT_BODY_H

#include <stdint.h>

#include "sound/fft.h"

#ifndef STK_REAL /* else by the kernel that includes it: the type, how many of them, its twiddles */
#define STK_REAL float
#define STK_WIDTH 8
#define STK_TWIDDLES twiddle
#endif

typedef STK_REAL v8 __attribute__((vector_size(STK_WIDTH * sizeof(STK_REAL)), may_alias));

typedef struct pass {
    uint32_t m, s; /* m: butterflies of different twiddles; s: of the same */
    const v8 *xr, *xi;
    v8 *yr, *yi;
    const STK_REAL *w;
    uint32_t odd;
} pass;

/* y[j] = t * w[j]; plain: w is 1 */
#define PUT(j, tr, ti)                                                                             \
    do {                                                                                           \
        v8 a_ = (tr), b_ = (ti);                                                                   \
                                                                                                   \
        if (plain || (j) == 0) {                                                                   \
            f->yr[o + (j)*f->s] = a_;                                                              \
            f->yi[o + (j)*f->s] = b_;                                                              \
        } else {                                                                                   \
            STK_REAL c_ = w[2 * (j)-2], d_ = w[2 * (j)-1];                                         \
                                                                                                   \
            f->yr[o + (j)*f->s] = a_ * c_ - b_ * d_;                                               \
            f->yi[o + (j)*f->s] = a_ * d_ + b_ * c_;                                               \
        }                                                                                          \
    } while (0)
#define RE(k) f->xr[i + (k)*n]
#define IM(k) f->xi[i + (k)*n]
#define BUTTERFLIES(name, r, ...)                                                                  \
    static inline                                                                                  \
        __attribute__((always_inline)) void name##_row(const pass *f, uint32_t p, int plain)       \
    {                                                                                              \
        const STK_REAL *w = f->w + (size_t)p * 2 * ((r)-1);                                        \
        uint32_t n = f->s * f->m;                                                                  \
                                                                                                   \
        for (uint32_t q = 0; q < f->s; q++) {                                                      \
            uint32_t i = q + f->s * p, o = q + f->s * (r)*p;                                       \
                                                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void name(const pass *f)                                                                \
    {                                                                                              \
        name##_row(f, 0, 1);                                                                       \
        for (uint32_t p = 1; p < f->m; p++)                                                        \
            name##_row(f, p, 0);                                                                   \
    }

BUTTERFLIES(radix2, 2, {
    v8 ar = RE(0), ai = IM(0), br = RE(1), bi = IM(1);
    PUT(0, ar + br, ai + bi);
    PUT(1, ar - br, ai - bi);
})

BUTTERFLIES(radix3, 3, {
    const STK_REAL h = (STK_REAL)0.86602540378443864676;
    v8 tr = RE(1) + RE(2), ti = IM(1) + IM(2);
    v8 dr = (RE(1) - RE(2)) * h, di = (IM(1) - IM(2)) * h;
    v8 mr = RE(0) - tr * (STK_REAL)0.5, mi = IM(0) - ti * (STK_REAL)0.5;
    PUT(0, RE(0) + tr, IM(0) + ti);
    PUT(1, mr + di, mi - dr);
    PUT(2, mr - di, mi + dr);
})

BUTTERFLIES(radix4, 4, {
    v8 ar = RE(0) + RE(2), ai = IM(0) + IM(2), br = RE(0) - RE(2), bi = IM(0) - IM(2);
    v8 cr = RE(1) + RE(3), ci = IM(1) + IM(3), dr = RE(1) - RE(3), di = IM(1) - IM(3);
    PUT(0, ar + cr, ai + ci);
    PUT(1, br + di, bi - dr);
    PUT(2, ar - cr, ai - ci);
    PUT(3, br - di, bi + dr);
})

BUTTERFLIES(radix5, 5, {
    const STK_REAL c1 = (STK_REAL)0.30901699437494742410, c2 = (STK_REAL)-0.80901699437494742410;
    const STK_REAL s1 = (STK_REAL)0.95105651629515357212, s2 = (STK_REAL)0.58778525229247312917;
    v8 ar = RE(1) + RE(4), ai = IM(1) + IM(4), br = RE(2) + RE(3), bi = IM(2) + IM(3);
    v8 cr = RE(1) - RE(4), ci = IM(1) - IM(4), dr = RE(2) - RE(3), di = IM(2) - IM(3);
    v8 er = RE(0) + ar * c1 + br * c2, ei = IM(0) + ai * c1 + bi * c2;
    v8 fr = RE(0) + ar * c2 + br * c1, fi = IM(0) + ai * c2 + bi * c1;
    v8 gr = cr * s1 + dr * s2, gi = ci * s1 + di * s2;
    v8 hr = cr * s2 - dr * s1, hi = ci * s2 - di * s1;
    PUT(0, RE(0) + ar + br, IM(0) + ai + bi);
    PUT(1, er + gi, ei - gr);
    PUT(2, fr + hi, fi - hr);
    PUT(3, fr - hi, fi + hr);
    PUT(4, er - gi, ei + gr);
})

/* Any odd number of points, f->odd: their cosines and sines are before the twiddles. */
static void radix_odd(const pass *f)
{
    uint32_t r = f->odd, n = f->s * f->m;
    const STK_REAL *c = f->w, *d = c + r, *turn = d + r;
    v8 sr[STK_FFT_ODD / 2], si[STK_FFT_ODD / 2], dr[STK_FFT_ODD / 2], di[STK_FFT_ODD / 2];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = i / f->s, o = i % f->s + f->s * r * p;
        const STK_REAL *w = turn + (size_t)p * 2 * (r - 1);
        const int plain = p == 0;
        v8 zr = RE(0), zi = IM(0);

        for (uint32_t j = 1; j <= r / 2; j++) {
            sr[j - 1] = RE(j) + RE(r - j);
            si[j - 1] = IM(j) + IM(r - j);
            dr[j - 1] = RE(j) - RE(r - j);
            di[j - 1] = IM(j) - IM(r - j);
            zr += sr[j - 1];
            zi += si[j - 1];
        }
        PUT(0, zr, zi);
        for (uint32_t q = 1; q <= r / 2; q++) {
            v8 er = RE(0), ei = IM(0), or = { 0 }, oi = { 0 };

            for (uint32_t j = 0, at = q; j < r / 2; j++, at = at + q < r ? at + q : at + q - r) {
                er += sr[j] * c[at];
                ei += si[j] * c[at];
                or += di[j] * d[at];
                oi += dr[j] * d[at];
            }
            PUT(q, er + or, ei - oi);
            PUT(r - q, er - or, ei + oi);
        }
    }
}

/* The transform of the f->n values in buf[0], buf[1]; *out points at it: re, im. */
static void transform(const stk_fft *t, v8 *buf[4], v8 *out[2])
{
    pass f = { .m = t->n, .s = 1, .w = t->STK_TWIDDLES };
    int side = 0;

    for (uint32_t k = 0; k < t->stages; k++) {
        f.odd = t->radix[k];
        f.m /= f.odd;
        f.xr = buf[side];
        f.xi = buf[side + 1];
        f.yr = buf[2 - side];
        f.yi = buf[3 - side];
        switch (f.odd) {
        case 2: radix2(&f); break;
        case 3: radix3(&f); break;
        case 4: radix4(&f); break;
        case 5: radix5(&f); break;
        default: radix_odd(&f); f.w += 2 * (size_t)f.odd;
        }
        f.w += (size_t)f.m * 2 * (f.odd - 1);
        f.s *= f.odd;
        side = 2 - side;
    }
    out[0] = buf[side];
    out[1] = buf[side + 1];
}

#undef PUT
#undef RE
#undef IM
#undef BUTTERFLIES

#endif
