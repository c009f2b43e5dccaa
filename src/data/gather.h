/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - joins columns of a table to one field, for columns('x*') in a chain.  Kinds of data
 * that are tables call it for stk_data_ops.gather, and to make values.
 *
 * A data set has a list of joined fields, which only grows: entries are published by
 * compare-and-swap and freed with the data set.  Their numbers come after those of all columns, so
 * that lists of columns don't show them. */
#ifndef STOKER_GATHER_H
#define STOKER_GATHER_H

#include <stdatomic.h>

#include "data/data.h"
#include "kern/convert.h"

#define STK_GATHER_FIRST 32768u /* field number of the first joined field; columns are below */

typedef struct stk_gather_column {
    uint32_t field;
    stk_dtype dtype;
    stk_convert_fn convert; /* converts to the type of the joined field; NULL: it has that type */
} stk_gather_column;

typedef struct stk_gather { /* read-only once published */
    struct stk_gather *next;
    char *name;         /* its columns() as a chain would write it */
    uint32_t number, n; /* field number; columns */
    stk_gather_column *column;
    stk_dtype dtype;  /* type of all values */
    uint32_t size;    /* bytes of a value */
    uint8_t empty[8]; /* value that replaces a null: the default, or NaN */
    int strict;       /* true if nothing replaces a null: such a sample is bad */
    /* shard_columns.c: by schema, the field number of each column; NULL: not looked up yet */
    _Atomic(uint16_t *) *by_schema;
    uint32_t n_schemas;
} stk_gather;

typedef _Atomic(stk_gather *) stk_gathers;

/* Sets *out to the type of a column.  wild: the column is matched by a pattern, which skips columns
 * that are not numbers.  0: there are no more columns. */
typedef int (*stk_gather_type_fn)(const stk_dataset *d, uint32_t field, int wild,
                                  stk_field_type *out);

/* Implements stk_data_ops.gather.  type NULL: the types of the data set's type() are used. */
int stk_gather_add(stk_gathers *all, const stk_dataset *d, stk_gather_type_fn type,
                   const stk_gather_ask *ask, stk_field_type *out, stk_error *err);
const stk_gather *stk_gather_find(const stk_gathers *all, const char *name);  /* NULL: none */
const stk_gather *stk_gather_number(const stk_gathers *all, uint32_t number); /* NULL: none */
void stk_gather_type(const stk_gather *g, stk_field_type *out);
void stk_gathers_fini(stk_gathers *all);

/* Converts n values of column c and stores them at every g->n-th place from `dst` on.
 * STK_ECORRUPT: a value does not fit. */
int stk_gather_put(const stk_gather *g, uint32_t c, const uint8_t *src, uint64_t n, uint8_t *dst,
                   stk_error *err);
/* The error for a null in column c. */
int stk_gather_null(const stk_gather *g, const stk_dataset *d, uint32_t c, stk_error *err);

#endif
