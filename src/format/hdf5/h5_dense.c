/* SPDX-License-Identifier: Apache-2.0 */
/* h5_dense.c - B-trees of version 2 and fractal heaps: how large groups are kept by writers that
 * make new files. */
#include <string.h>

#include "format/hdf5/h5_parts.h"

#define LEVELS 16u

typedef struct tree {
    const stk_h5_file *f;
    uint32_t node, record, type; /* bytes of a node, of a record */
    uint32_t most[LEVELS];       /* records of a node, by level */
    uint64_t all[LEVELS];        /* and of all below it */
    uint64_t nodes;
    h5_record_fn fn;
    void *cookie;
} tree;

static uint32_t bytes_for(uint64_t n) /* that hold numbers up to n */
{
    uint32_t k = 1;

    while (k < 8 && n >> 8 * k)
        k++;
    return k;
}

/* Of a child: its address, its records, and where it has children all below it. */
static uint32_t pointer_bytes(const tree *t, uint32_t level)
{
    return t->f->offsets + bytes_for(t->most[level - 1]) +
           (level > 1 ? bytes_for(t->all[level - 1]) : 0);
}

static int settle_levels(tree *t, uint32_t depth)
{
    if (t->node < 16 || !t->record || t->record > t->node - 10 || depth >= LEVELS)
        return 0;
    t->most[0] = (t->node - 10) / t->record;
    t->all[0] = t->most[0];
    for (uint32_t i = 1; i <= depth; i++) {
        uint32_t p = pointer_bytes(t, i);

        if (t->node < 10 + p)
            return 0;
        t->most[i] = (t->node - 10 - p) / (t->record + p);
        if (!t->most[i] || t->all[i - 1] > UINT64_MAX / 4 / (t->most[i] + 1))
            return 0;
        t->all[i] = (t->most[i] + 1) * t->all[i - 1] + t->most[i];
    }
    return 1;
}

static int walk_node(tree *t, uint64_t at, uint32_t level, uint64_t n, stk_error *err);

static int walk_children(tree *t, const uint8_t *node, uint32_t level, uint64_t n, stk_error *err)
{
    uint32_t each = pointer_bytes(t, level), count = bytes_for(t->most[level - 1]);
    h5_cursor c = { node + 6 + n * t->record, node + t->node - 4, 0 };

    for (uint64_t i = 0; i <= n; i++) {
        uint64_t at = h5_address(t->f, &c), records = h5_uint(&c, count);

        h5_skip(&c, each - t->f->offsets - count);
        if (c.bad)
            return h5_bad(err, at, "a node of a tree");
        STK_TRY(walk_node(t, at, level - 1, records, err));
        if (i < n)
            STK_TRY(t->fn(t->cookie, (stk_bytes){ node + 6 + i * t->record, t->record }, err));
    }
    return 0;
}

static int walk_node(tree *t, uint64_t at, uint32_t level, uint64_t n, stk_error *err)
{
    uint64_t used = 6 + n * t->record + (level ? (n + 1) * pointer_bytes(t, level) : 0) + 4;
    uint8_t *node = NULL;
    int rc;

    if (n > t->most[level] || t->nodes++ > t->f->size / 16)
        return h5_bad(err, at, "a tree without end");
    rc = h5_get_new(t->f, at, t->node, &node, err);
    if (rc == 0 && (memcmp(node, level ? "BTIN" : "BTLF", 4) || node[5] != t->type ||
                    used > t->node || !h5_sum_fits(node, (size_t)used)))
        rc = h5_bad(err, at, "a node of a tree");
    if (rc == 0 && level)
        rc = walk_children(t, node, level, n, err);
    for (uint64_t i = 0; rc == 0 && !level && i < n; i++)
        rc = t->fn(t->cookie, (stk_bytes){ node + 6 + i * t->record, t->record }, err);
    stk_free(node);
    return rc;
}

int h5_tree2_walk(const stk_h5_file *f, uint64_t at, h5_record_fn fn, void *cookie, stk_error *err)
{
    uint8_t head[64];
    uint64_t len = 22u + f->offsets + f->lengths, root, n;
    h5_cursor c = { head, head + len, 0 };
    tree t = { .f = f, .fn = fn, .cookie = cookie };
    uint32_t depth;
    int known;

    STK_TRY(h5_get(f, at, head, len, err));
    known = h5_is(&c, "BTHD") && h5_uint(&c, 1) == 0 && h5_sum_fits(head, (size_t)len);
    t.type = (uint32_t)h5_uint(&c, 1);
    t.node = (uint32_t)h5_uint(&c, 4);
    t.record = (uint32_t)h5_uint(&c, 2);
    depth = (uint32_t)h5_uint(&c, 2);
    h5_skip(&c, 2);
    root = h5_address(f, &c);
    n = h5_uint(&c, 2);
    if (!known || t.node > H5_META_MAX || !settle_levels(&t, depth))
        return h5_bad(err, at, "a tree");
    return root == STK_H5_NOWHERE ? 0 : walk_node(&t, root, depth, n, err);
}

/* ---- fractal heaps ---- */

int h5_heap_open(h5_heap *h, const stk_h5_file *f, uint64_t at, stk_error *err)
{
    uint8_t head[192];
    uint64_t len = 26u + 12u * f->lengths + 3u * f->offsets;
    h5_cursor c = { head, head + len, 0 };
    uint32_t filters;
    int known;

    *h = (h5_heap){ .f = f };
    STK_TRY(h5_get(f, at, head, len, err));
    known = h5_is(&c, "FRHP") && h5_uint(&c, 1) == 0;
    h->id_len = (uint32_t)h5_uint(&c, 2);
    filters = (uint32_t)h5_uint(&c, 2);
    h5_skip(&c, 5u + f->lengths + f->offsets + f->lengths + f->offsets + 8u * f->lengths);
    h->width = (uint32_t)h5_uint(&c, 2);
    h->start = h5_length(f, &c);
    h->direct_max = h5_length(f, &c);
    h->bits = (uint32_t)h5_uint(&c, 2);
    h5_skip(&c, 2);
    h->root = h5_address(f, &c);
    h->rows = (uint32_t)h5_uint(&c, 2);
    if (!known || c.bad || !h->width || !h->start || !h->bits || h->bits > 64 ||
        h->start > h->direct_max || h->direct_max > H5_META_MAX || !h5_sum_fits(head, (size_t)len))
        return h5_bad(err, at, "a heap");
    return filters ? stk_fail(err, STK_ENOTSUP,
                              "the file packs the names of its groups, which is not supported: "
                              "repack it (h5repack)")
                   : 0;
}

static uint64_t row_block(const h5_heap *h, uint32_t row) /* bytes of a block of this row */
{
    return row < 2                                         ? h->start
           : row - 1 < 63 && h->start <= UINT64_MAX >> row ? h->start << (row - 1)
                                                           : UINT64_MAX;
}

/* Which block of an indirect one has the offset, which becomes one in the block. */
static int block_of(const h5_heap *h, uint64_t *offset, uint32_t *row, uint64_t *number)
{
    for (*row = 0, *number = 0; *row < 64; ++*row) {
        uint64_t each = row_block(h, *row);

        if (each > UINT64_MAX / h->width)
            return 0;
        if (*offset < each * h->width) {
            *number += *offset / each;
            *offset %= each;
            return 1;
        }
        *offset -= each * h->width;
        *number += h->width;
    }
    return 0;
}

/* The address of the direct block that has this offset of the heap. */
static int find_block(const h5_heap *h, uint64_t *offset, uint64_t *at, uint64_t *size,
                      stk_error *err)
{
    uint64_t skip = 5u + h->f->offsets + (h->bits + 7) / 8;
    uint32_t rows = h->rows;

    *at = h->root;
    *size = h->start;
    for (uint32_t depth = 0; rows; depth++) { /* the root is an indirect block */
        uint8_t address[8];
        h5_cursor c = { address, address + h->f->offsets, 0 };
        uint64_t number;
        uint32_t row, direct = 0;

        while (direct < 64 && row_block(h, direct) <= h->direct_max)
            direct++;
        if (depth > 8 || !block_of(h, offset, &row, &number) || row >= rows)
            return h5_bad(err, *at, "a place in a heap");
        STK_TRY(h5_get(h->f, *at + skip + number * h->f->offsets, address, h->f->offsets, err));
        *size = row_block(h, row);
        *at = h5_address(h->f, &c);
        rows = 0;
        if (row >= direct) /* another indirect one: as many rows as it takes to have its bytes */
            while (rows < 64 && *size / h->width >= (rows ? row_block(h, rows) * 2 : h->start))
                rows++;
    }
    return *at == STK_H5_NOWHERE ? h5_bad(err, STK_NO_OFFSET, "a place in a heap") : 0;
}

int h5_heap_get(const h5_heap *h, stk_bytes id, uint8_t **out, uint64_t *len, stk_error *err)
{
    h5_cursor c = h5_over(id);
    uint32_t flags = (uint32_t)h5_uint(&c, 1), bytes = (h->bits + 7) / 8;
    uint64_t offset = h5_uint(&c, bytes), at, size;

    *out = NULL;
    *len = h5_uint(&c, bytes_for(h->direct_max) < h5_left(&c) ? bytes_for(h->direct_max)
                                                              : (uint32_t)h5_left(&c));
    if (c.bad || flags >> 4)
        return stk_fail(err, STK_ENOTSUP, "a link with a name of many bytes is not supported");
    STK_TRY(find_block(h, &offset, &at, &size, err));
    if (offset > size || *len > size - offset)
        return h5_bad(err, at, "a place in a heap");
    return h5_get_new(h->f, at + offset, *len, out, err);
}
