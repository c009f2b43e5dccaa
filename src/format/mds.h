/* SPDX-License-Identifier: Apache-2.0 */
/* mds.h - MosaicML's shards (MDS, version 2): what index.json says, and columns of a sample.
 *
 * A shard is: u32 samples | u32 places of each sample and of the end | its configuration as JSON |
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
    int64_t shape[7]; /* shape[0] -1: an array that says its length itself */
    int unsigned64;
    uint32_t exact; /* bytes that a value must have although it says its size; 0: any */
    int bare;       /* an array without a head: as many values as there are bytes */
} stk_mds_column;

typedef struct stk_mds_shard {
    char *raw, *zip; /* names, below the index's folder; zip NULL: none */
    uint64_t raw_bytes, zip_bytes;
    char *raw_hashes, *zip_hashes; /* {"sha1": "..."} as index.json has it; NULL: none */
    uint32_t samples;
    int codec;           /* STK_PQ_* of zip */
    const char *refused; /* of zip */
} stk_mds_shard;

typedef struct stk_mds_index {
    stk_mds_column *column; /* the same in all shards */
    uint32_t n_columns;
    stk_mds_shard *shard;
    uint64_t n;
    /* litdata: chunks are packed in frames of so many samples; 0: they are not */
    uint32_t frame_rows;
    /* sizes of its files are not said exactly: raw_bytes is with their tables of places or
     * without */
    int litdata;
} stk_mds_index;

int stk_mds_index_read(stk_mds_index *out, stk_bytes json, stk_error *err);
/* litdata.c: the same of LitData's chunks. */
int stk_litdata_index_read(stk_mds_index *out, stk_bytes json, stk_error *err);
void stk_mds_index_fini(stk_mds_index *x);

/* Bytes of a shard's table of places, from its beginning on. */
static inline uint64_t stk_mds_head(uint32_t samples)
{
    return 8 + 4 * (uint64_t)samples;
}
/* Where sample i is, by the table; checked against the shard's size. */
typedef struct stk_mds_span {
    uint64_t at, len; /* in the shard */
} stk_mds_span;
int stk_mds_place(stk_bytes head, uint32_t samples, uint64_t size, uint32_t i, stk_mds_span *out,
                  stk_error *err);

/* A frame of a chunk of LitData's: samples [first, first + n) packed together. */
typedef struct stk_litdata_frame {
    uint32_t number, first, n;
    uint64_t offset, len; /* in the file */
    uint64_t unpacked;    /* bytes of all its samples */
} stk_litdata_frame;

/* Bytes of such a chunk's tables, from its beginning on. */
uint64_t stk_litdata_head(uint32_t samples, uint32_t frame_rows);
typedef struct stk_litdata_chunk {
    stk_bytes head;               /* its tables */
    uint32_t samples, frame_rows; /* as index.json says */
    uint64_t size;                /* of the file */
} stk_litdata_chunk;
/* The frame with sample i, by the tables; checked against the file's size. */
int stk_litdata_frame_of(const stk_litdata_chunk *c, uint32_t i, stk_litdata_frame *out,
                         stk_error *err);
/* Where sample i is in its frame's bytes. */
int stk_litdata_in_frame(stk_bytes head, const stk_litdata_frame *f, uint32_t i, uint64_t *at,
                         uint64_t *len, stk_error *err);
/* One column of a sample. */
int stk_mds_value(const stk_mds_index *x, stk_bytes sample, uint32_t column, stk_bytes *out,
                  stk_error *err);

#endif
