/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - shards plus their index: open, count, read single samples.
 *
 * The index is found beside the shards (.stoker/) or in the cache, or built, once per host
 * however many processes ask.  An open data set is read-only: any number of threads and loaders
 * share it, and it works in a forked child.  Samples are numbered from 0 through all shards in
 * their order. */
#ifndef STOKER_DATASET_H
#define STOKER_DATASET_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_dataset stk_dataset; /* Thread: any, once opened. */

typedef struct stk_store stk_store; /* settings of remote data: store.h */

typedef struct stk_dataset_options {
    uint32_t size;         /* sizeof this struct as the caller compiled it */
    uint32_t num_workers;  /* threads for building the index; 0: the cores there are */
    const char *cache_dir; /* of read-only data; NULL: $STOKER_CACHE, else the user's cache */
    stk_log_fn log;        /* may be NULL */
    void *log_cookie;
    const char *format;       /* name of the format; NULL: found by probing */
    stk_progress_fn progress; /* while an index is built; in bytes of shards; may be NULL */
    void *progress_cookie;
    /* Folders of pictures: the classes, number 0 first; a folder with another one is an error.
     * 0: those that are there, sorted.  Borrowed until open returns. */
    const char *const *classes;
    uint32_t n_classes;
    /* Typed columns that the index shall have (stk_index_options); those it lacks are read and
     * added, in memory where it cannot be written. */
    const char *const *columns;
    uint32_t n_columns;
    /* Have seek points of all JPEGs, so that crops are decoded without what comes before them;
     * those that lack are made now (`progress` then counts samples).  Where they cannot be written
     * a line of the log says so, and loading goes on without. */
    stk_tri jpeg;
    /* Files of numbers without a header: their type, and the shape of a row where it is not one
     * number.  0: .bin is u16, and what says its own type has that. */
    stk_dtype dtype;
    uint32_t ndim;
    const int64_t *shape;
    /* Build the index of a folder again where pictures, or files that belong to them, were only
     * added since.  All else that is not as it was indexed stays STK_ESTALE, a class that renumbers
     * labels too. */
    stk_tri reindex;
    stk_store *store; /* how remote data is reached (store.h); NULL: by the environment; held */
    /* A shard that is torn has the samples before the tear, and a line of the log says so.  The
     * index of such shards stays in memory: without this they are an error as before. */
    stk_tri salvage;
    /* Damaged lines of CSV and JSON lines are left out, and a line of the log counts them; as with
     * `salvage`, which does this too, the index stays in memory then. */
    stk_tri skip_damaged;
    /* CSV: the code point that each of the 256 bytes means, UINT32_MAX: none.  0 to 127 mean
     * themselves.  NULL: UTF-8.  Borrowed until open returns. */
    const uint32_t *encoding;
    /* Parquet and Arrow: what stands for a null in a list of whole numbers; NULL: such a list is
     * bad.  Borrowed until open returns. */
    const int64_t *list_null;
    /* Arrow tables of another library: rows from each of these numbers on belong together (windows
     * of one video), and block order takes them as they follow each other.  Ascending from 0.
     * Copied. */
    const uint64_t *runs;
    uint64_t n_runs;
} stk_dataset_options;

/* Open the shards that `urls` name (each a path, a folder of shards or of pictures, a glob or a
 * brace pattern; after "path:" a name that is taken as it stands), indexing them first when no
 * index is found.  *out is the caller's, end with stk_dataset_unref().  opt: may be NULL.
 * STK_ENOTFOUND: no such shard; STK_ECORRUPT: a shard or its index is torn; STK_ESTALE: a shard is
 * not what was indexed (stk_index_build() repairs that); STK_ECLOSED: progress said stop. */
STK_API STK_MUST_CHECK int stk_dataset_open(stk_dataset **out, const char *const *urls, size_t n,
                                            const stk_dataset_options *opt, stk_error *err);

/* An array of a data set: files that follow each other along the first axis, or memory. */
typedef struct stk_array_in {
    const char *name;        /* of the field; copied */
    const char *const *urls; /* .npy or raw files, as for stk_dataset_open(); NULL: memory */
    size_t n_urls;
    const void *data; /* memory, borrowed until the last holder of the data set lets go */
    uint64_t rows;    /* of memory */
    int64_t stride;   /* of memory: bytes from a row to the next; the rest of a row is contiguous */
    stk_dtype dtype;  /* of memory and raw files */
    uint32_t ndim;    /* of a row of them */
    const int64_t *shape;
    stk_store *store; /* of files: how remote ones are reached; the same in all entries; held */
} stk_array_in;

/* A data set that joins arrays row by row: sample i has row i of each.  They have as many rows, or
 * it is STK_EINVAL.  Its chains begin with a row as it is stored. */
STK_API STK_MUST_CHECK int stk_dataset_join(stk_dataset **out, const stk_array_in *in, size_t n,
                                            stk_error *err);
/* "tokens", "npy", "npz", "raw" or "memory" for a data set of arrays; NULL: it is indexed
 * shards. */
STK_API const char *stk_dataset_arrays(const stk_dataset *ds);

/* One more holder; answers its argument. */
STK_API stk_dataset *stk_dataset_ref(stk_dataset *ds);

/* Let go and null the pointer; the last one closes files and index.  NULL is fine. */
STK_API void stk_dataset_unref(stk_dataset **ds);

STK_API uint64_t stk_dataset_len(const stk_dataset *ds);    /* samples */
STK_API uint64_t stk_dataset_shards(const stk_dataset *ds); /* shards */

/* The name of a shard, absolute; the data set's.  NULL past the last. */
STK_API const char *stk_dataset_shard_name(const stk_dataset *ds, uint64_t shard);

/* Where the index is; the data set's.  "" when it is in memory only. */
STK_API const char *stk_dataset_index_path(const stk_dataset *ds);

/* The names of fields that occur, in order of first occurrence: field 0, 1, ...; NULL past the
 * last. */
STK_API const char *stk_dataset_field(const stk_dataset *ds, uint32_t field);

typedef struct stk_field_type { /* what a field is before any chain */
    const char *name;           /* the data set's */
    stk_dtype dtype;            /* 0: bytes, which chains decode */
    uint32_t ndim;              /* of one value */
    int64_t shape[7];           /* -1: differs by sample; the first only */
    int nullable;               /* samples may lack it */
    const char *refused;        /* why it is not read; NULL: it is */
    int text;                   /* the data says that its bytes are UTF-8; 0: it does not say */
    int decimal;                /* f64 of decimals, of which `text` makes exact text */
} stk_field_type;

/* The type of field 0, 1, ...; 0 past the last, else 1. */
STK_API int stk_dataset_field_type(const stk_dataset *ds, uint32_t field, stk_field_type *out);

/* The key of sample `i`, not terminated, *len bytes; borrowed from the index, valid while the data
 * set is held.  NULL (and *len 0) where there is no such sample or its part of the index is
 * damaged.  Reads no shard. */
STK_API const char *stk_dataset_key(const stk_dataset *ds, uint64_t i, size_t *len);

typedef struct stk_key {
    const char *text;
    size_t len;
} stk_key;

/* Is told that sample `sample` has the key number `key`; non-zero stops the search. */
typedef int (*stk_found_fn)(void *cookie, uint64_t key, uint64_t sample);

/* Samples by their keys: found() is called for every sample that has one of `keys`, in the order
 * of samples.  Looks at all keys of the index once and reads no shard.  STK_ECLOSED: found() said
 * stop. */
STK_API STK_MUST_CHECK int stk_dataset_find_keys(const stk_dataset *ds, const stk_key *keys,
                                                 uint64_t n, stk_found_fn found, void *cookie,
                                                 stk_error *err);

/* The classes of a folder of pictures: what number 0, 1, ... in its field `cls` means; NULL past
 * the last, and where the data has none. */
STK_API const char *stk_dataset_class(const stk_dataset *ds, uint32_t i);

typedef struct stk_fingerprint {     /* what a data set is, wherever it is */
    uint64_t samples, shards, bytes; /* counts; bytes: of the shards */
    uint64_t names;                  /* hash of the shards' names, relative to their folder */
    uint64_t content; /* hash of sizes, counts, sampled content and up to 1,024 keys */
    uint64_t taken;   /* of a loader: hash of which samples take part (exclude, select, ...) */
} stk_fingerprint;

/* The fingerprint of a data set: equal for a copy elsewhere.  Reads no shard. */
STK_API STK_MUST_CHECK int stk_dataset_print(const stk_dataset *ds, stk_fingerprint *out,
                                             stk_error *err);

/* ---- typed columns: one value a sample, from the index ---- */

typedef enum stk_column_type {
    STK_COLUMN_I64 = 1,
    STK_COLUMN_F64,
    STK_COLUMN_TEXT
} stk_column_type;

/* The columns that are available: column 0, 1, ...; NULL past the last.  type may be NULL. */
STK_API const char *stk_dataset_column(const stk_dataset *ds, uint32_t i, stk_column_type *type);

typedef struct stk_column stk_column; /* Thread: any, once opened. */

typedef struct stk_column_options {
    uint32_t size;
    uint32_t num_workers; /* threads for reading; 0: the cores there are */
    stk_tri read;         /* read the samples where the index has no such column */
    stk_progress_fn progress;
    void *progress_cookie;
} stk_column_options;

/* Open a column by name.  *out is the caller's, end with stk_column_close(); it holds the data
 * set.  The index is checked here: values are read without errors.  opt: may be NULL.
 * STK_ENOTFOUND: the index lacks it and `read` is not set. */
STK_API STK_MUST_CHECK int stk_column_open(stk_column **out, stk_dataset *ds, const char *name,
                                           const stk_column_options *opt, stk_error *err);
STK_API stk_column_type stk_column_kind(const stk_column *c); /* its type */
STK_API uint64_t stk_column_nulls(const stk_column *c);       /* samples without a value */

/* The values of samples first .. first + n - 1; null is 0.  STK_EINVAL, here and below: past the
 * end, or of another type. */
STK_API STK_MUST_CHECK int stk_column_i64(const stk_column *c, uint64_t first, uint64_t n,
                                          int64_t *out, stk_error *err);
/* The same of either type of numbers; null is NaN. */
STK_API STK_MUST_CHECK int stk_column_f64(const stk_column *c, uint64_t first, uint64_t n,
                                          double *out, stk_error *err);
/* 1 where there is a value, of any type. */
STK_API STK_MUST_CHECK int stk_column_valid(const stk_column *c, uint64_t first, uint64_t n,
                                            uint8_t *out, stk_error *err);
/* Texts: not terminated, the column's.  Null is NULL.  Equal texts of a shard are at one address;
 * an empty text shares the address of another one. */
STK_API STK_MUST_CHECK int stk_column_text(const stk_column *c, uint64_t first, uint64_t n,
                                           const char **text, size_t *len, stk_error *err);
STK_API void stk_column_close(stk_column **c); /* nulls; NULL is fine */

/* The samples that satisfy a condition, ascending: "width >= 300 AND split = 'train'", as SQL has
 * it, over columns of tables, or columns of the index, which are read where it lacks them.  *ids:
 * end with stk_dataset_where_free().  STK_EINVAL: the text, a name or a type is wrong. */
STK_API STK_MUST_CHECK int stk_dataset_where(stk_dataset *ds, const char *where, uint64_t **ids,
                                             uint64_t *n, stk_error *err);
STK_API void stk_dataset_where_free(uint64_t **ids); /* nulls; NULL is fine */

typedef struct stk_sample stk_sample; /* One sample's key and field bytes.  Thread: one. */

/* Read sample `i` whole, in the calling thread.  *out is the caller's, end with
 * stk_sample_close(); it holds the data set.  STK_EINVAL: no such sample; STK_EIO, STK_ESTALE,
 * STK_ECORRUPT: with shard, offset and key in *err. */
STK_API STK_MUST_CHECK int stk_dataset_read(stk_dataset *ds, uint64_t i, stk_sample **out,
                                            stk_error *err);
/* The same from the index alone: no shard is read, fields have no data and, as length, the size
 * that the index knows. */
STK_API STK_MUST_CHECK int stk_dataset_look(stk_dataset *ds, uint64_t i, stk_sample **out,
                                            stk_error *err);
/* Its key, *len bytes, not terminated; the sample's.  len may be NULL. */
STK_API const char *stk_sample_key(const stk_sample *s, size_t *len);

STK_API uint64_t stk_sample_offset(const stk_sample *s);   /* in its shard */
STK_API const char *stk_sample_shard(const stk_sample *s); /* the shard's name */
STK_API uint32_t stk_sample_fields(const stk_sample *s);   /* how many */

/* Name and bytes of field `i`; the sample's.  NULL past the last; data and len may be NULL. */
STK_API const char *stk_sample_field(const stk_sample *s, uint32_t i, const void **data,
                                     size_t *len);
STK_API void stk_sample_close(stk_sample **s); /* nulls; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
