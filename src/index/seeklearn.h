/* SPDX-License-Identifier: Apache-2.0 */
/* seeklearn.h - collects seek points that workers find while a loader runs (learn_jpeg), and writes
 * them to HASH.seek beside the index.  Rows call get() and put() (row/row_learn.c); the engine
 * writes (pipe/learn_save.c).
 *
 * Lookups and additions take no lock.  There is a table of groups, a table of samples in each
 * group, and a list of records for each sample; all are published by compare-and-swap, and nothing
 * is changed or freed before close().  When the memory limit is reached, nothing is added any
 * more.  A write merges what was found with HASH.seek as it is then, in a new file that replaces
 * the old one by a rename.  Its groups are marked as partial, so that `stoker index --jpeg` still
 * looks at all samples. */
#ifndef STOKER_SEEKLEARN_H
#define STOKER_SEEKLEARN_H

#include "index/seekfile.h"

typedef struct stk_learn stk_learn; /* Thread: any, but for write and close: one. */

typedef stk_seek_field stk_learn_place;

/* Borrows the index.  index_path, path: paths of HASH.idx and HASH.seek; path "": nothing is
 * written.  limit: most bytes of memory. */
int stk_learn_open(stk_learn **out, const stk_index *ix, const char *index_path, const char *path,
                   uint64_t limit, stk_error *err);
void stk_learn_close(stk_learn **l); /* writes nothing */

/* The points that were found for a field.  No data: there are none, and *tried is 1 if the field
 * was looked at. */
stk_bytes stk_learn_get(const stk_learn *l, const stk_learn_place *at, int *tried);
/* Stores `points` for a field of so many bytes; no data: it has none.  Returns 1; 0: the field is
 * known already, or the limit is reached. */
int stk_learn_put(stk_learn *l, const stk_learn_place *at, stk_bytes points, uint64_t bytes);
int stk_learn_full(const stk_learn *l);
uint64_t stk_learn_count(const stk_learn *l); /* fields with points */

/* Writes what was found since the last write.  STK_END: another process writes; try again later. */
int stk_learn_write(stk_learn *l, stk_error *err);

#endif
