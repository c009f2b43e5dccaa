/* SPDX-License-Identifier: Apache-2.0 */
/* group_bins.h - batches that all ranks make alike: of one class (aspect buckets), or of a size
 * that follows a schedule.  bins.c calls it for STK_BIN_CLASS and STK_BIN_STEPS.
 *
 * A group is one step of all ranks: one bin per rank, all of the same class or the same entry of
 * the schedule.  Groups are made over the whole epoch, not in windows, so that a class has one rest
 * in an epoch. */
#ifndef STOKER_GROUP_BINS_H
#define STOKER_GROUP_BINS_H

#include "order/bins.h"

typedef struct stk_group_bins stk_group_bins; /* Thread: any. */

typedef struct stk_group_bin {
    uint32_t kind;  /* class, or entry of the schedule */
    uint32_t rows;  /* at least 1 */
    int stand_in;   /* true if this rank has no rows left, and the row is another rank's */
    uint64_t first; /* number of its first row in its class, or in the epoch */
    uint64_t base;  /* where the rows of that class (or epoch) begin in the table */
    uint64_t n;     /* how many rows the class (or epoch) has; after the last, the first is next */
} stk_group_bin;

int stk_group_bins_open(stk_group_bins **out, const stk_binning *how, stk_error *err);
uint64_t stk_group_bins_count(stk_group_bins *g, uint64_t epoch);
void stk_group_bins_find(stk_group_bins *g, uint64_t epoch, uint64_t bin, stk_group_bin *out);
/* Sets position[0..n) to positions number `from` to from + n - 1 of a bin. */
void stk_group_bins_at(stk_group_bins *g, uint64_t epoch, uint64_t bin, uint32_t from, uint32_t n,
                       uint64_t *position);
void stk_group_bins_forget(stk_group_bins *g);
void stk_group_bins_close(stk_group_bins **g);

#endif
