/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - columns of a table taken together as one field: columns('x*') in a chain.
 *
 * A data set keeps a list of what was asked for, which only gets longer: entries are published by
 * compare-and-swap and freed with it.  Their numbers come after all columns', so that a list of
 * the columns does not show them. */
#ifndef STOKER_GATHER_H
#define STOKER_GATHER_H

#include <stdatomic.h>

#include "data/data.h"
#include "kern/convert.h"

#define STK_GATHER_FIRST 32768u /* number of the first as a field; columns are below */

typedef struct stk_gather_column {
    uint32_t field;
    stk_dtype dtype;
    stk_convert_fn convert; /* to the type of all; NULL: it has that */
} stk_gather_column;

typedef struct stk_gather { /* read-only once published */
    struct stk_gather *next;
    char *name; /* as a chain would write it */
    uint32_t number, n;
    stk_gather_column *column;
    stk_dtype dtype;  /* of every value */
    uint32_t size;    /* bytes of one */
    uint8_t empty[8]; /* what stands for a null: the default, or NaN ... */
    int strict;       /* ... or nothing does: the sample is bad */
    /* shard_columns.c: column c is the sample's field so and so; NULL: not asked yet */
    _Atomic(uint16_t *) *by_schema;
    uint32_t n_schemas;
} stk_gather;

typedef _Atomic(stk_gather *) stk_gathers;

/* The type of a column that may be taken, of which a pattern (`wild`) passes over those that are
 * not numbers.  0: past the last. */
typedef int (*stk_gather_type_fn)(const stk_dataset *d, uint32_t field, int wild,
                                  stk_field_type *out);

/* For stk_data_ops.gather.  type NULL: the data set's own types count. */
int stk_gather_add(stk_gathers *all, const stk_dataset *d, stk_gather_type_fn type,
                   const stk_gather_ask *ask, stk_field_type *out, stk_error *err);
const stk_gather *stk_gather_find(const stk_gathers *all, const char *name);  /* NULL: none */
const stk_gather *stk_gather_number(const stk_gathers *all, uint32_t number); /* NULL: none */
void stk_gather_type(const stk_gather *g, stk_field_type *out);
void stk_gathers_fini(stk_gathers *all);

/* n values of column c -> every g->n-th place from `dst` on.  STK_ECORRUPT: one does not fit. */
int stk_gather_put(const stk_gather *g, uint32_t c, const uint8_t *src, uint64_t n, uint8_t *dst,
                   stk_error *err);
/* The null of column c in row `row` of the table. */
int stk_gather_null(const stk_gather *g, const stk_dataset *d, uint32_t c, stk_error *err);

#endif
