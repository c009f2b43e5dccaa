/* SPDX-License-Identifier: Apache-2.0 */
/* truncate_lengths.h - over_budget="truncate": how many patches a sample that is over the budget
 * keeps.  lengths.c calls it with what each sample counts. */
#ifndef STOKER_TRUNCATE_LENGTHS_H
#define STOKER_TRUNCATE_LENGTHS_H

#include "loader/parts.h"

typedef struct stk_truncating {
    stk_schedule *s;      /* its `truncated` is filled */
    uint64_t budget;      /* most values of a batch */
    uint64_t cap;         /* entries that s->truncated has memory for */
    uint32_t pad_patches; /* rows are padded to a multiple of it; 0: they are not */
    uint32_t pad_values;  /* the same for rows of numbers */
    uint32_t block;       /* patches of a block, the unit in which pictures are cut */
    uint32_t merged;      /* patches that are one token; 0: rows of numbers have none of them */
} stk_truncating;

int stk_truncates(const stk_loader_options *o); /* 1: that is the policy */

/* Checks that one output of pictures can be cut. */
int stk_truncating_init(stk_truncating *t, stk_schedule *s, const stk_plan_chains *c,
                        const stk_loader_options *o, stk_error *err);

/* *patches and *values are what sample `id` counts, values of all other outputs.  Both are lowered
 * to what fits into a batch, if some part of its pictures does.  Call with ascending ids. */
int stk_truncating_add(stk_truncating *t, uint64_t id, uint32_t *patches, uint32_t *values,
                       stk_error *err);

#endif
