/* SPDX-License-Identifier: Apache-2.0 */
/* mds.c - see mds.h. */
#include "format/mds.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "format/index_json.h"
#include "format/parquet/parquet.h"
#include "source/source.h"

#define MAX_COLUMNS 4096u
#define MAX_SHARDS 10000000u

int stk_doc_is(stk_bytes text, const char *what)
{
    return text.len == strlen(what) && !memcmp(text.data, what, text.len);
}

int stk_doc_text(stk_bytes v, char **out, stk_error *err)
{
    uint8_t *text = stk_alloc(v.len + 1);
    size_t len = 0;
    int rc = text ? 0 : stk_fail_nomem(err, v.len);

    if (rc == 0 && (!v.len || v.data[0] != '"'))
        rc = stk_fail(err, STK_ECORRUPT, "index.json: a text is missing");
    if (rc == 0)
        rc = stk_json_unquote(v, text, &len, err);
    if (rc == 0 && memchr(text, 0, len))
        rc = stk_fail(err, STK_ECORRUPT, "index.json: a name with a null character");
    if (rc < 0) {
        stk_free(text);
        return rc;
    }
    text[len] = 0;
    stk_free(*out);
    *out = (char *)text;
    return 0;
}

int stk_doc_number(stk_bytes v, uint64_t most, uint64_t *out, stk_error *err)
{
    int64_t n;

    if (stk_number_i64(v, &n) != 1 || n < 0 || (uint64_t)n > most)
        return stk_fail(err, STK_ECORRUPT, "index.json: a number is missing or too large");
    *out = (uint64_t)n;
    return 0;
}

static int is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* An array's text, which was checked, without its bracket. */
int stk_doc_list(stk_bytes *list, stk_error *err)
{
    if (!list->len || list->data[0] != '[')
        return stk_fail(err, STK_ECORRUPT, "index.json: something is not a list");
    list->data++;
    list->len--;
    return 0;
}

/* The next element of it; 0: there is none. */
int stk_doc_element(stk_bytes *list, stk_bytes *out)
{
    int depth = 0, quoted = 0;
    size_t i = 0;

    while (list->len && (list->data[0] == ',' || is_space(list->data[0]))) {
        list->data++;
        list->len--;
    }
    if (!list->len || list->data[0] == ']')
        return 0;
    for (; i < list->len; i++) {
        uint8_t c = list->data[i];

        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth < 0 || (!depth && c == ','))
            break;
    }
    i = i < list->len ? i : list->len;
    *out = (stk_bytes){ list->data, i };
    while (out->len && is_space(out->data[out->len - 1]))
        out->len--;
    list->data += i;
    list->len -= i;
    return 1;
}

/* ---- columns ---- */

static stk_dtype dtype_of(const char *name, size_t len)
{
    static const struct {
        const char *name;
        stk_dtype dtype;
    } known[] = { { "uint8", STK_U8 },    { "int8", STK_I8 },     { "uint16", STK_U16 },
                  { "int16", STK_I16 },   { "uint32", STK_U32 },  { "int32", STK_I32 },
                  { "uint64", STK_I64 },  { "int64", STK_I64 },   { "float16", STK_F16 },
                  { "float32", STK_F32 }, { "float64", STK_F64 }, { "int", STK_I64 } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == len && !memcmp(known[i].name, name, len))
            return known[i].dtype;
    return 0;
}

/* "ndarray:int32", "ndarray:int32:3,4"; one that says its type in each value stays bytes. */
static void read_array(stk_mds_column *c, const char *text)
{
    size_t len = strcspn(text, ":");
    const char *p = text + len;
    stk_dtype dtype = dtype_of(text, len);
    int64_t count = 1;

    if (!dtype || !strncmp(text, "uint64", len))
        return;
    if (!*p) {
        c->dtype = dtype;
        c->ndim = 1;
        c->shape[0] = -1;
        return;
    }
    for (p++; *p && c->ndim < 7; p += *p == ',') {
        char *end;
        long n = strtol(p, &end, 10);

        if (end == p || n < 1 || n > INT32_MAX || count > (int64_t)1 << 40)
            return;
        c->shape[c->ndim++] = n;
        count *= n;
        p = end;
    }
    if (!*p && c->size == count * (int64_t)stk_dtype_size(dtype))
        c->dtype = dtype;
    else
        c->ndim = 0;
}

static void read_encoding(stk_mds_column *c, const char *text)
{
    stk_dtype dtype = dtype_of(text, strlen(text));

    if (dtype && c->size == (int64_t)stk_dtype_size(dtype)) {
        c->dtype = dtype;
        c->unsigned64 = !strcmp(text, "uint64");
    } else if (!strncmp(text, "ndarray:", 8))
        read_array(c, text + 8);
}

typedef struct columns { /* raw texts of one shard */
    stk_bytes names, encodings, sizes;
} columns;

static int add_column(stk_mds_index *x, stk_bytes name, stk_bytes encoding, stk_bytes size,
                      stk_error *err)
{
    stk_mds_column *grown = stk_grow(x->column, x->n_columns * sizeof *grown,
                                     (x->n_columns + 1) * sizeof *grown);
    char *text = NULL;
    uint64_t bytes = 0;
    int rc;

    if (!grown)
        return stk_fail_nomem(err, sizeof *grown);
    x->column = grown;
    x->column[x->n_columns] = (stk_mds_column){ .size = -1 };
    if (x->n_columns == MAX_COLUMNS)
        return stk_fail(err, STK_ELIMIT, "index.json: more than %u columns", MAX_COLUMNS);
    x->n_columns++;
    grown = &x->column[x->n_columns - 1];
    rc = stk_doc_text(name, &grown->name, err);
    if (rc == 0)
        rc = stk_doc_text(encoding, &text, err);
    if (rc == 0 && !stk_doc_is(size, "null")) {
        rc = stk_doc_number(size, UINT32_MAX, &bytes, err);
        grown->size = rc == 0 ? (int64_t)bytes : -1;
    }
    if (rc == 0)
        read_encoding(grown, text);
    stk_free(text);
    return rc;
}

static int read_columns(stk_mds_index *x, const columns *c, stk_error *err)
{
    columns left = *c;
    stk_bytes name = { 0 }, encoding = { 0 }, size = { 0 };

    STK_TRY(stk_doc_list(&left.names, err));
    STK_TRY(stk_doc_list(&left.encodings, err));
    STK_TRY(stk_doc_list(&left.sizes, err));
    while (stk_doc_element(&left.names, &name)) {
        if (!stk_doc_element(&left.encodings, &encoding) || !stk_doc_element(&left.sizes, &size))
            return stk_fail(err, STK_ECORRUPT, "index.json: columns without an encoding or a size");
        STK_TRY(add_column(x, name, encoding, size, err));
    }
    return x->n_columns ? 0 : stk_fail(err, STK_ECORRUPT, "index.json: a shard without columns");
}

/* ---- shards ---- */

typedef struct reading {
    stk_mds_index *x;
    stk_mds_shard s;
    columns c, first; /* first: of the first shard */
    int mds;
} reading;

/* A name below the index's folder. */
int stk_doc_name(const char *name, stk_error *err)
{
    return stk_name_below((stk_bytes){ 0 }, (stk_bytes){ (const uint8_t *)name, strlen(name) })
               ? 0
               : stk_fail(err, STK_ECORRUPT, "index.json: the file `%.80s` is outside its folder",
                          name);
}

typedef struct file {
    char **name;
    uint64_t *bytes;
    char **hashes;
} file;

static int on_file(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    file *f = cookie;

    if (stk_doc_is(key, "\"basename\"") || stk_doc_is(key, "basename")) {
        STK_TRY(stk_doc_text(value, f->name, err));
        return stk_doc_name(*f->name, err);
    }
    if ((stk_doc_is(key, "\"hashes\"") || stk_doc_is(key, "hashes")) && value.len > 2 &&
        value.data[0] == '{') {
        stk_free(*f->hashes);
        *f->hashes = stk_strndup((const char *)value.data, value.len);
        return *f->hashes ? 0 : stk_fail_nomem(err, value.len);
    }
    return stk_doc_is(key, "\"bytes\"") || stk_doc_is(key, "bytes")
               ? stk_doc_number(value, UINT32_MAX, f->bytes, err)
               : 0;
}

static int read_codec(stk_mds_shard *s, stk_bytes v)
{
    static const struct {
        const char *name;
        int codec;
    } known[] = { { "br", STK_PQ_BROTLI },
                  { "bz2", STK_PQ_BZIP2 },
                  { "gz", STK_PQ_GZIP },
                  { "snappy", STK_PQ_SNAPPY },
                  { "zstd", STK_PQ_ZSTD } };
    size_t len = 1;

    while (len < v.len && v.data[len] != '"' && v.data[len] != ':')
        len++;
    s->refused = "its shards are packed by a codec that is not read: unpack them";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == len - 1 && !memcmp(known[i].name, v.data + 1, len - 1)) {
            s->codec = known[i].codec;
            s->refused = NULL;
        }
    return 0;
}

static int on_member(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    reading *r = cookie;
    stk_bytes k = key.len && key.data[0] == '"' ? (stk_bytes){ key.data + 1, key.len - 2 } : key;
    int object = value.len && value.data[0] == '{';
    uint64_t n = 0;

    if (stk_doc_is(k, "raw_data") && object)
        return stk_json_members(value, on_file,
                                &(file){ &r->s.raw, &r->s.raw_bytes, &r->s.raw_hashes }, err);
    if (stk_doc_is(k, "zip_data") && object)
        return stk_json_members(value, on_file,
                                &(file){ &r->s.zip, &r->s.zip_bytes, &r->s.zip_hashes }, err);
    if (stk_doc_is(k, "compression") && value.len && value.data[0] == '"')
        return read_codec(&r->s, value);
    if (stk_doc_is(k, "samples")) {
        STK_TRY(stk_doc_number(value, UINT32_MAX - 1, &n, err));
        r->s.samples = (uint32_t)n;
    }
    r->mds |= stk_doc_is(k, "format") && stk_doc_is(value, "\"mds\"");
    if (stk_doc_is(k, "column_names"))
        r->c.names = value;
    if (stk_doc_is(k, "column_encodings"))
        r->c.encodings = value;
    if (stk_doc_is(k, "column_sizes"))
        r->c.sizes = value;
    return 0;
}

static int same_text(stk_bytes a, stk_bytes b)
{
    return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

static int add_shard(reading *r, stk_bytes text, stk_error *err)
{
    stk_mds_index *x = r->x;
    stk_mds_shard *s;
    int rc;

    if (!(x->n & (x->n - 1))) { /* a power of two: full */
        size_t room = (x->n ? 2 * x->n : 1) * sizeof *s;

        s = stk_grow(x->shard, x->n * sizeof *s, room);
        if (!s || x->n >= MAX_SHARDS)
            return stk_fail_nomem(err, room);
        x->shard = s;
    }
    r->s = (stk_mds_shard){ 0 };
    r->c = (columns){ 0 };
    r->mds = 0;
    if (!text.len || text.data[0] != '{')
        return stk_fail(err, STK_ECORRUPT, "index.json: a shard that is not an object");
    rc = stk_json_members(text, on_member, r, err);
    x->shard[x->n++] = r->s; /* freed with the index */
    STK_TRY(rc);
    if (!r->mds)
        return stk_fail(err, STK_ENOTSUP, "index.json: only shards of the format mds are read");
    if (!r->s.raw)
        return stk_fail(err, STK_ECORRUPT, "index.json: a shard without a file");
    if (x->n == 1) {
        r->first = r->c;
        STK_TRY(read_columns(x, &r->c, err));
    } else if (!same_text(r->first.names, r->c.names) ||
               !same_text(r->first.encodings, r->c.encodings) ||
               !same_text(r->first.sizes, r->c.sizes))
        return stk_fail(err, STK_ENOTSUP,
                        "index.json: shard %" PRIu64 " has other columns than the first", x->n - 1);
    return 0;
}

int stk_mds_index_read(stk_mds_index *out, stk_bytes json, stk_error *err)
{
    reading r = { .x = out };
    stk_bytes list, one = { 0 };
    int rc;

    *out = (stk_mds_index){ 0 };
    rc = stk_json_find(json, "shards", &list, err);
    if (rc == 0)
        rc = stk_doc_list(&list, err);
    while (rc == 0 && stk_doc_element(&list, &one))
        rc = add_shard(&r, one, err);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ECORRUPT, "index.json: it names no shards");
    if (rc < 0)
        stk_mds_index_fini(out);
    return rc;
}

void stk_mds_index_fini(stk_mds_index *x)
{
    for (uint32_t i = 0; i < x->n_columns; i++)
        stk_free(x->column[i].name);
    for (uint64_t i = 0; i < x->n; i++) {
        stk_free(x->shard[i].raw);
        stk_free(x->shard[i].zip);
        stk_free(x->shard[i].raw_hashes);
        stk_free(x->shard[i].zip_hashes);
    }
    stk_free(x->column);
    stk_free(x->shard);
    *x = (stk_mds_index){ 0 };
}

/* ---- samples ---- */

static uint32_t u32_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int stk_mds_place(stk_bytes head, uint32_t samples, uint64_t size, uint32_t i, stk_mds_span *out,
                  stk_error *err)
{
    uint64_t end;

    if (head.len < stk_mds_head(samples) || u32_at(head.data) != samples)
        return stk_fail(err, STK_ECORRUPT, "the shard has not the %u samples that index.json says",
                        samples);
    out->at = u32_at(head.data + 4 + 4 * (size_t)i);
    end = u32_at(head.data + 8 + 4 * (size_t)i);
    if (out->at < stk_mds_head(samples) || out->at > end || end > size)
        return stk_fail(err, STK_ECORRUPT, "sample %u of the shard is outside it", i);
    out->len = end - out->at;
    return 0;
}

/* An array that says its shape: one byte (dimensions << 2 | log2 of the size of a side), its sides,
 * the values. */
static int cut_array(const stk_mds_column *c, stk_bytes *v, stk_error *err)
{
    uint32_t ndim = v->len ? v->data[0] >> 2 : 0, each = v->len ? 1u << (v->data[0] & 3) : 1;
    size_t head = 1 + (size_t)ndim * each;

    if (ndim != 1)
        return stk_fail(err, STK_ENOTSUP,
                        "column %.60s: an array of %u dimensions, and lists have one", c->name,
                        ndim);
    if (v->len < head || (v->len - head) % stk_dtype_size(c->dtype))
        return stk_fail(err, STK_ECORRUPT, "column %.60s: an array that is cut off", c->name);
    v->data += head;
    v->len -= head;
    return 0;
}

int stk_mds_value(const stk_mds_index *x, stk_bytes sample, uint32_t column, stk_bytes *out,
                  stk_error *err)
{
    const stk_mds_column *c = &x->column[column];
    uint64_t at = 0, word = 0, len = 0;

    for (uint32_t i = 0; i < x->n_columns; i++)
        at += x->column[i].size < 0 ? 4 : 0;
    for (uint32_t i = 0; i <= column; i++) {
        at += len;
        if (x->column[i].size >= 0)
            len = (uint64_t)x->column[i].size;
        else if (word + 4 > sample.len)
            return stk_fail(err, STK_ECORRUPT, "a sample of %zu bytes has no room for its sizes",
                            sample.len);
        else {
            len = u32_at(sample.data + word);
            word += 4;
        }
    }
    if (at > sample.len || len > sample.len - at)
        return stk_fail(err, STK_ECORRUPT, "column %.60s goes on after its sample", c->name);
    *out = (stk_bytes){ sample.data + at, (size_t)len };
    if (c->unsigned64 && out->data[7] >> 7)
        return stk_fail(err, STK_ECORRUPT, "column %.60s: a value of 2^63 or more is not an i64",
                        c->name);
    if (c->exact ? out->len != c->exact : c->bare && out->len % stk_dtype_size(c->dtype))
        return stk_fail(err, STK_ECORRUPT, "column %.60s: a value of %zu bytes", c->name, out->len);
    return c->ndim && c->shape[0] < 0 && !c->bare ? cut_array(c, out, err) : 0;
}
