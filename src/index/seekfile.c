/* SPDX-License-Identifier: Apache-2.0 */
/* seekfile.c - read HASH.seek: head and tables at open, a group when it is first asked for.
 *
 * A group that is damaged has nothing: seek points only ever save work, so nobody is stopped for
 * the want of them. */
#include "index/seekfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "index/seeklayout.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { UNSEEN, GOOD, BAD };

struct stk_seekfile {
    const uint8_t *base;
    size_t len;
    int fd;
    uint64_t n_shards, n_groups;
    seek_shard *shard;
    seek_place *place;
    uint8_t *fits;         /* by shard: it is the index's */
    _Atomic uint8_t *seen; /* by group; behind the last: damage was told of */
    stk_log log;
    char *path;
};

static int damaged(const char *path, const char *what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "%s is damaged (%s); make it anew: stoker index --jpeg ...",
                    path, what);
}

static int file_map(stk_seekfile *s, const char *path, stk_error *err)
{
    struct stat st;
    void *base;

    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return stk_fail(err, errno == ENOENT ? STK_ENOTFOUND : STK_EIO, "cannot open %s: %s", path,
                        strerror(errno));
    if (fstat(s->fd, &st) < 0 || st.st_size < (off_t)SEEK_HEAD)
        return damaged(path, "shorter than its head", err);
    s->len = (size_t)st.st_size;
    base = mmap(NULL, s->len, PROT_READ, MAP_SHARED, s->fd, 0);
    if (base == MAP_FAILED)
        return stk_fail(err, STK_EIO, "cannot map %s: %s", path, strerror(errno));
    s->base = base;
    return 0;
}

static int read_at(const stk_seekfile *s, void *to, size_t len, uint64_t offset)
{
    uint8_t *p = to;

    while (len) {
        ssize_t n = pread(s->fd, p, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Every number in the tables is in range from here on. */
static int tables_check(const stk_seekfile *s, const seek_head *h)
{
    uint64_t groups = 0;

    for (uint64_t i = 0; i < s->n_shards; i++) {
        if (s->shard[i].first != groups || s->shard[i].samples >> 48)
            return -1;
        groups += seek_groups(s->shard[i].samples);
    }
    if (groups != s->n_groups)
        return -1;
    for (uint64_t i = 0; i < s->n_groups; i++) {
        uint64_t at = seek_offset(&s->place[i]);

        if (s->place[i].offset &&
            (at < SEEK_HEAD || at > h->tables || s->place[i].len > h->tables - at))
            return -1;
    }
    return 0;
}

static int tables_load(stk_seekfile *s, const char *path, stk_error *err)
{
    size_t shards, groups;
    seek_head h;

    if (read_at(s, &h, sizeof h, 0) < 0 || memcmp(h.magic, SEEK_MAGIC, sizeof h.magic) != 0 ||
        stk_crc32c(0, &h, SEEK_HEAD - 4) != h.crc)
        return damaged(path, "its head", err);
    if (h.version != SEEK_VERSION)
        return stk_fail(err, STK_ENOTSUP, "%s has version %u, this library reads %u", path,
                        h.version, SEEK_VERSION);
    if (h.file_bytes != s->len || h.tables > s->len ||
        h.shards > (s->len - h.tables) / sizeof(seek_shard) ||
        h.groups > (s->len - h.tables) / sizeof(seek_place) ||
        h.shards * sizeof(seek_shard) + h.groups * sizeof(seek_place) != s->len - h.tables)
        return damaged(path, "its length", err);
    shards = h.shards * sizeof *s->shard;
    groups = h.groups * sizeof *s->place;
    s->n_shards = h.shards;
    s->n_groups = h.groups;
    s->shard = stk_alloc(shards + 1);
    s->place = stk_alloc(groups + 1);
    s->fits = stk_zalloc(h.shards + 1, 1);
    s->seen = stk_zalloc(h.groups + 1, 1);
    if (!s->shard || !s->place || !s->fits || !s->seen)
        return stk_fail_nomem(err, shards + groups);
    if (read_at(s, s->shard, shards, h.tables) < 0 ||
        read_at(s, s->place, groups, h.tables + shards) < 0 ||
        stk_crc32c(stk_crc32c(0, s->shard, shards), s->place, groups) != h.table_crc ||
        tables_check(s, &h) < 0)
        return damaged(path, "its tables", err);
    return 0;
}

static int same_shard(const seek_shard *a, const stk_shard_info *b)
{
    return a->size == b->size && a->print == b->print && a->samples == b->samples;
}

static void fit(stk_seekfile *s, const stk_index *ix)
{
    stk_shard_info info;

    for (uint64_t i = 0; i < s->n_shards; i++)
        s->fits[i] = !ix ||
                     (stk_index_shard(ix, i, &info, NULL) == 0 && same_shard(&s->shard[i], &info));
}

int stk_seekfile_open(stk_seekfile **out, const char *path, const stk_index *ix, stk_error *err)
{
    stk_seekfile *s = STK_NEW(stk_seekfile);
    int rc;

    *out = NULL;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->fd = -1;
    s->path = stk_strdup(path);
    rc = s->path ? file_map(s, path, err) : stk_fail_nomem(err, strlen(path));
    if (rc == 0)
        rc = tables_load(s, path, err);
    if (rc < 0) {
        stk_seekfile_close(&s);
        return rc;
    }
    fit(s, ix);
    *out = s;
    return 0;
}

void stk_seekfile_close(stk_seekfile **sp)
{
    stk_seekfile *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    if (s->base)
        munmap((void *)(uintptr_t)s->base, s->len);
    if (s->fd >= 0)
        close(s->fd);
    stk_free(s->shard);
    stk_free(s->place);
    stk_free(s->fits);
    stk_free((void *)s->seen);
    stk_free(s->path);
    stk_free(s);
}

uint64_t stk_seekfile_bytes(const stk_seekfile *s)
{
    return s->len;
}

void stk_seekfile_counts(const stk_seekfile *s, uint64_t *fields, uint64_t *others, uint64_t *bytes)
{
    *fields = *others = *bytes = 0;
    for (uint64_t i = 0; i < s->n_groups; i++) {
        *fields += s->place[i].counts.fields;
        *others += s->place[i].counts.others;
        *bytes += s->place[i].counts.bytes;
    }
}

int stk_seekfile_whole(const stk_seekfile *s)
{
    for (uint64_t i = 0; i < s->n_shards; i++)
        if (!s->fits[i])
            return 0;
    for (uint64_t i = 0; i < s->n_groups; i++)
        if (!s->place[i].offset || s->place[i].offset & SEEK_PARTIAL)
            return 0;
    return 1;
}

uint64_t stk_seekfile_foreign(const stk_seekfile *s)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < s->n_shards; i++)
        n += !s->fits[i];
    return n;
}

void stk_seekfile_tell(stk_seekfile *s, const stk_log *log)
{
    s->log = *log;
}

int stk_seekfile_made(const stk_seekfile *s, uint64_t shard, uint64_t row)
{
    const seek_place *p;

    if (shard >= s->n_shards || row >= s->shard[shard].samples)
        return 0;
    p = &s->place[s->shard[shard].first + row / STK_SEEK_GROUP];
    return p->offset && !(p->offset & SEEK_PARTIAL);
}

static void tell_damaged(const stk_seekfile *s)
{
    if (!atomic_exchange_explicit(&s->seen[s->n_groups], 1, memory_order_relaxed))
        stk_log_line(&s->log, STK_LOG_WARN,
                     "going on without some seek points: %s is damaged (a group's checksum); make "
                     "it anew: stoker index --jpeg --force ...",
                     s->path);
}

/* Have the group in memory, so that touching it raises no signal, and its checksum right. */
static int group_look(const stk_seekfile *s, uint64_t group)
{
    const seek_place *p = &s->place[group];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = seek_offset(p), from = at & ~(page - 1);
    int state = BAD;

    if (at &&
        (madvise((void *)(uintptr_t)(s->base + from), at + p->len - from, MADV_POPULATE_READ) ==
             0 ||
         errno == EINVAL) /* a kernel before 5.14 */
        && stk_crc32c(0, s->base + at, p->len) == p->crc)
        state = GOOD;
    else if (at)
        tell_damaged(s);
    atomic_store_explicit(&s->seen[group], (uint8_t)state, memory_order_release);
    return state;
}

/* A group's bytes; no data: it has none that are good. */
static stk_bytes group_at(const stk_seekfile *s, uint64_t group)
{
    int state = atomic_load_explicit(&s->seen[group], memory_order_acquire);

    if (state == UNSEEN)
        state = group_look(s, group);
    return state == GOOD
               ? (stk_bytes){ s->base + seek_offset(&s->place[group]), s->place[group].len }
               : (stk_bytes){ 0 };
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

stk_seek_cursor stk_seekfile_row(const stk_seekfile *s, uint64_t shard, uint64_t row)
{
    uint32_t in_group = (uint32_t)(row % STK_SEEK_GROUP), from, end, table;
    uint64_t rows;
    stk_bytes g;

    if (!s || shard >= s->n_shards || row >= s->shard[shard].samples || !s->fits[shard])
        return (stk_seek_cursor){ 0 };
    g = group_at(s, s->shard[shard].first + row / STK_SEEK_GROUP);
    rows = s->shard[shard].samples - (row - in_group);
    table = (uint32_t)(rows < STK_SEEK_GROUP ? rows : STK_SEEK_GROUP) * 4;
    if (g.len < table)
        return (stk_seek_cursor){ 0 };
    from = in_group ? u32_at(g.data + 4 * (in_group - 1)) : table;
    end = u32_at(g.data + 4 * in_group);
    if (from > end || end > g.len)
        return (stk_seek_cursor){ 0 };
    return (stk_seek_cursor){ g.data + from, g.data + end };
}

int stk_seek_next(stk_seek_cursor *c, uint32_t *field, stk_bytes *out)
{
    uint32_t len;

    if (c->end - c->at < 8) /* u32 field, u32 length, bytes */
        return 0;
    len = u32_at(c->at + 4);
    if (len > (size_t)(c->end - c->at) - 8)
        return 0;
    *field = u32_at(c->at);
    *out = (stk_bytes){ c->at + 8, len };
    c->at += 8 + len;
    return 1;
}

stk_bytes stk_seekfile_get(const stk_seekfile *s, uint64_t shard, uint64_t row, uint32_t field)
{
    stk_seek_cursor c = stk_seekfile_row(s, shard, row);
    stk_bytes bytes;
    uint32_t f;

    while (stk_seek_next(&c, &f, &bytes))
        if (f == field)
            return bytes;
    return (stk_bytes){ 0 };
}

uint64_t stk_seekfile_match(const stk_seekfile *s, const stk_shard_info *info)
{
    for (uint64_t i = 0; i < s->n_shards; i++)
        if (same_shard(&s->shard[i], info))
            return i;
    return UINT64_MAX;
}

stk_bytes stk_seekfile_group(const stk_seekfile *s, uint64_t shard, uint64_t row,
                             stk_seek_counts *counts)
{
    uint64_t group;

    if (shard >= s->n_shards || row >= s->shard[shard].samples)
        return (stk_bytes){ 0 };
    group = s->shard[shard].first + row / STK_SEEK_GROUP;
    *counts = s->place[group].counts;
    return group_at(s, group);
}
