/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - addressed random numbers and the one transcendental the draws need. */
#include "base/rng.h"

#include <math.h>

void stk_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void stk_rng_init(stk_rng *rng, uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output,
                  uint8_t op)
{
    rng->key[0] = (uint32_t)seed;
    rng->key[1] = (uint32_t)(seed >> 32);
    rng->ctr[0] = (uint32_t)position;
    rng->ctr[1] = (uint32_t)(position >> 32);
    rng->ctr[2] = epoch;
    rng->ctr[3] = (uint32_t)output << 24 | (uint32_t)op << 16;
    rng->used = 4;
}

uint32_t stk_rng_u32(stk_rng *rng)
{
    if (rng->used == 4) {
        stk_philox(rng->ctr, rng->key, rng->out);
        rng->ctr[3] = (rng->ctr[3] & 0xFFFF0000u) | ((rng->ctr[3] + 1) & 0xFFFFu);
        rng->used = 0;
    }
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
