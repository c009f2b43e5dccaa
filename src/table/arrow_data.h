/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_data.h - Arrow tables as a kind of data: IPC files and streams that are mapped, or memory
 * of another library of this process.
 *
 * A sample is a row.  Its values stay where Arrow has them: nothing is read, cached or copied
 * before a row is made of them.  Only columns of compressed files are unpacked first, one batch at
 * a time. */
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
    const char *refused; /* why some of its batches can't be read; NULL: all can */
    stk_arrow_ipc *ipc;
    stk_guarded *map;
    int fd;           /* descriptor of the mapped file, to notice that it became shorter */
    int64_t mtime_ns; /* 0: not compared, because the file is in a cache */
    /* by batch and leaf: 1 + unpacked bytes of the column; 0: not known yet.  NULL: not packed */
    _Atomic uint64_t *room;
} stk_arrow_shard;

typedef struct stk_arrow {           /* Thread: any, once opened. */
    stk_table base;                  /* for memory it has one file, whose name says so */
    stk_arrow_shard *shard;          /* all have the same columns */
    struct stk_arrow_memory *memory; /* NULL: files */
} stk_arrow;

/* The leaf that a field is of; the field may be the text of decimals (stk_table_find()). */
static inline const stk_arrow_leaf *stk_arrow_leaf_of(const stk_arrow_shard *s, uint32_t number)
{
    return &s->schema->leaf[number < s->schema->n ? number : number - s->schema->n];
}

extern const stk_data_ops stk_arrow_ops;

/* arrow_packed_data.c: values that have to be made: columns of packed batches, decimals, joined
 * columns.  The functions are the parts of locate(), unpack(), pick() and span() for these. */
int stk_arrow_made_place(const stk_arrow *a, const stk_entry *e, uint32_t number,
                         const stk_arrow_batch *b, stk_place *out, stk_error *err);
int stk_arrow_make(const stk_arrow *a, stk_unpack_job *job, stk_error *err);
int stk_arrow_pick(const stk_arrow *a, const stk_entry *e, const stk_place *at, stk_bytes *bytes,
                   stk_error *err);
void stk_arrow_made_span(const stk_arrow *a, const stk_entry *e, const stk_place *at,
                         stk_value_span *s);

/* arrow_memory.c: batches of a C stream; open() takes the stream. */
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
