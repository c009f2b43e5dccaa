/* SPDX-License-Identifier: Apache-2.0 */
/* column_read.h - reads the values of some columns of one shard. Building an index with columns
 * calls it, and stk_dataset_column() for a column that the index does not hold. */
#ifndef STOKER_COLUMN_READ_H
#define STOKER_COLUMN_READ_H

#include "data/data.h"

#define STK_MAX_COLUMNS 64u /* read at a time */

typedef struct stk_column_job { /* what all shards share.  Thread: any. */
    stk_dataset *data;
    const char *const *column; /* "cls": a field; "json.width": a member of a field */
    uint32_t n_columns;
    const _Atomic int *stop; /* looked at now and then */
    _Atomic uint64_t *bad;   /* counts values left out: their field is no JSON */
} stk_column_job;

/* A name that can be a column; else STK_EINVAL. */
int stk_column_name_check(const char *name, stk_error *err);

/* The error that no sample has a value there; names the fields that there are. */
int stk_column_no_value(const stk_dataset *ds, const char *name, stk_error *err);

/* out[c]: the chunk of column c, the caller's.  Errors carry offset and key. */
int stk_column_read(const stk_column_job *job, uint64_t shard, stk_chunk *out, stk_error *err);

#endif
