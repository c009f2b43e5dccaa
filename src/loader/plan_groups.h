/* SPDX-License-Identifier: Apache-2.0 */
/* plan_groups.h - plans batches that all ranks make alike: pictures of one size (bucket), or of a
 * number of patches that changes by step (schedule).  plan_bins.c calls it. */
#ifndef STOKER_PLAN_GROUPS_H
#define STOKER_PLAN_GROUPS_H

#include "loader/parts.h"

/* STK_EINVAL: options contradict each other. */
int stk_groups_check(const stk_loader_options *o, stk_error *err);
/* 1: bucket means the sizes of pictures: they are stacked, or no rows differ in length. */
int stk_groups_by_size(const stk_plan_chains *c, const stk_loader_options *o);
/* Fill in s->binning for batches by size, or by step.  Order, start, seed and shuffle are set. */
int stk_groups_plan_sizes(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err);
int stk_groups_plan_steps(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err);

/* size_classes.c */
/* 1: the pictures of output i get sizes of their own. */
int stk_has_sizes(const stk_plan_chains *c, uint32_t i);
/* Fills s->classes with the class of each sample; *classes: how many there are. */
int stk_size_classes_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          uint32_t *classes, stk_error *err);

#endif
