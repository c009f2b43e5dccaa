/* SPDX-License-Identifier: Apache-2.0 */
/* h5_index.c - chunks as layouts 4 and 5 index them: one alone, in a row, in arrays of fixed or
 * growing length, in a tree.
 *
 * Arrays number chunks by the largest size that the data set may have, with the dimension that has
 * no bound as the slowest; chunks that the data set does not have now are passed over. */
#include <stdlib.h>
#include <string.h>

#include "format/hdf5/h5_parts.h"

#define BITS_MAX 62u

typedef struct listing {
    const stk_h5_file *f;
    const stk_h5_set *s;
    stk_h5_chunks *out;
    /* chunks in each dimension: now, and at most; 0: no bound */
    uint64_t now[STK_H5_RANK], most[STK_H5_RANK];
    uint32_t order[STK_H5_RANK]; /* dimensions, the slowest first */
    uint64_t bytes;              /* of a chunk */
    uint32_t element;            /* bytes of an array's */
    uint64_t number;             /* of its next element */
} listing;

static int init_listing(listing *l)
{
    const stk_h5_set *s = l->s;
    uint32_t open = UINT32_MAX, n = 0;

    l->bytes = stk_h5_chunk_bytes(s);
    for (uint32_t i = 0; i < s->rank; i++) {
        l->now[i] = (s->dim[i] + s->chunk[i] - 1) / s->chunk[i];
        l->most[i] = s->max[i] == UINT64_MAX
                         ? 0
                         : s->max[i] / s->chunk[i] + (s->max[i] % s->chunk[i] != 0);
        if (!l->most[i]) {
            if (open != UINT32_MAX)
                open = 0; /* the tree has coordinates: nothing is counted */
            else
                open = i;
        } else if (l->most[i] < l->now[i])
            return 0;
    }
    if (open != UINT32_MAX)
        l->order[n++] = open;
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != open && n < STK_H5_RANK)
            l->order[n++] = i;
    return 1;
}

static int add(listing *l, const uint64_t *at, stk_h5_chunk *c, stk_error *err)
{
    c->number = 0;
    for (uint32_t i = 0; i < l->s->rank; i++) {
        if (at[i] >= l->now[i])
            return 0;
        c->number = c->number * l->now[i] + at[i];
    }
    if (c->addr == STK_H5_NOWHERE)
        return 0;
    if (c->addr > l->f->size || c->size > l->f->size - c->addr)
        return h5_bad(err, c->addr, "a chunk is said to be past the end of the file");
    return h5_chunk_add(l->out, c, err);
}

/* Where the chunk with this number of the array is. */
static void place_of(const listing *l, uint64_t number, uint64_t *at)
{
    for (uint32_t k = l->s->rank; k-- > 0;) {
        uint32_t d = l->order[k];

        at[d] = l->most[d] && k ? number % l->most[d] : number;
        number = l->most[d] && k ? number / l->most[d] : 0;
    }
}

/* ---- arrays: elements are addresses, or addresses with a size and a mask ---- */

static int take_elements(listing *l, h5_cursor *c, uint64_t n, stk_error *err)
{
    for (uint64_t i = 0; i < n; i++, l->number++) {
        stk_h5_chunk k = { .addr = h5_address(l->f, c), .size = l->bytes };
        uint64_t at[STK_H5_RANK];

        if (l->s->n_filters) {
            k.size = h5_uint(c, l->element - l->f->offsets - 4);
            k.mask = (uint32_t)h5_uint(c, 4);
        }
        if (c->bad)
            return h5_bad(err, STK_NO_OFFSET, "an array of chunks is cut off");
        place_of(l, l->number, at);
        STK_TRY(add(l, at, &k, err));
    }
    return 0;
}

static int element_fits(const listing *l)
{
    return l->s->n_filters ? l->element > l->f->offsets + 4u && l->element <= l->f->offsets + 12u
                           : l->element == l->f->offsets;
}

/* Some bytes with their checksum after them. */
static int get_checked(const listing *l, uint64_t at, uint64_t len, uint8_t **out, stk_error *err)
{
    STK_TRY(h5_get_new(l->f, at, len + 4, out, err));
    if (h5_sum_fits(*out, (size_t)len + 4))
        return 0;
    stk_free(*out);
    *out = NULL;
    return h5_bad(err, at, "the checksum of an index of chunks is another");
}

static int is_set(const uint8_t *bits, uint64_t i)
{
    return bits[i / 8] >> (7 - i % 8) & 1;
}

/* which of them were written: bits from `first` on; NULL: there are no pages */
typedef struct pages {
    const uint8_t *bits;
    uint64_t first, size; /* size: elements of one */
} pages;

/* n elements in pages, of those that were written. */
static int take_pages(listing *l, uint64_t at, uint64_t n, const pages *p, stk_error *err)
{
    uint64_t end = l->number + n, page = p->size;

    for (uint64_t i = 0; l->number < end; i++) {
        uint64_t here = end - l->number < page ? end - l->number : page;
        uint8_t *bytes = NULL;
        int rc = 0;

        if (is_set(p->bits, p->first + i)) {
            rc = get_checked(l, at, here * l->element, &bytes, err);
            h5_cursor c = h5_over((stk_bytes){ bytes, (size_t)(here * l->element) });

            if (rc == 0)
                rc = take_elements(l, &c, here, err);
            stk_free(bytes);
        } else
            l->number += here;
        if (rc < 0)
            return rc;
        at += page * l->element + 4;
    }
    return 0;
}

static int read_fixed(listing *l, stk_error *err)
{
    uint8_t head[40], *bytes = NULL;
    uint64_t len = 12u + l->f->lengths + l->f->offsets, n, at, page, front = 6u + l->f->offsets,
             map = 0;
    h5_cursor c = { head, head + len, 0 };
    int known, rc;

    STK_TRY(h5_get(l->f, l->s->index.addr, head, len, err));
    known = h5_is(&c, "FAHD") && h5_sum_fits(head, (size_t)len);
    h5_skip(&c, 2);
    l->element = (uint32_t)h5_uint(&c, 1);
    page = h5_uint(&c, 1);
    n = h5_length(l->f, &c);
    at = h5_address(l->f, &c);
    if (!known || !element_fits(l) || page > 30 || n > l->f->size)
        return h5_bad(err, l->s->index.addr, "an array of chunks");
    page = (uint64_t)1 << page;
    if (at == STK_H5_NOWHERE)
        return 0;
    if (n > page) {
        map = ((n + page - 1) / page + 7) / 8;
        rc = get_checked(l, at, front + map, &bytes, err);
        if (rc == 0)
            rc = take_pages(l, at + front + map + 4, n, &(pages){ bytes + front, 0, page }, err);
    } else {
        rc = get_checked(l, at, front + n * l->element, &bytes, err);
        if (rc == 0) {
            c = h5_over((stk_bytes){ bytes + front, (size_t)(n * l->element) });
            rc = take_elements(l, &c, n, err);
        }
    }
    stk_free(bytes);
    return rc;
}

/* ---- arrays that grow ---- */

typedef struct growing {
    uint64_t page, least, offset; /* elements of a page, of the smallest block; bytes of a number */
    /* of numbers; super blocks that the index block has itself; all super blocks */
    uint32_t bits, direct, blocks;
} growing;

static uint64_t block_elements(const growing *g, uint32_t super)
{
    return g->least << (super + 1) / 2;
}

static int read_block(listing *l, const growing *g, uint32_t super, uint64_t at, const pages *p,
                      stk_error *err)
{
    uint64_t n = block_elements(g, super), front = 6u + l->f->offsets + g->offset;
    uint8_t *bytes = NULL;
    int rc;

    if (at == STK_H5_NOWHERE) {
        l->number += n;
        return 0;
    }
    if (p->bits)
        return take_pages(l, at + front + 4, n, p, err);
    rc = get_checked(l, at, front + n * l->element, &bytes, err);
    if (rc == 0) {
        h5_cursor c = h5_over((stk_bytes){ bytes + front, (size_t)(n * l->element) });

        rc = take_elements(l, &c, n, err);
    }
    stk_free(bytes);
    return rc;
}

static int read_super(listing *l, const growing *g, uint32_t super, uint64_t at, stk_error *err)
{
    uint64_t blocks = (uint64_t)1 << super / 2, n = block_elements(g, super),
             paged = n > g->page ? n / g->page : 0;
    uint64_t front = 6u + l->f->offsets + g->offset, map = (paged + 7) / 8 * blocks;
    uint8_t *bytes = NULL;
    int rc;

    if (at == STK_H5_NOWHERE) {
        l->number += n * blocks;
        return 0;
    }
    rc = get_checked(l, at, front + map + blocks * l->f->offsets, &bytes, err);
    for (uint64_t i = 0; rc == 0 && i < blocks; i++) {
        h5_cursor c = { bytes + front + map + i * l->f->offsets,
                        bytes + front + map + (i + 1) * l->f->offsets, 0 };

        rc = read_block(l, g, super, h5_address(l->f, &c),
                        &(pages){ paged ? bytes + front : NULL, i * paged, g->page }, err);
    }
    stk_free(bytes);
    return rc;
}

static int read_blocks(listing *l, const growing *g, uint64_t at, uint32_t own, uint32_t pointers,
                       stk_error *err)
{
    uint64_t front = 6u + l->f->offsets;
    uint64_t len = front + (uint64_t)own * l->element +
                   ((uint64_t)pointers + g->blocks - g->direct) * l->f->offsets;
    uint8_t *bytes = NULL;
    int rc = get_checked(l, at, len, &bytes, err);
    h5_cursor c = h5_over((stk_bytes){ bytes, bytes ? (size_t)len : 0 });

    h5_skip(&c, front);
    if (rc == 0)
        rc = take_elements(l, &c, own, err);
    for (uint32_t k = 0; rc == 0 && k < g->direct; k++)
        for (uint64_t i = 0; rc == 0 && i < (uint64_t)1 << k / 2; i++)
            rc = read_block(l, g, k, h5_address(l->f, &c), &(pages){ 0 }, err);
    for (uint32_t k = g->direct; rc == 0 && k < g->blocks; k++)
        rc = read_super(l, g, k, h5_address(l->f, &c), err);
    stk_free(bytes);
    return rc;
}

static uint32_t log_of(uint64_t n) /* of a power of two; UINT32_MAX: it is not one */
{
    uint32_t k = 0;

    while (k < 63 && (uint64_t)1 << k < n)
        k++;
    return (uint64_t)1 << k == n ? k : UINT32_MAX;
}

static int read_growing(listing *l, stk_error *err)
{
    uint8_t head[96];
    uint64_t len = 16u + 6u * l->f->lengths + l->f->offsets, at;
    h5_cursor c = { head, head + len, 0 };
    growing g = { 0 };
    uint32_t own, pointers, page;
    int known;

    STK_TRY(h5_get(l->f, l->s->index.addr, head, len, err));
    known = h5_is(&c, "EAHD") && h5_sum_fits(head, (size_t)len);
    h5_skip(&c, 2);
    l->element = (uint32_t)h5_uint(&c, 1);
    g.bits = (uint32_t)h5_uint(&c, 1);
    own = (uint32_t)h5_uint(&c, 1);
    g.least = h5_uint(&c, 1);
    pointers = (uint32_t)h5_uint(&c, 1);
    page = (uint32_t)h5_uint(&c, 1);
    h5_skip(&c, 6u * l->f->lengths);
    at = h5_address(l->f, &c);
    if (!known || !element_fits(l) || g.bits > BITS_MAX || page > 30 || log_of(g.least) > g.bits ||
        log_of(pointers) > 8 || !pointers)
        return h5_bad(err, l->s->index.addr, "an array of chunks");
    g.page = (uint64_t)1 << page;
    g.offset = (g.bits + 7) / 8;
    g.direct = 2 * log_of(pointers);
    g.blocks = 1 + g.bits - log_of(g.least);
    if (g.blocks < g.direct)
        return h5_bad(err, l->s->index.addr, "an array of chunks");
    return at == STK_H5_NOWHERE ? 0 : read_blocks(l, &g, at, own, 2 * (pointers - 1), err);
}

/* ---- the others ---- */

static int tree_record(void *cookie, stk_bytes record, stk_error *err)
{
    listing *l = cookie;
    uint64_t fixed = l->f->offsets + 8u * l->s->rank + (l->s->n_filters ? 4u : 0u), at[STK_H5_RANK];
    h5_cursor c = h5_over(record);
    stk_h5_chunk k = { .addr = h5_address(l->f, &c), .size = l->bytes };

    if (record.len < fixed || record.len - fixed > 8 || (!l->s->n_filters && record.len != fixed))
        return h5_bad(err, STK_NO_OFFSET, "a tree of chunks");
    if (l->s->n_filters) {
        k.size = h5_uint(&c, (uint32_t)(record.len - fixed));
        k.mask = (uint32_t)h5_uint(&c, 4);
    }
    for (uint32_t i = 0; i < l->s->rank; i++)
        at[i] = h5_uint(&c, 8);
    return add(l, at, &k, err);
}

static int read_single(listing *l, stk_error *err)
{
    const stk_h5_index *x = &l->s->index;
    uint64_t at[STK_H5_RANK] = { 0 };
    stk_h5_chunk k = { .addr = x->addr,
                       .size = x->size == UINT64_MAX ? l->bytes : x->size,
                       .mask = x->mask };

    return add(l, at, &k, err);
}

static int read_implicit(listing *l, uint64_t chunks, stk_error *err)
{
    uint64_t at[STK_H5_RANK], all = 1;

    for (uint32_t i = 0; i < l->s->rank; i++) {
        if (!l->most[i] || all > l->f->size / l->most[i])
            return h5_bad(err, l->s->index.addr, "more chunks than the file has room for");
        all *= l->most[i];
    }
    if (chunks > l->f->size || !l->bytes || all > l->f->size / l->bytes)
        return h5_bad(err, l->s->index.addr, "more chunks than the file has room for");
    for (uint64_t n = 0; n < all; n++) {
        stk_h5_chunk k = { .addr = l->s->index.addr + n * l->bytes, .size = l->bytes };

        place_of(l, n, at);
        STK_TRY(add(l, at, &k, err));
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const stk_h5_chunk *)a)->number, y = ((const stk_h5_chunk *)b)->number;

    return x < y ? -1 : x > y;
}

int h5_index_read(stk_h5_chunks *out, const stk_h5_file *f, const stk_h5_set *s, uint64_t chunks,
                  stk_error *err)
{
    listing l = { .f = f, .s = s, .out = out };
    int rc;

    if (!init_listing(&l))
        return h5_bad(err, s->index.addr, "a data set is larger than it may be");
    switch (s->index.kind) {
    case STK_H5_BY_SINGLE: rc = read_single(&l, err); break;
    case STK_H5_BY_IMPLICIT: rc = read_implicit(&l, chunks, err); break;
    case STK_H5_BY_FIXED: rc = read_fixed(&l, err); break;
    case STK_H5_BY_GROWING: rc = read_growing(&l, err); break;
    default: rc = h5_tree2_walk(f, s->index.addr, tree_record, &l, err);
    }
    if (rc == 0 && out->n)
        qsort(out->chunk, (size_t)out->n, sizeof *out->chunk, by_number);
    for (uint64_t i = 1; rc == 0 && i < out->n; i++)
        if (out->chunk[i].number == out->chunk[i - 1].number)
            rc = h5_bad(err, out->chunk[i].addr, "two chunks in the same place");
    return rc;
}
