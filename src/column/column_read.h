/* SPDX-License-Identifier: Apache-2.0 */
/* column_read.h - reads the values of some columns of one shard.  Building an index with columns
 * calls it, and stk_dataset_column() for a column that the index does not hold. */
#ifndef STOKER_COLUMN_READ_H
#define STOKER_COLUMN_READ_H

#include "data/data.h"

#define STK_MAX_COLUMNS 64u /* most columns of one job */

typedef struct stk_column_job { /* what all shards share.  Thread: any. */
    stk_dataset *data;
    const char *const *column; /* "cls": a field; "json.width": a member of a field */
    uint32_t n_columns;
    const _Atomic int *stop; /* reading ends with STK_ECLOSED soon after it is set */
    _Atomic uint64_t *bad;   /* counts values that are left out because their field is no JSON */
} stk_column_job;

/* STK_EINVAL: no column can have this name. */
int stk_column_name_check(const char *name, stk_error *err);

/* The error for a column in which no sample has a value; it names the fields that exist. */
int stk_column_no_value(const stk_dataset *ds, const char *name, stk_error *err);

/* Sets out[c] to the chunk of column c, which the caller frees.  Errors have the offset and key of
 * the sample. */
int stk_column_read(const stk_column_job *job, uint64_t shard, stk_chunk *out, stk_error *err);

#endif
