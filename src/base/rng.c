/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - addressed random numbers and the one transcendental the draws need. */
#include "base/rng.h"

#include <math.h>

#define NARROW_BLOCKS 0x10000u

void stk_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    stk_philox_block(ctr, key, out);
}

static void widen(stk_rng *rng)
{
    const uint32_t ctr[4] = { (uint32_t)rng->path, (uint32_t)(rng->path >> 32), rng->output,
                              0xFFFF0000u | rng->view };
    uint32_t key[4];

    stk_philox_block(ctr, rng->key, key);
    rng->key[0] = key[0];
    rng->key[1] = key[1];
    rng->narrow = 0;
}

void stk_rng_at(stk_rng *rng, const stk_address *at)
{
    rng->key[0] = (uint32_t)at->seed;
    rng->key[1] = (uint32_t)(at->seed >> 32);
    rng->ctr[0] = (uint32_t)at->position;
    rng->ctr[1] = (uint32_t)(at->position >> 32);
    rng->ctr[2] = at->epoch;
    rng->path = at->path;
    rng->output = at->output;
    rng->view = at->view;
    rng->block = 0;
    rng->used = 4;
    rng->narrow = 1;
    rng->base = at->output << 24 | (uint32_t)(at->path - 1) << 16;
    if (at->view || at->path - 1 >= 255 || at->output >= 256)
        widen(rng);
}

void stk_rng_init(stk_rng *rng, uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output,
                  uint8_t step)
{
    stk_rng_at(rng, &(stk_address){ .seed = seed,
                                    .position = position,
                                    .path = stk_path(step),
                                    .epoch = epoch,
                                    .output = output });
}

void stk_rng_widen(stk_rng *rng)
{
    if (rng->narrow)
        widen(rng);
    rng->used = 4; /* the next number begins a block */
}

stk_rng_stream stk_rng_stream_of(const stk_rng *rng)
{
    return (stk_rng_stream){ { rng->key[0], rng->key[1] },
                             { rng->ctr[0], rng->ctr[1], rng->ctr[2] } };
}

static void next_block(stk_rng *rng)
{
    if (rng->narrow && rng->block == NARROW_BLOCKS)
        widen(rng);
    rng->ctr[3] = rng->narrow ? rng->base | rng->block : rng->block;
    stk_philox_block(rng->ctr, rng->key, rng->out);
    rng->block++;
    rng->used = 0;
}

uint32_t stk_rng_u32(stk_rng *rng)
{
    if (rng->used == 4)
        next_block(rng);
    return rng->out[rng->used++];
}

double stk_rng_unit(stk_rng *rng)
{
    return stk_rng_u32(rng) * 0x1p-32;
}

uint32_t stk_rng_below(stk_rng *rng, uint32_t n)
{
    return (uint32_t)((uint64_t)stk_rng_u32(rng) * n >> 32); /* bias below n / 2^32 */
}

double stk_exp(double x)
{
    /* x = k ln2 + r, |r| <= ln2/2; the Taylor series to r^13 by Horner, every operation rounded
     * by itself. */
    static const double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33;
    double k = nearbyint(x * 1.4426950408889634), r = (x - k * ln2_hi) - k * ln2_lo, s = 1;

    for (int i = 13; i >= 1; i--)
        s = 1 + s * r / i;
    return ldexp(s, (int)k);
}

/* From stk_exp() alone.  Halley's step triples the digits that are right. */
double stk_ln(double x)
{
    int e;
    double m = frexp(x, &e), y = e * 0.6931471805599453 + (m - 1);

    for (int i = 0; i < 5; i++) {
        double t = stk_exp(y);

        y += 2 * (x - t) / (x + t);
    }
    return y;
}
