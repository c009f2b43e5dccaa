/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - which samples a rank gets in which step: the sample set, its order, the split among
 * ranks, lengths and bins.  Replaced in parts by the consumer, only while no slot is open. */
#ifndef STOKER_SCHEDULE_H
#define STOKER_SCHEDULE_H

#include "order/bins.h"

typedef struct stk_schedule {
    stk_order order;
    stk_roster set;
    uint64_t *start;      /* global id of each data set's first sample, and of the end */
    stk_deal split;        /* over the positions of an epoch, or its bins */
    uint64_t positions;    /* of an epoch */
    stk_binning binning;
    stk_bins *bins;           /* NULL: positions are dealt as they come */
    uint32_t *lengths;        /* of each global id; NULL: not asked for */
    uint64_t streams, window; /* of the block order; 0: it is another */
    uint64_t drawn_print;     /* fingerprint of weights or classes; 0: none */
} stk_schedule;

#endif
