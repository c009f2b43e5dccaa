/* SPDX-License-Identifier: Apache-2.0 */
/* seek_build.h - seek points of all JPEGs of a data set. */
#ifndef STOKER_SEEK_BUILD_H
#define STOKER_SEEK_BUILD_H

#include "data/shard_data.h"

typedef struct stk_seek_build { /* init with zeros, set what is wanted.  Thread: one. */
    /* wanted */
    uint32_t workers;
    int force;                /* make again what is there */
    stk_progress_fn progress; /* in samples */
    void *progress_cookie;
    /* found */
    int built;
    uint64_t jpegs, jpeg_bytes; /* with points */
    uint64_t others;            /* JPEGs that have none: progressive, damaged, small */
    uint64_t bytes;             /* of the points, with their tables */
    char path[1290];
} stk_seek_build;

/* Have HASH.seek beside the index of `ds` whole.  Groups of shards that an older file in the same
 * folder knows are carried over. */
int stk_seek_build_run(stk_seek_build *b, stk_shard_data *ds, stk_error *err);

#endif
