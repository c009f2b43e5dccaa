/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_packed.c - record batches whose buffers are compressed one by one, as Feather's default is.
 *
 * A packed buffer is a length (i64; -1: it is stored as it is) and its bytes.  The buffers of one
 * column are unpacked together into one piece of memory, which begins with a table of them as a
 * batch has: the batch with that table in place of its own is then read as any other. */
#include <string.h>

#include "base/mem.h"
#include "format/arrow.h"

#define ALIGN 64u
#define ENTRY 16u                          /* of the table: where it is, how long */
#define DICTIONARY_MAX ((uint64_t)4 << 30) /* bytes of one */
#define LZ4_MOST 255u                      /* bytes that a packed one makes at most */
#define ZSTD_MOST (((uint64_t)128 << 10) / 4)
#define BARE_ROWS ((uint64_t)1 << 24) /* of a batch without bytes for them: nulls have none */

typedef struct span { /* buffers one after another */
    uint64_t first, n;
} span;

typedef struct spans { /* those of a column, in order */
    span at[STK_ARROW_DEPTH + 1];
    uint32_t n;
    uint64_t first, end; /* of all, with those of its neighbours between them */
} spans;

static int corrupt(stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "a record batch whose packed buffers are outside it, or damaged");
}

static void add_span(spans *s, const stk_arrow_batch *b, const stk_arrow_field *f, uint64_t n)
{
    s->at[s->n++] = (span){ f->buffer + (uint64_t)stk_arrow_shift(b, f), n };
    s->end = s->at[s->n - 1].first + n;
}

static spans spans_of(const stk_arrow_batch *b, const stk_arrow_leaf *l)
{
    uint32_t last = l->item ? l->item : l->depth;
    spans s = { .n = 0 };

    for (uint32_t d = 1; d < last; d++) {
        const stk_arrow_field *f = l->path[d];
        /* of a struct only which rows have a value */
        int whole = d + 1 == l->depth || d + 1 == last;

        add_span(&s, b, f,
                 !whole       ? 1
                 : f->encoded ? 2
                              : f->n_buffers + (uint64_t)stk_arrow_views(b, f));
    }
    s.first = s.at[0].first;
    return s;
}

static uint64_t word(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Buffer i as it is stored, and how many bytes it makes.  A claim is held against what its codec
 * makes of so many bytes at most: lz4 repeats 255 of one, zstd a block of 128 KiB of four. */
static int stored(const stk_arrow_batch *b, uint64_t i, stk_bytes *in, uint64_t *makes)
{
    uint64_t most = b->packed == STK_ARROW_LZ4 ? LZ4_MOST : ZSTD_MOST, at, n;

    if (i >= b->n_buffers)
        return -1;
    at = word(b->buffer + ENTRY * i);
    n = word(b->buffer + ENTRY * i + 8);
    if (at > b->body_len || n > b->body_len - at || (b->packed && n && n < 8))
        return -1;
    *in = (stk_bytes){ b->body + at, (size_t)n };
    *makes = b->packed && n ? word(in->data) : n;
    if (!b->packed)
        return 0;
    if (*makes == UINT64_MAX)
        *makes = n - 8;
    return *makes > PTRDIFF_MAX || *makes / most > n ? -1 : 0;
}

/* Rows for which a field's buffers have bytes, at most; 0: none that say it. */
static uint64_t field_rows(const stk_arrow_batch *b, const stk_arrow_field *f)
{
    static const uint8_t lists[2] = { 4, 8 };
    uint64_t first = f->buffer + (uint64_t)stk_arrow_shift(b, f), valid = 0, a = 0, rows = 0;
    uint64_t each = f->encoded                                ? stk_dtype_size(f->index)
                    : f->type == STK_ARROW_BYTES || f->type == STK_ARROW_LIST ? lists[f->wide]
                    : f->type == STK_ARROW_VIEW                               ? 16
                    : f->type >= STK_ARROW_LIST                               ? 0
                                                                              : f->width;
    stk_bytes in;

    if (f->type == STK_ARROW_NULL || stored(b, first, &in, &valid) < 0 ||
        ((f->encoded || f->n_buffers > 1) && stored(b, first + 1, &in, &a) < 0))
        return 0;
    if (each)
        rows = a / each;
    else if (f->type == STK_ARROW_BOOL)
        rows = 8 * a;
    for (uint32_t i = 0; !f->encoded && !f->refused && i < f->n; i++) {
        uint64_t of = field_rows(b, &f->child[i]);

        if (f->type != STK_ARROW_STRUCT)
            of = f->type == STK_ARROW_FIXED_LIST && f->width ? of / f->width : 0;

        rows = of > rows ? of : rows;
    }
    return rows > 8 * valid ? rows : 8 * valid;
}

int stk_arrow_rows_check(const stk_arrow_batch *b, const stk_arrow_schema *s, stk_error *err)
{
    uint64_t most = BARE_ROWS;

    for (uint32_t i = 0; i < s->root.n && b->rows > most; i++) {
        uint64_t rows = field_rows(b, &s->root.child[i]);

        most = rows > most ? rows : most;
    }
    if (b->rows <= most)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "a record batch that claims %" PRIu64
                    " rows: its columns have bytes for %" PRIu64,
                    b->rows, most);
}

static uint64_t rounded(uint64_t n)
{
    return (n + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

static uint64_t table_len(const spans *s)
{
    return rounded((s->end - s->first) * ENTRY);
}

static int room_of(const stk_arrow_batch *b, const spans *s, uint64_t *out, stk_error *err)
{
    uint64_t total = 0, makes;
    stk_bytes in;

    if (s->end > b->n_buffers || s->first > s->end)
        return corrupt(err);
    for (uint32_t k = 0; k < s->n; k++)
        for (uint64_t i = s->at[k].first; i < s->at[k].first + s->at[k].n; i++) {
            if (stored(b, i, &in, &makes) < 0 || makes > PTRDIFF_MAX - total - ALIGN)
                return corrupt(err);
            total += rounded(makes);
        }
    *out = table_len(s) + total;
    return 0;
}

static int unpack_one(const stk_arrow_batch *b, stk_bytes in, uint8_t *dst, uint64_t makes,
                      stk_arrow_unpack unpack, stk_error *err)
{
    stk_bytes rest = { in.data + 8, in.len - 8 };

    if (!makes)
        return 0;
    if (word(in.data) != UINT64_MAX)
        return unpack(b->packed, rest, dst, (size_t)makes, err);
    memcpy(dst, rest.data, rest.len);
    return 0;
}

static int unpack_spans(const stk_arrow_batch *b, const spans *s, stk_arrow_unpack unpack,
                        stk_bytes room, stk_error *err)
{
    uint8_t *to = (uint8_t *)(uintptr_t)room.data;
    uint64_t table = table_len(s), at = 0, makes;
    stk_bytes in;

    memset(to, 0, (size_t)table);
    for (uint32_t k = 0; k < s->n; k++)
        for (uint64_t i = s->at[k].first; i < s->at[k].first + s->at[k].n; i++) {
            uint8_t *entry = to + (i - s->first) * ENTRY;

            if (stored(b, i, &in, &makes) < 0 || rounded(makes) > room.len - table - at)
                return corrupt(err);
            memcpy(entry, &at, 8);
            memcpy(entry + 8, &makes, 8);
            STK_TRY(unpack_one(b, in, to + table + at, makes, unpack, err));
            at += rounded(makes);
        }
    return 0;
}

static void take_spans(const stk_arrow_batch *b, const spans *s, stk_bytes room,
                       stk_arrow_batch *out)
{
    *out = *b;
    out->packed = 0;
    out->buffer = room.data;
    out->first_buffer = (uint32_t)s->first;
    out->n_buffers = (uint32_t)(s->end - s->first);
    out->body = room.data + table_len(s);
    out->body_len = room.len - table_len(s);
}

int stk_arrow_column_room(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *out,
                          stk_error *err)
{
    spans s = spans_of(b, l);

    return room_of(b, &s, out, err);
}

int stk_arrow_column_unpack(const stk_arrow_batch *b, const stk_arrow_leaf *l,
                            stk_arrow_unpack unpack, stk_bytes room, stk_error *err)
{
    spans s = spans_of(b, l);

    return unpack_spans(b, &s, unpack, room, err);
}

void stk_arrow_column_open(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                           stk_arrow_batch *out)
{
    spans s = spans_of(b, l);

    take_spans(b, &s, room, out);
}

int stk_arrow_dictionaries_unpack(stk_arrow_ipc *x, stk_arrow_unpack unpack, stk_error *err)
{
    for (uint64_t i = 0; i < x->n_dictionaries; i++) {
        stk_arrow_dictionary *d = &x->dictionary[i];
        spans s = { .at = { { 0, d->batch.n_buffers } }, .n = 1, .end = d->batch.n_buffers };
        uint64_t room = 0;

        if (!d->batch.packed || d->batch.refused)
            continue;
        d->batch
            .refused = "its dictionary is damaged, or packed in a way that is not in this build";
        if (room_of(&d->batch, &s, &room, err) < 0 || room > DICTIONARY_MAX)
            continue; /* other columns are read */
        d->unpacked = stk_alloc((size_t)room + 1);
        if (!d->unpacked)
            return stk_fail_nomem(err, (size_t)room);
        if (unpack_spans(&d->batch, &s, unpack, (stk_bytes){ d->unpacked, (size_t)room }, err) < 0)
            continue;
        take_spans(&d->batch, &s, (stk_bytes){ d->unpacked, (size_t)room }, &d->batch);
        d->batch.refused = NULL;
    }
    return 0;
}
