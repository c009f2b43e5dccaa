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

#define STK_PERM_ROUNDS 12 /* at most */

typedef struct stk_perm {
    uint64_t n;
    uint64_t a, b; /* the domain is a * b >= n, a = ceil(sqrt n) */
    int rounds;
    uint64_t key[STK_PERM_ROUNDS]; /* one a round */
} stk_perm;

void stk_perm_init(stk_perm *p, uint64_t n, uint64_t seed, uint64_t epoch);
/* The same in two steps, for many permutations of one size. */
void stk_perm_shape(stk_perm *p, uint64_t n);
void stk_perm_key(stk_perm *p, uint64_t word);
uint64_t stk_perm_at(const stk_perm *p, uint64_t i);      /* i < n */
uint64_t stk_perm_inverse(const stk_perm *p, uint64_t k); /* the i with at(i) == k; k < n */
void stk_perm_run(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out); /* of several */
/* i[k] under its own permutation p[k]. */
void stk_perm_each(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out);

/* ---- ids that are left when some are taken out ---- */

typedef struct stk_exclude {
    uint64_t *id; /* sorted, distinct */
    uint64_t n;
} stk_exclude;

void stk_exclude_settle(stk_exclude *x); /* sort, drop what comes twice */
/* The id with this rank among those that stay. */
uint64_t stk_exclude_at(const stk_exclude *x, uint64_t rank);
/* How many of those that stay lie below an id. */
uint64_t stk_exclude_below(const stk_exclude *x, uint64_t id);
/* The rank of an id among those that stay; UINT64_MAX: it does not. */
uint64_t stk_exclude_rank(const stk_exclude *x, uint64_t id);

/* ---- the roster: which samples take part, numbered through ---- */

#define STK_MAX_DATASETS 1024

typedef struct stk_roster {
    uint32_t n;          /* data sets */
    uint32_t repeat;     /* how often each stands in an epoch; 0: once */
    uint64_t skip;       /* so many first ones don't take part ... */
    uint64_t limit;      /* ... and so many of the next ones do; 0: all */
    stk_exclude exclude; /* global ids that stand nowhere; not with `select` */
    uint64_t *select;    /* global ids that stand in it, in this order; NULL: all */
    uint64_t n_select;
    uint64_t start[STK_MAX_DATASETS + 1]; /* start[i]: global id of data set i's first sample */
} stk_roster;

int stk_roster_init(stk_roster *r, const uint64_t *lens, uint32_t n, stk_error *err);
uint64_t stk_roster_len(const stk_roster *r);
void stk_roster_at(const stk_roster *r, uint64_t i, stk_where *out);
/* Its number (the first, where it stands several times); UINT64_MAX: it does not take part. */
uint64_t stk_roster_find(const stk_roster *r, const stk_where *where);
/* How many stand before those with a global id of `id` or more; without `select`, of one repeat. */
uint64_t stk_roster_below(const stk_roster *r, uint64_t id);
/* Where the sample with a global id lies. */
void stk_roster_where(const stk_roster *r, uint64_t id, stk_where *out);

/* ---- the orders that ship: each allocates its state, order->close() frees it; the roster is
 * borrowed ---- */

/* As they lie, or all under one permutation. */
int stk_order_exact(stk_order *order, const stk_roster *roster, uint64_t seed, int shuffle,
                    stk_error *err);

/* In blocks: shards, in an order that stays for all epochs, are cut into streams of equal length;
 * neighbouring positions are of different streams, and a stream is read from a shard's begin on,
 * in windows that are permuted within themselves. */
typedef struct stk_block_plan {
    uint64_t seed;
    uint32_t streams;       /* a power of two */
    uint64_t window;        /* samples of all streams together; at least one of each */
    const uint64_t *shards; /* numbers of the roster at which shards begin: 0 < ... ; copied */
    uint64_t n_shards;
} stk_block_plan;

#define STK_BLOCK_WINDOW 65536
#define STK_BLOCK_STREAMS 1048576 /* the most */

int stk_order_block(stk_order *order, const stk_roster *roster, const stk_block_plan *plan,
                    stk_error *err);
/* As many streams as a global batch has rows, in bounds. */
uint32_t stk_block_streams(uint64_t global, uint64_t samples);

/* ---- ranks: a global batch is dealt in shares that follow each other ---- */

typedef struct stk_deal {
    uint64_t samples; /* in the epoch */
    uint64_t global;  /* rows of a global batch */
    uint32_t rank, world;
    uint32_t
        local; /* ranks of a node: its part is dealt to them row by row; 0: one after another */
    int drop_last;
} stk_deal;

/* Steps of an epoch that is entered at position `from`: the same on every rank. */
uint64_t stk_deal_steps(const stk_deal *d, uint64_t from);
uint32_t stk_deal_rows(const stk_deal *d); /* the most that a rank gets in a step */
void stk_deal_step(const stk_deal *d, uint64_t from, uint64_t step, stk_share *out);
/* The positions of rows row .. row + n - 1 of a share. */
void stk_share_positions(const stk_share *s, const stk_order *order, uint32_t row, uint32_t n,
                         uint64_t *out);

/* The sample that stands in for a bad one at (epoch, position): attempt 1, 2, ...  A position of
 * the same epoch. */
uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples);

#endif
