/* SPDX-License-Identifier: Apache-2.0 */
/* arrow.h - Arrow's columnar memory: what a schema says, and one value of one row.
 *
 * The kind of data for Arrow (table/arrow_*.c) calls it.  Record batches come from IPC messages
 * (arrow_ipc.c), or from another library in this process by the C data interface
 * (table/arrow_memory.c).  In messages every length is checked, because input is hostile.  The
 * interface gives no lengths, so there they are trusted.  Formats: arrow.apache.org/docs/format. */
#ifndef STOKER_FORMAT_ARROW_H
#define STOKER_FORMAT_ARROW_H

#include "base/err.h"

enum {                  /* how values are in memory */
       STK_ARROW_OTHER, /* refused */
       STK_ARROW_NULL,  /* all rows are null, and there are no buffers */
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
    uint8_t wide; /* BYTES, LIST: true if offsets have 64 bits */
    uint8_t nullable;
    uint8_t map;        /* LIST: true for a map, whose elements are structs of key and value */
    uint8_t apart;      /* LIST: true for list views, which have a size beside each offset */
    uint8_t unsigned64; /* u64, which is handed out as i64 if it fits */
    uint8_t text;       /* BYTES, VIEW: true if values are UTF-8 */
    /* NUMBER: the unit of a time, as the C interface calls it: "tss" to "tsn", "tDm", "tdD", "ttu";
     * "": not a time */
    char unit[4];
    stk_dtype dtype;     /* NUMBER, BOOL */
    uint32_t width;      /* bytes of a value; FIXED_LIST: values of a list */
    int32_t scale;       /* DECIMAL */
    const char *refused; /* why it can't be read; NULL: it can */
    int encoded;         /* true if values are numbers of entries of a dictionary */
    int64_t dictionary;  /* id of that dictionary */
    stk_dtype index;     /* type of those numbers */
    uint32_t n;          /* children */
    struct stk_arrow_field *child;
    /* in a record batch: its first node, its first buffer, and the fields with views before it */
    uint32_t node, buffer, views;
    uint32_t n_buffers;
} stk_arrow_field;

typedef struct stk_arrow_leaf { /* a column as it is read: "label", "image.bytes" */
    char *name;
    /* fields from the root on: structs, then the column's field, then the elements of its lists */
    const stk_arrow_field *path[STK_ARROW_DEPTH];
    uint32_t at[STK_ARROW_DEPTH]; /* number of each as a child of the one before */
    uint32_t depth, item;         /* index in `path` of the field, and of its lists' elements */
    const char *refused;          /* why it can't be read; NULL: it can */
    stk_dtype dtype;              /* 0: bytes */
    int list, nullable;
    int texts;     /* lists of texts: stk_arrow_texts() turns them into JSON */
    int blobs;     /* lists of bytes: only for pictures, as a length and the bytes of each */
    int decimal;   /* decimals, not lists: stk_arrow_decimal() turns them into f64 */
    int64_t fixed; /* number of values of each list; -1: it differs */
    int fills;     /* lists of integers: true if `fill` replaces nulls in them */
    int64_t fill;
} stk_arrow_leaf;

typedef struct stk_arrow_schema {
    stk_arrow_field root; /* a struct whose children are the columns */
    uint32_t n;
    stk_arrow_leaf *leaf; /* columns that can't be read come last */
    uint32_t n_readable;
} stk_arrow_schema;

/* Numbers the fields and makes the leaves; root must be filled in. */
int stk_arrow_settle(stk_arrow_schema *s, stk_error *err);
/* Sets the value that replaces nulls in lists of integers.  STK_EINVAL: the type of some list does
 * not hold it. */
int stk_arrow_fill_lists(stk_arrow_schema *s, int64_t value, stk_error *err);
/* The field with the values: that of the column, or of its lists' elements. */
static inline const stk_arrow_field *stk_arrow_value_field(const stk_arrow_leaf *l)
{
    return l->path[(l->item ? l->item : l->depth) - 1];
}
/* arrow_types.c: STK_EINVAL, STK_ENOTSUP: a column has another type here than in the files before,
 * or is missing in one of them. */
int stk_arrow_compare(const stk_arrow_schema *before, const stk_arrow_schema *here, stk_error *err);
/* The same for one column: `l` in this file, `was` in those before. */
int stk_arrow_compare_column(const stk_arrow_leaf *was, const stk_arrow_leaf *l, stk_error *err);
/* 1: a column of nulls without a type, which goes with any type. */
int stk_arrow_is_nothing(const stk_arrow_leaf *l);
void stk_arrow_schema_fini(stk_arrow_schema *s);

typedef struct stk_arrow_column { /* buffers of a field in one batch */
    /* bits of validity (NULL: no nulls); values or offsets; bytes of texts */
    const uint8_t *valid, *a, *b;
    uint64_t n_valid, n_a, n_b; /* bytes of each; UINT64_MAX: not known */
    uint64_t offset, rows;      /* first row; number of rows, UINT64_MAX: not known */
    const void *const *view;    /* VIEW: data buffers in memory of another library; or NULL */
    const void *ipc;            /* VIEW: the batch that has the data buffers; or NULL */
    uint32_t view_at, n_views;
} stk_arrow_column;

struct stk_arrow_batch;
/* How a batch finds buffers, which differs between IPC and memory of another library. */
typedef struct stk_arrow_reach {
    int (*column)(const struct stk_arrow_batch *b, const stk_arrow_leaf *l, uint32_t depth,
                  const stk_arrow_field *f, stk_arrow_column *out, stk_error *err);
    /* Sets *out to the values with entry *at of a dictionary, and *at to its index among them. */
    int (*dictionary)(const struct stk_arrow_batch *b, const stk_arrow_leaf *l,
                      const stk_arrow_field *f, uint64_t *at, stk_arrow_column *out,
                      stk_error *err);
    int (*view)(const stk_arrow_column *c, uint32_t i, stk_bytes *out);
} stk_arrow_reach;

typedef struct stk_arrow_batch {
    const stk_arrow_reach *reach;
    uint64_t first, rows; /* its rows in the file */
    const void *from;     /* data of `reach` */
    uint32_t order;
    /* the fields below are for IPC */
    const uint8_t *node, *buffer, *variadic, *body;
    uint32_t n_nodes, n_buffers, n_variadic;
    uint32_t first_buffer; /* number of the first entry in `buffer` */
    uint64_t body_len;
    /* STK_ARROW_LZ4, ...: buffers have to be unpacked first, by stk_arrow_column_unpack() */
    int packed;
    int big; /* with `packed`: numbers in the buffers are big-endian */
    const char *refused;
    /* copies of node, buffer and variadic, so that the file's map is not read for them */
    void *own;
} stk_arrow_batch;

/* Values of stk_arrow_batch.packed; BARE: buffers are not compressed, but big-endian. */
enum { STK_ARROW_LZ4 = 1, STK_ARROW_ZSTD, STK_ARROW_BARE };
/* Unpacks a buffer to exactly `len` bytes. */
int stk_arrow_unpack_buffer(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

/* Sets *out to the value of a row, in the batch's memory or constant.  STK_ENOTFOUND: null.
 * STK_ARROW_MADE: a list that has to be made, because it has nulls, booleans, decimals or texts:
 * stk_arrow_list_make() or stk_arrow_texts() makes out->len bytes. */
int stk_arrow_value(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, stk_bytes *out,
                    stk_error *err);
/* Sets *out to the values of consecutive rows from `row` on, and returns of how many, at most n; it
 * stops before a null.  0: ask for the rows one by one. */
uint64_t stk_arrow_rows(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t n,
                        stk_bytes *out);
/* A decimal from stk_arrow_value(), as f64; or as text in `room` bytes, filled up with zeros. */
double stk_arrow_decimal(const stk_arrow_leaf *l, stk_bytes value);
size_t stk_arrow_decimal_room(const stk_arrow_leaf *l); /* bytes of the text */
void stk_arrow_decimal_text(const stk_arrow_leaf *l, stk_bytes value, uint8_t *out, size_t room);

/* ---- lists that have to be made, since they are not stored as they are handed out ---- */

enum { STK_ARROW_MADE = 1 };

/* 1: some lists of this batch have to be made. */
int stk_arrow_has_made(const stk_arrow_batch *b, const stk_arrow_leaf *l);
/* Sets *n to the number of values in all lists of the batch, and *bytes to their bytes in its
 * buffers. */
int stk_arrow_items(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *n, uint64_t *bytes,
                    stk_error *err);
/* Sets *from and *n to the values of a row's list.  STK_ENOTFOUND: the list is null.  STK_ECORRUPT:
 * it has a null that nothing replaces. */
int stk_arrow_list(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t *from,
                   uint64_t *n, stk_error *err);
/* Makes the values as they are handed out: n values of l->dtype at dst. */
int stk_arrow_list_make(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t from,
                        uint64_t n, uint8_t *dst, stk_error *err);

/* Adds the list of texts of a row to *t (format/text_list.h).  STK_ENOTFOUND: the list is null. */
struct stk_text_list;
int stk_arrow_texts(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row,
                    struct stk_text_list *t, stk_error *err);

/* ---- IPC: arrow_ipc.c ---- */

typedef struct stk_arrow_dictionary {
    int64_t id;
    int more;              /* true if its entries come after those of the entry before */
    stk_arrow_batch batch; /* a batch of one column */
    uint8_t *unpacked;     /* its bytes, if they were packed */
} stk_arrow_dictionary;

typedef struct stk_arrow_ipc { /* a file or stream; points into its bytes */
    /* Its bytes, and the descriptor of the file that they are a map of; -1: none.  Packed buffers
     * are read from the file: a map of a file that is cut short raises a signal. */
    stk_bytes file;
    int fd;
    stk_arrow_schema schema;
    int big; /* big-endian */
    uint64_t rows;
    uint64_t n, n_dictionaries, cap, cap_dictionaries;
    stk_arrow_batch *batch;
    stk_arrow_dictionary *dictionary;
} stk_arrow_ipc;

int stk_arrow_ipc_open(stk_arrow_ipc **out, stk_bytes file, int fd, stk_error *err);
void stk_arrow_ipc_close(stk_arrow_ipc **x);

/* shift(): how many data buffers of views the batch has before this field's buffers.  views(): how
 * many data buffers this field of views has. */
uint32_t stk_arrow_shift(const stk_arrow_batch *b, const stk_arrow_field *f);
uint32_t stk_arrow_views(const stk_arrow_batch *b, const stk_arrow_field *f);

/* ---- packed batches: arrow_packed.c ---- */

/* Sets *out to the bytes that a column's unpacked buffers take, with a table of them. */
int stk_arrow_column_room(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *out,
                          stk_error *err);
/* Unpacks the buffers of a column into `room`, which has as many bytes. */
int stk_arrow_column_unpack(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                            stk_error *err);
/* Sets *out to the batch with the column's unpacked buffers in `room`. */
void stk_arrow_column_open(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                           stk_arrow_batch *out);
/* STK_ECORRUPT: the batch, packed or not, claims more rows than any column has bytes for. */
int stk_arrow_rows_check(const stk_arrow_batch *b, const stk_arrow_schema *s, stk_error *err);
/* Unpacks all packed dictionaries of a file, which owns their memory. */
int stk_arrow_dictionaries_unpack(stk_arrow_ipc *x, stk_error *err);

#endif
