/* SPDX-License-Identifier: Apache-2.0 */
/* stream_data.c - streams as a kind of data: a loader asks for samples by number, and acquire()
 * waits for them.
 *
 * To the reader of fetch/ each sample is a shard of its own, whose fields are in memory once it is
 * acquired.  The first numbers of shards are the real ones, for those who list them. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/opts.h"
#include "data/stream.h"
#include "store/store.h"

#define SAMPLES ((uint64_t)1 << 47) /* for the arithmetic of the order: it never ends */
#define LANES_MAX 256u
#define LANES 8u
#define WINDOW 1024u
#define WINDOW_MAX ((uint64_t)1 << 24)
#define BLOCK_MIN 256u
#define AHEAD 32u

static stk_stream *of(const stk_dataset *d)
{
    return (stk_stream *)(uintptr_t)d;
}

/* ---- what there is ---- */

static uint64_t data_len(const stk_dataset *d)
{
    (void)d;
    return SAMPLES;
}

static const char *data_kind(const stk_dataset *d)
{
    (void)d;
    return "stream";
}

static uint64_t data_shards(const stk_dataset *d)
{
    return of(d)->names.n;
}

static const char *data_shard_name(const stk_dataset *d, uint64_t shard)
{
    stk_stream *s = of(d);

    if (shard >= s->names.n && shard - s->names.n < SAMPLES)
        shard = stk_stream_shard(s, shard - s->names.n);
    return shard < s->names.n ? s->names.name[shard] : NULL;
}

static int data_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    const char *name = data_shard_name(d, shard);

    if (!name)
        return stk_fail(err, STK_EINVAL, "shard %" PRIu64 " of %zu", shard, of(d)->names.n);
    *out = (stk_shard_info){ .name = name, .etag = "" };
    return 0;
}

static int data_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    *out = (stk_field_type){ 0 };
    if (field >= of(d)->fields.n)
        return 0;
    out->name = of(d)->fields.name[field];
    out->nullable = 1;
    return 1;
}

/* Sizes are not known before shards are read: names are what a state compares. */
static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_stream *s = of(d);

    (void)err;
    for (uint64_t i = 0; i < s->names.n; i++) {
        const char *base = strrchr(s->names.name[i], '/');

        base = base ? base + 1 : s->names.name[i];
        out->names = stk_hash64(out->names, base, strlen(base));
    }
    out->shards += s->names.n;
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
    const stk_stream *s = of(d);

    (void)schema;
    for (size_t i = 0; i < s->fields.n; i++)
        if (!strcmp(s->fields.name[i], name))
            return (int)i;
    return -1;
}

/* Number of a global sample among this rank's.  One of another rank's batch, which stands in for a
 * bad one, is the sample at its place in this rank's. */
static uint64_t number_of(const stk_stream *s, uint64_t sample)
{
    uint64_t all = (uint64_t)s->batch * s->world;

    return sample / all * s->batch + sample % all % s->batch;
}

static int data_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    const stk_stream *s = of(d);

    if (sample >= SAMPLES)
        return stk_fail(err, STK_EINVAL, "a stream has no sample %" PRIu64, sample);
    *out = (stk_entry){ .shard = s->names.n + number_of(s, sample),
                        .offset = STK_NO_OFFSET,
                        .n_fields = (uint32_t)s->fields.n,
                        .key = { (const uint8_t *)"", 0 } };
    return 0;
}

static int data_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                      stk_error *err)
{
    const stk_stream *s = of(d);

    (void)e;
    if (number >= s->fields.n)
        return stk_fail(err, STK_EINVAL, "field %u of %zu", number, s->fields.n);
    *out = (stk_field){ s->fields.name[number], strlen(s->fields.name[number]), number, 0 };
    return 0;
}

/* ---- its bytes ---- */

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    stk_stream *s = of(d);

    (void)named, (void)err;
    out->here = stk_stream_bytes(s, e->shard - s->names.n, (uint32_t)f->offset);
    out->absent = !out->here.data;
    return 0;
}

static int take(const stk_dataset *d, uint64_t shard, int poll, stk_file **out, stk_error *err)
{
    stk_stream *s = of(d);
    int rc;

    if (shard < s->names.n)
        return stk_fail(err, STK_ENOTSUP, "shards of a stream are read in order, by a loader");
    rc = stk_stream_acquire(s, shard - s->names.n, poll, err);
    if (rc == 0)
        *out = &stk_no_file;
    return rc;
}

static int data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    return take(d, shard, 0, out, err);
}

static int data_poll(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    return take(d, shard, 1, out, err);
}

static void data_release(const stk_dataset *d, uint64_t shard)
{
    stk_stream_release(of(d), shard - of(d)->names.n);
}

static void data_retry(const stk_dataset *d, uint64_t sample)
{
    stk_stream_retry(of(d), sample);
}

static const char *data_awaited(const stk_dataset *d, uint64_t shard)
{
    const stk_stream *s = of(d);

    if (shard >= s->names.n)
        shard = stk_stream_awaited(of(d), shard - s->names.n);
    return shard < s->names.n ? s->names.name[shard] : NULL;
}

void stk_stream_free(stk_stream *s)
{
    stk_names_fini(&s->fields);
    stk_names_fini(&s->names);
    stk_store_unref(&s->store);
    stk_free(s);
}

static void data_close(stk_dataset *d)
{
    stk_stream_close(of(d));
}

static const stk_data_ops stream_ops = {
    .name = "stream",
    .plural = "streams",
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
    .acquire = data_acquire,
    .wait.poll = data_poll,
    .release = data_release,
    .wait.retry = data_retry,
    .wait.awaited = data_awaited,
    .close = data_close,
};

/* ---- open ---- */

static int settle(stk_stream *s, const stk_stream_options *o, stk_error *err)
{
    uint64_t shards = s->names.n, lanes = o->streams              ? o->streams
                                          : o->shuffle == STK_YES ? LANES
                                                                  : 1;
    uint64_t ahead = o->ahead ? o->ahead : AHEAD;

    s->world = o->world ? o->world : 1;
    s->rank = o->rank;
    s->batch = o->batch ? o->batch : 1;
    s->seed = o->seed;
    s->shuffle = o->shuffle == STK_YES;
    s->window = !s->shuffle ? 1 : o->window ? o->window : WINDOW;
    if (s->rank >= s->world || lanes > LANES_MAX || s->window > WINDOW_MAX)
        return stk_fail(err, STK_EINVAL,
                        "rank %u of %u, %" PRIu64 " streams (at most %u), window %" PRIu64
                        " (at most 2^24)",
                        s->rank, s->world, lanes, LANES_MAX, s->window);
    if (shards < s->world)
        return stk_fail(
            err, STK_EINVAL,
            "%" PRIu64
            " shard%s for %u ranks: a stream gives each rank shards of its own; pack the data into "
            "at least %u, or index it (stoker index) and load it without stoker.stream()",
            shards, shards == 1 ? "" : "s", s->world, s->world);
    s->lanes = (uint32_t)(lanes < shards / s->world ? lanes : shards / s->world);
    s->block = (BLOCK_MIN + s->window - 1) / s->window * s->window;
    s->keep = o->replaces == STK_YES ? 2 * ((uint64_t)s->batch + STK_STREAM_NEAR) : 0;
    s->lag = ahead * s->batch + 2 * STK_STREAM_NEAR;
    atomic_init(&s->memory, UINT64_MAX);
    return 0;
}

static int open_stream(stk_stream *s, const char *const *urls, size_t n,
                       const stk_stream_options *o, stk_error *err)
{
    s->store = o->store ? stk_store_ref(o->store) : NULL;
    s->names.store = s->store;
    STK_TRY(stk_urls_expand(urls, n, &s->names, err));
    STK_TRY(settle(s, o, err));
    return stk_stream_look(s, err);
}

int stk_stream_open(stk_dataset **out, const char *const *urls, size_t n,
                    const stk_stream_options *opt, stk_error *err)
{
    stk_stream *s = STK_NEW(stk_stream);
    stk_stream_options o;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    stk_dataset_init(&s->base, &stream_ops, STK_DATA_STREAM);
    rc = open_stream(s, urls, n, &o, err);
    if (rc < 0) {
        data_close(&s->base);
        return rc;
    }
    s->base.store = o.store ? stk_store_ref(o.store) : NULL;
    *out = &s->base;
    return 0;
}

void stk_stream_limit(stk_dataset *ds, uint64_t bytes)
{
    if (ds->can & STK_DATA_STREAM)
        atomic_store_explicit(&of(ds)->memory, bytes, memory_order_relaxed);
}

uint32_t stk_stream_count(const stk_dataset *ds)
{
    return ds->can & STK_DATA_STREAM ? of(ds)->lanes : 0;
}

uint64_t stk_stream_window(const stk_dataset *ds)
{
    return ds->can & STK_DATA_STREAM ? of(ds)->window : 0;
}
