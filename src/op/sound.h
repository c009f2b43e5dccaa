/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h - what ops on recordings share: checks, lengths in samples, and parts of a recording. */
#ifndef STOKER_OP_SOUND_H
#define STOKER_OP_SOUND_H

#include "op/spec.h"

/* STK_EINVAL: the chain has no samples of sound at this point. */
int stk_op_needs_wave(const char *op, const stk_spec *spec, stk_error *err);
/* The same, or the plan does not know their rate. */
int stk_op_needs_rate(const char *op, const stk_spec *spec, stk_error *err);
/* Reads the argument `name`, a number of seconds in (0, 86400]. */
int stk_op_seconds(const char *op, const stk_args *args, const char *name, double *out,
                   stk_error *err);
/* `seconds` in samples; at least 1. */
uint64_t stk_samples_of(double seconds, double rate);
/* Samples per channel, which is the last dimension of the row.  Channels follow each other. */
static inline uint64_t stk_wave_len(const stk_value_row *row)
{
    return (uint64_t)row->shape[row->ndim - 1];
}
static inline uint64_t stk_wave_channels(const stk_value_row *row)
{
    return row->ndim == 2 ? (uint64_t)row->shape[0] : 1;
}
/* Gives the row room for `samples` samples per channel: sets its shape and data, and *out to the
 * new, unset samples. */
int stk_wave_new(stk_value_row *row, uint64_t samples, stk_scratch *scratch, float **out,
                 stk_error *err);

/* The mean square of n samples, n above 0. */
static inline double stk_wave_power(const float *x, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

/* ---- part() and random_part(); `state` is the op's ---- */

typedef struct stk_part_of { /* samples from .. to - 1 */
    uint64_t from, to;
} stk_part_of;
typedef struct stk_part_in { /* a recording, at the rate that the chain asks for */
    double rate;
    uint64_t n;      /* samples */
    uint64_t sample; /* its number among all of the loader's; STK_NO_SAMPLE: not known */
} stk_part_in;
#define STK_NO_SAMPLE UINT64_MAX
/* Draws which samples the op keeps. */
int stk_part_span(const void *state, stk_rng *rng, const stk_part_in *in, stk_part_of *out,
                  stk_error *err);

typedef struct stk_part_fields { /* the fields that part(start=FIELD, seconds=FIELD) names */
    const char *name[2];         /* for start and for seconds; NULL: a number was given */
} stk_part_fields;
stk_part_fields stk_part_named(const void *state);
/* The output that part(of=OUTPUT) names; NULL: none. */
const char *stk_part_clip(const void *state);
/* Sets the values of a field that part() names (0: start, 1: seconds), one for every sample of the
 * loader.  The state frees them. */
void stk_part_bind(void *state, uint32_t which, double *values);

/* The longest result, in seconds, that an op makes of `seconds`.  The first is for the ops of
 * sound_part.c, the second for those of sound_wave.c, the third for any op. */
double stk_part_seconds(const void *state, double seconds, uint64_t sample);
double stk_wave_seconds(const stk_op *op, const void *state, double seconds);
double stk_sound_seconds(const stk_op *op, const void *state, double seconds, uint64_t sample);

#endif
