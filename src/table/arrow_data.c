/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_data.c - Arrow tables as a loader reads them: a value is a piece of memory that is there already, but for those that
 * arrow_packed_data.c makes. */
#include "table/arrow_data.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

static const stk_arrow *of(const stk_dataset *d)
{
    return (const stk_arrow *)d;
}

/* ---- what there is ---- */

static uint64_t data_len(const stk_dataset *d)
{
    return of(d)->rows;
}

static const char *data_kind(const stk_dataset *d)
{
    (void)d;
    return "arrow";
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
    const stk_arrow *a = of(d);
    const stk_arrow_shard *s = &a->shard[shard];

    if (shard >= a->names.n)
        return stk_fail(err, STK_EINVAL, "file %" PRIu64 " of %zu", shard, a->names.n);
    *out = (stk_shard_info){ .name = a->names.name[shard],
                             .size = s->size,
                             .mtime_ns = s->mtime_ns,
                             .etag = "",
                             .first = s->first,
                             .samples = s->rows };
    return 0;
}

static int data_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    const stk_arrow *a = of(d);
    const stk_gather *g;
    const stk_arrow_leaf *l;

    *out = (stk_field_type){ 0 };
    if (field >= STK_GATHER_FIRST && (g = stk_gather_number(&a->gathers, field))) {
        stk_gather_type(g, out);
        return 1;
    }
    if (field >= a->schema->n)
        return 0;
    l = &a->schema->leaf[field];
    out->name = l->name;
    out->nullable = l->nullable;
    if (l->refused)
        return 1;
    out->dtype = l->dtype;
    out->ndim = l->list != 0;
    out->shape[0] = l->list ? l->fixed : 0;
    return 1;
}

static int data_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out, stk_error *err)
{
    return stk_gather_add(&((stk_arrow *)(uintptr_t)d)->gathers, d, ask, out, err);
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_arrow *a = of(d);

    (void)err;
    for (uint32_t i = 0; i < a->schema->n; i++)
        out->content = stk_hash64(out->content, a->schema->leaf[i].name, strlen(a->schema->leaf[i].name));
    for (uint64_t i = 0; i < a->names.n; i++) {
        const char *name = a->names.name[i], *base = strrchr(name, '/');
        uint64_t what[] = { a->shard[i].size, a->shard[i].rows };

        base = base ? base + 1 : name;
        out->names = stk_hash64(out->names, base, strlen(base));
        out->content = stk_hash64(out->content, what, sizeof what);
        out->bytes += a->shard[i].size;
    }
    out->shards += a->names.n;
    out->samples += a->rows;
    return 0;
}

/* ---- a sample ---- */

static uint32_t data_schemas(const stk_dataset *d)
{
    (void)d;
    return 1;
}

/* A name may leave out the member of a struct that holds the data, as in Hugging Face's {bytes, path}. */
static int data_find(const stk_dataset *d, uint32_t schema, const char *name)
{
    const stk_arrow *a = of(d);
    const stk_gather *g;
    size_t n = strlen(name);
    int inner = -1;

    (void)schema;
    for (uint32_t i = 0; i < a->schema->n; i++) {
        const char *have = a->schema->leaf[i].name;

        if (!strcmp(have, name))
            return (int)i;
        if (!strncmp(have, name, n) && !strcmp(have + n, ".bytes"))
            inner = (int)i;
    }
    if (inner < 0 && (g = stk_gather_find(&a->gathers, name)))
        inner = (int)g->number;
    return inner;
}

static int data_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    const stk_arrow *a = of(d);
    uint64_t lo = 0, hi = a->names.n;

    if (sample >= a->rows)
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64 " does not exist", sample, a->rows);
    while (hi - lo > 1) { /* first[lo] <= sample */
        uint64_t mid = lo + (hi - lo) / 2;

        if (a->shard[mid].first <= sample)
            lo = mid;
        else
            hi = mid;
    }
    *out = (stk_entry){ .shard = lo,
                        .row = sample - a->shard[lo].first,
                        .n_fields = a->schema->n_readable,
                        .key = { (const uint8_t *)"", 0 } };
    return 0;
}

static int data_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out, stk_error *err)
{
    const stk_arrow *a = of(d);
    const stk_gather *g;

    (void)e;
    if (number >= STK_GATHER_FIRST && (g = stk_gather_number(&a->gathers, number))) {
        *out = (stk_field){ g->name, strlen(g->name), number, 0 };
        return 0;
    }
    if (number >= a->schema->n)
        return stk_fail(err, STK_EINVAL, "column %u of %u", number, a->schema->n);
    *out = (stk_field){ a->schema->leaf[number].name, strlen(a->schema->leaf[number].name), number, 0 };
    return 0;
}

/* ---- its bytes ---- */

/* The batch that has this row, which the shard has. */
static const stk_arrow_batch *batch_of(const stk_arrow_shard *s, uint64_t row)
{
    uint64_t lo = 0, hi = s->n_batches;

    while (hi - lo > 1) { /* first[lo] <= row; of batches without rows the last one */
        uint64_t mid = lo + (hi - lo) / 2;

        if (s->batch[mid].first <= row)
            lo = mid;
        else
            hi = mid;
    }
    return &s->batch[lo];
}

/* Before each touch of the map: past the end of a file that was cut short there is a signal. */
static int still_whole(const stk_arrow *a, uint64_t shard, stk_error *err)
{
    const stk_arrow_shard *s = &a->shard[shard];
    struct stat st;

    if (!s->map || (fstat(s->fd, &st) == 0 && (uint64_t)st.st_size >= s->size))
        return 0;
    stk_fail(err, STK_ESTALE, "the file is shorter than when it was opened: open it again, and replace files instead of "
                              "writing into them");
    stk_error_at(err, a->names.name[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_ESTALE;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named, stk_place *out,
                       stk_error *err)
{
    const stk_arrow *a = of(d);
    const stk_arrow_shard *s = &a->shard[e->shard];
    const stk_arrow_batch *b = batch_of(s, e->row);
    uint32_t number = (uint32_t)f->offset;
    int rc;

    (void)named;
    STK_TRY(still_whole(a, e->shard, err));
    if (number >= STK_GATHER_FIRST || b->packed)
        return stk_arrow_made_place(a, e, number, b, out, err);
    rc = stk_arrow_value(b, &s->schema->leaf[number], e->row - b->first, &out->here, err);
    out->absent = rc == STK_ENOTFOUND;
    if (rc == 0 && s->schema->leaf[number].decimal)
        return stk_arrow_made_place(a, e, number, b, out, err);
    return out->absent ? 0 : rc;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    STK_TRY(still_whole(of(d), job->shard, err));
    return stk_arrow_make(of(d), job, err);
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f, const stk_place *at, stk_bytes *bytes,
                     stk_error *err)
{
    (void)f;
    return stk_arrow_pick(of(d), e, at, bytes, err);
}

/* Requests want an open file; of this one nothing is ever read. */
static const void *nothing_peek(stk_file *f, uint64_t offset, size_t len)
{
    (void)f, (void)offset;
    return len ? NULL : "";
}

static int nothing_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->got = 0;
    return 0;
}

static void nothing_close(stk_file *f)
{
    (void)f;
}

static const stk_source nothing = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof nothing,
                                    .name = "nothing",
                                    .help = "",
                                    .read = nothing_read,
                                    .peek = nothing_peek,
                                    .close = nothing_close };
static stk_file no_file = { &nothing };

static int data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    (void)d, (void)shard, (void)err;
    *out = &no_file;
    return 0;
}

static void data_release(const stk_dataset *d, uint64_t shard)
{
    (void)d, (void)shard;
}

static void data_close(stk_dataset *d)
{
    stk_arrow *a = (stk_arrow *)d;

    for (size_t i = 0; a->shard && i < a->names.n; i++) {
        stk_arrow_ipc_close(&a->shard[i].ipc);
        if (a->shard[i].map) {
            munmap(a->shard[i].map, (size_t)a->shard[i].size);
            close(a->shard[i].fd);
        }
    }
    stk_arrow_memory_close(&a->memory);
    stk_gathers_fini(&a->gathers);
    stk_free(a->shard);
    stk_names_fini(&a->names);
    stk_free(a);
}

const stk_data_ops stk_arrow_ops = {
    .name = "arrow",
    .plural = "Arrow tables",
    .len = data_len,
    .kind = data_kind,
    .shards = data_shards,
    .shard_name = data_shard_name,
    .shard = data_shard,
    .type = data_type,
    .gather = data_gather,
    .fingerprint = data_fingerprint,
    .schemas = data_schemas,
    .find = data_find,
    .entry = data_entry,
    .field = data_field,
    .locate = data_locate,
    .acquire = data_acquire,
    .release = data_release,
    .unpack = data_unpack,
    .pick = data_pick,
    .close = data_close,
};
