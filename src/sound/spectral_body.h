/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_body.h - eight frames at once, one per lane; compiled once for any machine and once for
 * AVX2, with the same bits.  STK_BLOCK is the function's name.
 *
 * The transform of fft real samples is one of fft / 2 complex ones (Stockham's, with radices 2, 3,
 * 4 and 5), and a last step that takes them apart. */
#include "sound/spectral.h"

#include <math.h>
#include <string.h>

#define LANES STK_SPECTRAL_LANES

typedef float v8 __attribute__((vector_size(32), may_alias));
typedef int32_t i8v __attribute__((vector_size(32), may_alias));

/* ---- frames to lanes ---- */

/* room: for one frame. */
static void prepare(const stk_spectral *s, float *row, float *room)
{
    uint32_t win = s->c.win;
    float scale = (float)s->c.scale, pre = (float)s->c.preemphasis, mean = 0;
    float sum[LANES] = { 0 };

    for (uint32_t i = 0; scale != 1 && i < win; i++)
        row[i] *= scale;
    if (s->c.remove_mean) {
        for (uint32_t i = 0; i + LANES <= win; i += LANES)
            for (uint32_t k = 0; k < LANES; k++)
                sum[k] += row[i + k];
        for (uint32_t i = win / LANES * LANES; i < win; i++)
            sum[i % LANES] += row[i];
        mean = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
        mean /= (float)win;
        for (uint32_t i = 0; i < win; i++)
            row[i] -= mean;
    }
    if (pre != 0) {
        float first = row[0] - pre * row[0];

        for (uint32_t i = 1; i < win; i++)
            room[i] = (row[i] - pre * row[i - 1]) * s->window[i];
        memcpy(row + 1, room + 1, (win - 1) * sizeof *row);
        row[0] = first * s->window[0];
    } else {
        for (uint32_t i = 0; i < win; i++)
            row[i] *= s->window[i];
    }
    memset(row + win, 0, (s->c.fft - win) * sizeof *row);
}

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Eight rows of eight to eight columns of eight. */
static inline __attribute__((always_inline)) void transpose(v8 *r)
{
    v8 t[8], u[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            u[i + 2 * k] = SHUFFLE(t[i + k], t[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * k + 1] = SHUFFLE(t[i + k], t[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Even samples are real parts, odd ones imaginary. */
static void spread(const stk_spectral *s, const float *rows, v8 *re, v8 *im)
{
    uint32_t fft = s->c.fft, i = 0;
    v8 r[8];

    for (; i + 8 <= fft; i += 8) {
        for (int k = 0; k < 8; k++)
            memcpy(&r[k], rows + (size_t)k * fft + i, sizeof *r);
        transpose(r);
        for (int k = 0; k < 4; k++) {
            re[i / 2 + (uint32_t)k] = r[2 * k];
            im[i / 2 + (uint32_t)k] = r[2 * k + 1];
        }
    }
    for (; i < fft; i += 2)
        for (int k = 0; k < 8; k++) {
            re[i / 2][k] = rows[(size_t)k * fft + i];
            im[i / 2][k] = rows[(size_t)k * fft + i + 1];
        }
}

/* ---- the transform ---- */

typedef struct pass {
    uint32_t m, s; /* m: butterflies of different twiddles; s: of the same */
    const v8 *xr, *xi;
    v8 *yr, *yi;
    const float *w;
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
            float c_ = w[2 * (j)-2], d_ = w[2 * (j)-1];                                            \
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
        const float *w = f->w + (size_t)p * 2 * ((r)-1);                                           \
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
    const float h = 0.86602540378443864676f;
    v8 tr = RE(1) + RE(2), ti = IM(1) + IM(2);
    v8 dr = (RE(1) - RE(2)) * h, di = (IM(1) - IM(2)) * h;
    v8 mr = RE(0) - tr * 0.5f, mi = IM(0) - ti * 0.5f;
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
    const float c1 = 0.30901699437494742410f, c2 = -0.80901699437494742410f;
    const float s1 = 0.95105651629515357212f, s2 = 0.58778525229247312917f;
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

/* The spectrum of what is in buf[0], buf[1]; *out points at it: re, im. */
static void transform(const stk_spectral *s, v8 *buf[4], v8 *out[2])
{
    pass f = { .m = s->half, .s = 1, .w = s->twiddle };
    int side = 0;

    for (uint32_t k = 0; k < s->stages; k++) {
        f.m /= s->radix[k];
        f.xr = buf[side];
        f.xi = buf[side + 1];
        f.yr = buf[2 - side];
        f.yi = buf[3 - side];
        switch (s->radix[k]) {
        case 2: radix2(&f); break;
        case 3: radix3(&f); break;
        case 4: radix4(&f); break;
        default: radix5(&f);
        }
        f.w += (size_t)f.m * 2 * (s->radix[k] - 1u);
        f.s *= s->radix[k];
        side = 2 - side;
    }
    out[0] = buf[side];
    out[1] = buf[side + 1];
}

/* The power of the real samples' spectrum, half + 1 values. */
static void powers(const stk_spectral *s, const v8 *re, const v8 *im, v8 *out)
{
    uint32_t h = s->half;
    v8 a = re[0] + im[0], b = re[0] - im[0];

    out[0] = a * a;
    out[h] = b * b;
    for (uint32_t k = 1; k <= h / 2; k++) {
        float c = s->turn[2 * k], d = s->turn[2 * k + 1];
        v8 er = (re[k] + re[h - k]) * 0.5f, ei = (im[k] - im[h - k]) * 0.5f;
        v8 or = (im[k] + im[h - k]) * 0.5f, oi = (re[h - k] - re[k]) * 0.5f;
        v8 tr = or *c - oi * d, ti = or *d + oi * c;
        v8 pr = er + tr, pi = ei + ti, qr = er - tr, qi = ei - ti;

        out[k] = pr * pr + pi * pi;
        out[h - k] = qr * qr + qi * qi;
    }
}

/* ---- values ---- */

#define SELECT(yes, a, b) ((v8)(((yes) & (i8v)(a)) | (~(yes) & (i8v)(b))))

/* The natural logarithm of what is at least the smallest normal number: 1e-7 of it, or better. */
static inline __attribute__((always_inline)) void logarithm(v8 *at)
{
    v8 x = *at, least = { 0 }, e, y, z;
    i8v bits, small;

    least += 1.17549435e-38f;
    x = SELECT(x < least, least, x);
    bits = (i8v)x;
    e = __builtin_convertvector((bits >> 23) - 126, v8);
    x = (v8)((bits & 0x7FFFFF) | 0x3F000000); /* 0.5 .. 1 */
    small = x < 0.707106781186547524f;
    e -= (v8)(small & (i8v)(least * 0 + 1.0f));
    x = x + (v8)(small & (i8v)x) - 1.0f;
    z = x * x;
    y = x * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x - 1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x - 1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x - 2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    y = y * x * z + e * -2.12194440e-4f - z * 0.5f;
    *at = x + y + e * 0.693359375f;
}

static void bands(const stk_spectral *s, const v8 *power, v8 *out)
{
    const float *w = s->weight;

    for (uint32_t m = 0; m < s->c.mels; m++) {
        const v8 *p = power + s->first[m];
        v8 sum = { 0 };

        for (uint32_t k = 0; k < s->len[m]; k++)
            sum += p[k] * w[k];
        w += s->len[m];
        out[m] = sum;
    }
}

static void roots(v8 *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < LANES; k++)
            p[i][k] = sqrtf(p[i][k]);
}

static void logs(const stk_spectral *s, v8 *p)
{
    float least = (float)s->c.floor, by = s->c.log == STK_LOG_10 ? 0.43429448190325182765f : 1;
    v8 low = { 0 };

    low += least;
    for (uint32_t i = 0; i < s->bins; i++) {
        v8 x = p[i];

        if (s->c.log == STK_LOG_LN_ADD)
            x = x + low;
        else
            x = SELECT(x < low, low, x);
        logarithm(&x);
        p[i] = x * by; /* by 1 it stays what it is */
    }
}

static void hand_out(const stk_spectral *s, const v8 *made, uint32_t valid, float *out)
{
    uint32_t i = 0, n = s->bins;
    v8 r[8];

    for (; i + 8 <= n; i += 8) {
        memcpy(r, made + i, sizeof r);
        transpose(r);
        for (uint32_t k = 0; k < valid; k++)
            memcpy(out + (size_t)k * n + i, &r[k], sizeof *r);
    }
    for (; i < n; i++)
        for (uint32_t k = 0; k < valid; k++)
            out[(size_t)k * n + i] = made[i][k];
}

void STK_BLOCK(const stk_spectral *s, float *work, uint32_t valid, float *out)
{
    v8 *buf[4], *spectrum[2], *power, *made;

    buf[0] = (v8 *)(void *)(work + (size_t)LANES * s->c.fft);
    for (int i = 1; i < 4; i++)
        buf[i] = buf[i - 1] + s->half;
    power = buf[3] + s->half;
    made = power + s->half + 8;
    for (uint32_t k = 0; k < LANES; k++)
        prepare(s, work + (size_t)k * s->c.fft, work + (size_t)LANES * s->c.fft);
    spread(s, work, buf[0], buf[1]);
    transform(s, buf, spectrum);
    powers(s, spectrum[0], spectrum[1], power);
    if (s->c.magnitude)
        roots(power, s->half + 1);
    if (s->c.mels)
        bands(s, power, made);
    else
        made = power;
    if (s->c.log)
        logs(s, made);
    hand_out(s, made, valid, out);
}
