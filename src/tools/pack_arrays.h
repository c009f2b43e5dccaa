/* SPDX-License-Identifier: Apache-2.0 */
/* pack_arrays.h - writes shards of arrays: FIELD-000000.npy, for each field a file with the rows of
 * the shard's samples.  pack.c and pack_fields.c call it.
 *
 * Rows come as encode(npy) writes them.  All rows of a field have one type and shape: the files of
 * a field are one array, of which a loader maps every part. */
#ifndef STOKER_PACK_ARRAYS_H
#define STOKER_PACK_ARRAYS_H

#include "tools/pack_fields.h"

typedef struct stk_rows_out { /* one field's file of a shard */
    stk_atomic_file file;
    /* the header of a row, as encode(npy) writes it; rows that are not written yet */
    stk_text head, buf;
    uint64_t rows, bytes;
} stk_rows_out;

/* The shard that is being written.  Init with zeros, end with close.  Thread: one. */
typedef struct stk_array_shard {
    const stk_pack_run *p;
    const stk_pack_fields *f;
    int open;
    stk_rows_out *field; /* f->n entries */
} stk_array_shard;

int stk_array_shard_open(stk_array_shard *s, const stk_pack_run *p, const stk_pack_fields *f,
                         uint64_t k, stk_error *err);
/* Adds a sample: rows of the fields that chains make, in their order.  STK_EINVAL: a row has
 * another shape than those before it. */
int stk_array_shard_add(stk_array_shard *s, stk_bytes key, const stk_part *rows, uint32_t n,
                        stk_error *err);
/* Syncs all files to disk, still under temporary names; sets *size to their size.  publish() then
 * gives them their names. */
int stk_array_shard_finish(stk_array_shard *s, uint64_t *size, stk_error *err);
int stk_array_shard_publish(stk_array_shard *s, stk_error *err);
void stk_array_shard_close(stk_array_shard *s); /* what was not published is removed */

/* STK_EINVAL: the target is for arrays, and the options do not go with that. */
int stk_pack_arrays_check(const stk_pack_run *p, const stk_pack_fields *f, stk_error *err);
/* As stk_pack_look(): fills keep[]. */
int stk_pack_arrays_look(stk_pack_run *p, const stk_pack_fields *f, stk_error *err);
/* Checks that all files of a field have rows of one type and shape. */
int stk_pack_arrays_verify(const stk_pack_run *p, const stk_pack_fields *f, stk_error *err);
void stk_pack_arrays_pattern(const stk_pack_run *p, const stk_pack_fields *f, char *out,
                             size_t size);

#endif
