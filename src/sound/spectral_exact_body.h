/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_exact_body.h - mel bands of STK_WIDTH frames at once in double precision, one per lane;
 * compiled for any machine, for AVX2 and for AVX-512, with the same bits.  STK_EXACT is the
 * function's name.
 *
 * Rounding of a transform is spread over the whole spectrum: in f32 a band 70 dB below the loudest
 * is off by up to 1e-3 of itself, which its logarithm shows. */
#define STK_REAL double
#define STK_TWIDDLES exact
#include "sound/fft_body.h"
#include "sound/spectral.h"

#include <string.h>

#define LANES STK_SPECTRAL_LANES

static double mean_of(const double *row, uint32_t n)
{
    double sum[8] = { 0 };

    for (uint32_t i = 0; i + 8 <= n; i += 8)
        for (uint32_t k = 0; k < 8; k++)
            sum[k] += row[i + k];
    for (uint32_t i = n / 8 * 8; i < n; i++)
        sum[i % 8] += row[i];
    return (((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))) / n;
}

/* A frame's samples, windowed.  in: win of them; room: as many. */
static void prepare(const stk_spectral *s, const float *in, double *room, double *row)
{
    double scale = s->c.scale, pre = s->c.preemphasis, mean = 0;
    const double *w = s->exact_window;
    uint32_t win = s->c.win;

    for (uint32_t i = 0; i < win; i++)
        room[i] = (double)in[i] * scale;
    if (s->c.remove_mean)
        mean = mean_of(room, win);
    for (uint32_t i = 0; i < win; i++)
        room[i] -= mean;
    row[0] = (room[0] - pre * room[0]) * w[0];
    for (uint32_t i = 1; i < win; i++)
        row[i] = (room[i] - pre * room[i - 1]) * w[i];
    memset(row + win, 0, (s->c.fft - win) * sizeof *row);
}

/* Rows of samples to lanes: even samples are real parts, odd ones imaginary. */
static void spread(const double *rows, uint32_t n, v8 *re, v8 *im)
{
    for (uint32_t i = 0; i < n; i += 2)
        for (uint32_t k = 0; k < STK_WIDTH; k++) {
            re[i / 2][k] = rows[(size_t)k * n + i];
            im[i / 2][k] = rows[(size_t)k * n + i + 1];
        }
}

/* The power of the real samples' spectrum, half + 1 values. */
static void powers(const stk_spectral *s, const v8 *re, const v8 *im, v8 *out)
{
    uint32_t h = s->half;
    v8 a = re[0] + im[0], b = re[0] - im[0];

    out[0] = a * a;
    out[h] = b * b;
    for (uint32_t k = 1; k <= h / 2; k++) {
        double c = s->exact_turn[2 * k], d = s->exact_turn[2 * k + 1];
        v8 er = (re[k] + re[h - k]) * 0.5, ei = (im[k] - im[h - k]) * 0.5;
        v8 or = (im[k] + im[h - k]) * 0.5, oi = (re[h - k] - re[k]) * 0.5;
        v8 tr = or *c - oi * d, ti = or *d + oi * c;
        v8 pr = er + tr, pi = ei + ti, qr = er - tr, qi = ei - ti;

        out[k] = pr * pr + pi * pi;
        out[h - k] = qr * qr + qi * qi;
    }
}

/* Of each band STK_WIDTH of its LANES values. */
static void bands(const stk_spectral *s, const v8 *power, float *made)
{
    const float *w = s->weight;

    for (uint32_t m = 0; m < s->c.mels; m++) {
        const v8 *p = power + s->first[m];
        v8 sum = { 0 };

        for (uint32_t k = 0; k < s->len[m]; k++)
            sum += p[k] * (double)w[k];
        w += s->len[m];
        for (uint32_t k = 0; k < STK_WIDTH; k++)
            made[m * LANES + k] = (float)sum[k];
    }
}

void STK_EXACT(const stk_spectral *s, float *work, uint32_t valid, float *out)
{
    float *made = work + (size_t)LANES * s->c.fft;
    uintptr_t after = (uintptr_t)(made + (size_t)LANES * (s->bins + 8));
    double *rows = (double *)((after + sizeof(v8) - 1) / sizeof(v8) * sizeof(v8));
    v8 *buf[4], *spectrum[2];

    buf[0] = (v8 *)(void *)(rows + (size_t)STK_WIDTH * s->c.fft);
    for (int i = 1; i < 4; i++)
        buf[i] = buf[i - 1] + s->half;
    for (uint32_t at = 0; at < LANES; at += STK_WIDTH) {
        for (uint32_t k = 0; k < STK_WIDTH; k++)
            prepare(s, work + (size_t)(at + k) * s->c.fft, (double *)(void *)buf[0],
                    rows + (size_t)k * s->c.fft);
        spread(rows, s->c.fft, buf[0], buf[1]);
        transform(&s->transform, buf, spectrum);
        powers(s, spectrum[0], spectrum[1], buf[3] + s->half);
        bands(s, buf[3] + s->half, made + at);
    }
    s->finish(s, made, valid, out);
}
