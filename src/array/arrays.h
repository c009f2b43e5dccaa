/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - data sets whose samples are rows of arrays: no index entry, no request, no read.
 *
 * An array is a list of parts (files, or memory) that follow each other along the first axis; a
 * data set has one or several arrays of equal length.  Files are mapped at first touch and their
 * pages are brought in ahead of the first access (MADV_POPULATE_READ), so that a file that became
 * shorter is an error.  Data sets that are larger than half of the memory are read instead,
 * row by row: nothing of them stays mapped, and what the page cache keeps is the kernel's
 * affair. */
#ifndef STOKER_FETCH_ARRAYS_H
#define STOKER_FETCH_ARRAYS_H

#include <stdatomic.h>

#include "data/data.h"
#include "format/megatron.h"
#include "source/source.h"

#define STK_MAX_ARRAYS 256
#define STK_ROW_DIMS (STK_MAX_DIMS - 1) /* a batch adds one */
#define STK_LLMC_U16 20240520           /* first words of llm.c's token files */
#define STK_LLMC_U32 20240801

typedef struct stk_map stk_map;

typedef struct stk_piece {
    char *name;          /* of the file, absolute; NULL: memory */
    uint64_t offset;     /* of its first row in the file */
    uint64_t size;       /* of the file when the data set was opened */
    uint64_t head;       /* 0: none; else the first 8 bytes, after which i32 its rows are counted */
    const uint8_t *data; /* memory; NULL: a file */
    void *owned;         /* of it: freed with the data set */
    _Atomic(stk_map *) map; /* made at first touch */
    stk_megatron *docs;     /* documents; NULL: not known */
    stk_map *docs_map;      /* what they are in */
    const stk_store *store; /* how it is opened; NULL: as usual */
} stk_piece;

typedef struct stk_array {
    const struct stk_arrays *set;
    char *name; /* the field's */
    stk_dtype dtype;
    uint32_t ndim; /* of a row */
    int64_t shape[STK_ROW_DIMS];
    size_t row_bytes;
    size_t pitch; /* bytes from a row to the next */
    uint64_t rows;
    int bare; /* tokens that are taken for headerless: a shard of another kind is refused */
    uint32_t n_parts;
    stk_piece *part;
    uint64_t *first; /* n_parts + 1: number of each part's first row */
} stk_array;

typedef struct stk_arrays { /* Thread: any, once opened. */
    stk_dataset base;
    const char *kind; /* "tokens", "npy", "npz", "raw", "memory": a static word */
    uint32_t n;
    stk_array *array;
    uint64_t rows;  /* of each; 0 where they differ */
    uint64_t bytes; /* of all files */
    int mapped;     /* else files are read */
    uint32_t files; /* in all */
} stk_arrays;

void stk_arrays_init(stk_arrays *a); /* the base of a zeroed one */
void stk_arrays_close(stk_arrays **a);

typedef struct stk_span { /* rows that are stored together */
    const uint8_t *data;
    uint64_t rows;
} stk_span;

/* Up to `want` rows from row `row` on, which is below array->rows: as many as are in one part.
 * `into` has room for them and is used where they must be read; else they stay where they are. */
int stk_array_span(const stk_array *a, uint64_t row, uint64_t want, void *into, stk_span *out,
                   stk_error *err);

/* Copies up to `want` rows to `into`, as many (*rows) as are in one part.  Files are read also
 * where they are mapped, so that one that becomes shorter is an error and never a signal: for all
 * who are not in a hurry. */
int stk_array_read(const stk_array *a, uint64_t row, uint64_t want, void *into, uint64_t *rows,
                   stk_error *err);

/* STK_ESTALE: a file of it that was touched was written to or replaced since. */
int stk_array_unchanged(const stk_array *a, stk_error *err);

/* Say that rows will be wanted soon: starts reads where files are read. */
void stk_array_expect(const stk_array *a, uint64_t row, uint64_t rows);

/* Where rows are, as many as are in one part with the first; no data: they are read, or were not
 * mapped yet.  For prefetching only: no one has looked whether the pages are there. */
stk_bytes stk_array_peek(const stk_array *a, uint64_t row, uint64_t rows);

/* Is there an x.idx beside x.bin?  Also one that is damaged or no Megatron index: passed over, the
 * .bin would be read as another type. */
int stk_has_idx(const stk_piece *p);

/* After bytes of a span were copied, if they are many: was the file cut meanwhile?  Past its end a
 * map has zeros up to the end of the page, without a signal. */
#define STK_MANY_BYTES ((size_t)64 << 10) /* a look at the file costs nothing beside their copy */
int stk_array_copied_many(const stk_array *a, uint64_t row, stk_error *err);
static inline int stk_array_copied(const stk_array *a, uint64_t row, uint64_t bytes, stk_error *err)
{
    return bytes < STK_MANY_BYTES ? 0 : stk_array_copied_many(a, row, err);
}

/* Which part a row is in. */
uint32_t stk_array_part(const stk_array *a, uint64_t row);

/* Read a part's file outside of its map, for fingerprints: bytes from `offset` of its rows on. */
int stk_piece_read(const stk_piece *p, uint64_t offset, void *dst, size_t len, stk_error *err);

/* A whole file, read into memory; out of it `bytes`. */
int stk_map_file(const char *name, const stk_store *store, stk_map **out, stk_bytes *bytes,
                 stk_error *err);
void stk_map_close(stk_map **m);

#endif
