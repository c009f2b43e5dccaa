/* SPDX-License-Identifier: Apache-2.0 */
/* resample.c - filters of resamplers, and which of them an output has.
 *
 * Output k is at input k * M / L (L, M: the rates without common factors).  Its phase is k * M mod
 * L.  Most ratios run in blocks (resample_fft.h).  Else there is a filter for each phase; of ratios
 * with more than MOST_PHASES of them, a filter is mixed of two neighbours in a table of that many,
 * which is 120 dB exact. */
#include "sound/resample.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "sound/dot.h"

#define MOST_PHASES 2048
#define MOST_TAPS (1 << 16)
#define HQ_PASS 0.913 /* of the band */
#define HQ_STOP 126.0 /* dB */
#define TA_WIDTH 6.0  /* torchaudio: zero crossings, */
#define TA_ROLLOFF 0.99

struct stk_rate_change {
    uint64_t up, down; /* L, M */
    uint32_t phases;   /* of the table; less than `up`: filters are mixed */
    uint32_t taps;     /* a multiple of STK_DOT */
    int32_t *first;    /* of each phase: its first input, relative to that at k * M / L */
    float *tap;
    stk_dot_fn dot;
    stk_block_rate *block; /* NULL: the filters are used */
};

static double bessel(double x) /* I0 */
{
    double sum = 1, term = 1;

    for (int k = 1; k < 200 && term > sum * 1e-18; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static double sinc(double x)
{
    return fabs(x) < 1e-12 ? 1 : sin(M_PI * x) / (M_PI * x);
}

typedef struct shape { /* of a filter, t in inputs */
    stk_resample_kind kind;
    double cutoff, half; /* half: of its width; cutoff: in cycles per input, twice */
    double beta, bottom;
} shape;

static double shape_at(const shape *s, double t)
{
    double x = t / s->half, w;

    if (x <= -1 || x >= 1)
        return 0;
    if (s->kind == STK_RESAMPLE_TORCHAUDIO) {
        w = cos(x * M_PI / 2);
        w *= w;
    } else {
        w = bessel(s->beta * sqrt(1 - x * x)) / s->bottom;
    }
    return s->cutoff * sinc(s->cutoff * t) * w;
}

static shape shape_of(stk_resample_kind kind, uint64_t up, uint64_t down)
{
    double band = up < down ? (double)up / (double)down : 1; /* of the input's */
    shape s = { .kind = kind };

    if (kind == STK_RESAMPLE_TORCHAUDIO) {
        s.cutoff = TA_ROLLOFF * band;
        s.half = TA_WIDTH / s.cutoff;
        return s;
    }
    s.cutoff = band * (1 + HQ_PASS) / 2;
    s.half = (HQ_STOP - 7.95) / (2.285 * M_PI * (1 - HQ_PASS)) / band / 2;
    s.beta = 0.1102 * (HQ_STOP - 8.7);
    s.bottom = bessel(s.beta);
    return s;
}

static double tap_of(const void *s, double t)
{
    return shape_at(s, t);
}

/* By their spectra, which only HQ's filter ends before those of outputs do. */
static int open_blocks(stk_rate_change *r, const shape *s, stk_error *err)
{
    const stk_block_filter f = { r->up, r->down, (uint32_t)ceil(s->half) + 1, tap_of, s };

    return s->kind == STK_RESAMPLE_HQ ? stk_block_rate_open(&r->block, &f, err) : 0;
}

static void fill_phase(const stk_rate_change *r, const shape *s, uint32_t p)
{
    /* where the output is after input k * M / L, rounded down */
    double at = (double)p / r->phases;
    int32_t first = (int32_t)ceil(at - s->half);
    float *tap = r->tap + (size_t)p * r->taps;

    r->first[p] = first;
    for (uint32_t i = 0; i < r->taps; i++)
        tap[i] = (float)shape_at(s, (double)first + i - at);
}

/* A filter for each phase. */
static int fill_table(stk_rate_change *r, const shape *s, stk_error *err)
{
    r->dot = stk_dot_find(stk_cpu_level());
    r->phases = r->up <= MOST_PHASES ? (uint32_t)r->up : MOST_PHASES;
    r->taps = ((uint32_t)(2 * s->half) + 2 + STK_DOT - 1) / STK_DOT * STK_DOT;
    r->first = stk_zalloc(r->phases + 1, sizeof *r->first);
    r->tap = stk_zalloc((size_t)(r->phases + 1) * r->taps, sizeof *r->tap);
    if (!r->first || !r->tap)
        return stk_fail_nomem(err, (size_t)(r->phases + 1) * r->taps * sizeof *r->tap);
    for (uint32_t p = 0; p <= r->phases; p++)
        fill_phase(r, s, p);
    return 0;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t c = a % b;

        a = b;
        b = c;
    }
    return a;
}

int stk_rate_change_open(stk_rate_change **out, uint32_t from, uint32_t to, stk_resample_kind kind,
                         stk_error *err)
{
    uint64_t common = divisor(from, to);
    stk_rate_change *r;
    shape s;
    int rc;

    *out = NULL;
    assert(from && to);
    s = shape_of(kind, to / common, from / common);
    if (s.half * 2 > MOST_TAPS || to / from > 1024)
        return stk_fail(err, STK_ENOTSUP, "resample: %u to %u samples per second is too far", from,
                        to);
    r = STK_NEW(stk_rate_change);
    if (!r)
        return stk_fail_nomem(err, sizeof *r);
    r->up = to / common;
    r->down = from / common;
    r->dot = stk_dot_find(stk_cpu_level());
    rc = open_blocks(r, &s, err);
    if (rc == 0 && !r->block)
        rc = fill_table(r, &s, err);
    if (rc < 0)
        stk_rate_change_close(&r);
    *out = r;
    return rc;
}

void stk_rate_change_close(stk_rate_change **r)
{
    if (*r) {
        stk_free((*r)->first);
        stk_free((*r)->tap);
        stk_block_rate_close(&(*r)->block);
    }
    stk_free(*r);
    *r = NULL;
}

uint64_t stk_rate_change_length(const stk_rate_change *r, uint64_t n)
{
    unsigned __int128 wide = (unsigned __int128)n * r->up + r->down - 1;

    return (uint64_t)(wide / r->down);
}

size_t stk_rate_change_work(const stk_rate_change *r)
{
    return r->block ? stk_block_rate_work(r->block) : 0;
}

/* Where output k is: the input before it, and its phase. */
static void place_of(const stk_rate_change *r, uint64_t k, int64_t *at, uint64_t *phase)
{
    unsigned __int128 wide = (unsigned __int128)k * r->down;

    *at = (int64_t)(wide / r->up);
    *phase = (uint64_t)(wide % r->up);
}

void stk_rate_change_needs(const stk_rate_change *r, uint64_t from, uint64_t to, int64_t *in_from,
                           int64_t *in_to)
{
    uint64_t phase;

    if (r->block) {
        stk_block_rate_needs(r->block, from, to, in_from, in_to);
        return;
    }
    place_of(r, from, in_from, &phase);
    place_of(r, to - 1, in_to, &phase);
    *in_from += r->first[0];
    *in_to += r->first[r->phases] + (int64_t)r->taps;
}

/* The filter of a row of the table at input `at`, on what there is of it. */
static float one(const stk_rate_change *r, const stk_resample_in *in, int64_t at, uint32_t p)
{
    const float *tap = r->tap + (size_t)p * r->taps;
    int64_t from = at + r->first[p] - in->first, n = (int64_t)in->n;
    float part[STK_DOT], sum[STK_DOT] = { 0 };

    if (from >= 0 && from + (int64_t)r->taps <= n)
        return r->dot(tap, in->data + from, r->taps);
    for (uint32_t i = 0; i < r->taps; i += STK_DOT) { /* as dot() has it, with silence around */
        for (uint32_t k = 0; k < STK_DOT; k++) {
            int64_t j = from + i + k;

            part[k] = j >= 0 && j < n ? in->data[j] : 0;
        }
        for (uint32_t k = 0; k < STK_DOT; k++)
            sum[k] += tap[i + k] * part[k];
    }
    return stk_dot_sum(sum);
}

void stk_rate_change_run(const stk_rate_change *r, const stk_resample_in *in, uint64_t from,
                         uint64_t n, float *out)
{
    uint64_t phase;
    int64_t at;

    if (r->block) {
        stk_block_rate_run(r->block, in, from, n, out);
        return;
    }
    place_of(r, from, &at, &phase);
    for (uint64_t i = 0; i < n; i++) {
        if (r->phases == r->up) {
            out[i] = one(r, in, at, (uint32_t)phase);
        } else {
            double where = (double)phase * r->phases / (double)r->up;
            uint32_t p = (uint32_t)where;
            float a = one(r, in, at, p), b = one(r, in, at, p + 1);

            out[i] = a + (b - a) * (float)(where - p);
        }
        phase += r->down % r->up;
        at += (int64_t)(r->down / r->up) + (phase >= r->up);
        phase -= phase >= r->up ? r->up : 0;
    }
}
