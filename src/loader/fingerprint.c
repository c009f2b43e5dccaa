/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c - what a state remembers of data and chains, so that it is not taken up with
 * others.
 *
 * Names relative to the data's folder, sizes, counts and keys, and the content of a few samples
 * that the index sampled when it was built; never absolute paths, times or buckets, so that a copy
 * elsewhere has the same.  Reads no shard, and of the index its tables and KEYS samples. */
#include "base/hash.h"
#include "data/data.h"
#include "pipe/engine.h"

#define KEYS 1024 /* looked at, spread evenly */
#define PARTS 16  /* files of an array that are looked into ... */
#define PLACES 8  /* ... each in so many rows ... */
#define LOOK 64   /* ... of which so many bytes */

static int add_shards(const stk_index *ix, stk_fingerprint *p, stk_error *err)
{
    for (uint64_t i = 0; i < stk_index_shards(ix); i++) {
        stk_shard_info s;

        STK_TRY(stk_index_shard(ix, i, &s, err));
        p->bytes += s.size;
        p->names = stk_hash64(p->names, s.name, strlen(s.name));
        p->content = stk_hash64(p->content, &s.size, sizeof s.size);
        p->content = stk_hash64(p->content, &s.samples, sizeof s.samples);
        p->content = stk_hash64(p->content, &s.print, sizeof s.print);
    }
    p->shards += stk_index_shards(ix);
    return 0;
}

static int add_keys(const stk_index *ix, stk_fingerprint *p, stk_error *err)
{
    uint64_t n = stk_index_samples(ix), look = n < KEYS ? n : KEYS;

    for (uint64_t i = 0; i < look; i++) {
        stk_bytes key;
        stk_entry e;

        STK_TRY(stk_index_entry(ix, (uint64_t)((unsigned __int128)i * n / look), &e, err));
        key = stk_key_shown(e.key);
        p->content = stk_hash64(p->content, key.data, key.len);
    }
    p->samples += n;
    return 0;
}

/* Files of arrays by their last name, size, type and what stands in a few places of them. */
static int add_part(const stk_array *a, uint32_t i, stk_fingerprint *p, stk_error *err)
{
    const stk_piece *part = &a->part[i];
    uint64_t rows = a->first[i + 1] - a->first[i];
    size_t len = a->row_bytes < LOOK ? a->row_bytes : LOOK;
    uint8_t bytes[LOOK];

    for (uint64_t k = 0; rows && k < PLACES; k++) {
        uint64_t row = (uint64_t)((unsigned __int128)(rows - 1) * k / (PLACES - 1));

        STK_TRY(stk_piece_read(part, row * a->pitch, bytes, len, err));
        p->content = stk_hash64(p->content, bytes, len);
    }
    return 0;
}

static int add_array(const stk_array *a, stk_fingerprint *p, stk_error *err)
{
    p->names = stk_hash64(p->names, a->name, strlen(a->name));
    p->content = stk_hash64(p->content + a->dtype, a->shape, a->ndim * sizeof *a->shape);
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const char *name = a->part[i].name, *base = name ? strrchr(name, '/') : NULL;
        uint64_t rows = a->first[i + 1] - a->first[i];

        base = base ? base + 1 : name ? name : "";
        p->names = stk_hash64(p->names, base, strlen(base));
        p->content = stk_hash64(p->content, &rows, sizeof rows);
        p->bytes += rows * a->row_bytes;
        if (i % (a->n_parts / PARTS + 1) == 0)
            STK_TRY(add_part(a, i, p, err));
    }
    return 0;
}

static int add_data(const stk_dataset *ds, stk_fingerprint *p, stk_error *err)
{
    if (ds->arrays) {
        for (uint32_t i = 0; i < ds->arrays->n; i++)
            STK_TRY(add_array(&ds->arrays->array[i], p, err));
        p->shards += ds->arrays->files;
        p->samples += ds->arrays->rows;
        return 0;
    }
    STK_TRY(add_shards(ds->index, p, err));
    return add_keys(ds->index, p, err);
}

int stk_dataset_print(const stk_dataset *ds, stk_fingerprint *out, stk_error *err)
{
    *out = (stk_fingerprint){ 0 };
    return add_data(ds, out, err);
}

int stk_engine_print(const stk_engine *e, stk_fingerprint *out, stk_error *err)
{
    *out = (stk_fingerprint){ 0 };
    for (uint32_t i = 0; i < e->plan->data.n; i++)
        STK_TRY(add_data(e->plan->data.set[i], out, err));
    out->taken = stk_sample_set_print(&e->schedule->set);
    return 0;
}
