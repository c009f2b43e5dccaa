/* SPDX-License-Identifier: Apache-2.0 */
/* table_data.h - what all tables have in common: files whose rows follow each other, and columns
 * with a type.
 *
 * A kind of table has a stk_table as its first member and fills it in while it opens: names, then
 * files and their rows, then columns.  In return most of its stk_data_ops is STK_TABLE_OPS, and it
 * writes only what differs: fingerprint(), locate(), unpack(), pick(), close(). */
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
    uint64_t print;           /* of its content; 0: none */
    _Atomic(stk_file *) file; /* opened at first touch, then kept */
} stk_table_file;

typedef struct stk_table { /* Thread: any, once opened. */
    stk_dataset data;
    stk_names names;      /* of its files, absolute */
    stk_table_file *file; /* names.n */
    uint64_t rows;        /* of all files */
    uint32_t n_columns;
    uint32_t n_readable;    /* columns that can be read come first */
    stk_field_type *column; /* names are the kind's */
    stk_gathers gathers;
    const char *list; /* the file that says how large the others are; NULL: they were looked at */
} stk_table;

/* ---- opening and closing ---- */

void stk_table_init(stk_table *t, const stk_data_ops *ops, uint32_t can,
                    const stk_dataset_options *o);
/* n files, as many as there are names; without rows yet. */
int stk_table_files(stk_table *t, uint64_t n, stk_error *err);
/* Rows of file i; files come in order. */
int stk_table_rows(stk_table *t, uint64_t i, uint64_t rows, stk_error *err);
/* n columns, whose types are filled in next. */
int stk_table_columns(stk_table *t, uint32_t n, uint32_t readable, stk_error *err);
/* Column i has decimals, and has a text beside (stk_table_find()) if numbers of fields suffice. */
void stk_table_decimal(stk_table *t, uint32_t i);
/* The end of an open(): *out, or the table is closed. */
int stk_table_opened(stk_table *t, int rc, stk_dataset **out);
/* Everything but the memory of *t. */
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
/* The field's offset is its number. */
int stk_table_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                    stk_error *err);
/* Opens the file at first touch, and compares it with what it was. */
int stk_table_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
/* In its place where nothing is read: bytes are in memory, or unpack() gets them. */
int stk_table_no_file(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err);
void stk_table_release(const stk_dataset *d, uint64_t shard);
int stk_table_unchanged(const stk_dataset *d, stk_error *err);
/* For kinds whose unpack() knows columns taken together. */
int stk_table_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err);

#define STK_TABLE_OPS                                                                              \
    .len = stk_table_len, .kind = stk_table_kind, .shards = stk_table_shards,                      \
    .shard_name = stk_table_shard_name, .shard = stk_table_shard, .type = stk_table_type,          \
    .schemas = stk_table_schemas, .find = stk_table_find, .entry = stk_table_entry,                \
    .field = stk_table_field, .release = stk_table_release

/* The same for a kind that reads its files and can take columns together. */
#define STK_TABLE_FILE_OPS                                                                         \
    STK_TABLE_OPS, .gather = stk_table_gather, .acquire = stk_table_acquire,                       \
                   .trust.unchanged = stk_table_unchanged, .fingerprint = data_fingerprint,        \
                   .locate = data_locate, .unpack = data_unpack, .close = data_close

/* Names without folders, sizes and counts: what most kinds add to a fingerprint beside content. */
void stk_table_print(const stk_table *t, stk_fingerprint *out);

#endif
