/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5.h - reads HDF5 files: which data sets a group has, where their bytes are, and which chunks
 * exist.  The kind of data for HDF5 calls it (table/hdf5_*.c).
 *
 * libhdf5 is not used: it has one lock over everything, crashes on hostile files, needs a local
 * descriptor, and would be loaded a second time into every process that imports h5py.  This reader
 * knows superblocks 0 to 3, both kinds of object headers and of groups, layouts 1 to 5, and every
 * index of chunks.  The rest is refused with a reason.  Every address, size and count is checked
 * before it is used.
 *
 * Addresses are offsets in the file: the user block is added when they are read. */
#ifndef STOKER_HDF5_H
#define STOKER_HDF5_H

#include "base/err.h"
#include "source/source.h"

#define STK_H5_RANK 8u
#define STK_H5_NOWHERE UINT64_MAX /* the address of data that was never written */

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
    STK_H5_TEXT,   /* text of a fixed length; `pad` says how it is filled up */
    STK_H5_BYTES,  /* bytes of a fixed length */
    STK_H5_VALUES, /* a sequence in the heap; dtype 0: bytes */
    STK_H5_STRUCT,
} stk_h5_kind;

typedef struct stk_h5_type {
    stk_h5_kind kind;
    uint32_t size;   /* bytes of an element as it is stored */
    stk_dtype dtype; /* type of a number, or of the numbers of a sequence */
    int swap;        /* true if its byte order is not that of this machine */
    int unsigned64;  /* u64, which is handed out as i64 if it fits */
    /* an integer that uses only some of its bits: how many, and the number of unused bits below; 0:
     * it uses all */
    uint32_t bits, shift;
    int pad;       /* texts: 0: end at a null; 1: filled up with nulls; 2: with spaces */
    uint32_t ndim; /* dimensions of an array type */
    uint32_t dim[STK_H5_RANK];
    const char *refused; /* NULL: it is read */
} stk_h5_type;

typedef struct stk_h5_filter {
    uint16_t id;
    uint32_t n;
    const uint32_t *value; /* n parameters of the filter, in the set's `values` */
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

enum { /* kinds of chunk indexes: the first is a B-tree of version 1, the others as in layout 4 */
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
    uint64_t size;      /* a single filtered chunk: its size */
    uint32_t mask;      /* a single filtered chunk: bits of the filters that were not applied */
    uint32_t raw_edges; /* true if chunks that reach past the edge are not filtered */
} stk_h5_index;

typedef struct stk_h5_select { /* a selection: in every dimension blocks, `stride` apart */
    uint32_t rank;             /* 0: the whole data set */
    uint64_t start[STK_H5_RANK], stride[STK_H5_RANK], count[STK_H5_RANK], block[STK_H5_RANK];
} stk_h5_select;

/* A part of a virtual data set: its elements `to` are the elements `from` of a source, in order. */
typedef struct stk_h5_mapping {
    char *file, *set; /* ".": the same file */
    int none;         /* nothing is selected */
    stk_h5_select from, to;
} stk_h5_mapping;

typedef struct stk_h5_set { /* a data set, or one member of its struct */
    char *name;
    stk_h5_type type;
    uint32_t offset;  /* offset of the member in an element */
    uint32_t element; /* bytes of an element */
    uint32_t rank;
    uint64_t dim[STK_H5_RANK], max[STK_H5_RANK]; /* max: UINT64_MAX: it may grow without bound */
    stk_h5_layout layout;
    uint64_t addr, size; /* contiguous: its range; STK_H5_NOWHERE: all values are the fill value */
    uint8_t *here;       /* compact: its bytes */
    uint32_t chunk[STK_H5_RANK];
    stk_h5_index index;
    uint32_t n_filters;
    stk_h5_filter filter[8];
    uint32_t *values;        /* parameters of all filters */
    uint8_t *fill;           /* fill value of an element; NULL: zeros */
    stk_h5_mapping *mapping; /* virtual: its parts */
    uint32_t n_mappings;
    const char *refused; /* why it can't be read; NULL: it can */
    char *reason;        /* memory of `refused`; NULL: that is static text */
} stk_h5_set;

typedef struct stk_h5_group {
    stk_h5_set *set;
    uint32_t n, cap;
    stk_names groups;   /* groups in it, for errors */
    stk_names external; /* links to other files, which are not followed */
    stk_names nowhere;  /* soft links to nothing, or to themselves */
} stk_h5_group;

/* Reads the data sets in the group with this path ("/": the root), not those of groups below.  *out
 * starts as zeros; end with fini. */
int stk_h5_group_read(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err);
void stk_h5_group_fini(stk_h5_group *g);
/* Adds the data set with this path to *out; adds nothing if the path is something else.
 * STK_ENOTFOUND: the path does not exist. */
int stk_h5_find(stk_h5_group *out, stk_h5_file *f, const char *path, stk_error *err);
/* 1: the selection fits into these dimensions.  "All", and blocks that touch, then become one
 * block; *total is set to its elements. */
int stk_h5_select_settle(stk_h5_select *s, uint32_t rank, const uint64_t *dim, uint64_t *total);
/* The number in the data set of element i of a settled selection.  Sets *run to how many elements
 * from it on follow each other. */
uint64_t stk_h5_select_at(const stk_h5_select *s, const uint64_t *dim, uint64_t i, uint64_t *run);
/* 1: the data sets have the same type and shape, except for the number of rows. */
int stk_h5_same(const stk_h5_set *a, const stk_h5_set *b);

typedef struct stk_h5_chunk {
    uint64_t number; /* row-major among all chunks of the data set */
    uint64_t addr, size;
    uint32_t mask; /* bit i: filter i was not applied */
} stk_h5_chunk;

typedef struct stk_h5_chunks { /* the chunks that were written, sorted by number */
    stk_h5_chunk *chunk;
    uint64_t n, cap;
} stk_h5_chunks;

int stk_h5_chunks_read(stk_h5_chunks *out, stk_h5_file *f, const stk_h5_set *s, stk_error *err);
/* The first chunk with this number or a higher one; the end of the list: there is none. */
const stk_h5_chunk *stk_h5_chunk_from(const stk_h5_chunks *c, uint64_t number);
void stk_h5_chunks_fini(stk_h5_chunks *c);
uint64_t stk_h5_chunk_bytes(const stk_h5_set *s); /* bytes of a chunk, unpacked */

/* ---- sequences: an element is a length, the address of a collection and a number in it ---- */

typedef struct stk_h5_sequence {
    uint64_t addr;
    uint32_t len, number; /* number of elements, 0: it is empty; number in the collection */
} stk_h5_sequence;

stk_h5_sequence stk_h5_sequence_read(const stk_h5_file *f, const uint8_t *p);
/* most bytes before the data of a collection's first object */
#define STK_H5_COLLECTION_HEAD 32u
/* Finds an object in the beginning `raw` of a collection.  STK_END: it begins or ends after that;
 * *need is set to a number of bytes that may be enough. */
int stk_h5_sequence_find(const stk_h5_file *f, stk_bytes raw, uint32_t number, stk_bytes *out,
                         uint64_t *need, stk_error *err);

#endif
