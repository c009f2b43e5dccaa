/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_data.h - Parquet files as a kind of data.
 *
 * A sample is a row; its number says file, row group and row by arithmetic, so that no row costs
 * memory.  What is known of a chunk (a column's pages in one row group) is a table that is made
 * when the chunk is first touched, published by compare-and-swap, and kept: row seek points of a
 * column of large values, else the list of its pages.  Columns named in folders (year=2024) are
 * constants of a file. */
#ifndef STOKER_PARQUET_DATA_H
#define STOKER_PARQUET_DATA_H

#include <stdatomic.h>

#include "format/parquet/points.h"
#include "table/table_data.h"

#define STK_PQ_GATHERED ((uint64_t)1 << 63) /* of a block's number: of columns taken together */

typedef struct stk_pq_block { /* pages that are decoded together: rows [first, next one's first) */
    uint64_t offset, len;     /* of the file, headers included */
    uint64_t first;           /* row of the group */
    uint64_t unpacked;        /* bytes that it decodes to at most */
} stk_pq_block;

typedef struct stk_pq_table { /* of one chunk; read-only once published */
    stk_pq_points points;     /* n_spans 0: none, pages are read whole */
    uint32_t n_blocks;
    stk_pq_block *block;
    uint64_t rows;
    stk_pq_vector dictionary; /* leaf NULL: none */
    uint64_t dictionary_bytes;
} stk_pq_table;

/* The block that the row is in. */
static inline uint32_t stk_pq_block_of(const stk_pq_table *t, uint64_t row)
{
    uint32_t lo = 0, hi = t->n_blocks;

    while (hi - lo > 1) { /* first[lo] <= row */
        uint32_t mid = lo + (hi - lo) / 2;

        if (t->block[mid].first <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

typedef struct stk_pq_shard { /* one file */
    stk_pq_file *meta;
    uint32_t *leaf_of; /* by field of the data set: UINT32_MAX: this file has none */
    char **constant;   /* by partition column */
    stk_pq_leaf *text; /* of decimals, by leaf; NULL: there are none */
    /* by chunk: group * leaves + leaf, then as many again of decimals as text */
    _Atomic(stk_pq_table *) *table;
} stk_pq_shard;

typedef struct stk_pq_field {
    char *name;
    stk_pq_leaf leaf; /* of the first file that has it; name and texts are that file's */
    int partition;    /* number of the partition column; -1: a column of the files */
} stk_pq_field;

typedef struct stk_parquet { /* Thread: any, once opened. */
    stk_table base;          /* a file's fingerprint is that of its footer */
    uint32_t n_fields, n_partitions;
    stk_pq_field *field;
    stk_pq_shard *shard;
    void *points_file;             /* row seek points as they were read; tables point into it */
    _Atomic uint64_t dictionaries; /* bytes of all that tables hold */
} stk_parquet;

extern const stk_data_ops stk_parquet_ops;
/* NULL: it is another kind. */
stk_parquet *stk_parquet_of(const stk_dataset *ds);

static inline uint32_t stk_pq_chunks(const stk_pq_file *f)
{
    return f->n_groups * f->n_leaves;
}

/* What chunk it is, of text too. */
static inline const stk_pq_leaf *stk_pq_leaf_of(const stk_pq_shard *s, uint32_t chunk)
{
    return &(chunk < stk_pq_chunks(s->meta) ? s->meta->leaf : s->text)[chunk % s->meta->n_leaves];
}

/* parquet_table.c: the table of a chunk, made now where there is none yet. */
int stk_pq_table_get(const stk_parquet *p, uint64_t shard, uint32_t chunk, const stk_pq_table **out,
                     stk_error *err);
/* A table of the pages alone, also where the chunk has row seek points; the caller closes it. */
int stk_pq_table_pages(const stk_parquet *p, uint64_t shard, uint32_t chunk, stk_pq_table **out,
                       stk_error *err);
void stk_pq_table_close(stk_pq_table **t);
/* A block's pages -> one piece of memory, and a row of that. */
int stk_pq_block_unpack(const stk_pq_leaf *l, int codec, const stk_pq_table *t, stk_unpack_job *job,
                        stk_error *err);
int stk_pq_block_pick(const stk_pq_leaf *l, const stk_pq_table *t, uint64_t row, stk_bytes *bytes,
                      stk_error *err);
/* A stk_data_ops.span from `row` on. */
void stk_pq_block_span(const stk_pq_leaf *l, uint64_t row, stk_value_span *s);

/* parquet_gather.c: columns taken together, as blocks of whole rows. */
int stk_pq_gather_locate(const stk_parquet *p, const stk_gather *g, const stk_entry *e,
                         stk_place *out, stk_error *err);
int stk_pq_gather_unpack(const stk_parquet *p, stk_unpack_job *job, stk_error *err);
int stk_pq_gather_pick(const stk_parquet *p, const stk_gather *g, const stk_place *at,
                       stk_bytes *bytes, stk_error *err);
void stk_pq_gather_span(const stk_gather *g, const stk_place *at, stk_value_span *s);
/* A chunk's block, decoded: appended to *v (zeros at first). */
int stk_pq_block_read(const stk_parquet *p, uint64_t shard, uint32_t chunk, uint32_t block,
                      stk_pq_vector *v, stk_error *err);

/* parquet_points.c: row seek points of all chunks that want them: found beside the data or in the
 * cache, else made and written there. */
int stk_parquet_points(stk_parquet *p, const stk_dataset_options *o, stk_error *err);

#endif
