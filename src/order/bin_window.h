/* SPDX-License-Identifier: Apache-2.0 */
/* bin_window.h - the bins of one window of an epoch: which positions each of them has, made of
 * their lengths.  bins.c makes windows, and finds bins in them. */
#ifndef STOKER_ORDER_BIN_WINDOW_H
#define STOKER_ORDER_BIN_WINDOW_H

#include "order/bins.h"

typedef struct stk_bin_window { /* a table */
    uint64_t bins;
    uint32_t packed; /* PACK: bins with an entry in `at`; the others are whole blocks */
    stk_perm perm;   /* PACK: of the bins */
    uint32_t
        at[]; /* where each bin begins; from `window` + 1 on the positions, in the window; PACK:
                      * and, as u64, how many whole blocks those before each position have */
} stk_bin_window;

typedef struct stk_bin_maker { /* of windows: one thread at a time */
    const stk_binning *how;    /* of the bins, as long as they are open */
    uint64_t positions;        /* of an epoch */
    stk_packer *packer;
    uint32_t *length, *row, *next; /* window */
    uint32_t *also;                /* window: second lengths, where there are some */
    uint32_t *part;                /* window x parts */
    uint32_t *place;               /* window: positions whose lengths these are ... */
    int moved;                     /* ... and 0: each is its own */
    uint32_t *from;                /* window, PACK: positions that have a rest */
    uint64_t *whole;               /* window + 1, PACK: blocks of those before */
    uint64_t *key, *other;         /* window: to be sorted */
    stk_where *where;              /* RUN */
    stk_bin_window *out;           /* of the epoch tables' maker */
} stk_bin_maker;

typedef struct stk_bin_sums {
    uint64_t used, room;
} stk_bin_sums;

/* Adds what a window takes and has room for to *s. */
void stk_bin_window_make(stk_bin_maker *m, uint64_t epoch, uint64_t w, stk_bin_window *out,
                         stk_bin_sums *s);
size_t stk_bin_window_bytes(const stk_binning *h);
/* PACK: how many whole blocks those before each position have. */
uint64_t *stk_bin_window_whole(const stk_binning *h, stk_bin_window *t);

/* m: zeros; ends with fini(), also where it failed. */
int stk_bin_maker_init(stk_bin_maker *m, const stk_binning *h, uint64_t positions, stk_error *err);
void stk_bin_maker_fini(stk_bin_maker *m);

#endif
