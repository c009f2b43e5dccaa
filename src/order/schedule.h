/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - which samples rank r gets in step s of epoch e; independent of outputs and data.
 * The loader plans a schedule (loader/plan_schedule.c), the engine and stk_sampler use it.
 *
 * A schedule owns the sample set, its order, the split among ranks, lengths and bins.  It is
 * allocated once and never moves: orders borrow the set, bins borrow the order.  Everything is a
 * function of (seed, epoch, position), so any step of any rank can be asked for, and entering an
 * epoch anywhere costs nothing.
 *
 *     stk_schedule_open(&s, lens, n, &split, seed, &err);
 *     stk_order_exact(&s->order, &s->set, seed, 1, &err);
 *     stk_schedule_settle(s, &err);
 *     stk_schedule_enter(s, epoch, position, &cursor, &err);
 *     while ((rc = stk_schedule_hand_out(s, &cursor, &hook, &step, &err)) == 0) ...
 *
 * Thread: any, for functions with a const schedule.  The consumer changes it while no slot is
 * open. */
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

#define STK_SECOND 10000u /* lengths of sound are counted in tenths of a millisecond */

typedef struct stk_reduced { /* a sample that is over the budget: over_budget="truncate" */
    uint64_t id;
    uint32_t blocks; /* blocks that its pictures keep */
} stk_reduced;

typedef struct stk_truncation {
    uint32_t output;     /* the output whose pictures are cut */
    uint32_t unit;       /* pixels of a block's side */
    uint64_t n;          /* samples that are cut */
    stk_reduced *sample; /* by id, ascending */
} stk_truncation;

typedef struct stk_schedule {
    stk_order order;
    stk_sample_set set;
    uint32_t n_data;
    uint64_t *start;      /* n_data + 1: global id of each data set's first sample */
    stk_rank_split split; /* how positions of an epoch, or its bins, are split among ranks */
    uint64_t seed;
    uint64_t positions; /* positions of an epoch */
    /* a bad sample is replaced by one of its block of so many positions; 0: by any */
    uint64_t near;
    stk_ticket_kind tickets;
    stk_binning binning;
    stk_bins *bins;    /* NULL: positions are not grouped */
    uint32_t *lengths; /* by global id: length in values; NULL: not needed */
    /* lengths of the single outputs, as in binning.parts; NULL: there is one output */
    uint32_t *parts;
    /* by global id: stk_schedule_seconds() of the sample's sound; NULL: no sound */
    uint32_t *seconds;
    stk_truncation truncated;
    uint32_t *classes;        /* by global id: which size its pictures get; NULL: not needed */
    double quadratic;         /* weight of the quadratic part in the cost of sound; 0: none */
    uint64_t streams, window; /* of the block order; 0: the order is another one */
    uint64_t drawn_print;     /* fingerprint of weights or classes; 0: none */
} stk_schedule;

/* A schedule over data sets of lens[i] samples, of which all take part.  split->samples is not
 * read.  The caller makes the order over out->set, and may change the set before. */
int stk_schedule_open(stk_schedule **out, const uint64_t *lens, uint32_t n_data,
                      const stk_rank_split *split, uint64_t seed, stk_error *err);
/* Call after the order is made.  Counts the positions of an epoch, at least one. */
int stk_schedule_settle(stk_schedule *s, stk_error *err);
/* Groups batches by length from now on, by s->binning and s->lengths. */
int stk_schedule_bin(stk_schedule *s, stk_ticket_kind tickets, stk_error *err);
void stk_schedule_close(stk_schedule **s);

static inline uint64_t stk_schedule_id(const stk_schedule *s, const stk_where *where)
{
    return s->start[where->dataset] + where->sample;
}

/* The samples at n positions of an epoch. */
static inline void stk_schedule_at(const stk_schedule *s, uint64_t epoch, const uint64_t *position,
                                   uint32_t n, stk_where *out)
{
    s->order.at(s->order.state, epoch, position, n, out);
}

/* How many blocks of truncated.unit x truncated.unit pixels the pictures of a sample keep in an
 * output; 0: all. */
uint32_t stk_schedule_keeps(const stk_schedule *s, uint32_t output, uint64_t id);

/* What a row of `seconds` of sound counts, in units of 1 / STK_SECOND seconds, rounded up: its
 * length and, if `quadratic` is set, a part that grows with the square of it. */
uint32_t stk_schedule_seconds(const stk_schedule *s, double seconds);

/* ---- steps ---- */

/* where a rank is in an epoch, which was entered at position `from`, with step `first` */
typedef struct stk_cursor {
    uint64_t epoch, from, first;
    uint64_t at, steps; /* steps from there: done so far, and in all */
} stk_cursor;

/* The split of an epoch; split.samples is the number of its positions or bins. */
stk_rank_split stk_schedule_split(const stk_schedule *s, uint64_t epoch);
uint64_t stk_schedule_steps(const stk_schedule *s, uint64_t epoch); /* the same on every rank */
/* STK_EINVAL: the epoch has no such position.  Its end is allowed. */
int stk_schedule_enter(const stk_schedule *s, uint64_t epoch, uint64_t position, stk_cursor *out,
                       stk_error *err);
/* The share of the step at the cursor, which moves on; at the end of an epoch, into the next
 * one. */
void stk_schedule_next(const stk_schedule *s, stk_cursor *c, stk_share *out);
/* What a schedule of lengths says of the pictures of a share; zeros without one. */
stk_patch_limit stk_schedule_limit(const stk_schedule *s, const stk_share *h);
/* The positions of rows row .. row + n - 1 of a share (STK_TICKET_POSITION, STK_TICKET_BIN). */
static inline void stk_schedule_positions(const stk_schedule *s, const stk_share *h, uint32_t row,
                                          uint32_t n, uint64_t *out)
{
    stk_share_positions(h, &s->order, row, n, out);
}

/* How many rows of a share, from `row` on and at most n, are consecutive samples of one data set at
 * consecutive positions; at least 1.  *position, *where: of the first.  Only with
 * STK_TICKET_POSITION. */
uint32_t stk_schedule_run(const stk_schedule *s, const stk_share *h, uint32_t row, uint32_t n,
                          uint64_t *position, stk_where *where);

/* Makes the first `done` of `of` parts of the table of an epoch that will be needed soon, so that
 * no thread has to wait for all of it later. */
void stk_schedule_expect(const stk_schedule *s, uint64_t epoch, uint64_t done, uint64_t of);
/* Drops the tables.  Call when the order changed. */
void stk_schedule_forget(stk_schedule *s);
/* With packed rows or a budget: the sum of lengths, and the room there is for them; else
 * unchanged. */
void stk_schedule_fill(const stk_schedule *s, uint64_t epoch, uint64_t *used, uint64_t *room);

/* ---- tickets that are listed ---- */

typedef struct stk_piece_place { /* place of a piece in a packed row */
    uint32_t row, at;            /* row in the batch; offset in the row */
    uint32_t number;             /* number of the piece in its row */
    uint32_t part, from;         /* which piece of its sample; first value of it */
    uint32_t len, after;         /* number of values; how many of the sample follow them */
} stk_piece_place;

typedef struct stk_ticket_list { /* lists for all tickets of a batch; memory of the caller */
    uint64_t *position;          /* by ticket */
    stk_piece_place *place;      /* STK_TICKET_PIECE: by ticket */
    uint32_t *used;              /* STK_TICKET_PIECE: how full each row is */
    uint32_t *part;              /* scratch memory */
} stk_ticket_list;

/* Lists the tickets of a share and returns how many.  If tickets are not listed, `list` is
 * unchanged. */
uint32_t stk_schedule_tickets(const stk_schedule *s, const stk_share *h, stk_ticket_list *list);

/* ---- samples that are bad ---- */

#define STK_MAX_SUBSTITUTES 100

typedef struct stk_bad_sample {
    uint64_t epoch, position;
    uint32_t attempt;         /* from 1; at most STK_MAX_SUBSTITUTES */
    uint32_t n;               /* tickets of its batch */
    const uint64_t *together; /* their positions, if tickets are listed */
} stk_bad_sample;

/* The sample that replaces it: of the same epoch; with max_tokens, one that keeps the batch within
 * its budget. */
void stk_schedule_substitute(const stk_schedule *s, const stk_bad_sample *bad, stk_where *out);

/* ---- without an engine: ids of any rank, and their ledger ---- */

typedef struct stk_step_at {
    uint64_t epoch;
    uint64_t from; /* position at which the epoch was entered */
    uint64_t step; /* counted from there */
    uint32_t rank;
} stk_step_at;

/* Ids of the rows that a rank gets; a packed row has the id of its first sample.  Writes at most
 * `cap` and returns how many there are.  *valid: 0 if the rank had no row left and gets one to fill
 * its step. */
uint32_t stk_schedule_ids(const stk_schedule *s, const stk_step_at *at, uint64_t *id, uint32_t cap,
                          int *valid);

typedef struct stk_ledger_row { /* what a rank gets in one step */
    uint64_t epoch, step, start, count;
    uint32_t rows;
    const uint64_t *ids;
    const uint8_t *valid;
} stk_ledger_row;

typedef struct stk_ledger_hook { /* records each step; add NULL: nothing is recorded */
    int (*add)(void *cookie, const stk_ledger_row *row, stk_error *err);
    void *cookie;
} stk_ledger_hook;

typedef struct stk_handed { /* a step that was handed out; memory of the caller for `cap` rows */
    uint64_t *ids;
    uint8_t *valid;
    uint32_t cap, rows;
    uint64_t epoch, step;
} stk_handed;

/* This rank's next step, which is recorded first; if that fails, c stays.  STK_END: the epoch is
 * over. */
int stk_schedule_hand_out(const stk_schedule *s, stk_cursor *c, const stk_ledger_hook *h,
                          stk_handed *out, stk_error *err);

#endif
