/* SPDX-License-Identifier: Apache-2.0 */
/* mt19937.h - the Mersenne Twister of 32 bits (Matsumoto and Nishimura, 1998), and the shuffle that
 * NumPy's RandomState makes of it.
 *
 * Only for orders that others have fixed with it; our own numbers are Philox's (rng.h).  Equal to
 * numpy.random.RandomState(seed) number by number, so a table made here is a table made there. */
#ifndef STOKER_BASE_MT19937_H
#define STOKER_BASE_MT19937_H

#include <stddef.h>
#include <stdint.h>

#define STK_MT_WORDS 624

typedef struct stk_mt {
    uint32_t word[STK_MT_WORDS];
    uint32_t at; /* the next one; STK_MT_WORDS: they are used up */
} stk_mt;

void stk_mt_init(stk_mt *m, uint32_t seed);
uint32_t stk_mt_u32(stk_mt *m);
/* 0..most, each equally likely: as many low bits as `most` has, drawn again while they are
 * above. */
uint32_t stk_mt_below(stk_mt *m, uint32_t most);
/* x.shuffle() of n < 2^32 numbers: from the last down, each changes places with one up to it. */
void stk_mt_shuffle(stk_mt *m, uint32_t *x, uint64_t n);

#endif
