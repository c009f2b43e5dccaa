/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.h - reads the footer of a Parquet file, and decodes its pages.  The kind of data for
 * Parquet calls it (table/parquet_*.c).
 *
 * These are pure functions over bytes, safe for hostile input; they read no file.  A *leaf* is a
 * column of values in the schema; a *chunk* is a leaf's pages in one row group.  Leaves with at
 * most one level of repetition are read (plain columns, members of structs, lists, maps).  Others
 * say why in `refused`, and cost nothing until they are asked for.  Format:
 * github.com/apache/parquet-format. */
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
enum { /* what values mean, if that changes how they are handed out */
       STK_PQ_PLAIN_VALUE,
       STK_PQ_TEXT,
       /* an integer with `scale` digits after the point: handed out as f64; with dtype 0 as text
        * that is filled up with zeros */
       STK_PQ_DECIMAL,
       STK_PQ_UNSIGNED, /* u64, which is handed out as i64 if it fits */
       STK_PQ_DATE,
       STK_PQ_TIME,
       STK_PQ_TIMESTAMP, /* also INT96: nanoseconds */
       STK_PQ_NOTHING,   /* only nulls; the writer did not know the type */
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
       STK_PQ_BZIP2 = 64 /* used by MDS, not by Parquet */
};

typedef struct stk_pq_leaf {
    char *name; /* "label", "image.bytes"; nodes that only make a list are left out */
    uint8_t physical, meaning;
    uint8_t max_def, max_rep;
    uint32_t fixed; /* lists of numbers: values of each list; 0: it differs, or is not known */
    /* lists: from this definition level on there is an element; list_def - 1: the list is empty */
    uint8_t list_def;
    int32_t len;      /* FIXED: bytes of a value */
    int32_t scale;    /* DECIMAL */
    stk_dtype dtype;  /* of a value as it is handed out; 0: bytes */
    uint32_t width;   /* bytes of it; 0: each has its own length */
    uint32_t top_len; /* bytes of `name` that name its outermost node */
    uint8_t top_def;  /* below this definition level, that node is null */
    uint8_t fills;    /* lists of integers: true if `fill` replaces nulls in them */
    int64_t fill;
    uint8_t v2_packed;   /* true if values of version 2 pages are always compressed */
    const char *unit;    /* "date", "time[us]", "utf8", ...: shown to users; "": none */
    const char *refused; /* why it can't be read; NULL: it can */
    int blobs;           /* a list of bytes, which is refused except for pictures: texts.c */
} stk_pq_leaf;

typedef struct stk_pq_chunk {
    uint64_t start, len;       /* range of all its pages in the file */
    uint64_t values;           /* number of values, nulls included */
    uint64_t unpacked;         /* bytes of all pages, unpacked, according to the file */
    uint8_t codec, dictionary; /* dictionary: 1 if it begins with one, according to the file */
    uint8_t slack; /* bytes that may follow: parquet-mr before 1.2.9 left a header out of `len` */
    int64_t nulls; /* number of nulls, according to the file; -1: not known */
    const char *refused; /* why it can't be read; NULL: it can */
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

/* Sets *footer to the length of the footer, from the last 8 bytes of a file, which come after it.
 * STK_ENOTSUP: the file is encrypted. */
#define STK_PQ_TAIL 8
int stk_pq_tail(const uint8_t tail[STK_PQ_TAIL], uint64_t file_size, uint32_t *footer,
                stk_error *err);
/* Reads the footer, and checks that every range is in the file.  End with stk_pq_file_close(). */
int stk_pq_file_open(stk_pq_file **out, stk_bytes footer, uint64_t file_size, stk_error *err);
void stk_pq_file_close(stk_pq_file **f);
/* Sets the value that replaces nulls in lists of integers.  STK_EINVAL: a column can't hold it. */
int stk_pq_fill_lists(stk_pq_file *f, int64_t value, stk_error *err);
/* A leaf of decimals as a leaf of texts; it borrows the name. */
stk_pq_leaf stk_pq_decimal_text(const stk_pq_leaf *l);
/* The row group with this row, which is below f->rows. */
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
    uint32_t head;                  /* bytes of its header */
    uint32_t packed, size;          /* bytes after the header, as stored and unpacked */
    uint32_t values;                /* values, nulls included; for a dictionary: entries */
    uint32_t rows, nulls;           /* only for DATA2 */
    uint32_t rep_len, def_len;      /* DATA2: bytes of levels, which are never compressed */
    int def_encoding, rep_encoding; /* DATA: encodings of levels */
    int plain;                      /* DATA2: true if the values are not compressed */
    int has_crc;
    uint32_t crc;
} stk_pq_page;

/* Most bytes of a page header that are accepted.  It has statistics, and the format has no
 * limit. */
#define STK_PQ_HEAD_MAX (16u << 20)
/* Reads the page header at the beginning of `in`.  STK_PENDING: it may go on after `in`. */
int stk_pq_page_read(stk_bytes in, stk_pq_page *out, stk_error *err);

/* Unpacks a page to exactly dst[0..len).  codec: STK_PQ_*. */
int stk_unpack_page(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

typedef struct stk_pq_ref { /* a value of bytes: in `data`, or in the dictionary's */
    uint32_t at, len;       /* len: may have the bit STK_PQ_IN_DICTIONARY */
} stk_pq_ref;
#define STK_PQ_IN_DICTIONARY 0x80000000u
#define STK_PQ_NULL_REF ((stk_pq_ref){ UINT32_MAX, 0 })

/* Values of consecutive rows, or of a dictionary.  A column without lists has one slot per row,
 * even if it is null.  Each element of a list has a slot. */
typedef struct stk_pq_vector {
    const stk_pq_leaf *leaf;
    uint64_t rows, slots, bytes; /* bytes: memory of the whole vector */
    uint32_t *first; /* lists: the first slot of each row, rows + 1 entries; NULL: slot = row */
    /* by row: 1: it is null; 2: it is a list with a null that nothing replaces; NULL: no nulls */
    uint8_t *null;
    uint8_t *value;  /* by slot: leaf->width bytes; NULL if that is 0 */
    stk_pq_ref *ref; /* by slot, if leaf->width is 0 */
    uint8_t *data;   /* bytes that `ref` points into */
    uint64_t data_len;
    uint64_t cap_rows, cap_nulls, cap_slots, cap_data, cap_refs;
    int lent; /* true if the caller owns `value` and `first`: they are not grown and not freed */
} stk_pq_vector;

typedef struct stk_pq_decode {
    const stk_pq_leaf *leaf;
    int codec;
    const stk_pq_vector *dictionary; /* NULL: the chunk has none */
    uint64_t max_bytes;              /* most memory of the result */
} stk_pq_decode;

/* The first decodes data pages, headers included, and adds their rows to *v, which begins as zeros.
 * The second decodes one dictionary page to its entries. */
int stk_pq_decode_pages(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v, stk_error *err);
int stk_pq_decode_dictionary(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v,
                             stk_error *err);
/* Sets *rows to the number of rows that begin in this data page, by its levels.  *whole 0: its
 * first value belongs to the last row of the page before. */
int stk_pq_count_rows(const stk_pq_decode *d, stk_bytes in, uint64_t *rows, int *whole,
                      stk_error *err);
typedef struct stk_pq_presence { /* by row: 1 if its definition level is high enough */
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
/* Sets *out to the most bytes that the rows of a data page take as stk_pq_texts() makes them. */
int stk_pq_texts_room(const stk_pq_decode *d, stk_bytes in, uint64_t *out, stk_error *err);
/* Bytes of the texts of v, with quotes and commas; counting stops after d->max_bytes. */
uint64_t stk_pq_texts_len(const stk_pq_vector *v, const stk_pq_decode *d);
/* Turns each row of *v into one value of bytes, as format/text_list.h writes it.  With leaf->blobs
 * it is each element's length (u32; 0 for a null), then its bytes. */
int stk_pq_texts(const stk_pq_decode *d, stk_pq_vector *v, stk_error *err);

/* Sets *out to the bytes of row r (of one value, or of a list's values one after the other), and
 * *values to how many values it has.  STK_ENOTFOUND: it is null. */
int stk_pq_row(const stk_pq_vector *v, const stk_pq_vector *dictionary, uint64_t r, stk_bytes *out,
               uint64_t *values, stk_error *err);

#endif
