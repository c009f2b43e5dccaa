/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_data.h - Arrow tables as a kind of data: IPC files and streams that are mapped, or memory
 * of another library of this process.
 *
 * A sample is a row.  Its values are where Arrow has them, so that nothing is read, kept or copied
 * before a row is made of them.  Only columns of compressed files are unpacked first, a batch at a
 * time. */
#ifndef STOKER_ARROW_DATA_H
#define STOKER_ARROW_DATA_H

#include <stoker/arrow.h>

#include "base/guarded.h"
#include "format/arrow.h"
#include "table/table_data.h"

typedef struct stk_arrow_shard { /* a file, or all of a stream */
    const stk_arrow_schema *schema;
    const stk_arrow_batch *batch;
    uint64_t n_batches;
    /* files */
    const char *refused; /* why some of its batches can't be read; NULL: they can */
    stk_arrow_ipc *ipc;
    stk_guarded *map;
    int fd;           /* of what is mapped: a file that shrinks is an error, not a signal */
    int64_t mtime_ns; /* 0: not compared, as of what a cache holds */
    /* 1 + bytes of a packed column, by batch and leaf; 0: not known yet.  NULL: none is packed */
    _Atomic uint64_t *room;
} stk_arrow_shard;

typedef struct stk_arrow {           /* Thread: any, once opened. */
    stk_table base;                  /* of memory one file, whose name says so */
    stk_arrow_shard *shard;          /* all have the same columns */
    struct stk_arrow_memory *memory; /* NULL: files */
} stk_arrow;

/* The leaf of a field, which may be the text of one (stk_table_find()). */
static inline const stk_arrow_leaf *stk_arrow_leaf_of(const stk_arrow_shard *s, uint32_t number)
{
    return &s->schema->leaf[number < s->schema->n ? number : number - s->schema->n];
}

extern const stk_data_ops stk_arrow_ops;

/* arrow_packed_data.c: columns of packed batches, decimals, columns taken together.  Where one is
 * of this row's batch, stk_data_ops.unpack, and stk_data_ops.pick. */
int stk_arrow_made_place(const stk_arrow *a, const stk_entry *e, uint32_t number,
                         const stk_arrow_batch *b, stk_place *out, stk_error *err);
int stk_arrow_make(const stk_arrow *a, stk_unpack_job *job, stk_error *err);
int stk_arrow_pick(const stk_arrow *a, const stk_entry *e, const stk_place *at, stk_bytes *bytes,
                   stk_error *err);
void stk_arrow_made_span(const stk_arrow *a, const stk_entry *e, const stk_place *at,
                         stk_value_span *s);

/* arrow_memory.c: batches of a C stream, which is taken over. */
typedef struct stk_arrow_memory {
    stk_arrow_schema schema;
    struct ArrowSchema given;
    struct ArrowArray *array;
    stk_arrow_batch *batch;
    uint64_t n, cap, rows;
} stk_arrow_memory;

int stk_arrow_memory_open(stk_arrow_memory **out, struct ArrowArrayStream *stream, stk_error *err);
void stk_arrow_memory_close(stk_arrow_memory **m);

#endif
