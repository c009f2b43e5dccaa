/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_data.c - Parquet files as a loader reads them.
 *
 * A large value is a range of its file, taken as it is or as a few snappy blocks; everything else
 * is a block of pages that is decoded once, kept in the block cache, and rows are picked from
 * it. */
#include "table/parquet_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define BLOCK_BITS 24 /* blocks of a chunk; the rest of a block's number is the chunk */

static const stk_parquet *of(const stk_dataset *d)
{
    return (const stk_parquet *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_table *t = &of(d)->base;

    (void)err;
    for (uint64_t i = 0; i < t->names.n; i++) {
        uint32_t footer = (uint32_t)t->file[i].print;

        out->content = stk_hash64(out->content, &t->file[i].size, sizeof t->file[i].size);
        out->content = stk_hash64(out->content, &footer, sizeof footer);
    }
    stk_table_print(t, out);
    return 0;
}

/* ---- its bytes ---- */

static void place_block(const stk_pq_table *t, uint32_t chunk, uint64_t row, stk_place *out)
{
    uint32_t i = stk_pq_block_of(t, row);
    const stk_pq_block *b = &t->block[i];

    *out = (stk_place){ .offset = b->offset,
                        .len = b->len,
                        .block = (uint64_t)chunk << BLOCK_BITS | i,
                        .shared = 1,
                        .unpacked = b->unpacked,
                        .row = row - b->first };
}

static void place_point(const stk_pq_points *points, uint32_t chunk, uint64_t row, stk_place *out)
{
    stk_pq_range r;

    if (!stk_pq_points_range(points, row, &r)) {
        out->absent = 1;
        return;
    }
    if (!r.len)
        out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    out->offset = r.offset;
    out->len = r.read;
    out->unpacked = r.packed ? r.len : 0;
    out->block = chunk;
    out->row = row;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_parquet *p = of(d);
    const stk_pq_shard *s = &p->shard[e->shard];
    uint32_t number = (uint32_t)f->offset, leaf, group, chunk;
    int as_text = number >= p->n_fields; /* of decimals */
    const stk_pq_field *field;
    const stk_pq_table *t;

    (void)named;
    if (number >= STK_GATHER_FIRST)
        return stk_pq_gather_locate(p, stk_gather_number(&p->base.gathers, number), e, out, err);
    number -= as_text ? p->n_fields : 0;
    field = &p->field[number];
    leaf = s->leaf_of[number];
    if (field->partition >= 0) {
        const char *text = s->constant[field->partition];

        if (!text)
            out->absent = 1;
        else
            out->here = (stk_bytes){ (const uint8_t *)text, strlen(text) };
        return 0;
    }
    if (leaf == UINT32_MAX) {
        out->absent = 1;
        return 0;
    }
    group = stk_pq_group_of(s->meta, e->row);
    chunk = (as_text ? stk_pq_chunks(s->meta) : 0) + group * s->meta->n_leaves + leaf;
    STK_TRY(stk_pq_table_get(p, e->shard, chunk, &t, err));
    if (t->points.n_spans)
        place_point(&t->points, chunk, e->row - s->meta->group[group].first, out);
    else
        place_block(t, chunk, e->row - s->meta->group[group].first, out);
    return 0;
}

/* The table of a place that locate() gave: it is published. */
static const stk_pq_table *table_at(const stk_parquet *p, uint64_t shard, uint32_t chunk)
{
    return atomic_load_explicit(&p->shard[shard].table[chunk], memory_order_acquire);
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_parquet *p = of(d);
    const stk_pq_file *f = p->shard[job->shard].meta;
    const stk_place *at = job->place;
    uint32_t chunk = (uint32_t)(at->shared ? at->block >> BLOCK_BITS : at->block);
    const stk_pq_table *t;

    if (at->block & STK_PQ_GATHERED)
        return stk_pq_gather_unpack(p, job, err);
    t = table_at(p, job->shard, chunk);
    if (at->shared)
        return stk_pq_block_unpack(stk_pq_leaf_of(&p->shard[job->shard], chunk),
                                   f->chunk[chunk % stk_pq_chunks(f)].codec, t, job, err);
    return stk_pq_points_unpack(&t->points, at->row, job->raw, job->dst, err);
}

/* Lists whose length the schema says have that length. */
static int check_length(const stk_pq_field *f, size_t len, stk_error *err)
{
    if (!f->leaf.fixed || len == (uint64_t)f->leaf.fixed * f->leaf.width)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "column %.60s: a list of %zu bytes, and its schema says %u values", f->name,
                    len, f->leaf.fixed);
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *at, stk_bytes *bytes, stk_error *err)
{
    const stk_parquet *p = of(d);
    uint32_t chunk = (uint32_t)(at->block >> BLOCK_BITS);
    const stk_pq_leaf *l;

    if (at->block & STK_PQ_GATHERED)
        return stk_pq_gather_pick(p, stk_gather_number(&p->base.gathers, (uint32_t)f->offset), at,
                                  bytes, err);
    l = stk_pq_leaf_of(&p->shard[e->shard], chunk);
    STK_TRY(stk_pq_block_pick(l, table_at(p, e->shard, chunk), at->row, bytes, err));
    if (f->offset >= p->n_fields) { /* text of a decimal */
        bytes->len = strnlen((const char *)bytes->data, bytes->len);
        return 0;
    }
    return check_length(&p->field[f->offset], bytes->len, err);
}

/* Both kinds of blocks begin with how many rows they have. */
static uint64_t data_rest(const stk_dataset *d, uint64_t shard, const stk_place *at,
                          stk_bytes block)
{
    uint64_t rows;

    (void)d, (void)shard;
    memcpy(&rows, block.data, sizeof rows);
    return rows > at->row ? rows - at->row - 1 : 0;
}

/* Lists whose length the schema says are checked one by one where one is of another length. */
static void data_span(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                      const stk_place *at, stk_value_span *s)
{
    const stk_parquet *p = of(d);
    uint32_t number = (uint32_t)f->offset;

    /* a constant of the file, a large value, or text of a decimal */
    if (!at->shared || (number >= p->n_fields && number < STK_GATHER_FIRST)) {
        s->n = 0;
        return;
    }
    if (at->block & STK_PQ_GATHERED) {
        stk_pq_gather_span(stk_gather_number(&p->base.gathers, number), at, s);
        return;
    }
    stk_pq_block_span(stk_pq_leaf_of(&p->shard[e->shard], (uint32_t)(at->block >> BLOCK_BITS)),
                      at->row, s);
}

/* ---- the table ---- */

static void shard_fini(stk_pq_shard *s, uint32_t partitions)
{
    size_t n = s->meta && s->table ? (size_t)stk_pq_chunks(s->meta) * (s->text ? 2 : 1) : 0;

    for (size_t i = 0; i < n; i++) {
        stk_pq_table *t = atomic_load_explicit(&s->table[i], memory_order_relaxed);

        stk_pq_table_close(&t);
    }
    for (uint32_t i = 0; s->constant && i < partitions; i++)
        stk_free(s->constant[i]);
    stk_free(s->constant);
    stk_free((void *)s->table);
    stk_free(s->text);
    stk_free(s->leaf_of);
    stk_pq_file_close(&s->meta);
}

static void data_close(stk_dataset *d)
{
    stk_parquet *p = (stk_parquet *)d;

    for (size_t i = 0; p->shard && i < p->base.names.n; i++)
        shard_fini(&p->shard[i], p->n_partitions);
    for (uint32_t i = 0; i < p->n_fields; i++)
        stk_free(p->field[i].name);
    stk_free(p->field);
    stk_free(p->shard);
    stk_table_fini(&p->base);
    stk_free(p->points_file);
    stk_free(p);
}

const stk_data_ops stk_parquet_ops = {
    .name = "parquet",
    .plural = "Parquet files",
    STK_TABLE_FILE_OPS,
    .pick = data_pick,
    .rest = data_rest,
    .span = data_span,
};

stk_parquet *stk_parquet_of(const stk_dataset *ds)
{
    return ds->ops == &stk_parquet_ops ? (stk_parquet *)(uintptr_t)ds : NULL;
}
