/* SPDX-License-Identifier: Apache-2.0 */
/* mds_data.c - MDS shards as a loader reads them.
 *
 * A sample of a plain shard is one range, of which columns are cut out.  A packed shard is a block: it is unpacked as a
 * whole and kept in the block cache while samples of it are wanted. */
#include "table/mds_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "codec/unpack.h"

static const stk_mds *of(const stk_dataset *d)
{
    return (const stk_mds *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_mds *m = of(d);

    (void)err;
    out->content = stk_hash64(out->content, &m->print, sizeof m->print);
    for (uint64_t i = 0; i < m->base.names.n; i++) {
        const char *raw = m->index.shard[i].raw; /* the same data, packed or not */

        out->names = stk_hash64(out->names, raw, strlen(raw));
        out->bytes += m->index.shard[i].raw_bytes;
    }
    out->shards += m->base.names.n;
    out->samples += m->base.rows;
    return 0;
}

/* ---- its bytes ---- */

/* The table of places of a plain shard. */
static int head_get(const stk_mds *m, uint64_t shard, stk_bytes *out, stk_error *err)
{
    stk_mds_file *f = &m->file[shard];
    uint64_t len = stk_mds_head(m->index.shard[shard].samples);
    uint8_t *have = atomic_load_explicit(&f->head, memory_order_acquire), *mine;
    stk_file *file;
    int rc;

    *out = (stk_bytes){ have, (size_t)len };
    if (have)
        return 0;
    STK_TRY(stk_table_acquire(&m->base.data, shard, &file, err));
    if (len > m->base.file[shard].size)
        return stk_fail(err, STK_ECORRUPT, "the shard is too short for its samples");
    mine = stk_alloc((size_t)len);
    if (!mine)
        return stk_fail_nomem(err, (size_t)len);
    rc = stk_file_read(file, 0, mine, (size_t)len, err);
    if (rc == 0 && atomic_compare_exchange_strong_explicit(&f->head, &have, mine, memory_order_acq_rel,
                                                           memory_order_acquire))
        have = mine;
    else
        stk_free(mine);
    *out = (stk_bytes){ have, (size_t)len };
    return rc;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named, stk_place *out,
                       stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[e->shard];
    stk_bytes head;

    (void)named;
    out->row = e->row << 16 | f->offset; /* for unpack() and pick(): which sample, which column */
    if (m->file[e->shard].packed) {
        if (s->refused)
            return stk_fail(err, STK_ENOTSUP, "%s", s->refused);
        if (s->raw_bytes < stk_mds_head(s->samples))
            return stk_fail(err, STK_ECORRUPT, "the shard is too short for its samples");
        out->shared = 1;
        out->len = m->base.file[e->shard].size;
        out->unpacked = s->raw_bytes;
        return 0;
    }
    STK_TRY(head_get(m, e->shard, &head, err));
    STK_TRY(stk_mds_place(head, s->samples, m->base.file[e->shard].size, (uint32_t)e->row, &out->offset, &out->len, err));
    out->unpacked = out->len ? out->len : 1;
    return 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[job->shard];
    stk_bytes value;

    if (job->place->shared) {
        job->len = (size_t)s->raw_bytes;
        return stk_unpack_page(s->codec, job->raw, job->dst, job->len, err);
    }
    STK_TRY(stk_mds_value(&m->index, job->raw, (uint32_t)(job->place->row & 0xFFFF), &value, err));
    if (value.len)
        memcpy(job->dst, value.data, value.len);
    job->len = value.len;
    return 0;
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *at,
                     stk_bytes *bytes, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[e->shard];
    uint64_t from, len;

    (void)at;
    STK_TRY(stk_mds_place(*bytes, s->samples, bytes->len, (uint32_t)e->row, &from, &len, err));
    return stk_mds_value(&m->index, (stk_bytes){ bytes->data + from, (size_t)len }, (uint32_t)f->offset, bytes, err);
}

static void data_close(stk_dataset *d)
{
    stk_mds *m = (stk_mds *)d;

    for (uint64_t i = 0; m->file && i < m->index.n; i++)
        stk_free(atomic_load_explicit(&m->file[i].head, memory_order_relaxed));
    stk_free(m->file);
    stk_table_fini(&m->base);
    stk_mds_index_fini(&m->index);
    stk_free(m);
}

const stk_data_ops stk_mds_ops = {
    .name = "mds",
    .plural = "MDS shards",
    STK_TABLE_OPS,
    .fingerprint = data_fingerprint,
    .locate = data_locate,
    .acquire = stk_table_acquire,
    .unpack = data_unpack,
    .pick = data_pick,
    .close = data_close,
};
