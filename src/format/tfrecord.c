/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord.c - TensorFlow's records: a length, its checksum, the bytes, theirs.
 *
 * A record that is a tf.train.Example has a field for each feature: a single byte string is a range
 * of the shard; several are NAME.0, NAME.1, ...; numbers are the range of the feature's message,
 * which unpack() turns into text ("3", "0.5 2").  Which features are numbers is kept after the
 * sample's key: a NUL, then their places in the record, 4 bytes each.  Any other record has one
 * field, `record`.  All checksums are checked when the shard is indexed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "format/format.h"

#define WINDOW (1u << 20)
#define RECORD_MAX ((uint64_t)1 << 31)
#define FEATURES_MAX 4096u
#define TEXT_PER_BYTE 4u /* of numbers, at most: "127 " of a byte, "-1.23456789e-38 " of four */

/* ---- protocol buffers, as far as an Example needs them ---- */

typedef struct wire { /* fields of one message */
    const uint8_t *p, *end;
    int bad;
} wire;

typedef struct wire_field {
    uint64_t number, type; /* type 0: varint, 2: bytes, 5: four bytes; others are bad */
    uint64_t value;
    stk_bytes bytes; /* type 2, 5 */
} wire_field;

static uint64_t varint(wire *w)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < 64 && w->p < w->end; shift += 7) {
        uint8_t b = *w->p++;

        v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return v;
    }
    w->bad = 1;
    return 0;
}

static int next_field(wire *w, wire_field *f)
{
    uint64_t tag, len = 0;

    if (w->p == w->end)
        return 0;
    tag = varint(w);
    f->number = tag >> 3;
    f->type = tag & 7;
    if (f->type == 0)
        f->value = varint(w);
    else if (f->type == 2)
        len = varint(w);
    else if (f->type == 5)
        len = 4;
    else
        w->bad = 1;
    if (!f->number || w->bad || len > (uint64_t)(w->end - w->p)) {
        w->bad = 1;
        return 0;
    }
    f->bytes = (stk_bytes){ w->p, (size_t)len };
    w->p += len;
    return 1;
}

/* ---- an Example's features ---- */

enum { BYTES = 1, FLOATS, INTS }; /* numbers of Feature's members */

typedef struct feature {
    stk_bytes name, value; /* value: a byte string, or the Feature with numbers */
    int kind;
    uint32_t index; /* of several byte strings; UINT32_MAX: there is one */
} feature;

typedef struct example {
    feature *f;
    uint32_t n, cap;
} example;

static int add(example *x, const feature *f, stk_error *err)
{
    if (x->n == FEATURES_MAX)
        return stk_fail(err, STK_ELIMIT, "an Example with more than %u features", FEATURES_MAX);
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? 2 * x->cap : 16;
        feature *grown = stk_grow(x->f, x->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        x->f = grown;
        x->cap = cap;
    }
    x->f[x->n++] = *f;
    return 0;
}

/* Byte strings of a BytesList.  STK_END: it is none. */
static int add_strings(example *x, stk_bytes name, stk_bytes list, stk_error *err)
{
    wire w = { list.data, list.data + list.len, 0 };
    uint32_t first = x->n;
    wire_field f;

    while (next_field(&w, &f)) {
        feature one = { name, f.bytes, BYTES, x->n - first };

        if (f.number != 1 || f.type != 2)
            return STK_END;
        STK_TRY(add(x, &one, err));
    }
    if (x->n == first + 1)
        x->f[first].index = UINT32_MAX;
    return w.bad ? STK_END : 0;
}

/* Numbers are well-formed: unpack() meets no surprise.  How many there are; -1: it is none. */
static int64_t count_numbers(stk_bytes list, int kind)
{
    wire w = { list.data, list.data + list.len, 0 };
    int64_t n = 0;
    wire_field f;

    while (next_field(&w, &f)) {
        wire in = { f.bytes.data, f.bytes.data + f.bytes.len, 0 };

        if (f.number != 1 || (kind == FLOATS && f.type == 0) || (kind == INTS && f.type == 5))
            return -1;
        if (f.type != 2)
            n++;
        else if (kind == FLOATS) {
            if (f.bytes.len % 4)
                return -1;
            n += (int64_t)(f.bytes.len / 4);
        } else
            for (; in.p < in.end && !in.bad; n++)
                varint(&in);
        if (in.bad)
            return -1;
    }
    return w.bad ? -1 : n;
}

static int add_feature(example *x, stk_bytes name, stk_bytes value, stk_error *err)
{
    wire w = { value.data, value.data + value.len, 0 };
    wire_field f;
    int64_t n;

    if (!next_field(&w, &f))
        return w.bad ? STK_END : 0; /* a feature without values */
    if (f.type != 2 || f.number < BYTES || f.number > INTS || w.p != w.end)
        return STK_END;
    if (f.number == BYTES)
        return add_strings(x, name, f.bytes, err);
    n = count_numbers(f.bytes, (int)f.number);
    if (n <= 0)
        return n < 0 ? STK_END : 0;
    return add(x, &(feature){ name, value, (int)f.number, UINT32_MAX }, err);
}

static int add_entry(example *x, stk_bytes entry, stk_error *err)
{
    wire w = { entry.data, entry.data + entry.len, 0 };
    stk_bytes name = { 0 }, value = { entry.data, 0 };
    wire_field f;

    while (next_field(&w, &f)) {
        if (f.type != 2 || f.number > 2)
            return STK_END;
        if (f.number == 1)
            name = f.bytes;
        else
            value = f.bytes;
    }
    if (w.bad || !name.len || memchr(name.data, 0, name.len))
        return STK_END;
    return add_feature(x, name, value, err);
}

/* STK_END: the record is not an Example. */
static int parse(example *x, stk_bytes record, stk_error *err)
{
    wire top = { record.data, record.data + record.len, 0 };
    wire_field features, f;

    x->n = 0;
    if (!next_field(&top, &features) || features.number != 1 || features.type != 2 ||
        top.p != top.end)
        return STK_END;
    top = (wire){ features.bytes.data, features.bytes.data + features.bytes.len, 0 };
    while (next_field(&top, &f)) {
        int rc = f.number == 1 && f.type == 2 ? add_entry(x, f.bytes, err) : STK_END;

        if (rc)
            return rc;
    }
    return top.bad || !x->n ? STK_END : 0;
}

static int by_name(const void *a, const void *b)
{
    const feature *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int c = memcmp(x->name.data, y->name.data, n);

    if (c)
        return c;
    if (x->name.len != y->name.len)
        return x->name.len < y->name.len ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* ---- the shard ---- */

typedef struct walk {
    stk_file *file;
    stk_scan *scan;
    uint64_t size, at, samples;
    uint8_t *data; /* bytes [from, from + len) of the file */
    uint64_t from;
    size_t len, cap;
    example x;
    stk_text key, names;
    stk_field field[FEATURES_MAX];
} walk;

/* `n` bytes at `at`, which are in the file. */
static int have(walk *w, uint64_t at, uint64_t n, const uint8_t **out, stk_error *err)
{
    size_t want = n > WINDOW ? (size_t)n : WINDOW;

    if (at < w->from || at + n > w->from + w->len) {
        if (want > w->cap) {
            stk_free(w->data);
            w->cap = w->len = 0;
            w->data = stk_alloc(want);
            if (!w->data)
                return stk_fail_nomem(err, want);
            w->cap = want;
        }
        w->from = at;
        w->len = w->size - at < want ? (size_t)(w->size - at) : want;
        STK_TRY(stk_file_read(w->file, at, w->data, w->len, err));
    }
    *out = w->data + (at - w->from);
    return 0;
}

static uint32_t masked(const void *data, size_t len)
{
    uint32_t crc = stk_crc32c(0, data, len);

    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static int check(const uint8_t *data, size_t len, const char *what, stk_error *err)
{
    uint32_t says;

    memcpy(&says, data + len, 4);
    return masked(data, len) == says
               ? 0
               : stk_fail(err, STK_ECORRUPT, "TFRecord: the checksum of a record's %s is wrong",
                          what);
}

/* Names of several byte strings get their numbers; texts go to w->names, which must not move. */
static int put_names(walk *w, stk_error *err)
{
    size_t room = 0, at = 0;

    for (uint32_t i = 0; i < w->x.n; i++)
        room += w->x.f[i].name.len + 12;
    w->names.len = 0;
    if (w->names.cap < room) {
        stk_free(w->names.s);
        w->names = (stk_text){ .s = stk_alloc(room), .cap = room };
        if (!w->names.s)
            return stk_fail_nomem(err, room);
    }
    for (uint32_t i = 0; i < w->x.n; i++) {
        feature *f = &w->x.f[i];
        char *to = w->names.s + at;

        memcpy(to, f->name.data, f->name.len);
        if (f->index != UINT32_MAX)
            f->name.len += (size_t)snprintf(to + f->name.len, 12, ".%u", f->index);
        f->name.data = (uint8_t *)to;
        at += f->name.len;
    }
    return 0;
}

static int report(walk *w, const uint8_t *record, uint64_t len, uint64_t offset, stk_error *err)
{
    char number[24];
    int n = snprintf(number, sizeof number, "%" PRIu64, w->samples++);
    int rc = parse(&w->x, (stk_bytes){ record, (size_t)len }, err);
    uint32_t fields = 0;

    STK_TRY(rc);
    if (rc == STK_END)
        return w->scan->sample(w->scan, (stk_bytes){ (uint8_t *)number, (size_t)n }, offset,
                               &(stk_field){ "record", 6, offset, len }, 1, err);
    STK_TRY(put_names(w, err));
    qsort(w->x.f, w->x.n, sizeof *w->x.f, by_name);
    w->key.len = 0;
    STK_TRY(stk_text_put(&w->key, number, (size_t)n, err));
    STK_TRY(stk_text_put(&w->key, "", 1, err));
    for (uint32_t i = 0; i < w->x.n; i++) {
        const feature *f = &w->x.f[i];
        uint32_t at = (uint32_t)(f->value.data - record);

        if (i && f->name.len == f[-1].name.len &&
            !memcmp(f->name.data, f[-1].name.data, f->name.len))
            return stk_fail(err, STK_ECORRUPT, "TFRecord: a feature is there twice");
        if (f->kind != BYTES)
            STK_TRY(stk_text_put(&w->key, &at, sizeof at, err));
        w->field[fields++] = (stk_field){ (const char *)f->name.data, f->name.len, offset + at,
                                          f->value.len };
    }
    return w->scan->sample(w->scan, (stk_bytes){ (uint8_t *)w->key.s, w->key.len }, offset,
                           w->field, fields, err);
}

/* The record at w->at. */
static int take(walk *w, stk_error *err)
{
    uint64_t left = w->size - w->at, len = 0;
    const uint8_t *p = NULL;

    if (left < 16)
        return stk_fail(err, STK_ECORRUPT, "TFRecord: the shard ends within a record");
    STK_TRY(have(w, w->at, 12, &p, err));
    STK_TRY(check(p, 8, "length", err));
    memcpy(&len, p, 8);
    if (len > left - 16)
        return stk_fail(err, STK_ECORRUPT, "TFRecord: the shard ends within a record");
    if (len >= RECORD_MAX)
        return stk_fail(err, STK_ELIMIT, "TFRecord: a record of %" PRIu64 " bytes", len);
    STK_TRY(have(w, w->at + 12, len + 4, &p, err));
    STK_TRY(check(p, (size_t)len, "bytes", err));
    STK_TRY(report(w, p, len, w->at + 12, err));
    w->at += len + 16;
    return 0;
}

/* The file is torn at w->at: the records before that count. */
static int take_before_tear(walk *w, stk_error *err)
{
    char why[240];

    snprintf(why, sizeof why, "torn at byte %" PRIu64 ", the samples before that are taken: %.150s",
             w->at, err ? err->message : "damaged");
    if (w->scan->warn)
        w->scan->warn(w->scan, why);
    if (w->scan->progress && w->scan->progress(w->scan, w->size))
        return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    return 0;
}

static int tfrecord_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    walk *w = STK_NEW(walk);
    int rc = w ? 0 : stk_fail_nomem(err, sizeof *w);

    if (rc == 0) {
        w->file = f;
        w->scan = scan;
        w->size = size;
    }
    while (rc == 0 && w->at < size) {
        rc = take(w, err);
        if (rc < 0)
            stk_error_at(err, NULL, w->at, (stk_bytes){ 0 });
        if (rc == STK_ECORRUPT && scan->salvage) {
            rc = take_before_tear(w, err);
            break;
        }
        if (rc == 0 && scan->progress && scan->progress(scan, w->at))
            rc = stk_fail(err, STK_ECLOSED, "indexing was stopped");
    }
    if (w) {
        stk_free(w->data);
        stk_free(w->x.f);
        stk_free(w->key.s);
        stk_free(w->names.s);
    }
    stk_free(w);
    return rc;
}

/* The checksum of the first length says it surely. */
static int tfrecord_probe(const char *name, stk_bytes head)
{
    uint32_t says;

    if (head.len < 12) /* an empty shard is one by its name alone */
        return !head.len && strstr(name, ".tfrecord") ? 90 : 0;
    memcpy(&says, head.data + 8, 4);
    return masked(head.data, 8) == says ? 100 : 0;
}

/* ---- reading ---- */

static int is_number(const stk_entry *e, const stk_field *field)
{
    const uint8_t *nul = memchr(e->key.data, 0, e->key.len), *end = e->key.data + e->key.len;
    uint64_t want = field->offset - e->offset;

    for (const uint8_t *p = nul ? nul + 1 : end; end - p >= 4; p += 4) {
        uint32_t at;

        memcpy(&at, p, 4);
        if (at == want)
            return 1;
    }
    return 0;
}

static int tfrecord_locate(const stk_entry *e, const stk_field *field, stk_place *out,
                           stk_error *err)
{
    (void)err;
    *out = (stk_place){ .offset = field->offset, .len = field->size };
    if (!field->size)
        out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    else if (is_number(e, field))
        out->unpacked = field->size * TEXT_PER_BYTE + 32;
    return 0;
}

static int put_number(char *dst, size_t room, int kind, const wire_field *f, wire *in)
{
    float x;

    if (kind == INTS)
        return snprintf(dst, room, "%" PRId64 " ", (int64_t)(f->type == 2 ? varint(in) : f->value));
    memcpy(&x, f->type == 2 ? in->p : f->bytes.data, 4);
    in->p += f->type == 2 ? 4 : 0;
    return snprintf(dst, room, "%.9g ", (double)x);
}

/* A Feature with numbers -> their text. */
static int tfrecord_unpack(stk_bytes raw, void *dst, size_t *len, stk_error *err)
{
    wire top = { raw.data, raw.data + raw.len, 0 }, w;
    wire_field list, f;
    size_t at = 0, room = *len;

    if (!next_field(&top, &list) || (list.number != FLOATS && list.number != INTS) ||
        list.type != 2 || count_numbers(list.bytes, (int)list.number) < 0)
        return stk_fail(err, STK_ECORRUPT, "TFRecord: the feature is no longer a list of numbers");
    w = (wire){ list.bytes.data, list.bytes.data + list.bytes.len, 0 };
    while (next_field(&w, &f)) {
        wire in = { f.bytes.data, f.bytes.data + f.bytes.len, 0 };

        do {
            if (room - at < 32)
                return stk_fail(err, STK_ECORRUPT, "TFRecord: a feature's text is too long");
            if (f.type == 2 && in.p == in.end)
                break;
            at += (size_t)put_number((char *)dst + at, room - at, (int)list.number, &f, &in);
        } while (f.type == 2);
    }
    *len = at ? at - 1 : 0;
    return 0;
}

const stk_format stk_format_tfrecord = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "tfrecord",
    .help = "TFRecord: features of tf.train.Example as fields, else the record",
    .suffixes = ".tfrecord .tfrecords",
    .probe = tfrecord_probe,
    .index = tfrecord_index,
    .locate = tfrecord_locate,
    .unpack = tfrecord_unpack,
};
