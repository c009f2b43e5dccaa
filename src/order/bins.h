/* SPDX-License-Identifier: Apache-2.0 */
/* bins.h - groups an epoch's positions by length: into packed rows, batches within a budget, or
 * batches of similar rows.  schedule.c calls it.
 *
 * The epoch is cut into windows of a fixed number of positions.  The bins of a window follow from
 * (seed, epoch, window) and the lengths of its samples, whatever the ranks are, so a state needs
 * only (epoch, bin).  Tables of bins are made when they are first used. */
#ifndef STOKER_BINS_H
#define STOKER_BINS_H

#include "order/order.h"
#include "order/pack_fit.h"

#define STK_BIN_WINDOW ((uint32_t)1 << 16)

typedef enum stk_bin_kind {
    /* A bin is a row of `block` values, filled with samples that fit.  A longer sample fills whole
     * rows, and its rest is packed.  A sample of length 0 is in no bin. */
    STK_BIN_PACK,
    /* A bin is a batch of rows of similar length: rows x the longest <= budget, for each of one or
     * two lengths (seconds and tokens). */
    STK_BIN_BUDGET,
    /* A bin is one position; runs of `rows` bins have similar lengths. */
    STK_BIN_LIKE,
    /* group_bins.c: a bin is the batch of one rank, and the bins of a group are alike. */
    STK_BIN_CLASS, /* `rows` samples of one class; `length` is the class of each sample */
    STK_BIN_STEPS  /* as many samples as the schedule says for the step */
} stk_bin_kind;

typedef enum stk_bin_rest { /* what happens to samples that are left and fill no group */
                            STK_REST_SMALLER, /* they make a smaller batch */
                            STK_REST_DROP,    /* they are left out in this epoch */
                            STK_REST_WRAP     /* samples are repeated to fill the batch */
} stk_bin_rest;

/* Sizes that one batch sets for its pictures.  0: what their chain says. */
typedef struct stk_patch_limit {
    uint32_t patches; /* replaces max_patches */
    uint32_t side;    /* pixels of a patch's side */
} stk_patch_limit;

typedef struct stk_bin_step { /* an entry of the option schedule= */
    uint32_t rows;            /* rows of a rank's batch */
    stk_patch_limit limit;
} stk_bin_step;

#define STK_SCHEDULE_MOST 64 /* entries of the option */

typedef struct stk_bin_bound { /* a second length that limits batches */
    const uint32_t *length;    /* by global id; borrowed; NULL: no second length */
    uint64_t budget;
    uint32_t multiple;
} stk_bin_bound;

/* Lengths of several outputs that each become a tensor.  A padded tensor counts its rows x its
 * longest row, a joined one the sum of its rows, and a batch counts the sum of its tensors.
 * `length`, or `also.length`, is then the sum of a sample's lengths. */
#define STK_BIN_PARTS 16
typedef struct stk_bin_parts {
    uint32_t n;             /* 0: there is one length only */
    uint32_t joined;        /* bit k: part k is joined, not padded */
    const uint32_t *length; /* part k of sample i: k * stride + i; borrowed */
    uint64_t stride;
} stk_bin_parts;

#define STK_BIN_SHORTEST 8

/* Lengths that are drawn for each epoch, because random crops decide. */
typedef struct stk_bin_draws {
    /* Returns how much shorter than `length` (or `also`) the sample is at that position of an
     * epoch.  part: NULL, or the lengths of its parts, which are lowered, too.  NULL function:
     * lengths are not drawn. */
    uint32_t (*less)(const void *cookie, uint64_t epoch, uint64_t position, uint64_t id,
                     uint32_t *part);
    void (*close)(void *cookie);
    void *cookie;
} stk_bin_draws;

typedef struct stk_binning {
    stk_bin_kind kind;
    const stk_order *order; /* the order of positions; borrowed */
    const uint32_t *length; /* by global id; borrowed.  Except in PACK, 0 counts as 1 */
    const uint64_t *start;  /* global id of each data set's first sample; borrowed */
    uint64_t seed;
    int shuffle;     /* shuffle the bins of a window; else the longest come first */
    uint32_t window; /* positions */
    uint32_t block;  /* PACK */
    stk_fit fit;     /* PACK */
    uint64_t budget; /* BUDGET: most tokens of a batch */
    /* BUDGET, LIKE: lengths are rounded up to a multiple of this; 0: they are not */
    uint32_t multiple;
    uint32_t rows; /* most rows: BUDGET: of a bin; LIKE: of a run */
    int joined;    /* BUDGET: rows are joined, with a sum <= budget */
    int all_fit;   /* BUDGET: true if it is known that no sample is longer than a budget */
    /* BUDGET: true if samples longer than a budget are left out.  Otherwise such a sample is a bad
     * one, and counts as much as `usual`, a global id. */
    int drops;
    uint64_t usual;
    /* BUDGET: global ids of samples that stand in for bad ones; n_shortest are different ones */
    uint64_t shortest[STK_BIN_SHORTEST];
    uint32_t n_shortest;
    uint32_t group; /* BUDGET: number of bins of similar length that are kept together */
    /* BUDGET: the second length; rows of similar length are similar in it, too */
    stk_bin_bound also;
    /* BUDGET: what each output counts of `also`, or of `length` without an `also`; rounded up to
     * the multiple */
    stk_bin_parts parts;
    stk_bin_draws drawn; /* BUDGET; closed with the schedule */
    /* CLASS, STEPS: `group` is the number of ranks */
    stk_bin_rest rest;
    uint32_t classes; /* CLASS */
    uint32_t n_steps; /* STEPS */
    stk_bin_step steps[STK_SCHEDULE_MOST];
    struct { /* an epoch that was begun with another number of ranks; group 0: none */
        uint64_t epoch;
        uint32_t group;
    } before;
} stk_binning;

static inline int stk_bins_are_groups(const stk_binning *h)
{
    return h->kind == STK_BIN_CLASS || h->kind == STK_BIN_STEPS;
}

/* A length as batches count it: at least 1, rounded up to the multiple. */
static inline uint64_t stk_bin_round(uint32_t length, uint32_t multiple)
{
    uint64_t n = length ? length : 1;

    return multiple > 1 ? (n + multiple - 1) / multiple * multiple : n;
}

/* 1: the sample is longer than a batch may be (BUDGET). */
int stk_bin_is_over(const stk_binning *h, uint64_t id);
typedef struct stk_bin_place { /* a sample at a position of an epoch */
    uint64_t epoch, position, id;
} stk_bin_place;
/* The lengths of a sample, not rounded: length[0] by `length`, length[1] by `also`, and those of
 * its parts.  part: room for h->parts.n. */
void stk_bin_measure(const stk_binning *h, const stk_bin_place *x, uint32_t length[2],
                     uint32_t *part);
/* How many tokens a sample counts at a position of an epoch. */
uint32_t stk_bin_tokens(const stk_binning *h, uint64_t epoch, uint64_t position, uint64_t id);
typedef struct stk_bin_swap { /* sample `id` instead of `other`, which is at the position */
    uint64_t epoch, position;
    uint64_t id, other;
} stk_bin_swap;
/* 1: `id` is no longer than `other`, in each of its lengths. */
int stk_bin_replaces(const stk_binning *h, const stk_bin_swap *w);

typedef struct stk_bins stk_bins; /* Thread: any. */

int stk_bins_open(stk_bins **out, const stk_binning *how, stk_error *err);
uint64_t stk_bins_count(stk_bins *b, uint64_t epoch);
uint32_t stk_bins_size(stk_bins *b, uint64_t epoch, uint64_t bin); /* number of its positions */
/* STEPS: the entry of the schedule that holds for a bin.  CLASS and STEPS: sets *stand_in to 1 if
 * this rank has no rows left, and the bin's row is another rank's. */
const stk_bin_step *stk_bins_step(stk_bins *b, uint64_t epoch, uint64_t bin, int *stand_in);
/* Sets position[0..n) to positions number `from` to from + n - 1 of a bin. */
void stk_bins_at(stk_bins *b, uint64_t epoch, uint64_t bin, uint32_t from, uint32_t n,
                 uint64_t *position);
/* PACK: all positions of a bin, and for each the number of the piece of its sample (pieces have
 * `block` values), or STK_BIN_REST for the rest after the last whole piece. */
#define STK_BIN_REST UINT32_MAX
void stk_bins_pieces(stk_bins *b, uint64_t epoch, uint64_t bin, uint64_t *position, uint32_t *part);
uint64_t stk_bins_first(stk_bins *b, uint64_t epoch, uint64_t bin); /* PACK: its first position */
/* For an epoch: the sum of lengths, and the room of all bins (BUDGET: with padding). */
void stk_bins_fill(stk_bins *b, uint64_t epoch, uint64_t *used, uint64_t *room);
/* Prepares an epoch that will be needed: makes the first `done` of `of` parts of its table. */
void stk_bins_expect(stk_bins *b, uint64_t epoch, uint64_t done, uint64_t of);
void stk_bins_forget(stk_bins *b); /* call when the order changed and no thread reads bins */
void stk_bins_close(stk_bins **b);

#endif
