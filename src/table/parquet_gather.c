/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_gather.c - columns taken together: blocks of whole rows, made of many columns' pages.
 *
 * A block has the rows of one page of the first column, or a part of them where all columns
 * together would take more than BLOCK_AIM.  The reader brings the first column's page; the others
 * are read while the block is made.  A row is then one piece of memory, however many columns it
 * has. */
#include <string.h>

#include "base/mem.h"
#include "table/parquet_data.h"

#define BLOCK_AIM ((uint64_t)32 << 20)
#define READ_MAX ((uint64_t)1 << 30) /* bytes that one column's pages of a block may decode to */

typedef struct slab {     /* the rows of a block */
    uint64_t first, rows; /* of the group */
    uint32_t group;
    stk_pq_block page; /* of the first column */
} slab;

typedef struct head { /* how a made block begins */
    uint64_t rows;
    uint64_t null_at; /* by row: 1 + the column that has no value, uint32_t; 0: all have */
} head;

static uint32_t leaf_of(const stk_parquet *p, uint64_t shard, const stk_gather *g, uint32_t c)
{
    return p->shard[shard].leaf_of[g->column[c].field];
}

/* Which rows are made together with this one of the file. */
static int slab_of(const stk_parquet *p, const stk_gather *g, uint64_t shard, uint64_t row,
                   slab *out, stk_error *err)
{
    const stk_pq_file *f = p->shard[shard].meta;
    uint32_t group = stk_pq_group_of(f, row), c = 0;
    uint64_t most = BLOCK_AIM / ((uint64_t)g->n * g->size), end = f->group[group].rows, at;
    const stk_pq_table *t;

    *out = (slab){ .group = group };
    row -= f->group[group].first;
    while (c < g->n && leaf_of(p, shard, g, c) == UINT32_MAX)
        c++;
    if (c < g->n) {
        STK_TRY(stk_pq_table_get(p, shard, group * f->n_leaves + leaf_of(p, shard, g, c), &t, err));
        if (!t->n_blocks)
            return stk_fail(err, STK_ENOTSUP, "columns(): %.60s has values of many bytes",
                            p->field[g->column[c].field].name);
        at = stk_pq_block_of(t, row);
        out->page = t->block[at];
        out->first = t->block[at].first;
        end = at + 1 < t->n_blocks ? t->block[at + 1].first : end;
    }
    most = most ? most : 1;
    out->first += (row - out->first) / most * most;
    out->rows = end - out->first < most ? end - out->first : most;
    return 0;
}

int stk_pq_gather_locate(const stk_parquet *p, const stk_gather *g, const stk_entry *e,
                         stk_place *out, stk_error *err)
{
    const stk_pq_file *f = p->shard[e->shard].meta;
    uint64_t first;
    slab s;

    STK_TRY(slab_of(p, g, e->shard, e->row, &s, err));
    first = f->group[s.group].first + s.first;
    *out = (stk_place){ .offset = s.page.offset,
                        .len = s.page.len,
                        .block = STK_PQ_GATHERED | (uint64_t)(g->number - STK_GATHER_FIRST) << 48 |
                                 first,
                        .shared = 1,
                        .row = e->row - first };
    out->unpacked = sizeof(head) + s.rows * ((uint64_t)g->n * g->size + (g->strict ? 4 : 0)) + 8;
    return 0;
}

int stk_pq_block_read(const stk_parquet *p, uint64_t shard, uint32_t chunk, uint32_t block,
                      stk_pq_vector *v, stk_error *err)
{
    const stk_pq_file *f = p->shard[shard].meta;
    const stk_pq_table *t = atomic_load_explicit(&p->shard[shard].table[chunk],
                                                 memory_order_acquire);
    const stk_pq_block *b = &t->block[block];
    stk_pq_decode d = { &f->leaf[chunk % f->n_leaves], f->chunk[chunk].codec,
                        t->dictionary.leaf ? &t->dictionary : NULL, READ_MAX };
    uint8_t *bytes = stk_alloc((size_t)b->len);
    stk_file *file = NULL;
    int rc = bytes ? stk_table_acquire(&p->base.data, shard, &file, err)
                   : stk_fail_nomem(err, (size_t)b->len);

    if (rc == 0)
        rc = stk_file_read(file, b->offset, bytes, (size_t)b->len, err);
    if (rc == 0)
        rc = stk_pq_decode_pages(&d, (stk_bytes){ bytes, (size_t)b->len }, v, err);
    if (rc < 0)
        stk_error_at(err, p->base.names.name[shard], b->offset, (stk_bytes){ 0 });
    stk_free(bytes);
    return rc;
}

typedef struct making { /* a block while it is made */
    const stk_parquet *p;
    const stk_gather *g;
    uint64_t shard;
    slab s;
    uint8_t *row;   /* the first */
    uint32_t *null; /* by row; NULL: nulls have a value */
} making;

static void put_null(making *m, uint32_t c, uint64_t row)
{
    if (m->null)
        m->null[row] = c + 1;
    memcpy(m->row + (row * m->g->n + c) * m->g->size, m->g->empty, m->g->size);
}

/* Rows [at, at + n) of the vector are rows [row, row + n) of the block. */
typedef struct some_rows { /* n of them: from `at` of a block to `row` of what is made */
    uint64_t at, row, n;
} some_rows;

static int put_rows(making *m, uint32_t c, const stk_pq_vector *v, some_rows rows, stk_error *err)
{
    uint64_t at = rows.at, row = rows.row, n = rows.n;
    const stk_gather *g = m->g;
    size_t width = stk_dtype_size(g->column[c].dtype);

    if (v->leaf->width != width || v->first || at + n > v->slots)
        return stk_fail(err, STK_ECORRUPT, "a page of another type than its column");
    STK_TRY(stk_gather_put(g, c, v->value + at * width, n, m->row + row * g->n * g->size, err));
    for (uint64_t i = 0; v->null && i < n; i++)
        if (v->null[at + i])
            put_null(m, c, row + i);
    return 0;
}

static int make_column(making *m, uint32_t c, stk_error *err)
{
    const stk_pq_file *f = m->p->shard[m->shard].meta;
    uint32_t leaf = leaf_of(m->p, m->shard, m->g, c), chunk;
    uint64_t done = 0;
    const stk_pq_table *t;
    int rc = 0;

    for (uint64_t i = 0; leaf == UINT32_MAX && i < m->s.rows; i++)
        put_null(m, c, i);
    if (leaf == UINT32_MAX)
        return 0;
    chunk = m->s.group * f->n_leaves + leaf;
    STK_TRY(stk_pq_table_get(m->p, m->shard, chunk, &t, err));
    for (uint32_t b = t->n_blocks ? stk_pq_block_of(t, m->s.first) : 0;
         rc == 0 && done < m->s.rows && b < t->n_blocks; b++) {
        stk_pq_vector v = { 0 };
        uint64_t at = m->s.first + done - t->block[b].first, n = 0;

        rc = stk_pq_block_read(m->p, m->shard, chunk, b, &v, err);
        if (rc == 0 && v.rows > at)
            n = v.rows - at < m->s.rows - done ? v.rows - at : m->s.rows - done;
        if (n)
            rc = put_rows(m, c, &v, (some_rows){ at, done, n }, err);
        stk_pq_vector_fini(&v);
        done += n;
    }
    if (rc == 0 && done < m->s.rows)
        rc = stk_fail(err, STK_ECORRUPT, "column %.60s ends early",
                      m->p->field[m->g->column[c].field].name);
    return rc;
}

int stk_pq_gather_unpack(const stk_parquet *p, stk_unpack_job *job, stk_error *err)
{
    uint64_t block = job->place->block & ~STK_PQ_GATHERED,
             first = block & (((uint64_t)1 << 48) - 1);
    const stk_gather *g = stk_gather_number(&p->base.gathers,
                                            STK_GATHER_FIRST + (uint32_t)(block >> 48));
    making m = { .p = p, .g = g, .shard = job->shard, .row = (uint8_t *)job->dst + sizeof(head) };
    head *h = job->dst;
    uint64_t bytes;

    STK_TRY(slab_of(p, g, job->shard, first, &m.s, err));
    bytes = m.s.rows * g->n * g->size;
    h->rows = m.s.rows;
    h->null_at = 0;
    if (g->strict) {
        h->null_at = (sizeof *h + bytes + 3) & ~(uint64_t)3;
        m.null = (uint32_t *)(void *)((uint8_t *)job->dst + h->null_at);
        memset(m.null, 0, m.s.rows * sizeof *m.null);
    }
    for (uint32_t c = 0; c < g->n; c++)
        STK_TRY(make_column(&m, c, err));
    job->len = g->strict ? h->null_at + m.s.rows * sizeof *m.null : sizeof *h + bytes;
    return 0;
}

int stk_pq_gather_pick(const stk_parquet *p, const stk_gather *g, const stk_place *at,
                       stk_bytes *bytes, stk_error *err)
{
    const head *h = (const head *)(const void *)bytes->data;
    size_t each = (size_t)g->n * g->size;

    if (at->row >= h->rows)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a block of %" PRIu64, at->row,
                        h->rows);
    if (h->null_at) {
        const uint32_t *null = (const uint32_t *)(const void *)(bytes->data + h->null_at);

        if (null[at->row])
            return stk_gather_null(g, &p->base.data, null[at->row] - 1, err);
    }
    *bytes = (stk_bytes){ bytes->data + sizeof *h + at->row * each, each };
    return 0;
}

void stk_pq_gather_span(const stk_gather *g, const stk_place *at, stk_value_span *s)
{
    const head *h = (const head *)(const void *)s->block.data;
    uint64_t left = at->row < h->rows ? h->rows - at->row : 0, n = 0;

    s->n = left < s->n ? left : s->n;
    if (h->null_at) {
        const uint32_t *null = (const uint32_t *)(const void *)(s->block.data + h->null_at) +
                               at->row;

        while (n < s->n && !null[n])
            n++;
        s->n = n;
    }
    s->first = NULL;
    s->width = g->n * g->size;
    s->data = s->block.data + sizeof *h + at->row * s->width;
}
