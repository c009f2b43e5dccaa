/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_rows.c - slabs of rows: chunks put side by side, members taken out of structs, byte orders
 * turned. */
#include <string.h>

#include "base/mem.h"
#include "format/hdf5/h5_filters.h"
#include "table/hdf5_data.h"

#define SMALL 4096u                /* bytes of a value below which many are read together ... */
#define SLAB_AIM ((uint64_t)65536) /* ... as about so many bytes */
#define PART_ROWS 4096u            /* sequences whose places are read together, about */
#define ACROSS_MAX (1u << 22)      /* chunks that a row is in */
#define ROW_MAX ((uint64_t)1 << 36)
/* What a file may claim: rows and bytes of a slab that are gone through in a moment, or so many for
 * each byte that it has. */
#define CLAIM_ROWS ((uint64_t)1 << 22)
#define CLAIM_SLAB ((uint64_t)1 << 26)
#define CLAIM_EACH 4096u

/* ---- what a column is ---- */

static uint64_t inner(const stk_h5_set *s) /* elements of a row */
{
    uint64_t n = 1;

    for (uint32_t i = 1; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static int init_chunked(stk_hdf5_column *c)
{
    uint64_t across = 1; /* no more than a row has elements */

    for (uint32_t i = 1; i < c->set->rank; i++)
        across *= (c->set->dim[i] + c->set->chunk[i] - 1) / c->set->chunk[i];
    c->slab_rows = c->set->chunk[0];
    c->across = across < ACROSS_MAX ? (uint32_t)across : 0;
    return c->across && c->slab_rows <= ((uint64_t)1 << 40) / c->row_bytes;
}

static int is_tight(const stk_h5_set *s) /* chunks have whole rows and nothing beside them */
{
    for (uint32_t i = 1; i < s->rank; i++)
        if (s->chunk[i] != s->dim[i])
            return 0;
    return 1;
}

const char *stk_hdf5_column_init(stk_hdf5_column *c, const stk_h5_set *s)
{
    uint64_t n = inner(s);
    int plain = s->type.kind == STK_H5_NUMBER && !s->type.swap && !s->type.unsigned64 &&
                !s->type.bits && s->element == s->type.size;

    *c = (stk_hdf5_column){ .set = s,
                            .row_bytes = n * s->element,
                            .value_bytes = n * s->type.size };
    if (s->rank > 1 && (s->type.kind != STK_H5_NUMBER || s->element != s->type.size))
        return "rows of several texts, sequences or structs are not supported";
    if (s->rank - 1 + s->type.ndim > 7)
        return "so many dimensions are not supported";
    if (c->row_bytes > ROW_MAX)
        return "its rows are too large";
    c->slab_rows = c->row_bytes && c->row_bytes < SLAB_AIM ? SLAB_AIM / c->row_bytes : 1;
    c->across = 1;
    if (s->layout == STK_H5_CHUNKED && c->row_bytes && !init_chunked(c))
        return "its chunks are too large, or its rows are in too many of them";
    if (s->layout == STK_H5_CHUNKED) /* small chunks are not worth a block */
        c->direct = plain && !s->n_filters && is_tight(s) &&
                    (c->value_bytes >= SMALL || c->slab_rows * c->row_bytes < SMALL);
    else
        c->direct = plain && s->layout == STK_H5_CONTIGUOUS && c->value_bytes >= SMALL;
    return s->dim[0] / c->slab_rows >= (uint64_t)1 << 40 ? "it has too many rows" : NULL;
}

/* What was never written costs a file nothing, and a reader work: for each row, and for each slab
 * of which one chunk is there.  Virtual rows are in other files, whose bytes count too. */
int stk_hdf5_claim(const stk_hdf5_column *c, uint64_t size, stk_error *err)
{
    const stk_h5_set *s = c->set;
    uint64_t rows = c->slab_rows < s->dim[0] ? c->slab_rows : s->dim[0];
    uint64_t slab = rows * c->row_bytes; /* init_chunked() saw that it is one */
    int virtual = s->layout == STK_H5_VIRTUAL;
    const char *whose = virtual ? "it and the files that it names have" : "the file has";

    size += virtual ? stk_hdf5_virtual_bytes(c->virtual) : 0;
    if (s->dim[0] > CLAIM_ROWS && s->dim[0] / CLAIM_EACH > size)
        return stk_fail(err, STK_ECORRUPT,
                        "the data set %.60s claims %" PRIu64 " rows, and %s %" PRIu64
                        " bytes: resize it to the rows that were written",
                        s->name, s->dim[0], whose, size);
    if ((s->layout == STK_H5_CHUNKED || virtual) && slab > CLAIM_SLAB && slab / CLAIM_EACH > size)
        return stk_fail(err, STK_ECORRUPT,
                        "the data set %.60s claims %s of %" PRIu64 " rows, which are %" PRIu64
                        " bytes, and %s %" PRIu64 ": write it with chunks of whole rows",
                        s->name, virtual ? "slabs" : "chunks", rows, slab, whose, size);
    return 0;
}

void stk_hdf5_column_fini(stk_hdf5_column *c)
{
    stk_h5_chunks *chunks = atomic_load_explicit(&c->chunks, memory_order_relaxed);

    if (chunks)
        stk_h5_chunks_fini(chunks);
    stk_free(chunks);
    stk_free(atomic_load_explicit(&c->fill, memory_order_relaxed));
    for (uint64_t i = 0; c->sequences && i < c->n_parts; i++)
        stk_free(atomic_load_explicit(&c->sequences[i], memory_order_relaxed));
    stk_free((void *)c->sequences);
    stk_free(c->here);
}

uint64_t stk_hdf5_slab_len(const stk_hdf5_at *at, uint64_t slab)
{
    uint64_t left = at->c->set->dim[0] - slab * at->c->slab_rows;

    return left < at->c->slab_rows ? left : at->c->slab_rows;
}

static int fail_at(const stk_hdf5_at *at, stk_error *err, int rc)
{
    if (rc < 0)
        stk_error_at(err, at->h->base.names.name[at->shard], err ? err->offset : STK_NO_OFFSET,
                     (stk_bytes){ 0 });
    return rc;
}

int stk_hdf5_chunks(const stk_hdf5_at *at, const stk_h5_chunks **out, stk_error *err)
{
    stk_h5_chunks *have = atomic_load_explicit(&at->c->chunks, memory_order_acquire), *mine;
    stk_h5_file f = at->h->shard[at->shard].head;
    int rc;

    *out = have;
    if (have)
        return 0;
    STK_TRY(stk_table_acquire(&at->h->base.data, at->shard, &f.file, err));
    mine = STK_NEW(stk_h5_chunks);
    if (!mine)
        return stk_fail_nomem(err, sizeof *mine);
    rc = stk_h5_chunks_read(mine, &f, at->c->set, err);
    if (rc == 0 && atomic_compare_exchange_strong_explicit(
                       &at->c->chunks, &have, mine, memory_order_acq_rel, memory_order_acquire)) {
        *out = mine;
        return 0;
    }
    stk_h5_chunks_fini(mine);
    stk_free(mine);
    *out = have;
    return fail_at(at, err, rc);
}

/* ---- values ---- */

static void turn_words(uint8_t *p, uint64_t len, uint32_t width)
{
    for (uint64_t i = 0; i + width <= len; i += width)
        for (uint32_t a = 0, b = width - 1; a < b; a++, b--) {
            uint8_t t = p[i + a];

            p[i + a] = p[i + b];
            p[i + b] = t;
        }
}

/* Integers that have bits beside them which do not count. */
static void widen(const stk_h5_type *t, uint8_t *bytes, uint64_t len)
{
    int is_signed = !t->unsigned64 && (t->dtype == STK_I8 || t->dtype == STK_I16 ||
                                       t->dtype == STK_I32 || t->dtype == STK_I64);
    uint64_t high = (uint64_t)1 << (t->bits - 1), mask = high | (high - 1);
    size_t width = stk_dtype_size(t->dtype);

    for (uint64_t i = 0; i + width <= len; i += width) {
        uint64_t v = 0;

        memcpy(&v, bytes + i, width);
        v = v >> t->shift & mask;
        if (is_signed && v & high)
            v |= ~mask;
        memcpy(bytes + i, &v, width);
    }
}

void stk_hdf5_turn(const stk_h5_type *t, uint8_t *bytes, uint64_t len)
{
    if (t->swap)
        turn_words(bytes, len, (uint32_t)stk_dtype_size(t->dtype));
    if (t->bits)
        widen(t, bytes, len);
}

/* Rows as they are stored -> values, one after another.  They may be the same memory where nothing
 * is taken out. */
static void take_values(const stk_hdf5_column *c, const uint8_t *rows, uint64_t n, uint8_t *dst)
{
    const stk_h5_set *s = c->set;

    if (s->element == s->type.size) {
        if (rows != dst)
            memcpy(dst, rows, (size_t)(n * c->row_bytes));
    } else
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + i * c->value_bytes, rows + i * c->row_bytes + s->offset,
                   (size_t)c->value_bytes);
    if (s->type.kind == STK_H5_NUMBER)
        stk_hdf5_turn(&s->type, dst, n * c->value_bytes);
}

static void put_fill(const stk_h5_set *s, uint8_t *dst, uint64_t bytes)
{
    if (!s->fill) {
        memset(dst, 0, (size_t)bytes);
        return;
    }
    for (uint64_t at = 0; at + s->element <= bytes; at += s->element)
        memcpy(dst + at, s->fill, s->element);
}

int stk_hdf5_fill(const stk_hdf5_at *at, stk_bytes *out, stk_error *err)
{
    stk_hdf5_column *c = at->c;
    uint8_t *have = atomic_load_explicit(&c->fill, memory_order_acquire), *mine, *row;

    if (!have) {
        mine = stk_alloc((size_t)c->value_bytes + 1);
        row = stk_alloc((size_t)c->row_bytes + 1);
        if (!mine || !row) {
            stk_free(mine);
            stk_free(row);
            return stk_fail_nomem(err, (size_t)c->row_bytes);
        }
        put_fill(c->set, row, c->row_bytes);
        take_values(c, row, 1, mine);
        stk_free(row);
        if (atomic_compare_exchange_strong_explicit(&c->fill, &have, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            have = mine;
        else
            stk_free(mine);
    }
    *out = (stk_bytes){ have, (size_t)c->value_bytes };
    return 0;
}

/* ---- chunks into slabs ---- */

typedef struct box { /* the part of a slab that a chunk has */
    uint64_t start[STK_H5_RANK], len[STK_H5_RANK];
} box;

/* 1: the chunk is whole */
static int box_of(const stk_hdf5_at *at, uint64_t slab, uint32_t k, box *b)
{
    const stk_h5_set *s = at->c->set;
    int whole;

    b->start[0] = 0;
    b->len[0] = stk_hdf5_slab_len(at, slab);
    whole = b->len[0] == s->chunk[0];
    for (uint32_t i = s->rank; i-- > 1;) {
        uint32_t grid = (uint32_t)((s->dim[i] + s->chunk[i] - 1) / s->chunk[i]);

        b->start[i] = (uint64_t)(k % grid) * s->chunk[i];
        b->len[i] = s->dim[i] - b->start[i] < s->chunk[i] ? s->dim[i] - b->start[i] : s->chunk[i];
        whole &= b->len[i] == s->chunk[i];
        k /= grid;
    }
    return whole;
}

/* Copy the box from a chunk to the slab, a run of the last dimension at a time. */
static void put_box(const stk_h5_set *s, const box *b, const uint8_t *chunk, uint8_t *slab)
{
    uint64_t at[STK_H5_RANK] = { 0 }, run = b->len[s->rank - 1] * s->element;

    for (;;) {
        uint64_t to = 0, from = 0;
        uint32_t i = s->rank - 1;

        for (uint32_t k = 0; k < s->rank; k++) {
            to = to * (k ? s->dim[k] : 1) + at[k] + b->start[k];
            from = from * s->chunk[k] + at[k];
        }
        memcpy(slab + to * s->element, chunk + from * s->element, (size_t)run);
        while (i-- > 0) {
            if (++at[i] < b->len[i])
                break;
            at[i] = 0;
        }
        if (i == UINT32_MAX)
            return;
    }
}

const stk_h5_chunk *stk_hdf5_slab_first(const stk_hdf5_column *c, const stk_h5_chunks *all,
                                        uint64_t slab)
{
    const stk_h5_chunk *k = stk_h5_chunk_from(all, slab * c->across);

    return k < all->chunk + all->n && k->number < (slab + 1) * c->across ? k : NULL;
}

typedef struct making { /* a slab */
    const stk_hdf5_at *at;
    uint64_t slab;
    stk_bytes raw; /* of the first chunk, or none */
    const stk_h5_chunk *first;
    uint8_t *rows; /* as they are stored */
    uint64_t chunk_bytes;
    uint8_t *spare; /* room for a chunk */
} making;

static int unpack_one(making *m, const stk_h5_chunk *k, stk_bytes raw, int whole, uint8_t *dst,
                      stk_error *err)
{
    const stk_h5_set *s = m->at->c->set;
    uint32_t mask = s->index.raw_edges && !whole ? UINT32_MAX : k->mask;
    int rc = stk_unpack_chunk(s->filter, s->n_filters, mask, raw,
                              (stk_bytes){ dst, (size_t)m->chunk_bytes }, err);

    if (rc < 0)
        stk_error_at(err, m->at->h->base.names.name[m->at->shard], k->addr, (stk_bytes){ 0 });
    return rc;
}

static int put_chunk(making *m, const stk_h5_chunk *k, stk_bytes raw, uint32_t number,
                     stk_error *err)
{
    const stk_h5_set *s = m->at->c->set;
    box b;
    int whole = box_of(m->at, m->slab, number, &b);

    if (whole && is_tight(s)) /* a slab is a chunk */
        return unpack_one(m, k, raw, 1, m->rows, err);
    if (!m->spare && !(m->spare = stk_large_alloc((size_t)m->chunk_bytes + 1)))
        return stk_fail_nomem(err, (size_t)m->chunk_bytes);
    STK_TRY(unpack_one(m, k, raw, whole, m->spare, err));
    if (is_tight(s))
        memcpy(m->rows, m->spare, (size_t)(b.len[0] * m->at->c->row_bytes));
    else
        put_box(s, &b, m->spare, m->rows);
    return 0;
}

static int read_chunk(making *m, const stk_h5_chunk *k, uint32_t number, stk_error *err)
{
    uint8_t *bytes;
    stk_file *f;
    int rc;

    STK_TRY(stk_table_acquire(&m->at->h->base.data, m->at->shard, &f, err));
    bytes = stk_large_alloc((size_t)k->size + 1);
    if (!bytes)
        return stk_fail_nomem(err, (size_t)k->size);
    rc = stk_file_read(f, k->addr, bytes, (size_t)k->size, err);
    if (rc == 0)
        rc = put_chunk(m, k, (stk_bytes){ bytes, (size_t)k->size }, number, err);
    stk_large_free(bytes, (size_t)k->size + 1);
    return rc;
}

/* A row may have more chunks than were ever written: only those that were are gone through. */
static int make_chunked(making *m, stk_error *err)
{
    const stk_hdf5_column *c = m->at->c;
    uint64_t base = m->slab * c->across, n = 0;
    const stk_h5_chunks *all;
    const stk_h5_chunk *end;
    int rc = 0;

    STK_TRY(stk_hdf5_chunks(m->at, &all, err));
    end = all->chunk + all->n;
    m->first = stk_hdf5_slab_first(c, all, m->slab);
    m->chunk_bytes = stk_h5_chunk_bytes(c->set);
    while (m->first && n < c->across && m->first + n < end && m->first[n].number == base + n)
        n++;
    if (n < c->across)
        put_fill(c->set, m->rows, stk_hdf5_slab_len(m->at, m->slab) * c->row_bytes);
    for (const stk_h5_chunk *k = m->first; k && rc == 0 && k < end && k->number < base + c->across;
         k++)
        rc = k == m->first && m->raw.data
                 ? put_chunk(m, k, m->raw, (uint32_t)(k->number - base), err)
                 : read_chunk(m, k, (uint32_t)(k->number - base), err);
    if (m->spare)
        stk_large_free(m->spare, (size_t)m->chunk_bytes + 1);
    return rc;
}

/* Rows that are stored one after another. */
static int make_contiguous(making *m, uint64_t n, stk_error *err)
{
    const stk_hdf5_column *c = m->at->c;
    uint64_t at = c->set->addr + m->slab * c->slab_rows * c->row_bytes;
    stk_file *f;

    if (c->set->addr == STK_H5_NOWHERE) {
        put_fill(c->set, m->rows, n * c->row_bytes);
        return 0;
    }
    if (m->raw.data) {
        if (m->raw.len < n * c->row_bytes)
            return stk_fail(err, STK_ECORRUPT, "rows are cut short");
        memcpy(m->rows, m->raw.data, (size_t)(n * c->row_bytes));
        return 0;
    }
    STK_TRY(stk_table_acquire(&m->at->h->base.data, m->at->shard, &f, err));
    return stk_file_read(f, at, m->rows, (size_t)(n * c->row_bytes), err);
}

/* Sources' values are as they are handed out; the fill value is not yet. */
static int make_virtual(const stk_hdf5_column *c, uint64_t first, uint64_t n, uint8_t *dst,
                        stk_error *err)
{
    put_fill(c->set, dst, n * c->row_bytes);
    take_values(c, dst, n, dst);
    return stk_hdf5_virtual_rows(c, first, n, dst, err);
}

int stk_hdf5_slab(const stk_hdf5_at *at, uint64_t slab, stk_bytes raw, uint8_t *dst, stk_error *err)
{
    const stk_hdf5_column *c = at->c;
    uint64_t n = stk_hdf5_slab_len(at, slab);
    int apart = c->set->element != c->set->type.size; /* members are taken out of rows */
    making m = { .at = at, .slab = slab, .raw = raw, .rows = dst };
    size_t bytes = (size_t)(n * c->row_bytes);
    int rc;

    if (apart && !(m.rows = stk_large_alloc(bytes + 1)))
        return stk_fail_nomem(err, bytes);
    if (c->set->layout == STK_H5_VIRTUAL)
        return make_virtual(c, slab * c->slab_rows, n, dst, err);
    if (c->set->layout == STK_H5_CHUNKED)
        rc = make_chunked(&m, err);
    else if (c->set->layout == STK_H5_CONTIGUOUS)
        rc = make_contiguous(&m, n, err);
    else {
        memcpy(m.rows, c->set->here + slab * c->slab_rows * c->row_bytes, bytes);
        rc = 0;
    }
    if (rc == 0)
        take_values(c, m.rows, n, dst);
    if (apart)
        stk_large_free(m.rows, bytes + 1);
    return rc;
}

/* ---- sequences ---- */

static int read_sequences(const stk_hdf5_at *at, uint64_t part, stk_h5_sequence **out,
                          stk_error *err)
{
    const stk_hdf5_column *c = at->c;
    uint64_t first = part * c->part_rows, rows = c->set->dim[0] - first, slabs;
    uint8_t *bytes;
    int rc = 0;

    rows = rows < c->part_rows ? rows : c->part_rows;
    slabs = (rows + c->slab_rows - 1) / c->slab_rows;
    *out = stk_alloc((size_t)rows * sizeof **out);
    bytes = stk_alloc((size_t)(rows * c->value_bytes));
    if (!*out || !bytes)
        rc = stk_fail_nomem(err, (size_t)(rows * c->value_bytes));
    for (uint64_t i = 0; rc == 0 && i < slabs; i++)
        rc = stk_hdf5_slab(at, first / c->slab_rows + i, (stk_bytes){ 0 },
                           bytes + i * c->slab_rows * c->value_bytes, err);
    for (uint64_t i = 0; rc == 0 && i < rows; i++)
        (*out)[i] = stk_h5_sequence_read(&at->h->shard[at->shard].head, bytes + i * c->value_bytes);
    stk_free(bytes);
    if (rc < 0) {
        stk_free(*out);
        *out = NULL;
    }
    return fail_at(at, err, rc);
}

int stk_hdf5_sequence(const stk_hdf5_at *at, uint64_t row, stk_h5_sequence *out, stk_error *err)
{
    const stk_hdf5_column *c = at->c;
    uint64_t part = row / c->part_rows;
    stk_h5_sequence *have = atomic_load_explicit(&c->sequences[part], memory_order_acquire), *mine;

    if (!have) {
        STK_TRY(read_sequences(at, part, &mine, err));
        if (atomic_compare_exchange_strong_explicit(&c->sequences[part], &have, mine,
                                                    memory_order_acq_rel, memory_order_acquire))
            have = mine;
        else
            stk_free(mine);
    }
    *out = have[row % c->part_rows];
    return 0;
}
