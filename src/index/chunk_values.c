/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_values.c - from the values of a shard, collected as text, to a packed chunk.
 *
 * The type is known only after the last value, so all are kept as text until then: a shard's
 * worth of labels.  Packing is a function of the values alone: the same shard gives the same
 * bytes. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "index/chunk.h"
#include "index/dict.h"

#define NUMBER 8u /* bytes of REAL and WHOLE */

/* Room for n more values that have these bytes together. */
static int reserve(stk_values *s, uint64_t n, uint64_t bytes, stk_error *err)
{
    if (n >= UINT32_MAX - s->rows - 2 || bytes >= UINT32_MAX - s->n_text)
        return stk_fail(err, STK_ELIMIT,
                        "the values of one column take more than 4 GiB in one shard: split it");
    STK_TRY(idx_reserve((void **)&s->end, &s->end_cap, s->rows + n, sizeof *s->end, err));
    STK_TRY(idx_reserve((void **)&s->kind, &s->kind_cap, s->rows + n, 1, err));
    return idx_reserve((void **)&s->text, &s->text_cap, s->n_text + bytes, 1, err);
}

int stk_values_add_numbers(stk_values *s, stk_value_kind kind, const void *numbers, uint64_t n,
                           stk_error *err)
{
    STK_TRY(reserve(s, n, n * NUMBER, err));
    memcpy(s->text + s->n_text, numbers, n * NUMBER);
    memset(s->kind + s->rows, (int)kind, n);
    for (uint64_t i = 0; i < n; i++)
        s->end[s->rows + i] = (uint32_t)(s->n_text + (i + 1) * NUMBER);
    s->n_text += n * NUMBER;
    s->rows += n;
    return 0;
}

int stk_values_add(stk_values *s, stk_value_kind kind, stk_bytes value, stk_error *err)
{
    if (kind == STK_VALUE_NULL)
        value.len = 0;
    STK_TRY(reserve(s, 1, value.len, err));
    if (value.len)
        memcpy(s->text + s->n_text, value.data, value.len);
    s->n_text += value.len;
    s->end[s->rows] = (uint32_t)s->n_text;
    s->kind[s->rows++] = (uint8_t)kind;
    s->nulls += kind == STK_VALUE_NULL;
    return 0;
}

void stk_values_fini(stk_values *s)
{
    stk_free(s->text);
    stk_free(s->end);
    stk_free(s->kind);
    memset(s, 0, sizeof *s);
}

static stk_bytes cell(const stk_values *s, uint64_t row)
{
    uint32_t from = row ? s->end[row - 1] : 0;

    return (stk_bytes){ s->text + from, s->end[row] - from };
}

typedef struct facts { /* of all values of a shard */
    stk_chunk_type type;
    int64_t least, most;
    int narrow; /* every one is an f32 */
} facts;

static double real_of(stk_bytes v)
{
    double d;

    assert(v.len == sizeof d);
    memcpy(&d, v.data, sizeof d);
    return d;
}

static void look_at_real(facts *f, double d)
{
    f->type = STK_CHUNK_F64;
    if (!isnan(d) && (double)(float)d != d)
        f->narrow = 0;
}

static int64_t whole_of(stk_bytes v)
{
    int64_t i;

    assert(v.len == sizeof i);
    memcpy(&i, v.data, sizeof i);
    return i;
}

static void look_at_whole(facts *f, int64_t i)
{
    f->least = i < f->least ? i : f->least;
    f->most = i > f->most ? i : f->most;
}

static void look_at_number(facts *f, stk_bytes text)
{
    int64_t i;
    double d = 0;
    int whole = 0;

    if (f->type == STK_CHUNK_I64 && stk_number_i64(text, &i) != 1)
        f->type = STK_CHUNK_F64;
    if (f->type == STK_CHUNK_I64) {
        look_at_whole(f, i);
        whole = text.len < STK_NUMBER_TEXT; /* as stk_number_f64() has it */
        d = (double)i;
    }
    if (!whole && stk_number_f64(text, &d) != 1)
        f->type = STK_CHUNK_TEXT;
    else if (!isnan(d) && (double)(float)d != d)
        f->narrow = 0;
}

static facts look(const stk_values *s)
{
    facts f = { STK_CHUNK_I64, INT64_MAX, INT64_MIN, 1 };

    if (s->nulls == s->rows)
        f.type = STK_CHUNK_NULL;
    for (uint64_t i = 0; i < s->rows && f.type != STK_CHUNK_TEXT; i++) {
        if (s->kind[i] == STK_VALUE_QUOTED)
            f.type = STK_CHUNK_TEXT;
        else if (s->kind[i] == STK_VALUE_REAL)
            look_at_real(&f, real_of(cell(s, i)));
        else if (s->kind[i] == STK_VALUE_WHOLE)
            look_at_whole(&f, whole_of(cell(s, i)));
        else if (s->kind[i] == STK_VALUE_BARE)
            look_at_number(&f, cell(s, i));
    }
    return f;
}

/* Bytes that hold 0 .. most. */
static uint8_t width_of(uint64_t most)
{
    return !most ? 0 : most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
}

/* Room for what out->rec says, zeroed, with the bits of validity filled in. */
static int chunk_room(const stk_values *s, stk_chunk *out, stk_error *err)
{
    uint64_t bytes = idx_chunk_bytes(&out->rec, s->rows), at;

    out->rows = s->rows;
    out->owned = stk_zalloc(bytes + 8, 1);
    out->data = out->owned;
    if (!out->owned)
        return stk_fail_nomem(err, bytes);
    at = (s->rows * out->rec.width + 7) & ~(uint64_t)7;
    for (uint64_t i = 0; s->nulls && i < s->rows; i++)
        if (s->kind[i] != STK_VALUE_NULL)
            out->owned[at + i / 8] |= (uint8_t)(1u << i % 8);
    return 0;
}

static int pack_i64(const stk_values *s, const facts *f, stk_chunk *out, stk_error *err)
{
    out->rec.base = f->least;
    out->rec.width = width_of((uint64_t)f->most - (uint64_t)f->least);
    STK_TRY(chunk_room(s, out, err));
    for (uint64_t i = 0; out->rec.width && i < s->rows; i++) {
        int64_t v = f->least;
        uint64_t d;

        if (s->kind[i] == STK_VALUE_WHOLE)
            v = whole_of(cell(s, i));
        else if (s->kind[i] != STK_VALUE_NULL)
            (void)stk_number_i64(cell(s, i), &v);
        d = (uint64_t)v - (uint64_t)f->least;
        memcpy(out->owned + i * out->rec.width, &d, out->rec.width);
    }
    return 0;
}

static int pack_f64(const stk_values *s, const facts *f, stk_chunk *out, stk_error *err)
{
    out->rec.width = f->narrow ? 4 : 8;
    STK_TRY(chunk_room(s, out, err));
    for (uint64_t i = 0; i < s->rows; i++) {
        double v = 0;
        float narrow;

        if (s->kind[i] == STK_VALUE_NULL)
            continue;
        if (s->kind[i] == STK_VALUE_REAL)
            v = real_of(cell(s, i));
        else
            (void)stk_number_f64(cell(s, i), &v);
        narrow = (float)v;
        if (f->narrow)
            memcpy(out->owned + i * 4, &narrow, 4);
        else
            memcpy(out->owned + i * 8, &v, 8);
    }
    return 0;
}

/* ---- text: a dictionary in order of first occurrence ---- */

typedef struct vocabulary {
    uint32_t *slots; /* row + 1 of an entry's first occurrence; at most half are taken */
    size_t n_slots;
    uint32_t *number; /* of a row: its entry */
    uint32_t *first;  /* of an entry: a row that has it */
    uint32_t entries;
    uint64_t bytes;
} vocabulary;

static void vocabulary_fini(vocabulary *v)
{
    stk_free(v->slots);
    stk_free(v->number);
    stk_free(v->first);
}

static void enter(vocabulary *v, const stk_values *s, uint64_t row)
{
    stk_bytes t = cell(s, row), u;
    size_t at = stk_hash64(3, t.data, t.len) & (v->n_slots - 1);

    for (; v->slots[at]; at = (at + 1) & (v->n_slots - 1)) {
        uint32_t have = v->slots[at] - 1;

        u = cell(s, have);
        if (u.len == t.len && !memcmp(u.data, t.data, t.len)) {
            v->number[row] = v->number[have];
            return;
        }
    }
    v->slots[at] = (uint32_t)row + 1;
    v->first[v->entries] = (uint32_t)row;
    v->number[row] = v->entries++;
    v->bytes += t.len;
}

static int vocabulary_make(vocabulary *v, const stk_values *s, stk_error *err)
{
    v->n_slots = 16;
    while (v->n_slots < s->rows * 2)
        v->n_slots *= 2;
    v->slots = stk_zalloc(v->n_slots, sizeof *v->slots);
    v->number = stk_zalloc(s->rows + 1, sizeof *v->number);
    v->first = stk_zalloc(s->rows + 1, sizeof *v->first);
    if (!v->slots || !v->number || !v->first)
        return stk_fail_nomem(err, v->n_slots * sizeof *v->slots);
    for (uint64_t i = 0; i < s->rows; i++)
        if (s->kind[i] != STK_VALUE_NULL)
            enter(v, s, i);
    return 0;
}

static int pack_text(const stk_values *s, const vocabulary *v, stk_chunk *out, stk_error *err)
{
    uint8_t *offsets, *text;
    uint32_t end = 0;

    out->rec.entries = v->entries;
    out->rec.text = (uint32_t)v->bytes;
    out->rec.width = width_of(v->entries - 1);
    STK_TRY(chunk_room(s, out, err));
    for (uint64_t i = 0; i < s->rows; i++)
        memcpy(out->owned + i * out->rec.width, &v->number[i], out->rec.width);
    text = out->owned + idx_chunk_bytes(&out->rec, s->rows) - ((v->bytes + 7) & ~(uint64_t)7);
    offsets = text - ((((uint64_t)v->entries + 1) * 4 + 7) & ~(uint64_t)7);
    for (uint32_t k = 0; k < v->entries; k++) {
        stk_bytes t = cell(s, v->first[k]);

        memcpy(text + end, t.data, t.len);
        end += (uint32_t)t.len;
        memcpy(offsets + ((uint64_t)k + 1) * 4, &end, 4);
    }
    return 0;
}

int stk_values_chunk(const stk_values *s, stk_chunk *out, stk_error *err)
{
    facts f = look(s);
    vocabulary v = { 0 };
    int rc = 0;

    memset(out, 0, sizeof *out);
    out->rows = s->rows;
    out->rec.type = (uint8_t)f.type;
    out->rec.nulls = (uint32_t)s->nulls;
    if (f.type == STK_CHUNK_I64)
        rc = pack_i64(s, &f, out, err);
    if (f.type == STK_CHUNK_F64)
        rc = pack_f64(s, &f, out, err);
    if (f.type == STK_CHUNK_TEXT) {
        rc = vocabulary_make(&v, s, err);
        if (rc == 0)
            rc = pack_text(s, &v, out, err);
        vocabulary_fini(&v);
    }
    if (rc < 0)
        stk_chunk_fini(out);
    return rc;
}

/* The shortest text that reads back as this number. */
static size_t number_text(double v, char *buf, size_t size)
{
    int n = 0;

    for (int digits = 15; digits <= 17; digits++) {
        double back = 0;

        n = snprintf(buf, size, "%.*g", digits, v);
        for (int i = 0; i < n; i++)
            if (!strchr("0123456789+-einfa", buf[i]))
                buf[i] = '.'; /* the locale's own point */
        if (stk_number_f64((stk_bytes){ (uint8_t *)buf, (size_t)n }, &back) == 1 && back == v)
            break;
    }
    return (size_t)n;
}

int stk_chunk_to_text(const stk_chunk *c, stk_chunk *out, stk_error *err)
{
    stk_values s = { 0 };
    char buf[40];
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < c->rows; i++) {
        int valid = stk_chunk_valid(c, i);
        size_t len = 0;
        int64_t v;
        double d;

        if (valid && c->rec.type == STK_CHUNK_I64) {
            stk_chunk_i64(c, i, 1, &v);
            len = (size_t)snprintf(buf, sizeof buf, "%" PRId64, v);
        } else if (valid) {
            stk_chunk_f64(c, i, 1, &d);
            len = number_text(d, buf, sizeof buf);
        }
        rc = stk_values_add(&s, valid ? STK_VALUE_QUOTED : STK_VALUE_NULL,
                            (stk_bytes){ (uint8_t *)buf, len }, err);
    }
    if (rc == 0)
        rc = stk_values_chunk(&s, out, err);
    stk_values_fini(&s);
    return rc;
}
