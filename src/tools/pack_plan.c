/* SPDX-License-Identifier: Apache-2.0 */
/* pack_plan.c - which samples a shard gets: it follows from the index and the options alone, so
 * that the shards are the same for any number of workers, and a run that was stopped can go on.
 * The same walk over the index gives the fingerprint by which a target is known to have this
 * content. */
#include <string.h>

#include "base/hash.h"
#include "base/jobs.h"
#include "base/registry.h"
#include "source/pair_folders.h"
#include "tools/pack_fields.h"

#define MAX_SHARDS (1u << 24)
#define WEIGHED_ROWS 64u
#define REMOTE_LOOKS 16u /* requests in flight that ask whether a source changed */
#define PACK_VERSION 1u  /* in the fingerprint: change it when the bytes that are written change */

static int plan_add(stk_pack_run *p, uint64_t position, stk_error *err)
{
    if (p->n + 1 >= p->cap) {
        uint64_t cap = p->cap ? p->cap * 2 : 64;
        void *more = stk_grow(p->first, p->cap * sizeof *p->first, cap * sizeof *p->first);

        if (!more)
            return stk_fail_nomem(err, cap * sizeof *p->first);
        p->first = more;
        p->cap = cap;
    }
    if (p->n >= MAX_SHARDS)
        return stk_fail(err, STK_ELIMIT, "that makes more than %u shards: give them more samples",
                        MAX_SHARDS);
    p->first[p->n++] = position;
    return 0;
}

/* A table in memory has no file, so neither a size nor a time. */
static int in_memory(const stk_shard_info *s)
{
    return !s->size && !s->mtime_ns && s->samples;
}

static int read_sample(const stk_pack_run *p, uint64_t id, uint64_t *bytes, uint64_t *hash,
                       stk_error *err)
{
    stk_sample *s = NULL;

    STK_TRY(stk_dataset_read(p->ds, id, &s, err));
    for (uint32_t k = 0; k < stk_sample_fields(s); k++) {
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, k, &data, &len);

        *bytes += len;
        *hash = stk_hash64(*hash, name, strlen(name));
        *hash = data ? stk_hash64(*hash, data, len) : stk_mix64(*hash);
    }
    stk_sample_close(&s);
    return 0;
}

/* The size of a row in memory, about: the mean of some. */
static int weigh_memory(stk_pack_run *p, const stk_shard_info *s, stk_error *err)
{
    uint64_t n = s->samples < WEIGHED_ROWS ? s->samples : WEIGHED_ROWS, bytes = 0, unused = 0;

    for (uint64_t i = 0; i < n; i++)
        STK_TRY(read_sample(p, s->first + s->samples / n * i, &bytes, &unused, err));
    p->row_bytes = bytes / n + 1;
    return 0;
}

static int weigh_row(stk_pack_run *p, const stk_entry *e, uint64_t *bytes, stk_error *err)
{
    stk_shard_info s;

    STK_TRY(p->ds->ops->shard(p->ds, e->shard, &s, err));
    if (in_memory(&s) && !p->row_bytes)
        STK_TRY(weigh_memory(p, &s, err));
    *bytes = (s.size && s.samples ? s.size / s.samples : p->row_bytes) +
             e->n_fields * stk_tar_member_bytes(24, 256);
    return 0;
}

/* Does the data name files (a manifest, annotations, folders that are paired), and not as a folder
 * of pictures does, whose shards say when it changes? */
static uint64_t opens_files(const stk_pack_run *p)
{
    return stk_pack_file_field(p) && !stk_pack_is_folder(p);
}

/* The file that a field names: f->size becomes its own, and its time counts.  Where chains make the
 * samples, one that is missing is a bad sample and no error here. */
static int weigh_file(stk_pack_run *p, const stk_entry *e, stk_field *f, stk_error *err)
{
    const stk_dataset *d = p->ds;
    int named = stk_pack_keys_files(p) && !strcmp(f->name, "path"), rc;
    stk_place place = { 0 };
    stk_file_info info = { 0 };
    stk_file *file = NULL;

    STK_TRY(d->ops->locate(d, e, f, named, &place, err));
    if (!place.name.data)
        return 0;
    rc = stk_named_open(&(stk_named){ d, e->shard, NULL }, &place, &file, err);
    if (rc == 0)
        rc = stk_file_stat(file, &info, err);
    stk_file_close(&file);
    if (rc < 0)
        return p->o.n_fields ? 0 : rc;
    f->size = place.len;
    p->fingerprint = stk_hash64(p->fingerprint, &info.mtime_ns, sizeof info.mtime_ns);
    return 0;
}

/* What sample `id` takes in a tar, and its part of the fingerprint. */
static int weigh(stk_pack_run *p, uint64_t id, uint64_t *bytes, stk_error *err)
{
    const stk_dataset *ds = p->ds;
    uint64_t sizes[2] = { 0 };
    stk_entry e;
    stk_field f;

    STK_TRY(ds->ops->entry(ds, id, &e, err));
    /* rows have no keys, and shards may have the same keys: which ones are taken counts */
    if (p->id)
        p->fingerprint = stk_hash64(p->fingerprint, &id, sizeof id);
    if (p->name) /* a row's size is not known before it is read: the file's mean */
        return weigh_row(p, &e, bytes, err);
    *bytes = 0;
    p->fingerprint = stk_hash64(p->fingerprint, e.key.data, e.key.len);
    for (uint32_t k = 0; k < e.n_fields; k++) {
        STK_TRY(ds->ops->field(ds, &e, k, &f, err));
        if (opens_files(p))
            STK_TRY(weigh_file(p, &e, &f, err));
        *bytes += stk_tar_member_bytes(stk_key_shown(e.key).len + 1 + f.name_len, f.size);
        sizes[0] = stk_hash64(f.size, f.name, f.name_len);
        sizes[1] = f.offset;
        p->fingerprint = stk_hash64(p->fingerprint, sizes, sizeof sizes);
    }
    return 0;
}

/* The versions of ops that the chain may name, their authors' own: another version gives other
 * samples.  What ships has version 0. */
static uint64_t versions(const stk_pack_run *p, const char *chain, uint64_t hash)
{
    const stk_op *op;

    for (size_t i = 0; (op = stk_registry_get(p->o.registry, STK_PLUGIN_OP, i)); i++) {
        if (op->version && strstr(chain, op->name)) {
            hash = stk_hash64(hash, op->name, strlen(op->name));
            hash = stk_hash64(hash, &op->version, sizeof op->version);
        }
    }
    return hash;
}

/* Chains are made with the seed too: their draws depend on it.  A pack that copies keeps the
 * fingerprint that it had before there were chains. */
static void plan_fields(stk_pack_run *p, const stk_pack_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const stk_pack_field *x = &f->field[i];
        const char *chain = x->chain ? x->chain : "",
                   *encoder = x->chain ? x->encoding.encoder->name : "";
        uint64_t how[] = { p->o.seed, (uint64_t)x->encoding.quality,
                           (uint64_t)x->encoding.lossless };

        p->fingerprint = stk_hash64(p->fingerprint, x->name, strlen(x->name));
        p->fingerprint = stk_hash64(p->fingerprint, chain, strlen(chain));
        p->fingerprint = versions(p, chain, p->fingerprint);
        p->fingerprint = stk_hash64(p->fingerprint, encoder, strlen(encoder));
        p->fingerprint = stk_hash64(p->fingerprint, how, sizeof how);
    }
}

/* Of a table in memory its content, for there is nothing else to know it by; `select` may be few of
 * very many rows. */
static int memory_print(stk_pack_run *p, const stk_shard_info *s, uint64_t *hash, stk_error *err)
{
    uint64_t n = p->o.select ? p->o.n_select : s->samples, unused = 0;

    for (uint64_t i = 0; !p->memory_known && i < n; i++)
        STK_TRY(read_sample(p, p->o.select ? p->o.select[i] : s->first + i, &unused,
                            &p->memory_print, err));
    p->memory_known = 1;
    *hash = stk_hash64(*hash, &p->memory_print, sizeof p->memory_print);
    return 0;
}

static int other_file(const stk_shard_info *was, const stk_file_info *now)
{
    int tags = was->etag && was->etag[0] && now->etag[0];

    return now->size != was->size || (tags && strcmp(now->etag, was->etag) != 0);
}

/* Is remote shard i still what was indexed?  Where a target is complete, nothing would be read of
 * it, and old samples would be taken for those of a source that changed. */
static int same_remote(void *cookie, uint64_t i, stk_error *err)
{
    const stk_dataset *ds = cookie;
    stk_open_info ask = {
        .url = ds->ops->shard_name(ds, i), .size = UINT64_MAX, .store = ds->store, .uncached = 1
    };
    stk_shard_info was;
    stk_file_info now;
    stk_file *f = NULL;
    int rc;

    if (!ask.url || !stk_is_address(ask.url) || stk_is_many(ask.url)) /* seen to when opened */
        return 0;
    STK_TRY(ds->ops->shard(ds, i, &was, err));
    STK_TRY(stk_url_open(&ask, &f, err));
    rc = stk_file_stat(f, &now, err);
    if (rc == 0 && other_file(&was, &now))
        rc = stk_fail(err, STK_ESTALE,
                      "changed since it was indexed; run: stoker index --force ...");
    if (rc < 0)
        stk_error_at(err, ask.url, STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_file_close(&f);
    return rc;
}

int stk_pack_source_same(const stk_dataset *ds, stk_error *err)
{
    return stk_jobs_run(REMOTE_LOOKS, stk_dataset_shards(ds), same_remote, (void *)ds, err);
}

int stk_pack_source_print(stk_pack_run *p, uint64_t *hash, stk_error *err)
{
    for (uint64_t i = 0; i < stk_dataset_shards(p->ds); i++) {
        stk_shard_info s;
        uint64_t what[3];

        STK_TRY(p->ds->ops->shard(p->ds, i, &s, err));
        what[0] = s.size;
        what[1] = (uint64_t)s.mtime_ns;
        what[2] = s.print;
        *hash = stk_hash64(*hash, what, sizeof what);
        *hash = stk_hash64(*hash, s.name, strlen(s.name));
        if (in_memory(&s))
            STK_TRY(memory_print(p, &s, hash, err));
    }
    return 0;
}

static int plan_source(stk_pack_run *p, stk_error *err)
{
    uint64_t head[] = { PACK_VERSION + stk_pack_is_folder(p) + 2u * opens_files(p),
                        p->o.samples,
                        p->o.bytes,
                        p->o.shuffle == STK_YES,
                        p->o.seed,
                        (uint64_t)p->o.mtime,
                        p->count };

    p->fingerprint = stk_hash64(0, head, sizeof head);
    if (p->o.arrays == STK_YES)
        p->fingerprint = stk_hash64(p->fingerprint, "arrays", 6);
    if (p->pattern.squeeze)
        p->fingerprint = stk_hash64(p->fingerprint, p->pattern.squeeze, strlen(p->pattern.squeeze));
    return stk_pack_source_print(p, &p->fingerprint, err);
}

/* Names of two lengths would not sort, and no brace pattern names them all. */
static int check_width(const stk_pack_run *p, stk_error *err)
{
    int digits = 1;

    for (uint64_t n = p->n ? p->n - 1 : 0; n >= 10; n /= 10)
        digits++;
    if (p->pattern.width < 2 || digits <= p->pattern.width)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%" PRIu64 " shards need %d digits in their name: write %%0%dd", p->n, digits,
                    digits);
}

/* The bytes of every sample that takes part, in the order of the source: a walk over the index in
 * the order of the plan would wait for memory at each sample. */
static int weigh_all(stk_pack_run *p, uint64_t *bytes, stk_error *err)
{
    for (uint64_t i = 0; i < p->count; i++) {
        STK_TRY(weigh(p, p->id ? p->id[i] : i, &bytes[i], err));
        p->total += bytes[i];
    }
    return 0;
}

static int cut(stk_pack_run *p, const uint64_t *bytes_of, stk_error *err)
{
    uint64_t in_shard = 0, bytes = 0;

    for (uint64_t i = 0; i < p->count; i++) {
        uint64_t size = p->o.bytes
                            ? bytes_of[p->o.shuffle == STK_YES ? stk_perm_at(&p->perm, i) : i]
                            : 0;

        if (!i || (p->o.samples && in_shard >= p->o.samples) ||
            (p->o.bytes && bytes + size > p->o.bytes)) {
            STK_TRY(plan_add(p, i, err));
            in_shard = bytes = 0;
        }
        in_shard++;
        bytes += size;
    }
    STK_TRY(plan_add(p, p->count, err));
    p->n--; /* the last one is the end */
    return 0;
}

int stk_pack_plan_make(stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    uint64_t *bytes = stk_alloc((p->count + 1) * sizeof *bytes);
    int rc = bytes ? plan_source(p, err) : stk_fail_nomem(err, p->count * sizeof *bytes);

    stk_perm_init(&p->perm, p->count, p->o.seed, 0);
    plan_fields(p, f);
    if (rc == 0)
        rc = weigh_all(p, bytes, err);
    if (rc == 0)
        rc = cut(p, bytes, err);
    stk_free(bytes);
    STK_TRY(rc);
    STK_TRY(check_width(p, err));
    p->keep = stk_zalloc(p->n + 1, 1);
    return p->keep ? 0 : stk_fail_nomem(err, p->n);
}
