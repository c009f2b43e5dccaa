/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - Philox4x32-10 (Salmon et al., SC'11), addressed: the same numbers on any thread, after
 * any resume.
 *
 * key = seed; counter = (position u64, epoch u32, output u8 | op u8 | draw u16).  `draw` counts
 * blocks of four numbers. */
#ifndef STOKER_BASE_RNG_H
#define STOKER_BASE_RNG_H

#include <stoker/plugin.h>

void stk_rng_init(stk_rng *rng, uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output,
                  uint8_t op);

/* The bare block function, for tests and tables. */
void stk_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* exp() with the same bits on every machine (libm's may use FMA or not); |x| <= 20, relative
 * error < 1e-13. */
double stk_exp(double x);

#endif
