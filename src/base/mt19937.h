/* SPDX-License-Identifier: Apache-2.0 */
/* mt19937.h - the Mersenne Twister of 32 bits (Matsumoto and Nishimura, 1998), and the shuffle of
 * NumPy's RandomState.  Megatron's order calls it (order/gpt_order.c).
 *
 * It is only for orders that other programs define with it; our own numbers are Philox's (rng.h).
 * Its numbers equal those of numpy.random.RandomState(seed), so tables are the same as there. */
#ifndef STOKER_BASE_MT19937_H
#define STOKER_BASE_MT19937_H

#include <stddef.h>
#include <stdint.h>

#define STK_MT_WORDS 624

typedef struct stk_mt {
    uint32_t word[STK_MT_WORDS];
    uint32_t at; /* index of the next word; STK_MT_WORDS: all are used */
} stk_mt;

void stk_mt_init(stk_mt *m, uint32_t seed);
uint32_t stk_mt_u32(stk_mt *m);
/* A number in 0..most, each equally likely: takes as many low bits as `most` has, and draws again
 * while they are above it. */
uint32_t stk_mt_below(stk_mt *m, uint32_t most);
/* RandomState.shuffle() of n < 2^32 numbers: from the last to the first, each changes places with
 * one at or before it. */
void stk_mt_shuffle(stk_mt *m, uint32_t *x, uint64_t n);

#endif
