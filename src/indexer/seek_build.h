/* SPDX-License-Identifier: Apache-2.0 */
/* seek_build.h - makes the seek points of all JPEGs of a data set, and writes them to HASH.seek.
 * `stoker index --jpeg` calls it. */
#ifndef STOKER_SEEK_BUILD_H
#define STOKER_SEEK_BUILD_H

#include "data/shard_data.h"

typedef struct stk_seek_build { /* init with zeros, set what is wanted.  Thread: one. */
    /* wanted */
    uint32_t workers;
    int force;                /* make points again that exist already */
    stk_progress_fn progress; /* called with the number of samples; may be NULL */
    void *progress_cookie;
    /* found */
    int built;                  /* true if the file was written now */
    uint64_t jpegs, jpeg_bytes; /* JPEGs with points, and their bytes */
    uint64_t others;            /* JPEGs without points: progressive, damaged, small */
    uint64_t bytes;             /* bytes of HASH.seek */
    char path[1290];
} stk_seek_build;

/* Makes HASH.seek complete, beside the index of `ds`.  Groups of shards that an older file in the
 * same folder has are copied. */
int stk_seek_build_run(stk_seek_build *b, stk_shard_data *ds, stk_error *err);

#endif
