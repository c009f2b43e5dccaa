/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - open an index: check head and tables, leave the segments for later.
 *
 * After open() every table entry is in range, so lookups check only what is in the segments.
 * The time is that of the tables (about 70 bytes a shard, 4 bytes per 64 KiB of segments), not
 * of the samples. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "index/layout.h"

int idx_damaged(const stk_index *ix, stk_error *err, const char *what)
{
    return stk_fail(err, STK_ECORRUPT,
                    "index %s is damaged (%s); repair it: run: stoker index --force ...", ix->path,
                    what);
}

int idx_read(const stk_index *ix, void *to, uint64_t len, uint64_t offset, stk_error *err)
{
    uint64_t got = 0;
    struct stat st;

    while (got < len) {
        ssize_t n = pread(ix->fd, (uint8_t *)to + got, len - got, (off_t)(offset + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return stk_fail(err, STK_EIO, "cannot read index %s at byte %" PRIu64 ": %s", ix->path,
                            offset + got, strerror(errno));
        if (!n)
            return stk_fail(err, STK_EIO,
                            "index %s had %zu bytes when it was opened and has %lld now: it was "
                            "cut off; build it again: stoker index --force ...",
                            ix->path, ix->len, fstat(ix->fd, &st) < 0 ? -1 : (long long)st.st_size);
        got += (uint64_t)n;
    }
    return 0;
}

/* Tables are small, and every lookup needs them: they are read at once. */
static int table_read(stk_index *ix, const idx_section *s, const uint8_t **out, stk_error *err)
{
    uint8_t *p = stk_alloc(s->len);

    stk_free(ix->tables[s->id]);
    ix->tables[s->id] = p;
    *out = p;
    return p ? idx_read(ix, p, s->len, s->offset, err) : stk_fail_nomem(err, s->len);
}

/* Room for the segments, which are read block by block when they are first asked for. */
static int segments_reserve(stk_index *ix, const idx_section *s, const uint8_t **out,
                            stk_error *err)
{
    ix->segments_at = s->offset;
    if (!s->len || ix->own_segments)
        return ix->own_segments ? idx_damaged(ix, err, "two lists of segments") : 0;
    ix->own_segments = stk_pages_reserve(s->len);
    if (!ix->own_segments)
        return stk_fail_nomem(err, s->len);
    *out = ix->own_segments;
    return 0;
}

/* The section's bytes, checked; *len is 0 and *out valid where there is none. */
static int section(stk_index *ix, uint32_t id, const uint8_t **out, uint64_t *len, stk_error *err)
{
    uint32_t n = idx_u32(ix->base + 12, 0);
    idx_section s;

    *out = ix->base;
    *len = 0;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&s, ix->base + IDX_SECTIONS_AT + i * sizeof s, sizeof s);
        if (s.id != id)
            continue;
        if (s.offset > ix->len || s.len > ix->len - s.offset)
            return idx_damaged(ix, err, "a section is past its end");
        *len = s.len;
        if (ix->fd < 0 || ix->mapped)
            *out = ix->base + s.offset;
        if (id == SEC_SEGMENTS)
            return ix->fd < 0 || ix->mapped ? 0 : segments_reserve(ix, &s, out, err);
        if (ix->fd >= 0)
            STK_TRY(table_read(ix, &s, out, err));
        if (stk_crc32c(0, *out, s.len) != s.crc)
            return idx_damaged(ix, err, "checksum of a table");
        return 0;
    }
    return 0;
}

static int head_check(stk_index *ix, stk_error *err)
{
    idx_head h;

    if (ix->len < IDX_HEAD)
        return idx_damaged(ix, err, "shorter than its head");
    memcpy(&h, ix->base, sizeof h);
    if (memcmp(h.magic, IDX_MAGIC, sizeof h.magic) != 0)
        return idx_damaged(ix, err, "not an index by its first bytes");
    if (stk_crc32c(0, ix->base, IDX_HEAD - 4) != idx_u32(ix->base + IDX_HEAD - 4, 0))
        return idx_damaged(ix, err, "checksum of the head");
    if (h.version != IDX_VERSION)
        return stk_fail(
            err, STK_ENOTSUP,
            "index %s has version %u, this library reads %u; run: stoker index --force ...",
            ix->path, h.version, IDX_VERSION);
    if (h.file_bytes != ix->len)
        return stk_fail(err, STK_ECORRUPT,
                        "index %s has %zu bytes, its head says %" PRIu64
                        "; repair it: run: stoker index --force ...",
                        ix->path, ix->len, h.file_bytes);
    if (h.n_sections > IDX_MAX_SECTIONS)
        return idx_damaged(ix, err, "too many sections");
    ix->samples = h.samples;
    ix->n_shards = h.shards;
    memcpy(ix->format, h.format, sizeof h.format);
    return 0;
}

static int schemas_load(stk_index *ix, stk_error *err)
{
    const uint8_t *p;
    uint64_t len, words, n_ids;

    STK_TRY(section(ix, SEC_SCHEMAS, &p, &len, err));
    if (len < 16)
        return idx_damaged(ix, err, "no schemas");
    ix->n_names = idx_u32(p, 0);
    ix->n_schemas = idx_u32(p, 1);
    n_ids = idx_u32(p, 2);
    ix->n_maps = idx_u32(p, 3);
    words = 4 + (uint64_t)ix->n_names + ix->n_schemas + 1 + n_ids;
    if (ix->n_schemas > IDX_MAX_SCHEMAS || words * 4 + (uint64_t)ix->n_maps * 2 > len)
        return idx_damaged(ix, err, "schemas past their section");
    ix->names = p + 16;
    ix->starts = ix->names + (uint64_t)ix->n_names * 4;
    ix->ids = ix->starts + ((uint64_t)ix->n_schemas + 1) * 4;
    ix->maps = ix->ids + n_ids * 4;
    for (uint32_t i = 0; i < ix->n_names; i++)
        if (idx_u32(ix->names, i) >= ix->strings_len)
            return idx_damaged(ix, err, "name past the strings");
    for (uint32_t i = 0; i < ix->n_schemas; i++)
        if (idx_u32(ix->starts, i) > idx_u32(ix->starts, i + 1))
            return idx_damaged(ix, err, "schemas out of order");
    if (idx_u32(ix->starts, ix->n_schemas) > n_ids)
        return idx_damaged(ix, err, "schema past the names");
    for (uint64_t i = 0; i < n_ids; i++)
        if (idx_u32(ix->ids, i) >= ix->n_names)
            return idx_damaged(ix, err, "schema with an unknown name");
    for (uint32_t i = 0; i < ix->n_maps; i++)
        if (idx_u16(ix->maps, i) >= ix->n_schemas)
            return idx_damaged(ix, err, "unknown schema");
    return 0;
}

static int shards_load(stk_index *ix, stk_error *err)
{
    uint64_t len, firsts_len, at = 0;
    idx_shard r;

    STK_TRY(section(ix, SEC_SHARDS, &ix->shards, &len, err));
    STK_TRY(section(ix, SEC_FIRSTS, &ix->firsts, &firsts_len, err));
    if (ix->n_shards > len / sizeof r || ix->n_shards >= firsts_len / 8)
        return idx_damaged(ix, err, "fewer shards than it says");
    if (idx_u64(ix->firsts, 0) != 0 || idx_u64(ix->firsts, ix->n_shards) != ix->samples)
        return idx_damaged(ix, err, "sample numbers");
    for (uint64_t i = 0; i < ix->n_shards; i++) {
        uint64_t next = idx_u64(ix->firsts, i + 1), bytes;

        memcpy(&r, ix->shards + i * sizeof r, sizeof r);
        if (next < at || next - at >= UINT32_MAX)
            return idx_damaged(ix, err, "sample numbers");
        bytes = idx_segment_bytes(next - at, r.n_fields, r.n_wide, r.key_bytes);
        if (r.segment > ix->segments_len || bytes > ix->segments_len - r.segment)
            return idx_damaged(ix, err, "segment past the end");
        if (r.name >= ix->strings_len || r.etag >= ix->strings_len)
            return idx_damaged(ix, err, "shard's name past the strings");
        if (r.map > ix->n_maps || r.n_map > ix->n_maps - r.map)
            return idx_damaged(ix, err, "shard's schemas");
        at = next;
    }
    return 0;
}

static int tables_load(stk_index *ix, stk_error *err)
{
    const uint8_t *strings, *columns;
    uint64_t len, blocks;

    STK_TRY(section(ix, SEC_STRINGS, &strings, &len, err));
    if (!len || len > UINT32_MAX || strings[len - 1] != 0)
        return idx_damaged(ix, err, "strings");
    ix->strings = (const char *)strings;
    ix->strings_len = (uint32_t)len;
    STK_TRY(section(ix, SEC_SEGMENTS, &ix->segments, &ix->segments_len, err));
    blocks = ix->segments_len / IDX_BLOCK + (ix->segments_len % IDX_BLOCK != 0);
    STK_TRY(section(ix, SEC_BLOCKS, &ix->blocks, &len, err));
    if (len / 4 < blocks)
        return idx_damaged(ix, err, "too few block checksums");
    STK_TRY(schemas_load(ix, err));
    STK_TRY(shards_load(ix, err));
    STK_TRY(section(ix, SEC_COLUMNS, &columns, &len, err));
    STK_TRY(idx_columns_load(ix, columns, len, err));
    ix->guess = ix->samples ? (double)ix->n_shards / (double)ix->samples : 0;
    ix->seen = stk_zalloc(blocks + 1, sizeof *ix->seen);
    return ix->seen ? 0 : stk_fail_nomem(err, blocks * sizeof *ix->seen);
}

static int index_new(stk_index **out, const char *path, stk_error *err)
{
    stk_index *ix = STK_NEW(stk_index);

    *out = NULL;
    if (!ix)
        return stk_fail_nomem(err, sizeof *ix);
    ix->fd = -1;
    ix->path = stk_strdup(path);
    if (!ix->path) {
        stk_free(ix);
        return stk_fail_nomem(err, strlen(path));
    }
    *out = ix;
    return 0;
}

/* A file is read.  Memory that is sealed against shrinking can be mapped as it is. */
static int head_load(stk_index *ix, stk_error *err)
{
    int seals = fcntl(ix->fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (fstat(ix->fd, &st) < 0)
        return stk_fail(err, STK_EIO, "cannot stat index %s: %s", ix->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return stk_fail(err, STK_EINVAL, "index %s is not a plain file", ix->path);
    if ((uint64_t)st.st_size < IDX_HEAD)
        return idx_damaged(ix, err, "shorter than its head");
    ix->len = (size_t)st.st_size;
    ix->mapped = seals >= 0 && (seals & F_SEAL_SHRINK);
    if (!ix->mapped) {
        ix->base = p = stk_alloc(IDX_HEAD);
        return p ? idx_read(ix, p, IDX_HEAD, 0, err) : stk_fail_nomem(err, IDX_HEAD);
    }
    p = mmap(NULL, ix->len, PROT_READ, MAP_SHARED, ix->fd, 0);
    if (p == MAP_FAILED)
        return stk_fail(err, STK_EIO, "cannot map index %s: %s", ix->path, strerror(errno));
    ix->base = p;
    return 0;
}

int stk_index_open_fd(stk_index **out, int fd, const char *path, stk_error *err)
{
    stk_index *ix = NULL;
    int rc = index_new(&ix, path, err);

    *out = NULL;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    ix->fd = fd;
    rc = head_load(ix, err);
    if (rc == 0)
        rc = head_check(ix, err);
    if (rc == 0)
        rc = tables_load(ix, err);
    if (rc < 0)
        stk_index_close(&ix);
    *out = ix;
    return rc;
}

int stk_index_open(stk_index **out, const char *path, stk_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *out = NULL;
    if (fd < 0)
        return stk_fail(err, errno == ENOENT || errno == ENOTDIR ? STK_ENOTFOUND : STK_EIO,
                        "cannot open index %s: %s", path, strerror(errno));
    return stk_index_open_fd(out, fd, path, err);
}

int stk_index_open_mem(stk_index **out, const void *data, size_t len, stk_error *err)
{
    stk_index *ix;
    int rc;

    STK_TRY(index_new(out, "(memory)", err));
    ix = *out;
    ix->base = data;
    ix->len = len;
    rc = head_check(ix, err);
    if (rc == 0)
        rc = tables_load(ix, err);
    if (rc < 0)
        stk_index_close(out);
    return rc;
}

void stk_index_close(stk_index **ix)
{
    stk_index *x = *ix;

    *ix = NULL;
    if (!x)
        return;
    if (x->mapped && x->base)
        munmap((void *)(uintptr_t)x->base, x->len);
    else if (x->fd >= 0)
        stk_free((void *)(uintptr_t)x->base);
    if (x->fd >= 0)
        close(x->fd);
    stk_pages_free(x->own_segments, x->segments_len);
    for (size_t i = 0; i < sizeof x->tables / sizeof *x->tables; i++)
        stk_free(x->tables[i]);
    stk_free((void *)x->seen);
    stk_free(x->path);
    stk_free(x);
}
