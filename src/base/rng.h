/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - Philox4x32-10, addressed: the same numbers on any thread, after any resume.
 *
 * Numbers come in blocks of four.  Two rules say which counter a block has.
 *
 * Narrow, for what a chain's own step draws: view 0, not nested, step < 255, output < 256, block <
 * 2^16.  key = seed; counter = (position low, high, epoch, output << 24 | step << 16 | block).
 *
 * Wide, for all else: key = the first two words of Philox(key = seed, counter = (path low, high,
 * output, 0xFFFF0000 | view)); counter = (position low, high, epoch, block).  An op that reaches
 * block 2^16 goes on by this rule at that number.
 *
 * No narrow address has output 255 and step 255, so that keys and draws never share a block. */
#ifndef STOKER_BASE_RNG_H
#define STOKER_BASE_RNG_H

#include <stoker/plugin.h>

#include "base/philox.h"

#define STK_MAX_VIEWS 65536u /* of an address */
#define STK_PATH_LEVELS 7    /* of steps inside a step */

typedef struct stk_address {
    uint64_t seed, position;
    uint64_t path; /* stk_path(): which step */
    uint32_t epoch, output, view;
    /* 0, or what ops take in place of their max_patches, and the side of a patch; draws do not
     * depend on it */
    uint32_t max_patches, patch;
    /* 0, or how many blocks of `unit` x `unit` pixels the picture keeps at most
     * (over_budget="truncate"); draws do not depend on it */
    uint32_t keep, unit;
} stk_address;

/* Of step `step` (< 256) of a chain; of what is nested in it: stk_path_child(). */
static inline uint64_t stk_path(uint32_t step)
{
    return (uint64_t)step + 1;
}

/* Step `number` (< 255) of a chain that is an argument of the step at `path`; 7 levels at most. */
static inline uint64_t stk_path_child(uint64_t path, uint32_t number)
{
    return path << 8 | (number + 1);
}

void stk_rng_at(stk_rng *rng, const stk_address *at);

/* The same for view 0 of a step of a chain's own. */
void stk_rng_init(stk_rng *rng, uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output,
                  uint8_t step);

/* What a thread of its own needs for the numbers of an rng that was widened. */
stk_rng_stream stk_rng_stream_of(const stk_rng *rng);

/* The bare block function, for tests and tables. */
void stk_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* exp() with the same bits on every machine (libm's may use FMA or not); |x| <= 20, relative
 * error < 1e-13. */
double stk_exp(double x);
/* log(x), 1e-6 <= x <= 1e6, the same bits on every machine. */
double stk_ln(double x);

#endif
