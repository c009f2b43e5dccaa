/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.h - finds out how long the rows of every sample are: given, stored by an earlier run, or
 * measured.  The plan of the schedule calls it for batches by length. */
#ifndef STOKER_LENGTHS_H
#define STOKER_LENGTHS_H

#include "loader/parts.h"

/* Fills s->lengths: for each sample of all data sets, whether it takes part or not, its longest row
 * in ragged outputs of numbers and bytes, after truncate(), plus all its patches.  Where several of
 * these are padded, s->parts and s->binning.parts have each. */
int stk_lengths_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err);

/* patch_lengths.c: the number of patches of each sample of data set d in an output, from the sizes
 * of its pictures; nothing is decoded. */
typedef struct stk_patch_counts {
    uint32_t *length; /* patches of each sample, in order */
    uint32_t *size;   /* stk_size_packed() of each; NULL: not wanted */
} stk_patch_counts;
int stk_patch_lengths(const stk_plan *so_far, uint32_t d, uint32_t output,
                      const stk_loader_options *o, const stk_patch_counts *out, stk_error *err);
/* Sets *bound to 0 if the number of patches follows from a picture's size.  Otherwise the number is
 * random, and *bound is the most.  STK_EINVAL: it is random without a limit. */
int stk_patch_bound(const stk_chain *c, const char *name, uint32_t *bound, stk_error *err);

/* plan_bins.c: the common multiple of the numbers that padded outputs are rounded up to; 0: none is
 * rounded.  STK_EINVAL: it is too large. */
int stk_bins_multiple(const stk_plan_chains *c, uint32_t *out, stk_error *err);

/* sound_lengths.c: true if batches are made by seconds of sound, not by values. */
static inline int stk_by_seconds(const stk_loader_options *o)
{
    return o->max_seconds > 0 || (o->bucket && !o->max_tokens && !o->lengths);
}
/* Fills s->seconds: the longest each sample can be, by the durations in HASH.media and by what its
 * chain cuts or stretches; nothing is decoded.  Stays NULL if no output is sound. */
int stk_seconds_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err);

/* sound_parts.c: gives steps of chains the values of the fields that they name: part(start=offset,
 * seconds=duration). */
int stk_sound_parts_bind(const stk_plan *so_far, stk_error *err);

/* loader.c: a loader whose workers store lengths and make no rows. */
int stk_loader_open_measuring(stk_loader **out, stk_dataset *const *data, size_t n,
                              const stk_loader_options *opt, uint32_t *lengths, stk_error *err);

#endif
