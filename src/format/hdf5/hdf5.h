/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5.h - HDF5 files: which data sets a group has, where their bytes are, which chunks there are.
 *
 * Our own reader and not libhdf5: that one has a lock over everything, crashes on hostile files,
 * wants a local descriptor, and comes a second time into every process that imports h5py.  What is
 * read here is what data files have: superblocks 0 to 3, both kinds of object headers and of
 * groups, layouts 1 to 5, every index of chunks.  What is not read is refused with its reason.
 * Every address, size and count is checked before it is used.
 *
 * Addresses are offsets in the file: the user block is added as they are read. */
#ifndef STOKER_HDF5_H
#define STOKER_HDF5_H

#include "base/err.h"
#include "source/source.h"

#define STK_H5_RANK 8u
#define STK_H5_NOWHERE UINT64_MAX /* the address of what was never written */

typedef struct stk_h5_file {  /* what the superblock says */
    stk_file *file;           /* borrowed */
    uint64_t size, base;      /* bytes of the file; where the superblock is */
    uint64_t root;            /* object header of the root group */
    uint8_t offsets, lengths; /* bytes of an address and of a size */
} stk_h5_file;

/* STK_ECORRUPT: not an HDF5 file, or it is cut short. */
int stk_h5_file_init(stk_h5_file *out, stk_file *f, stk_error *err);

typedef enum stk_h5_kind {
    STK_H5_NUMBER = 1,
    STK_H5_TEXT,   /* of a fixed length; `pad` says how it is filled up */
    STK_H5_BYTES,  /* of a fixed length, as they are */
    STK_H5_VALUES, /* a sequence in the heap; dtype 0: bytes */
    STK_H5_STRUCT,
} stk_h5_kind;

typedef struct stk_h5_type {
    stk_h5_kind kind;
    uint32_t size;   /* bytes of an element as it is stored */
    stk_dtype dtype; /* of a number, or of a sequence's */
    int swap;        /* the other byte order */
    int unsigned64;  /* comes as i64, if it fits */
    /* of an integer that does not take all of its bits: how many, and above how many others; 0: it
     * does */
    uint32_t bits, shift;
    int pad;       /* texts: 0 ends at a null, 1 nulls at the end, 2 spaces */
    uint32_t ndim; /* of an array type */
    uint32_t dim[STK_H5_RANK];
    const char *refused; /* NULL: it is read */
} stk_h5_type;

typedef struct stk_h5_filter {
    uint16_t id;
    uint32_t n;
    const uint32_t *value; /* n: what the filter was told; in the set's `values` */
} stk_h5_filter;

enum {
    STK_H5_DEFLATE = 1,
    STK_H5_SHUFFLE = 2,
    STK_H5_FLETCHER = 3,
    STK_H5_SZIP = 4,
    STK_H5_NBIT = 5,
    STK_H5_SCALE = 6,
    STK_H5_LZF = 32000,
    STK_H5_BLOSC = 32001,
    STK_H5_LZ4 = 32004,
    STK_H5_BITSHUFFLE = 32008,
    STK_H5_ZSTD = 32015,
    STK_H5_BLOSC2 = 32026
};

typedef enum stk_h5_layout {
    STK_H5_COMPACT,
    STK_H5_CONTIGUOUS,
    STK_H5_CHUNKED,
    STK_H5_VIRTUAL
} stk_h5_layout;

enum { /* as layout 4 counts them, but for the first: a B-tree of version 1 */
       STK_H5_BY_TREE1,
       STK_H5_BY_SINGLE,
       STK_H5_BY_IMPLICIT,
       STK_H5_BY_FIXED, /* an array */
       STK_H5_BY_GROWING,
       STK_H5_BY_TREE,
};

typedef struct stk_h5_index { /* how the chunks of a data set are found */
    int kind;                 /* STK_H5_BY_TREE1, ... */
    uint64_t addr;
    uint64_t size;      /* of a single chunk that is filtered ... */
    uint32_t mask;      /* ... and the filters that it has not */
    uint32_t raw_edges; /* chunks past the edge are not filtered */
} stk_h5_index;

typedef struct stk_h5_select { /* boxes of the size `block`, `stride` apart, in every dimension */
    uint32_t rank;             /* 0: all of the data set */
    uint64_t start[STK_H5_RANK], stride[STK_H5_RANK], count[STK_H5_RANK], block[STK_H5_RANK];
} stk_h5_select;

/* a part of a virtual data set: the elements of `to` are those of `from`, in order */
typedef struct stk_h5_mapping {
    char *file, *set; /* ".": the same file */
    int none;         /* nothing is selected */
    stk_h5_select from, to;
} stk_h5_mapping;

typedef struct stk_h5_set { /* a data set, or one member of its struct */
    char *name;
    stk_h5_type type;
    uint32_t offset;  /* of the member in an element ... */
    uint32_t element; /* ... which has so many bytes */
    uint32_t rank;
    uint64_t dim[STK_H5_RANK], max[STK_H5_RANK]; /* max: UINT64_MAX: it may grow without bound */
    stk_h5_layout layout;
    uint64_t addr, size; /* contiguous: where; STK_H5_NOWHERE: all of it is the fill value */
    uint8_t *here;       /* compact: its bytes */
    uint32_t chunk[STK_H5_RANK];
    stk_h5_index index;
    uint32_t n_filters;
    stk_h5_filter filter[8];
    uint32_t *values;        /* of all filters */
    uint8_t *fill;           /* of an element; NULL: zeros */
    stk_h5_mapping *mapping; /* virtual */
    uint32_t n_mappings;
    const char *refused; /* NULL: it is read */
    char *reason;        /* `refused`, where it was made; or NULL */
} stk_h5_set;

typedef struct stk_h5_group {
    stk_h5_set *set;
    uint32_t n, cap;
    stk_names groups;   /* in it, for errors */
    stk_names external; /* links to other files, which are not followed */
    stk_names nowhere;  /* soft links that lead to nothing, or in a circle */
} stk_h5_group;

/* The data sets right in the group with this path ("/": the root).  *out starts with zeros; end
 * with fini. */
int stk_h5_group_read(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err);
void stk_h5_group_fini(stk_h5_group *g);
/* The data set with this path, which *out has then; none: something else is there.  STK_ENOTFOUND:
 * nothing is. */
int stk_h5_find(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err);
/* Does the selection fit into these dimensions?  Then "all" and boxes that touch become one box;
 * *total: its elements. */
int stk_h5_select_settle(stk_h5_select *s, uint32_t rank, const uint64_t *dim, uint64_t *total);
/* Element i of a selection that was settled: its number in the data set; *run: elements from it on
 * that follow each other. */
uint64_t stk_h5_select_at(const stk_h5_select *s, const uint64_t *dim, uint64_t i, uint64_t *run);
/* The same types and shapes, but for the number of rows? */
int stk_h5_same(const stk_h5_set *a, const stk_h5_set *b);

typedef struct stk_h5_chunk {
    uint64_t number; /* row-major among all chunks of the data set */
    uint64_t addr, size;
    uint32_t mask; /* bit i: filter i was left out */
} stk_h5_chunk;

typedef struct stk_h5_chunks { /* those that are there, sorted by number */
    stk_h5_chunk *chunk;
    uint64_t n, cap;
} stk_h5_chunks;

int stk_h5_chunks_read(stk_h5_chunks *out, stk_h5_file *f, const stk_h5_set *s, stk_error *err);
/* The first one of this number or a higher one; the end of the list: none was written. */
const stk_h5_chunk *stk_h5_chunk_from(const stk_h5_chunks *c, uint64_t number);
void stk_h5_chunks_fini(stk_h5_chunks *c);
uint64_t stk_h5_chunk_bytes(const stk_h5_set *s); /* of each, unpacked */

/* ---- sequences: an element is a length, the address of a collection and a number in it ---- */

typedef struct stk_h5_sequence {
    uint64_t addr;
    uint32_t len, number; /* elements; 0: there are no bytes */
} stk_h5_sequence;

stk_h5_sequence stk_h5_sequence_read(const stk_h5_file *f, const uint8_t *p);
/* bytes before the data of a collection's first object, at most */
#define STK_H5_COLLECTION_HEAD 32u
/* The object in a collection of which raw[0..len) is there.  STK_END: it begins or ends past raw;
 * *need: bytes that may do. */
int stk_h5_sequence_find(const stk_h5_file *f, stk_bytes raw, uint32_t number, stk_bytes *out,
                         uint64_t *need, stk_error *err);

#endif
