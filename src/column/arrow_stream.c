/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_stream.c - the rows of the index as an Arrow C stream.
 *
 * Every batch is a copy of its own, so that it lives as long as its consumer wants and the index
 * may be anything; only the names of the shards, the same in all batches, are shared and counted.
 * The schema must stand before the first row, so opening looks whether all texts are UTF-8: by
 * eights of bytes where they are ASCII. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <stoker/arrow.h>

#include "column/arrow_node.h"
#include "base/json.h"
#include "column/dataset_column.h"
#include "data/shard_data.h"
#include "index/dict.h"

#define ROWS 65536u
#define FIXED 5u /* sample, key, shard, offset, size */
#define TEXT_MAX ((uint64_t)INT32_MAX)

typedef struct rows_stream {
    stk_dataset *ds;
    stk_column **column;
    char **name; /* of the columns, as shown */
    uint32_t n_columns;
    int *plain; /* of the columns: text that is UTF-8 */
    int keys_plain;
    shared_names *shards;
    uint64_t next;
    stk_error err;
} rows_stream;

/* ---- what the schema needs ---- */

static int keys_look(rows_stream *s, stk_error *err)
{
    const stk_index *ix = stk_shard_data_of(s->ds)->index;
    stk_shard_info info;
    stk_entry e;
    int ascii;

    s->keys_plain = 1;
    for (uint64_t i = 0; i < stk_index_shards(ix); i++) {
        STK_TRY(stk_index_keys_ascii(ix, i, &ascii, err));
        STK_TRY(stk_index_shard(ix, i, &info, err));
        for (uint64_t row = 0; !ascii && row < info.samples; row++) {
            stk_bytes key;

            STK_TRY(stk_index_entry(ix, info.first + row, &e, err));
            key = stk_key_shown(e.key);
            if (stk_utf8_span(key) != key.len) {
                s->keys_plain = 0;
                return 0;
            }
        }
    }
    return 0;
}

static int is_fixed(const char *name)
{
    return !strcmp(name, "sample") || !strcmp(name, "key") || !strcmp(name, "shard") ||
           !strcmp(name, "offset") || !strcmp(name, "size");
}

static int columns_open(rows_stream *s, stk_error *err)
{
    const char *name;
    uint32_t n = 0;

    while (stk_dataset_column(s->ds, n, NULL))
        n++;
    s->column = stk_zalloc(n + 1, sizeof *s->column);
    s->name = stk_zalloc(n + 1, sizeof *s->name);
    s->plain = stk_zalloc(n + 1, sizeof *s->plain);
    if (!s->column || !s->name || !s->plain)
        return stk_fail_nomem(err, n * sizeof *s->column);
    for (; s->n_columns < n; s->n_columns++) {
        uint32_t i = s->n_columns;
        size_t len;

        name = stk_dataset_column(s->ds, i, NULL);
        len = strlen(name);
        STK_TRY(stk_column_open(&s->column[i], s->ds, name, NULL, err));
        s->plain[i] = stk_column_kind(s->column[i]) == STK_COLUMN_TEXT &&
                      stk_column_utf8(s->column[i]);
        s->name[i] = stk_alloc(len + 2);
        if (!s->name[i])
            return stk_fail_nomem(err, len);
        memcpy(s->name[i], name, len + 1);
        if (is_fixed(name))
            memcpy(s->name[i] + len, "_", 2);
    }
    return 0;
}

static int shards_open(rows_stream *s, stk_error *err)
{
    uint64_t n = stk_dataset_shards(s->ds);

    STK_TRY(stk_shared_open(&s->shards, n, err));
    for (uint64_t i = 0; i < n; i++)
        STK_TRY(stk_shared_put(s->shards, stk_dataset_shard_name(s->ds, i), err));
    return 0;
}

/* ---- schema ---- */

static const char *column_format(const rows_stream *s, uint32_t i)
{
    switch (stk_column_kind(s->column[i])) {
    case STK_COLUMN_I64: return "l";
    case STK_COLUMN_F64: return "g";
    default: return s->plain[i] ? "u" : "z";
    }
}

static int schema_fill(const rows_stream *s, struct ArrowSchema *out)
{
    static const char *const names[FIXED] = { "sample", "key", "shard", "offset", "size" };
    const char *formats[FIXED] = { "L", s->keys_plain ? "u" : "z", "i", "L", "L" };

    if (stk_schema_node(out, "+s", "", 0, FIXED + s->n_columns) < 0)
        return -1;
    for (uint32_t i = 0; i < FIXED; i++)
        if (stk_schema_node(out->children[i], formats[i], names[i], 0, 0) < 0)
            return -1;
    if (stk_schema_dictionary(out->children[2], s->shards->plain ? "u" : "z") < 0)
        return -1;
    for (uint32_t i = 0; i < s->n_columns; i++)
        if (stk_schema_node(out->children[FIXED + i], column_format(s, i), s->name[i],
                            ARROW_FLAG_NULLABLE, 0) < 0)
            return -1;
    return 0;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    rows_stream *s = stream->private_data;

    memset(out, 0, sizeof *out);
    if (schema_fill(s, out) == 0)
        return 0;
    if (out->release)
        out->release(out);
    stk_fail_nomem(&s->err, sizeof *out);
    return ENOMEM;
}

/* ---- rows ---- */

typedef struct texts { /* of a batch */
    int32_t *offsets;
    uint8_t *bytes;
    size_t cap;
    uint64_t len;
} texts;

/* 0; STK_END: this one would be too much for one batch. */
static int texts_put(texts *t, uint64_t row, const void *data, size_t len, stk_error *err)
{
    if (len > TEXT_MAX - t->len)
        return row ? STK_END
                   : stk_fail(err, STK_ELIMIT, "a text of %zu bytes: Arrow's limit is 2 GiB", len);
    STK_TRY(idx_reserve((void **)&t->bytes, &t->cap, t->len + len + 1, 1, err));
    if (len)
        memcpy(t->bytes + t->len, data, len);
    t->len += len;
    t->offsets[row + 1] = (int32_t)t->len;
    return 0;
}

/* Arrow wants buffers that can be looked into, also of no rows. */
static int texts_open(texts *t, uint64_t n, stk_error *err)
{
    t->offsets = stk_zalloc(n + 1, sizeof *t->offsets);
    if (!t->offsets)
        return stk_fail_nomem(err, n * sizeof *t->offsets);
    return idx_reserve((void **)&t->bytes, &t->cap, 1, 1, err);
}

typedef struct fixed { /* the columns that every index has */
    uint64_t *sample, *offset, *size;
    int32_t *shard;
    texts key;
} fixed;

static int fixed_open(fixed *f, uint64_t n, stk_error *err)
{
    f->sample = stk_zalloc(n, sizeof *f->sample);
    f->offset = stk_zalloc(n, sizeof *f->offset);
    f->size = stk_zalloc(n, sizeof *f->size);
    f->shard = stk_zalloc(n, sizeof *f->shard);
    if (!f->sample || !f->offset || !f->size || !f->shard)
        return stk_fail_nomem(err, n * sizeof *f->sample);
    return texts_open(&f->key, n, err);
}

static int fixed_row(rows_stream *s, fixed *f, uint64_t row, stk_error *err)
{
    uint64_t id = s->next + row;
    stk_field field;
    stk_bytes key;
    stk_entry e;

    STK_TRY(s->ds->ops->entry(s->ds, id, &e, err));
    f->sample[row] = id;
    f->shard[row] = (int32_t)e.shard;
    f->offset[row] = e.offset;
    f->size[row] = 0;
    for (uint32_t k = 0; k < e.n_fields; k++) {
        STK_TRY(s->ds->ops->field(s->ds, &e, k, &field, err));
        f->size[row] += field.size;
    }
    key = stk_key_shown(e.key);
    return texts_put(&f->key, row, key.data, key.len, err);
}

/* The five columns of up to *n rows; fewer where the keys are too long for one batch. */
static int put_fixed(rows_stream *s, uint64_t *n, struct ArrowArray *out, stk_error *err)
{
    fixed f = { 0 };
    uint64_t row = 0;
    int rc = fixed_open(&f, *n, err);

    while (rc == 0 && row < *n) {
        rc = fixed_row(s, &f, row, err);
        row += rc == 0;
    }
    *n = rc < 0 ? *n : row;
    /* The nodes take the memory, also when they fail. */
    if (stk_array_fixed(out->children[0], *n, NULL, 0, f.sample) |
        stk_array_text(out->children[1], *n, NULL, 0, f.key.offsets, f.key.bytes) |
        stk_array_fixed(out->children[2], *n, NULL, 0, f.shard) |
        stk_array_fixed(out->children[3], *n, NULL, 0, f.offset) |
        stk_array_fixed(out->children[4], *n, NULL, 0, f.size))
        rc = stk_fail_nomem(err, sizeof f);
    if (rc >= 0 && stk_array_names(out->children[2], s->shards) < 0)
        rc = stk_fail_nomem(err, sizeof f);
    return rc < 0 ? rc : 0;
}

static int bits_of(const stk_column *c, uint64_t first, uint64_t n, uint8_t **out, int64_t *nulls,
                   stk_error *err)
{
    uint8_t *valid, *bits;
    int rc;

    *out = NULL;
    *nulls = 0;
    if (!stk_column_nulls(c))
        return 0;
    valid = stk_zalloc(n, 1);
    bits = stk_zalloc(n / 8 + 1, 1);
    rc = valid && bits ? stk_column_valid(c, first, n, valid, err) : stk_fail_nomem(err, n);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        bits[i / 8] |= (uint8_t)(valid[i] << i % 8);
        *nulls += !valid[i];
    }
    stk_free(valid);
    if (rc < 0)
        stk_free(bits);
    else
        *out = bits;
    return rc;
}

/* 0, or STK_END with *n the rows whose texts fit. */
static int put_texts(const stk_column *c, uint64_t first, uint64_t *n, texts *t, stk_error *err)
{
    const char *text;
    size_t len;
    int rc = texts_open(t, *n, err);

    for (uint64_t row = 0; rc == 0 && row < *n; row++) {
        rc = stk_column_text(c, first + row, 1, &text, &len, err);
        if (rc == 0)
            rc = texts_put(t, row, text, len, err);
        if (rc == STK_END)
            *n = row;
    }
    return rc;
}

/* As put_texts(). */
static int put_column(rows_stream *s, uint32_t i, uint64_t *n, struct ArrowArray *out,
                      stk_error *err)
{
    const stk_column *c = s->column[i];
    stk_column_type type = stk_column_kind(c);
    void *values = NULL;
    uint8_t *bits = NULL;
    int64_t nulls;
    texts t = { 0 };
    int rc = bits_of(c, s->next, *n, &bits, &nulls, err);

    if (rc == 0 && type == STK_COLUMN_TEXT)
        rc = put_texts(c, s->next, n, &t, err);
    if (rc == 0 && type != STK_COLUMN_TEXT) {
        values = stk_zalloc(*n, 8);
        rc = !values                  ? stk_fail_nomem(err, *n * 8)
             : type == STK_COLUMN_I64 ? stk_column_i64(c, s->next, *n, values, err)
                                      : stk_column_f64(c, s->next, *n, values, err);
    }
    if ((type == STK_COLUMN_TEXT ? stk_array_text(out, *n, bits, nulls, t.offsets, t.bytes)
                                 : stk_array_fixed(out, *n, bits, nulls, values)) < 0)
        rc = stk_fail_nomem(err, sizeof t);
    return rc;
}

/* One batch of at most *n rows.  STK_END: *n is smaller now, begin again. */
static int put_rows(rows_stream *s, uint64_t *n, struct ArrowArray *out, stk_error *err)
{
    uint64_t rows;
    int rc;

    if (stk_array_struct(out, FIXED + s->n_columns) < 0)
        return stk_fail_nomem(err, sizeof *out);
    STK_TRY(put_fixed(s, n, out, err));
    rows = *n;
    for (uint32_t i = 0; i < s->n_columns; i++) {
        rc = put_column(s, i, n, out->children[FIXED + i], err);
        if (rc != 0)
            return rc;
    }
    out->length = (int64_t)rows;
    return 0;
}

static int errno_of(int rc)
{
    return rc == STK_ENOMEM ? ENOMEM : rc == STK_EINVAL ? EINVAL : EIO;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    rows_stream *s = stream->private_data;
    uint64_t left = stk_dataset_len(s->ds) - s->next, n = left < ROWS ? left : ROWS;
    int rc = STK_END;

    memset(out, 0, sizeof *out);
    if (!left)
        return 0;
    while (rc == STK_END) {
        if (out->release)
            out->release(out);
        rc = put_rows(s, &n, out, &s->err);
    }
    if (rc == 0) {
        s->next += n;
        return 0;
    }
    if (out->release)
        out->release(out);
    return errno_of(rc);
}

/* ---- the stream ---- */

static const char *stream_error(struct ArrowArrayStream *stream)
{
    rows_stream *s = stream->private_data;

    return s->err.message[0] ? s->err.message : NULL;
}

static void rows_close(rows_stream *s)
{
    for (uint32_t i = 0; s->column && s->column[i]; i++)
        stk_column_close(&s->column[i]);
    for (uint32_t i = 0; s->name && s->name[i]; i++)
        stk_free(s->name[i]);
    stk_free(s->column);
    stk_free(s->name);
    stk_free(s->plain);
    stk_shared_unref(s->shards);
    stk_dataset_unref(&s->ds);
    stk_free(s);
}

static void stream_release(struct ArrowArrayStream *stream)
{
    rows_close(stream->private_data);
    memset(stream, 0, sizeof *stream);
}

int stk_dataset_arrow(stk_dataset *ds, struct ArrowArrayStream *out, stk_error *err)
{
    rows_stream *s;
    int rc;

    memset(out, 0, sizeof *out);
    STK_TRY(stk_needs_index(ds, "an Arrow stream", err));
    s = STK_NEW(rows_stream);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->ds = stk_dataset_ref(ds);
    rc = stk_dataset_shards(ds) > INT32_MAX
             ? stk_fail(err, STK_ELIMIT, "more than 2^31 shards are too many for Arrow")
             : keys_look(s, err);
    if (rc == 0)
        rc = columns_open(s, err);
    if (rc == 0)
        rc = shards_open(s, err);
    if (rc < 0) {
        rows_close(s);
        return rc;
    }
    *out = (struct ArrowArrayStream){ stream_schema, stream_next, stream_error, stream_release, s };
    return 0;
}
