/* SPDX-License-Identifier: Apache-2.0 */
/* sound_test - kernels of sound: every CPU level has the same bits; spectra equal sums of cosines;
 * parts of a resampled recording equal the whole's slice, whatever is at hand of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "config.h"
#include "sound/dot.h"
#include "sound/resample.h"
#include "sound/spectral.h"

#define SEED 31u
#define N 6000

static float x[N];

static void fill(void)
{
    stk_rng rng;

    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    for (int i = 0; i < N; i++)
        x[i] = (float)(stk_rng_unit(&rng) - 0.5 + 0.4 * sin(i * 0.05));
}

static void dots(void **state)
{
    (void)state;
    fill();
    for (size_t n = 0; n <= 1024; n += STK_DOT)
        for (size_t at = 0; at < 3; at++) {
            double sum = 0;
            float c = stk_dot_c(x + at, x + 2000, n);

            for (size_t i = 0; i < n; i++)
                sum += (double)x[at + i] * x[2000 + i];
            assert_true(fabs(c - sum) < 1e-4);
#if STK_HAVE_AVX2
            if (stk_cpu_level() >= STK_CPU_AVX2) {
                float v = stk_dot_avx2(x + at, x + 2000, n);

                assert_memory_equal(&v, &c, sizeof c);
            }
#endif
        }
}

/* The power spectrum of one frame, by its definition. */
static double power_at(const float *frame, uint32_t n, uint32_t k)
{
    double re = 0, im = 0;

    for (uint32_t i = 0; i < n; i++) {
        double w = 0.5 - 0.5 * cos(2 * M_PI * i / n);

        re += w * frame[i] * cos(2 * M_PI * i * k / n);
        im -= w * frame[i] * sin(2 * M_PI * i * k / n);
    }
    return re * re + im * im;
}

static void check_size(uint32_t fft)
{
    const stk_spectral_config c = {
        .rate = 16000, .win = fft, .hop = 37, .fft = fft, .frames = STK_FRAMES_SNIP, .scale = 1
    };
    stk_scratch scratch = { 0 };
    stk_spectral *s;
    stk_error err;
    uint64_t frames;
    float *a, *b;

    assert_int_equal(stk_spectral_open(&s, &c, &err), 0);
    frames = stk_spectral_frames(s, fft + 37 * 10);
    assert_int_equal(frames, 11);
    a = malloc(frames * s->bins * sizeof *a);
    b = malloc(frames * s->bins * sizeof *b);
    assert_int_equal(stk_spectral_run(s, x, fft + 37 * 10, &scratch, a, &err), 0);
    s->run = stk_spectral_block_c;
    assert_int_equal(stk_spectral_run(s, x, fft + 37 * 10, &scratch, b, &err), 0);
    assert_memory_equal(a, b, frames * s->bins * sizeof *a);
    for (uint64_t f = 0; f < frames; f += 5)
        for (uint32_t k = 0; k < s->bins; k += 1 + s->bins / 20) {
            double want = power_at(x + 37 * f, fft, k);

            assert_true(fabs(a[f * s->bins + k] - want) < 1e-4 * (want + 1));
        }
    free(a);
    free(b);
    stk_spectral_close(&s);
    stk_scratch_fini(&scratch);
}

static void spectra(void **state)
{
    static const uint32_t sizes[] = { 4,  6,  8,  10,  12,  14,  20,  22,  26,  30,  34,
                                      38, 50, 96, 250, 320, 400, 480, 512, 882, 1000 };

    (void)state;
    fill();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_size(sizes[i]);
}

static void sizes_that_are_refused(void **state)
{
    static const uint32_t sizes[] = { 0, 2, 5, 46, 402, 1u << 17 };
    stk_spectral *s;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const stk_spectral_config c = {
            .rate = 16000, .win = sizes[i], .hop = 1, .fft = sizes[i], .scale = 1
        };

        assert_int_equal(stk_spectral_open(&s, &c, NULL), STK_EINVAL);
        assert_null(s);
    }
}

static void check_parts(uint32_t from, uint32_t to, stk_resample_kind kind)
{
    stk_rate_change *r;
    stk_error err;
    stk_rng rng;
    uint64_t n;
    float *all, *part, *work;

    stk_rng_init(&rng, SEED, from, to, 0, 0);
    assert_int_equal(stk_rate_change_open(&r, from, to, kind, &err), 0);
    n = stk_rate_change_length(r, N);
    assert_int_equal(n, ((uint64_t)N * to + from - 1) / from);
    all = malloc(n * sizeof *all);
    part = malloc(n * sizeof *part);
    work = aligned_alloc(64, (stk_rate_change_work(r) * sizeof *work + 64) / 64 * 64);
    stk_rate_change_run(r, &(stk_resample_in){ x, 0, N, work }, 0, n, all);
    for (int i = 0; i < 20; i++) {
        uint64_t a = stk_rng_below(&rng, (uint32_t)n),
                 b = a + 1 + stk_rng_below(&rng, (uint32_t)(n - a));
        int64_t lo, hi;

        stk_rate_change_needs(r, a, b, &lo, &hi);
        lo = lo < 0 ? 0 : lo;
        hi = hi > N ? N : hi;
        stk_rate_change_run(r, &(stk_resample_in){ x + lo, lo, (uint64_t)(hi - lo), work }, a,
                            b - a, part);
        assert_memory_equal(part, all + a, (b - a) * sizeof *part);
    }
    free(all);
    free(part);
    free(work);
    stk_rate_change_close(&r);
}

static void parts(void **state)
{
    static const uint32_t rates[][2] = { { 48000, 16000 }, { 44100, 16000 }, { 16000, 44100 },
                                         { 16000, 8000 },  { 900, 1000 },    { 1100, 1000 },
                                         { 47999, 16000 }, { 8000, 8000 },   { 1050, 1000 },
                                         { 950, 1000 },    { 22050, 16000 } };

    (void)state;
    fill();
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        check_parts(rates[i][0], rates[i][1], STK_RESAMPLE_HQ);
        check_parts(rates[i][0], rates[i][1], STK_RESAMPLE_TORCHAUDIO);
    }
}

static void too_far(void **state)
{
    stk_rate_change *r;

    (void)state;
    assert_int_equal(stk_rate_change_open(&r, 4000000, 100, STK_RESAMPLE_HQ, NULL), STK_ENOTSUP);
    assert_int_equal(stk_rate_change_open(&r, 1, 4000000, STK_RESAMPLE_HQ, NULL), STK_ENOTSUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dots),
        cmocka_unit_test(spectra),
        cmocka_unit_test(sizes_that_are_refused),
        cmocka_unit_test(parts),
        cmocka_unit_test(too_far),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
