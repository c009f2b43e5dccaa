/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - writes an index as its shards come in, in any order; the tables follow at commit.
 *
 * A segment holds schema numbers of its own shard, so it is written once and never touched
 * again; which schema of the data set they mean is a table.  At commit the schemas are numbered
 * again by walking the shards in list order, so that names and schemas have the same numbers
 * however the threads ran.  Segments that did not come in list order are then written once more in
 * it: equal shards have an index of equal bytes, no thread waits for another, and none of them
 * stays in memory.  The file appears under its name only when it is whole and on disk;
 * until then it is a temporary one that close() removes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/lock.h"
#include "index/part.h"

typedef struct wshard {
    idx_shard rec;
    uint64_t samples;
    int done;
} wshard;

typedef struct wcolumn {
    char *name;
    idx_chunk *chunks; /* of all shards; zeros: not known */
} wcolumn;

struct stk_index_writer {
    stk_mutex lock;
    stk_atomic_file file;
    char *path; /* NULL: in memory, file.fd is a memfd */
    char format[32];
    uint64_t n_shards;
    wshard *shards;                   /* all below: lock */
    wcolumn columns[IDX_MAX_COLUMNS]; /* by name, so that threads don't decide their order */
    uint32_t n_columns;
    idx_dict dict; /* in order of arrival */
    uint16_t *maps;
    size_t n_maps, maps_cap;
    char *strings;
    size_t n_strings, strings_cap;
    uint32_t *crcs;
    size_t n_crcs, crcs_cap;
    uint32_t crc;      /* of the block that is being filled */
    uint64_t segments; /* bytes written after the head */
    uint32_t *ids;     /* scratch */
    size_t ids_cap;
    int committed;
    int failed; /* the code; what follows is told again to later callers */
    stk_error error;
};

static const char *shown(const stk_index_writer *w)
{
    return w->path ? w->path : "(memory)";
}

/* A file, or memory: only the former has a name to be renamed to. */
static int write_all(stk_index_writer *w, const void *data, size_t len, uint64_t offset,
                     stk_error *err)
{
    return stk_atomic_write(&w->file, data, len, offset, err);
}

/* Append to the segments, keeping the blocks' CRCs. */
static int append(stk_index_writer *w, const void *data, size_t len, stk_error *err)
{
    const uint8_t *p = data;

    STK_TRY(write_all(w, data, len, IDX_HEAD + w->segments, err));
    while (len) {
        size_t room = IDX_BLOCK - w->segments % IDX_BLOCK, n = len < room ? len : room;

        w->crc = stk_crc32c(w->crc, p, n);
        w->segments += n;
        p += n;
        len -= n;
        if (n < room)
            break;
        STK_TRY(idx_reserve((void **)&w->crcs, &w->crcs_cap, w->n_crcs + 1, sizeof *w->crcs, err));
        w->crcs[w->n_crcs++] = w->crc;
        w->crc = 0;
    }
    return 0;
}

static int memory_open(stk_index_writer *w, stk_error *err)
{
    w->file.path = stk_strdup("(memory)"); /* for messages */
    w->file.fd = memfd_create("stoker-index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (!w->file.path)
        return stk_fail_nomem(err, 16);
    return w->file.fd < 0
               ? stk_fail(err, STK_EIO, "cannot make an index in memory: %s", strerror(errno))
               : 0;
}

static int file_open(stk_index_writer *w, stk_error *err)
{
    return w->path ? stk_atomic_open(&w->file, w->path, err) : memory_open(w, err);
}

static void file_close(const stk_index_writer *w, stk_atomic_file *f)
{
    if (!w->path && f->fd >= 0)
        close(f->fd);
    stk_atomic_close(f);
}

static int writer_init(stk_index_writer *w, const char *path, stk_error *err)
{
    w->shards = stk_zalloc(w->n_shards, sizeof *w->shards);
    if (!w->shards)
        return stk_fail_nomem(err, w->n_shards * sizeof *w->shards);
    STK_TRY(idx_reserve((void **)&w->strings, &w->strings_cap, 1, 1, err));
    w->strings[w->n_strings++] = 0; /* "" is at 0 */
    w->path = path ? stk_strdup(path) : NULL;
    return path && !w->path ? stk_fail_nomem(err, strlen(path)) : file_open(w, err);
}

int stk_index_writer_open(stk_index_writer **out, const char *path, const char *format,
                          uint64_t shards, stk_error *err)
{
    stk_index_writer *w;
    int rc, sys;

    *out = NULL;
    if (strlen(format) > sizeof w->format)
        return stk_fail(err, STK_EINVAL, "the format's name %s is longer than 32 bytes", format);
    w = STK_NEW(stk_index_writer);
    if (!w)
        return stk_fail_nomem(err, sizeof *w);
    stk_mutex_init(&w->lock);
    w->file.fd = -1;
    w->n_shards = shards;
    memcpy(w->format, format, strlen(format));
    rc = writer_init(w, path, err);
    sys = w->file.sys;
    if (rc < 0)
        stk_index_writer_close(&w);
    *out = w;
    errno = sys;
    return rc;
}

static int put_string(stk_index_writer *w, const char *s, uint32_t *at, stk_error *err)
{
    size_t len = s ? strlen(s) : 0;

    *at = 0;
    if (!len)
        return 0;
    if (w->n_strings + len >= UINT32_MAX)
        return stk_fail(err, STK_ELIMIT, "the names of the shards take more than 4 GiB");
    STK_TRY(idx_reserve((void **)&w->strings, &w->strings_cap, w->n_strings + len + 1, 1, err));
    memcpy(w->strings + w->n_strings, s, len + 1);
    *at = (uint32_t)w->n_strings;
    w->n_strings += len + 1;
    return 0;
}

/* Everyone who hands in a shard after a failure hears of that failure. */
static int usable(const stk_index_writer *w, stk_error *err)
{
    if (w->failed && err)
        *err = w->error;
    if (w->failed)
        return w->failed;
    return w->committed ? stk_fail(err, STK_EINVAL, "index %s is committed already", shown(w)) : 0;
}

/* A part of a shard may be in the tables: the whole is void. */
static int note_failure(stk_index_writer *w, int rc, const stk_error *here, stk_error *err)
{
    if (rc >= 0)
        return rc;
    if (!w->failed) {
        w->failed = rc;
        w->error = *here;
    }
    if (err)
        *err = *here;
    return rc;
}

/* Claim the shard's record; what is known of it before its segment is written. */
static int begin_shard(stk_index_writer *w, uint64_t shard, const stk_shard_info *info, wshard *s,
                       stk_error *err)
{
    STK_TRY(usable(w, err));
    if (shard >= w->n_shards || w->shards[shard].done)
        return stk_fail(err, STK_EINVAL, "index %s: shard %" PRIu64 " of %" PRIu64 " is %s",
                        shown(w), shard, w->n_shards,
                        shard >= w->n_shards ? "not in the list" : "there already");
    memset(s, 0, sizeof *s);
    s->rec.size = info->size;
    s->rec.mtime_ns = info->mtime_ns;
    s->rec.print = info->print;
    s->rec.segment = w->segments;
    s->rec.map = (uint32_t)w->n_maps;
    STK_TRY(put_string(w, info->name, &s->rec.name, err));
    return put_string(w, info->etag, &s->rec.etag, err);
}

static int put_map(stk_index_writer *w, wshard *s, const uint32_t *ids, uint32_t n, stk_error *err)
{
    uint32_t schema;

    if (w->n_maps + 1 >= UINT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "the shards have more than 2^32 lists of field names in all");
    STK_TRY(idx_dict_schema(&w->dict, ids, n, &schema, err));
    STK_TRY(idx_reserve((void **)&w->maps, &w->maps_cap, w->n_maps + 1, sizeof *w->maps, err));
    w->maps[w->n_maps++] = (uint16_t)schema;
    s->rec.n_map++;
    return 0;
}

static int put_schemas(stk_index_writer *w, wshard *s, const idx_dict *d, stk_error *err)
{
    for (uint32_t i = 0; i < d->n_schemas; i++) {
        uint32_t n;
        const uint32_t *ids = idx_dict_ids(d, i, &n);

        STK_TRY(idx_reserve((void **)&w->ids, &w->ids_cap, n, sizeof *w->ids, err));
        for (uint32_t k = 0; k < n; k++) {
            const char *name = idx_dict_text(d, ids[k]);

            STK_TRY(idx_dict_name(&w->dict, name, strlen(name), &w->ids[k], err));
        }
        STK_TRY(put_map(w, s, w->ids, n, err));
    }
    return 0;
}

static int put_part(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                    const stk_index_part *p, stk_error *err)
{
    static const uint8_t zeros[8];
    idx_sample end = { 0, (uint32_t)p->n_fields, (uint32_t)p->n_keys };
    wshard s;

    STK_TRY(begin_shard(w, shard, info, &s, err));
    s.samples = p->n_samples;
    s.rec.n_fields = end.field;
    s.rec.n_wide = (uint32_t)p->n_wide;
    s.rec.key_bytes = end.key;
    STK_TRY(put_schemas(w, &s, &p->dict, err));
    STK_TRY(append(w, p->samples, p->n_samples * sizeof *p->samples, err));
    STK_TRY(append(w, &end, sizeof end, err));
    STK_TRY(append(w, p->fields, p->n_fields * sizeof *p->fields, err));
    STK_TRY(append(w, p->wide, p->n_wide * sizeof *p->wide, err));
    STK_TRY(append(w, p->keys, p->n_keys, err));
    STK_TRY(append(w, zeros, (8 - w->segments % 8) % 8, err));
    s.done = 1;
    w->shards[shard] = s;
    return 0;
}

int stk_index_writer_add(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                         stk_index_part *part, stk_error *err)
{
    stk_error here;
    int rc;

    stk_mutex_lock(&w->lock);
    rc = put_part(w, shard, info, part, &here);
    rc = note_failure(w, rc, &here, err);
    stk_mutex_unlock(&w->lock);
    return rc;
}

/* The schemas of an old shard, by name, in the numbering of its segment. */
static int carry_schemas(stk_index_writer *w, wshard *s, const stk_index *old, const idx_shard *r,
                         stk_error *err)
{
    for (uint32_t i = 0; i < r->n_map; i++) {
        uint32_t schema = idx_u16(old->maps, (uint64_t)r->map + i);
        uint32_t start = idx_u32(old->starts, schema), n = idx_u32(old->starts, schema + 1) - start;

        STK_TRY(idx_reserve((void **)&w->ids, &w->ids_cap, n, sizeof *w->ids, err));
        for (uint32_t k = 0; k < n; k++) {
            const char *name = stk_index_name(old, idx_u32(old->ids, (uint64_t)start + k));

            STK_TRY(idx_dict_name(&w->dict, name, strlen(name), &w->ids[k], err));
        }
        STK_TRY(put_map(w, s, w->ids, n, err));
    }
    return 0;
}

/* ---- columns ---- */

static int column_of(stk_index_writer *w, const char *name, wcolumn **out, stk_error *err)
{
    wcolumn c = { 0 };
    uint32_t i = 0;

    while (i < w->n_columns && strcmp(w->columns[i].name, name) < 0)
        i++;
    *out = &w->columns[i];
    if (i < w->n_columns && !strcmp(w->columns[i].name, name))
        return 0;
    if (w->n_columns == IDX_MAX_COLUMNS)
        return stk_fail(err, STK_ELIMIT, "an index has at most %u columns; %s is one more",
                        IDX_MAX_COLUMNS, name);
    c.name = stk_strdup(name);
    c.chunks = stk_zalloc(w->n_shards + 1, sizeof *c.chunks);
    if (!c.name || !c.chunks) {
        stk_free(c.name);
        stk_free(c.chunks);
        return stk_fail_nomem(err, w->n_shards * sizeof *c.chunks);
    }
    memmove(*out + 1, *out, (w->n_columns++ - i) * sizeof c);
    **out = c;
    return 0;
}

static int put_chunk(stk_index_writer *w, uint64_t shard, const char *name, const stk_chunk *chunk,
                     stk_error *err)
{
    idx_chunk r = chunk->rec;
    wcolumn *c;

    STK_TRY(usable(w, err));
    STK_TRY(column_of(w, name, &c, err));
    if (shard >= w->n_shards || c->chunks[shard].type)
        return stk_fail(err, STK_EINVAL, "index %s: column %s of shard %" PRIu64 " is %s", shown(w),
                        name, shard, shard >= w->n_shards ? "not in the list" : "there already");
    r.at = w->segments;
    r.zero = 0;
    STK_TRY(append(w, chunk->data, idx_chunk_bytes(&r, chunk->rows), err));
    c->chunks[shard] = r;
    return 0;
}

int stk_index_writer_column(stk_index_writer *w, uint64_t shard, const char *name,
                            const stk_chunk *chunk, stk_error *err)
{
    stk_error here;
    int rc;

    stk_mutex_lock(&w->lock);
    rc = put_chunk(w, shard, name, chunk, &here);
    rc = note_failure(w, rc, &here, err);
    stk_mutex_unlock(&w->lock);
    return rc;
}

/* What is known of an old shard; its blocks were checked. */
static int carry_columns(stk_index_writer *w, uint64_t shard, const stk_index *old, uint64_t from,
                         stk_error *err)
{
    stk_chunk chunk;

    for (uint32_t c = 0; c < old->columns.n; c++) {
        STK_TRY(stk_index_chunk(old, c, from, &chunk, err));
        if (chunk.rec.type != STK_CHUNK_UNKNOWN)
            STK_TRY(put_chunk(w, shard, stk_index_column(old, c), &chunk, err));
    }
    return 0;
}

static int put_old(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                   const stk_index *old, uint64_t from, stk_error *err)
{
    uint64_t bytes;
    idx_shard r;
    wshard s;

    STK_TRY(begin_shard(w, shard, info, &s, err));
    memcpy(&r, old->shards + from * sizeof r, sizeof r);
    s.samples = idx_u64(old->firsts, from + 1) - idx_u64(old->firsts, from);
    s.rec.n_fields = r.n_fields;
    s.rec.n_wide = r.n_wide;
    s.rec.key_bytes = r.key_bytes;
    s.rec.print = r.print;
    bytes = idx_segment_bytes(s.samples, r.n_fields, r.n_wide, r.key_bytes);
    STK_TRY(carry_schemas(w, &s, old, &r, err));
    STK_TRY(append(w, old->segments + r.segment, bytes, err));
    STK_TRY(carry_columns(w, shard, old, from, err));
    s.done = 1;
    w->shards[shard] = s;
    return 0;
}

int stk_index_writer_reuse(stk_index_writer *w, uint64_t shard, const stk_shard_info *info,
                           const stk_index *old, uint64_t from, stk_error *err)
{
    stk_shard_info was;
    stk_chunk chunk;
    stk_error here;
    idx_shard r;
    int rc;

    /* Damage in the old one is found before anything is written: the caller then scans the shard
     * instead. */
    STK_TRY(stk_index_shard(old, from, &was, err));
    memcpy(&r, old->shards + from * sizeof r, sizeof r);
    STK_TRY(idx_check(old, r.segment,
                      idx_segment_bytes(was.samples, r.n_fields, r.n_wide, r.key_bytes), err));
    for (uint32_t c = 0; c < old->columns.n; c++)
        STK_TRY(stk_index_chunk(old, c, from, &chunk, err));
    stk_mutex_lock(&w->lock);
    rc = put_old(w, shard, info, old, from, &here);
    rc = note_failure(w, rc, &here, err);
    stk_mutex_unlock(&w->lock);
    return rc;
}

/* ---- shard by shard, whatever order they came in ---- */

static uint64_t segment_bytes(const wshard *s)
{
    return idx_segment_bytes(s->samples, s->rec.n_fields, s->rec.n_wide, s->rec.key_bytes);
}

/* Is every segment, with its chunks of columns by name, after the one of the shard before? */
static int is_arranged(const stk_index_writer *w)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < w->n_shards; i++) {
        if (w->shards[i].rec.segment != at)
            return 0;
        at += segment_bytes(&w->shards[i]);
        for (uint32_t c = 0; c < w->n_columns; c++) {
            const idx_chunk *k = &w->columns[c].chunks[i];

            if (k->type && k->at != at)
                return 0;
            at += k->type ? idx_chunk_bytes(k, w->shards[i].samples) : 0;
        }
    }
    return 1;
}

typedef struct before { /* what the writer had before it was arranged */
    stk_atomic_file file;
    char *strings;
    uint16_t *maps;
    uint8_t *buf;
} before;

/* Bytes at *at of the old segments to the end of the new ones. */
static int copy(stk_index_writer *w, const before *b, uint64_t *at, uint64_t len, stk_error *err)
{
    uint64_t from = IDX_HEAD + *at;

    *at = w->segments;
    while (len) {
        size_t want = len < IDX_BLOCK ? (size_t)len : IDX_BLOCK;
        ssize_t n = pread(b->file.fd, b->buf, want, (off_t)from);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return stk_fail(err, STK_EIO, "cannot read index %s again: %s", shown(w),
                            n ? strerror(errno) : "it became shorter");
        STK_TRY(append(w, b->buf, (size_t)n, err));
        from += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

static int arrange_shard(stk_index_writer *w, const before *b, uint64_t i, stk_error *err)
{
    wshard *s = &w->shards[i];
    idx_shard *r = &s->rec;
    uint32_t map = r->map;

    STK_TRY(put_string(w, b->strings + r->name, &r->name, err));
    STK_TRY(put_string(w, b->strings + r->etag, &r->etag, err));
    STK_TRY(
        idx_reserve((void **)&w->maps, &w->maps_cap, w->n_maps + r->n_map, sizeof *w->maps, err));
    r->map = (uint32_t)w->n_maps;
    for (uint32_t k = 0; k < r->n_map; k++)
        w->maps[w->n_maps++] = b->maps[map + k];
    STK_TRY(copy(w, b, &r->segment, segment_bytes(s), err));
    for (uint32_t c = 0; c < w->n_columns; c++) {
        idx_chunk *k = &w->columns[c].chunks[i];

        if (k->type)
            STK_TRY(copy(w, b, &k->at, idx_chunk_bytes(k, s->samples), err));
    }
    return 0;
}

static int arrange(stk_index_writer *w, stk_error *err)
{
    before b = { w->file, w->strings, w->maps, stk_alloc(IDX_BLOCK) };
    int rc;

    w->file = (stk_atomic_file){ .fd = -1 };
    w->strings = NULL;
    w->maps = NULL;
    w->n_strings = w->strings_cap = w->n_maps = w->maps_cap = w->n_crcs = 0;
    w->segments = w->crc = 0;
    rc = b.buf ? file_open(w, err) : stk_fail_nomem(err, IDX_BLOCK);
    if (rc == 0)
        rc = idx_reserve((void **)&w->strings, &w->strings_cap, 1, 1, err);
    if (rc == 0)
        w->strings[w->n_strings++] = 0;
    for (uint64_t i = 0; rc == 0 && i < w->n_shards; i++)
        rc = arrange_shard(w, &b, i, err);
    file_close(w, &b.file);
    stk_free(b.strings);
    stk_free(b.maps);
    stk_free(b.buf);
    return rc;
}

/* ---- commit ---- */

typedef struct tables {              /* what is numbered again, and the head as it grows */
    uint32_t *schema_new, *name_new; /* old number -> new + 1; 0: not met yet */
    uint32_t *schema_old, *name_old; /* and back */
    uint32_t n_schemas, n_names;
    uint8_t *bytes; /* the section available */
    size_t len, cap;
    uint64_t at; /* where in the file the next section goes */
    uint8_t head[IDX_HEAD];
    uint32_t n_sections;
} tables;

static int tables_open(tables **out, const idx_dict *d, stk_error *err)
{
    tables *t = STK_NEW(tables);

    *out = t;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    t->schema_new = stk_zalloc(d->n_schemas + 1, 4);
    t->schema_old = stk_zalloc(d->n_schemas + 1, 4);
    t->name_new = stk_zalloc(d->n_names + 1, 4);
    t->name_old = stk_zalloc(d->n_names + 1, 4);
    if (!t->schema_new || !t->schema_old || !t->name_new || !t->name_old)
        return stk_fail_nomem(err, d->n_schemas + d->n_names);
    return 0;
}

static void tables_close(tables *t)
{
    if (!t)
        return;
    stk_free(t->schema_new);
    stk_free(t->schema_old);
    stk_free(t->name_new);
    stk_free(t->name_old);
    stk_free(t->bytes);
    stk_free(t);
}

/* Number schemas and names in the order in which the shards, as listed, use them. */
static void renumber(const stk_index_writer *w, tables *t)
{
    for (uint64_t i = 0; i < w->n_shards; i++) {
        const idx_shard *r = &w->shards[i].rec;

        for (uint32_t k = r->map; k < r->map + r->n_map; k++) {
            uint32_t old = w->maps[k], n;
            const uint32_t *ids = idx_dict_ids(&w->dict, old, &n);

            if (t->schema_new[old])
                continue;
            t->schema_old[t->n_schemas] = old;
            t->schema_new[old] = ++t->n_schemas;
            for (uint32_t j = 0; j < n; j++) {
                if (t->name_new[ids[j]])
                    continue;
                t->name_old[t->n_names] = ids[j];
                t->name_new[ids[j]] = ++t->n_names;
            }
        }
    }
}

static int emit(tables *t, const void *data, size_t len, stk_error *err)
{
    STK_TRY(idx_reserve((void **)&t->bytes, &t->cap, t->len + len, 1, err));
    if (len)
        memcpy(t->bytes + t->len, data, len);
    t->len += len;
    return 0;
}

static int emit_u32(tables *t, uint32_t v, stk_error *err)
{
    return emit(t, &v, sizeof v, err);
}

static void add_section(tables *t, uint32_t id, uint32_t crc, uint64_t offset, uint64_t len)
{
    idx_section s = { id, crc, offset, len };

    memcpy(t->head + IDX_SECTIONS_AT + t->n_sections++ * sizeof s, &s, sizeof s);
}

/* Write a section where the file ends, 8-byte aligned, and list it in the head. */
static int put_section(stk_index_writer *w, tables *t, uint32_t id, const void *data, size_t len,
                       stk_error *err)
{
    STK_TRY(write_all(w, data, len, t->at, err));
    add_section(t, id, stk_crc32c(0, data, len), t->at, len);
    t->at += (len + 7) & ~(size_t)7;
    t->len = 0;
    return 0;
}

static int put_schema_section(stk_index_writer *w, tables *t, stk_error *err)
{
    uint32_t end = 0, at, n;

    STK_TRY(emit_u32(t, t->n_names, err));
    STK_TRY(emit_u32(t, t->n_schemas, err));
    STK_TRY(emit_u32(t, (uint32_t)w->dict.n_ids, err));
    STK_TRY(emit_u32(t, (uint32_t)w->n_maps, err));
    for (uint32_t i = 0; i < t->n_names; i++) {
        STK_TRY(put_string(w, idx_dict_text(&w->dict, t->name_old[i]), &at, err));
        STK_TRY(emit_u32(t, at, err));
    }
    STK_TRY(emit_u32(t, 0, err));
    for (uint32_t i = 0; i < t->n_schemas; i++) {
        idx_dict_ids(&w->dict, t->schema_old[i], &n);
        STK_TRY(emit_u32(t, end += n, err));
    }
    for (uint32_t i = 0; i < t->n_schemas; i++) {
        const uint32_t *ids = idx_dict_ids(&w->dict, t->schema_old[i], &n);

        for (uint32_t k = 0; k < n; k++)
            STK_TRY(emit_u32(t, t->name_new[ids[k]] - 1, err));
    }
    for (size_t i = 0; i < w->n_maps; i++) {
        uint16_t v = (uint16_t)(t->schema_new[w->maps[i]] - 1);

        STK_TRY(emit(t, &v, sizeof v, err));
    }
    return put_section(w, t, SEC_SCHEMAS, t->bytes, t->len, err);
}

static int put_shard_sections(stk_index_writer *w, tables *t, uint64_t *samples, stk_error *err)
{
    *samples = 0;
    for (uint64_t i = 0; i < w->n_shards; i++)
        STK_TRY(emit(t, &w->shards[i].rec, sizeof w->shards[i].rec, err));
    STK_TRY(put_section(w, t, SEC_SHARDS, t->bytes, t->len, err));
    for (uint64_t i = 0; i < w->n_shards; i++) {
        STK_TRY(emit(t, samples, sizeof *samples, err));
        *samples += w->shards[i].samples;
    }
    STK_TRY(emit(t, samples, sizeof *samples, err));
    return put_section(w, t, SEC_FIRSTS, t->bytes, t->len, err);
}

static int put_column_section(stk_index_writer *w, tables *t, stk_error *err)
{
    uint32_t at;

    if (!w->n_columns)
        return 0;
    STK_TRY(emit_u32(t, w->n_columns, err));
    STK_TRY(emit_u32(t, 0, err));
    for (uint32_t i = 0; i < w->n_columns; i++) {
        STK_TRY(put_string(w, w->columns[i].name, &at, err));
        STK_TRY(emit_u32(t, at, err));
    }
    if (w->n_columns % 2)
        STK_TRY(emit_u32(t, 0, err));
    for (uint32_t i = 0; i < w->n_columns; i++)
        STK_TRY(emit(t, w->columns[i].chunks, w->n_shards * sizeof(idx_chunk), err));
    return put_section(w, t, SEC_COLUMNS, t->bytes, t->len, err);
}

static int put_tables(stk_index_writer *w, tables *t, stk_error *err)
{
    idx_head h = { .version = IDX_VERSION, .shards = w->n_shards };
    uint32_t crc;

    renumber(w, t);
    t->at = IDX_HEAD + w->segments;
    add_section(t, SEC_SEGMENTS, 0, IDX_HEAD, w->segments);
    if (w->segments % IDX_BLOCK) {
        STK_TRY(idx_reserve((void **)&w->crcs, &w->crcs_cap, w->n_crcs + 1, sizeof *w->crcs, err));
        w->crcs[w->n_crcs++] = w->crc;
    }
    STK_TRY(put_section(w, t, SEC_BLOCKS, w->crcs, w->n_crcs * sizeof *w->crcs, err));
    STK_TRY(put_shard_sections(w, t, &h.samples, err));
    STK_TRY(put_schema_section(w, t, err));
    STK_TRY(put_column_section(w, t, err));
    STK_TRY(put_section(w, t, SEC_STRINGS, w->strings, w->n_strings, err));
    memcpy(h.magic, IDX_MAGIC, sizeof h.magic);
    memcpy(h.format, w->format, sizeof h.format);
    h.n_sections = t->n_sections;
    h.file_bytes = t->at;
    memcpy(t->head, &h, sizeof h);
    crc = stk_crc32c(0, t->head, IDX_HEAD - 4);
    memcpy(t->head + IDX_HEAD - 4, &crc, 4);
    STK_TRY(write_all(w, t->head, IDX_HEAD, 0, err));
    if (ftruncate(w->file.fd, (off_t)t->at) == 0)
        return 0;
    w->file.sys = errno;
    return stk_fail(err, STK_EIO, "cannot write index %s: %s", shown(w), strerror(w->file.sys));
}

static int publish(stk_index_writer *w, stk_error *err)
{
    if (w->path)
        return stk_atomic_commit(&w->file, STK_COMMIT_SYNC, err);
    /* It is mapped, which is safe as long as it can't become shorter. */
    (void)!fcntl(w->file.fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return 0;
}

static int commit_locked(stk_index_writer *w, stk_error *err) STK_REQUIRES(w->lock)
{
    tables *t = NULL;
    stk_error here;
    int rc;

    STK_TRY(usable(w, err));
    for (uint64_t i = 0; i < w->n_shards; i++)
        if (!w->shards[i].done)
            return stk_fail(err, STK_EINVAL, "index %s: shard %" PRIu64 " was never handed in",
                            shown(w), i);
    rc = is_arranged(w) ? 0 : arrange(w, &here);
    if (rc == 0)
        rc = tables_open(&t, &w->dict, &here);
    if (rc == 0)
        rc = put_tables(w, t, &here);
    if (rc == 0)
        rc = publish(w, &here);
    tables_close(t);
    w->committed = rc == 0;
    return note_failure(w, rc, &here, err);
}

int stk_index_writer_commit(stk_index_writer *w, stk_error *err)
{
    int rc;

    stk_mutex_lock(&w->lock);
    rc = commit_locked(w, err);
    stk_mutex_unlock(&w->lock);
    return rc;
}

int stk_index_writer_fd(const stk_index_writer *w)
{
    return w->committed ? fcntl(w->file.fd, F_DUPFD_CLOEXEC, 3) : -1;
}

int stk_index_writer_unwritable(const stk_index_writer *w)
{
    return w->path && stk_unwritable(w->file.sys) ? w->file.sys : 0;
}

void stk_index_writer_close(stk_index_writer **w)
{
    stk_index_writer *x = *w;

    *w = NULL;
    if (!x)
        return;
    file_close(x, &x->file);
    stk_mutex_destroy(&x->lock);
    for (uint32_t i = 0; i < x->n_columns; i++) {
        stk_free(x->columns[i].name);
        stk_free(x->columns[i].chunks);
    }
    idx_dict_fini(&x->dict);
    stk_free(x->path);
    stk_free(x->shards);
    stk_free(x->maps);
    stk_free(x->strings);
    stk_free(x->crcs);
    stk_free(x->ids);
    stk_free(x);
}
