/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample is at position p of epoch e, and which positions a rank's batch has.  The
 * schedule (schedule.h) is built from these parts.
 *
 * All are pure functions of (seed, epoch, position).  An epoch is defined without ranks, workers or
 * threads, so that resuming is arithmetic. */
#ifndef STOKER_ORDER_H
#define STOKER_ORDER_H

#include <stoker/stoker.h>

#include "base/err.h"

/* ---- a keyed permutation of [0, n) without memory ---- */

#define STK_PERM_ROUNDS 12 /* most rounds; tiny sets need them */
#define STK_PERM_FEW 6     /* rounds for sets that are not tiny */

typedef struct stk_perm {
    uint64_t n;
    uint64_t a, b; /* domain of the network: a * b >= n, a = ceil(sqrt n) */
    int rounds;
    uint64_t key[STK_PERM_ROUNDS]; /* one per round */
} stk_perm;

void stk_perm_init(stk_perm *p, uint64_t n, uint64_t seed, uint64_t epoch);
/* The same in two steps, for many permutations of one size. */
void stk_perm_shape(stk_perm *p, uint64_t n);
void stk_perm_key(stk_perm *p, uint64_t word);
uint64_t stk_perm_at(const stk_perm *p, uint64_t i);      /* i < n */
uint64_t stk_perm_inverse(const stk_perm *p, uint64_t k); /* the i with at(i) == k; k < n */
/* out[k] = at(i[k]), for n numbers at once. */
void stk_perm_run(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out);
/* out[k] = permutation p[k] of i[k]. */
void stk_perm_each(const stk_perm *p, const uint64_t *i, uint32_t n, uint64_t *out);

/* ---- ids that are left when some are taken out ---- */

typedef struct stk_exclude {
    uint64_t *id; /* sorted, distinct */
    uint64_t n;
} stk_exclude;

void stk_exclude_settle(stk_exclude *x); /* sorts, and drops duplicates */
/* The id with this rank among the ids that are not excluded. */
uint64_t stk_exclude_at(const stk_exclude *x, uint64_t rank);
/* How many ids that are not excluded are below an id. */
uint64_t stk_exclude_below(const stk_exclude *x, uint64_t id);
/* The rank of an id among those that are not excluded.  UINT64_MAX: it is excluded. */
uint64_t stk_exclude_rank(const stk_exclude *x, uint64_t id);

/* ---- the sample set: which samples take part, numbered from 0 ---- */

#define STK_MAX_DATASETS 1024

typedef struct stk_sample_set {
    uint32_t n;          /* data sets */
    uint32_t repeat;     /* how often each sample occurs in an epoch; 0: once */
    uint64_t skip;       /* samples left out at the front ... */
    uint64_t limit;      /* ... and how many of the rest take part; 0: all */
    stk_exclude exclude; /* global ids that are left out; not with `select` */
    uint64_t *select;    /* global ids that take part, in this order; NULL: all */
    uint64_t n_select;
    uint64_t start[STK_MAX_DATASETS + 1]; /* start[i]: global id of data set i's first sample */
} stk_sample_set;

int stk_sample_set_init(stk_sample_set *r, const uint64_t *lens, uint32_t n, stk_error *err);
uint64_t stk_sample_set_len(const stk_sample_set *r);
uint64_t stk_sample_set_id(const stk_sample_set *r, uint64_t i); /* the global id of number i */
void stk_sample_set_at(const stk_sample_set *r, uint64_t i, stk_where *out);
/* How many of the n numbers from i on follow each other in one data set; at least 1.  All of them
 * must exist. */
uint32_t stk_sample_set_run(const stk_sample_set *r, uint64_t i, uint32_t n);
/* The number of a sample in the set; its first one if it occurs several times.  UINT64_MAX: it does
 * not take part. */
uint64_t stk_sample_set_find(const stk_sample_set *r, const stk_where *where);
/* How many samples come before those with a global id >= `id`.  Without `select`: in one repeat. */
uint64_t stk_sample_set_below(const stk_sample_set *r, uint64_t id);
/* fingerprint of the samples that take part */
uint64_t stk_sample_set_print(const stk_sample_set *r);
/* Where the sample with a global id is. */
void stk_sample_set_where(const stk_sample_set *r, uint64_t id, stk_where *out);

/* ---- tables that are made at their first use ---- */

typedef struct stk_tables stk_tables; /* A cache of a few tables out of many.  Thread: any. */

/* Makes table `number`; never called twice at once. */
typedef void (*stk_table_fill)(void *cookie, uint64_t number, void *table);

/* Holds at most `n` tables of `bytes` bytes; all memory is allocated here.  Close with
 * stk_tables_close(). */
int stk_tables_open(stk_tables **out, uint32_t n, size_t bytes, stk_table_fill fill, void *cookie,
                    stk_error *err);
/* Table `number`, which is made if needed; it stays valid until unpin().  A thread pins at most one
 * table at a time. */
const void *stk_tables_pin(stk_tables *t, uint64_t number);
void stk_tables_unpin(stk_tables *t, uint64_t number);
void stk_tables_forget(stk_tables *t); /* drops all tables; none may be pinned */
void stk_tables_close(stk_tables **t);

/* ---- a pattern: numbers of several kinds in one sequence, each kind spread evenly ---- */

typedef struct stk_pattern stk_pattern;

/* For up to `kinds` kinds; close with stk_pattern_close(). */
int stk_pattern_open(stk_pattern **out, uint32_t kinds, stk_error *err);
/* Kind k has numbers first[k] to first[k + 1] - 1; first[kinds] < 2^32 numbers in all.  out[p] is
 * the number at place p.  Numbers of a kind come in order.  After any number of places, each kind
 * has come as often as its share says, rounded up or down. */
void stk_pattern_make(stk_pattern *p, const uint64_t *first, uint32_t kinds, uint64_t seed,
                      uint32_t *out);
/* The kind that a number belongs to. */
uint32_t stk_pattern_kind(const uint64_t *first, uint32_t kinds, uint64_t number);
void stk_pattern_close(stk_pattern **p);

/* ---- the orders that ship: each allocates its state, order->close() frees it; the sample set is
 * borrowed ---- */

/* Samples as they are stored, or all of them permuted. */
int stk_order_exact(stk_order *order, const stk_sample_set *set, uint64_t seed, int shuffle,
                    stk_error *err);

/* Order in blocks: shards, in an order that is the same in all epochs, are cut into streams of
 * equal length.  Neighbouring positions are in different streams.  A stream is read from the
 * beginning of a shard on, and permuted within windows. */
typedef struct stk_block_plan {
    uint64_t seed;
    uint32_t streams; /* a power of two */
    uint64_t window;  /* samples per window, over all streams; at least one of each */
    /* numbers in the sample set at which shards begin, ascending from 0; copied */
    const uint64_t *shards;
    uint64_t n_shards;
    /* how often all shards are repeated, in the same order; 0: once */
    uint64_t passes;
    /* 1: streams keep the stored order within a shard.  Rows of one stream are far apart in a
     * batch, so that each can go on where the one before it ended (clips of a video) */
    int forward;
} stk_block_plan;

#define STK_BLOCK_WINDOW 65536
#define STK_BLOCK_STREAMS 1048576 /* most streams */

int stk_order_block(stk_order *order, const stk_sample_set *set, const stk_block_plan *plan,
                    stk_error *err);
/* The number of streams: the rows of a global batch, within limits. */
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
    int shuffle; /* 0: each class in stored order, the same in every epoch */
} stk_strata;

int stk_order_stratified(stk_order *order, const stk_sample_set *set, const stk_strata *how,
                         stk_error *err);

/* Several data sets by weight. */
typedef struct stk_mixing {
    const double *weights;     /* one per data set: finite, not negative, not all 0 */
    uint64_t seed, epoch_size; /* epoch_size 0: as many positions as samples take part */
    int shuffle;               /* 0: each data set in stored order */
} stk_mixing;

#define STK_MIX_PARTS (1u << 20) /* weights are rounded to multiples of 1 / STK_MIX_PARTS */

/* The sample set has no select, skip, limit and repeat. */
int stk_order_mix(stk_order *order, const stk_sample_set *set, const stk_mixing *how,
                  stk_error *err);
int stk_order_is_mix(const stk_order *order);
/* Sets other weights from (epoch, position) on, and forgets later changes.  No thread may read the
 * order. */
int stk_mix_change(stk_order *order, const double *weights, uint64_t epoch, uint64_t position,
                   stk_error *err);
/* Reads change i of the weights (0: those at the beginning); sets all changes.  stoker.h explains
 * the struct. */
int stk_mix_get(const stk_order *order, uint64_t i, stk_mix_change_info *out);
int stk_mix_set(stk_order *order, const stk_mix_change_info *all, uint64_t n, stk_error *err);

/* ---- ranks: a global batch is split into shares that follow each other ---- */

typedef struct stk_rank_split {
    uint64_t samples; /* samples of the epoch */
    uint64_t global;  /* rows of a global batch */
    uint32_t rank, world;
    uint32_t local; /* ranks per node, which take rows by turns; 0: ranks take consecutive rows */
    int drop_last;
} stk_rank_split;

/* Steps of an epoch entered at position `from`: the same on every rank. */
uint64_t stk_rank_split_steps(const stk_rank_split *d, uint64_t from);
uint64_t stk_rank_split_rows(const stk_rank_split *d); /* most rows of a rank in a step */
void stk_rank_split_step(const stk_rank_split *d, uint64_t from, uint64_t step, stk_share *out);
/* The positions of rows row .. row + n - 1 of a share. */
void stk_share_positions(const stk_share *s, const stk_order *order, uint32_t row, uint32_t n,
                         uint64_t *out);

/* The position, in the same epoch, of the sample that replaces a bad one at (epoch, position);
 * attempt 1, 2, ... */
uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples);

#endif
