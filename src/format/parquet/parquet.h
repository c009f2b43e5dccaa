/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.h - what a Parquet file says of itself, and its pages decoded.
 *
 * Pure functions over bytes, for hostile input: no file is read here and no thread is known.  A
 * *leaf* is a column of values in the schema; a *chunk* is a leaf's pages in one row group.  Leaves
 * of one level of repetition at most are read (plain columns, members of structs, lists, maps);
 * what cannot be read says why in `refused` and costs nothing until it is asked for.
 * Format: github.com/apache/parquet-format. */
#ifndef STOKER_PARQUET_H
#define STOKER_PARQUET_H

#include "base/err.h"

enum { /* physical types */
       STK_PQ_BOOLEAN,
       STK_PQ_INT32,
       STK_PQ_INT64,
       STK_PQ_INT96,
       STK_PQ_FLOAT,
       STK_PQ_DOUBLE,
       STK_PQ_BYTES,
       STK_PQ_FIXED,
};
enum { /* what the values mean, where that changes how they are handed out */
       STK_PQ_PLAIN_VALUE,
       STK_PQ_TEXT,
       /* an integer with `scale` digits after the point: as f64; dtype 0: as text and zeros */
       STK_PQ_DECIMAL,
       STK_PQ_UNSIGNED, /* 64 bits: as i64 where they fit */
       STK_PQ_DATE,
       STK_PQ_TIME,
       STK_PQ_TIMESTAMP, /* also INT96: nanoseconds */
       STK_PQ_NOTHING,   /* nulls only, of a column whose type the writer did not know */
};
enum { /* codecs of pages */
       STK_PQ_RAW,
       STK_PQ_SNAPPY,
       STK_PQ_GZIP,
       STK_PQ_LZO,
       STK_PQ_BROTLI,
       STK_PQ_LZ4_HADOOP,
       STK_PQ_ZSTD,
       STK_PQ_LZ4_RAW,
       STK_PQ_CODECS,
       STK_PQ_BZIP2 = 64 /* not of Parquet: MDS has it */
};

typedef struct stk_pq_leaf {
    char *name; /* "label", "image.bytes"; nodes that only make a list are left out */
    uint8_t physical, meaning;
    uint8_t max_def, max_rep;
    uint32_t fixed;   /* lists of numbers: values of each; 0: they differ, or it is not known */
    uint8_t list_def; /* lists: definition levels from here on are elements; list_def - 1: empty */
    int32_t len;      /* FIXED: bytes of a value */
    int32_t scale;    /* DECIMAL */
    stk_dtype dtype;  /* of a value as it is handed out; 0: bytes */
    uint32_t width;   /* bytes of it; 0: each has its own length */
    uint32_t top_len; /* bytes of `name` that are its outermost node's */
    uint8_t top_def;  /* definition levels below this one: that node is null */
    uint8_t fills;    /* lists of whole numbers: `fill` stands for a null in them */
    int64_t fill;
    uint8_t v2_packed;   /* values of version 2 pages are packed whatever their header says */
    const char *unit;    /* "date", "time[us]", "utf8", ...: for people; "" */
    const char *refused; /* why it cannot be read; NULL: it can */
    int blobs;           /* ... but for pictures: a list of bytes, texts.c */
} stk_pq_leaf;

typedef struct stk_pq_chunk {
    uint64_t start, len;       /* of all its pages in the file */
    uint64_t values;           /* with nulls */
    uint64_t unpacked;         /* bytes of all pages, unpacked, as the file says */
    uint8_t codec, dictionary; /* dictionary: the file says that it begins with one */
    uint8_t slack; /* bytes that may follow: parquet-mr before 1.2.9 left a header out of `len` */
    int64_t nulls; /* as the file says; -1: it does not */
    const char *refused;
} stk_pq_chunk;

typedef struct stk_pq_group {
    uint64_t first, rows; /* number of its first row in the file */
} stk_pq_group;

typedef struct stk_pq_file {
    uint64_t rows;
    uint32_t n_leaves, n_groups;
    stk_pq_leaf *leaf;
    stk_pq_group *group;
    stk_pq_chunk *chunk; /* [group * n_leaves + leaf] */
} stk_pq_file;

/* The last 8 bytes of a file: how long the footer before them is.  STK_ENOTSUP: encrypted. */
#define STK_PQ_TAIL 8
int stk_pq_tail(const uint8_t tail[STK_PQ_TAIL], uint64_t file_size, uint32_t *footer,
                stk_error *err);
/* The footer; every range in it is in the file.  *out ends with stk_pq_file_close(). */
int stk_pq_file_open(stk_pq_file **out, stk_bytes footer, uint64_t file_size, stk_error *err);
void stk_pq_file_close(stk_pq_file **f);
/* `value` stands for a null in lists of whole numbers.  STK_EINVAL: a column can't hold it. */
int stk_pq_fill_lists(stk_pq_file *f, int64_t value, stk_error *err);
/* A leaf of decimals as one of texts; its name stays the other's. */
stk_pq_leaf stk_pq_decimal_text(const stk_pq_leaf *l);
/* The group that has this row, which is below f->rows. */
uint32_t stk_pq_group_of(const stk_pq_file *f, uint64_t row);

/* ---- pages ---- */

enum { STK_PQ_DATA, STK_PQ_INDEX, STK_PQ_DICTIONARY, STK_PQ_DATA2 }; /* kinds of pages */
enum {                                                               /* encodings */
       STK_PQ_PLAIN = 0,
       STK_PQ_PLAIN_DICTIONARY = 2,
       STK_PQ_RLE = 3,
       STK_PQ_BIT_PACKED = 4,
       STK_PQ_DELTA = 5,
       STK_PQ_DELTA_LENGTH = 6,
       STK_PQ_DELTA_BYTES = 7,
       STK_PQ_RLE_DICTIONARY = 8,
       STK_PQ_BYTE_SPLIT = 9,
};

typedef struct stk_pq_page {
    int kind, encoding;
    uint32_t head;                  /* bytes of this header */
    uint32_t packed, size;          /* bytes after it, as they are stored and unpacked */
    uint32_t values;                /* with nulls; of a dictionary: entries */
    uint32_t rows, nulls;           /* DATA2 */
    uint32_t rep_len, def_len;      /* DATA2: bytes of levels, which are never packed */
    int def_encoding, rep_encoding; /* DATA */
    int plain;                      /* DATA2: the values are not packed */
    int has_crc;
    uint32_t crc;
} stk_pq_page;

#define STK_PQ_HEAD_MAX (16u << 20) /* statistics are in it; it has no bound in the format */
/* The page header at the beginning of `in`.  STK_PENDING: it may go on after `in`. */
int stk_pq_page_read(stk_bytes in, stk_pq_page *out, stk_error *err);

/* A page, by the number that Parquet gives the codec: exactly dst[0..len) or an error. */
int stk_unpack_page(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

typedef struct stk_pq_ref { /* a value of bytes: in `data`, or in the dictionary's */
    uint32_t at, len;       /* len: with STK_PQ_IN_DICTIONARY */
} stk_pq_ref;
#define STK_PQ_IN_DICTIONARY 0x80000000u
#define STK_PQ_NULL_REF ((stk_pq_ref){ UINT32_MAX, 0 })

/* Values of consecutive rows, or of a dictionary.  A column without lists has one slot per row,
 * also where that is null; a list's elements have one each. */
typedef struct stk_pq_vector {
    const stk_pq_leaf *leaf;
    uint64_t rows, slots, bytes; /* bytes: memory of all of it */
    uint32_t *first; /* lists: the first slot of each row, and one more; NULL: slot = row */
    uint8_t *null;   /* by row: 1 null, 2 a list with a null that has no value; NULL: none is */
    uint8_t *value;  /* slots of leaf->width bytes */
    stk_pq_ref *ref; /* leaf->width 0 */
    uint8_t *data;   /* what ref is in */
    uint64_t data_len;
    uint64_t cap_rows, cap_nulls, cap_slots, cap_data, cap_refs;
    int lent; /* value and first are the caller's memory: they do not grow and are not freed */
} stk_pq_vector;

typedef struct stk_pq_decode {
    const stk_pq_leaf *leaf;
    int codec;
    const stk_pq_vector *dictionary; /* NULL: the chunk has none */
    uint64_t max_bytes;              /* memory that the answer may take */
} stk_pq_decode;

/* Decode pages [in, in + len), headers included: of data pages the rows, appended to *v (zeros at
 * first); of one dictionary page the entries. */
int stk_pq_decode_pages(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v, stk_error *err);
int stk_pq_decode_dictionary(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v,
                             stk_error *err);
/* Rows that begin in this data page, from its levels.  *whole 0: its first value goes on with the
 * last row of the page before. */
int stk_pq_count_rows(const stk_pq_decode *d, stk_bytes in, uint64_t *rows, int *whole,
                      stk_error *err);
/* By row of these data pages: is its definition level at least `def`?  *n of `room` are there. */
typedef struct stk_pq_presence {
    uint8_t *row;
    uint64_t n, room;
} stk_pq_presence;
int stk_pq_present(const stk_pq_decode *d, stk_bytes in, uint8_t def, stk_pq_presence *out,
                   stk_error *err);
void stk_pq_vector_fini(stk_pq_vector *v);

/* ---- lists of texts, and of bytes: texts.c ---- */

static inline int stk_pq_is_texts(const stk_pq_leaf *l)
{
    return l->max_rep && !l->dtype;
}

#define STK_PQ_NULL_TEXT 5 /* bytes: null and a comma */
#define STK_PQ_TEXTS_ROW (2 + sizeof(stk_pq_ref) + 1)
/* Bytes that the rows of a data page take at most, as stk_pq_texts() makes them. */
int stk_pq_texts_room(const stk_pq_decode *d, stk_bytes in, uint64_t *out, stk_error *err);
/* Of the texts of v alone, with quotes and commas; counting stops after d->max_bytes. */
uint64_t stk_pq_texts_len(const stk_pq_vector *v, const stk_pq_decode *d);
/* Each row of *v becomes one value of bytes, as format/text_list.h has it; of leaf->blobs each
 * element's length (u32; of a null 0), then its bytes. */
int stk_pq_texts(const stk_pq_decode *d, stk_pq_vector *v, stk_error *err);

/* Row r of it: its bytes (of one value, or of a list's values one after another); *values: how
 * many.  STK_ENOTFOUND: null. */
int stk_pq_row(const stk_pq_vector *v, const stk_pq_vector *dictionary, uint64_t r, stk_bytes *out,
               uint64_t *values, stk_error *err);

#endif
