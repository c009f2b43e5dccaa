/* SPDX-License-Identifier: Apache-2.0 */
/* mds_data.c - MDS shards as a loader reads them.
 *
 * A sample of a plain shard is one range, of which columns are cut out.  A packed shard is a block:
 * it is unpacked as a whole and kept in the block cache while samples of it are wanted. */
#include "table/mds_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "compress/unpack.h"
#include "format/parquet/parquet.h"
#include "store/digest.h"

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
    uint32_t samples = m->index.shard[shard].samples, rows = m->index.frame_rows;
    uint64_t len = rows ? stk_litdata_head(samples, rows) : stk_mds_head(samples);
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
    if (rc == 0 && atomic_compare_exchange_strong_explicit(
                       &f->head, &have, mine, memory_order_acq_rel, memory_order_acquire))
        have = mine;
    else
        stk_free(mine);
    *out = (stk_bytes){ have, (size_t)len };
    return rc;
}

/* NULL: a column, not several that are taken together. */
static const stk_gather *gather_of(const stk_mds *m, uint32_t number)
{
    return number >= STK_GATHER_FIRST ? stk_gather_number(&m->base.gathers, number) : NULL;
}

/* Bytes of a packed shard, unpacked: of LitData's with its table of places, which may be counted or
 * not. */
static uint64_t most_bytes(const stk_mds *m, const stk_mds_shard *s)
{
    return s->raw_bytes + (m->index.litdata ? stk_mds_head(s->samples) : 0);
}

/* ---- chunks that are packed in frames ---- */

typedef struct framed { /* a sample of one */
    stk_bytes head;
    stk_litdata_frame frame;
} framed;

static int framed_find(const stk_mds *m, uint64_t shard, uint32_t i, framed *out, stk_error *err)
{
    stk_litdata_chunk c = { .samples = m->index.shard[shard].samples,
                            .frame_rows = m->index.frame_rows,
                            .size = m->base.file[shard].size };

    STK_TRY(head_get(m, shard, &out->head, err));
    c.head = out->head;
    return stk_litdata_frame_of(&c, i, &out->frame, err);
}

static int framed_locate(const stk_mds *m, const stk_gather *g, const stk_entry *e, stk_place *out,
                         stk_error *err)
{
    framed x;

    STK_TRY(framed_find(m, e->shard, (uint32_t)e->row, &x, err));
    out->shared = 1;
    out->offset = x.frame.offset;
    out->len = x.frame.len;
    out->block = (uint64_t)(g ? g->number : 0) << 32 | x.frame.number;
    out->unpacked = g ? (uint64_t)x.frame.n * g->n * g->size + 1 : x.frame.unpacked + 1;
    return 0;
}

static int gather_sample(const stk_mds *m, const stk_gather *g, stk_bytes sample, uint8_t *row,
                         stk_error *err);

static int framed_gather(const stk_mds *m, const stk_gather *g, const framed *x,
                         stk_unpack_job *job, stk_error *err)
{
    size_t room = (size_t)x->frame.unpacked + 1, each = (size_t)g->n * g->size;
    uint8_t *all = stk_large_alloc(room);
    uint64_t at, len;
    int rc = all ? stk_unpack_page(STK_PQ_ZSTD, job->raw, all, room - 1, err)
                 : stk_fail_nomem(err, room);

    for (uint32_t i = 0; rc == 0 && i < x->frame.n; i++) {
        rc = stk_litdata_in_frame(x->head, &x->frame, x->frame.first + i, &at, &len, err);
        if (rc == 0)
            rc = gather_sample(m, g, (stk_bytes){ all + at, (size_t)len },
                               (uint8_t *)job->dst + i * each, err);
    }
    stk_large_free(all, room);
    job->len = x->frame.n * each;
    return rc;
}

static int framed_unpack(const stk_mds *m, const stk_gather *g, stk_unpack_job *job, stk_error *err)
{
    framed x;

    STK_TRY(framed_find(m, job->shard, (uint32_t)(job->place->row >> 16), &x, err));
    if (g)
        return framed_gather(m, g, &x, job, err);
    job->len = (size_t)x.frame.unpacked;
    return stk_unpack_page(STK_PQ_ZSTD, job->raw, job->dst, job->len, err);
}

static int framed_pick(const stk_mds *m, const stk_entry *e, uint32_t column, stk_bytes *bytes,
                       stk_error *err)
{
    const stk_gather *g = gather_of(m, column);
    uint64_t at, len;
    framed x;

    STK_TRY(framed_find(m, e->shard, (uint32_t)e->row, &x, err));
    if (g) {
        at = (e->row - x.frame.first) * g->n * g->size;
        len = (uint64_t)g->n * g->size;
    } else
        STK_TRY(stk_litdata_in_frame(x.head, &x.frame, (uint32_t)e->row, &at, &len, err));
    if (at > bytes->len || len > bytes->len - at)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a block of %zu bytes", e->row,
                        bytes->len);
    *bytes = (stk_bytes){ bytes->data + at, (size_t)len };
    return g ? 0 : stk_mds_value(&m->index, *bytes, column, bytes, err);
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[e->shard];
    const stk_gather *g = gather_of(m, (uint32_t)f->offset);
    stk_bytes head;
    stk_mds_span span;

    (void)named;
    out->row = e->row << 16 | f->offset; /* for unpack() and pick(): which sample, which column */
    if (m->index.frame_rows)
        return framed_locate(m, g, e, out, err);
    if (m->file[e->shard].packed) {
        if (s->refused)
            return stk_fail(err, STK_ENOTSUP, "%s", s->refused);
        if (s->raw_bytes < stk_mds_head(s->samples) && !m->index.litdata)
            return stk_fail(err, STK_ECORRUPT, "the shard is too short for its samples");
        out->shared = 1;
        out->len = m->base.file[e->shard].size;
        out->block = g ? g->number : 0;
        out->unpacked = g ? (uint64_t)s->samples * g->n * g->size + 1 : most_bytes(m, s);
        return 0;
    }
    STK_TRY(head_get(m, e->shard, &head, err));
    STK_TRY(
        stk_mds_place(head, s->samples, m->base.file[e->shard].size, (uint32_t)e->row, &span, err));
    out->offset = span.at;
    out->len = span.len;
    out->unpacked = g ? (uint64_t)g->n * g->size : out->len ? out->len : 1;
    return 0;
}

/* ---- making it ---- */

/* The whole of a packed shard, in room for most_bytes(); *len: as much as it is. */
static int unpack_shard(const stk_mds *m, const stk_mds_shard *s, stk_bytes raw, uint8_t *dst,
                        size_t *len, stk_error *err)
{
    *len = (size_t)s->raw_bytes;
    if (m->index.litdata && stk_unpack_page(s->codec, raw, dst, *len, err) == 0)
        return 0;
    *len = (size_t)most_bytes(m, s);
    return stk_unpack_page(s->codec, raw, dst, *len, err);
}

static int gather_sample(const stk_mds *m, const stk_gather *g, stk_bytes sample, uint8_t *row,
                         stk_error *err)
{
    stk_bytes value;

    for (uint32_t c = 0; c < g->n; c++) {
        STK_TRY(stk_mds_value(&m->index, sample, g->column[c].field, &value, err));
        STK_TRY(stk_gather_put(g, c, value.data, 1, row, err));
    }
    return 0;
}

/* Columns taken together, of all samples of a packed shard. */
static int gather_shard(const stk_mds *m, const stk_gather *g, stk_unpack_job *job, stk_error *err)
{
    const stk_mds_shard *s = &m->index.shard[job->shard];
    size_t room = (size_t)most_bytes(m, s), len = 0, each = (size_t)g->n * g->size;
    uint8_t *all = stk_large_alloc(room);
    stk_mds_span at;
    int rc = all ? unpack_shard(m, s, job->raw, all, &len, err) : stk_fail_nomem(err, room);

    for (uint32_t i = 0; rc == 0 && i < s->samples; i++) {
        rc = stk_mds_place((stk_bytes){ all, len }, s->samples, len, i, &at, err);
        if (rc == 0)
            rc = gather_sample(m, g, (stk_bytes){ all + at.at, (size_t)at.len },
                               (uint8_t *)job->dst + i * each, err);
    }
    stk_large_free(all, room);
    job->len = s->samples * each;
    return rc;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[job->shard];
    const stk_gather *g = gather_of(m, (uint32_t)(job->place->row & 0xFFFF));
    stk_bytes value;

    if (m->index.frame_rows)
        return framed_unpack(m, g, job, err);
    if (job->place->shared)
        return g ? gather_shard(m, g, job, err)
                 : unpack_shard(m, s, job->raw, job->dst, &job->len, err);
    if (g) {
        job->len = (size_t)g->n * g->size;
        return gather_sample(m, g, job->raw, job->dst, err);
    }
    STK_TRY(stk_mds_value(&m->index, job->raw, (uint32_t)(job->place->row & 0xFFFF), &value, err));
    if (value.len)
        memcpy(job->dst, value.data, value.len);
    job->len = value.len;
    return 0;
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *at, stk_bytes *bytes, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[e->shard];
    const stk_gather *g = gather_of(m, (uint32_t)f->offset);
    stk_mds_span span;

    (void)at;
    if (m->index.frame_rows)
        return framed_pick(m, e, (uint32_t)f->offset, bytes, err);
    if (g) {
        size_t each = (size_t)g->n * g->size;

        if (bytes->len < (e->row + 1) * each)
            return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a block of %zu bytes", e->row,
                            bytes->len);
        *bytes = (stk_bytes){ bytes->data + e->row * each, each };
        return 0;
    }
    STK_TRY(stk_mds_place(*bytes, s->samples, bytes->len, (uint32_t)e->row, &span, err));
    return stk_mds_value(&m->index, (stk_bytes){ bytes->data + span.at, (size_t)span.len },
                         (uint32_t)f->offset, bytes, err);
}

/* ---- hashes ---- */

typedef struct verifying {
    stk_file *file;
    uint64_t size;
    int known, unknown; /* hashes that were compared; that are not known here */
} verifying;

static int verify_one(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    verifying *v = cookie;
    char name[32] = "", want[STK_DIGEST_HEX + 1] = "", have[STK_DIGEST_HEX];
    int quoted = key.len && key.data[0] == '"', rc;

    if (key.len >= sizeof name || value.len < 2 || value.len > sizeof want)
        return stk_fail(err, STK_ECORRUPT, "index.json: a hash that is not one");
    memcpy(name, key.data + quoted, key.len - 2 * (size_t)quoted);
    memcpy(want, value.data + 1, value.len - 2);
    rc = stk_digest_file(v->file, v->size, name, have, err);
    if (rc == STK_ENOTSUP) {
        v->unknown++;
        return 0;
    }
    STK_TRY(rc);
    v->known++;
    return !strcmp(have, want)
               ? 0
               : stk_fail(err, STK_ECORRUPT,
                          "its %s is %.20s..., and index.json says %.20s...: the file was "
                          "changed or damaged, copy it again",
                          name, have, want);
}

static int data_verify(const stk_dataset *d, uint64_t shard, stk_error *err)
{
    const stk_mds *m = of(d);
    const stk_mds_shard *s = &m->index.shard[shard];
    const char *hashes = m->file[shard].packed ? s->zip_hashes : s->raw_hashes;
    verifying v = { .size = m->base.file[shard].size };

    if (!hashes)
        return 0;
    STK_TRY(stk_table_acquire(d, shard, &v.file, err));
    STK_TRY(stk_json_members((stk_bytes){ (const uint8_t *)hashes, strlen(hashes) }, verify_one, &v,
                             err));
    return v.unknown && !v.known
               ? stk_fail(err, STK_ENOTSUP, "this build knows none of its hashes: %.100s", hashes)
               : 0;
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

#define OPS STK_TABLE_FILE_OPS, .pick = data_pick, .trust.verify = data_verify

const stk_data_ops stk_mds_ops = { .name = "mds", .plural = "MDS shards", OPS };
const stk_data_ops stk_litdata_ops = { .name = "litdata", .plural = "LitData chunks", OPS };
