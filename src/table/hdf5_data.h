/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_data.h - HDF5 files as a kind of data: the data sets of a group that have the same number of
 * rows are fields, and row i is sample i.
 *
 * A large row that is stored without filters is a range of the file.  All other rows are in slabs.
 * A slab is the rows of a chunk (with all chunks beside it, if chunks split rows), or as many small
 * rows as make a block worth reading.  A worker unpacks a slab once, and it is stored in the block
 * cache.  Sequences and texts of any length are in the file's heap; their places are read for some
 * thousand rows at a time. */
#ifndef STOKER_HDF5_DATA_H
#define STOKER_HDF5_DATA_H

#include <stdatomic.h>

#include "base/guarded.h"
#include "format/hdf5/hdf5.h"
#include "table/table_data.h"

typedef struct stk_hdf5_virtual stk_hdf5_virtual;
typedef struct stk_hdf5_source stk_hdf5_source;

typedef struct stk_hdf5_column { /* a field in one file */
    const stk_h5_set *set;
    uint64_t row_bytes, value_bytes; /* bytes of a row as it is stored; bytes of its value */
    uint64_t slab_rows;              /* rows of a slab */
    uint32_t across;                 /* chunks of a slab */
    int direct;                      /* true if a value is a range of the file */
    _Atomic(stk_h5_chunks *) chunks; /* read at first touch */
    _Atomic(uint8_t *) fill;         /* a row of fill values, made at first use */
    /* sequences: their places, in parts that are read at first use */
    _Atomic(stk_h5_sequence *) *sequences;
    uint64_t part_rows, n_parts;     /* rows of a part; number of parts */
    uint8_t *here;                   /* all values of a compact data set; else NULL */
    const stk_hdf5_virtual *virtual; /* the sources of a virtual data set; else NULL */
} stk_hdf5_column;

typedef struct stk_hdf5_shard {
    char *group;
    stk_h5_file head; /* its `file` is not set */
    stk_h5_group sets;
    stk_hdf5_column *column;   /* by field that can be read */
    stk_hdf5_virtual *virtual; /* sources of its virtual data sets */
    uint32_t n_virtual;
    /* map of the whole file, made at the first large row; NULL: not made yet, or not possible */
    _Atomic(stk_guarded *) map;
} stk_hdf5_shard;

typedef struct stk_hdf5 { /* Thread: any, once opened. */
    /* columns are the fields of the first file; those that are not read come last */
    stk_table base;
    stk_hdf5_shard *shard;
} stk_hdf5;

extern const stk_data_ops stk_hdf5_ops;

/* hdf5_map.c: makes `place` the bytes of its range in memory, if the file is mapped. */
struct stk_hdf5_at;
void stk_hdf5_mapped(const struct stk_hdf5_at *at, stk_place *place);
void stk_hdf5_unmap(const stk_hdf5 *h, uint64_t shard);
int stk_hdf5_unchanged(const stk_dataset *d, stk_error *err); /* stk_data_ops.unchanged */

#define STK_HDF5_SLAB_BITS 40 /* slabs of a column; the rest of a block's number is the field */

/* hdf5_gather.c: joined columns: the parts of locate(), unpack() and pick() for them. */
void stk_hdf5_gather_locate(const stk_hdf5 *h, const stk_gather *g, const stk_entry *e,
                            stk_place *out);
int stk_hdf5_gather_unpack(const stk_hdf5 *h, stk_unpack_job *job, stk_error *err);
int stk_hdf5_gather_pick(const stk_gather *g, const stk_place *at, stk_bytes *bytes,
                         stk_error *err);

/* hdf5_virtual.c: the bytes of all files that it names, each counted once; v NULL: 0. */
uint64_t stk_hdf5_virtual_bytes(const stk_hdf5_virtual *v);
/* Finds the sources of a file's virtual data sets; one with a source that can't be read is
 * refused. */
int stk_hdf5_virtual_open(stk_hdf5 *h, uint64_t shard, stk_error *err);
/* after stk_hdf5_column_init() */
void stk_hdf5_virtual_init(stk_hdf5_column *c, const stk_hdf5_shard *s);
void stk_hdf5_virtual_fini(stk_hdf5_shard *s);
void stk_hdf5_virtual_print(const stk_hdf5_shard *s, stk_fingerprint *out);
/* Copies values of rows [first, first + n) that a source has; dst is filled with the fill value
 * before. */
int stk_hdf5_virtual_rows(const stk_hdf5_column *c, uint64_t first, uint64_t n, uint8_t *dst,
                          stk_error *err);

/* hdf5_data.c: STK_ECORRUPT: one of these u64 is 2^63 or more. */
int stk_hdf5_unsigned(const uint8_t *p, size_t len, stk_error *err);

/* hdf5_rows.c */
typedef struct stk_hdf5_at { /* a column of a file */
    const stk_hdf5 *h;
    uint64_t shard;
    stk_hdf5_column *c;
} stk_hdf5_at;

/* Sets up how the rows of a data set are found.  Returns NULL, or why it can't be read. */
const char *stk_hdf5_column_init(stk_hdf5_column *c, const stk_h5_set *s);
void stk_hdf5_column_fini(stk_hdf5_column *c);
/* STK_ECORRUPT: it claims far more than a file of `size` bytes, and what it names, can have. */
int stk_hdf5_claim(const stk_hdf5_column *c, uint64_t size, stk_error *err);
int stk_hdf5_chunks(const stk_hdf5_at *at, const stk_h5_chunks **out, stk_error *err);
/* The first chunk of a slab that was written to the file; NULL: none was. */
const stk_h5_chunk *stk_hdf5_slab_first(const stk_hdf5_column *c, const stk_h5_chunks *all,
                                        uint64_t slab);
/* Makes the values of a slab at `dst`.  raw: the bytes of its first chunk; no data: they are
 * read. */
int stk_hdf5_slab(const stk_hdf5_at *at, uint64_t slab, stk_bytes raw, uint8_t *dst,
                  stk_error *err);
int stk_hdf5_fill(const stk_hdf5_at *at, stk_bytes *out, stk_error *err);
int stk_hdf5_sequence(const stk_hdf5_at *at, uint64_t row, stk_h5_sequence *out, stk_error *err);
uint64_t stk_hdf5_slab_len(const stk_hdf5_at *at, uint64_t slab); /* rows that it has */
/* Converts values in place from the stored form (byte order, bits) to the form of rows. */
void stk_hdf5_turn(const stk_h5_type *t, uint8_t *bytes, uint64_t len);

#endif
