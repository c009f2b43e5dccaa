/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - pages: header, levels, and the rows that they make.
 *
 * A page is unpacked, its levels say which rows and slots there are, and its values go to their
 * slots.  Everything that a header says is held against the bytes and against the memory that the
 * answer may take before memory is made. */
#include "format/parquet/decode.h"

#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "format/list_null.h"
#include "format/parquet/rle.h"
#include "format/parquet/thrift.h"

/* ---- the header ---- */

static int32_t small(stk_thrift *t, const stk_thrift_field *f)
{
    int64_t v = stk_thrift_int(t, f);

    if ((v < 0 || v > INT32_MAX) && !t->bad)
        t->bad = "a count is negative or larger than 2^31";
    return (int32_t)v;
}

/* Fields of structs in parquet.thrift. */
enum { PAGE_KIND = 1, PAGE_SIZE, PAGE_PACKED, PAGE_CRC, PAGE_DATA };
enum { PAGE_DICTIONARY = 7, PAGE_DATA2 };
enum { DATA_VALUES = 1, DATA_ENCODING, DATA_DEF_ENCODING, DATA_REP_ENCODING };
enum { DICTIONARY_VALUES = 1, DICTIONARY_ENCODING };
enum { DATA2_VALUES = 1, DATA2_NULLS, DATA2_ROWS, DATA2_ENCODING };
enum { DATA2_DEF_LEN = 5, DATA2_REP_LEN, DATA2_PACKED };

static void read_data(stk_thrift *t, stk_pq_page *p)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f))
        switch (f.id) {
        case DATA_VALUES: p->values = (uint32_t)small(t, &f); break;
        case DATA_ENCODING: p->encoding = small(t, &f); break;
        case DATA_DEF_ENCODING: p->def_encoding = small(t, &f); break;
        case DATA_REP_ENCODING: p->rep_encoding = small(t, &f); break;
        default: stk_thrift_skip(t, &f);
        }
}

static void read_dictionary(stk_thrift *t, stk_pq_page *p)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f))
        if (f.id == DICTIONARY_VALUES)
            p->values = (uint32_t)small(t, &f);
        else if (f.id == DICTIONARY_ENCODING)
            p->encoding = small(t, &f);
        else
            stk_thrift_skip(t, &f);
}

static void read_data2(stk_thrift *t, stk_pq_page *p)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f))
        switch (f.id) {
        case DATA2_VALUES: p->values = (uint32_t)small(t, &f); break;
        case DATA2_NULLS: p->nulls = (uint32_t)small(t, &f); break;
        case DATA2_ROWS: p->rows = (uint32_t)small(t, &f); break;
        case DATA2_ENCODING: p->encoding = small(t, &f); break;
        case DATA2_DEF_LEN: p->def_len = (uint32_t)small(t, &f); break;
        case DATA2_REP_LEN: p->rep_len = (uint32_t)small(t, &f); break;
        case DATA2_PACKED: p->plain = !stk_thrift_bool(t, &f); break;
        default: stk_thrift_skip(t, &f);
        }
}

static uint32_t read_head(stk_thrift *t, stk_pq_page *p)
{
    stk_thrift_field f = { 0 };
    uint32_t seen = 0;

    while (stk_thrift_next(t, &f)) {
        seen |= f.id < 32 ? 1u << f.id : 0;
        switch (f.id) {
        case PAGE_KIND: p->kind = small(t, &f); break;
        case PAGE_SIZE: p->size = (uint32_t)small(t, &f); break;
        case PAGE_PACKED: p->packed = (uint32_t)small(t, &f); break;
        case PAGE_CRC:
            p->crc = (uint32_t)stk_thrift_int(t, &f);
            p->has_crc = 1;
            break;
        case PAGE_DATA:
            if (stk_thrift_struct(t, &f))
                read_data(t, p);
            break;
        case PAGE_DICTIONARY:
            if (stk_thrift_struct(t, &f))
                read_dictionary(t, p);
            break;
        case PAGE_DATA2:
            if (stk_thrift_struct(t, &f))
                read_data2(t, p);
            break;
        default: stk_thrift_skip(t, &f);
        }
    }
    return seen;
}

int stk_pq_page_read(stk_bytes in, stk_pq_page *out, stk_error *err)
{
    stk_thrift t = { in.data, in.data + in.len, NULL };
    static const uint8_t body[] = { PAGE_DATA, 0, PAGE_DICTIONARY, PAGE_DATA2 };
    const uint32_t all = 1u << PAGE_KIND | 1u << PAGE_SIZE | 1u << PAGE_PACKED;
    uint32_t seen;

    *out = (stk_pq_page){ .kind = -1 };
    seen = read_head(&t, out);
    if (t.bad && t.p == t.end && in.len < STK_PQ_HEAD_MAX && !strcmp(t.bad, "it ends too early"))
        return STK_PENDING;
    if (t.bad)
        return stk_fail(err, STK_ECORRUPT, "a page's header is damaged: %s", t.bad);
    if (out->kind < 0 || out->kind > STK_PQ_DATA2 || (seen & all) != all ||
        (body[out->kind] && !(seen >> body[out->kind] & 1)))
        return stk_fail(err, STK_ECORRUPT, "a page's header lacks what its kind needs");
    if (out->kind == STK_PQ_DATA2 && (uint64_t)out->rep_len + out->def_len > out->packed)
        return stk_fail(err, STK_ECORRUPT, "a page's levels are longer than the page");
    if (out->kind == STK_PQ_DATA2 && (uint64_t)out->rep_len + out->def_len > out->size)
        return stk_fail(err, STK_ECORRUPT, "a page's levels are longer than the page");
    out->head = (uint32_t)(t.p - in.data);
    return 0;
}

/* ---- memory ---- */

int stk_pq_too_large(const stk_pq_decode *d, uint64_t bytes, stk_error *err)
{
    return stk_fail(err, STK_ELIMIT,
                    "column %s: its pages unpack to more than %" PRIu64 " bytes (%" PRIu64 ")",
                    d->leaf->name, d->max_bytes, bytes);
}

typedef struct growing { /* an array of a vector's: *p has room for *cap elements of `size` bytes */
    void **p;
    uint64_t *cap;
    uint32_t size;
} growing;

/* Room for `want` elements. */
static int reserve(const stk_pq_decode *d, stk_pq_vector *v, growing g, uint64_t want,
                   stk_error *err)
{
    void **p = g.p;
    uint64_t *cap = g.cap;
    uint32_t size = g.size;
    uint64_t to = want < *cap * 2 ? *cap * 2 : want;
    void *grown;

    if (*p && want <= *cap)
        return 0;
    if (v->lent && *p && (*p == v->value || *p == v->first))
        return stk_fail(err, STK_ECORRUPT,
                        "column %s: its pages have more values than their headers said",
                        d->leaf->name);
    if (to > (d->max_bytes - v->bytes) / size)
        to = want;
    if (to > d->max_bytes / size || (to - *cap) * size > d->max_bytes - v->bytes)
        return stk_pq_too_large(d, v->bytes + (to - *cap) * size, err);
    grown = stk_grow(*p, (size_t)(*cap * size), (size_t)(to * size) + 64);
    if (!grown)
        return stk_fail_nomem(err, (size_t)(to * size));
    v->bytes += (to - *cap) * size;
    *p = grown;
    *cap = to;
    return 0;
}

int stk_pq_data_reserve(const stk_pq_decode *d, stk_pq_vector *v, uint64_t more, stk_error *err)
{
    if (v->data_len + more > UINT32_MAX)
        return stk_pq_too_large(d, v->data_len + more, err);
    return reserve(d, v, (growing){ (void **)&v->data, &v->cap_data, 1 }, v->data_len + more, err);
}

static int reserve_slots(const stk_pq_decode *d, stk_pq_vector *v, uint64_t more, stk_error *err)
{
    if (d->leaf->width)
        return reserve(d, v, (growing){ (void **)&v->value, &v->cap_slots, d->leaf->width },
                       v->slots + more, err);
    return reserve(d, v, (growing){ (void **)&v->ref, &v->cap_refs, sizeof *v->ref },
                   v->slots + more, err);
}

/* Room for the starts of `more` rows, and one more; for their flags only where there is something
 * to say. */
static int reserve_rows(const stk_pq_decode *d, stk_pq_vector *v, uint64_t more, int flags,
                        stk_error *err)
{
    uint64_t want = v->rows + more + 1;
    int fresh = !v->null;

    if (flags || !fresh)
        STK_TRY(reserve(d, v, (growing){ (void **)&v->null, &v->cap_nulls, 1 }, want, err));
    if (flags && fresh)
        memset(v->null, 0, (size_t)v->rows);
    if (d->leaf->max_rep)
        STK_TRY(reserve(d, v, (growing){ (void **)&v->first, &v->cap_rows, sizeof *v->first }, want,
                        err));
    return 0;
}

void stk_pq_vector_fini(stk_pq_vector *v)
{
    stk_free(v->lent ? NULL : v->first);
    stk_free(v->null);
    stk_free(v->lent ? NULL : v->value);
    stk_free(v->ref);
    stk_free(v->data);
    *v = (stk_pq_vector){ 0 };
}

/* ---- a page's bytes ---- */

typedef struct body { /* of a data page, unpacked */
    stk_pq_page page;
    stk_bytes rep, def, values;
    uint8_t *owned;       /* what they are in, unless it is the vector's or the file's; freed */
    uint8_t *levels;      /* rep[n], then def[n]; freed */
    uint8_t *reps, *defs; /* NULL: all zero, all at their most */
    uint64_t rows, slots, present; /* that it adds */
} body;

static int check_crc(const stk_pq_page *p, stk_bytes data, stk_error *err)
{
    stk_crc32 table;
    uint32_t sum;

    if (!p->has_crc)
        return 0;
    stk_crc32_init(&table);
    sum = stk_crc32_of(&table, 0, data.data, data.len);
    return sum == p->crc ? 0
                         : stk_fail(err, STK_ECORRUPT,
                                    "a page's checksum is %08x, its header says %08x", sum, p->crc);
}

/* Where to unpack to: the vector's data where refs will point into it, else memory of its own. */
static int unpack_room(const stk_pq_decode *d, body *b, stk_pq_vector *v, size_t size,
                       uint8_t **out, stk_error *err)
{
    if (size > d->max_bytes)
        return stk_pq_too_large(d, size, err);
    if (v && !d->leaf->width && stk_pq_stays(b->page.encoding)) {
        STK_TRY(stk_pq_data_reserve(d, v, size, err));
        *out = v->data + v->data_len;
        v->data_len += size;
        return 0;
    }
    b->owned = stk_alloc(size ? size : 1);
    *out = b->owned;
    return b->owned ? 0 : stk_fail_nomem(err, size);
}

/* Unpack b->values to `size` bytes; bytes that are not packed stay where they are unless refs need
 * them. */
static int unpack_values(const stk_pq_decode *d, body *b, stk_pq_vector *v, size_t size, int packed,
                         stk_error *err)
{
    stk_bytes in = b->values;
    int stays = v && !d->leaf->width && stk_pq_stays(b->page.encoding);
    uint8_t *dst;

    if (!packed && in.len != size)
        return stk_fail(err, STK_ECORRUPT, "a page of %zu bytes that should have %zu", in.len,
                        size);
    if (!packed && !stays)
        return 0;
    STK_TRY(unpack_room(d, b, v, size, &dst, err));
    b->values = (stk_bytes){ dst, size };
    if (packed)
        return stk_unpack_page(d->codec, in, dst, size, err);
    if (size)
        memcpy(dst, in.data, size);
    return 0;
}

/* DATA: levels are packed with the values, each after a count of its bytes. */
static int cut_levels(stk_bytes *all, int encoding, stk_bytes *out, stk_error *err)
{
    uint32_t len;

    if (encoding != STK_PQ_RLE)
        return stk_fail(err, STK_ENOTSUP, "levels with encoding %d are not supported", encoding);
    if (all->len < 4)
        return stk_fail(err, STK_ECORRUPT, "a page ends before its levels");
    memcpy(&len, all->data, 4);
    if (len > all->len - 4)
        return stk_fail(err, STK_ECORRUPT, "a page ends within its levels");
    *out = (stk_bytes){ all->data + 4, len };
    *all = (stk_bytes){ all->data + 4 + len, all->len - 4 - len };
    return 0;
}

static int open_data(const stk_pq_decode *d, body *b, stk_pq_vector *v, stk_bytes in,
                     stk_error *err)
{
    b->values = in;
    STK_TRY(unpack_values(d, b, v, b->page.size, d->codec != STK_PQ_RAW, err));
    if (d->leaf->max_rep)
        STK_TRY(cut_levels(&b->values, b->page.rep_encoding, &b->rep, err));
    if (d->leaf->max_def)
        STK_TRY(cut_levels(&b->values, b->page.def_encoding, &b->def, err));
    return 0;
}

static int open_data2(const stk_pq_decode *d, body *b, stk_pq_vector *v, stk_bytes in,
                      stk_error *err)
{
    uint32_t levels = b->page.rep_len + b->page.def_len, size = b->page.size - levels;
    int packed = d->codec != STK_PQ_RAW && (!b->page.plain || d->leaf->v2_packed);

    b->rep = (stk_bytes){ in.data, b->page.rep_len };
    b->def = (stk_bytes){ in.data + b->page.rep_len, b->page.def_len };
    b->values = (stk_bytes){ in.data + levels, in.len - levels };
    if (packed && !size && !b->values.len)
        packed = 0; /* all null: nothing was packed */
    return unpack_values(d, b, v, size, packed, err);
}

/* ---- levels ---- */

static uint32_t bits_of(uint32_t most)
{
    uint32_t n = 0;

    while (most >> n)
        n++;
    return n;
}

#define ONES 0x0101010101010101u

/* The high bit of each of 8 bytes that are below 128: 1 where it is not `value`. */
static inline uint64_t differ(const uint8_t *p, uint8_t value)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return ((word ^ value * ONES) + 0x7F * ONES) & 0x80 * ONES;
}

/* How many of n levels are `value`. */
static uint64_t count_equal(const uint8_t *level, uint64_t n, uint8_t value)
{
    uint64_t i = 0, others = 0;

    for (; i + 8 <= n; i += 8)
        others += (differ(level + i, value) >> 7) * ONES >> 56;
    for (; i < n; i++)
        others += level[i] != value;
    return n - others;
}

static int read_levels(stk_bytes in, uint32_t most, uint8_t *dst, uint64_t n, stk_error *err)
{
    uint8_t top = 0;
    stk_rle r;

    stk_rle_init(&r, in, bits_of(most));
    STK_TRY(stk_rle_levels(&r, dst, n, err));
    for (uint64_t i = 0; i < n; i++)
        top = dst[i] > top ? dst[i] : top;
    return top > most ? stk_fail(err, STK_ECORRUPT, "level %u where %u is the most", top, most) : 0;
}

static int open_defs(const stk_pq_leaf *l, body *b, stk_error *err)
{
    uint64_t n = b->page.values;

    b->defs = b->levels + n;
    STK_TRY(read_levels(b->def, l->max_def, b->defs, n, err));
    b->present = count_equal(b->defs, n, l->max_def);
    for (uint8_t level = 0; l->max_rep && level < l->list_def; level++)
        b->slots -= count_equal(b->defs, n, level);
    return 0;
}

/* Levels of the page, and what they add up to. */
static int open_levels(const stk_pq_decode *d, body *b, stk_error *err)
{
    const stk_pq_leaf *l = d->leaf;
    uint64_t n = b->page.values;
    /* nothing is null */
    int full = !l->max_def || stk_rle_is_run(b->def, bits_of(l->max_def), l->max_def, n);

    b->rows = b->slots = b->present = n;
    if (full && !l->max_rep)
        return 0;
    if (n > d->max_bytes / 2)
        return stk_pq_too_large(d, n * 2, err);
    b->levels = stk_alloc((size_t)n * (full ? 1 : 2) + 1);
    if (!b->levels)
        return stk_fail_nomem(err, (size_t)n * 2);
    if (l->max_rep) {
        b->reps = b->levels;
        STK_TRY(read_levels(b->rep, l->max_rep, b->reps, n, err));
        b->rows = count_equal(b->reps, n, 0);
    }
    return full ? 0 : open_defs(l, b, err);
}

static int open_body(const stk_pq_decode *d, body *b, stk_pq_vector *v, stk_bytes in,
                     stk_error *err)
{
    STK_TRY(check_crc(&b->page, in, err));
    STK_TRY(b->page.kind == STK_PQ_DATA ? open_data(d, b, v, in, err)
                                        : open_data2(d, b, v, in, err));
    return open_levels(d, b, err);
}

static void body_fini(body *b)
{
    stk_free(b->owned);
    stk_free(b->levels);
}

/* ---- rows ---- */

static void null_value(const stk_pq_leaf *l, uint8_t *dst)
{
    memset(dst, 0, l->width);
    if (l->dtype)
        (void)stk_list_null_put(l->dtype, l->fills ? &l->fill : NULL, dst);
}

/* Starts of rows and which are null, from the levels. */
static void add_rows(const stk_pq_leaf *l, const body *b, stk_pq_vector *v)
{
    uint64_t slot = v->slots;

    for (uint64_t i = 0; i < b->page.values; i++) {
        uint8_t def = b->defs[i];

        if (!b->reps || !b->reps[i]) {
            if (v->first)
                v->first[v->rows] = (uint32_t)slot;
            v->null[v->rows] = l->max_rep ? def + 1 < l->list_def : def < l->max_def;
            v->rows++;
        }
        if (l->max_rep && def >= l->list_def) {
            if (def < l->max_def && !l->fills && stk_list_null_is_whole(l->dtype))
                v->null[v->rows - 1] = 2;
            slot++;
        }
    }
    if (v->first)
        v->first[v->rows] = (uint32_t)slot;
}

/* The same where no list is empty or null and nothing in them is. */
static void add_full_rows(const body *b, stk_pq_vector *v)
{
    uint64_t n = b->page.values, i = 0, rows = v->rows;

    for (; i + 8 <= n; i += 8)
        for (uint64_t begin = ~differ(b->reps + i, 0) & 0x80 * ONES; begin; begin &= begin - 1)
            v->first[rows++] = (uint32_t)(v->slots + i + (uint64_t)__builtin_ctzll(begin) / 8);
    for (; i < n; i++)
        if (!b->reps[i])
            v->first[rows++] = (uint32_t)(v->slots + i);
    v->first[rows] = (uint32_t)(v->slots + n);
}

/* Spread `present` values, which are at the end of the new slots, over the slots. */
static void spread(const stk_pq_leaf *l, const body *b, stk_pq_vector *v)
{
    uint64_t slot = v->slots, from = v->slots + (b->slots - b->present);

    for (uint64_t i = 0; i < b->page.values; i++) {
        uint8_t def = b->defs[i];

        if (l->max_rep && def < l->list_def)
            continue;
        if (l->width) {
            uint8_t *dst = v->value + slot * l->width;

            if (def == l->max_def)
                memmove(dst, v->value + from++ * l->width, l->width);
            else
                null_value(l, dst);
        } else
            v->ref[slot] = def == l->max_def ? v->ref[from++] : STK_PQ_NULL_REF;
        slot++;
    }
}

static int add_body(const stk_pq_decode *d, const body *b, stk_pq_vector *v, stk_error *err)
{
    uint64_t gap = b->slots - b->present;

    if (d->leaf->max_rep && b->page.values && b->reps[0] && !v->rows)
        return stk_fail(err, STK_ECORRUPT, "the first page begins in the middle of a row");
    if (v->slots + b->slots > UINT32_MAX || v->rows + b->rows > UINT32_MAX)
        return stk_pq_too_large(d, v->slots + b->slots, err);
    STK_TRY(reserve_slots(d, v, b->slots, err));
    STK_TRY(reserve_rows(d, v, b->rows, b->defs != NULL, err));
    if (d->leaf->width)
        STK_TRY(stk_pq_values(d, b->page.encoding, b->values, b->present,
                              v->value + (v->slots + gap) * d->leaf->width, err));
    else
        STK_TRY(stk_pq_refs(d, &(stk_pq_encoded){ b->page.encoding, b->values, b->present }, v,
                            v->ref + v->slots + gap, err));
    if (gap)
        spread(d->leaf, b, v);
    if (b->defs)
        add_rows(d->leaf, b, v);
    else {
        if (v->null)
            memset(v->null + v->rows, 0, (size_t)b->rows);
        if (v->first)
            add_full_rows(b, v);
        v->rows += b->rows;
    }
    v->slots += b->slots;
    return 0;
}

/* The page at the beginning of `in`: its header, and the bytes after it. */
static int page_at(stk_bytes in, stk_pq_page *page, stk_bytes *data, stk_error *err)
{
    int rc = stk_pq_page_read(in, page, err);

    if (rc == STK_PENDING)
        return stk_fail(err, STK_ECORRUPT, "a page's header is damaged: it ends too early");
    STK_TRY(rc);
    if (page->packed > in.len - page->head)
        return stk_fail(err, STK_ECORRUPT, "a page of %u bytes where %zu are left", page->packed,
                        in.len - page->head);
    *data = (stk_bytes){ in.data + page->head, page->packed };
    return 0;
}

int stk_pq_decode_pages(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v, stk_error *err)
{
    v->leaf = d->leaf;
    while (in.len) {
        body b = { 0 };
        stk_bytes data;
        int rc = page_at(in, &b.page, &data, err);

        if (rc == 0 && (b.page.kind == STK_PQ_DATA || b.page.kind == STK_PQ_DATA2)) {
            rc = open_body(d, &b, v, data, err);
            if (rc == 0)
                rc = add_body(d, &b, v, err);
        }
        body_fini(&b);
        STK_TRY(rc);
        in = (stk_bytes){ data.data + data.len, in.len - b.page.head - b.page.packed };
    }
    return 0;
}

int stk_pq_decode_dictionary(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v, stk_error *err)
{
    body b = { 0 };
    stk_bytes data;
    int rc = page_at(in, &b.page, &data, err);

    v->leaf = d->leaf;
    if (rc == 0 && b.page.kind != STK_PQ_DICTIONARY)
        rc = stk_fail(err, STK_ECORRUPT, "where a dictionary should be is another page");
    if (rc == 0 && b.page.encoding != STK_PQ_PLAIN && b.page.encoding != STK_PQ_PLAIN_DICTIONARY)
        rc = stk_fail(err, STK_ENOTSUP, "a dictionary with encoding %d is not supported",
                      b.page.encoding);
    b.page.encoding = STK_PQ_PLAIN;
    if (rc == 0)
        rc = check_crc(&b.page, data, err);
    b.values = data;
    if (rc == 0)
        rc = unpack_values(d, &b, v, b.page.size, d->codec != STK_PQ_RAW, err);
    if (rc == 0)
        rc = reserve_slots(d, v, b.page.values, err);
    if (rc == 0)
        rc = d->leaf->width
                 ? stk_pq_values(d, STK_PQ_PLAIN, b.values, b.page.values, v->value, err)
                 : stk_pq_refs(d, &(stk_pq_encoded){ STK_PQ_PLAIN, b.values, b.page.values }, v,
                               v->ref, err);
    v->rows = v->slots = rc == 0 ? b.page.values : 0;
    body_fini(&b);
    return rc;
}

int stk_pq_count_rows(const stk_pq_decode *d, stk_bytes in, uint64_t *rows, int *whole,
                      stk_error *err)
{
    body b = { 0 };
    stk_bytes data;
    int rc = page_at(in, &b.page, &data, err);

    *rows = 0;
    *whole = 1;
    if (rc == 0 && d->leaf->max_rep) {
        rc = open_body(d, &b, NULL, data, err);
        *rows = b.rows;
        *whole = rc < 0 || !b.page.values || !b.reps[0];
    } else if (rc == 0)
        *rows = b.page.values;
    body_fini(&b);
    return rc;
}

int stk_pq_texts_room(const stk_pq_decode *d, stk_bytes in, uint64_t *out, stk_error *err)
{
    stk_pq_vector v = { .leaf = d->leaf };
    body b = { 0 };
    stk_bytes data;
    int rc = page_at(in, &b.page, &data, err);

    if (rc == 0)
        rc = open_body(d, &b, &v, data, err);
    if (rc == 0)
        rc = reserve_slots(d, &v, b.present, err);
    if (rc == 0)
        rc = stk_pq_refs(d, &(stk_pq_encoded){ b.page.encoding, b.values, b.present }, &v, v.ref,
                         err);
    if (rc == 0) {
        v.slots = b.present;
        *out = stk_pq_texts_len(&v, d) + (b.slots - b.present) * STK_PQ_NULL_TEXT +
               b.rows * STK_PQ_TEXTS_ROW;
    }
    stk_pq_vector_fini(&v);
    body_fini(&b);
    return rc;
}

int stk_pq_present(const stk_pq_decode *d, stk_bytes in, uint8_t def, stk_pq_presence *out,
                   stk_error *err)
{
    while (in.len) {
        body b = { 0 };
        stk_bytes data;
        int rc = page_at(in, &b.page, &data, err);
        int is_data = rc == 0 && (b.page.kind == STK_PQ_DATA || b.page.kind == STK_PQ_DATA2);

        if (is_data)
            rc = open_body(d, &b, NULL, data, err);
        if (is_data && rc == 0 && b.rows > out->room - out->n)
            rc = stk_fail(err, STK_ECORRUPT, "column %s: its pages have more rows than its group",
                          d->leaf->name);
        for (uint64_t i = 0; is_data && rc == 0 && i < b.page.values; i++)
            if (!b.reps || !b.reps[i])
                out->row[out->n++] = !b.defs || b.defs[i] >= def;
        body_fini(&b);
        STK_TRY(rc);
        in = (stk_bytes){ data.data + data.len, in.len - b.page.head - b.page.packed };
    }
    return 0;
}

int stk_pq_row(const stk_pq_vector *v, const stk_pq_vector *dictionary, uint64_t r, stk_bytes *out,
               uint64_t *values, stk_error *err)
{
    const stk_pq_leaf *l = v->leaf;
    uint64_t slot = v->first ? v->first[r] : r;
    const stk_pq_vector *from = v;
    stk_pq_ref ref;

    *values = v->first ? v->first[r + 1] - slot : 1;
    if (v->null && v->null[r] == 1)
        return STK_ENOTFOUND;
    if (v->null && v->null[r])
        return stk_fail(err, STK_ECORRUPT, "column %s: " STK_LIST_NULL, l->name);
    if (l->width) {
        *out = (stk_bytes){ v->value + slot * l->width, (size_t)(*values * l->width) };
        return 0;
    }
    ref = v->ref[slot];
    if (ref.len & STK_PQ_IN_DICTIONARY)
        from = dictionary;
    *out = (stk_bytes){ from->data + ref.at, ref.len & ~STK_PQ_IN_DICTIONARY };
    return 0;
}
