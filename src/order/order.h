/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample stands at position p of epoch e, and which positions a rank's batch
 * has.
 *
 * Pure functions of (seed, epoch, position): an epoch is defined without ranks, workers or
 * threads, so that resuming is arithmetic. */
#ifndef STOKER_ORDER_H
#define STOKER_ORDER_H

#include "base/err.h"

/* ---- a keyed permutation of [0, n) without memory ---- */

typedef struct stk_perm {
    uint64_t n;
    uint64_t a, b;   /* the domain is a * b >= n, a = ceil(sqrt n) */
    uint64_t key[6]; /* one a round */
} stk_perm;

void stk_perm_init(stk_perm *p, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t stk_perm_at(const stk_perm *p, uint64_t i);      /* i < n */
uint64_t stk_perm_inverse(const stk_perm *p, uint64_t k); /* the i with at(i) == k; k < n */
void stk_perm_run(const stk_perm *p, uint64_t first, uint32_t n,
                  uint64_t *out); /* at(first), at(first + 1), ... */

/* ---- ids that are left when some are taken out ---- */

typedef struct stk_exclude {
    uint64_t *id; /* sorted, distinct */
    uint64_t n;
} stk_exclude;

void stk_exclude_settle(stk_exclude *x); /* sort, drop what comes twice */
/* The id with this rank among those that stay. */
uint64_t stk_exclude_at(const stk_exclude *x, uint64_t rank);
/* The rank of an id among those that stay; UINT64_MAX: it does not. */
uint64_t stk_exclude_rank(const stk_exclude *x, uint64_t id);

/* ---- the orders that ship: several data sets one after the other, as they lie or permuted ---- */

#define STK_MAX_DATASETS 1024

typedef struct stk_concat {
    uint64_t seed;
    int shuffle;
    uint32_t n;
    stk_exclude exclude;                  /* global ids that stand nowhere; none until it is set */
    uint64_t start[STK_MAX_DATASETS + 1]; /* start[i]: global id of data set i's first sample */
} stk_concat;

/* Fill *order over *state (both owned by the caller). */
int stk_order_concat(stk_order *order, stk_concat *state, const uint64_t *lens, uint32_t n,
                     uint64_t seed, int shuffle, stk_error *err);

/* The position of a global id in an epoch; UINT64_MAX: it stands nowhere. */
uint64_t stk_concat_find(const stk_concat *c, uint64_t epoch, uint64_t id);

/* ---- ranks: a global batch is dealt in contiguous shares ---- */

typedef struct stk_deal {
    uint64_t samples; /* in the epoch */
    uint32_t batch, rank, world;
    int drop_last;
} stk_deal;

typedef struct stk_share { /* of one rank in one step */
    uint64_t first;        /* position of row 0; the rows follow */
    uint32_t rows;
    int filler; /* the rank was left with nothing: one wrapped row, not valid */
} stk_share;

uint64_t stk_deal_steps(const stk_deal *d); /* the same on every rank */
void stk_deal_step(const stk_deal *d, uint64_t step, stk_share *out);

/* The sample that stands in for a bad one at (epoch, position): attempt 1, 2, ...  A position of
 * the same epoch. */
uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples);

#endif
