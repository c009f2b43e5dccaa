/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_ipc.c - Arrow's IPC messages: a stream, or a file, which has marks around it and a list of
 * its messages at the end.  A file without that list (it was not closed) is read as a stream.
 *
 * Metadata are flatbuffers (arrow_flat.h).  Messages are walked once; of a record batch only the
 * places of its two tables (nodes, buffers) are kept, and these are looked into when a value is
 * asked for. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "format/arrow.h"
#include "format/arrow_flat.h"

#define MAX_CHILDREN 20000u
#define MARK "ARROW1"
#define BLOCK 24u   /* bytes of a footer's entry */
#define VERSION_5 4 /* as metadata count theirs, from 0 */

/* Fields of the tables in Schema.fbs, Message.fbs and File.fbs of Arrow's format. */
enum { INT_BITS, INT_SIGNED };
enum { FLOAT_PRECISION };
enum { DECIMAL_PRECISION, DECIMAL_SCALE, DECIMAL_BITS };
enum { TIME_UNIT, TIME_BITS }; /* also of dates, timestamps and durations */
enum { FIXED_SIZE };
enum { UNION_MODE };
enum { ENCODING_ID, ENCODING_INDEX };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_KIND, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };
enum { SCHEMA_ENDIAN, SCHEMA_FIELDS };
enum { PAIR_KEY, PAIR_VALUE };
enum { COMPRESSION_CODEC, COMPRESSION_METHOD };
enum { BATCH_ROWS, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VARIADIC };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_DELTA };
enum { MESSAGE_VERSION, MESSAGE_KIND, MESSAGE_HEADER, MESSAGE_BODY, MESSAGE_METADATA };
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_BATCHES };

enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY, HEADER_BATCH }; /* MESSAGE_KIND */

enum { /* FIELD_KIND */
       TYPE_NULL = 1,
       TYPE_INT,
       TYPE_FLOAT,
       TYPE_BINARY,
       TYPE_UTF8,
       TYPE_BOOL,
       TYPE_DECIMAL,
       TYPE_DATE,
       TYPE_TIME,
       TYPE_TIMESTAMP,
       TYPE_INTERVAL,
       TYPE_LIST,
       TYPE_STRUCT,
       TYPE_UNION,
       TYPE_FIXED_BINARY,
       TYPE_FIXED_LIST,
       TYPE_MAP,
       TYPE_DURATION,
       TYPE_LARGE_BINARY,
       TYPE_LARGE_UTF8,
       TYPE_LARGE_LIST,
       TYPE_RUN_END,
       TYPE_BINARY_VIEW,
       TYPE_UTF8_VIEW,
       TYPE_LIST_VIEW,
       TYPE_LARGE_LIST_VIEW,
};

static int bad(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "metadata of an Arrow message that point outside it");
}

/* ---- the schema ---- */

static void set(stk_arrow_field *f, uint8_t type, uint32_t n_buffers)
{
    f->type = type;
    f->n_buffers = n_buffers;
}

static void set_number(stk_arrow_field *f, stk_dtype dtype)
{
    set(f, STK_ARROW_NUMBER, 2);
    f->dtype = dtype;
    f->width = (uint32_t)stk_dtype_size(dtype);
}

static stk_dtype whole(int64_t bits, int is_signed)
{
    switch (bits) {
    case 8: return is_signed ? STK_I8 : STK_U8;
    case 16: return is_signed ? STK_I16 : STK_U16;
    case 32: return is_signed ? STK_I32 : STK_U32;
    case 64: return STK_I64;
    default: return 0;
    }
}

static void refuse(stk_arrow_field *f, uint32_t n_buffers, const char *why)
{
    set(f, STK_ARROW_OTHER, n_buffers);
    f->refused = why;
}

static void read_int(stk_arrow_field *f, const table *t)
{
    int is_signed = number_of(t, INT_SIGNED, 1, 0) != 0;
    int64_t bits = number_of(t, INT_BITS, 4, 0);

    if (!whole(bits, is_signed)) {
        refuse(f, 2, "integers of this width are not known");
        return;
    }
    set_number(f, whole(bits, is_signed));
    f->unsigned64 = bits == 64 && !is_signed;
}

/* kind: d date, t time of day, s timestamp, D duration. */
static void set_time(stk_arrow_field *f, stk_dtype dtype, char kind, char unit)
{
    set_number(f, dtype);
    f->unit[0] = 't';
    f->unit[1] = kind;
    f->unit[2] = unit;
}

static void set_bytes(stk_arrow_field *f, uint8_t type, int text)
{
    set(f, type, type == STK_ARROW_VIEW ? 2 : 3);
    f->text = text != 0;
}

static void read_float(stk_arrow_field *f, const table *t)
{
    int64_t precision = number_of(t, FLOAT_PRECISION, 2, 0);

    set_number(f, precision == 0 ? STK_F16 : precision == 1 ? STK_F32 : STK_F64);
}

static void read_fixed(stk_arrow_field *f, uint8_t type, const table *t)
{
    int64_t n = number_of(t, FIXED_SIZE, 4, 0);

    if (n < 0)
        refuse(f, type == STK_ARROW_FIXED ? 2 : 1, "its size is below zero");
    else
        set(f, type, type == STK_ARROW_FIXED ? 2 : 1);
    f->width = n < 0 ? 0 : (uint32_t)n;
}

static void read_decimal(stk_arrow_field *f, const table *t)
{
    int64_t scale = number_of(t, DECIMAL_SCALE, 4, 0), bits = number_of(t, DECIMAL_BITS, 4, 128);

    if ((bits != 32 && bits != 64 && bits != 128 && bits != 256) || scale < -300 || scale > 300) {
        refuse(f, 2, "decimals of this width are not known");
        return;
    }
    set(f, STK_ARROW_DECIMAL, 2);
    f->dtype = STK_F64;
    f->width = (uint32_t)bits / 8;
    f->scale = (int32_t)scale;
}

/* Up to version 4 of the metadata unions had bits of validity too. */
static void read_union(stk_arrow_field *f, const table *t, int64_t version)
{
    int dense = number_of(t, UNION_MODE, 2, 0) != 0;

    refuse(f, (dense ? 2u : 1u) + (version < VERSION_5), "unions are not read");
}

static void read_type(stk_arrow_field *f, int64_t kind, const table *t, int64_t version)
{
    switch (kind) {
    case TYPE_NULL: set(f, STK_ARROW_NULL, 0); break;
    case TYPE_INT: read_int(f, t); break;
    case TYPE_FLOAT: read_float(f, t); break;
    case TYPE_BINARY:
    case TYPE_UTF8: set_bytes(f, STK_ARROW_BYTES, kind == TYPE_UTF8); break;
    case TYPE_BOOL:
        set(f, STK_ARROW_BOOL, 2);
        f->dtype = STK_U8;
        break;
    case TYPE_DECIMAL: read_decimal(f, t); break;
    case TYPE_DATE:
        set_time(f, number_of(t, TIME_UNIT, 2, 1) == 0 ? STK_I32 : STK_I64, 'd',
                 number_of(t, TIME_UNIT, 2, 1) == 0 ? 'D' : 'm');
        break;
    case TYPE_TIME:
        set_time(f, number_of(t, TIME_BITS, 4, 32) == 64 ? STK_I64 : STK_I32, 't',
                 "smun"[number_of(t, TIME_UNIT, 2, 1) & 3]);
        break;
    case TYPE_TIMESTAMP:
        set_time(f, STK_I64, 's', "smun"[number_of(t, TIME_UNIT, 2, 0) & 3]);
        break;
    case TYPE_INTERVAL: refuse(f, 2, "intervals are not read"); break;
    case TYPE_DURATION: set_time(f, STK_I64, 'D', "smun"[number_of(t, TIME_UNIT, 2, 1) & 3]); break;
    case TYPE_LIST: set(f, STK_ARROW_LIST, 2); break;
    case TYPE_STRUCT: set(f, STK_ARROW_STRUCT, 1); break;
    case TYPE_UNION: read_union(f, t, version); break;
    case TYPE_FIXED_BINARY: read_fixed(f, STK_ARROW_FIXED, t); break;
    case TYPE_FIXED_LIST: read_fixed(f, STK_ARROW_FIXED_LIST, t); break;
    case TYPE_MAP:
        set(f, STK_ARROW_LIST, 2);
        f->map = 1;
        break;
    case TYPE_LARGE_BINARY:
    case TYPE_LARGE_UTF8:
        set_bytes(f, STK_ARROW_BYTES, kind == TYPE_LARGE_UTF8);
        f->wide = 1;
        break;
    case TYPE_LARGE_LIST:
        set(f, STK_ARROW_LIST, 2);
        f->wide = 1;
        break;
    case TYPE_RUN_END: refuse(f, 0, "run-end encoded columns are not read"); break;
    case TYPE_BINARY_VIEW:
    case TYPE_UTF8_VIEW: set_bytes(f, STK_ARROW_VIEW, kind == TYPE_UTF8_VIEW); break;
    case TYPE_LIST_VIEW:
    case TYPE_LARGE_LIST_VIEW: refuse(f, 3, "list views are not read"); break;
    default: refuse(f, 2, "its type is not known");
    }
}

static int read_dictionary(stk_arrow_field *f, const table *t)
{
    table index;

    f->encoded = 1;
    f->dictionary = number_of(t, ENCODING_ID, 8, 0);
    if (table_in(t, ENCODING_INDEX, &index) < 0)
        return -1;
    f->index = index.at ? whole(number_of(&index, INT_BITS, 4, 0),
                                number_of(&index, INT_SIGNED, 1, 0) != 0)
                        : STK_I32;
    if (!f->index)
        f->refused = "its dictionary is numbered by no known type";
    else if (f->type == STK_ARROW_STRUCT || f->type == STK_ARROW_LIST ||
             f->type == STK_ARROW_FIXED_LIST)
        f->refused = "its dictionary has nested values";
    return 0;
}

typedef struct reading { /* a schema */
    int64_t version;
    uint32_t total; /* fields so far */
} reading;

static int read_children(stk_arrow_field *f, const table *t, uint32_t i, uint32_t depth, reading *r,
                         stk_error *err);

static int read_field(stk_arrow_field *f, const table *t, uint32_t depth, reading *r,
                      stk_error *err)
{
    const uint8_t *name;
    table type, dictionary;
    uint32_t len;

    if (depth >= STK_ARROW_DEPTH || ++r->total > MAX_CHILDREN)
        return stk_fail(err, STK_ELIMIT, "a schema of more than %u fields, or more than %d deep",
                        MAX_CHILDREN, STK_ARROW_DEPTH);
    if (vector_in(t, FIELD_NAME, 1, &name, &len) < 0 || table_in(t, FIELD_TYPE, &type) < 0 ||
        table_in(t, FIELD_DICTIONARY, &dictionary) < 0)
        return bad(err);
    f->name = stk_strndup(name ? (const char *)name : "", name ? len : 0);
    if (!f->name)
        return stk_fail_nomem(err, len);
    f->nullable = number_of(t, FIELD_NULLABLE, 1, 0) != 0;
    read_type(f, number_of(t, FIELD_KIND, 1, 0) & 0xFF, &type, r->version);
    if (dictionary.at && read_dictionary(f, &dictionary) < 0)
        return bad(err);
    return read_children(f, t, FIELD_CHILDREN, depth, r, err);
}

static int read_children(stk_arrow_field *f, const table *t, uint32_t i, uint32_t depth, reading *r,
                         stk_error *err)
{
    const uint8_t *list;
    uint32_t n;

    if (vector_in(t, i, 4, &list, &n) < 0)
        return bad(err);
    if (n > MAX_CHILDREN)
        return stk_fail(err, STK_ELIMIT, "a schema of %u fields", n);
    f->child = stk_zalloc(n + 1u, sizeof *f->child);
    if (!f->child)
        return stk_fail_nomem(err, n * sizeof *f->child);
    for (uint32_t k = 0; k < n; k++) {
        size_t at = (size_t)(list - t->all.data) + 4 * (size_t)k;
        table child;

        if (table_at(t->all, at + (size_t)little(t->all.data + at, 4), &child) < 0)
            return bad(err);
        f->n++;
        STK_TRY(read_field(&f->child[k], &child, depth + 1, r, err));
    }
    return 0;
}

/* `version`: of the metadata that it is in. */
static int read_schema(stk_arrow_ipc *x, const table *t, int64_t version, stk_error *err)
{
    reading r = { .version = version };

    if (x->schema.n || x->schema.root.child)
        return stk_fail(err, STK_ECORRUPT, "a second schema");
    x->big = number_of(t, SCHEMA_ENDIAN, 2, 0) != 0;
    x->schema.root.name = stk_strdup("");
    if (!x->schema.root.name)
        return stk_fail_nomem(err, 1);
    STK_TRY(read_children(&x->schema.root, t, SCHEMA_FIELDS, 0, &r, err));
    return stk_arrow_settle(&x->schema, err);
}

/* ---- batches ---- */

/* Buffer i of a batch; the bytes are in its body. */
static int buffer_of(const stk_arrow_batch *b, uint32_t i, const uint8_t **out, uint64_t *len)
{
    uint64_t at, n;

    if (i < b->first_buffer || i - b->first_buffer >= b->n_buffers)
        return -1;
    i -= b->first_buffer;
    at = little(b->buffer + 16 * (size_t)i, 8);
    n = little(b->buffer + 16 * (size_t)i + 8, 8);
    if (at > b->body_len || n > b->body_len - at)
        return -1;
    *out = n ? b->body + at : NULL;
    *len = n;
    return 0;
}

static int outside(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "a record batch whose buffers are outside it");
}

uint32_t stk_arrow_shift(const stk_arrow_batch *b, const stk_arrow_field *f)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->views && i < b->n_variadic; i++)
        n += (uint32_t)little(b->variadic + 8 * (size_t)i, 8);
    return n;
}

uint32_t stk_arrow_views(const stk_arrow_batch *b, const stk_arrow_field *f)
{
    return f->type == STK_ARROW_VIEW && !f->encoded && f->views < b->n_variadic
               ? (uint32_t)little(b->variadic + 8 * (size_t)f->views, 8)
               : 0;
}

static int column_at(const stk_arrow_batch *b, const stk_arrow_field *f, uint32_t node,
                     uint32_t first, stk_arrow_column *out, stk_error *err)
{
    uint64_t nulls;

    *out = (stk_arrow_column){ .ipc = b };
    first += node ? stk_arrow_shift(b, f) : 0;
    if (node >= b->n_nodes || buffer_of(b, first, &out->valid, &out->n_valid) < 0)
        return outside(err);
    out->rows = little(b->node + 16 * (size_t)node, 8);
    nulls = little(b->node + 16 * (size_t)node + 8, 8);
    if (!nulls)
        out->valid = NULL;
    else if (!out->valid && out->rows)
        return outside(err);
    if ((f->encoded || f->n_buffers > 1) && buffer_of(b, first + 1, &out->a, &out->n_a) < 0)
        return outside(err);
    if (!f->encoded && f->n_buffers > 2 && buffer_of(b, first + 2, &out->b, &out->n_b) < 0)
        return outside(err);
    out->view_at = first + 2;
    out->n_views = f->type == STK_ARROW_VIEW && (node ? f->views : 0) < b->n_variadic
                       ? (uint32_t)little(b->variadic + 8 * (size_t)(node ? f->views : 0), 8)
                       : 0;
    return 0;
}

static int ipc_column(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint32_t depth,
                      const stk_arrow_field *f, stk_arrow_column *out, stk_error *err)
{
    (void)l, (void)depth;
    return column_at(b, f, f->node, f->buffer, out, err);
}

/* The dictionary as it was when the batch was written, else the first; *at may be in a piece that
 * came later. */
static int ipc_dictionary(const stk_arrow_batch *b, const stk_arrow_leaf *l,
                          const stk_arrow_field *f, uint64_t *at, stk_arrow_column *out,
                          stk_error *err)
{
    const stk_arrow_ipc *x = b->from;
    const stk_arrow_dictionary *found = NULL, *end = x->dictionary + x->n_dictionaries;
    stk_arrow_field values = *f;

    for (const stk_arrow_dictionary *d = x->dictionary; d < end; d++)
        if (d->id == f->dictionary && !d->more && (!found || d->batch.order < b->order))
            found = d;
    if (!found)
        return stk_fail(err, STK_ECORRUPT, "column %.60s: its dictionary is missing", l->name);
    for (const stk_arrow_dictionary *d = found + 1; d < end && *at >= found->batch.rows; d++) {
        if (d->id != f->dictionary)
            continue;
        if (!d->more)
            break;
        *at -= found->batch.rows;
        found = d;
    }
    if (found->batch.refused)
        return stk_fail(err, STK_ENOTSUP, "column %.60s: not supported because %s", l->name,
                        found->batch.refused);
    values.encoded = 0;
    return column_at(&found->batch, &values, 0, 0, out, err);
}

static int ipc_view(const stk_arrow_column *c, uint32_t i, stk_bytes *out)
{
    const uint8_t *p;
    uint64_t len;

    if (i >= c->n_views || buffer_of(c->ipc, c->view_at + i, &p, &len) < 0)
        return -1;
    *out = (stk_bytes){ p, (size_t)len };
    return 0;
}

static const stk_arrow_reach reach = { ipc_column, ipc_dictionary, ipc_view };

#define PACKED_SOMEHOW                                                                             \
    "the file is compressed in a way that is not known: write it with compression=None"

static void read_packing(const table *t, stk_arrow_batch *out)
{
    int64_t codec = number_of(t, COMPRESSION_CODEC, 1, 0);

    out->packed = codec == 0 ? STK_ARROW_LZ4 : codec == 1 ? STK_ARROW_ZSTD : 0;
    if (!out->packed || number_of(t, COMPRESSION_METHOD, 1, 0) != 0)
        out->refused = PACKED_SOMEHOW;
}

static int is_text(const uint8_t *s, uint32_t n, const char *text)
{
    return s && n == strlen(text) && !strncasecmp((const char *)s, text, n);
}

/* Arrow 0.17 had no place for the codec yet: it is among the message's own keys and values. */
static int read_old_packing(const table *message, stk_arrow_batch *out)
{
    const uint8_t *list, *key, *value;
    uint32_t n, n_key, n_value;

    if (vector_in(message, MESSAGE_METADATA, 4, &list, &n) < 0)
        return -1;
    for (uint32_t k = 0; k < n; k++) {
        size_t at = (size_t)(list - message->all.data) + 4 * (size_t)k;
        table pair;

        if (table_at(message->all, at + (size_t)little(message->all.data + at, 4), &pair) < 0 ||
            vector_in(&pair, PAIR_KEY, 1, &key, &n_key) < 0 ||
            vector_in(&pair, PAIR_VALUE, 1, &value, &n_value) < 0)
            return -1;
        if (!is_text(key, n_key, "ARROW:experimental_compression") ||
            is_text(value, n_value, "uncompressed"))
            continue;
        out->packed = is_text(value, n_value, "lz4")    ? STK_ARROW_LZ4
                      : is_text(value, n_value, "zstd") ? STK_ARROW_ZSTD
                                                        : 0;
        out->refused = out->packed ? NULL : PACKED_SOMEHOW;
    }
    return 0;
}

typedef struct message {
    int64_t version;
    table head;
    stk_bytes body;
    uint32_t order;
} message;

static const uint8_t *put_table(uint8_t **to, const uint8_t *from, size_t n)
{
    uint8_t *at = *to;

    if (n)
        memcpy(at, from, n);
    *to += n;
    return at;
}

static int own_tables(stk_arrow_batch *b, stk_error *err)
{
    size_t nodes = 16 * (size_t)b->n_nodes, buffers = 16 * (size_t)b->n_buffers,
           variadic = 8 * (size_t)b->n_variadic;
    uint8_t *to = b->own = stk_alloc(nodes + buffers + variadic + 1);

    if (!to)
        return stk_fail_nomem(err, nodes + buffers + variadic);
    b->node = put_table(&to, b->node, nodes);
    b->buffer = put_table(&to, b->buffer, buffers);
    b->variadic = put_table(&to, b->variadic, variadic);
    return 0;
}

static int read_batch(const stk_arrow_ipc *x, const table *t, const message *m,
                      stk_arrow_batch *out, stk_error *err)
{
    table packed;

    *out = (stk_arrow_batch){ .reach = &reach,
                              .body = m->body.data,
                              .body_len = m->body.len,
                              .from = x,
                              .big = x->big,
                              .order = m->order };
    out->rows = (uint64_t)number_of(t, BATCH_ROWS, 8, 0);
    if (out->rows > (uint64_t)1 << 62 ||
        vector_in(t, BATCH_NODES, 16, &out->node, &out->n_nodes) < 0 ||
        vector_in(t, BATCH_BUFFERS, 16, &out->buffer, &out->n_buffers) < 0 ||
        table_in(t, BATCH_COMPRESSION, &packed) < 0 ||
        vector_in(t, BATCH_VARIADIC, 8, &out->variadic, &out->n_variadic) < 0)
        return bad(err);
    if (packed.at)
        read_packing(&packed, out);
    else if (read_old_packing(&m->head, out) < 0)
        return bad(err);
    if (out->big && !out->packed)
        out->packed = STK_ARROW_BARE;
    return own_tables(out, err);
}

static int add_batch(stk_arrow_ipc *x, const table *t, const message *m, stk_error *err)
{
    stk_arrow_batch *b;

    if (x->n == x->cap) {
        uint64_t cap = x->cap ? 2 * x->cap : 16;
        stk_arrow_batch *grown = stk_grow(x->batch, x->n * sizeof *b, cap * sizeof *b);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *b);
        x->batch = grown;
        x->cap = cap;
    }
    b = &x->batch[x->n++]; /* the file's, also when what follows fails */
    STK_TRY(read_batch(x, t, m, b, err));
    b->first = x->rows;
    STK_TRY(stk_arrow_rows_check(b, &x->schema, err));
    if (b->rows > ((uint64_t)1 << 62) - x->rows)
        return stk_fail(err, STK_ECORRUPT, "more than 2^62 rows");
    x->rows += b->rows;
    return 0;
}

static int add_dictionary(stk_arrow_ipc *x, const table *t, const message *m, stk_error *err)
{
    stk_arrow_dictionary *d;
    table data;

    if (table_in(t, DICTIONARY_DATA, &data) < 0 || !data.at)
        return bad(err);
    if (x->n_dictionaries == x->cap_dictionaries) {
        uint64_t cap = x->cap_dictionaries ? 2 * x->cap_dictionaries : 4;
        stk_arrow_dictionary *grown = stk_grow(x->dictionary, x->n_dictionaries * sizeof *d,
                                               cap * sizeof *d);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *d);
        x->dictionary = grown;
        x->cap_dictionaries = cap;
    }
    d = &x->dictionary[x->n_dictionaries++];
    *d = (stk_arrow_dictionary){ .id = number_of(t, DICTIONARY_ID, 8, 0),
                                 .more = number_of(t, DICTIONARY_DELTA, 1, 0) != 0 };
    return read_batch(x, &data, m, &d->batch, err);
}

/* ---- messages ---- */

static int version_check(int64_t version, stk_error *err)
{
    if (version == VERSION_5 || version == VERSION_5 - 1)
        return 0;
    return stk_fail(err, STK_ENOTSUP,
                    "metadata of version %" PRId64 ": those of Arrow 0.8 and later are read, which "
                    "are versions 4 and 5; write the file again with a newer Arrow",
                    version + 1);
}

/* The message at *at: 1, and *at after it; 0: the stream ends here. */
static int message_at(stk_bytes in, size_t *at, message *m, stk_error *err)
{
    size_t p = *at;
    uint64_t head, body;
    stk_bytes meta;

    if (in.len - p < 4)
        return 0;
    head = little(in.data + p, 4);
    p += 4;
    if (head == 0xFFFFFFFFu) { /* before version 0.15 the length came at once */
        if (in.len - p < 4)
            return stk_fail(err, STK_ECORRUPT, "an Arrow message is cut off");
        head = little(in.data + p, 4);
        p += 4;
    }
    if (!head)
        return 0;
    if (head > INT32_MAX || head > in.len - p)
        return stk_fail(err, STK_ECORRUPT,
                        "an Arrow message of %" PRIu64 " bytes of metadata is cut off", head);
    meta = (stk_bytes){ in.data + p, (size_t)head };
    p += head;
    if (meta.len < 4 || table_at(meta, (size_t)little(meta.data, 4), &m->head) < 0)
        return bad(err);
    m->version = number_of(&m->head, MESSAGE_VERSION, 2, 0);
    STK_TRY(version_check(m->version, err));
    body = (uint64_t)number_of(&m->head, MESSAGE_BODY, 8, 0);
    if (body > in.len - p)
        return stk_fail(err, STK_ECORRUPT, "an Arrow message of %" PRIu64 " bytes is cut off",
                        body);
    m->body = (stk_bytes){ in.data + p, (size_t)body };
    *at = p + body;
    return 1;
}

/* As message_at(), and what it says is taken. */
static int next(stk_arrow_ipc *x, stk_bytes in, size_t *at, uint32_t order, stk_error *err)
{
    message m = { .order = order };
    table header;
    int rc = message_at(in, at, &m, err);

    if (rc <= 0)
        return rc;
    if (table_in(&m.head, MESSAGE_HEADER, &header) < 0)
        return bad(err);
    switch (number_of(&m.head, MESSAGE_KIND, 1, 0)) {
    case HEADER_SCHEMA: STK_TRY(read_schema(x, &header, m.version, err)); break;
    case HEADER_DICTIONARY: STK_TRY(add_dictionary(x, &header, &m, err)); break;
    case HEADER_BATCH: STK_TRY(add_batch(x, &header, &m, err)); break;
    default: return stk_fail(err, STK_ENOTSUP, "an Arrow message that is not a table");
    }
    return 1;
}

static int walk(stk_arrow_ipc *x, stk_bytes file, stk_error *err)
{
    size_t at = file.len >= 8 && !memcmp(file.data, MARK, 6) ? 8 : 0;
    uint32_t order = 0;
    int rc = 1;

    if (file.len >= 4 && !memcmp(file.data, "FEA1", 4))
        return stk_fail(err, STK_ENOTSUP,
                        "Feather version 1 is not read: write it again as version 2, "
                        "feather.write_feather(feather.read_table(path), path)");

    while (rc == 1 && at < file.len) {
        size_t here = at;

        rc = next(x, file, &at, order++, err);
        if (rc < 0)
            stk_error_at(err, NULL, here, (stk_bytes){ 0 });
    }
    if (rc >= 0 && !x->schema.root.child)
        rc = stk_fail(err, STK_ECORRUPT, "not an Arrow file or stream: it has no schema");
    return rc < 0 ? rc : 0;
}

/* ---- files: what the footer lists ---- */

/* 1: the file has a footer. */
static int footer_of(stk_bytes file, table *out)
{
    stk_bytes all;
    uint64_t n;

    if (file.len < 8 + 10 || memcmp(file.data, MARK, 6) != 0 ||
        memcmp(file.data + file.len - 6, MARK, 6) != 0)
        return 0;
    n = little(file.data + file.len - 10, 4);
    if (n < 4 || n > file.len - 18)
        return 0;
    all = (stk_bytes){ file.data + file.len - 10 - n, (size_t)n };
    return table_at(all, (size_t)little(all.data, 4), out) == 0;
}

/* The messages of a list of the footer. */
static int read_blocks(stk_arrow_ipc *x, stk_bytes file, const table *footer, uint32_t i,
                       uint32_t *order, stk_error *err)
{
    const uint8_t *block;
    uint32_t n;

    if (vector_in(footer, i, BLOCK, &block, &n) < 0)
        return bad(err);
    for (uint32_t k = 0; k < n; k++, ++*order) {
        uint64_t here = little(block + BLOCK * (size_t)k, 8);
        size_t at = (size_t)here;
        int rc = here < file.len ? next(x, file, &at, *order, err) : bad(err);

        if (rc == 0)
            rc = bad(err);
        if (rc < 0) {
            stk_error_at(err, NULL, here, (stk_bytes){ 0 });
            return rc;
        }
    }
    return 0;
}

/* Of the first batch, since the footer's own may be another. */
static int64_t version_of(stk_bytes file, const table *footer)
{
    message m = { .version = VERSION_5 };
    const uint8_t *block;
    uint32_t n;
    size_t at;

    if (vector_in(footer, FOOTER_BATCHES, BLOCK, &block, &n) == 0 && n) {
        at = (size_t)little(block, 8);
        if (at < file.len)
            (void)message_at(file, &at, &m, NULL);
    }
    return m.version;
}

/* Dictionaries first, since batches may come before pieces of them.  What comes after the first
 * mark is not looked at: Polars writes its schema there without a length. */
static int read_footer(stk_arrow_ipc *x, stk_bytes file, const table *footer, stk_error *err)
{
    uint32_t order = 0;
    table schema;

    if (table_in(footer, FOOTER_SCHEMA, &schema) < 0 || !schema.at)
        return bad(err);
    STK_TRY(read_schema(x, &schema, version_of(file, footer), err));
    STK_TRY(read_blocks(x, file, footer, FOOTER_DICTIONARIES, &order, err));
    return read_blocks(x, file, footer, FOOTER_BATCHES, &order, err);
}

int stk_arrow_ipc_open(stk_arrow_ipc **out, stk_bytes file, int fd, stk_error *err)
{
    stk_arrow_ipc *x = STK_NEW(stk_arrow_ipc);
    table footer;
    int rc = 0;

    *out = x;
    if (!x)
        return stk_fail_nomem(err, sizeof *x);
    x->file = file;
    x->fd = fd;
    rc = footer_of(file, &footer) ? read_footer(x, file, &footer, err) : walk(x, file, err);
    if (rc < 0)
        stk_arrow_ipc_close(out);
    return rc;
}

void stk_arrow_ipc_close(stk_arrow_ipc **x)
{
    stk_arrow_ipc *y = *x;

    *x = NULL;
    if (!y)
        return;
    stk_arrow_schema_fini(&y->schema);
    for (uint64_t i = 0; i < y->n; i++)
        stk_free(y->batch[i].own);
    stk_free(y->batch);
    for (uint64_t i = 0; i < y->n_dictionaries; i++) {
        stk_free(y->dictionary[i].batch.own);
        stk_free(y->dictionary[i].unpacked);
    }
    stk_free(y->dictionary);
    stk_free(y);
}
