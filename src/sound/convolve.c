/* SPDX-License-Identifier: Apache-2.0 */
/* convolve.c - tables of convolve.h, and where blocks are.  A block is a power of two that holds
 * the response at least twice, so that half of its samples or more are of use. */
#include "sound/convolve.h"

#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "config.h"

#define LEAST 10 /* of a block: 1024 samples */
#define SIZES 13 /* up to 2^22 */

struct stk_convolver {
    void (*run)(stk_convolve_block *b);
    stk_mutex lock; /* of what follows; tables stay as they are once they are made */
    stk_fft fft[SIZES];
};

int stk_convolver_open(stk_convolver **out, stk_error *err)
{
    stk_convolver *c = *out = STK_NEW(stk_convolver);

    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->run = stk_convolve_block_c;
#if STK_HAVE_AVX2
    if (stk_cpu_level() >= STK_CPU_AVX2)
        c->run = stk_convolve_block_avx2;
#endif
    stk_mutex_init(&c->lock);
    return 0;
}

void stk_convolver_close(stk_convolver **c)
{
    if (*c) {
        for (int i = 0; i < SIZES; i++)
            stk_fft_fini(&(*c)->fft[i]);
        stk_mutex_destroy(&(*c)->lock);
    }
    stk_free(*c);
    *c = NULL;
}

static int find_fft(stk_convolver *c, uint64_t taps, const stk_fft **out, stk_error *err)
{
    uint32_t i = 0;
    int rc = 0;

    while (((uint64_t)1 << (LEAST + i)) < 2 * taps)
        i++;
    stk_mutex_lock(&c->lock);
    if (!c->fft[i].twiddle)
        rc = stk_fft_open(&c->fft[i], (uint32_t)1 << (LEAST + i), err);
    stk_mutex_unlock(&c->lock);
    *out = &c->fft[i];
    return rc;
}

typedef struct convolving {
    const stk_convolve_in *in;
    stk_convolve_block block;
    uint64_t step; /* samples of use in a block */
} convolving;

/* Block b begins n_taps - 1 samples before the first one that is of use. */
static void put_block(const convolving *v, uint64_t b, uint32_t k)
{
    const stk_convolve_in *in = v->in;
    int64_t at = (int64_t)(b * v->step + in->shift) - (int64_t)(in->n_taps - 1);
    float *row = v->block.work + k / 8 * (size_t)v->block.fft->n * 8 + k % 8; /* its lane */

    for (uint32_t i = 0; i < v->block.fft->n; i++, at++)
        row[(size_t)i * 8] = at >= 0 && at < (int64_t)in->n ? in->data[at] : 0;
}

static void take_block(const convolving *v, uint64_t b, uint32_t k, float *out)
{
    uint64_t from = b * v->step, n = v->in->n - from < v->step ? v->in->n - from : v->step;
    const float *row = (k < 8 ? v->block.re : v->block.im) + k % 8;

    for (uint64_t i = 0; i < n; i++)
        out[from + i] = row[(v->in->n_taps - 1 + i) * 8];
}

static void put_taps(const convolving *v)
{
    const stk_convolve_in *in = v->in;
    uint32_t n = v->block.fft->n;

    memset(v->block.work, 0, (size_t)n * 16 * sizeof(float));
    for (uint64_t i = 0; i < in->n_taps; i++)
        v->block.work[i * 8] = in->tap[i] / (float)n;
}

int stk_convolve(stk_convolver *c, const stk_convolve_in *in, stk_scratch *scratch, float *out,
                 stk_error *err)
{
    convolving v = { .in = in };
    uint64_t blocks;
    size_t room;

    if (!in->n_taps || in->n_taps > STK_CONVOLVE_TAPS)
        return stk_fail(err, STK_ELIMIT, "a response of %" PRIu64 " samples is not in 1..%u",
                        in->n_taps, STK_CONVOLVE_TAPS);
    STK_TRY(find_fft(c, in->n_taps, &v.block.fft, err));
    room = (size_t)v.block.fft->n * (4 * 8 + 2) * sizeof(float);
    v.block.work = stk_scratch_get(scratch, room);
    if (!v.block.work)
        return stk_fail_nomem(err, room);
    v.block.made = v.block.work + (size_t)v.block.fft->n * 4 * 8;
    put_taps(&v);
    c->run(&v.block);
    v.block.taps = v.block.made;
    v.step = v.block.fft->n - (in->n_taps - 1);
    blocks = (in->n + v.step - 1) / v.step;
    for (uint64_t b = 0; b < blocks; b += STK_CONVOLVE_BLOCKS) {
        for (uint32_t k = 0; k < STK_CONVOLVE_BLOCKS; k++)
            put_block(&v, b + k, k); /* past the end: zeros */
        c->run(&v.block);
        for (uint32_t k = 0; k < STK_CONVOLVE_BLOCKS && b + k < blocks; k++)
            take_block(&v, b + k, k, out);
    }
    return 0;
}
