/* SPDX-License-Identifier: Apache-2.0 */
/* bins.h - an epoch's positions put together by length: packed rows, batches within a budget,
 * batches of like rows.
 *
 * The epoch is cut into windows of a fixed number of positions.  What is made of a window follows
 * from (seed, epoch, window) and the lengths of its samples, whatever the ranks are, so that
 * (epoch, bin) is all there is to a state.  Tables are made when they are first looked at: how many
 * bins each window of an epoch has, and which positions they hold. */
#ifndef STOKER_BINS_H
#define STOKER_BINS_H

#include "order/order.h"
#include "order/pack_fit.h"

#define STK_BIN_WINDOW ((uint32_t)1 << 16)

typedef enum stk_bin_kind {
    STK_BIN_PACK, /* a bin is a row of `block`: what fits into it.  What is longer fills rows of its
                     * own, and the rest of it is packed; a length of 0 stands nowhere */
    STK_BIN_BUDGET, /* a bin is a batch: rows of like length, rows x the longest <= budget */
    STK_BIN_LIKE    /* a bin is one position: runs of `rows` of them are of like length */
} stk_bin_kind;

typedef struct stk_binning {
    stk_bin_kind kind;
    const stk_order *order; /* whose epochs; borrowed */
    const uint32_t *length; /* of each global id; borrowed.  0 counts as 1, but not in PACK */
    const uint64_t *start;  /* global id of each data set's first sample; borrowed */
    uint64_t seed;
    int shuffle;       /* of the bins in their window; else the longest come first */
    uint32_t window;   /* positions */
    uint32_t block;    /* PACK */
    stk_fit fit;       /* PACK */
    uint64_t budget;   /* BUDGET: at least the longest length */
    uint32_t multiple; /* BUDGET, LIKE: lengths are rounded up to it; 0: they are not */
    uint32_t rows;     /* BUDGET: the most of a bin; LIKE: of a run */
    int joined;        /* BUDGET: rows are joined: their sum <= budget, in the order as they come */
    uint32_t group;    /* BUDGET: so many bins of like length follow each other */
} stk_binning;

typedef struct stk_bins stk_bins; /* Thread: any. */

int stk_bins_open(stk_bins **out, const stk_binning *how, stk_error *err);
uint64_t stk_bins_count(stk_bins *b, uint64_t epoch);
uint32_t stk_bins_size(stk_bins *b, uint64_t epoch, uint64_t bin); /* positions of it */
/* Positions from .. from + n - 1 of a bin. */
void stk_bins_at(stk_bins *b, uint64_t epoch, uint64_t bin, uint32_t from, uint32_t n,
                 uint64_t *position);
/* PACK: all positions of a bin, and which `block` of its sample each is, from 0, or STK_BIN_REST:
 * what is left of it after the last whole one. */
#define STK_BIN_REST UINT32_MAX
void stk_bins_pieces(stk_bins *b, uint64_t epoch, uint64_t bin, uint64_t *position, uint32_t *part);
uint64_t stk_bins_first(stk_bins *b, uint64_t epoch, uint64_t bin); /* PACK: the first of them */
/* Of an epoch: the lengths' sum, and what their bins have room for (BUDGET: when padded). */
void stk_bins_fill(stk_bins *b, uint64_t epoch, uint64_t *used, uint64_t *room);
void stk_bins_forget(stk_bins *b); /* the order is another now; no one looks */
void stk_bins_close(stk_bins **b);

#endif
