/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_packed.c - record batches whose buffers are compressed one by one, as Feather's default is.
 *
 * A packed buffer is a length (i64; -1: it is stored as it is) and its bytes.  The buffers of one
 * column are unpacked together into one piece of memory, which begins with a table of them as a
 * batch has: the batch with that table in place of its own is then read as any other.  They are
 * read from the file and not from its map: a file that is cut short is an error.
 *
 * Big-endian batches are unpacked too, also where they are not compressed: their numbers are turned
 * round in that memory, so that nothing else has to know of them. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "compress/unpack.h"
#include "format/arrow.h"

#define ALIGN 64u
#define ENTRY 16u                          /* of the table: where it is, how long */
#define DICTIONARY_MAX ((uint64_t)4 << 30) /* bytes of one */
#define LZ4_MOST 255u                      /* bytes that a packed one makes at most */
#define ZSTD_MOST (((uint64_t)128 << 10) / 4)
#define BARE_ROWS ((uint64_t)1 << 24) /* of a batch without bytes for them: nulls have none */

typedef struct span { /* buffers one after another */
    uint64_t first, n;
    const stk_arrow_field *of;
    int index; /* the second one numbers the entries of a dictionary */
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
    s->at[s->n++] = (span){ f->buffer + (uint64_t)stk_arrow_shift(b, f), n, f, f->encoded };
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

/* Bytes of a batch's body: read from its file where there is one. */
static int fetch(const stk_arrow_batch *b, uint64_t at, void *dst, size_t n)
{
    const stk_arrow_ipc *x = b->from;
    uint64_t place = (uint64_t)(b->body - x->file.data) + at;
    size_t got = 0;
    ssize_t k = 1;

    if (x->fd < 0) {
        memcpy(dst, b->body + at, n);
        return 0;
    }
    while (got < n && k) {
        k = pread(x->fd, (uint8_t *)dst + got, n - got, (off_t)(place + got));
        if (k < 0 && errno != EINTR)
            return -1;
        got += k > 0 ? (size_t)k : 0;
    }
    return got == n ? 0 : -1;
}

typedef struct packed { /* a buffer as it is stored */
    uint64_t at, n;     /* in the body */
    uint64_t makes;     /* bytes */
    int plain;          /* these are the bytes as they are */
} packed;

/* Buffer i.  A claim is held against what its codec makes of so many bytes at most: lz4 repeats 255
 * of one, zstd a block of 128 KiB of four. */
static int stored(const stk_arrow_batch *b, uint64_t i, packed *out)
{
    uint64_t most = b->packed == STK_ARROW_LZ4 ? LZ4_MOST : ZSTD_MOST;
    uint8_t head[8];

    if (i >= b->n_buffers)
        return -1;
    *out = (packed){ .at = word(b->buffer + ENTRY * i), .n = word(b->buffer + ENTRY * i + 8) };
    if (out->at > b->body_len || out->n > b->body_len - out->at)
        return -1;
    out->makes = out->n;
    out->plain = 1;
    if (!b->packed || b->packed == STK_ARROW_BARE || !out->n)
        return 0;
    if (out->n < sizeof head || fetch(b, out->at, head, sizeof head) < 0)
        return -1;
    out->at += sizeof head;
    out->n -= sizeof head;
    out->plain = word(head) == UINT64_MAX;
    out->makes = out->plain ? out->n : word(head);
    return out->makes > PTRDIFF_MAX || out->makes / most > out->n + sizeof head ? -1 : 0;
}

/* Rows for which a field's buffers have bytes, at most; 0: none that say it. */
static uint64_t field_rows(const stk_arrow_batch *b, const stk_arrow_field *f)
{
    static const uint8_t lists[2] = { 4, 8 };
    uint64_t first = f->buffer + (uint64_t)stk_arrow_shift(b, f), rows = 0;
    packed valid = { 0 }, a = { 0 };
    uint64_t each = f->encoded ? stk_dtype_size(f->index)
                    : f->type == STK_ARROW_BYTES || f->type == STK_ARROW_LIST ? lists[f->wide]
                    : f->type == STK_ARROW_VIEW                               ? 16
                    : f->type >= STK_ARROW_LIST                               ? 0
                                                                              : f->width;

    if (f->type == STK_ARROW_NULL || stored(b, first, &valid) < 0 ||
        ((f->encoded || f->n_buffers > 1) && stored(b, first + 1, &a) < 0))
        return 0;
    if (each)
        rows = a.makes / each;
    else if (f->type == STK_ARROW_BOOL)
        rows = 8 * a.makes;
    for (uint32_t i = 0; !f->encoded && !f->refused && i < f->n; i++) {
        uint64_t of = field_rows(b, &f->child[i]);

        if (f->type != STK_ARROW_STRUCT)
            of = f->type == STK_ARROW_FIXED_LIST && f->width ? of / f->width : 0;

        rows = of > rows ? of : rows;
    }
    return rows > 8 * valid.makes ? rows : 8 * valid.makes;
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
    uint64_t total = 0;
    packed p;

    if (s->end > b->n_buffers || s->first > s->end)
        return corrupt(err);
    for (uint32_t k = 0; k < s->n; k++)
        for (uint64_t i = s->at[k].first; i < s->at[k].first + s->at[k].n; i++) {
            if (stored(b, i, &p) < 0 || p.makes > PTRDIFF_MAX - total - ALIGN)
                return corrupt(err);
            total += rounded(p.makes);
        }
    *out = table_len(s) + total;
    return 0;
}

int stk_arrow_unpack_buffer(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    return codec == STK_ARROW_LZ4 ? stk_lz4_frame_page(in, dst, len, err)
                                  : stk_unzstd_page(in, dst, len, err);
}

static int unpack_one(const stk_arrow_batch *b, const packed *p, uint8_t *dst, stk_error *err)
{
    size_t n = (size_t)p->n;
    uint8_t *raw;
    int rc;

    if (!p->makes)
        return 0;
    if (p->plain)
        return fetch(b, p->at, dst, n) < 0 ? corrupt(err) : 0;
    raw = stk_large_alloc(n);
    if (!raw)
        return stk_fail_nomem(err, n);
    rc = fetch(b, p->at, raw, n) < 0 ? corrupt(err) : 0;
    if (rc == 0)
        rc = stk_arrow_unpack_buffer(b->packed, (stk_bytes){ raw, n }, dst, (size_t)p->makes, err);
    stk_large_free(raw, n);
    return rc;
}

static void turn(uint8_t *p, uint64_t width)
{
    for (uint64_t i = 0; i < width / 2; i++) {
        uint8_t low = p[i];

        p[i] = p[width - 1 - i];
        p[width - 1 - i] = low;
    }
}

/* The second buffer of a field, the only one with numbers. */
static void turn_values(const span *s, uint8_t *p, uint64_t len)
{
    const stk_arrow_field *f = s->of;
    uint64_t width = f->width;

    if (s->index)
        width = stk_dtype_size(f->index);
    else if (f->type == STK_ARROW_BYTES || f->type == STK_ARROW_LIST)
        width = f->wide ? 8 : 4;
    else if (f->type == STK_ARROW_VIEW)
        width = 16;
    else if (f->type != STK_ARROW_NUMBER && f->type != STK_ARROW_DECIMAL)
        return;
    for (uint64_t i = 0; width > 1 && i < len / width; i++, p += width) {
        int32_t view;

        if (s->index || f->type != STK_ARROW_VIEW) {
            turn(p, width);
            continue;
        }
        turn(p, 4);
        memcpy(&view, p, 4);
        if (view > 12) { /* else the text itself follows */
            turn(p + 8, 4);
            turn(p + 12, 4);
        }
    }
}

static int unpack_spans(const stk_arrow_batch *b, const spans *s, stk_bytes room, stk_error *err)
{
    uint8_t *to = (uint8_t *)(uintptr_t)room.data;
    uint64_t table = table_len(s), at = 0;
    packed p;

    memset(to, 0, (size_t)table);
    for (uint32_t k = 0; k < s->n; k++)
        for (uint64_t i = s->at[k].first; i < s->at[k].first + s->at[k].n; i++) {
            uint8_t *entry = to + (i - s->first) * ENTRY;

            if (stored(b, i, &p) < 0 || rounded(p.makes) > room.len - table - at)
                return corrupt(err);
            memcpy(entry, &at, 8);
            memcpy(entry + 8, &p.makes, 8);
            STK_TRY(unpack_one(b, &p, to + table + at, err));
            if (b->big && i == s->at[k].first + 1)
                turn_values(&s->at[k], to + table + at, p.makes);
            at += rounded(p.makes);
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

int stk_arrow_column_unpack(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                            stk_error *err)
{
    spans s = spans_of(b, l);

    return unpack_spans(b, &s, room, err);
}

void stk_arrow_column_open(const stk_arrow_batch *b, const stk_arrow_leaf *l, stk_bytes room,
                           stk_arrow_batch *out)
{
    spans s = spans_of(b, l);

    take_spans(b, &s, room, out);
}

/* The field that has this dictionary. */
static const stk_arrow_field *field_with(const stk_arrow_field *f, int64_t id)
{
    const stk_arrow_field *found = f->encoded && f->dictionary == id ? f : NULL;

    for (uint32_t i = 0; i < f->n && !found; i++)
        found = field_with(&f->child[i], id);
    return found;
}

int stk_arrow_dictionaries_unpack(stk_arrow_ipc *x, stk_error *err)
{
    for (uint64_t i = 0; i < x->n_dictionaries; i++) {
        stk_arrow_dictionary *d = &x->dictionary[i];
        const stk_arrow_field *f = field_with(&x->schema.root, d->id);
        spans s = { .at = { { 0, d->batch.n_buffers, f, 0 } }, .n = 1, .end = d->batch.n_buffers };
        uint64_t room = 0;

        if (!f || !d->batch.packed || d->batch.refused)
            continue;
        d->batch
            .refused = "its dictionary is damaged, or packed in a way that is not in this build";
        if (room_of(&d->batch, &s, &room, err) < 0 || room > DICTIONARY_MAX)
            continue; /* other columns are read */
        d->unpacked = stk_alloc((size_t)room + 1);
        if (!d->unpacked)
            return stk_fail_nomem(err, (size_t)room);
        if (unpack_spans(&d->batch, &s, (stk_bytes){ d->unpacked, (size_t)room }, err) < 0)
            continue;
        take_spans(&d->batch, &s, (stk_bytes){ d->unpacked, (size_t)room }, &d->batch);
        d->batch.refused = NULL;
    }
    return 0;
}
