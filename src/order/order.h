/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample stands at position p of epoch e, and which positions a rank's batch
 * has.
 *
 * Pure functions of (seed, epoch, position): an epoch is defined without ranks, workers or
 * threads, so that resuming is arithmetic. */
#ifndef STOKER_ORDER_H
#define STOKER_ORDER_H

#include <stoker/stoker.h>

#include "base/err.h"

/* ---- a keyed permutation of [0, n) without memory ---- */

#define STK_PERM_ROUNDS 12 /* at most */
#define STK_PERM_FEW 6     /* of sets that are not tiny */

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
/* How many of those that stay are below an id. */
uint64_t stk_exclude_below(const stk_exclude *x, uint64_t id);
/* The rank of an id among those that stay; UINT64_MAX: it does not. */
uint64_t stk_exclude_rank(const stk_exclude *x, uint64_t id);

/* ---- the sample set: which samples take part, numbered through ---- */

#define STK_MAX_DATASETS 1024

typedef struct stk_sample_set {
    uint32_t n;          /* data sets */
    uint32_t repeat;     /* how often each stands in an epoch; 0: once */
    uint64_t skip;       /* so many first ones don't take part ... */
    uint64_t limit;      /* ... and so many of the next ones do; 0: all */
    stk_exclude exclude; /* global ids that stand nowhere; not with `select` */
    uint64_t *select;    /* global ids that stand in it, in this order; NULL: all */
    uint64_t n_select;
    uint64_t start[STK_MAX_DATASETS + 1]; /* start[i]: global id of data set i's first sample */
} stk_sample_set;

int stk_sample_set_init(stk_sample_set *r, const uint64_t *lens, uint32_t n, stk_error *err);
uint64_t stk_sample_set_len(const stk_sample_set *r);
uint64_t stk_sample_set_id(const stk_sample_set *r, uint64_t i); /* the global id of number i */
void stk_sample_set_at(const stk_sample_set *r, uint64_t i, stk_where *out);
/* How many of the n numbers from i on, which there are, follow each other in one data set; at least
 * 1. */
uint32_t stk_sample_set_run(const stk_sample_set *r, uint64_t i, uint32_t n);
/* Its number (the first, where it stands several times); UINT64_MAX: it does not take part. */
uint64_t stk_sample_set_find(const stk_sample_set *r, const stk_where *where);
/* How many stand before those with a global id of `id` or more; without `select`, of one repeat. */
uint64_t stk_sample_set_below(const stk_sample_set *r, uint64_t id);
uint64_t stk_sample_set_print(const stk_sample_set *r); /* a fingerprint of which take part */
/* Where the sample with a global id is. */
void stk_sample_set_where(const stk_sample_set *r, uint64_t id, stk_where *out);

/* ---- tables that are made when they are first looked at ---- */

typedef struct stk_tables stk_tables; /* A few of many, by number.  Thread: any. */

/* Make table `number`; one call at a time. */
typedef void (*stk_table_fill)(void *cookie, uint64_t number, void *table);

/* At most `n` tables of `bytes` are kept; all memory is taken here.  Close with
 * stk_tables_close(). */
int stk_tables_open(stk_tables **out, uint32_t n, size_t bytes, stk_table_fill fill, void *cookie,
                    stk_error *err);
/* Table `number`, made if it is not there; it stays until unpin().  A thread pins one at a time. */
const void *stk_tables_pin(stk_tables *t, uint64_t number);
void stk_tables_unpin(stk_tables *t, uint64_t number);
void stk_tables_forget(stk_tables *t); /* all are made again; no one has one pinned */
void stk_tables_close(stk_tables **t);

/* ---- a pattern: kinds in one row, each spread as evenly as can be ---- */

typedef struct stk_pattern stk_pattern;

/* For up to `kinds` kinds; close with stk_pattern_close(). */
int stk_pattern_open(stk_pattern **out, uint32_t kinds, stk_error *err);
/* first[k] .. first[k + 1]: the numbers of kind k; first[kinds] < 2^32 numbers in all.  out[p]: the
 * number at place p; those of a kind come in order, and after any number of places each kind has
 * come as often as its share says, rounded up or down. */
void stk_pattern_make(stk_pattern *p, const uint64_t *first, uint32_t kinds, uint64_t seed,
                      uint32_t *out);
/* The kind that a number belongs to. */
uint32_t stk_pattern_kind(const uint64_t *first, uint32_t kinds, uint64_t number);
void stk_pattern_close(stk_pattern **p);

/* ---- the orders that ship: each allocates its state, order->close() frees it; the sample set is
 * borrowed ---- */

/* As they are stored, or all under one permutation. */
int stk_order_exact(stk_order *order, const stk_sample_set *set, uint64_t seed, int shuffle,
                    stk_error *err);

/* In blocks: shards, in an order that stays for all epochs, are cut into streams of equal length;
 * neighbouring positions are of different streams, and a stream is read from a shard's begin on,
 * in windows that are permuted within themselves. */
typedef struct stk_block_plan {
    uint64_t seed;
    uint32_t streams;       /* a power of two */
    uint64_t window;        /* samples of all streams together; at least one of each */
    const uint64_t *shards; /* numbers of the sample set at which shards begin: 0 < ... ; copied */
    uint64_t n_shards;
    /* the shards come so often, one time after another, each time in the same order; 0: once */
    uint64_t passes;
} stk_block_plan;

#define STK_BLOCK_WINDOW 65536
#define STK_BLOCK_STREAMS 1048576 /* the most */

int stk_order_block(stk_order *order, const stk_sample_set *set, const stk_block_plan *plan,
                    stk_error *err);
/* As many streams as a global batch has rows, in bounds. */
uint32_t stk_block_streams(uint64_t global, uint64_t samples);

/* Epochs of epoch_size positions over an order that goes on from one to the next: position p of
 * epoch e is position g % len of the inner order's epoch g / len, g = e * epoch_size + p.  Takes
 * *inner (closed here, on failure too). */
int stk_order_stream(stk_order *order, stk_order *inner, uint64_t epoch_size, stk_error *err);

/* Every position draws a sample by its weight, whatever the others drew.  weights: one for each
 * global id, finite and not negative, some positive among those that take part; not kept.
 * epoch_size 0: as many positions as samples take part. */
int stk_order_weighted(stk_order *order, const stk_sample_set *set, const double *weights,
                       uint64_t seed, uint64_t epoch_size, stk_error *err);

/* An epoch draws samples by their weights one after the other, none twice.  epoch_size 0: all that
 * have a positive weight. */
int stk_order_weighted_once(stk_order *order, const stk_sample_set *set, const double *weights,
                            uint64_t seed, uint64_t epoch_size, stk_error *err);

/* Every run of positions has the classes in the proportions of the data. */
typedef struct stk_strata {
    const uint32_t *of; /* the class of each global id, below `classes`; not kept */
    uint32_t classes;
    uint64_t seed;
    int shuffle; /* 0: each class as it is stored, the same every epoch */
} stk_strata;

int stk_order_stratified(stk_order *order, const stk_sample_set *set, const stk_strata *how,
                         stk_error *err);

/* Several data sets by weight. */
typedef struct stk_mixing {
    const double *weights;     /* one for each data set: finite, not negative, not all 0 */
    uint64_t seed, epoch_size; /* 0: as many positions as samples take part */
    int shuffle;               /* 0: each data set as it is stored */
} stk_mixing;

#define STK_MIX_PARTS (1u << 20) /* what the weights are rounded to */

/* The sample set has no select, skip, limit and repeat. */
int stk_order_mix(stk_order *order, const stk_sample_set *set, const stk_mixing *how,
                  stk_error *err);
int stk_order_is_mix(const stk_order *order);
/* Other weights from (epoch, position) on; later changes are forgotten.  No one reads the order. */
int stk_mix_change(stk_order *order, const double *weights, uint64_t epoch, uint64_t position,
                   stk_error *err);
/* Change i (0: the beginning), and all of them again.  stoker.h says what they are. */
int stk_mix_get(const stk_order *order, uint64_t i, stk_mix_change_info *out);
int stk_mix_set(stk_order *order, const stk_mix_change_info *all, uint64_t n, stk_error *err);

/* ---- ranks: a global batch is dealt in shares that follow each other ---- */

typedef struct stk_rank_split {
    uint64_t samples; /* in the epoch */
    uint64_t global;  /* rows of a global batch */
    uint32_t rank, world;
    uint32_t
        local; /* ranks of a node: its part is dealt to them row by row; 0: one after another */
    int drop_last;
} stk_rank_split;

/* Steps of an epoch that is entered at position `from`: the same on every rank. */
uint64_t stk_rank_split_steps(const stk_rank_split *d, uint64_t from);
uint64_t stk_rank_split_rows(const stk_rank_split *d); /* the most that a rank gets in a step */
void stk_rank_split_step(const stk_rank_split *d, uint64_t from, uint64_t step, stk_share *out);
/* The positions of rows row .. row + n - 1 of a share. */
void stk_share_positions(const stk_share *s, const stk_order *order, uint32_t row, uint32_t n,
                         uint64_t *out);

/* The sample that stands in for a bad one at (epoch, position): attempt 1, 2, ...  A position of
 * the same epoch. */
uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples);

#endif
