/* SPDX-License-Identifier: Apache-2.0 */
/* seekfile.c - read HASH.seek: head and tables at open, a group when it is first asked for.
 *
 * Files are read, not mapped, so that one that is cut off under a running program raises no signal.
 * Of a group that was looked at, the ends of its rows stay in memory (4 bytes per sample); records
 * are read into the caller's room, a few kilobytes for a picture that takes milliseconds to
 * decode, so that processes that share a file share its memory too.  Of a long video, which has
 * hundreds of kilobytes, a clip reads a few pieces.  A group that is damaged has
 * nothing: seek points only ever save work, so loading goes on without them. */
#include "index/seekfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "index/seeklayout.h"

#define MAX_RECORDS ((uint32_t)16 << 20) /* bytes of a row's records: more are of no use */
#define CHUNK ((size_t)256 << 10)
#define ROW_AT_ONCE 4096u /* bytes of a row's records that are read together */
#define RECORD_HEAD 8u    /* u32 field, u32 length, bytes */

struct stk_seekfile {
    size_t len;
    int fd;
    uint64_t n_shards, n_groups;
    seek_shard *shard;
    seek_place *place;
    uint8_t *fits;             /* by shard: it is the index's */
    _Atomic(uint32_t *) *ends; /* by group: ends of its rows; NULL: not looked at; none: bad */
    _Atomic int told;          /* damage was reported */
    stk_log log;
    char *path;
};

static int damaged(const char *path, const char *what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "%s is damaged (%s); make it again: stoker index --jpeg ...",
                    path, what);
}

static uint32_t none[1]; /* the ends of a group that can't be used; never written */

static int file_open(stk_seekfile *s, const char *path, stk_error *err)
{
    struct stat st;

    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return stk_fail(err, errno == ENOENT ? STK_ENOTFOUND : STK_EIO, "cannot open %s: %s", path,
                        strerror(errno));
    if (fstat(s->fd, &st) < 0 || st.st_size < (off_t)SEEK_HEAD)
        return damaged(path, "shorter than its head", err);
    s->len = (size_t)st.st_size;
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
    s->ends = stk_zalloc(h.groups + 1, sizeof *s->ends);
    if (!s->shard || !s->place || !s->fits || !s->ends)
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
    return a->size == b->size && a->print == seek_print(b) && a->samples == b->samples;
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
    rc = s->path ? file_open(s, path, err) : stk_fail_nomem(err, strlen(path));
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
    if (s->fd >= 0)
        close(s->fd);
    for (uint64_t i = 0; s->ends && i < s->n_groups; i++) {
        uint32_t *ends = atomic_load_explicit(&s->ends[i], memory_order_relaxed);

        if (ends != none)
            stk_free(ends);
    }
    stk_free(s->shard);
    stk_free(s->place);
    stk_free(s->fits);
    stk_free((void *)s->ends);
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

static void tell_damaged(stk_seekfile *s)
{
    if (!atomic_exchange_explicit(&s->told, 1, memory_order_relaxed))
        stk_log_line(&s->log, STK_LOG_WARN,
                     "going on without some seek points: %s is damaged (a group's checksum); make "
                     "it again: stoker index --jpeg --force ...",
                     s->path);
}

/* Rows of the group that has row `row` of a shard. */
static uint32_t group_rows(const stk_seekfile *s, uint64_t shard, uint64_t row)
{
    uint64_t left = s->shard[shard].samples - (row - row % STK_SEEK_GROUP);

    return (uint32_t)(left < STK_SEEK_GROUP ? left : STK_SEEK_GROUP);
}

/* Is the checksum of a group right?  Its first bytes, up to `want`, come to `head`. */
static int group_sum(const stk_seekfile *s, const seek_place *p, void *head, size_t want)
{
    uint8_t *chunk = stk_alloc(CHUNK);
    uint32_t crc = 0;
    int ok = chunk && p->len >= want;

    for (size_t at = 0, n; ok && at < p->len; at += n) {
        n = p->len - at < CHUNK ? p->len - at : CHUNK;
        ok = read_at(s, chunk, n, seek_offset(p) + at) == 0;
        crc = ok ? stk_crc32c(crc, chunk, n) : 0;
        if (ok && at < want)
            memcpy((uint8_t *)head + at, chunk, want - at < n ? want - at : n);
    }
    stk_free(chunk);
    return ok && crc == p->crc;
}

/* Every end is in range from here on. */
static int ends_check(const uint32_t *ends, uint32_t rows, uint32_t len)
{
    uint32_t before = rows * 4;

    for (uint32_t i = 0; i < rows; before = ends[i++])
        if (ends[i] < before || ends[i] > len)
            return 0;
    return 1;
}

/* The ends of a group's rows, looked at once; NULL: it has none that are good. */
static const uint32_t *group_ends(stk_seekfile *s, uint64_t group, uint32_t rows)
{
    uint32_t *have = atomic_load_explicit(&s->ends[group], memory_order_acquire), *mine;
    const seek_place *p = &s->place[group];

    if (have)
        return have == none ? NULL : have;
    mine = p->offset ? stk_alloc((size_t)rows * 4) : NULL;
    if (!mine || !group_sum(s, p, mine, (size_t)rows * 4) || !ends_check(mine, rows, p->len)) {
        if (mine)
            tell_damaged(s);
        stk_free(mine);
        mine = none;
    }
    if (!atomic_compare_exchange_strong_explicit(&s->ends[group], &have, mine, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        if (mine != none)
            stk_free(mine);
        mine = have;
    }
    return mine == none ? NULL : mine;
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

static int room_grow(stk_seek_room *room, size_t len)
{
    if (len <= room->cap)
        return 1;
    stk_free(room->data);
    room->cap = len + len / 4; /* high water: sizes settle after a few samples */
    room->data = stk_alloc(room->cap);
    if (!room->data)
        room->cap = 0;
    return room->data != NULL;
}

void stk_seek_room_fini(stk_seek_room *room)
{
    stk_free(room->data);
    *room = (stk_seek_room){ 0 };
}

/* Where the records of a row are in the file; 0: it has none. */
static size_t row_place(stk_seekfile *s, uint64_t shard, uint64_t row, uint64_t *at)
{
    uint32_t in_group = (uint32_t)(row % STK_SEEK_GROUP), rows, from;
    uint64_t group;
    const uint32_t *ends;

    if (!s || shard >= s->n_shards || row >= s->shard[shard].samples || !s->fits[shard])
        return 0;
    group = s->shard[shard].first + row / STK_SEEK_GROUP;
    rows = group_rows(s, shard, row);
    ends = group_ends(s, group, rows);
    if (!ends)
        return 0;
    from = in_group ? ends[in_group - 1] : rows * 4;
    *at = seek_offset(&s->place[group]) + from;
    return ends[in_group] - from;
}

/* Bytes of the file, in `room`. */
static stk_bytes bytes_at(stk_seekfile *s, uint64_t at, size_t len, stk_seek_room *room)
{
    if (!len || len > MAX_RECORDS || !room_grow(room, len))
        return (stk_bytes){ 0 };
    if (read_at(s, room->data, len, at) < 0) {
        tell_damaged(s);
        return (stk_bytes){ 0 };
    }
    return (stk_bytes){ room->data, len };
}

stk_seek_cursor stk_seekfile_row(stk_seekfile *s, uint64_t shard, uint64_t row, stk_seek_room *room)
{
    uint64_t at = 0;
    size_t len = row_place(s, shard, row, &at);
    stk_bytes all = len ? bytes_at(s, at, len, room) : (stk_bytes){ 0 };

    return (stk_seek_cursor){ all.data, all.data + all.len };
}

int stk_seek_next(stk_seek_cursor *c, uint32_t *field, stk_bytes *out)
{
    uint32_t len;

    if (c->end - c->at < (ptrdiff_t)RECORD_HEAD)
        return 0;
    len = u32_at(c->at + 4);
    if (len > (size_t)(c->end - c->at) - 8)
        return 0;
    *field = u32_at(c->at);
    *out = (stk_bytes){ c->at + 8, len };
    c->at += 8 + len;
    return 1;
}

/* What of a record of `len` bytes is wanted. */
static size_t wanted_of(const stk_seek_field *f, size_t len)
{
    size_t left = f->from < len ? len - (size_t)f->from : 0;

    return f->most && f->most < left ? f->most : left;
}

static stk_bytes get_of_all(stk_bytes row, const stk_seek_field *f)
{
    stk_seek_cursor c = { row.data, row.data + row.len };
    stk_bytes bytes;
    uint32_t field;

    while (stk_seek_next(&c, &field, &bytes))
        if (field == f->field && wanted_of(f, bytes.len))
            return (stk_bytes){ bytes.data + f->from, wanted_of(f, bytes.len) };
    return (stk_bytes){ 0 };
}

stk_bytes stk_seekfile_get(stk_seekfile *s, const stk_seek_field *f, stk_seek_room *room)
{
    uint64_t at = 0;
    size_t left = row_place(s, f->shard, f->row, &at);
    uint8_t head[RECORD_HEAD];

    if (!left)
        return (stk_bytes){ 0 };
    if (left <= ROW_AT_ONCE)
        return get_of_all(bytes_at(s, at, left, room), f);
    while (left >= RECORD_HEAD && read_at(s, head, RECORD_HEAD, at) == 0) {
        size_t len = u32_at(head + 4);

        if (len > left - RECORD_HEAD)
            break;
        if (u32_at(head) == f->field)
            return bytes_at(s, at + RECORD_HEAD + f->from, wanted_of(f, len), room);
        at += RECORD_HEAD + len;
        left -= RECORD_HEAD + len;
    }
    return (stk_bytes){ 0 };
}

uint64_t stk_seekfile_match(const stk_seekfile *s, const stk_shard_info *info)
{
    for (uint64_t i = 0; i < s->n_shards; i++)
        if (same_shard(&s->shard[i], info))
            return i;
    return UINT64_MAX;
}

stk_bytes stk_seekfile_group(stk_seekfile *s, uint64_t shard, uint64_t row, stk_seek_room *room,
                             stk_seek_counts *counts)
{
    const seek_place *p;

    if (shard >= s->n_shards || row >= s->shard[shard].samples)
        return (stk_bytes){ 0 };
    p = &s->place[s->shard[shard].first + row / STK_SEEK_GROUP];
    *counts = p->counts;
    if (!p->offset || !p->len || !room_grow(room, p->len))
        return (stk_bytes){ 0 };
    if (read_at(s, room->data, p->len, seek_offset(p)) < 0 ||
        stk_crc32c(0, room->data, p->len) != p->crc) {
        tell_damaged(s);
        return (stk_bytes){ 0 };
    }
    return (stk_bytes){ room->data, p->len };
}
