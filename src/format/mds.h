/* SPDX-License-Identifier: Apache-2.0 */
/* mds.h - reads MosaicML's shards (MDS, version 2) and LitData's chunks: what index.json says, and
 * the columns of a sample.  table/mds_data.c calls it.
 *
 * A shard is: u32 samples | u32 offsets of each sample and of the end | its configuration as JSON |
 * samples.  A sample is a u32 size for each column that has none of its own, then all columns, in
 * the order of column_names. */
#ifndef STOKER_MDS_H
#define STOKER_MDS_H

#include "base/err.h"

typedef struct stk_mds_column {
    char *name;
    int64_t size;    /* bytes of each value; -1: they differ */
    stk_dtype dtype; /* 0: bytes */
    uint32_t ndim;
    int64_t shape[7]; /* shape[0] -1: an array that has its length in front */
    int unsigned64;   /* true for u64, which is handed out as i64 */
    uint32_t exact;   /* bytes that a value must have, though its size is stored; 0: any */
    int bare;         /* true for an array without a header: its length follows from its bytes */
} stk_mds_column;

typedef struct stk_mds_shard {
    char *raw, *zip; /* names of the plain and the compressed file; zip NULL: there is none */
    uint64_t raw_bytes, zip_bytes;
    char *raw_hashes, *zip_hashes; /* {"sha1": "..."} as index.json has it; NULL: none */
    uint32_t samples;
    int codec;           /* compression of zip: STK_PQ_* */
    const char *refused; /* why zip can't be read; NULL: it can */
} stk_mds_shard;

typedef struct stk_mds_index {
    stk_mds_column *column; /* the same in all shards */
    uint32_t n_columns;
    stk_mds_shard *shard;
    uint64_t n;
    /* LitData: chunks are compressed in frames of so many samples; 0: they are not */
    uint32_t frame_rows;
    /* true for LitData, which does not say whether raw_bytes has the table of offsets in it */
    int litdata;
} stk_mds_index;

int stk_mds_index_read(stk_mds_index *out, stk_bytes json, stk_error *err);
/* litdata.c: the same for LitData's chunks. */
int stk_litdata_index_read(stk_mds_index *out, stk_bytes json, stk_error *err);
void stk_mds_index_fini(stk_mds_index *x);

/* Bytes at the beginning of a shard that hold its table of offsets. */
static inline uint64_t stk_mds_head(uint32_t samples)
{
    return 8 + 4 * (uint64_t)samples;
}
/* The place of a sample. */
typedef struct stk_mds_span {
    uint64_t at, len; /* in the shard */
} stk_mds_span;
int stk_mds_place(stk_bytes head, uint32_t samples, uint64_t size, uint32_t i, stk_mds_span *out,
                  stk_error *err);

/* A frame of one of LitData's chunks: samples [first, first + n), compressed together. */
typedef struct stk_litdata_frame {
    uint32_t number, first, n;
    uint64_t offset, len; /* in the file */
    uint64_t unpacked;    /* bytes of all its samples */
} stk_litdata_frame;

/* Bytes at the beginning of such a chunk that hold its tables. */
uint64_t stk_litdata_head(uint32_t samples, uint32_t frame_rows);
typedef struct stk_litdata_chunk {
    stk_bytes head;               /* its tables */
    uint32_t samples, frame_rows; /* from index.json */
    uint64_t size;                /* size of the file */
} stk_litdata_chunk;
/* Finds the frame with sample i by the tables, and checks it against the file's size. */
int stk_litdata_frame_of(const stk_litdata_chunk *c, uint32_t i, stk_litdata_frame *out,
                         stk_error *err);
/* Sets *at and *len to the place of sample i in its unpacked frame. */
int stk_litdata_in_frame(stk_bytes head, const stk_litdata_frame *f, uint32_t i, uint64_t *at,
                         uint64_t *len, stk_error *err);
/* Sets *out to one column of a sample. */
int stk_mds_value(const stk_mds_index *x, stk_bytes sample, uint32_t column, stk_bytes *out,
                  stk_error *err);

#endif
