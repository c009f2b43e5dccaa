/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.h - how long the rows of every sample are: given, kept from an earlier run, or measured.
 */
#ifndef STOKER_LENGTHS_H
#define STOKER_LENGTHS_H

#include "loader/parts.h"

/* s->lengths: for each sample of all data sets, whether it takes part or not, the longest row that
 * its ragged outputs of numbers and bytes have, truncate() included, and all its patches. */
int stk_lengths_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     stk_error *err);

/* patch_lengths.c: add how many patches each sample of data set d has, by the sizes of its
 * pictures; nothing is decoded. */
int stk_patch_lengths_add(const stk_plan *so_far, uint32_t d, const stk_loader_options *o,
                          uint32_t *lengths, stk_error *err);

/* loader.c: a loader whose workers write down lengths and make no rows. */
int stk_loader_open_measuring(stk_loader **out, stk_dataset *const *data, size_t n,
                              const stk_loader_options *opt, uint32_t *lengths, stk_error *err);

#endif
