/* SPDX-License-Identifier: Apache-2.0 */
/* seekwriter.c - write HASH.seek: groups as they come, in any order, tables and head at commit.
 *
 * The file appears under its name only when it is whole and on disk. */
#include <stdio.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/mem.h"
#include "index/seeklayout.h"

/* ---- a group ---- */

static int group_room(stk_seek_group *g, size_t more, stk_error *err)
{
    size_t cap = g->cap ? g->cap : 65536;
    void *grown;

    if (more > UINT32_MAX || g->len + more > UINT32_MAX)
        return stk_fail(err, STK_ELIMIT, "seek points of %u samples take more than 4 GiB", g->rows);
    while (cap < g->len + more)
        cap *= 2;
    if (cap == g->cap)
        return 0;
    grown = stk_grow(g->data, g->cap, cap);
    if (!grown)
        return stk_fail_nomem(err, cap);
    g->data = grown;
    g->cap = cap;
    return 0;
}

int stk_seek_group_begin(stk_seek_group *g, uint32_t rows, stk_error *err)
{
    g->len = 0;
    g->row = 0;
    g->rows = rows;
    STK_TRY(group_room(g, (size_t)rows * 4, err));
    g->len = (size_t)rows * 4;
    g->counts = (stk_seek_counts){ 0 };
    g->partial = 0;
    return 0;
}

static void rows_upto(stk_seek_group *g, uint32_t row)
{
    uint32_t end = (uint32_t)g->len;

    for (; g->row < row; g->row++)
        memcpy(g->data + (size_t)g->row * 4, &end, 4);
}

int stk_seek_group_add(stk_seek_group *g, uint32_t row, uint32_t field, stk_bytes bytes,
                       stk_error *err)
{
    uint32_t head[2] = { field, (uint32_t)bytes.len };

    rows_upto(g, row);
    STK_TRY(group_room(g, bytes.len + sizeof head, err));
    memcpy(g->data + g->len, head, sizeof head);
    memcpy(g->data + g->len + sizeof head, bytes.data, bytes.len);
    g->len += sizeof head + bytes.len;
    return 0;
}

void stk_seek_group_end(stk_seek_group *g)
{
    rows_upto(g, g->rows);
}

void stk_seek_group_fini(stk_seek_group *g)
{
    stk_free(g->data);
    *g = (stk_seek_group){ 0 };
}

/* ---- the file ---- */

int stk_seek_lock(const char *index_path, stk_lock_file *lock)
{
    size_t len = strlen(index_path);
    char path[1300];
    int rc;

    *lock = (stk_lock_file){ .fd = -1 };
    if (len < 4 || len >= sizeof path - 16)
        return 0;
    snprintf(path, sizeof path, "%.*s.seek.lock", (int)(len - 4), index_path);
    rc = stk_lock_try(lock, path);
    if (rc == STK_END)
        return STK_END;
    if (rc == 0)
        stk_atomic_sweep_like(index_path);
    return 0;
}

struct stk_seek_writer {
    stk_mutex lock;
    stk_atomic_file file;
    uint64_t n_shards, n_groups;
    uint64_t end; /* lock: where the next group goes */
    seek_shard *shard;
    seek_place *place;
};

static int shards_of(stk_seek_writer *w, const stk_index *ix, stk_error *err)
{
    w->n_shards = stk_index_shards(ix);
    w->shard = stk_zalloc(w->n_shards + 1, sizeof *w->shard);
    if (!w->shard)
        return stk_fail_nomem(err, w->n_shards * sizeof *w->shard);
    for (uint64_t i = 0; i < w->n_shards; i++) {
        stk_shard_info s;

        STK_TRY(stk_index_shard(ix, i, &s, err));
        w->shard[i] = (seek_shard){ s.size, seek_print(&s), s.samples, w->n_groups };
        w->n_groups += seek_groups(s.samples);
    }
    w->place = stk_zalloc(w->n_groups + 1, sizeof *w->place);
    return w->place ? 0 : stk_fail_nomem(err, w->n_groups * sizeof *w->place);
}

int stk_seek_writer_open(stk_seek_writer **out, const char *path, const stk_index *ix,
                         stk_error *err)
{
    stk_seek_writer *w = STK_NEW(stk_seek_writer);
    int rc;

    *out = NULL;
    if (!w)
        return stk_fail_nomem(err, sizeof *w);
    stk_mutex_init(&w->lock);
    w->end = SEEK_HEAD;
    rc = shards_of(w, ix, err);
    if (rc == 0)
        rc = stk_atomic_open(&w->file, path, err);
    if (rc < 0)
        stk_seek_writer_close(&w);
    *out = w;
    return rc;
}

uint64_t stk_seek_writer_groups(const stk_seek_writer *w)
{
    return w->n_groups;
}

void stk_seek_writer_place(const stk_seek_writer *w, uint64_t group, uint64_t *shard, uint64_t *row,
                           uint32_t *rows)
{
    uint64_t lo = 0, hi = w->n_shards, left;

    while (hi - lo > 1) { /* the last shard that begins at or before the group and has samples */
        uint64_t mid = lo + (hi - lo) / 2;

        if (w->shard[mid].first <= group)
            lo = mid;
        else
            hi = mid;
    }
    *shard = lo;
    *row = (group - w->shard[lo].first) * STK_SEEK_GROUP;
    left = w->shard[lo].samples - *row;
    *rows = (uint32_t)(left < STK_SEEK_GROUP ? left : STK_SEEK_GROUP);
}

static int put(stk_seek_writer *w, uint64_t group, stk_bytes bytes, const stk_seek_counts *counts,
               uint64_t flags, stk_error *err)
{
    uint64_t at;

    stk_mutex_lock(&w->lock);
    at = w->end;
    w->end += bytes.len;
    stk_mutex_unlock(&w->lock);
    STK_TRY(stk_atomic_write(&w->file, bytes.data, bytes.len, at, err));
    w->place[group] = (seek_place){ at | flags, (uint32_t)bytes.len,
                                    stk_crc32c(0, bytes.data, bytes.len), *counts };
    return 0;
}

int stk_seek_writer_add(stk_seek_writer *w, uint64_t group, const stk_seek_group *g, stk_error *err)
{
    return put(w, group, (stk_bytes){ g->data, g->len }, &g->counts, g->partial ? SEEK_PARTIAL : 0,
               err);
}

int stk_seek_writer_reuse(stk_seek_writer *w, uint64_t group, stk_seekfile *old, uint64_t from,
                          stk_error *err)
{
    stk_seek_room room = { 0 };
    stk_seek_counts counts;
    uint64_t shard, row;
    uint32_t rows;
    stk_bytes bytes;
    int rc = STK_END;

    stk_seek_writer_place(w, group, &shard, &row, &rows);
    bytes = stk_seekfile_group(old, from, row, &room, &counts);
    if (bytes.data)
        rc = put(w, group, bytes, &counts, stk_seekfile_made(old, from, row) ? 0 : SEEK_PARTIAL,
                 err);
    stk_seek_room_fini(&room);
    return rc;
}

int stk_seek_writer_commit(stk_seek_writer *w, stk_error *err)
{
    size_t shards = w->n_shards * sizeof *w->shard, groups = w->n_groups * sizeof *w->place;
    seek_head h = { .magic = SEEK_MAGIC,
                    .version = SEEK_VERSION,
                    .file_bytes = w->end + shards + groups,
                    .shards = w->n_shards,
                    .groups = w->n_groups,
                    .tables = w->end };

    h.table_crc = stk_crc32c(stk_crc32c(0, w->shard, shards), w->place, groups);
    h.crc = stk_crc32c(0, &h, SEEK_HEAD - 4);
    STK_TRY(stk_atomic_write(&w->file, w->shard, shards, w->end, err));
    STK_TRY(stk_atomic_write(&w->file, w->place, groups, w->end + shards, err));
    STK_TRY(stk_atomic_write(&w->file, &h, sizeof h, 0, err));
    return stk_atomic_commit(&w->file, STK_COMMIT_SYNC, err);
}

void stk_seek_writer_close(stk_seek_writer **wp)
{
    stk_seek_writer *w = *wp;

    if (!w)
        return;
    *wp = NULL;
    stk_atomic_close(&w->file);
    stk_mutex_destroy(&w->lock);
    stk_free(w->shard);
    stk_free(w->place);
    stk_free(w);
}
