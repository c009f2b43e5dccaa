/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_table.c - the pages of a chunk: found by their headers when the chunk is first touched.
 *
 * A page whose first value goes on with a row of the page before belongs to the same block.  How
 * many rows a page of a list column has is known from its levels only, so those are read then; all
 * other pages are passed over by their headers.  Two threads that touch a chunk first both make the
 * table, and one of them throws its own away: nothing is locked, so that a forked child needs
 * nothing special. */
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "table/parquet_data.h"

#define HEAD_GUESS 4096u
#define SLACK 128u                    /* bytes of a decoded block's head and alignment */
#define BLOCK_MAX ((uint64_t)1 << 30) /* bytes that a block, or a dictionary, may decode to */

/* ---- making a table ---- */

typedef struct maker {
    const stk_parquet *of;
    stk_file *file;
    const stk_pq_chunk *chunk;
    stk_pq_decode decode;
    stk_pq_table *table;
    uint8_t *bytes; /* what was read last */
    size_t cap;
    uint32_t cap_blocks;
} maker;

static int room(maker *m, size_t len, stk_error *err)
{
    if (len <= m->cap)
        return 0;
    stk_free(m->bytes);
    m->cap = 0;
    m->bytes = stk_alloc(len);
    if (!m->bytes)
        return stk_fail_nomem(err, len);
    m->cap = len;
    return 0;
}

static int get(maker *m, uint64_t at, uint64_t len, stk_error *err)
{
    STK_TRY(room(m, (size_t)len, err));
    return stk_file_read(m->file, at, m->bytes, (size_t)len, err);
}

/* The header at `at`, which is in the chunk. */
static int read_head(maker *m, uint64_t at, stk_pq_page *out, stk_error *err)
{
    uint64_t left = m->chunk->start + m->chunk->len + m->chunk->slack - at, n = HEAD_GUESS;
    int rc = STK_PENDING;

    while (rc == STK_PENDING) {
        n = n < left ? n : left;
        STK_TRY(get(m, at, n, err));
        rc = stk_pq_page_read((stk_bytes){ m->bytes, (size_t)n }, out, err);
        if (rc == STK_PENDING && n == left)
            rc = stk_fail(err, STK_ECORRUPT, "a page's header goes on after its column's end");
        n *= 8;
    }
    if (rc == 0 && out->head + (uint64_t)out->packed > left)
        rc = stk_fail(err, STK_ECORRUPT, "a page of %u bytes goes on after its column's end",
                      out->packed);
    return rc;
}

/* Bytes that a page decodes to at most. */
static int decoded_bytes(maker *m, uint64_t at, const stk_pq_page *p, uint64_t *out, stk_error *err)
{
    const stk_pq_leaf *l = m->decode.leaf;
    uint64_t each = 1 + (l->max_rep ? 4 : 0) + (l->width ? l->width : sizeof(stk_pq_ref));
    stk_pq_vector v = { 0 };
    int rc;

    if (stk_pq_is_texts(l)) {
        STK_TRY(get(m, at, (uint64_t)p->head + p->packed, err));
        return stk_pq_texts_room(&m->decode, (stk_bytes){ m->bytes, p->head + (size_t)p->packed },
                                 out, err);
    }
    *out = p->values * each + (l->width ? 0 : p->size);
    if (p->encoding != STK_PQ_DELTA_BYTES || l->width)
        return 0;
    rc = get(m, at, (uint64_t)p->head + p->packed, err);
    if (rc == 0)
        rc = stk_pq_decode_pages(&m->decode, (stk_bytes){ m->bytes, p->head + (size_t)p->packed },
                                 &v, err);
    *out = p->values * each + v.data_len;
    stk_pq_vector_fini(&v);
    return rc;
}

/* How many rows begin in the page.  A version 2 page of lists says it, but Arrow before 12 wrote
 * the number of values there, and let rows go on in the next page. */
static int rows_of(maker *m, uint64_t at, const stk_pq_page *p, uint64_t *rows, int *whole,
                   stk_error *err)
{
    *rows = p->kind == STK_PQ_DATA2 ? p->rows : p->values;
    *whole = 1;
    if (!m->decode.leaf->max_rep || (p->kind == STK_PQ_DATA2 && p->rows != p->values))
        return 0;
    STK_TRY(get(m, at, (uint64_t)p->head + p->packed, err));
    return stk_pq_count_rows(&m->decode, (stk_bytes){ m->bytes, p->head + (size_t)p->packed }, rows,
                             whole, err);
}

static int add_block(maker *m, const stk_pq_block *b, stk_error *err)
{
    stk_pq_table *t = m->table;

    if (t->n_blocks == m->cap_blocks) {
        uint32_t cap = m->cap_blocks ? 2 * m->cap_blocks : 16;
        stk_pq_block *grown = stk_grow(t->block, t->n_blocks * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        t->block = grown;
        m->cap_blocks = cap;
    }
    t->block[t->n_blocks++] = *b;
    return 0;
}

static int add_page(maker *m, uint64_t at, const stk_pq_page *p, stk_error *err)
{
    stk_pq_table *t = m->table;
    stk_pq_block b = { .offset = at, .len = (uint64_t)p->head + p->packed, .first = t->rows };
    uint64_t rows = 0;
    int whole = 1;

    STK_TRY(rows_of(m, at, p, &rows, &whole, err));
    STK_TRY(decoded_bytes(m, at, p, &b.unpacked, err));
    if (b.unpacked > BLOCK_MAX)
        return stk_fail(err, STK_ELIMIT, "a page decodes to %" PRIu64 " bytes, at most %" PRIu64,
                        b.unpacked, BLOCK_MAX);
    b.unpacked += SLACK;
    t->rows += rows;
    if (whole)
        return add_block(m, &b, err);
    if (!t->n_blocks)
        return stk_fail(err, STK_ECORRUPT, "the first page begins in the middle of a row");
    t->block[t->n_blocks - 1].len += b.len;
    t->block[t->n_blocks - 1].unpacked += b.unpacked;
    return 0;
}

/* Dictionaries stay as long as the data set: all together they get a share of the memory. */
static uint64_t dictionary_bytes(const maker *m, const stk_pq_page *p)
{
    uint64_t values = (uint64_t)p->values * m->decode.leaf->width;

    return values > p->size ? values : p->size;
}

static int dictionary_room(const maker *m, const stk_pq_page *p, stk_error *err)
{
    uint64_t most = stk_memory_total() / 4;
    uint64_t have = atomic_load_explicit(&m->of->dictionaries, memory_order_relaxed);

    if (have <= most && dictionary_bytes(m, p) <= most - have)
        return 0;
    return stk_fail(err, STK_ELIMIT,
                    "a dictionary of %" PRIu64 " bytes, and dictionaries may take a quarter of the "
                    "memory, of which %" PRIu64 " bytes are left",
                    dictionary_bytes(m, p), have < most ? most - have : 0);
}

static int add_dictionary(maker *m, uint64_t at, const stk_pq_page *p, stk_error *err)
{
    if (m->decode.dictionary || m->table->n_blocks)
        return stk_fail(err, STK_ECORRUPT, "a dictionary that is not the first page");
    STK_TRY(dictionary_room(m, p, err));
    STK_TRY(get(m, at, (uint64_t)p->head + p->packed, err));
    STK_TRY(stk_pq_decode_dictionary(&m->decode,
                                     (stk_bytes){ m->bytes, p->head + (size_t)p->packed },
                                     &m->table->dictionary, err));
    m->decode.dictionary = &m->table->dictionary;
    m->table->dictionary_bytes = dictionary_bytes(m, p);
    return 0;
}

static int walk_pages(maker *m, uint64_t rows, stk_error *err)
{
    uint64_t at = m->chunk->start, end = at + m->chunk->len;
    int rc = 0;

    while (rc == 0 && at < end + m->chunk->slack && m->table->rows < rows) {
        stk_pq_page p;

        rc = read_head(m, at, &p, err);
        if (rc == 0 && p.kind == STK_PQ_DICTIONARY)
            rc = add_dictionary(m, at, &p, err);
        else if (rc == 0 && p.kind != STK_PQ_INDEX)
            rc = add_page(m, at, &p, err);
        if (rc < 0)
            stk_error_at(err, NULL, at, (stk_bytes){ 0 });
        at += rc == 0 ? (uint64_t)p.head + p.packed : 0;
    }
    /* the last row of a list may go on in further pages */
    while (rc == 0 && at < end && m->decode.leaf->max_rep && m->table->n_blocks) {
        stk_pq_page p;
        uint64_t more = 0;
        int whole = 1;

        rc = read_head(m, at, &p, err);
        if (rc == 0)
            rc = rows_of(m, at, &p, &more, &whole, err);
        if (rc == 0 && !whole && !more)
            rc = add_page(m, at, &p, err);
        else
            break;
        at += (uint64_t)p.head + p.packed;
    }
    if (rc == 0 && m->table->rows != rows)
        rc = stk_fail(err, STK_ECORRUPT, "its pages have %" PRIu64 " rows, the row group %" PRIu64,
                      m->table->rows, rows);
    return rc;
}

static int make(const stk_parquet *p, uint64_t shard, uint32_t chunk, stk_pq_table *t,
                stk_error *err)
{
    const stk_pq_file *f = p->shard[shard].meta;
    const stk_pq_leaf *l = stk_pq_leaf_of(&p->shard[shard], chunk);
    uint32_t at = chunk % stk_pq_chunks(f);
    maker m = { .of = p, .chunk = &f->chunk[at], .table = t };
    const char *why = l->refused && !l->blobs ? l->refused : m.chunk->refused;
    int rc;

    m.decode = (stk_pq_decode){ l, m.chunk->codec, NULL, BLOCK_MAX };
    if (why)
        return stk_fail(err, STK_ENOTSUP, "column %s: not supported because %s", l->name, why);
    STK_TRY(stk_table_acquire(&p->base.data, shard, &m.file, err));
    rc = walk_pages(&m, f->group[at / f->n_leaves].rows, err);
    stk_free(m.bytes);
    if (rc < 0 && err) {
        char text[sizeof err->message];
        uint64_t offset = err->offset;

        memcpy(text, err->message, sizeof text);
        stk_fail(err, rc, "column %.60s: %.160s", l->name, text);
        stk_error_at(err, p->base.names.name[shard], offset, (stk_bytes){ 0 });
    }
    return rc;
}

int stk_pq_table_pages(const stk_parquet *p, uint64_t shard, uint32_t chunk, stk_pq_table **out,
                       stk_error *err)
{
    int rc;

    *out = STK_NEW(stk_pq_table);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    rc = make(p, shard, chunk, *out, err);
    if (rc < 0)
        stk_pq_table_close(out);
    return rc;
}

int stk_pq_table_get(const stk_parquet *p, uint64_t shard, uint32_t chunk, const stk_pq_table **out,
                     stk_error *err)
{
    _Atomic(stk_pq_table *) *slot = &p->shard[shard].table[chunk];
    stk_pq_table *have = atomic_load_explicit(slot, memory_order_acquire), *mine;
    int rc;

    *out = have;
    if (have)
        return 0;
    mine = STK_NEW(stk_pq_table);
    if (!mine)
        return stk_fail_nomem(err, sizeof *mine);
    rc = make(p, shard, chunk, mine, err);
    if (rc == 0 && atomic_compare_exchange_strong_explicit(slot, &have, mine, memory_order_acq_rel,
                                                           memory_order_acquire)) {
        atomic_fetch_add_explicit(&((stk_parquet *)(uintptr_t)p)->dictionaries,
                                  mine->dictionary_bytes, memory_order_relaxed);
        *out = mine;
        return 0;
    }
    stk_pq_table_close(&mine);
    *out = have;
    return rc;
}

void stk_pq_table_close(stk_pq_table **t)
{
    stk_pq_table *x = *t;

    *t = NULL;
    if (!x)
        return;
    stk_pq_points_fini(&x->points);
    stk_pq_vector_fini(&x->dictionary);
    stk_free(x->block);
    stk_free(x);
}

/* ---- blocks in one piece of memory ---- */

typedef struct flat { /* how a decoded block begins; places from its beginning on, 0: none */
    uint64_t rows, slots, null_at, first_at, value_at, ref_at, data_at;
} flat;

static uint64_t put(uint8_t *dst, uint64_t *at, const void *src, uint64_t len)
{
    uint64_t here = (*at + 7) & ~(uint64_t)7;

    if (!src)
        return 0;
    if (len)
        memcpy(dst + here, src, (size_t)len);
    *at = here + len;
    return here;
}

/* Numbers are decoded to where they stay: after the head starts of lists, then values; flags of
 * nulls come after them. */
static void lend(const stk_pq_leaf *l, const stk_unpack_job *job, stk_pq_vector *v)
{
    uint64_t each = 1 + (l->max_rep ? 4 : 0) + l->width,
             n = job->len > SLACK ? (job->len - SLACK) / each : 0;
    uint64_t at = sizeof(flat), firsts = l->max_rep ? (n + 1) * sizeof *v->first : 0;

    if (!l->width || !n)
        return;
    v->lent = 1;
    if (firsts)
        v->first = (uint32_t *)(void *)((uint8_t *)job->dst + at);
    v->cap_rows = n + 1;
    v->value = (uint8_t *)job->dst + ((at + firsts + 7) & ~(uint64_t)7);
    v->cap_slots = n;
}

static void settle_lent(const stk_pq_vector *v, stk_unpack_job *job)
{
    flat head = { .rows = v->rows, .slots = v->slots };
    uint64_t at;

    head.first_at = v->first ? (uint64_t)((uint8_t *)v->first - (uint8_t *)job->dst) : 0;
    head.value_at = (uint64_t)(v->value - (uint8_t *)job->dst);
    at = head.value_at + v->slots * v->leaf->width;
    head.null_at = put(job->dst, &at, v->null, v->rows);
    memcpy(job->dst, &head, sizeof head);
    job->len = (size_t)at;
}

static int flatten(const stk_pq_vector *v, stk_unpack_job *job, stk_error *err)
{
    flat head = { .rows = v->rows, .slots = v->slots };
    uint64_t width = v->leaf->width, at = sizeof head;
    uint64_t need = SLACK + v->slots * (width ? width : sizeof *v->ref) + v->data_len +
                    (v->null ? v->rows : 0) + (v->first ? (v->rows + 1) * 4 : 0);

    if (need > job->len)
        return stk_fail(err, STK_ECORRUPT, "pages decode to %" PRIu64 " bytes, not to %zu", need,
                        job->len);
    head.ref_at = width ? 0 : put(job->dst, &at, v->ref, v->slots * sizeof *v->ref);
    head.first_at = put(job->dst, &at, v->first, (v->rows + 1) * sizeof *v->first);
    head.value_at = width ? put(job->dst, &at, v->value, v->slots * width) : 0;
    head.null_at = put(job->dst, &at, v->null, v->rows);
    head.data_at = put(job->dst, &at, v->data, v->data_len);
    memcpy(job->dst, &head, sizeof head);
    job->len = (size_t)at;
    return 0;
}

int stk_pq_block_unpack(const stk_pq_leaf *l, int codec, const stk_pq_table *t, stk_unpack_job *job,
                        stk_error *err)
{
    stk_pq_decode d = { l, codec, t->dictionary.leaf ? &t->dictionary : NULL, BLOCK_MAX };
    stk_pq_vector v = { 0 };
    int rc;

    lend(l, job, &v);
    rc = stk_pq_decode_pages(&d, job->raw, &v, err);
    if (rc == 0 && stk_pq_is_texts(l))
        rc = stk_pq_texts(&d, &v, err);
    if (rc == 0 && v.lent)
        settle_lent(&v, job);
    else if (rc == 0)
        rc = flatten(&v, job, err);
    stk_pq_vector_fini(&v);
    return rc;
}

int stk_pq_block_pick(const stk_pq_leaf *l, const stk_pq_table *t, uint64_t row, stk_bytes *bytes,
                      stk_error *err)
{
    uint8_t *p = (uint8_t *)(uintptr_t)bytes->data;
    const flat *head = (const flat *)(const void *)bytes->data;
    stk_pq_vector v = { .leaf = l, .rows = head->rows, .slots = head->slots };
    uint64_t n;

    if (row >= head->rows)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a page of %" PRIu64, row,
                        head->rows);
    v.null = head->null_at ? p + head->null_at : NULL;
    v.first = head->first_at ? (uint32_t *)(void *)(p + head->first_at) : NULL;
    v.value = p + head->value_at;
    v.ref = (stk_pq_ref *)(void *)(p + head->ref_at);
    v.data = p + head->data_at;
    return stk_pq_row(&v, &t->dictionary, row, bytes, &n, err);
}

/* How many of n flags are zero before the first that is not. */
static uint64_t zeros(const uint8_t *flag, uint64_t n)
{
    uint64_t i = 0, word;

    for (; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, flag + i, sizeof word);
        if (word)
            break;
    }
    while (i < n && !flag[i])
        i++;
    return i;
}

void stk_pq_block_span(const stk_pq_leaf *l, uint64_t row, stk_value_span *s)
{
    const uint8_t *p = s->block.data;
    const flat *head = (const flat *)(const void *)p;
    uint64_t left = row < head->rows ? head->rows - row : 0, slot = row;

    s->n = !l->width ? 0 : left < s->n ? left : s->n;
    if (!s->n)
        return;
    if (head->null_at)
        s->n = zeros(p + head->null_at + row, s->n);
    s->first = NULL;
    if (head->first_at) {
        s->first = (const uint32_t *)(const void *)(p + head->first_at) + row;
        slot = s->first[0];
    }
    s->width = l->width;
    s->data = p + head->value_at + slot * l->width;
}
