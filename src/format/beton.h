/* SPDX-License-Identifier: Apache-2.0 */
/* beton.h - reads FFCV's files (.beton, version 2): fields, rows, and where their bytes are.  The
 * kind of data for them calls it (table/beton_data.c).
 *
 * A file is: header of 24 bytes | 1041 bytes a field: u8 type, 16 of its name, 1024 of arguments |
 * a row for each sample | pages with what rows point to | a table of all that is in pages: u64
 * sample, u64 offset, u64 bytes.  A row is laid out as NumPy does it with align=True: numbers and
 * pointers at multiples of 8, structs anywhere. */
#ifndef STOKER_BETON_H
#define STOKER_BETON_H

#include "base/err.h"

#define STK_BETON_HEAD 24u
#define STK_BETON_FIELD 1041u
#define STK_BETON_ALLOC 24u

typedef enum stk_beton_type {
    STK_BETON_FLOAT,
    STK_BETON_INT,
    STK_BETON_RGB,
    STK_BETON_BYTES,
    STK_BETON_ARRAY,
    STK_BETON_JSON,
    STK_BETON_TENSOR
} stk_beton_type;

typedef struct stk_beton_field {
    char name[17];
    stk_beton_type type;
    uint32_t at;     /* offset in a row */
    stk_dtype dtype; /* 0: bytes */
    uint32_t ndim;
    int64_t shape[7];
    uint64_t bytes;      /* bytes of an array */
    const char *refused; /* why it can't be read; NULL: it can */
} stk_beton_field;

typedef struct stk_beton { /* end with fini */
    stk_beton_field *field;
    uint32_t n;
    uint32_t row_bytes;
    uint64_t samples, rows_at;
    uint64_t table_at, n_table; /* offset of the table at the end, and its entries */
} stk_beton;

typedef struct stk_beton_value {
    stk_bytes here;         /* a number, in the row; data NULL: the value is in the pages */
    uint64_t offset, len;   /* range of the file; len UINT64_MAX: the table at the end has it */
    uint32_t width, height; /* size of a picture without compression; 0: it is none */
} stk_beton_value;

/* Sets *n to the number of fields by the first 24 bytes. */
int stk_beton_fields(stk_bytes head, uint32_t *n, stk_error *err);
/* Reads the header and all fields from `head`; size: that of the file. */
int stk_beton_read(stk_beton *out, stk_bytes head, uint64_t size, stk_error *err);
void stk_beton_fini(stk_beton *b);
/* Sets *out to what a row says about a field; ranges are not checked against the file's size. */
int stk_beton_value_of(const stk_beton_field *f, const uint8_t *row, stk_beton_value *out,
                       stk_error *err);

#endif
