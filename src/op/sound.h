/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h - what ops on recordings share. */
#ifndef STOKER_OP_SOUND_H
#define STOKER_OP_SOUND_H

#include "op/spec.h"

/* A chain that has samples of sound at this point; else STK_EINVAL, with the op's name. */
int stk_op_needs_wave(const char *op, const stk_spec *spec, stk_error *err);
/* ... of a rate that the chain knows. */
int stk_op_needs_rate(const char *op, const stk_spec *spec, stk_error *err);
/* A number of seconds in (0, 86400]. */
int stk_op_seconds(const char *op, const stk_args *args, const char *name, double *out,
                   stk_error *err);
/* How many samples that is; at least 1. */
uint64_t stk_samples_of(double seconds, double rate);
/* The recording has as many samples as its last dimension; all channels one after another. */
static inline uint64_t stk_wave_len(const stk_value_row *row)
{
    return (uint64_t)row->shape[row->ndim - 1];
}
static inline uint64_t stk_wave_channels(const stk_value_row *row)
{
    return row->ndim == 2 ? (uint64_t)row->shape[0] : 1;
}
/* Room for a row with other samples: its shape and data are set, and *out is that. */
int stk_wave_new(stk_value_row *row, uint64_t samples, stk_scratch *scratch, float **out,
                 stk_error *err);

/* part and random_part: which samples of n, at that rate.  state: the op's. */
typedef struct stk_part_of { /* samples from .. to - 1 */
    uint64_t from, to;
} stk_part_of;
int stk_part_span(const void *state, stk_rng *rng, double rate, uint64_t n, stk_part_of *out,
                  stk_error *err);

#endif
