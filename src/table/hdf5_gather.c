/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_gather.c - columns('x*') of HDF5: blocks of whole rows, made of the slabs of many data sets.
 *
 * A block has as many rows as the largest slab of its columns, so that a chunk is unpacked once for
 * it, less where all columns together would take more than BLOCK_AIM. */
#include <string.h>

#include "base/mem.h"
#include "table/hdf5_data.h"

#define BLOCK_AIM ((uint64_t)32 << 20)

static uint64_t block_rows(const stk_hdf5 *h, const stk_gather *g, uint64_t shard)
{
    uint64_t rows = 1, most = BLOCK_AIM / ((uint64_t)g->n * g->size);

    for (uint32_t c = 0; c < g->n; c++) {
        uint64_t slab = h->shard[shard].column[g->column[c].field].slab_rows;

        rows = slab > rows ? slab : rows;
    }
    return rows < most ? rows : most ? most : 1;
}

void stk_hdf5_gather_locate(const stk_hdf5 *h, const stk_gather *g, const stk_entry *e,
                            stk_place *out)
{
    uint64_t rows = block_rows(h, g, e->shard), first = e->row / rows * rows,
             left = h->base.file[e->shard].rows - first;

    out->len = 8; /* the file's first bytes: columns are read while the block is made */
    out->block = (uint64_t)g->number << STK_HDF5_SLAB_BITS | e->row / rows;
    out->shared = 1;
    out->unpacked = (left < rows ? left : rows) * g->n * g->size;
    out->row = e->row - first;
}

/* Rows [first, first + n) of column c. */
typedef struct some_rows {
    uint64_t first, n;
} some_rows;

static int take_column(const stk_hdf5_at *at, const stk_gather *g, uint32_t c, some_rows rows,
                       uint8_t *dst, stk_error *err)
{
    uint64_t first = rows.first, n = rows.n;
    const stk_hdf5_column *col = at->c;
    size_t room = (size_t)(col->slab_rows * col->value_bytes), each = (size_t)g->n * g->size;
    uint8_t *values = NULL;
    int rc = 0;

    if (col->here)
        return stk_gather_put(g, c, col->here + first * col->value_bytes, n, dst, err);
    values = stk_large_alloc(room);
    if (!values)
        return stk_fail_nomem(err, room);
    for (uint64_t done = 0; rc == 0 && done < n;) {
        uint64_t slab = (first + done) / col->slab_rows, from = (first + done) % col->slab_rows,
                 k = stk_hdf5_slab_len(at, slab) - from;

        k = k < n - done ? k : n - done;
        rc = stk_hdf5_slab(at, slab, (stk_bytes){ 0 }, values, err);
        if (rc == 0 && col->set->type.unsigned64)
            rc = stk_hdf5_unsigned(values + from * col->value_bytes, (size_t)(k * col->value_bytes),
                                   err);
        if (rc == 0)
            rc = stk_gather_put(g, c, values + from * col->value_bytes, k, dst + done * each, err);
        done += k;
    }
    stk_large_free(values, room);
    return rc;
}

int stk_hdf5_gather_unpack(const stk_hdf5 *h, stk_unpack_job *job, stk_error *err)
{
    uint64_t number = job->place->block >> STK_HDF5_SLAB_BITS,
             block = job->place->block & (((uint64_t)1 << STK_HDF5_SLAB_BITS) - 1);
    const stk_gather *g = stk_gather_number(&h->base.gathers, (uint32_t)number);
    uint64_t rows = block_rows(h, g, job->shard), first = block * rows,
             n = h->base.file[job->shard].rows - first;

    n = n < rows ? n : rows;
    for (uint32_t c = 0; c < g->n; c++) {
        stk_hdf5_at at = { h, job->shard, &h->shard[job->shard].column[g->column[c].field] };

        STK_TRY(take_column(&at, g, c, (some_rows){ first, n }, job->dst, err));
    }
    job->len = (size_t)(n * g->n * g->size);
    return 0;
}

int stk_hdf5_gather_pick(const stk_gather *g, const stk_place *at, stk_bytes *bytes, stk_error *err)
{
    size_t each = (size_t)g->n * g->size;

    if ((at->row + 1) * each > bytes->len)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " is past its block", at->row);
    *bytes = (stk_bytes){ bytes->data + at->row * each, each };
    return 0;
}
