/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - from a sample's number to its place, fields and key.
 *
 * No lock, no allocation: a block of 64 KiB is read into memory when it is first asked for, and a
 * word says that its CRC was right.  Files are read and not mapped, so that one that is cut off
 * under a running program is an error and never a signal.  What is stored in a segment is
 * range-checked at every use, because a right CRC says that the bytes are those that were written,
 * not that a friend wrote them. */
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "index/layout.h"

static int block_read(const stk_index *ix, uint64_t b, stk_error *err)
{
    uint64_t at = b * IDX_BLOCK, left = ix->segments_len - at,
             len = left < IDX_BLOCK ? left : IDX_BLOCK;

    if (ix->own_segments)
        STK_TRY(idx_read(ix, ix->own_segments + at, len, ix->segments_at + at, err));
    if (stk_crc32c(0, ix->segments + at, len) != idx_u32(ix->blocks, b))
        return idx_damaged(ix, err, "checksum of a block");
    return 0;
}

/* One thread reads a block, others that want it wait.  What a thread was reading when its process
 * forked is read again in the child, which has no such thread. */
static int block_check(const stk_index *ix, uint64_t b, stk_error *err)
{
    static const struct timespec pause = { 0, 20000 };
    uint32_t mine = IDX_READING + (uint32_t)getpid(),
             state = atomic_load_explicit(&ix->seen[b], memory_order_acquire);
    int rc;

    for (;;) {
        if (state == IDX_GOOD)
            return 0;
        if (state == mine) {
            nanosleep(&pause, NULL);
            state = atomic_load_explicit(&ix->seen[b], memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(
                       &ix->seen[b], &state, mine, memory_order_acquire, memory_order_acquire)) {
            break;
        }
    }
    rc = block_read(ix, b, err);
    atomic_store_explicit(&ix->seen[b], rc < 0 ? IDX_UNSEEN : IDX_GOOD, memory_order_release);
    return rc;
}

int idx_check_blocks(const stk_index *ix, uint64_t offset, uint64_t len, stk_error *err)
{
    if (!len)
        return 0;
    for (uint64_t b = offset / IDX_BLOCK; b <= (offset + len - 1) / IDX_BLOCK; b++)
        if (atomic_load_explicit(&ix->seen[b], memory_order_acquire) != IDX_GOOD)
            STK_TRY(block_check(ix, b, err));
    return 0;
}

int stk_index_check_all(const stk_index *ix, stk_error *err)
{
    return idx_check(ix, 0, ix->segments_len, err);
}

uint64_t stk_index_samples(const stk_index *ix)
{
    return ix->samples;
}

uint64_t stk_index_shards(const stk_index *ix)
{
    return ix->n_shards;
}

uint64_t stk_index_bytes(const stk_index *ix)
{
    return ix->len;
}

const char *stk_index_format(const stk_index *ix)
{
    return ix->format;
}

static void record(const stk_index *ix, uint64_t shard, idx_shard *r)
{
    memcpy(r, ix->shards + shard * sizeof *r, sizeof *r);
}

int stk_index_shard(const stk_index *ix, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    idx_shard r;

    if (shard >= ix->n_shards)
        return stk_fail(err, STK_EINVAL, "shard %" PRIu64 " of %" PRIu64, shard, ix->n_shards);
    record(ix, shard, &r);
    out->name = ix->strings + r.name;
    out->size = r.size;
    out->mtime_ns = r.mtime_ns;
    out->etag = ix->strings + r.etag;
    out->first = idx_u64(ix->firsts, shard);
    out->samples = idx_u64(ix->firsts, shard + 1) - out->first;
    out->print = r.print;
    return 0;
}

uint32_t stk_index_names(const stk_index *ix)
{
    return ix->n_names;
}

const char *stk_index_name(const stk_index *ix, uint32_t id)
{
    return id < ix->n_names ? ix->strings + idx_u32(ix->names, id) : NULL;
}

uint32_t stk_index_schemas(const stk_index *ix)
{
    return ix->n_schemas;
}

int stk_index_schema_find(const stk_index *ix, uint32_t schema, const char *name)
{
    uint32_t start, end;

    if (schema >= ix->n_schemas)
        return -1;
    start = idx_u32(ix->starts, schema);
    end = idx_u32(ix->starts, schema + 1);
    for (uint32_t i = start; i < end; i++)
        if (!strcmp(stk_index_name(ix, idx_u32(ix->ids, i)), name))
            return (int)(i - start);
    return -1;
}

const char *stk_index_schema_name(const stk_index *ix, uint32_t schema, uint32_t k)
{
    uint32_t start;

    if (schema >= ix->n_schemas)
        return NULL;
    start = idx_u32(ix->starts, schema);
    return k < idx_u32(ix->starts, schema + 1) - start
               ? stk_index_name(ix, idx_u32(ix->ids, (uint64_t)start + k))
               : NULL;
}

/* The shard with firsts[s] <= id < firsts[s + 1]; id < samples.  Shards are of like size as a
 * rule, so the search widens from where the sample would be if they were. */
static uint64_t shard_of(const stk_index *ix, uint64_t id)
{
    uint64_t lo = (uint64_t)((double)id * ix->guess), hi, step = 1;

    if (lo >= ix->n_shards)
        lo = ix->n_shards - 1;
    while (idx_u64(ix->firsts, lo) > id) {
        lo = lo > step ? lo - step : 0;
        step *= 2;
    }
    for (step = 1, hi = lo + 1; hi < ix->n_shards && idx_u64(ix->firsts, hi) <= id; step *= 2) {
        lo = hi;
        hi = step < ix->n_shards - hi ? hi + step : ix->n_shards;
    }
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (idx_u64(ix->firsts, mid) <= id)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Where the parts of a segment begin, from the start of the segments. */
static inline uint64_t fields_at(const idx_shard *r, uint64_t samples)
{
    return r->segment + (samples + 1) * sizeof(idx_sample);
}

static inline uint64_t keys_at(const idx_shard *r, uint64_t samples)
{
    return fields_at(r, samples) + (uint64_t)r->n_fields * sizeof(idx_field) +
           (uint64_t)r->n_wide * sizeof(idx_wide);
}

int stk_index_entry(const stk_index *ix, uint64_t id, stk_entry *out, stk_error *err)
{
    uint64_t shard, first, n, row, at;
    idx_sample s, next;
    idx_shard r;
    uint32_t local;

    if (id >= ix->samples)
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64, id, ix->samples);
    shard = shard_of(ix, id);
    record(ix, shard, &r);
    first = idx_u64(ix->firsts, shard);
    n = idx_u64(ix->firsts, shard + 1) - first;
    row = id - first;
    at = r.segment + row * sizeof s;
    STK_TRY(idx_check(ix, at, 2 * sizeof s, err));
    memcpy(&s, ix->segments + at, sizeof s);
    memcpy(&next, ix->segments + at + sizeof s, sizeof next);
    local = (uint32_t)(s.place & 0xFFFF);
    if (local >= r.n_map || s.field > next.field || next.field > r.n_fields || s.key > next.key ||
        next.key > r.key_bytes)
        return idx_damaged(ix, err, "a sample's entry");
    out->shard = shard;
    out->row = row;
    out->offset = s.place >> 16;
    out->schema = idx_u16(ix->maps, (uint64_t)r.map + local);
    out->n_fields = next.field - s.field;
    if (out->n_fields != idx_u32(ix->starts, out->schema + 1) - idx_u32(ix->starts, out->schema))
        return idx_damaged(ix, err, "a sample's fields");
    out->fields = fields_at(&r, n) + (uint64_t)s.field * sizeof(idx_field);
    at = keys_at(&r, n) + s.key;
    out->key.data = ix->segments + at;
    out->key.len = next.key - s.key;
    return idx_check(ix, at, out->key.len, err);
}

int stk_index_keys_ascii(const stk_index *ix, uint64_t shard, int *out, stk_error *err)
{
    const uint8_t *p;
    uint64_t high = 0, at;
    idx_shard r;
    uint32_t i = 0;

    if (shard >= ix->n_shards)
        return stk_fail(err, STK_EINVAL, "shard %" PRIu64 " of %" PRIu64, shard, ix->n_shards);
    record(ix, shard, &r);
    at = keys_at(&r, idx_u64(ix->firsts, shard + 1) - idx_u64(ix->firsts, shard));
    if (r.key_bytes)
        STK_TRY(idx_check(ix, at, r.key_bytes, err));
    p = ix->segments + at;
    for (; i + 8 <= r.key_bytes; i += 8)
        high |= idx_u64(p + i, 0);
    for (; i < r.key_bytes; i++)
        high |= p[i];
    *out = !(high & 0x8080808080808080u);
    return 0;
}

static int wide_field(const stk_index *ix, const idx_shard *r, uint64_t samples, uint32_t k,
                      idx_wide *out, stk_error *err)
{
    uint64_t at = fields_at(r, samples) + (uint64_t)r->n_fields * sizeof(idx_field) +
                  (uint64_t)k * sizeof *out;

    if (k >= r->n_wide)
        return idx_damaged(ix, err, "a wide field");
    STK_TRY(idx_check(ix, at, sizeof *out, err));
    memcpy(out, ix->segments + at, sizeof *out);
    if (out->offset > UINT64_MAX - out->size)
        return idx_damaged(ix, err, "a wide field");
    return 0;
}

int stk_index_field(const stk_index *ix, const stk_entry *e, uint32_t k, stk_field *out,
                    stk_error *err)
{
    uint64_t n, at = e->fields + (uint64_t)k * sizeof(idx_field);
    idx_field f;
    idx_wide w;
    idx_shard r;

    if (e->shard >= ix->n_shards || e->schema >= ix->n_schemas || k >= e->n_fields)
        return stk_fail(err, STK_EINVAL, "field %u of %u", k, e->n_fields);
    STK_TRY(idx_check(ix, at, sizeof f, err));
    memcpy(&f, ix->segments + at, sizeof f);
    out->name = stk_index_name(ix, idx_u32(ix->ids, (uint64_t)idx_u32(ix->starts, e->schema) + k));
    out->name_len = strlen(out->name);
    if (f.rel != IDX_WIDE) {
        out->offset = e->offset + f.rel;
        out->size = f.size;
        return 0;
    }
    record(ix, e->shard, &r);
    n = idx_u64(ix->firsts, e->shard + 1) - idx_u64(ix->firsts, e->shard);
    STK_TRY(wide_field(ix, &r, n, f.size, &w, err));
    out->offset = w.offset;
    out->size = w.size;
    return 0;
}

void stk_index_prefetch(const stk_index *ix, uint64_t id)
{
    uint64_t shard, first, n, row;
    double part;
    idx_shard r;

    if (id >= ix->samples)
        return;
    shard = shard_of(ix, id);
    record(ix, shard, &r);
    first = idx_u64(ix->firsts, shard);
    n = idx_u64(ix->firsts, shard + 1) - first;
    row = id - first;
    __builtin_prefetch(ix->segments + r.segment + row * sizeof(idx_sample));
    /* Fields by proportion: exact when all samples of the shard are alike.  Keys are not read. */
    part = (double)row / (double)n;
    __builtin_prefetch(ix->segments + fields_at(&r, n) +
                       (uint64_t)(part * r.n_fields) * sizeof(idx_field));
}
