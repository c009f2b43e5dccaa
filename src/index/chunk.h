/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.h - one typed column of one shard: a value or null a sample, packed.
 *
 * Integers are kept as distances from the least one, in as few bytes as hold them; texts as
 * numbers of a dictionary.  A chunk knows nothing of other shards, so that it is carried over
 * when the list grows; what the type of the whole column is, all chunks together say. */
#ifndef STOKER_INDEX_CHUNK_H
#define STOKER_INDEX_CHUNK_H

#include "base/err.h"

typedef enum stk_chunk_type {                    /* of several together: the greatest */
                              STK_CHUNK_UNKNOWN, /* no one has looked yet */
                              STK_CHUNK_NULL,    /* no sample has a value */
                              STK_CHUNK_I64,
                              STK_CHUNK_F64,
                              STK_CHUNK_TEXT
} stk_chunk_type;

typedef struct idx_chunk { /* on disk */
    uint64_t at;           /* from the start of the segments */
    int64_t base;          /* I64: what every value is counted from */
    uint32_t nulls;        /* 0: there are no bits of validity */
    uint32_t entries;      /* TEXT: of the dictionary */
    uint32_t text;         /* TEXT: its bytes */
    uint8_t type;          /* stk_chunk_type */
    uint8_t width; /* bytes of a value, or of a number of the dictionary; 0: all are equal */
    uint16_t zero;
} idx_chunk;

_Static_assert(sizeof(idx_chunk) == 32, "on disk");

typedef struct stk_chunk { /* zeros: nothing.  Thread: any, once made. */
    idx_chunk rec;
    uint64_t rows;
    const uint8_t *data; /* values, validity, offsets of the dictionary, its text */
    uint8_t *owned;      /* data, where it is the chunk's own */
} stk_chunk;

/* Bytes of a chunk; UINT64_MAX: type and width don't go together. */
uint64_t idx_chunk_bytes(const idx_chunk *c, uint64_t rows);
/* Is everything that values point to there?  Asked once, before any value. */
int stk_chunk_sound(const stk_chunk *c);
void stk_chunk_fini(stk_chunk *c);

int stk_chunk_valid(const stk_chunk *c, uint64_t row); /* has it a value? */
/* Rows [row, row + n).  Null is 0 or NaN.  i64: of an I64 or NULL chunk; f64: also of F64. */
void stk_chunk_i64(const stk_chunk *c, uint64_t row, uint64_t n, int64_t *out);
void stk_chunk_f64(const stk_chunk *c, uint64_t row, uint64_t n, double *out);
stk_bytes stk_chunk_text(const stk_chunk *c, uint64_t row); /* of a TEXT chunk; null: data NULL */

int stk_chunk_utf8(const stk_chunk *c); /* is every text UTF-8? */

/* ---- making one ---- */

typedef enum stk_value_kind {
    STK_VALUE_NULL,
    STK_VALUE_BARE,   /* a number where it reads as one */
    STK_VALUE_QUOTED, /* a text, whatever it reads as */
    /* of a field with a type: the bytes of a double, or of an int64_t.  All values of a shard are
     * of this kind or null, or none is */
    STK_VALUE_REAL,
    STK_VALUE_WHOLE
} stk_value_kind;

typedef struct stk_values { /* values as text, a row each.  Init with zeros.  Thread: one. */
    uint8_t *text;
    size_t n_text, text_cap;
    uint32_t *end; /* in text, after each row */
    size_t end_cap;
    uint8_t *kind;
    size_t kind_cap;
    uint64_t rows, nulls;
} stk_values;

int stk_values_add(stk_values *s, stk_value_kind kind, stk_bytes value, stk_error *err);
/* n of REAL or WHOLE at once, 8 bytes each. */
int stk_values_add_numbers(stk_values *s, stk_value_kind kind, const void *numbers, uint64_t n,
                           stk_error *err);
/* All are bare integers: I64; all are numbers: F64; else TEXT.  *out owns its bytes. */
int stk_values_chunk(const stk_values *s, stk_chunk *out, stk_error *err);
void stk_values_fini(stk_values *s);

/* The chunk of `rows` equal integers; needs no memory. */
stk_chunk stk_chunk_constant(uint64_t rows, int64_t value);
/* Numbers as text, for a column that other shards make one of text. */
int stk_chunk_to_text(const stk_chunk *c, stk_chunk *out, stk_error *err);

#endif
