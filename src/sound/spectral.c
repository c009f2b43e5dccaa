/* SPDX-License-Identifier: Apache-2.0 */
/* spectral.c - the tables of spectral.h, and where frames are. */
#include "sound/spectral.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "config.h"

/* ---- mel bands ---- */

static double mel_of(stk_mel_kind kind, double f)
{
    if (kind == STK_MEL_KALDI)
        return 1127 * log(1 + f / 700);
    if (kind == STK_MEL_HTK)
        return 2595 * log10(1 + f / 700);
    return f < 1000 ? f * 3 / 200 : 15 + log(f / 1000) * 27 / log(6.4);
}

static double hz_of(stk_mel_kind kind, double m)
{
    if (kind == STK_MEL_KALDI)
        return 700 * (exp(m / 1127) - 1);
    if (kind == STK_MEL_HTK)
        return 700 * (pow(10, m / 2595) - 1);
    return m < 15 ? m * 200 / 3 : 1000 * exp((m - 15) * log(6.4) / 27);
}

typedef struct band {
    double left, center, right; /* Kaldi: mel; else Hz */
    double norm;
} band;

static band band_of(const stk_spectral_config *c, uint32_t m)
{
    double low = mel_of(c->mel, c->low), step = (mel_of(c->mel, c->high) - low) / (c->mels + 1);
    band b = { low + m * step, low + (m + 1) * step, low + (m + 2) * step, 1 };

    if (c->mel == STK_MEL_KALDI)
        return b;
    b.left = hz_of(c->mel, b.left);
    b.center = hz_of(c->mel, b.center);
    b.right = hz_of(c->mel, b.right);
    if (c->mel == STK_MEL_SLANEY)
        b.norm = 2 / (b.right - b.left);
    return b;
}

static double weight_at(const stk_spectral_config *c, const band *b, uint32_t k)
{
    double f = c->rate * k / c->fft, up, down;

    if (c->mel == STK_MEL_KALDI)
        f = mel_of(c->mel, f);
    up = (f - b->left) / (b->center - b->left);
    down = (b->right - f) / (b->right - b->center);
    return fmax(0, fmin(up, down)) * b->norm;
}

/* Kaldi has no weight for the last value of the spectrum. */
static int fill_bands(stk_spectral *s, stk_error *err)
{
    const stk_spectral_config *c = &s->c;
    uint32_t end = s->half + (c->mel != STK_MEL_KALDI);
    size_t used = 0;

    s->first = stk_zalloc(c->mels, sizeof *s->first);
    s->len = stk_zalloc(c->mels, sizeof *s->len);
    s->weight = stk_zalloc((size_t)c->mels * (end + 1), sizeof *s->weight);
    if (!s->first || !s->len || !s->weight)
        return stk_fail_nomem(err, (size_t)c->mels * (end + 1) * sizeof *s->weight);
    for (uint32_t m = 0; m < c->mels; m++) {
        band b = band_of(c, m);

        for (uint32_t k = 0; k < end; k++) {
            double w = weight_at(c, &b, k);

            if (!(w > 0))
                continue;
            if (!s->len[m])
                s->first[m] = k;
            s->len[m] = k - s->first[m] + 1;
            s->weight[used++] = (float)w;
        }
    }
    return 0;
}

/* ---- tables ---- */

static int fill_transform(stk_spectral *s, stk_error *err)
{
    STK_TRY(stk_fft_open(&s->transform, s->half, err));
    s->turn = stk_zalloc((size_t)s->half + 4, sizeof *s->turn);
    s->exact_turn = stk_zalloc((size_t)s->half + 4, sizeof *s->exact_turn);
    if (!s->turn || !s->exact_turn)
        return stk_fail_nomem(err, ((size_t)s->half + 4) * sizeof *s->exact_turn);
    for (uint32_t k = 0; k <= s->half / 2; k++) {
        s->exact_turn[2 * k] = cos(2 * M_PI * k / s->c.fft);
        s->exact_turn[2 * k + 1] = -sin(2 * M_PI * k / s->c.fft);
        s->turn[2 * k] = (float)s->exact_turn[2 * k];
        s->turn[2 * k + 1] = (float)s->exact_turn[2 * k + 1];
    }
    return 0;
}

static int fill_window(stk_spectral *s, stk_error *err)
{
    uint32_t n = s->c.win;

    s->window = stk_zalloc(n, sizeof *s->window);
    s->exact_window = stk_zalloc(n, sizeof *s->exact_window);
    if (!s->window || !s->exact_window)
        return stk_fail_nomem(err, n * sizeof *s->exact_window);
    for (uint32_t i = 0; i < n; i++) {
        double of = s->c.window == STK_WINDOW_HANN || n == 1 ? n : n - 1;
        double w = 0.5 - 0.5 * cos(2 * M_PI * i / of);

        s->exact_window[i] = s->c.window == STK_WINDOW_POVEY ? pow(w, 0.85) : w;
        s->window[i] = (float)s->exact_window[i];
    }
    return 0;
}

static int check_config(const stk_spectral_config *c, stk_error *err)
{
    if (c->fft < 4 || c->fft % 2 || c->fft > STK_SPECTRAL_FFT || !c->hop || !c->win ||
        c->win > c->fft)
        return stk_fail(err, STK_EINVAL,
                        "frames of %u samples every %u in a transform of %u: it is even, at most "
                        "%d, and at least a frame",
                        c->win, c->hop, c->fft, STK_SPECTRAL_FFT);
    if (c->mels && !(c->low >= 0 && c->low < c->high && c->high <= c->rate / 2))
        return stk_fail(err, STK_EINVAL, "bands from %g to %g Hz are not in 0..%g", c->low, c->high,
                        c->rate / 2);
    return 0;
}

static void choose_kernels(stk_spectral *s)
{
    s->run = s->c.exact ? stk_spectral_exact_c : stk_spectral_block_c;
    s->finish = stk_spectral_finish_c;
#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX2) {
        s->run = s->c.exact ? stk_spectral_exact_avx2 : stk_spectral_block_avx2;
        s->finish = stk_spectral_finish_avx2;
    }
#endif
#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX512 && s->c.exact)
        s->run = stk_spectral_exact_avx512;
#endif
}

int stk_spectral_open(stk_spectral **out, const stk_spectral_config *c, stk_error *err)
{
    stk_spectral *s;
    int rc;

    *out = NULL;
    STK_TRY(check_config(c, err));
    s = STK_NEW(stk_spectral);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->c = *c;
    s->half = c->fft / 2;
    s->bins = c->mels ? c->mels : s->half + 1;
    s->c.exact = c->exact && c->mels;
    choose_kernels(s);
    rc = fill_transform(s, err);
    if (rc == 0)
        rc = fill_window(s, err);
    if (rc == 0 && c->mels)
        rc = fill_bands(s, err);
    if (rc < 0)
        stk_spectral_close(&s);
    *out = s;
    return rc;
}

void stk_spectral_close(stk_spectral **s)
{
    if (*s) {
        stk_free((*s)->window);
        stk_free((*s)->exact_window);
        stk_free((*s)->exact_turn);
        stk_fft_fini(&(*s)->transform);
        stk_free((*s)->turn);
        stk_free((*s)->first);
        stk_free((*s)->len);
        stk_free((*s)->weight);
    }
    stk_free(*s);
    *s = NULL;
}

uint32_t stk_spectral_bins(const stk_spectral *s)
{
    return s->bins;
}

/* ---- frames ---- */

uint64_t stk_spectral_frames(const stk_spectral *s, uint64_t n)
{
    const stk_spectral_config *c = &s->c;

    switch (c->frames) {
    case STK_FRAMES_SNIP: return n < c->win ? 0 : 1 + (n - c->win) / c->hop;
    case STK_FRAMES_ROUND: return (n + c->hop / 2) / c->hop;
    case STK_FRAMES_CENTER: return 1 + n / c->hop;
    default: return n / c->hop;
    }
}

/* The sample of a recording of n that stands for number i, which may be outside; n > 0. */
static float sample_at(stk_edge edge, const float *x, int64_t n, int64_t i)
{
    int64_t period = edge == STK_EDGE_REFLECT ? 2 * n - 2 : 2 * n;

    if (i >= 0 && i < n)
        return x[i];
    if (edge == STK_EDGE_ZERO)
        return 0;
    if (n == 1)
        return x[0];
    i %= period;
    i = i < 0 ? i + period : i;
    if (i >= n)
        i = edge == STK_EDGE_REFLECT ? period - i : period - 1 - i;
    return x[i];
}

static void take_frame(const stk_spectral *s, const float *x, uint64_t n, uint64_t frame,
                       float *row)
{
    const stk_spectral_config *c = &s->c;
    int64_t at = (int64_t)(frame * c->hop);

    if (c->frames == STK_FRAMES_ROUND)
        at += (int64_t)(c->hop / 2) - (int64_t)(c->win / 2);
    else if (c->frames != STK_FRAMES_SNIP)
        at -= (int64_t)(c->fft / 2) - (int64_t)((c->fft - c->win) / 2);
    if (at >= 0 && (uint64_t)at + c->win <= n) {
        memcpy(row, x + at, c->win * sizeof *row);
        return;
    }
    for (uint32_t i = 0; i < c->win; i++)
        row[i] = n ? sample_at(c->edge, x, (int64_t)n, at + i) : 0;
}

int stk_spectral_run(const stk_spectral *s, const float *x, uint64_t n, stk_scratch *scratch,
                     float *out, stk_error *err)
{
    uint64_t frames = stk_spectral_frames(s, n);
    float *work = stk_scratch_get(scratch, stk_spectral_work(s) * sizeof *work);

    if (!work)
        return stk_fail_nomem(err, stk_spectral_work(s) * sizeof *work);
    for (uint64_t f = 0; f < frames; f += STK_SPECTRAL_LANES) {
        uint32_t valid = frames - f < STK_SPECTRAL_LANES ? (uint32_t)(frames - f)
                                                         : STK_SPECTRAL_LANES;

        for (uint32_t k = 0; k < STK_SPECTRAL_LANES; k++) {
            float *row = work + (size_t)k * s->c.fft;

            if (k < valid)
                take_frame(s, x, n, f + k, row);
            else
                memset(row, 0, s->c.win * sizeof *row);
        }
        s->run(s, work, valid, out + f * s->bins);
    }
    return 0;
}
