/* SPDX-License-Identifier: Apache-2.0 */
/* column_read.c - walk a shard's samples and collect the values of some columns.
 *
 * A column is a field, or a member of a field that holds JSON.  A field's own name may have dots
 * ("seg.png"), so the longest beginning that is a field wins; which one that is depends on the
 * schema alone and is found once a schema.  Of a sample only the fields that are asked for are
 * read, each once. */
#include "column/column_read.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "fetch/request.h"
#include "kern/convert.h"

#define MAX_VALUE ((uint64_t)1 << 16) /* bytes of a field that is a value itself */
#define MAX_JSON ((uint64_t)1 << 24)  /* bytes of a field that holds it */
#define STOP_EVERY 256u
#define NUMBERS 256u /* converted at a time */

typedef struct target { /* a column in samples of one schema */
    int field;          /* -1: they have none */
    const char *path;   /* in its JSON; NULL: the field itself */
    stk_dtype dtype;    /* of the field; 0: bytes */
} target;

typedef struct reading {
    const stk_column_job *job;
    const char *shard_name;
    stk_request *request;
    uint32_t schema; /* that the targets are of */
    target to[STK_MAX_COLUMNS];
    stk_values values[STK_MAX_COLUMNS];
    uint8_t *bytes; /* the field available */
    size_t cap;
    uint8_t *plain; /* a JSON string without its quotes */
    size_t plain_cap;
    uint64_t bad;
} reading;

int stk_column_name_check(const char *name, stk_error *err)
{
    size_t n = strlen(name);

    if (!n || n > 255 || name[0] == '.' || name[n - 1] == '.' || strstr(name, "..") ||
        strchr(name, ','))
        return stk_fail(
            err, STK_EINVAL,
            "\"%.200s\" is not a column: write a field (cls) or a member of a JSON field "
            "(json.width)",
            name);
    return 0;
}

int stk_column_no_value(const stk_dataset *ds, const char *name, stk_error *err)
{
    char fields[128] = "";
    const char *field;
    size_t at = 0;

    for (uint32_t i = 0; (field = stk_dataset_field(ds, i)) && at < sizeof fields; i++)
        at += (size_t)snprintf(fields + at, sizeof fields - at, "%s%s", i ? ", " : "", field);
    return stk_fail(err, STK_EINVAL,
                    "no sample has a value for the column %.60s; the fields are: %s%s", name,
                    fields, at >= sizeof fields ? "..." : "");
}

/* ---- which field ---- */

/* The type of a field; STK_EINVAL: its values are several each, and not a member of them is
 * wanted. */
static int find_type(const stk_dataset *ds, const char *name, int member, stk_dtype *out,
                     stk_error *err)
{
    stk_field_type t;

    *out = 0;
    for (uint32_t i = 0; ds->ops->type(ds, i, &t); i++)
        if (!strcmp(t.name, name)) {
            *out = t.dtype;
            return !t.ndim || (member && t.text)
                       ? 0
                       : stk_fail(err, STK_EINVAL,
                                  "the field %.60s has several values for each sample: a column "
                                  "has one",
                                  name);
        }
    return 0;
}

static int find_target(const stk_dataset *ds, uint32_t schema, const char *column, target *out,
                       stk_error *err)
{
    target t = { .field = ds->ops->find(ds, schema, column) };
    char name[256];
    size_t n = strlen(column);

    snprintf(name, sizeof name, "%s", column); /* fits: stk_column_name_check() */
    while (t.field < 0) {
        while (n && column[n - 1] != '.')
            n--;
        if (!n)
            break;
        n--;
        memcpy(name, column, n);
        name[n] = 0;
        t = (target){ ds->ops->find(ds, schema, name), column + n + 1, 0 };
    }
    *out = t;
    return t.field >= 0 ? find_type(ds, name, t.path != NULL, &out->dtype, err) : 0;
}

static int find_targets(reading *r, uint32_t schema, stk_error *err)
{
    if (r->schema == schema)
        return 0;
    for (uint32_t c = 0; c < r->job->n_columns; c++)
        STK_TRY(find_target(r->job->data, schema, r->job->column[c], &r->to[c], err));
    r->schema = schema;
    return 0;
}

/* ---- its bytes ---- */

static int room(uint8_t **p, size_t *cap, uint64_t need, stk_error *err)
{
    uint8_t *grown;

    if (need <= *cap)
        return 0;
    grown = stk_grow(*p, 0, need);
    if (!grown)
        return stk_fail_nomem(err, need);
    *p = grown;
    *cap = need;
    return 0;
}

static int size_check(const stk_field *f, uint64_t len, int json, stk_error *err)
{
    if (len <= (json ? MAX_JSON : MAX_VALUE))
        return 0;
    return stk_fail(err, STK_ELIMIT,
                    "field %s has %" PRIu64 " bytes: a column is for values of at most %" PRIu64,
                    f->name, len, json ? MAX_JSON : MAX_VALUE);
}

static int read_field(reading *r, const stk_entry *e, int k, int json, stk_bytes *out,
                      stk_error *err)
{
    stk_request *q = r->request;
    stk_wanted *w = q->want;
    int rc;

    stk_request_end(q); /* the last field's */
    q->entry = *e;
    w->number = (uint32_t)k;
    STK_TRY(stk_request_begin(q, 1, err));
    rc = w->block ? 0
                  : size_check(&w->field, w->file ? w->place.len : w->place.here.len, json, err);
    if (rc == 0)
        rc = room(&r->bytes, &r->cap, q->reads.total, err);
    if (rc == 0)
        rc = stk_request_wait(q, r->bytes, err);
    *out = w->bytes;
    return rc == 0 ? size_check(&w->field, out->len, json, err) : rc;
}

/* ---- its value ---- */

static int is(stk_bytes s, const char *word)
{
    return s.len == strlen(word) && !memcmp(s.data, word, s.len);
}

static int put_json(reading *r, stk_values *values, stk_bytes v, stk_error *err)
{
    size_t len = 0;

    if (is(v, "null"))
        return stk_values_add(values, STK_VALUE_NULL, v, err);
    if (is(v, "true") || is(v, "false"))
        return stk_values_add(values, STK_VALUE_BARE,
                              (stk_bytes){ (const uint8_t *)(is(v, "true") ? "1" : "0"), 1 }, err);
    if (v.data[0] != '"')
        return stk_values_add(
            values, v.data[0] == '{' || v.data[0] == '[' ? STK_VALUE_QUOTED : STK_VALUE_BARE, v,
            err);
    STK_TRY(room(&r->plain, &r->plain_cap, v.len, err));
    if (stk_json_unquote(v, r->plain, &len, NULL) < 0) { /* half a surrogate pair */
        r->bad++;
        return stk_values_add(values, STK_VALUE_NULL, v, err);
    }
    return stk_values_add(values, STK_VALUE_QUOTED, (stk_bytes){ r->plain, len }, err);
}

/* n values of a field that has a type: integers, or floats, also where they are whole. */
static int put_numbers(stk_values *values, stk_dtype dtype, const uint8_t *in, uint64_t n,
                       stk_error *err)
{
    stk_convert_fn whole = stk_convert_c(dtype, STK_I64), wide = stk_convert_c(dtype, STK_F64);
    int is_whole = whole || dtype == STK_I64;
    size_t size = stk_dtype_size(dtype);
    uint64_t made[NUMBERS]; /* int64_t or double */

    if (!whole && !wide && dtype != STK_I64 && dtype != STK_F64)
        return stk_fail(err, STK_ENOTSUP, "a column is not made of %s", stk_dtype_name(dtype));
    for (uint64_t at = 0, few; at < n; at += few) {
        few = n - at < NUMBERS ? n - at : NUMBERS;
        if (dtype == STK_I64 || dtype == STK_F64)
            memcpy(made, in + at * size, few * size);
        else
            (whole ? whole : wide)(made, in + at * size, few);
        STK_TRY(stk_values_add_numbers(values, is_whole ? STK_VALUE_WHOLE : STK_VALUE_REAL, made,
                                       few, err));
    }
    return 0;
}

static int put_number(stk_values *values, stk_dtype dtype, stk_bytes in, stk_error *err)
{
    if (in.len != stk_dtype_size(dtype))
        return stk_fail(err, STK_ECORRUPT, "its value has %zu bytes, a %s has %zu", in.len,
                        stk_dtype_name(dtype), stk_dtype_size(dtype));
    return put_numbers(values, dtype, in.data, 1, err);
}

static int put_value(reading *r, uint32_t c, stk_bytes in, stk_error *err)
{
    stk_values *values = &r->values[c];
    stk_bytes v = stk_trimmed(in), whole;

    if (r->to[c].dtype)
        return in.data ? put_number(values, r->to[c].dtype, in, err)
                       : stk_values_add(values, STK_VALUE_NULL, in, err);
    if (!r->to[c].path && !(r->job->data->can & STK_DATA_INDEXED)) /* text is text in a table */
        return stk_values_add(values, in.data ? STK_VALUE_QUOTED : STK_VALUE_NULL, in, err);
    if (!r->to[c].path || !v.len)
        return stk_values_add(values, v.len ? STK_VALUE_BARE : STK_VALUE_NULL, v, err);
    if (stk_json_find(in, r->to[c].path, &v, NULL) == 0)
        return put_json(r, values, v, err);
    r->bad += stk_json_find(in, "", &whole, NULL) < 0; /* else it merely lacks the member */
    return stk_values_add(values, STK_VALUE_NULL, v, err);
}

static int read_sample(reading *r, const stk_entry *e, stk_error *err)
{
    stk_bytes bytes = { 0 };
    int have = -1;

    STK_TRY(find_targets(r, e->schema, err));
    for (uint32_t c = 0; c < r->job->n_columns; c++) {
        int k = r->to[c].field;

        if (k < 0) {
            STK_TRY(stk_values_add(&r->values[c], STK_VALUE_NULL, bytes, err));
            continue;
        }
        if (k != have)
            STK_TRY(read_field(r, e, k, r->to[c].path != NULL, &bytes, err));
        have = k;
        STK_TRY(put_value(r, c, bytes, err));
    }
    return 0;
}

/* The only column is one of numbers, and a sample was just read from a block: those after it in
 * that block, up to a null, at most `left`.  *n: how many there were. */
static int read_following(reading *r, const stk_entry *e, uint64_t left, uint64_t *n,
                          stk_error *err)
{
    const stk_data_ops *ops = r->job->data->ops;
    stk_wanted *w = r->request->want;
    stk_dtype dtype = r->to[0].dtype;
    stk_value_span s = { .n = left + 1 };

    *n = 0;
    if (r->job->n_columns != 1 || r->to[0].field < 0 || !dtype || r->to[0].path || !ops->span ||
        !left || !w->block || w->place.absent || !w->bytes.data)
        return 0;
    STK_TRY(stk_block_open(w->block, &w->waiter, &s.block, err)); /* it is there */
    ops->span(r->job->data, e, &w->field, &w->place, &s);
    if (s.n < 2 || s.first || s.width != stk_dtype_size(dtype))
        return 0;
    *n = s.n - 1;
    return put_numbers(&r->values[0], dtype, s.data + s.width, *n, err);
}

static int read_samples(reading *r, const stk_shard_info *s, stk_error *err)
{
    const stk_dataset *ds = r->job->data;
    const _Atomic int *stop = r->job->stop;
    uint64_t more;
    stk_entry e;
    int rc;

    for (uint64_t i = 0, looked = 0; i < s->samples; i += 1 + more) {
        if (i >= looked && atomic_load_explicit(stop, memory_order_relaxed))
            return stk_fail(err, STK_ECLOSED, "stopped by the caller");
        looked = i >= looked ? i + STOP_EVERY : looked;
        STK_TRY(ds->ops->entry(ds, s->first + i, &e, err));
        rc = read_sample(r, &e, err);
        if (rc == 0)
            rc = read_following(r, &e, s->samples - i - 1, &more, err);
        if (rc < 0) {
            stk_error_at(err, r->shard_name, e.offset, e.key);
            return rc;
        }
    }
    return 0;
}

int stk_column_read(const stk_column_job *job, uint64_t shard, stk_chunk *out, stk_error *err)
{
    reading *r = STK_NEW(reading);
    const stk_dataset *ds = job->data;
    stk_shard_info s;
    stk_file *file; /* open from the first sample to the last */
    uint64_t tears = stk_guarded_tears();
    uint32_t made = 0;
    int rc;

    if (!r)
        return stk_fail_nomem(err, sizeof *r);
    r->job = job;
    r->shard_name = ds->ops->shard_name(ds, shard);
    r->schema = UINT32_MAX;
    rc = ds->ops->shard(ds, shard, &s, err);
    if (rc == 0)
        rc = stk_dataset_request(job->data, 1, &r->request, err);
    if (rc == 0)
        rc = ds->ops->acquire(ds, shard, &file, err);
    if (rc == 0) {
        rc = read_samples(r, &s, err);
        ds->ops->release(ds, shard);
    }
    if (rc == 0)
        rc = stk_dataset_whole(ds, tears, err);
    for (; rc == 0 && made < job->n_columns; made += rc == 0)
        rc = stk_values_chunk(&r->values[made], &out[made], err);
    while (rc < 0 && made)
        stk_chunk_fini(&out[--made]);
    atomic_fetch_add_explicit(job->bad, r->bad, memory_order_relaxed);
    for (uint32_t c = 0; c < job->n_columns; c++)
        stk_values_fini(&r->values[c]);
    stk_dataset_request_done(job->data, &r->request);
    stk_free(r->bytes);
    stk_free(r->plain);
    stk_free(r);
    return rc;
}
