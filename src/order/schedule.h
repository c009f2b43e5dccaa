/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - which samples a rank gets in which step: the sample set, its order, the split among
 * ranks, lengths and bins.
 *
 * It is allocated once and never moves: orders borrow the set, bins borrow the order.  The consumer
 * changes it in parts, only while no slot is open. */
#ifndef STOKER_SCHEDULE_H
#define STOKER_SCHEDULE_H

#include "order/bins.h"

typedef struct stk_schedule {
    stk_order order;
    stk_roster set;
    uint32_t n_data;
    uint64_t *start;    /* n_data + 1: global id of each data set's first sample, and of the end */
    stk_deal split;     /* over the positions of an epoch, or its bins */
    uint64_t seed;      /* of substitutes, too */
    uint64_t positions; /* of an epoch */
    stk_binning binning;
    stk_bins *bins;           /* NULL: positions are dealt as they come */
    uint32_t *lengths;        /* of each global id; NULL: not asked for */
    uint64_t streams, window; /* of the block order; 0: it is another */
    uint64_t drawn_print;     /* fingerprint of weights or classes; 0: none */
} stk_schedule;

/* Of epoch `epoch`: its positions, or its bins. */
static inline stk_deal stk_schedule_split(const stk_schedule *s, uint64_t epoch)
{
    stk_deal d = s->split;

    d.samples = s->bins ? stk_bins_count(s->bins, epoch) : s->positions;
    return d;
}

/* All steps of an epoch: the same on every rank. */
static inline uint64_t stk_schedule_steps(const stk_schedule *s, uint64_t epoch)
{
    stk_deal d = stk_schedule_split(s, epoch);

    return stk_deal_steps(&d, 0);
}

#endif
