/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_data.h - HDF5 files as a kind of data: the data sets of a group that have the same number of
 * rows are fields, row i is sample i.
 *
 * Large rows that are stored as they are, are ranges of the file.  All others are in slabs: the
 * rows of a chunk (with all chunks beside it, where chunks split rows), or as many small rows as
 * make a block worth reading.  A slab is unpacked once, by a worker, and kept in the block cache.
 * Sequences and texts of any length are in the file's heap: where, is read for some thousand rows
 * at a time. */
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
    uint64_t row_bytes, value_bytes; /* of a row as it is stored; of the value that it has */
    uint64_t slab_rows;
    uint32_t across;                 /* chunks that a slab has */
    int direct;                      /* a value is a range of the file */
    _Atomic(stk_h5_chunks *) chunks; /* read at first touch */
    _Atomic(uint8_t *) fill;         /* a value of fill, made at first use */
    /* sequences: where they are, in parts that are read at first touch */
    _Atomic(stk_h5_sequence *) *sequences;
    uint64_t part_rows, n_parts;     /* rows of a part; parts */
    uint8_t *here;                   /* compact: all values */
    const stk_hdf5_virtual *virtual; /* of a virtual data set: what it is made of */
} stk_hdf5_column;

typedef struct stk_hdf5_shard {
    char *group;
    stk_h5_file head; /* without the file */
    stk_h5_group sets;
    stk_hdf5_column *column;   /* by field, of those that are read */
    stk_hdf5_virtual *virtual; /* of the virtual ones among the data sets */
    uint32_t n_virtual;
    /* the whole file, from the first large row on; NULL: not yet, or it can't be */
    _Atomic(stk_guarded *) map;
} stk_hdf5_shard;

typedef struct stk_hdf5 { /* Thread: any, once opened. */
    /* columns are the fields of the first file; those that are not read come last */
    stk_table base;
    stk_hdf5_shard *shard;
} stk_hdf5;

extern const stk_data_ops stk_hdf5_ops;

/* hdf5_map.c: the bytes of this range, where they are in memory; else the place stays a range. */
struct stk_hdf5_at;
void stk_hdf5_mapped(const struct stk_hdf5_at *at, stk_place *place);
void stk_hdf5_unmap(const stk_hdf5 *h, uint64_t shard);
int stk_hdf5_unchanged(const stk_dataset *d, stk_error *err); /* stk_data_ops.unchanged */

#define STK_HDF5_SLAB_BITS 40 /* slabs of a column; the rest of a block's number is the field */

/* hdf5_gather.c: columns taken together. */
void stk_hdf5_gather_locate(const stk_hdf5 *h, const stk_gather *g, const stk_entry *e,
                            stk_place *out);
int stk_hdf5_gather_unpack(const stk_hdf5 *h, stk_unpack_job *job, stk_error *err);
int stk_hdf5_gather_pick(const stk_gather *g, const stk_place *at, stk_bytes *bytes,
                         stk_error *err);

/* hdf5_virtual.c: the bytes of the files that it names, each once; NULL: 0. */
uint64_t stk_hdf5_virtual_bytes(const stk_hdf5_virtual *v);
/* The sources of a file's virtual data sets; one that cannot be read so is refused. */
int stk_hdf5_virtual_open(stk_hdf5 *h, uint64_t shard, stk_error *err);
/* after stk_hdf5_column_init() */
void stk_hdf5_virtual_init(stk_hdf5_column *c, const stk_hdf5_shard *s);
void stk_hdf5_virtual_fini(stk_hdf5_shard *s);
void stk_hdf5_virtual_print(const stk_hdf5_shard *s, stk_fingerprint *out);
/* Values of rows [first, first + n) where a source has them; dst has the fill value. */
int stk_hdf5_virtual_rows(const stk_hdf5_column *c, uint64_t first, uint64_t n, uint8_t *dst,
                          stk_error *err);

/* hdf5_data.c: are all of these below 2^63? */
int stk_hdf5_unsigned(const uint8_t *p, size_t len, stk_error *err);

/* hdf5_rows.c */
typedef struct stk_hdf5_at { /* a column of a file */
    const stk_hdf5 *h;
    uint64_t shard;
    stk_hdf5_column *c;
} stk_hdf5_at;

/* How the rows of a set are found; what does not fit is refused: NULL, or why. */
const char *stk_hdf5_column_init(stk_hdf5_column *c, const stk_h5_set *s);
void stk_hdf5_column_fini(stk_hdf5_column *c);
/* STK_ECORRUPT: it claims far more than a file of `size` bytes, and what it names, can have. */
int stk_hdf5_claim(const stk_hdf5_column *c, uint64_t size, stk_error *err);
int stk_hdf5_chunks(const stk_hdf5_at *at, const stk_h5_chunks **out, stk_error *err);
/* The first chunk of the slab that is in the file; NULL: none is. */
const stk_h5_chunk *stk_hdf5_slab_first(const stk_hdf5_column *c, const stk_h5_chunks *all,
                                        uint64_t slab);
/* The values of a slab.  raw: what is at the place of its first chunk; no data: it is read. */
int stk_hdf5_slab(const stk_hdf5_at *at, uint64_t slab, stk_bytes raw, uint8_t *dst,
                  stk_error *err);
int stk_hdf5_fill(const stk_hdf5_at *at, stk_bytes *out, stk_error *err);
int stk_hdf5_sequence(const stk_hdf5_at *at, uint64_t row, stk_h5_sequence *out, stk_error *err);
uint64_t stk_hdf5_slab_len(const stk_hdf5_at *at, uint64_t slab); /* rows that it has */
/* Values as they are stored -> as they are handed out, in place. */
void stk_hdf5_turn(const stk_h5_type *t, uint8_t *bytes, uint64_t len);

#endif
