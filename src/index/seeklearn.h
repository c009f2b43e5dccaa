/* SPDX-License-Identifier: Apache-2.0 */
/* seeklearn.h - seek points found while running: kept in memory, then written beside the index.
 *
 * Lookups and additions take no lock: a table of groups, a table of samples in each, a list of
 * records for each sample, all published by compare-and-swap and never changed or freed before
 * close.  Memory is bounded; what comes after that is not kept.  A write joins what is in HASH.seek
 * by then with what was found, aside, and renames: readers see the old file or the new one.  The
 * groups it makes are marked as partial, so that `stoker index --jpeg` still looks at all
 * samples. */
#ifndef STOKER_SEEKLEARN_H
#define STOKER_SEEKLEARN_H

#include "index/seekfile.h"

typedef struct stk_learn stk_learn; /* Thread: any, but for write and close: one. */

typedef stk_seek_field stk_learn_place;

/* Borrows the index.  index_path, path: of HASH.idx and HASH.seek; path "": nothing is written.
 * limit: bytes in memory. */
int stk_learn_open(stk_learn **out, const stk_index *ix, const char *index_path, const char *path,
                   uint64_t limit, stk_error *err);
void stk_learn_close(stk_learn **l); /* writes nothing */

/* What was found of a field.  No data: nothing; *tried: and there is nothing to find. */
stk_bytes stk_learn_get(const stk_learn *l, const stk_learn_place *at, int *tried);
/* Keep `points` (none: it was tried in vain) of a field of so many bytes.  1, or 0: it was known
 * already, or there is no room. */
int stk_learn_put(stk_learn *l, const stk_learn_place *at, stk_bytes points, uint64_t bytes);
int stk_learn_full(const stk_learn *l);
uint64_t stk_learn_count(const stk_learn *l); /* fields with points */

/* Write what is new since the last time.  0; STK_END: another process is at it, try again. */
int stk_learn_write(stk_learn *l, stk_error *err);

#endif
