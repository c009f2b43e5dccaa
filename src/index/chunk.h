/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.h - one typed column of one shard: for each sample a value or null, stored compactly.
 * Indexing makes chunks; stk_dataset_column() and conditions read them (column/).
 *
 * Integers are stored as distances from the smallest one, in as few bytes as hold them; texts as
 * numbers of a dictionary.  A chunk does not depend on other shards, so it is copied when the list
 * of shards grows.  The type of a column is the greatest type of its chunks. */
#ifndef STOKER_INDEX_CHUNK_H
#define STOKER_INDEX_CHUNK_H

#include "base/err.h"

typedef enum stk_chunk_type {                    /* the greatest of several is their common type */
                              STK_CHUNK_UNKNOWN, /* the shard was not read for it */
                              STK_CHUNK_NULL,    /* no sample has a value */
                              STK_CHUNK_I64,
                              STK_CHUNK_F64,
                              STK_CHUNK_TEXT
} stk_chunk_type;

typedef struct idx_chunk { /* on disk */
    uint64_t at;           /* offset from the start of the segments */
    int64_t base;          /* I64: smallest value, from which all are counted */
    uint32_t nulls;        /* number of nulls; 0: there are no bits of validity */
    uint32_t entries;      /* TEXT: entries of the dictionary */
    uint32_t text;         /* TEXT: bytes of all entries */
    uint8_t type;          /* stk_chunk_type */
    uint8_t width;         /* bytes of a value, or of an entry's number; 0: all values are equal */
    uint16_t zero;
} idx_chunk;

_Static_assert(sizeof(idx_chunk) == 32, "on disk");

typedef struct stk_chunk { /* All zeros: no chunk.  Thread: any, once made. */
    idx_chunk rec;
    uint64_t rows;
    const uint8_t *data; /* values, validity, offsets of the dictionary's entries, their text */
    uint8_t *owned;      /* `data`, if the chunk frees it; else NULL */
} stk_chunk;

/* Bytes of a chunk; UINT64_MAX: its type can't have such a width. */
uint64_t idx_chunk_bytes(const idx_chunk *c, uint64_t rows);
/* 1: everything that values point to is in the chunk.  Call it before values are read. */
int stk_chunk_sound(const stk_chunk *c);
void stk_chunk_fini(stk_chunk *c);

int stk_chunk_valid(const stk_chunk *c, uint64_t row); /* 1: the row is not null */
/* The values of rows [row, row + n); null is 0 or NaN.  i64: for I64 and NULL chunks; f64: for F64,
 * too. */
void stk_chunk_i64(const stk_chunk *c, uint64_t row, uint64_t n, int64_t *out);
void stk_chunk_f64(const stk_chunk *c, uint64_t row, uint64_t n, double *out);
stk_bytes stk_chunk_text(const stk_chunk *c, uint64_t row); /* for TEXT chunks; null: data NULL */

int stk_chunk_utf8(const stk_chunk *c); /* 1: every text is UTF-8 */

/* ---- making one ---- */

typedef enum stk_value_kind {
    STK_VALUE_NULL,
    STK_VALUE_BARE,   /* text that is a number if it reads as one */
    STK_VALUE_QUOTED, /* text that is never a number */
    /* The bytes of a double, or of an int64_t, of a field with a type.  In a shard, either all
     * values are of this kind or null, or none is. */
    STK_VALUE_REAL,
    STK_VALUE_WHOLE
} stk_value_kind;

typedef struct stk_values { /* collects values, one per row.  Init with zeros.  Thread: one. */
    uint8_t *text;
    size_t n_text, text_cap;
    uint32_t *end; /* by row: end of its value in `text` */
    size_t end_cap;
    uint8_t *kind;
    size_t kind_cap;
    uint64_t rows, nulls;
} stk_values;

int stk_values_add(stk_values *s, stk_value_kind kind, stk_bytes value, stk_error *err);
/* Adds n values of kind REAL or WHOLE, 8 bytes each. */
int stk_values_add_numbers(stk_values *s, stk_value_kind kind, const void *numbers, uint64_t n,
                           stk_error *err);
/* Makes a chunk: I64 if all values are integers, F64 if all are numbers, else TEXT.  *out owns its
 * bytes. */
int stk_values_chunk(const stk_values *s, stk_chunk *out, stk_error *err);
void stk_values_fini(stk_values *s);

/* The chunk of `rows` equal integers; needs no memory. */
stk_chunk stk_chunk_constant(uint64_t rows, int64_t value);
/* Turns a chunk of numbers into one of text, for a column that is text because of other shards. */
int stk_chunk_to_text(const stk_chunk *c, stk_chunk *out, stk_error *err);

#endif
