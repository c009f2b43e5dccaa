/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - data sets whose samples are rows of arrays: they need no index entry and no request.
 * The kind of data `arrays` is made of it; rows (row/row_array.c), tables of arrays and the upload
 * to a GPU call it.
 *
 * An array is a list of parts (files, or memory) that follow each other along the first axis.  A
 * data set has one or several arrays of equal length.  Files are mapped at first use, and pages are
 * loaded before they are accessed (MADV_POPULATE_READ), so that a file that became shorter is an
 * error.  Data sets larger than half of the memory are not mapped but read, row by row. */
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

typedef struct stk_piece { /* a part of an array: a file, or memory */
    char *name;            /* absolute name of the file; NULL: memory */
    uint64_t offset;       /* offset of its first row in the file */
    uint64_t size;         /* size of the file when the data set was opened */
    /* first 8 bytes of the file, if the number of rows (i32) comes after them; 0: it does not */
    uint64_t head;
    const uint8_t *data;    /* the memory; NULL: a file */
    void *owned;            /* memory that is freed with the data set */
    _Atomic(stk_map *) map; /* map of the file, made at first use */
    stk_megatron *docs;     /* its documents; NULL: not known */
    stk_map *docs_map;      /* file that `docs` points into */
    const stk_store *store; /* settings to open it with; NULL: the usual ones */
} stk_piece;

typedef struct stk_array {
    const struct stk_arrays *set;
    char *name; /* name of the field */
    stk_dtype dtype;
    uint32_t ndim; /* dimensions of a row */
    int64_t shape[STK_ROW_DIMS];
    size_t row_bytes;
    size_t pitch; /* bytes from a row to the next */
    uint64_t rows;
    int bare; /* true if files are assumed to be tokens without a header; others are refused */
    uint32_t n_parts;
    stk_piece *part;
    uint64_t *first; /* n_parts + 1: number of each part's first row */
} stk_array;

typedef struct stk_arrays { /* Thread: any, once opened. */
    stk_dataset base;
    const char *kind; /* "tokens", "npy", "npz", "raw", "memory": a static word */
    uint32_t n;
    stk_array *array;
    uint64_t rows;  /* rows of each array; 0: they differ */
    uint64_t bytes; /* bytes of all files */
    int mapped;     /* true if files are mapped; otherwise they are read */
    uint32_t files; /* number of files */
} stk_arrays;

void stk_arrays_init(stk_arrays *a); /* sets up the common part of a zeroed *a */
void stk_arrays_close(stk_arrays **a);

typedef struct stk_span { /* rows that are stored together */
    const uint8_t *data;
    uint64_t rows;
} stk_span;

/* Sets *out to up to `want` rows from row `row` on, as many as are in one part; row is below
 * array->rows.  `into` has room for them: it is used if they have to be read, else *out points to
 * the mapped file. */
int stk_array_span(const stk_array *a, uint64_t row, uint64_t want, void *into, stk_span *out,
                   stk_error *err);

/* Copies up to `want` rows to `into`, as many (*rows) as are in one part.  It reads even mapped
 * files, so a file that became shorter is an error and never a signal.  Slower than
 * stk_array_span(). */
int stk_array_read(const stk_array *a, uint64_t row, uint64_t want, void *into, uint64_t *rows,
                   stk_error *err);

/* STK_ESTALE: a file of the array was written to or replaced since it was first used. */
int stk_array_unchanged(const stk_array *a, stk_error *err);

/* Call when rows will be needed soon: starts reading them if files are read. */
void stk_array_expect(const stk_array *a, uint64_t row, uint64_t rows);

/* Where mapped rows are, as many as are in one part with the first.  No data: files are read, or
 * the file is not mapped yet.  For prefetching only: the pages may not be in memory. */
stk_bytes stk_array_peek(const stk_array *a, uint64_t row, uint64_t rows);

/* 1: there is an x.idx beside x.bin, even if it is damaged or no Megatron index.  Without it, the
 * .bin would be read as another type. */
int stk_has_idx(const stk_piece *p);

/* Call after bytes of a span were copied.  STK_ESTALE: there are many of them and the file was cut
 * meanwhile, so some may be zeros: past its end, a map has zeros up to the end of the page. */
#define STK_MANY_BYTES ((size_t)64 << 10) /* a look at the file costs nothing beside their copy */
int stk_array_copied_many(const stk_array *a, uint64_t row, stk_error *err);
static inline int stk_array_copied(const stk_array *a, uint64_t row, uint64_t bytes, stk_error *err)
{
    return bytes < STK_MANY_BYTES ? 0 : stk_array_copied_many(a, row, err);
}

/* The part that a row is in. */
uint32_t stk_array_part(const stk_array *a, uint64_t row);

/* Reads bytes of a part's rows, from `offset` on, from its file and not from its map.  For
 * fingerprints. */
int stk_piece_read(const stk_piece *p, uint64_t offset, void *dst, size_t len, stk_error *err);

/* Reads a whole file into memory and sets *bytes to it. */
int stk_map_file(const char *name, const stk_store *store, stk_map **out, stk_bytes *bytes,
                 stk_error *err);
void stk_map_close(stk_map **m);

#endif
