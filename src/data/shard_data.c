/* SPDX-License-Identifier: Apache-2.0 */
/* shard_data.c - shards with an index, as a loader reads them.
 *
 * The index says what a sample is and where its fields are, the format what a range of a shard
 * means, and shards.c has the open files. */
#include "data/shard_data.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/numeral.h"

#define KEYS 1024 /* looked at for a fingerprint, spread evenly */

static const stk_shard_data *of(const stk_dataset *d)
{
    return (const stk_shard_data *)d;
}

/* ---- what there is ---- */

static uint64_t data_len(const stk_dataset *d)
{
    return stk_index_samples(of(d)->index);
}

static const char *data_kind(const stk_dataset *d)
{
    return of(d)->format->name;
}

static uint64_t data_shards(const stk_dataset *d)
{
    return stk_index_shards(of(d)->index);
}

static const char *data_shard_name(const stk_dataset *d, uint64_t shard)
{
    return stk_shards_name(of(d)->shards, shard);
}

static int data_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    return stk_index_shard(of(d)->index, shard, out, err);
}

static int data_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    const stk_gather *g = field >= STK_GATHER_FIRST ? stk_gather_number(&of(d)->gathers, field)
                                                    : NULL;

    *out = (stk_field_type){ .name = stk_index_name(of(d)->index, field) };
    if (g)
        stk_gather_type(g, out);
    return out->name != NULL;
}

/* Of a fingerprint: names relative to the data's folder, sizes, counts and keys, and the content of
 * a few samples that was looked at when the index was built; never absolute paths, times or
 * buckets, so that a copy elsewhere has the same.  Reads no shard, and of the index its tables and
 * KEYS samples. */
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

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *p, stk_error *err)
{
    STK_TRY(add_shards(of(d)->index, p, err));
    return add_keys(of(d)->index, p, err);
}

/* ---- a sample ---- */

static uint32_t data_schemas(const stk_dataset *d)
{
    return stk_index_schemas(of(d)->index);
}

static int data_find(const stk_dataset *d, uint32_t schema, const char *name)
{
    int field = stk_index_schema_find(of(d)->index, schema, name);
    const stk_gather *g = field < 0 ? stk_gather_find(&of(d)->gathers, name) : NULL;

    return g ? (int)g->number : field;
}

static const char *data_field_name(const stk_dataset *d, uint32_t schema, uint32_t k)
{
    return stk_index_schema_name(of(d)->index, schema, k);
}

static void data_prefetch(const stk_dataset *d, uint64_t sample)
{
    stk_index_prefetch(of(d)->index, sample);
}

static int data_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    return stk_index_entry(of(d)->index, sample, out, err);
}

static int data_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                      stk_error *err)
{
    const stk_gather *g = number >= STK_GATHER_FIRST ? stk_gather_number(&of(d)->gathers, number)
                                                     : NULL;

    if (!g)
        return stk_index_field(of(d)->index, e, number, out, err);
    *out = (stk_field){ g->name, strlen(g->name), e->offset, 0 };
    return 0;
}

/* ---- its bytes ---- */

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_format *format = of(d)->format;
    const stk_gather *g = stk_shard_gather_of(of(d), f);
    stk_entry with = *e;

    if (g)
        return stk_shard_gather_locate(of(d), g, e, out, err);
    with.state = of(d)->state;
    STK_TRY((named ? format->find : format->locate)(&with, f, out, err));
    if (!format->unpack)
        out->unpacked = 0;
    if (of(d)->encoding)
        out->unpacked *= STK_RECODED_MAX;
    return 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    size_t room = job->len;

    if (stk_shard_gathered(job->place))
        return stk_shard_gather_unpack(of(d), job, err);
    STK_TRY(of(d)->format->unpack(job->raw, job->dst, &job->len, err));
    return of(d)->encoding ? stk_recode(of(d)->encoding, job->dst, &job->len, room, err) : 0;
}

static int data_pick(const stk_dataset *d, const stk_entry *e, const stk_field *f,
                     const stk_place *p, stk_bytes *bytes, stk_error *err)
{
    stk_entry with = *e;

    (void)p;
    with.state = of(d)->state;
    return of(d)->format->pick(*bytes, &with, f, bytes, err);
}

static stk_bytes data_hint(const stk_dataset *d, const stk_seek_field *at, stk_seek_room *room)
{
    return stk_seekfile_get(of(d)->seek, at, room);
}

/* ---- columns ---- */

int stk_shards_have_classes(const stk_index *ix, const stk_format *format)
{
    for (uint32_t i = 0; format->class_of_shard && i < stk_index_names(ix); i++)
        if (!strcmp(stk_index_name(ix, i), "cls"))
            return 1;
    return 0;
}

static const char *data_column(const stk_dataset *d, uint32_t i, stk_chunk_type *type)
{
    const stk_index *ix = of(d)->index;

    if (stk_shards_have_classes(ix, of(d)->format) && i-- == 0) {
        *type = STK_CHUNK_I64;
        return "cls";
    }
    for (uint32_t c = 0; c < stk_index_columns(ix); c++) {
        if (!stk_index_column_known(ix, c) || i--)
            continue;
        *type = stk_index_column_type(ix, c);
        return stk_index_column(ix, c);
    }
    return NULL;
}

static int class_chunk(const stk_shard_data *x, uint64_t shard, stk_chunk *out, stk_error *err)
{
    stk_field f = { "cls", 3, 0, 0 };
    stk_entry e = { .shard = shard, .state = x->state };
    stk_place p = { 0 };
    stk_shard_info s;
    stk_entry head;
    int64_t v = 0;

    STK_TRY(stk_index_shard(x->index, shard, &s, err));
    *out = (stk_chunk){ .rec = { .type = STK_CHUNK_NULL }, .rows = s.samples };
    if (!s.samples)
        return 0;
    STK_TRY(stk_index_entry(x->index, s.first, &head, err));
    if (stk_index_schema_find(x->index, head.schema, "cls") < 0)
        return 0; /* a flat folder */
    STK_TRY(x->format->locate(&e, &f, &p, err));
    if (stk_number_i64(p.here, &v) == 1)
        *out = stk_chunk_constant(s.samples, v);
    return 0;
}

static int data_chunk(const stk_dataset *d, const char *name, uint64_t shard, stk_chunk *out,
                      stk_error *err)
{
    const stk_shard_data *s = of(d);
    int c = stk_index_column_find(s->index, name);

    if (!strcmp(name, "cls") && stk_shards_have_classes(s->index, s->format))
        return class_chunk(s, shard, out, err);
    if (c >= 0 && stk_index_column_known(s->index, (uint32_t)c))
        return stk_index_chunk(s->index, (uint32_t)c, shard, out, err);
    return stk_fail(err, STK_ENOTFOUND,
                    "the index has no column %.60s%s; run: stoker index --columns %.60s DATA (or "
                    "have it read now: read=True)",
                    name, c >= 0 ? " of all shards" : "", name);
}

static const char *data_class(const stk_dataset *d, uint32_t i)
{
    const stk_shard_data *s = of(d);

    return s->state && s->format->class_name ? s->format->class_name(s->state, i) : NULL;
}

/* ---- the table ---- */

static void data_close(stk_dataset *d)
{
    stk_shard_data *s = (stk_shard_data *)d;

    stk_shards_close(&s->shards);
    if (s->state)
        s->format->close(s->state);
    stk_seekfile_close(&s->seek);
    stk_index_close(&s->index);
    stk_gathers_fini(&s->gathers);
    stk_free(s->encoding);
    stk_free(s);
}

static const stk_data_ops ops = {
    .name = "shards",
    .plural = "shards",
    .len = data_len,
    .kind = data_kind,
    .shards = data_shards,
    .shard_name = data_shard_name,
    .shard = data_shard,
    .type = data_type,
    .gather = stk_shard_gather,
    .fingerprint = data_fingerprint,
    .schemas = data_schemas,
    .find = data_find,
    .field_name = data_field_name,
    .prefetch = data_prefetch,
    .entry = data_entry,
    .field = data_field,
    .locate = data_locate,
    .acquire = stk_shard_data_acquire,
    .release = stk_shard_data_release,
    .trust.unchanged = stk_shard_data_unchanged,
    .unpack = data_unpack,
    .pick = data_pick,
    .hint = data_hint,
    .columns.column = data_column,
    .columns.chunk = data_chunk,
    .class_name = data_class,
    .close = data_close,
};

void stk_shard_data_init(stk_shard_data *s, const stk_format *format)
{
    uint32_t can = STK_DATA_INDEXED | STK_DATA_KEYS;

    if (!format->locate)
        can |= STK_DATA_RANGES;
    if (format->find)
        can |= STK_DATA_NAMES_FILES;
    if (format->unpack)
        can |= STK_DATA_BLOCKS;
    stk_dataset_init(&s->base, &ops, can);
    s->format = format;
}

int stk_shard_data_open(stk_shard_data *s, stk_format_data in, stk_error *err)
{
    stk_bytes *first = s->format->open ? stk_zalloc(in.n_shards + 1, sizeof *first) : NULL;
    int rc = first || !s->format->open ? 0 : stk_fail_nomem(err, in.n_shards * sizeof *first);
    stk_shard_info shard;
    stk_entry e;

    for (uint64_t i = 0; rc == 0 && first && i < in.n_shards; i++) {
        rc = stk_index_shard(s->index, i, &shard, err);
        if (rc == 0 && shard.samples && (rc = stk_index_entry(s->index, shard.first, &e, err)) == 0)
            first[i] = e.key;
    }
    in.first = first;
    if (rc == 0 && first)
        rc = s->format->open(&in, &s->state, err);
    stk_free(first);
    return rc;
}

void stk_shard_data_seek(stk_shard_data *s)
{
    s->base.can = s->seek ? s->base.can | STK_DATA_HINTS : s->base.can & ~(uint32_t)STK_DATA_HINTS;
}

static void path_beside(const char *index_path, const char *end, char *out, size_t size)
{
    size_t len = strlen(index_path);

    out[0] = 0;
    if (len > 4 && !strcmp(index_path + len - 4, ".idx"))
        snprintf(out, size, "%.*s%s", (int)(len - 4), index_path, end);
}

void stk_seek_path(const char *index_path, char *out, size_t size)
{
    path_beside(index_path, ".seek", out, size);
}

void stk_media_path(const char *index_path, char *out, size_t size)
{
    path_beside(index_path, ".media", out, size);
}
