/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_body.h - the kernel of spectral.h, for eight frames at once, one per lane.  It is
 * compiled once for any machine and once for AVX2, with the same bits; the including file defines
 * STK_BLOCK and STK_FINISH, the names of the functions.
 *
 * The transform of fft real samples is one of fft / 2 complex ones, and a last step that takes them
 * apart. */
#include "sound/fft_body.h"
#include "sound/lanes_body.h"
#include "sound/spectral.h"

#include <math.h>
#include <string.h>

#define LANES STK_SPECTRAL_LANES

typedef int32_t i8v __attribute__((vector_size(32), may_alias));

/* ---- frames ---- */

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

/* ---- the spectrum ---- */

/* Computes the power spectrum of the real samples, half + 1 values. */
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

/* The natural logarithm of numbers that are at least the smallest normal number, with a relative
 * error of 1e-7 or better.  NaN for numbers that are not finite. */
static inline __attribute__((always_inline)) void logarithm(v8 *at)
{
    v8 x = *at, least = { 0 }, not_finite = x - x, e, y, z;
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
    *at = x + y + e * 0.693359375f + not_finite; /* 0, or NaN */
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

/* Bands of lanes, to rows of their logarithms. */
void STK_FINISH(const stk_spectral *s, float *made, uint32_t valid, float *out)
{
    v8 *values = (v8 *)(void *)made;

    if (s->c.log)
        logs(s, values);
    hand_out(s, values, valid, out);
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
    stk_spread(work, s->c.fft, buf[0], buf[1]);
    transform(&s->transform, buf, spectrum);
    powers(s, spectrum[0], spectrum[1], power);
    if (s->c.magnitude)
        roots(power, s->half + 1);
    if (s->c.mels)
        bands(s, power, made);
    else
        made = power;
    STK_FINISH(s, (float *)made, valid, out);
}
