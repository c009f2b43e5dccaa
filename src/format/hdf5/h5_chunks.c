/* SPDX-License-Identifier: Apache-2.0 */
/* h5_chunks.c - which chunks of a data set are there: one pass over its B-tree of version 1, the
 * index that writers make by default.  libhdf5 looks chunks up one by one, by number in a time that
 * grows with their square. */
#include <stdlib.h>
#include <string.h>

#include "format/hdf5/h5_parts.h"

#define LEVELS 32u
#define NODE_BYTES 16u /* that a node takes at least */

typedef struct walk {
    const stk_h5_file *f;
    const stk_h5_set *s;
    stk_h5_chunks *out;
    uint64_t chunks, nodes, grid[STK_H5_RANK]; /* of all chunks that there may be */
} walk;

uint64_t stk_h5_chunk_bytes(const stk_h5_set *s)
{
    uint64_t n = s->element;

    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->chunk[i];
    return n;
}

int h5_chunk_add(stk_h5_chunks *out, const stk_h5_chunk *c, stk_error *err)
{
    if (out->n == out->cap) {
        uint64_t cap = out->cap ? 2 * out->cap : 64;
        stk_h5_chunk *grown = stk_grow(out->chunk, (size_t)out->n * sizeof *grown,
                                       (size_t)cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, (size_t)cap * sizeof *grown);
        out->chunk = grown;
        out->cap = cap;
    }
    out->chunk[out->n++] = *c;
    return 0;
}

/* A key: bytes, filters left out, where it begins in every dimension.  Chunks past the end, which a
 * smaller data set leaves, are passed over. */
static int read_key(walk *w, h5_cursor *c, stk_h5_chunk *out, int *inside, uint64_t node,
                    stk_error *err)
{
    const stk_h5_set *s = w->s;

    *inside = 1;
    out->number = 0;
    out->size = h5_uint(c, 4);
    out->mask = (uint32_t)h5_uint(c, 4);
    for (uint32_t i = 0; i < s->rank; i++) {
        uint64_t at = h5_uint(c, 8);

        if (at % s->chunk[i])
            return h5_bad(err, node, "a chunk between others");
        if (at / s->chunk[i] >= w->grid[i])
            *inside = 0;
        else
            out->number = out->number * w->grid[i] + at / s->chunk[i];
    }
    h5_skip(c, 8);
    return 0;
}

static int read_leaf(walk *w, h5_cursor *c, uint64_t node, stk_error *err)
{
    stk_h5_chunk k;
    int inside;

    STK_TRY(read_key(w, c, &k, &inside, node, err));
    k.addr = h5_address(w->f, c);
    if (!inside || k.addr == STK_H5_NOWHERE)
        return 0;
    if (k.addr > w->f->size || k.size > w->f->size - k.addr)
        return h5_bad(err, node, "a chunk is said to be past the end of the file");
    if (w->out->n && k.number <= w->out->chunk[w->out->n - 1].number)
        return h5_bad(err, node, "its chunks are not in order");
    return h5_chunk_add(w->out, &k, err);
}

static int read_node(walk *w, uint64_t at, uint32_t level, stk_error *err)
{
    uint8_t head[24], *bytes = NULL;
    uint64_t front = 8u + 2u * w->f->offsets, each = 16 + 8 * (uint64_t)w->s->rank + w->f->offsets,
             n;
    h5_cursor c = { head, head + front, 0 };
    uint32_t is;
    int known, rc;

    if (w->nodes++ > w->f->size / NODE_BYTES) /* more than there can be: some are visited again */
        return h5_bad(err, at, "an index of chunks without end");
    STK_TRY(h5_get(w->f, at, head, front, err));
    known = h5_is(&c, "TREE") && h5_uint(&c, 1) == 1;
    is = (uint32_t)h5_uint(&c, 1);
    n = h5_uint(&c, 2);
    if (!known || is >= LEVELS || (level != UINT32_MAX && is != level))
        return h5_bad(err, at, "an index of chunks");
    rc = h5_get_new(w->f, at + front, n * each, &bytes, err);
    c = h5_over((stk_bytes){ bytes, (size_t)(n * each) });
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        if (is) {
            h5_skip(&c, each - w->f->offsets);
            rc = read_node(w, h5_address(w->f, &c), is - 1, err);
        } else
            rc = read_leaf(w, &c, at, err);
    }
    stk_free(bytes);
    return rc;
}

int stk_h5_chunks_read(stk_h5_chunks *out, stk_h5_file *f, const stk_h5_set *s, stk_error *err)
{
    walk w = { .f = f, .s = s, .out = out, .chunks = 1 };
    int rc;

    for (uint32_t i = 0; i < s->rank; i++) {
        w.grid[i] = (s->dim[i] + s->chunk[i] - 1) / s->chunk[i];
        w.chunks *= w.grid[i]; /* no more than elements, which were counted */
    }
    if (!w.chunks || s->index.addr == STK_H5_NOWHERE)
        return 0;
    rc = s->index.kind ? h5_index_read(out, f, s, w.chunks, err)
                       : read_node(&w, s->index.addr, UINT32_MAX, err);
    if (rc < 0)
        stk_h5_chunks_fini(out);
    return rc;
}

const stk_h5_chunk *stk_h5_chunk_from(const stk_h5_chunks *c, uint64_t number)
{
    uint64_t lo = 0, hi = c->n;

    /* nothing is missing before it: the usual case */
    if (number < c->n && c->chunk[number].number == number)
        return &c->chunk[number];
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (c->chunk[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return &c->chunk[lo];
}

void stk_h5_chunks_fini(stk_h5_chunks *c)
{
    stk_free(c->chunk);
    *c = (stk_h5_chunks){ 0 };
}
