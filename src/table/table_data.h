/* SPDX-License-Identifier: Apache-2.0 */
/* table_data.h - what all kinds of tables share: files whose rows follow each other, and columns
 * with types.  The kinds of data in this folder use it.
 *
 * A kind of table has a stk_table as its first member and fills it in while it opens: names, then
 * files and their rows, then columns.  Most of its stk_data_ops is then STK_TABLE_OPS, and it
 * implements only what differs: fingerprint(), locate(), unpack(), pick(), close(). */
#ifndef STOKER_TABLE_DATA_H
#define STOKER_TABLE_DATA_H

#include <stdatomic.h>

#include "data/data.h"
#include "data/gather.h"

typedef struct stk_table_file {
    uint64_t first, rows;     /* samples [first, first + rows) */
    uint64_t size;            /* bytes */
    int64_t mtime_ns;         /* 0: not compared */
    char etag[64];            /* "": not compared */
    uint64_t id;              /* 0: not compared */
    uint64_t print;           /* fingerprint of its content; 0: none */
    _Atomic(stk_file *) file; /* opened at first use, and open until the table is closed */
} stk_table_file;

typedef struct stk_table { /* Thread: any, once opened. */
    stk_dataset data;
    stk_names names;      /* absolute names of its files */
    stk_table_file *file; /* names.n entries */
    uint64_t rows;        /* rows of all files */
    uint32_t n_columns;
    uint32_t n_readable;    /* columns that can be read come first */
    stk_field_type *column; /* the kind owns the names */
    stk_gathers gathers;
    const char *list; /* the file that gives the sizes of the others; NULL: they were measured */
} stk_table;

/* ---- opening and closing ---- */

void stk_table_init(stk_table *t, const stk_data_ops *ops, uint32_t can,
                    const stk_dataset_options *o);
/* Sets up n files, as many as there are names; their rows come next. */
int stk_table_files(stk_table *t, uint64_t n, stk_error *err);
/* Sets the rows of file i; call for all files in order. */
int stk_table_rows(stk_table *t, uint64_t i, uint64_t rows, stk_error *err);
/* Sets up n columns; the caller then fills in their types. */
int stk_table_columns(stk_table *t, uint32_t n, uint32_t readable, stk_error *err);
/* Call for a column of decimals: it gets a second field with their text (stk_table_find()), unless
 * there are too many fields. */
void stk_table_decimal(stk_table *t, uint32_t i);
/* Ends an open(): sets *out if rc is 0, else closes the table.  Returns rc. */
int stk_table_opened(stk_table *t, int rc, stk_dataset **out);
/* Frees everything but the memory of *t. */
void stk_table_fini(stk_table *t);

/* ---- stk_data_ops ---- */

uint64_t stk_table_len(const stk_dataset *d);
const char *stk_table_kind(const stk_dataset *d);
uint64_t stk_table_shards(const stk_dataset *d);
const char *stk_table_shard_name(const stk_dataset *d, uint64_t shard);
int stk_table_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err);
int stk_table_type(const stk_dataset *d, uint32_t field, stk_field_type *out);
uint32_t stk_table_schemas(const stk_dataset *d);
/* A name may leave out the member of a struct that holds the data, as in Hugging Face's {bytes,
 * path}.  Of a column of decimals, "price.text" is its exact text: field n_columns + the column's
 * number, which no list of the fields shows and which has no type. */
int stk_table_find(const stk_dataset *d, uint32_t schema, const char *name);
int stk_table_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err);
/* Sets out->offset to the number of the field. */
int stk_table_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                    stk_error *err);
/* Opens the file at first use, and checks that it has not changed. */
int stk_table_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
/* Replaces acquire() for kinds that read nothing: bytes are in memory, or unpack() gets them. */
int stk_table_no_file(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
void stk_table_release(const stk_dataset *d, uint64_t shard);
int stk_table_unchanged(const stk_dataset *d, stk_error *err);
/* For kinds whose unpack() knows joined columns. */
int stk_table_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err);

#define STK_TABLE_OPS                                                                              \
    .len = stk_table_len, .kind = stk_table_kind, .shards = stk_table_shards,                      \
    .shard_name = stk_table_shard_name, .shard = stk_table_shard, .type = stk_table_type,          \
    .schemas = stk_table_schemas, .find = stk_table_find, .entry = stk_table_entry,                \
    .field = stk_table_field, .release = stk_table_release

/* The same for a kind that reads its files and can join columns. */
#define STK_TABLE_FILE_OPS                                                                         \
    STK_TABLE_OPS, .gather = stk_table_gather, .acquire = stk_table_acquire,                       \
                   .trust.unchanged = stk_table_unchanged, .fingerprint = data_fingerprint,        \
                   .locate = data_locate, .unpack = data_unpack, .close = data_close

/* Adds names without folders, sizes and counts to a fingerprint, as most kinds do. */
void stk_table_print(const stk_table *t, stk_fingerprint *out);

#endif
