/* SPDX-License-Identifier: Apache-2.0 */
/* bin_window.h - makes the table of one window of an epoch: which positions each bin has, by their
 * lengths.  bins.c makes windows with it, and finds bins in them.  Terms as in bins.h. */
#ifndef STOKER_ORDER_BIN_WINDOW_H
#define STOKER_ORDER_BIN_WINDOW_H

#include "order/bins.h"

typedef struct stk_bin_window {
    uint64_t bins;   /* bins of the window */
    uint32_t packed; /* PACK: bins with an entry in `at`; each of the others is one whole block */
    stk_perm perm;   /* PACK: the order of the bins */
    /* First `window` + 1 numbers: where each bin begins in the second part.  Second part:
     * positions, counted from the window's first.  PACK: then stk_bin_window_whole(). */
    uint32_t at[];
} stk_bin_window;

/* Makes windows, and has the memory for that.  Thread: one.  Arrays have one entry per position of
 * a window, unless they say otherwise. */
typedef struct stk_bin_maker {
    const stk_binning *how; /* borrowed */
    uint64_t positions;     /* positions of an epoch */
    stk_packer *packer;
    uint32_t *length;      /* the length that counts */
    uint32_t *row, *next;  /* the packed row of each length; work memory */
    uint32_t *also;        /* second lengths, if there are some */
    uint32_t *part;        /* lengths by part: entry * parts.n + part */
    uint32_t *place;       /* the position that each length belongs to, if `moved` */
    int moved;             /* 0: entry i belongs to position i, and `place` is not used */
    uint32_t *from;        /* PACK: positions with a rest after their whole blocks */
    uint64_t *whole;       /* window + 1 entries, PACK: whole blocks of all positions before */
    uint64_t *key, *other; /* lengths and entries to be sorted, and work memory for that */
    stk_where *where;      /* work memory: some samples of the window */
    stk_bin_window *out;   /* work memory of bins.c: the window that is made */
} stk_bin_maker;

typedef struct stk_bin_sums {
    uint64_t used, room; /* sum of lengths; room of all bins, with padding */
} stk_bin_sums;

/* Makes window `w` of an epoch, and adds its figures to *s. */
void stk_bin_window_make(stk_bin_maker *m, uint64_t epoch, uint64_t w, stk_bin_window *out,
                         stk_bin_sums *s);
size_t stk_bin_window_bytes(const stk_binning *h);
/* PACK: `window` + 1 numbers after the positions: entry i is the number of whole blocks that the
 * positions before i have. */
uint64_t *stk_bin_window_whole(const stk_binning *h, stk_bin_window *t);

/* *m starts as zeros; end with fini(), after a failure too. */
int stk_bin_maker_init(stk_bin_maker *m, const stk_binning *h, uint64_t positions, stk_error *err);
void stk_bin_maker_fini(stk_bin_maker *m);

#endif
