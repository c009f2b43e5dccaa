/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - random numbers by address (seed, epoch, position, output, step): the same on any thread,
 * and after any resume.  The generator is Philox4x32-10.  Whatever draws for a sample calls it.
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

#define STK_MAX_VIEWS 65536u /* views are numbered below this */
#define STK_PATH_LEVELS 7    /* most levels of steps inside a step */

typedef struct stk_address {
    uint64_t seed, position;
    uint64_t path; /* the step that draws: stk_path() */
    uint32_t epoch, output, view;
    /* replace an op's max_patches and its side of a patch; 0: they don't.  Draws do not depend on
     * these two, or on the next two */
    uint32_t max_patches, patch;
    /* most blocks of `unit` x `unit` pixels that the picture keeps (over_budget="truncate"); 0:
     * all */
    uint32_t keep, unit;
} stk_address;

/* The path of step `step` (< 256) of a chain; for steps nested in it use stk_path_child(). */
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

/* The same for view 0 of a step that is not nested. */
void stk_rng_init(stk_rng *rng, uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output,
                  uint8_t step);

/* The stream of an rng that uses the wide rule, for code that computes any block by itself. */
stk_rng_stream stk_rng_stream_of(const stk_rng *rng);

/* The block function alone, for tests and tables. */
void stk_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* exp() with the same bits on every machine (libm's may use FMA or not); |x| <= 20, relative
 * error < 1e-13. */
double stk_exp(double x);
/* log(x), 1e-6 <= x <= 1e6, the same bits on every machine. */
double stk_ln(double x);

#endif
