/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_data.c - HDF5 files as a loader reads them: see hdf5_data.h. */
#include "table/hdf5_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define SLAB_BITS 40      /* slabs of a column; the rest of a block's number is the field */
#define HEAP_PIECE 4096u  /* bytes that a heap's collection has at least */

static const stk_hdf5 *of(const stk_dataset *d)
{
    return (const stk_hdf5 *)d;
}

/* ---- what there is ---- */

static uint64_t data_len(const stk_dataset *d)
{
    return of(d)->rows;
}

static const char *data_kind(const stk_dataset *d)
{
    (void)d;
    return "hdf5";
}

static uint64_t data_shards(const stk_dataset *d)
{
    return of(d)->names.n;
}

static const char *data_shard_name(const stk_dataset *d, uint64_t shard)
{
    return shard < of(d)->names.n ? of(d)->names.name[shard] : NULL;
}

static int data_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    const stk_hdf5_shard *s = &h->shard[shard];

    if (shard >= h->names.n)
        return stk_fail(err, STK_EINVAL, "file %" PRIu64 " of %zu", shard, h->names.n);
    *out = (stk_shard_info){ .name = h->names.name[shard],
                             .size = s->size,
                             .mtime_ns = s->mtime_ns,
                             .etag = "",
                             .first = s->first,
                             .samples = s->rows };
    return 0;
}

static int data_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    *out = (stk_field_type){ 0 };
    if (field >= of(d)->n_fields)
        return 0;
    *out = of(d)->type[field];
    return 1;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);

    (void)err;
    for (uint32_t i = 0; i < h->n_readable; i++)
        out->content = stk_hash64(out->content, h->type[i].name, strlen(h->type[i].name));
    for (uint64_t i = 0; i < h->names.n; i++) {
        const char *name = h->names.name[i], *base = strrchr(name, '/');
        uint64_t what[] = { h->shard[i].size, h->shard[i].rows };

        base = base ? base + 1 : name;
        out->names = stk_hash64(out->names, base, strlen(base));
        out->names = stk_hash64(out->names, h->shard[i].group, strlen(h->shard[i].group));
        out->content = stk_hash64(out->content, what, sizeof what);
        out->bytes += h->shard[i].size;
    }
    out->shards += h->names.n;
    out->samples += h->rows;
    return 0;
}

/* ---- a sample ---- */

static uint32_t data_schemas(const stk_dataset *d)
{
    (void)d;
    return 1;
}

static int data_find(const stk_dataset *d, uint32_t schema, const char *name)
{
    const stk_hdf5 *h = of(d);

    (void)schema;
    for (uint32_t i = 0; i < h->n_fields; i++)
        if (!strcmp(h->type[i].name, name))
            return (int)i;
    return -1;
}

static int data_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    uint64_t lo = 0, hi = h->names.n;

    if (sample >= h->rows)
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64 " does not exist", sample, h->rows);
    while (hi - lo > 1) { /* first[lo] <= sample; of files without rows the last one */
        uint64_t mid = lo + (hi - lo) / 2;

        if (h->shard[mid].first <= sample)
            lo = mid;
        else
            hi = mid;
    }
    *out = (stk_entry){ .shard = lo,
                        .row = sample - h->shard[lo].first,
                        .n_fields = h->n_readable,
                        .key = { (const uint8_t *)"", 0 } };
    return 0;
}

static int data_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out, stk_error *err)
{
    const stk_hdf5 *h = of(d);

    (void)e;
    if (number >= h->n_fields)
        return stk_fail(err, STK_EINVAL, "data set %u of %u", number, h->n_fields);
    *out = (stk_field){ h->type[number].name, strlen(h->type[number].name), number, 0 };
    return 0;
}

/* ---- its bytes ---- */

int stk_hdf5_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    stk_hdf5_shard *s = &h->shard[shard];
    stk_file *have = atomic_load_explicit(&s->file, memory_order_acquire), *mine = NULL;
    stk_file_info now;
    int rc;

    *out = have;
    if (have)
        return 0;
    STK_TRY(stk_url_open(STK_URL(h->names.name[shard], h->names.store), &mine, err));
    rc = stk_file_stat(mine, &now, err);
    if (rc == 0 && (now.size != s->size || now.mtime_ns != s->mtime_ns))
        rc = stk_fail(err, STK_ESTALE, "the file is another than when it was opened: open the data set again");
    if (rc < 0) {
        stk_error_at(err, h->names.name[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
        stk_file_close(&mine);
        return rc;
    }
    if (atomic_compare_exchange_strong_explicit(&s->file, &have, mine, memory_order_acq_rel, memory_order_acquire))
        have = mine;
    else
        stk_file_close(&mine);
    *out = have;
    return 0;
}

static void data_release(const stk_dataset *d, uint64_t shard)
{
    (void)d, (void)shard; /* files stay open */
}

static size_t text_len(const stk_h5_type *t, const uint8_t *p, size_t len)
{
    const uint8_t *end = t->pad == 0 ? memchr(p, 0, len) : NULL;

    if (end)
        return (size_t)(end - p);
    while (len && t->pad && p[len - 1] == (t->pad == 2 ? ' ' : 0))
        len--;
    return len;
}

static int check_unsigned(const uint8_t *p, size_t len, stk_error *err)
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
    return t->kind == STK_H5_NUMBER && t->unsigned64 ? check_unsigned(v->data, v->len, err) : 0;
}

static uint64_t width_of(const stk_h5_type *t) /* bytes of an element of a sequence */
{
    return t->dtype ? stk_dtype_size(t->dtype) : 1;
}

/* A sequence or text: the heap's collection from its start on.  Large ones are the first in theirs. */
static int locate_far(const stk_hdf5_at *at, uint64_t row, stk_place *out, stk_error *err)
{
    uint64_t size = at->h->shard[at->shard].size, bytes, need;
    stk_h5_far far;

    STK_TRY(stk_hdf5_far(at, row, &far, err));
    bytes = far.len * width_of(&at->c->set->type);
    out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    if (!bytes)
        return 0;
    if (far.addr >= size || bytes > size - far.addr)
        return stk_fail(err, STK_ECORRUPT, "its bytes are said to be past the end of the file");
    need = STK_H5_FAR_HEAD + bytes;
    need = need < HEAP_PIECE ? HEAP_PIECE : need;
    out->here = (stk_bytes){ 0 };
    out->offset = far.addr;
    out->len = need < size - far.addr ? need : size - far.addr;
    out->unpacked = bytes;
    out->row = far.number;
    return 0;
}

static int locate_chunked(const stk_hdf5_at *at, uint64_t slab, uint64_t row, stk_place *out, stk_error *err)
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
        return stk_fail(err, STK_ECORRUPT, "a chunk has %" PRIu64 " bytes, too few for its rows", k->size);
    if (c->direct) {
        out->offset += row * c->row_bytes;
        out->len = c->row_bytes;
    }
    return 0;
}

static int locate_contiguous(const stk_hdf5_at *at, uint64_t slab, uint64_t row, stk_place *out, stk_error *err)
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

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named, stk_place *out,
                       stk_error *err)
{
    const stk_hdf5 *h = of(d);
    uint32_t number = (uint32_t)f->offset;
    stk_hdf5_at at = { h, e->shard, NULL };
    const stk_hdf5_column *c;
    uint64_t slab, row;

    (void)named;
    if (number >= h->n_readable)
        return stk_fail(err, STK_ENOTSUP, "the data set %.60s is not read: %s", h->type[number].name,
                        h->type[number].refused);
    c = at.c = &h->shard[e->shard].column[number];
    slab = e->row / c->slab_rows;
    row = e->row % c->slab_rows;
    out->block = (uint64_t)number << SLAB_BITS | slab;
    if (c->set->type.kind == STK_H5_VALUES)
        return locate_far(&at, e->row, out, err);
    if (!c->row_bytes || c->here) {
        out->here = (stk_bytes){ c->here ? c->here + e->row * c->value_bytes : (const uint8_t *)"", (size_t)c->value_bytes };
        return trim(&c->set->type, &out->here, err);
    }
    STK_TRY(c->set->layout == STK_H5_CHUNKED ? locate_chunked(&at, slab, row, out, err)
                                             : locate_contiguous(&at, slab, row, out, err));
    if (out->here.data || c->direct)
        return out->here.data ? trim(&c->set->type, &out->here, err) : 0;
    out->shared = 1;
    out->unpacked = stk_hdf5_slab_len(&at, slab) * c->value_bytes;
    out->row = row;
    return 0;
}

/* The collection goes on after what was read of it. */
static int unpack_more(const stk_hdf5_at *at, const stk_place *place, uint64_t need, uint8_t *dst, stk_error *err)
{
    const stk_hdf5_shard *s = &at->h->shard[at->shard];
    stk_bytes value = { 0 };
    stk_file *f;
    uint8_t *bytes;
    int rc;

    if (need > s->size - place->offset)
        return stk_fail(err, STK_ECORRUPT, "a heap is said to be longer than the file");
    STK_TRY(stk_hdf5_acquire(&at->h->base, at->shard, &f, err));
    bytes = stk_large_alloc((size_t)need);
    if (!bytes)
        return stk_fail_nomem(err, (size_t)need);
    rc = stk_file_read(f, place->offset, bytes, (size_t)need, err);
    if (rc == 0)
        rc = stk_h5_far_find(&s->head, (stk_bytes){ bytes, (size_t)need }, (uint32_t)place->row, &value, &need, err);
    if (rc > 0 || (rc == 0 && value.len < place->unpacked))
        rc = stk_fail(err, STK_ECORRUPT, "a value is shorter in its heap than it should be");
    if (rc == 0)
        memcpy(dst, value.data, (size_t)place->unpacked);
    stk_large_free(bytes, (size_t)need);
    return rc;
}

static int unpack_far(const stk_hdf5_at *at, stk_unpack_job *job, stk_error *err)
{
    const stk_place *p = job->place;
    stk_bytes value = { 0 };
    uint64_t need = 0;
    int rc = stk_h5_far_find(&at->h->shard[at->shard].head, job->raw, (uint32_t)p->row, &value, &need, err);

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
    return 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_hdf5 *h = of(d);
    uint64_t slab = job->place->block & (((uint64_t)1 << SLAB_BITS) - 1);
    stk_hdf5_at at = { h, job->shard, &h->shard[job->shard].column[job->place->block >> SLAB_BITS] };

    if (!job->place->shared)
        return unpack_far(&at, job, err);
    STK_TRY(stk_hdf5_slab(&at, slab, job->raw, job->dst, err));
    job->len = (size_t)(stk_hdf5_slab_len(&at, slab) * at.c->value_bytes);
    return 0;
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *at,
                     stk_bytes *bytes, stk_error *err)
{
    const stk_hdf5_column *c = &of(d)->shard[e->shard].column[f->offset];

    if ((at->row + 1) * c->value_bytes > bytes->len)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " is past its block", at->row);
    *bytes = (stk_bytes){ bytes->data + at->row * c->value_bytes, (size_t)c->value_bytes };
    return trim(&c->set->type, bytes, err);
}

static void shard_fini(stk_hdf5_shard *s, uint32_t columns)
{
    stk_file *f = atomic_load_explicit(&s->file, memory_order_relaxed);

    stk_file_close(&f);
    for (uint32_t i = 0; s->column && i < columns; i++)
        stk_hdf5_column_fini(&s->column[i]);
    stk_free(s->column);
    stk_free(s->group);
    stk_h5_group_fini(&s->sets);
}

static void data_close(stk_dataset *d)
{
    stk_hdf5 *h = (stk_hdf5 *)d;

    for (size_t i = 0; h->shard && i < h->names.n; i++)
        shard_fini(&h->shard[i], h->n_readable);
    stk_free(h->shard);
    stk_free(h->type);
    stk_names_fini(&h->names);
    stk_free(h);
}

const stk_data_ops stk_hdf5_ops = {
    .name = "hdf5",
    .plural = "HDF5 files",
    .len = data_len,
    .kind = data_kind,
    .shards = data_shards,
    .shard_name = data_shard_name,
    .shard = data_shard,
    .type = data_type,
    .fingerprint = data_fingerprint,
    .schemas = data_schemas,
    .find = data_find,
    .entry = data_entry,
    .field = data_field,
    .locate = data_locate,
    .acquire = stk_hdf5_acquire,
    .release = data_release,
    .unpack = data_unpack,
    .pick = data_pick,
    .close = data_close,
};
