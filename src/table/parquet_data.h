/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_data.h - Parquet files as a kind of data.
 *
 * A sample is a row.  Its file, row group and row follow from its number by arithmetic, so rows
 * need no memory.  A chunk is a column's pages in one row group.  Each chunk has a table, which is
 * made at its first use, published by compare-and-swap, and never freed before close: the row seek
 * points of a column of large values, or the list of its pages.  Columns named in folders
 * (year=2024) are constants of a file. */
#ifndef STOKER_PARQUET_DATA_H
#define STOKER_PARQUET_DATA_H

#include <stdatomic.h>

#include "format/parquet/points.h"
#include "table/table_data.h"

#define STK_PQ_GATHERED ((uint64_t)1 << 63) /* bit of a block's number: it is of joined columns */

typedef struct stk_pq_block { /* pages that are decoded together: rows [first, next one's first) */
    uint64_t offset, len;     /* range of the file, headers included */
    uint64_t first;           /* number of its first row in the row group */
    uint64_t unpacked;        /* most bytes that it decodes to */
} stk_pq_block;

typedef struct stk_pq_table { /* table of one chunk; read-only once published */
    stk_pq_points points;     /* n_spans 0: there are none, and pages are read whole */
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
    uint32_t *leaf_of; /* by field of the data set: its leaf; UINT32_MAX: this file has none */
    char **constant;   /* by partition column: its value */
    stk_pq_leaf *text; /* by leaf: decimals as text; NULL: there are no decimals */
    /* by chunk (group * leaves + leaf); then as many entries for decimals as text */
    _Atomic(stk_pq_table *) *table;
} stk_pq_shard;

typedef struct stk_pq_field {
    char *name;
    stk_pq_leaf leaf; /* the leaf in the first file that has it, which owns its texts */
    int partition;    /* number of the partition column; -1: a column of the files */
} stk_pq_field;

typedef struct stk_parquet { /* Thread: any, once opened. */
    stk_table base;          /* a file's fingerprint is that of its footer */
    uint32_t n_fields, n_partitions;
    stk_pq_field *field;
    stk_pq_shard *shard;
    void *points_file;             /* row seek points as they were read; tables point into them */
    _Atomic uint64_t dictionaries; /* bytes of all dictionaries in tables */
} stk_parquet;

extern const stk_data_ops stk_parquet_ops;
/* The data set as Parquet files; NULL: it is of another kind. */
stk_parquet *stk_parquet_of(const stk_dataset *ds);

static inline uint32_t stk_pq_chunks(const stk_pq_file *f)
{
    return f->n_groups * f->n_leaves;
}

/* The leaf that a chunk is of; for decimals as text their leaf as text. */
static inline const stk_pq_leaf *stk_pq_leaf_of(const stk_pq_shard *s, uint32_t chunk)
{
    return &(chunk < stk_pq_chunks(s->meta) ? s->meta->leaf : s->text)[chunk % s->meta->n_leaves];
}

/* parquet_table.c: the table of a chunk, which is made if there is none. */
int stk_pq_table_get(const stk_parquet *p, uint64_t shard, uint32_t chunk, const stk_pq_table **out,
                     stk_error *err);
/* A table of pages, even if the chunk has row seek points; the caller closes it. */
int stk_pq_table_pages(const stk_parquet *p, uint64_t shard, uint32_t chunk, stk_pq_table **out,
                       stk_error *err);
void stk_pq_table_close(stk_pq_table **t);
/* Parts of unpack() and pick(): decode a block's pages to one piece of memory, and find a row in
 * it. */
int stk_pq_block_unpack(const stk_pq_leaf *l, int codec, const stk_pq_table *t, stk_unpack_job *job,
                        stk_error *err);
int stk_pq_block_pick(const stk_pq_leaf *l, const stk_pq_table *t, uint64_t row, stk_bytes *bytes,
                      stk_error *err);
/* A part of stk_data_ops.span: the values from `row` on. */
void stk_pq_block_span(const stk_pq_leaf *l, uint64_t row, stk_value_span *s);

/* parquet_gather.c: joined columns, as blocks of whole rows. */
int stk_pq_gather_locate(const stk_parquet *p, const stk_gather *g, const stk_entry *e,
                         stk_place *out, stk_error *err);
int stk_pq_gather_unpack(const stk_parquet *p, stk_unpack_job *job, stk_error *err);
int stk_pq_gather_pick(const stk_parquet *p, const stk_gather *g, const stk_place *at,
                       stk_bytes *bytes, stk_error *err);
void stk_pq_gather_span(const stk_gather *g, const stk_place *at, stk_value_span *s);
/* Decodes a block of a chunk and adds its values to *v, which begins as zeros. */
int stk_pq_block_read(const stk_parquet *p, uint64_t shard, uint32_t chunk, uint32_t block,
                      stk_pq_vector *v, stk_error *err);

/* parquet_points.c: sets the row seek points of all chunks of large values.  They are read from a
 * file beside the data or in the cache, or made and written there. */
int stk_parquet_points(stk_parquet *p, const stk_dataset_options *o, stk_error *err);

#endif
