/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_data.c - HDF5 files as a loader reads them: see hdf5_data.h. */
#include "table/hdf5_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define HEAP_PIECE 4096u /* bytes that a heap's collection has at least */

static const stk_hdf5 *of(const stk_dataset *d)
{
    return (const stk_hdf5 *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    const stk_table *t = &h->base;

    (void)err;
    for (uint32_t i = 0; i < t->n_readable; i++)
        out->content = stk_hash64(out->content, t->column[i].name, strlen(t->column[i].name));
    for (uint64_t i = 0; i < t->names.n; i++) {
        uint64_t what[] = { t->file[i].size, t->file[i].rows };

        out->names = stk_hash64(out->names, h->shard[i].group, strlen(h->shard[i].group));
        out->content = stk_hash64(out->content, what, sizeof what);
        stk_hdf5_virtual_print(&h->shard[i], out);
    }
    stk_table_print(t, out);
    return 0;
}

/* ---- its bytes ---- */

static size_t text_len(const stk_h5_type *t, const uint8_t *p, size_t len)
{
    const uint8_t *end = t->pad == 0 ? memchr(p, 0, len) : NULL;

    if (end)
        return (size_t)(end - p);
    while (len && t->pad && p[len - 1] == (t->pad == 2 ? ' ' : 0))
        len--;
    return len;
}

int stk_hdf5_unsigned(const uint8_t *p, size_t len, stk_error *err)
{
    for (size_t i = 7; i < len; i += 8)
        if (p[i] & 0x80)
            return stk_fail(err, STK_ECORRUPT, "a value is 2^63 or more, which no i64 holds");
    return 0;
}

/* What is left to do for one value. */
static int trim(const stk_h5_type *t, stk_bytes *v, stk_error *err)
{
    if (t->kind == STK_H5_TEXT)
        v->len = text_len(t, v->data, v->len);
    return t->kind == STK_H5_NUMBER && t->unsigned64 ? stk_hdf5_unsigned(v->data, v->len, err) : 0;
}

/* NULL: a data set, not several that are taken together. */
static const stk_gather *gather_of(const stk_hdf5 *h, uint64_t number)
{
    return number >= STK_GATHER_FIRST ? stk_gather_number(&h->base.gathers, (uint32_t)number)
                                      : NULL;
}

static uint64_t width_of(const stk_h5_type *t) /* bytes of an element of a sequence */
{
    return t->dtype ? stk_dtype_size(t->dtype) : 1;
}

/* A sequence or text: the heap's collection from its start on.  Large ones are the first in
 * theirs. */
static int locate_sequence(const stk_hdf5_at *at, uint64_t row, stk_place *out, stk_error *err)
{
    uint64_t size = at->h->base.file[at->shard].size, bytes, need;
    stk_h5_sequence seq;

    STK_TRY(stk_hdf5_sequence(at, row, &seq, err));
    bytes = seq.len * width_of(&at->c->set->type);
    out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    if (!bytes)
        return 0;
    if (seq.addr >= size || bytes > size - seq.addr)
        return stk_fail(err, STK_ECORRUPT, "its bytes are said to be past the end of the file");
    need = STK_H5_COLLECTION_HEAD + bytes;
    need = need < HEAP_PIECE ? HEAP_PIECE : need;
    out->here = (stk_bytes){ 0 };
    out->offset = seq.addr;
    out->len = need < size - seq.addr ? need : size - seq.addr;
    out->unpacked = bytes;
    out->row = seq.number;
    return 0;
}

static int locate_chunked(const stk_hdf5_at *at, uint64_t slab, uint64_t row, stk_place *out,
                          stk_error *err)
{
    const stk_hdf5_column *c = at->c;
    const stk_h5_chunks *all;
    const stk_h5_chunk *k;

    STK_TRY(stk_hdf5_chunks(at, &all, err));
    k = stk_hdf5_slab_first(c, all, slab);
    if (!k)
        return stk_hdf5_fill(at, &out->here, err);
    out->offset = k->addr;
    out->len = k->size;
    if (c->direct && k->size < (row + 1) * c->row_bytes)
        return stk_fail(err, STK_ECORRUPT, "a chunk has %" PRIu64 " bytes, too few for its rows",
                        k->size);
    if (c->direct) {
        out->offset += row * c->row_bytes;
        out->len = c->row_bytes;
    }
    return 0;
}

static int locate_contiguous(const stk_hdf5_at *at, uint64_t slab, uint64_t row, stk_place *out,
                             stk_error *err)
{
    const stk_hdf5_column *c = at->c;

    if (c->set->addr == STK_H5_NOWHERE)
        return stk_hdf5_fill(at, &out->here, err);
    out->offset = c->set->addr + slab * c->slab_rows * c->row_bytes;
    out->len = stk_hdf5_slab_len(at, slab) * c->row_bytes;
    if (c->direct) {
        out->offset += row * c->row_bytes;
        out->len = c->row_bytes;
    }
    return 0;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    uint32_t number = (uint32_t)f->offset;
    stk_hdf5_at at = { h, e->shard, NULL };
    const stk_hdf5_column *c;
    uint64_t slab, row;

    (void)named;
    if (gather_of(h, number)) {
        stk_hdf5_gather_locate(h, gather_of(h, number), e, out);
        return 0;
    }
    if (number >= h->base.n_readable)
        return stk_fail(err, STK_ENOTSUP, "the data set %.60s is not read: %s",
                        h->base.column[number].name, h->base.column[number].refused);
    c = at.c = &h->shard[e->shard].column[number];
    slab = e->row / c->slab_rows;
    row = e->row % c->slab_rows;
    out->block = (uint64_t)number << STK_HDF5_SLAB_BITS | slab;
    if (c->set->type.kind == STK_H5_VALUES)
        return locate_sequence(&at, e->row, out, err);
    if (!c->row_bytes || c->here) {
        out->here = (stk_bytes){ c->here ? c->here + e->row * c->value_bytes : (const uint8_t *)"",
                                 (size_t)c->value_bytes };
        return trim(&c->set->type, &out->here, err);
    }
    if (c->set->layout == STK_H5_VIRTUAL)
        out->len = 8; /* the file's first bytes: sources are read while the slab is made */
    else
        STK_TRY(c->set->layout == STK_H5_CHUNKED ? locate_chunked(&at, slab, row, out, err)
                                                 : locate_contiguous(&at, slab, row, out, err));
    if (c->direct && !out->here.data)
        stk_hdf5_mapped(&at, out);
    if (out->here.data || c->direct)
        return out->here.data ? trim(&c->set->type, &out->here, err) : 0;
    out->shared = 1;
    out->unpacked = stk_hdf5_slab_len(&at, slab) * c->value_bytes;
    out->row = row;
    return 0;
}

/* The collection goes on after what was read of it. */
static int unpack_more(const stk_hdf5_at *at, const stk_place *place, uint64_t need, uint8_t *dst,
                       stk_error *err)
{
    const stk_hdf5_shard *s = &at->h->shard[at->shard];
    stk_bytes value = { 0 };
    uint64_t room = need;
    stk_file *f;
    uint8_t *bytes;
    int rc;

    if (need > at->h->base.file[at->shard].size - place->offset)
        return stk_fail(err, STK_ECORRUPT, "a heap is said to be longer than the file");
    STK_TRY(stk_table_acquire(&at->h->base.data, at->shard, &f, err));
    bytes = stk_large_alloc((size_t)need);
    if (!bytes)
        return stk_fail_nomem(err, (size_t)need);
    rc = stk_file_read(f, place->offset, bytes, (size_t)need, err);
    if (rc == 0)
        rc = stk_h5_sequence_find(&s->head, (stk_bytes){ bytes, (size_t)need },
                                  (uint32_t)place->row, &value, &need, err);
    if (rc > 0 || (rc == 0 && value.len < place->unpacked))
        rc = stk_fail(err, STK_ECORRUPT, "a value is shorter in its heap than it should be");
    if (rc == 0)
        memcpy(dst, value.data, (size_t)place->unpacked);
    stk_large_free(bytes, (size_t)room);
    return rc;
}

static int unpack_sequence(const stk_hdf5_at *at, stk_unpack_job *job, stk_error *err)
{
    const stk_place *p = job->place;
    stk_bytes value = { 0 };
    uint64_t need = 0;
    int rc = stk_h5_sequence_find(&at->h->shard[at->shard].head, job->raw, (uint32_t)p->row, &value,
                                  &need, err);

    if (rc < 0)
        return rc;
    if (rc == 0 && value.len < p->unpacked)
        return stk_fail(err, STK_ECORRUPT, "a value is shorter in its heap than it should be");
    if (rc == 0)
        memcpy(job->dst, value.data, (size_t)p->unpacked);
    else
        STK_TRY(unpack_more(at, p, need, job->dst, err));
    job->len = (size_t)p->unpacked;
    stk_hdf5_turn(&at->c->set->type, job->dst, job->len);
    return at->c->set->type.unsigned64 ? stk_hdf5_unsigned(job->dst, job->len, err) : 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    uint64_t slab = job->place->block & (((uint64_t)1 << STK_HDF5_SLAB_BITS) - 1);
    uint64_t number = job->place->block >> STK_HDF5_SLAB_BITS;
    stk_hdf5_at at = { h, job->shard, NULL };

    if (gather_of(h, number))
        return stk_hdf5_gather_unpack(h, job, err);
    at.c = &h->shard[job->shard].column[number];
    if (!job->place->shared)
        return unpack_sequence(&at, job, err);
    STK_TRY(stk_hdf5_slab(&at, slab, job->raw, job->dst, err));
    job->len = (size_t)(stk_hdf5_slab_len(&at, slab) * at.c->value_bytes);
    return 0;
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *at, stk_bytes *bytes, stk_error *err)
{
    const stk_gather *g = gather_of(of(d), f->offset);
    const stk_hdf5_column *c = g ? NULL : &of(d)->shard[e->shard].column[f->offset];

    if (g)
        return stk_hdf5_gather_pick(g, at, bytes, err);
    if ((at->row + 1) * c->value_bytes > bytes->len)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " is past its block", at->row);
    *bytes = (stk_bytes){ bytes->data + at->row * c->value_bytes, (size_t)c->value_bytes };
    return trim(&c->set->type, bytes, err);
}

/* Numbers of a slab, or of a data set that is mapped; texts and unsigned 64-bit integers are looked
 * at one by one. */
static void data_span(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                      const stk_place *at, stk_value_span *s)
{
    const stk_gather *g = gather_of(of(d), f->offset);
    const stk_hdf5_column *c = g ? NULL : &of(d)->shard[e->shard].column[f->offset];
    int plain = g || (c->set->type.kind == STK_H5_NUMBER && !c->set->type.unsigned64);
    uint64_t width = g ? (uint64_t)g->n * g->size : c->value_bytes,
             have = at->shared && width ? s->block.len / width : 0;

    have = have > at->row ? have - at->row : 0;
    s->n = !plain || width > UINT32_MAX ? 0 : have < s->n ? have : s->n;
    s->first = NULL;
    s->width = (uint32_t)width;
    s->data = s->block.data + at->row * width;
}

static void shard_fini(stk_hdf5_shard *s, uint32_t columns)
{
    for (uint32_t i = 0; s->column && i < columns; i++)
        stk_hdf5_column_fini(&s->column[i]);
    stk_hdf5_virtual_fini(s);
    stk_free(s->column);
    stk_free(s->group);
    stk_h5_group_fini(&s->sets);
}

static void data_close(stk_dataset *d)
{
    stk_hdf5 *h = (stk_hdf5 *)d;

    for (size_t i = 0; h->shard && i < h->base.names.n; i++) {
        stk_hdf5_unmap(h, i);
        shard_fini(&h->shard[i], h->base.n_readable);
    }
    stk_free(h->shard);
    stk_table_fini(&h->base);
    stk_free(h);
}

const stk_data_ops stk_hdf5_ops = {
    .name = "hdf5",
    .plural = "HDF5 files",
    STK_TABLE_OPS,
    .gather = stk_table_gather,
    .fingerprint = data_fingerprint,
    .locate = data_locate,
    .acquire = stk_table_acquire,
    .unpack = data_unpack,
    .pick = data_pick,
    .span = data_span,
    .trust.unchanged = stk_hdf5_unchanged,
    .close = data_close,
};
