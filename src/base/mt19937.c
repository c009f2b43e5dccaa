/* SPDX-License-Identifier: Apache-2.0 */
/* mt19937.c - see mt19937.h.  A block of 624 words is made at a time, each out of itself, its
 * neighbour and the word 397 places on. */
#include "base/mt19937.h"

#define AHEAD 32
#define SHIFT 397
#define TOP 0x80000000u
#define TWIST 0x9908b0dfu

void stk_mt_init(stk_mt *m, uint32_t seed)
{
    m->word[0] = seed;
    for (uint32_t i = 1; i < STK_MT_WORDS; i++)
        m->word[i] = 1812433253u * (m->word[i - 1] ^ m->word[i - 1] >> 30) + i;
    m->at = STK_MT_WORDS;
}

static uint32_t twisted(uint32_t word, uint32_t next, uint32_t shifted)
{
    uint32_t both = (word & TOP) | (next & ~TOP);

    return shifted ^ both >> 1 ^ (both & 1 ? TWIST : 0);
}

static void block(stk_mt *m)
{
    uint32_t *w = m->word, i = 0;

    for (; i < STK_MT_WORDS - SHIFT; i++)
        w[i] = twisted(w[i], w[i + 1], w[i + SHIFT]);
    for (; i < STK_MT_WORDS - 1; i++)
        w[i] = twisted(w[i], w[i + 1], w[i + SHIFT - STK_MT_WORDS]);
    w[i] = twisted(w[i], w[0], w[SHIFT - 1]);
    m->at = 0;
}

uint32_t stk_mt_u32(stk_mt *m)
{
    uint32_t x;

    if (m->at == STK_MT_WORDS)
        block(m);
    x = m->word[m->at++];
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680u;
    x ^= x << 15 & 0xefc60000u;
    return x ^ x >> 18;
}

uint32_t stk_mt_below(stk_mt *m, uint32_t most)
{
    uint32_t mask, x;

    if (!most)
        return 0; /* nothing to draw, and nothing is drawn */
    mask = UINT32_MAX >> __builtin_clz(most);
    do
        x = stk_mt_u32(m) & mask;
    while (x > most);
    return x;
}

/* What is drawn does not depend on what is swapped, so it is drawn ahead: places of a large array
 * come in while others are swapped. */
void stk_mt_shuffle(stk_mt *m, uint32_t *x, uint64_t n)
{
    uint32_t place[AHEAD];

    while (n > 1) {
        uint32_t some = n - 1 < AHEAD ? (uint32_t)(n - 1) : AHEAD;

        for (uint32_t i = 0; i < some; i++) {
            place[i] = stk_mt_below(m, (uint32_t)(n - 1 - i));
            __builtin_prefetch(&x[place[i]], 1);
        }
        for (uint32_t i = 0; i < some; i++) {
            uint32_t last = x[--n];

            x[n] = x[place[i]];
            x[place[i]] = last;
        }
    }
}
