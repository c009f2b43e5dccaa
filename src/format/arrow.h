/* SPDX-License-Identifier: Apache-2.0 */
/* arrow.h - Arrow's columnar memory: what a schema says, and one value of one row.
 *
 * Record batches come from IPC messages (arrow_ipc.c), where every length is checked because input
 * is hostile, or from another library in this process by the C data interface
 * (table/arrow_memory.c), whose lengths are not known and are taken on trust, as the interface has
 * it.  Formats: arrow.apache.org/docs/format. */
#ifndef STOKER_FORMAT_ARROW_H
#define STOKER_FORMAT_ARROW_H

#include "base/err.h"

enum {                  /* how values are in memory */
       STK_ARROW_OTHER, /* refused */
       STK_ARROW_NULL,  /* of all rows, and no buffers */
       STK_ARROW_NUMBER,
       STK_ARROW_BOOL,
       STK_ARROW_BYTES, /* offsets of 32 or 64 bits */
       STK_ARROW_VIEW,
       STK_ARROW_FIXED, /* bytes of one length */
       /* whole numbers of 4 to 32 bytes, `scale` digits of which are after the point */
       STK_ARROW_DECIMAL,
       STK_ARROW_LIST,
       STK_ARROW_FIXED_LIST,
       STK_ARROW_STRUCT,
};

#define STK_ARROW_DEPTH 16

typedef struct stk_arrow_field {
    char *name;
    uint8_t type;
    uint8_t wide; /* BYTES, LIST: offsets of 64 bits */
    uint8_t nullable;
    uint8_t map;        /* LIST: of structs of a key and a value */
    uint8_t apart;      /* LIST: of views: beside each offset how many values, in any order */
    uint8_t unsigned64; /* handed out as i64 where it fits */
    uint8_t text;       /* BYTES, VIEW: UTF-8 */
    /* NUMBER: of times: "tss" to "tsn", "tDm", "tdD", "ttu", ..., as the C interface calls them;
     * "": none */
    char unit[4];
    stk_dtype dtype; /* NUMBER, BOOL */
    uint32_t width;  /* bytes of a value; FIXED_LIST: values of a list */
    int32_t scale;   /* DECIMAL */
    const char *refused;
    int encoded;        /* values are in a dictionary ... */
    int64_t dictionary; /* ... of this id, by numbers of type `index` */
    stk_dtype index;
    uint32_t n;
    struct stk_arrow_field *child;
    /* numbers in a record batch, of this field's first; views before it */
    uint32_t node, buffer, views;
    uint32_t n_buffers;
} stk_arrow_field;

typedef struct stk_arrow_leaf { /* a column as it is read: "label", "image.bytes" */
    char *name;
    /* structs, then the field, then what its lists have */
    const stk_arrow_field *path[STK_ARROW_DEPTH];
    uint32_t at[STK_ARROW_DEPTH]; /* which child each is */
    uint32_t depth, item;         /* of the field; of what its lists have */
    const char *refused;
    stk_dtype dtype; /* 0: bytes */
    int list, nullable;
    int texts;     /* lists of texts: stk_arrow_texts() makes JSON of them */
    int blobs;     /* ... of bytes: refused but for pictures, each its length and itself */
    int decimal;   /* not lists: whole numbers, of which stk_arrow_decimal() makes f64 */
    int64_t fixed; /* values of each list; -1: they differ */
    int fills;     /* lists of whole numbers: `fill` stands for a null in them */
    int64_t fill;
} stk_arrow_leaf;

typedef struct stk_arrow_schema {
    stk_arrow_field root; /* a struct whose children are the columns */
    uint32_t n;
    stk_arrow_leaf *leaf; /* what cannot be read comes last */
    uint32_t n_readable;
} stk_arrow_schema;

/* Number the fields and make the leaves, once root is filled in. */
int stk_arrow_settle(stk_arrow_schema *s, stk_error *err);
/* What stands for a null in lists of whole numbers.  STK_EINVAL: some have no such value. */
int stk_arrow_fill_lists(stk_arrow_schema *s, int64_t value, stk_error *err);
/* What has the values: the column itself, or what its lists have. */
static inline const stk_arrow_field *stk_arrow_value_field(const stk_arrow_leaf *l)
{
    return l->path[(l->item ? l->item : l->depth) - 1];
}
/* STK_EINVAL, STK_ENOTSUP: a column is another one here than in the files before, or in one of them
 * only; arrow_types.c. */
int stk_arrow_compare(const stk_arrow_schema *before, const stk_arrow_schema *here, stk_error *err);
/* Column `l` of this file, which is `was` in those before. */
int stk_arrow_compare_column(const stk_arrow_leaf *was, const stk_arrow_leaf *l, stk_error *err);
/* A column of nulls that has no type, and so goes with any. */
int stk_arrow_is_nothing(const stk_arrow_leaf *l);
void stk_arrow_schema_fini(stk_arrow_schema *s);

typedef struct stk_arrow_column { /* buffers of a field in one batch */
    const uint8_t *valid, *a, *b; /* bits, NULL: all; values, or offsets; bytes */
    uint64_t n_valid, n_a, n_b;   /* bytes of each; UINT64_MAX: not known */
    uint64_t offset, rows;        /* where its rows begin; rows UINT64_MAX: not known */
    const void *const *view;      /* VIEW: memory of another library ... */
    const void *ipc;              /* ... or the batch that has them */
    uint32_t view_at, n_views;
} stk_arrow_column;

struct stk_arrow_batch;
/* How a batch finds buffers: of `field` below `up` (a child's number by its parent's column), or of
 * a dictionary. */
typedef struct stk_arrow_reach {
    int (*column)(const struct stk_arrow_batch *b, const stk_arrow_leaf *l, uint32_t depth,
                  const stk_arrow_field *f, stk_arrow_column *out, stk_error *err);
    /* The values that have entry *at, which then is its place among them. */
    int (*dictionary)(const struct stk_arrow_batch *b, const stk_arrow_leaf *l,
                      const stk_arrow_field *f, uint64_t *at, stk_arrow_column *out,
                      stk_error *err);
    int (*view)(const stk_arrow_column *c, uint32_t i, stk_bytes *out);
} stk_arrow_reach;

typedef struct stk_arrow_batch {
    const stk_arrow_reach *reach;
    uint64_t first, rows; /* of its file */
    const void *from;     /* the reach's own */
    uint32_t order;
    /* IPC */
    const uint8_t *node, *buffer, *variadic, *body;
    uint32_t n_nodes, n_buffers, n_variadic;
    uint32_t first_buffer; /* number of the first in `buffer` */
    uint64_t body_len;
    /* STK_ARROW_LZ4, ...: buffers have to be unpacked first, by stk_arrow_column_unpack() */
    int packed;
    int big; /* ... and numbers in them have their high byte first */
    const char *refused;
    void *own; /* IPC: node, buffer and variadic, so that a file's map is not needed for them */
} stk_arrow_batch;

/* Of stk_arrow_batch.packed; BARE: as they are, but big-endian. */
enum { STK_ARROW_LZ4 = 1, STK_ARROW_ZSTD, STK_ARROW_BARE };
/* Exactly `len` bytes. */
int stk_arrow_unpack_buffer(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

/* Row `row` of the batch.  STK_ENOTFOUND: null.  Bytes are in the batch's memory, or constant.
 * STK_ARROW_MADE: a list that is nowhere as it is handed out, since it has nulls, booleans,
 * decimals or texts; out->len bytes are to be made by stk_arrow_list_make() or
 * stk_arrow_texts(). */
int stk_arrow_value(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, stk_bytes *out,
                    stk_error *err);
/* Values of rows from `row` on, one after another: of how many, at most n; it ends before a null.
 * 0: they are to be asked for one by one. */
uint64_t stk_arrow_rows(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t n,
                        stk_bytes *out);
/* A decimal as stk_arrow_value() gives it: as f64, or as text, in `room` bytes with zeros after
 * it. */
double stk_arrow_decimal(const stk_arrow_leaf *l, stk_bytes value);
size_t stk_arrow_decimal_room(const stk_arrow_leaf *l); /* of text */
void stk_arrow_decimal_text(const stk_arrow_leaf *l, stk_bytes value, uint8_t *out, size_t room);

/* ---- lists that have to be made ---- */

enum { STK_ARROW_MADE = 1 };

/* 1: some lists of this batch, packed or not. */
int stk_arrow_has_made(const stk_arrow_batch *b, const stk_arrow_leaf *l);
/* Values that all lists of the batch have, and the bytes that they take in its buffers. */
int stk_arrow_items(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *n, uint64_t *bytes,
                    stk_error *err);
/* The list of a row: n values from `from` on, a null among them only where something stands for
 * it.  STK_ENOTFOUND: null. */
int stk_arrow_list(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t *from,
                   uint64_t *n, stk_error *err);
/* Values as they are handed out; room for n of l->dtype. */
int stk_arrow_list_make(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t from,
                        uint64_t n, uint8_t *dst, stk_error *err);

/* The list of texts of a row is added to *t (format/text_list.h).  STK_ENOTFOUND: null. */
struct stk_text_list;
int stk_arrow_texts(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row,
                    struct stk_text_list *t, stk_error *err);

/* ---- IPC: arrow_ipc.c ---- */

typedef struct stk_arrow_dictionary {
    int64_t id;
    int more;              /* its entries follow those of the one before */
    stk_arrow_batch batch; /* of one column */
    uint8_t *unpacked;     /* its bytes, where they were packed */
} stk_arrow_dictionary;

typedef struct stk_arrow_ipc { /* a file or stream; points into its bytes */
    /* The bytes, and the file that they are the map of: packed buffers are read from it, since a
     * map of a file that is cut short raises a signal.  -1: there is none. */
    stk_bytes file;
    int fd;
    stk_arrow_schema schema;
    int big; /* endian */
    uint64_t rows;
    uint64_t n, n_dictionaries, cap, cap_dictionaries;
    stk_arrow_batch *batch;
    stk_arrow_dictionary *dictionary;
} stk_arrow_ipc;

int stk_arrow_ipc_open(stk_arrow_ipc **out, stk_bytes file, int fd, stk_error *err);
void stk_arrow_ipc_close(stk_arrow_ipc **x);

/* Buffers of views that a batch has before this field's own; data buffers of this field, which
 * holds views. */
uint32_t stk_arrow_shift(const stk_arrow_batch *b, const stk_arrow_field *f);
uint32_t stk_arrow_views(const stk_arrow_batch *b, const stk_arrow_field *f);

/* ---- packed batches: arrow_packed.c ---- */

/* Bytes that the buffers of a column take when they are unpacked, with a table of them. */
int stk_arrow_column_room(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *out,
                          stk_error *err);
/* Unpack them into as many bytes. */
int stk_arrow_column_unpack(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                            stk_error *err);
/* The batch as it is with that column's buffers unpacked. */
void stk_arrow_column_open(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                           stk_arrow_batch *out);
/* STK_ECORRUPT: the batch, packed or not, claims more rows than any column has bytes for. */
int stk_arrow_rows_check(const stk_arrow_batch *b, const stk_arrow_schema *s, stk_error *err);
/* All packed dictionaries of a file; their memory is the file's. */
int stk_arrow_dictionaries_unpack(stk_arrow_ipc *x, stk_error *err);

#endif
