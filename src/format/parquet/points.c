/* SPDX-License-Identifier: Apache-2.0 */
/* points.c - making and using row seek points.
 *
 * A page of large values is walked block by block: 64 KiB are unpacked, and the length words in
 * them say where the next value begins, so that a page of 110 MB takes 64 KiB of memory besides its
 * packed bytes.  Pages of dictionary indices are small and decoded as usual, with a dictionary that
 * has places and no bytes. */
#include "format/parquet/points.h"

#include <string.h>

#include "base/mem.h"
#include "format/parquet/decode.h"
#include "format/parquet/rle.h"

#define LEVELS_MAX (1u << 20)

int stk_pq_points_wanted(const stk_pq_leaf *l, const stk_pq_chunk *c, uint64_t rows, int *cuts)
{
    uint64_t each = rows ? c->len / rows : 0;

    *cuts = each >= 24000;
    return each >= 9000 && l->physical == STK_PQ_BYTES && !l->dtype && !l->max_rep && !l->refused &&
           !c->refused && (c->codec == STK_PQ_RAW || c->codec == STK_PQ_SNAPPY);
}

/* ---- tables that grow ---- */

static int grow(void **p, uint64_t *cap, uint64_t want, size_t size, stk_error *err)
{
    uint64_t to = want < 2 * *cap ? 2 * *cap : want + 16;
    void *grown;

    if (want <= *cap)
        return 0;
    grown = stk_grow(*p, (size_t)*cap * size, (size_t)to * size);
    if (!grown)
        return stk_fail_nomem(err, (size_t)to * size);
    *p = grown;
    *cap = to;
    return 0;
}

static int add_span(stk_pq_points *p, stk_pq_span s, const uint32_t *start, stk_error *err)
{
    uint64_t blocks = (uint64_t)p->n_blocks + s.n_blocks + 1;

    if (blocks > UINT32_MAX)
        return stk_fail(err, STK_ELIMIT, "more than 2^32 blocks in a column's row group");
    STK_TRY(grow((void **)&p->span, &p->cap_spans, p->n_spans + 1u, sizeof *p->span, err));
    s.first_block = p->n_blocks;
    if (s.n_blocks) {
        STK_TRY(grow((void **)&p->block, &p->cap_blocks, blocks, sizeof *p->block, err));
        memcpy(p->block + p->n_blocks, start, ((size_t)s.n_blocks + 1) * sizeof *start);
        p->n_blocks += s.n_blocks + 1;
    }
    p->span[p->n_spans++] = s;
    return 0;
}

static int add_rows(stk_pq_points_build *b, uint32_t span, const stk_pq_ref *ref,
                    const stk_snappy_cut *cut, uint64_t n, stk_error *err)
{
    stk_pq_points *p = &b->points;
    uint64_t cap = p->cap_rows;

    STK_TRY(grow((void **)&p->part, &p->cap_parts, p->n_parts + 1u, sizeof *p->part, err));
    if (b->cuts)
        STK_TRY(grow((void **)&p->cut, &cap, p->n_rows + n, sizeof *p->cut, err));
    STK_TRY(grow((void **)&p->point, &p->cap_rows, p->n_rows + n, sizeof *p->point, err));
    p->part[p->n_parts++] = (stk_pq_rows){ p->n_rows, span, 0 };
    for (uint64_t i = 0; i < n; i++) {
        p->point[p->n_rows + i] = (stk_pq_point){ ref[i].at, ref[i].len };
        if (b->cuts)
            p->cut[p->n_rows + i] = cut[i];
    }
    p->n_rows += n;
    return 0;
}

/* ---- walking a packed stream ---- */

typedef struct walk { /* values of one stream, in order */
    stk_pq_ref *ref;
    uint64_t n, want;
    uint32_t skip; /* bytes until the next length word */
    uint32_t have; /* bytes of it that were seen */
    uint8_t word[4];
    uint32_t size;   /* of the stream */
    uint8_t *levels; /* DATA: what comes before the values; NULL: nothing does */
    uint32_t n_levels, levels_len, levels_have; /* levels_len: known when 4 bytes are there */
} walk;

/* The levels before the values: a length word, then as many bytes. */
static int take_levels(walk *w, stk_bytes *in, stk_error *err)
{
    while (in->len && (w->levels_have < 4 || w->levels_have < 4 + w->levels_len)) {
        if (w->levels_have >= LEVELS_MAX)
            return stk_fail(err, STK_ELIMIT, "levels of more than %u bytes in a page", LEVELS_MAX);
        w->levels[w->levels_have++] = *in->data++;
        in->len--;
        if (w->levels_have == 4)
            memcpy(&w->levels_len, w->levels, 4);
    }
    return 0;
}

/* `in` begins at `pos` of the stream. */
static int take_bytes(walk *w, stk_bytes in, uint32_t pos, stk_error *err)
{
    const uint8_t *from = in.data;

    if (w->levels)
        STK_TRY(take_levels(w, &in, err));
    while (in.len && w->n < w->want) {
        if (w->skip) {
            uint32_t k = in.len < w->skip ? (uint32_t)in.len : w->skip;

            w->skip -= k;
            in = (stk_bytes){ in.data + k, in.len - k };
            continue;
        }
        w->word[w->have++] = *in.data++;
        in.len--;
        if (w->have == 4) {
            uint32_t len, at = pos + (uint32_t)(in.data - from);

            memcpy(&len, w->word, 4);
            if (len > w->size - at || len >= STK_PQ_IN_DICTIONARY)
                return stk_fail(err, STK_ECORRUPT, "a value of %u bytes where %u are left", len,
                                w->size - at);
            w->ref[w->n++] = (stk_pq_ref){ at, len };
            w->skip = len;
            w->have = 0;
        }
    }
    return 0;
}

/* All of the stream; `start`: of its blocks, NULL: it is not packed. */
static int walk_stream(walk *w, stk_bytes in, const uint32_t *start, stk_error *err)
{
    uint8_t *block;
    int rc = 0;

    if (!start)
        return take_bytes(w, in, 0, err);
    block = stk_alloc(STK_SNAPPY_BLOCK);
    if (!block)
        return stk_fail_nomem(err, STK_SNAPPY_BLOCK);
    for (uint32_t at = 0, i = 0; rc == 0 && at < w->size; at += STK_SNAPPY_BLOCK, i++) {
        uint32_t n = w->size - at < STK_SNAPPY_BLOCK ? w->size - at : STK_SNAPPY_BLOCK;
        stk_bytes part = { in.data + start[i], start[i + 1] - start[i] };
        size_t used;

        rc = stk_snappy_elements(part, block, n, &used, err);
        if (rc == 0)
            rc = take_bytes(w, (stk_bytes){ block, n }, at, err);
    }
    stk_free(block);
    return rc;
}

/* ---- pages ---- */

/* The starts of a packed stream's blocks, into b->scan.  STK_END: it breaks the rule. */
static int scan_stream(stk_pq_points_build *b, stk_bytes in, uint32_t size, stk_error *err)
{
    uint32_t says, head;

    if (stk_snappy_len(in, &says, &head) < 0 || says != size)
        return stk_fail(err, STK_ECORRUPT, "snappy: a page unpacks to another length than it says");
    STK_TRY(
        grow((void **)&b->scan, &b->scan_cap, size / STK_SNAPPY_BLOCK + 2, sizeof *b->scan, err));
    return stk_snappy_scan(in, b->scan, err);
}

static int cut_values(const stk_pq_points_build *b, stk_bytes in, const walk *w,
                      stk_snappy_cut *cut, stk_error *err)
{
    for (uint64_t i = 0; i < w->n; i++) {
        int rc = 0;

        cut[i] = (stk_snappy_cut){ 0 };
        if (w->ref[i].len)
            rc = stk_snappy_find(in, b->scan, w->ref[i].at, w->ref[i].len, &cut[i], err);
        if (rc == STK_END)
            cut[i] = (stk_snappy_cut){ 0 };
        STK_TRY(rc);
    }
    return 0;
}

/* The values of a stream: refs and cuts of each, and its span.  STK_END: it breaks the rule. */
static int take_stream(stk_pq_points_build *b, stk_bytes in, uint64_t offset, walk *w,
                       stk_snappy_cut **cut, stk_error *err)
{
    int packed = b->decode.codec == STK_PQ_SNAPPY;
    stk_pq_span s = { .offset = offset, .packed = (uint32_t)in.len, .size = w->size };

    w->ref = stk_alloc((size_t)(w->want + 1) * sizeof *w->ref);
    *cut = b->cuts ? stk_zalloc((size_t)w->want + 1, sizeof **cut) : NULL;
    if (!w->ref || (b->cuts && !*cut))
        return stk_fail_nomem(err, (size_t)w->want * sizeof *w->ref);
    if (packed) {
        int rc = scan_stream(b, in, w->size, err);

        if (rc)
            return rc;
        s.n_blocks = (w->size + STK_SNAPPY_BLOCK - 1) / STK_SNAPPY_BLOCK;
    } else if (in.len != w->size)
        return stk_fail(err, STK_ECORRUPT, "a page of %zu bytes that should have %u", in.len,
                        w->size);
    STK_TRY(walk_stream(w, in, packed ? b->scan : NULL, err));
    if (packed && b->cuts)
        STK_TRY(cut_values(b, in, w, *cut, err));
    return add_span(&b->points, s, b->scan, err);
}

static int take_dictionary(stk_pq_points_build *b, const stk_pq_page *page, stk_bytes in,
                           uint64_t offset, stk_error *err)
{
    walk w = { .want = page->values, .size = page->size };
    stk_snappy_cut *cut = NULL;
    int rc = 0;

    if (b->points.n_spans)
        return stk_fail(err, STK_ECORRUPT, "a dictionary that is not the first page");
    if (page->values > in.len && page->values > page->size / 4)
        return stk_fail(err, STK_ECORRUPT, "a dictionary of %u entries in %u bytes", page->values,
                        page->size);
    rc = take_stream(b, in, offset, &w, &cut, err);
    if (rc == 0 && w.n != w.want)
        rc = stk_fail(err, STK_ECORRUPT, "a dictionary ends before its last entry");
    if (rc == 0) {
        b->dictionary = (stk_pq_vector){
            .leaf = b->decode.leaf, .rows = w.n, .slots = w.n, .ref = w.ref
        };
        b->dictionary_cut = cut;
        b->decode.dictionary = &b->dictionary;
        return 0;
    }
    stk_free(w.ref);
    stk_free(cut);
    return rc;
}

/* A page of indices.  Which entry a row has is found again from its place. */
static int take_indices(stk_pq_points_build *b, stk_bytes whole, stk_error *err)
{
    stk_pq_vector v = { 0 };
    stk_snappy_cut *cut = NULL;
    int rc = b->decode.dictionary ? stk_pq_decode_pages(&b->decode, whole, &v, err)
                                  : stk_fail(err, STK_ECORRUPT, "indices without a dictionary");

    if (rc == 0 && b->cuts) {
        cut = stk_zalloc((size_t)v.rows + 1, sizeof *cut);
        rc = cut ? 0 : stk_fail_nomem(err, (size_t)v.rows * sizeof *cut);
    }
    for (uint64_t i = 0; rc == 0 && i < v.rows; i++) {
        uint64_t lo = 0, hi = b->dictionary.slots;

        if (v.null && v.null[i]) {
            v.ref[i] = (stk_pq_ref){ 0, UINT32_MAX };
            continue;
        }
        v.ref[i].len &= ~STK_PQ_IN_DICTIONARY;
        while (hi - lo > 1) { /* places grow */
            uint64_t mid = lo + (hi - lo) / 2;

            if (b->dictionary.ref[mid].at <= v.ref[i].at)
                lo = mid;
            else
                hi = mid;
        }
        if (cut)
            cut[i] = b->dictionary_cut[lo];
    }
    if (rc == 0)
        rc = add_rows(b, 0, v.ref, cut, v.rows, err);
    stk_free(cut);
    stk_pq_vector_fini(&v);
    return rc;
}

/* Definition levels of the page: which of its rows are null.  present[i]: row i is not. */
static int present_rows(const stk_pq_page *page, const stk_pq_leaf *l, stk_bytes levels,
                        uint8_t **out, uint64_t *n, stk_error *err)
{
    uint32_t bits = 0;
    stk_rle r;

    *n = page->values;
    *out = stk_alloc((size_t)page->values + 1);
    if (!*out)
        return stk_fail_nomem(err, page->values);
    memset(*out, l->max_def, page->values);
    if (!l->max_def)
        return 0;
    while (l->max_def >> bits)
        bits++;
    stk_rle_init(&r, levels, bits);
    STK_TRY(stk_rle_levels(&r, *out, page->values, err));
    *n = 0;
    for (uint32_t i = 0; i < page->values; i++)
        *n += (*out)[i] == l->max_def;
    return 0;
}

/* Values to rows: nulls have none. */
static int spread(stk_pq_points_build *b, const stk_pq_page *page, const uint8_t *present, walk *w,
                  const stk_snappy_cut *cut, stk_error *err)
{
    stk_pq_ref *ref = stk_alloc(((size_t)page->values + 1) * sizeof *ref);
    stk_snappy_cut *cuts = stk_zalloc((size_t)page->values + 1, sizeof *cuts);
    uint64_t k = 0;
    int rc = ref && cuts ? 0 : stk_fail_nomem(err, page->values * sizeof *ref);

    for (uint32_t i = 0; rc == 0 && i < page->values; i++) {
        ref[i] = (stk_pq_ref){ 0, UINT32_MAX };
        if (present[i] != b->decode.leaf->max_def)
            continue;
        if (k == w->n) {
            rc = stk_fail(err, STK_ECORRUPT, "a page ends before its last value");
            break;
        }
        ref[i] = w->ref[k];
        if (cut)
            cuts[i] = cut[k];
        k++;
    }
    if (rc == 0)
        rc = add_rows(b, b->points.n_spans - 1, ref, cuts, page->values, err);
    stk_free(ref);
    stk_free(cuts);
    return rc;
}

static int take_values(stk_pq_points_build *b, const stk_pq_page *page, stk_bytes in,
                       uint64_t offset, stk_error *err)
{
    uint32_t ahead = page->kind == STK_PQ_DATA2 ? page->rep_len + page->def_len : 0;
    walk w = { .want = page->values, .size = page->size - ahead };
    stk_snappy_cut *cut = NULL;
    stk_bytes levels = { in.data + page->rep_len, page->def_len };
    uint8_t *present = NULL;
    uint64_t n = 0;
    int rc = 0;

    if (b->decode.leaf->max_def && page->kind == STK_PQ_DATA) {
        w.levels = stk_alloc(LEVELS_MAX + 8);
        rc = w.levels ? 0 : stk_fail_nomem(err, LEVELS_MAX);
    }
    if (rc == 0)
        rc = take_stream(b, (stk_bytes){ in.data + ahead, in.len - ahead }, offset + ahead, &w,
                         &cut, err);
    if (rc == 0 && w.levels) {
        if (w.levels_have < 4 || w.levels_have < 4 + w.levels_len)
            rc = stk_fail(err, STK_ECORRUPT, "a page ends within its levels");
        levels = (stk_bytes){ w.levels + 4, w.levels_len };
    }
    if (rc == 0)
        rc = present_rows(page, b->decode.leaf, levels, &present, &n, err);
    if (rc == 0)
        rc = spread(b, page, present, &w, cut, err);
    stk_free(w.ref);
    stk_free(w.levels);
    stk_free(cut);
    stk_free(present);
    return rc;
}

int stk_pq_points_page(stk_pq_points_build *b, stk_bytes in, uint64_t offset, stk_error *err)
{
    stk_pq_page page;
    stk_bytes data;
    int rc = stk_pq_page_read(in, &page, err);

    if (rc == STK_PENDING || (rc == 0 && page.packed > in.len - page.head))
        return stk_fail(err, STK_ECORRUPT, "a page goes on after the end of its column");
    STK_TRY(rc);
    b->points.owned = 1;
    data = (stk_bytes){ in.data + page.head, page.packed };
    if (page.values > b->decode.max_bytes / sizeof(stk_pq_ref))
        return stk_pq_too_large(&b->decode, (uint64_t)page.values * sizeof(stk_pq_ref), err);
    offset += page.head;
    if (page.kind == STK_PQ_INDEX)
        return 0;
    if (page.kind == STK_PQ_DICTIONARY)
        return take_dictionary(b, &page, data, offset, err);
    if (page.encoding == STK_PQ_RLE_DICTIONARY || page.encoding == STK_PQ_PLAIN_DICTIONARY)
        return take_indices(b, (stk_bytes){ in.data, (size_t)page.head + page.packed }, err);
    if (page.encoding != STK_PQ_PLAIN ||
        (page.kind == STK_PQ_DATA2 && page.plain && b->decode.codec != STK_PQ_RAW))
        return STK_END;
    return take_values(b, &page, data, offset, err);
}

void stk_pq_points_fini(stk_pq_points *p)
{
    if (p->owned) {
        stk_free(p->span);
        stk_free(p->part);
        stk_free(p->block);
        stk_free(p->point);
        stk_free(p->cut);
    }
    *p = (stk_pq_points){ 0 };
}

void stk_pq_points_build_fini(stk_pq_points_build *b)
{
    stk_pq_points_fini(&b->points);
    stk_pq_vector_fini(&b->dictionary);
    stk_free(b->dictionary_cut);
    b->dictionary_cut = NULL;
    stk_free(b->scan);
    b->scan = NULL;
}

/* ---- using them ---- */

static int check_spans(const stk_pq_points *p, uint64_t file_size)
{
    for (uint32_t i = 0; i < p->n_spans; i++) {
        const stk_pq_span *s = &p->span[i];

        if (s->offset > file_size || s->packed > file_size - s->offset ||
            (!s->n_blocks && s->packed != s->size))
            return 0;
        if (!s->n_blocks)
            continue;
        if (s->n_blocks != (s->size + (uint64_t)STK_SNAPPY_BLOCK - 1) / STK_SNAPPY_BLOCK ||
            (uint64_t)s->first_block + s->n_blocks + 1 > p->n_blocks)
            return 0;
        for (uint32_t k = 0; k <= s->n_blocks; k++)
            if (p->block[s->first_block + k] > s->packed ||
                (k && p->block[s->first_block + k] < p->block[s->first_block + k - 1]))
                return 0;
    }
    return 1;
}

static int check_rows(const stk_pq_points *p, uint32_t part)
{
    uint64_t end = part + 1 < p->n_parts ? p->part[part + 1].first : p->n_rows;
    const stk_pq_span *s = &p->span[p->part[part].span];

    for (uint64_t r = p->part[part].first; r < end; r++) {
        if (p->point[r].len == UINT32_MAX)
            continue;
        if (p->point[r].at > s->size || p->point[r].len > s->size - p->point[r].at)
            return 0;
        if (p->cut && (p->cut[r].to > s->packed || p->cut[r].from > p->cut[r].to))
            return 0;
    }
    return 1;
}

int stk_pq_points_check(const stk_pq_points *p, uint64_t rows, uint64_t file_size, stk_error *err)
{
    int good = p->n_rows == rows && check_spans(p, file_size) &&
               (!rows || (p->n_parts && p->part[0].first == 0));

    for (uint32_t i = 0; good && i < p->n_parts; i++)
        good = p->part[i].span < p->n_spans && p->part[i].first <= p->n_rows &&
               (!i || p->part[i].first >= p->part[i - 1].first);
    for (uint32_t i = 0; good && i < p->n_parts; i++)
        good = check_rows(p, i);
    return good ? 0 : stk_fail(err, STK_ECORRUPT, "row seek points that point outside");
}

static const stk_pq_span *span_of(const stk_pq_points *p, uint64_t r)
{
    uint32_t lo = 0, hi = p->n_parts;

    while (hi - lo > 1) { /* first[lo] <= r */
        uint32_t mid = lo + (hi - lo) / 2;

        if (p->part[mid].first <= r)
            lo = mid;
        else
            hi = mid;
    }
    return &p->span[p->part[lo].span];
}

int stk_pq_points_range(const stk_pq_points *p, uint64_t r, stk_pq_range *out)
{
    const stk_pq_span *s = span_of(p, r);
    stk_pq_point x = p->point[r];
    const uint32_t *start = s->n_blocks ? p->block + s->first_block : NULL;

    *out = (stk_pq_range){ .len = x.len };
    if (x.len == UINT32_MAX)
        return 0;
    if (!x.len || !s->n_blocks) {
        out->offset = s->offset + (s->n_blocks ? 0 : x.at);
        out->read = x.len;
        return 1;
    }
    out->packed = 1;
    if (p->cut && p->cut[r].to) {
        out->offset = s->offset + p->cut[r].from;
        out->read = p->cut[r].to - p->cut[r].from;
    } else {
        uint32_t a = start[x.at / STK_SNAPPY_BLOCK];

        out->offset = s->offset + a;
        out->read = start[(x.at + x.len - 1) / STK_SNAPPY_BLOCK + 1] - a;
    }
    return 1;
}

/* The row is bytes [at, at + len) of blocks that are unpacked from the first one's start. */
static int unpack_blocks(const stk_pq_span *s, const uint32_t *start, stk_pq_point x, stk_bytes raw,
                         uint8_t *dst, stk_error *err)
{
    uint8_t *block = stk_alloc(STK_SNAPPY_BLOCK);
    uint32_t first = x.at / STK_SNAPPY_BLOCK, at = x.at, end = x.at + x.len;
    int rc = block ? 0 : stk_fail_nomem(err, STK_SNAPPY_BLOCK);

    for (uint32_t i = first; rc == 0 && at < end; i++) {
        uint32_t pos = i * STK_SNAPPY_BLOCK, n = s->size - pos, from = at - pos, k;
        size_t skip = start[i] - start[first], used;

        n = n < STK_SNAPPY_BLOCK ? n : STK_SNAPPY_BLOCK;
        k = end - at < n - from ? end - at : n - from;
        if (skip > raw.len)
            rc = stk_fail(err, STK_ECORRUPT, "snappy: blocks are shorter than their index");
        else if (!from && k == n)
            rc = stk_snappy_elements((stk_bytes){ raw.data + skip, raw.len - skip }, dst, n, &used,
                                     err);
        else {
            rc = stk_snappy_elements((stk_bytes){ raw.data + skip, raw.len - skip }, block, n,
                                     &used, err);
            if (rc == 0)
                memcpy(dst, block + from, k);
        }
        dst += k;
        at += k;
    }
    stk_free(block);
    return rc;
}

int stk_pq_points_unpack(const stk_pq_points *p, uint64_t r, stk_bytes raw, uint8_t *dst,
                         stk_error *err)
{
    const stk_pq_span *s = span_of(p, r);

    if (p->cut && p->cut[r].to)
        return stk_snappy_part(raw, p->cut[r].left, dst, p->point[r].len, err);
    return unpack_blocks(s, p->block + s->first_block, p->point[r], raw, dst, err);
}
