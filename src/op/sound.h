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

/* The mean square of n samples, n above 0. */
static inline double stk_wave_power(const float *x, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

/* part and random_part: which samples of n, at that rate.  state: the op's. */
typedef struct stk_part_of { /* samples from .. to - 1 */
    uint64_t from, to;
} stk_part_of;
typedef struct stk_part_in { /* a recording, at the rate that the chain asks for */
    double rate;
    uint64_t n;      /* samples */
    uint64_t sample; /* its number among all of the loader's; STK_NO_SAMPLE: not known */
} stk_part_in;
#define STK_NO_SAMPLE UINT64_MAX
int stk_part_span(const void *state, stk_rng *rng, const stk_part_in *in, stk_part_of *out,
                  stk_error *err);

/* part(start=FIELD, seconds=FIELD): the fields' names, NULL where a number was given, and then
 * their values for every sample of the loader, which the state frees. */
typedef struct stk_part_fields {
    const char *name[2]; /* of start, of seconds */
} stk_part_fields;
stk_part_fields stk_part_named(const void *state);
/* part(of=OUTPUT): that name; else NULL. */
const char *stk_part_clip(const void *state);
void stk_part_bind(void *state, uint32_t which, double *values);

/* The most seconds that an op leaves of so many: of sound_part.c, of sound_wave.c, of all. */
double stk_part_seconds(const void *state, double seconds, uint64_t sample);
double stk_wave_seconds(const stk_op *op, const void *state, double seconds);
double stk_sound_seconds(const stk_op *op, const void *state, double seconds, uint64_t sample);

#endif
