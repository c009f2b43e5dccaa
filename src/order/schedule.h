/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - which samples rank r gets in step s of epoch e, without outputs and without data.
 *
 * A schedule owns the sample set, its order, the split among ranks, lengths and bins.  It is
 * allocated once and never moves: orders borrow the set, bins borrow the order.  Everything is a
 * function of (seed, epoch, position), so that any step of any rank can be asked for, and entering
 * an epoch anywhere costs nothing.
 *
 *     stk_schedule_open(&s, lens, n, &split, seed, &err);
 *     stk_order_exact(&s->order, &s->set, seed, 1, &err);
 *     stk_schedule_settle(s, &err);
 *     stk_schedule_enter(s, epoch, position, &cursor, &err);
 *     while ((rc = stk_schedule_hand_out(s, &cursor, &hook, &step, &err)) == 0) ...
 *
 * Thread: any, for what takes a const schedule; the consumer changes it, while no slot is open. */
#ifndef STOKER_SCHEDULE_H
#define STOKER_SCHEDULE_H

#include "order/bins.h"

typedef enum stk_ticket_kind {                      /* what one ticket of a batch is */
                               STK_TICKET_POSITION, /* a position, by the split alone */
                               STK_TICKET_LISTED, /* a position that stk_schedule_tickets() lists */
                               /* a piece of a packed row, listed with its place */
                               STK_TICKET_PIECE,
                               STK_TICKET_BIN /* a whole bin: the row finds its samples itself */
} stk_ticket_kind;

typedef struct stk_schedule {
    stk_order order;
    stk_sample_set set;
    uint32_t n_data;
    uint64_t *start;      /* n_data + 1: global id of each data set's first sample; the end */
    stk_rank_split split; /* over the positions of an epoch, or its bins */
    uint64_t seed;
    uint64_t positions; /* of an epoch */
    uint64_t near; /* what stands in for a bad sample is among so many around it; 0: anywhere */
    stk_ticket_kind tickets;
    stk_binning binning;
    stk_bins *bins;           /* NULL: positions are split as they come */
    uint32_t *lengths;        /* of each global id; NULL: not asked for */
    uint64_t streams, window; /* of the block order; 0: it is another */
    uint64_t drawn_print;     /* fingerprint of weights or classes; 0: none */
} stk_schedule;

/* Data sets of lens[i] samples; all take part.  split->samples is not read.  The caller makes the
 * order over out->set, and may change the set before. */
int stk_schedule_open(stk_schedule **out, const uint64_t *lens, uint32_t n_data,
                      const stk_rank_split *split, uint64_t seed, stk_error *err);
/* The order is made: how many positions an epoch has; at least one. */
int stk_schedule_settle(stk_schedule *s, stk_error *err);
/* Batches by length from now on, by s->binning and s->lengths; the kind of ticket is given. */
int stk_schedule_bin(stk_schedule *s, stk_ticket_kind tickets, stk_error *err);
void stk_schedule_close(stk_schedule **s);

static inline uint64_t stk_schedule_id(const stk_schedule *s, const stk_where *where)
{
    return s->start[where->dataset] + where->sample;
}

/* What stands at n positions of an epoch. */
static inline void stk_schedule_at(const stk_schedule *s, uint64_t epoch, const uint64_t *position,
                                   uint32_t n, stk_where *out)
{
    s->order.at(s->order.state, epoch, position, n, out);
}

/* ---- steps ---- */

typedef struct stk_cursor { /* an epoch that was entered at position `from`, with step `first` */
    uint64_t epoch, from, first;
    uint64_t at, steps; /* steps from there: done, in all */
} stk_cursor;

/* The split of an epoch: its positions, or its bins, are split.samples. */
stk_rank_split stk_schedule_split(const stk_schedule *s, uint64_t epoch);
uint64_t stk_schedule_steps(const stk_schedule *s, uint64_t epoch); /* the same on every rank */
/* STK_EINVAL: the epoch has no such position; its end is one. */
int stk_schedule_enter(const stk_schedule *s, uint64_t epoch, uint64_t position, stk_cursor *out,
                       stk_error *err);
/* The share of the step at the cursor, in the next epoch where this one is over; c moves on. */
void stk_schedule_next(const stk_schedule *s, stk_cursor *c, stk_share *out);
/* The positions of rows row .. row + n - 1 of a share (STK_TICKET_POSITION, STK_TICKET_BIN). */
static inline void stk_schedule_positions(const stk_schedule *s, const stk_share *h, uint32_t row,
                                          uint32_t n, uint64_t *out)
{
    stk_share_positions(h, &s->order, row, n, out);
}

/* How many rows of a share, from `row` on and up to n, are samples of one data set that follow each
 * other, at positions that do; at least 1.  *position, *where: of the first.  Only where tickets
 * are positions. */
uint32_t stk_schedule_run(const stk_schedule *s, const stk_share *h, uint32_t row, uint32_t n,
                          uint64_t *position, stk_where *where);

/* An epoch that will be asked for soon: make its table now, where others need not wait for it. */
void stk_schedule_expect(const stk_schedule *s, uint64_t epoch);
/* The order is another now. */
void stk_schedule_forget(stk_schedule *s);
/* Packed or within a budget: the lengths' sum, and what they have room for; else both stay. */
void stk_schedule_fill(const stk_schedule *s, uint64_t epoch, uint64_t *used, uint64_t *room);

/* ---- tickets that are listed ---- */

typedef struct stk_piece_place { /* of a piece of a packed row */
    uint32_t row, at;            /* in the batch; in the row */
    uint32_t number;             /* of the pieces of its row */
    uint32_t part, from;         /* which block of its sample; its first value there */
    uint32_t len, after;         /* values; how many the sample has after them */
} stk_piece_place;

typedef struct stk_ticket_list { /* the caller's memory, for the most tickets that a batch has */
    uint64_t *position;          /* of each ticket */
    stk_piece_place *place;      /* STK_TICKET_PIECE: of each ticket ... */
    uint32_t *used;              /* ... how full each row is ... */
    uint32_t *part;              /* ... and scratch */
} stk_ticket_list;

/* The tickets of a share; how many.  Where tickets are not listed, `list` is not touched. */
uint32_t stk_schedule_tickets(const stk_schedule *s, const stk_share *h, stk_ticket_list *list);

/* ---- samples that are bad ---- */

#define STK_MAX_SUBSTITUTES 100

typedef struct stk_bad_sample {
    uint64_t epoch, position;
    uint32_t attempt;         /* from 1; at most STK_MAX_SUBSTITUTES */
    uint32_t n;               /* tickets of its batch ... */
    const uint64_t *together; /* ... and their positions, where they are listed */
} stk_bad_sample;

/* The sample that takes its place: of the same epoch, and with max_tokens one that leaves the batch
 * within its budget. */
void stk_schedule_substitute(const stk_schedule *s, const stk_bad_sample *bad, stk_where *out);

/* ---- on its own: ids of any rank, written down before they are used ---- */

typedef struct stk_step_at {
    uint64_t epoch;
    uint64_t from; /* position at which the epoch was entered */
    uint64_t step; /* from there */
    uint32_t rank;
} stk_step_at;

/* Ids of the rows that a rank gets; of a packed row, its first sample's.  At most `cap` are
 * written; how many there are.  *valid: 0 where the rank was left with nothing and gets one row to
 * go on. */
uint32_t stk_schedule_ids(const stk_schedule *s, const stk_step_at *at, uint64_t *id, uint32_t cap,
                          int *valid);

typedef struct stk_ledger_row { /* what a rank is handed in one step */
    uint64_t epoch, step, start, count;
    uint32_t rows;
    const uint64_t *ids;
    const uint8_t *valid;
} stk_ledger_row;

typedef struct stk_ledger_hook { /* add NULL: nothing is written down */
    int (*add)(void *cookie, const stk_ledger_row *row, stk_error *err);
    void *cookie;
} stk_ledger_hook;

typedef struct stk_handed { /* the caller's memory for `cap` rows, filled */
    uint64_t *ids;
    uint8_t *valid;
    uint32_t cap, rows;
    uint64_t epoch, step;
} stk_handed;

/* This rank's next step, written down first: when that fails, c stays.  STK_END: the epoch is
 * over. */
int stk_schedule_hand_out(const stk_schedule *s, stk_cursor *c, const stk_ledger_hook *h,
                          stk_handed *out, stk_error *err);

#endif
