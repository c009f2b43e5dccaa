/* SPDX-License-Identifier: Apache-2.0 */
/* resample_fft.c - tables of resample_fft.h, and where blocks are. */
#include "sound/resample_fft.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "config.h"
#include "sound/resample.h"

#define MOST_SAMPLES 32768 /* of a block */
#define REACHES 12         /* a block is at least so many times the filter's reach */

/* ---- tables ---- */

static int is_smooth(uint64_t n)
{
    for (uint64_t p = 2; p <= STK_FFT_ODD; p++)
        while (n % p == 0)
            n /= p;
    return n == 1;
}

static int fill_turn(float **out, uint32_t n, stk_error *err)
{
    float *w = *out = stk_zalloc((size_t)n + 4, sizeof *w);

    if (!w)
        return stk_fail_nomem(err, ((size_t)n + 4) * sizeof *w);
    for (uint32_t k = 0; k <= n / 2; k++) {
        w[2 * k] = (float)cos(2 * M_PI * k / n);
        w[2 * k + 1] = (float)-sin(2 * M_PI * k / n);
    }
    return 0;
}

/* The filter's spectrum, which is real; cosines of multiples of an angle by their recurrence. */
static int fill_gain(stk_block_rate *b, const stk_block_filter *f, stk_error *err)
{
    double *tap = stk_zalloc((size_t)f->reach + 1, sizeof *tap);

    b->gain = stk_zalloc(b->top, sizeof *b->gain);
    if (!tap || !b->gain) {
        stk_free(tap);
        return stk_fail_nomem(err, b->top * sizeof *b->gain);
    }
    for (uint32_t t = 0; t <= f->reach; t++)
        tap[t] = f->tap(f->shape, t);
    for (uint32_t k = 0; k < b->top; k++) {
        double step = cos(2 * M_PI * k / b->n_in), before = 1, now = step, sum = tap[0];

        for (uint32_t t = 1; t <= f->reach; t++) {
            double next = 2 * step * now - before;

            sum += 2 * tap[t] * now;
            before = now;
            now = next;
        }
        b->gain[k] = (float)(sum * 2 / b->n_in);
    }
    stk_free(tap);
    return 0;
}

/* How many periods a block has; 0: the ratio is not for blocks. */
static uint32_t periods_of(const stk_block_filter *f, uint32_t margin)
{
    uint64_t longest = f->up > f->down ? f->up : f->down;

    if (!is_smooth(f->up) || !is_smooth(f->down) || f->up == f->down)
        return 0;
    for (uint32_t k = 2; k * longest <= MOST_SAMPLES; k *= 2)
        if (k * f->down >= (uint64_t)REACHES * f->reach && k >= 4 * margin)
            return k;
    return 0;
}

int stk_block_rate_open(stk_block_rate **out, const stk_block_filter *f, stk_error *err)
{
    uint32_t margin = (uint32_t)((f->reach + f->down - 1) / f->down), k = periods_of(f, margin);
    stk_block_rate *b;
    int rc;

    *out = NULL;
    if (!k)
        return 0;
    b = STK_NEW(stk_block_rate);
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    *b = (stk_block_rate){ .up = f->up,
                           .down = f->down,
                           .periods = k,
                           .margin = margin,
                           .n_in = (uint32_t)(k * f->down),
                           .n_out = (uint32_t)(k * f->up),
                           .run = stk_block_resample_c };
    b->top = (b->n_in < b->n_out ? b->n_in : b->n_out) / 2; /* nothing passes there */
#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX2)
        b->run = stk_block_resample_avx2;
#endif
    rc = stk_fft_open(&b->in, b->n_in / 2, err);
    if (rc == 0)
        rc = stk_fft_open(&b->out, b->n_out / 2, err);
    if (rc == 0)
        rc = fill_turn(&b->turn_in, b->n_in, err);
    if (rc == 0)
        rc = fill_turn(&b->turn_out, b->n_out, err);
    if (rc == 0)
        rc = fill_gain(b, f, err);
    if (rc < 0)
        stk_block_rate_close(&b);
    *out = b;
    return rc;
}

void stk_block_rate_close(stk_block_rate **b)
{
    if (*b) {
        stk_fft_fini(&(*b)->in);
        stk_fft_fini(&(*b)->out);
        stk_free((*b)->turn_in);
        stk_free((*b)->turn_out);
        stk_free((*b)->gain);
    }
    stk_free(*b);
    *b = NULL;
}

size_t stk_block_rate_work(const stk_block_rate *b)
{
    size_t h = (b->n_in > b->n_out ? b->n_in : b->n_out) / 2;

    return STK_BLOCK_LANES * (2 * h + 4 * h + 2 * (h + 1));
}

/* ---- blocks ---- */

static uint64_t step_of(const stk_block_rate *b) /* periods from a block to the next */
{
    return b->periods - 2 * b->margin;
}

static int64_t inputs_at(const stk_block_rate *b, uint64_t block) /* its first input */
{
    return ((int64_t)(block * step_of(b)) - (int64_t)b->margin) * (int64_t)b->down;
}

void stk_block_rate_needs(const stk_block_rate *b, uint64_t from, uint64_t to, int64_t *in_from,
                          int64_t *in_to)
{
    uint64_t outputs = step_of(b) * b->up;

    *in_from = inputs_at(b, from / outputs);
    *in_to = inputs_at(b, (to - 1) / outputs) + (int64_t)b->n_in;
}

static void take_block(const stk_block_rate *b, const stk_resample_in *in, uint64_t block,
                       float *row)
{
    int64_t at = inputs_at(b, block) - in->first, end = at + (int64_t)b->n_in, n = (int64_t)in->n;
    int64_t from = at < 0 ? 0 : at, to = end > n ? n : end;

    if (from < to && to - from == (int64_t)b->n_in) {
        memcpy(row, in->data + from, b->n_in * sizeof *row);
        return;
    }
    memset(row, 0, b->n_in * sizeof *row);
    if (from < to)
        memcpy(row + (from - at), in->data + from, (size_t)(to - from) * sizeof *row);
}

void stk_block_rate_run(const stk_block_rate *b, const stk_resample_in *in, uint64_t from,
                        uint64_t n, float *out)
{
    uint64_t outputs = step_of(b) * b->up, first = from / outputs, to = from + n;
    uint64_t last = n ? (to - 1) / outputs : first;
    float *work = in->work;

    for (uint64_t block = first; n && block <= last; block += STK_BLOCK_LANES) {
        for (uint32_t k = 0; k < STK_BLOCK_LANES; k++)
            if (block + k <= last)
                take_block(b, in, block + k, work + (size_t)k * b->n_in);
            else
                memset(work + (size_t)k * b->n_in, 0, b->n_in * sizeof *work);
        b->run(b, work);
        for (uint32_t k = 0; k < STK_BLOCK_LANES && block + k <= last; k++) {
            uint64_t start = (block + k) * outputs, lo = start < from ? from : start;
            uint64_t hi = start + outputs > to ? to : start + outputs;

            memcpy(out + (lo - from),
                   work + (size_t)k * b->n_out + (size_t)b->margin * b->up + (lo - start),
                   (size_t)(hi - lo) * sizeof *out);
        }
    }
}
