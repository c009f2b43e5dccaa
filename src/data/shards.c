/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c - the open files of a data set's shards.
 *
 * Up to a cap of files a shard is opened once and stays open: its slot is a pointer that is
 * installed by compare-and-swap, so a lookup is one load.  Beyond the cap the files sit in a
 * list, least recently used first, under a lock, and those that no one holds are closed.  A
 * directory costs no descriptor, so there the cap does not count.  After fork() a lock may be
 * held by a thread that the child does not have; so the list belongs to the process that made
 * it, and a child makes its own. */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/registry.h"
#include "data/shard_data.h"
#include "source/folder_files.h"

#define MAX_OPEN 4096u
#define NONE UINT32_MAX

typedef struct lru_entry {
    stk_file *file;
    uint32_t holders, prev, next;
    int64_t mtime_ns; /* of the last file that was accepted: it is not settled again */
    int accepted;
} lru_entry;

typedef struct lru {
    pid_t pid;
    stk_mutex lock;
    uint32_t oldest, newest, n_open; /* lock */
    struct lru *inherited;           /* the parent's: its files are closed with ours */
    lru_entry e[];                   /* lock */
} lru;

struct stk_shards {
    const stk_index *index;
    const stk_format *format;
    stk_names names;
    uint64_t n;
    uint32_t cap;
    _Atomic(stk_file *) *files; /* n <= cap */
    _Atomic(lru *) lru;         /* n > cap; made at first use */
    stk_frames frames;
};

stk_frames *stk_shards_frames(stk_shards *s)
{
    return &s->frames;
}

int stk_url_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    const stk_source *s = stk_registry_source(o->url);
    int rc;

    *out = NULL;
    rc = stk_is_packed(o->url) ? stk_unpacked_open(o, out, err)
         : s                   ? stk_source_open(s, o, out, err)
             : stk_fail(err, STK_ENOTSUP, "no source reads addresses like this one");
    if (rc < 0)
        stk_error_at(err, o->url, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static uint32_t open_cap(void)
{
    struct rlimit r;
    uint32_t cap = MAX_OPEN;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur / 2 < cap)
        cap = (uint32_t)(r.rlim_cur / 2);
    return cap ? cap : 1;
}

int stk_shards_open(stk_shards **out, const stk_index *ix, const stk_format *format,
                    stk_names *names, stk_error *err)
{
    stk_shards *s = STK_NEW(stk_shards);

    *out = NULL;
    if (!s) {
        stk_names_fini(names);
        return stk_fail_nomem(err, sizeof *s);
    }
    stk_mutex_init(&s->frames.lock);
    s->index = ix;
    s->format = format;
    s->names = *names;
    memset(names, 0, sizeof *names);
    s->n = s->names.n;
    s->cap = s->n && stk_is_folder(s->names.name[0]) ? NONE : open_cap();
    if (s->n != stk_index_shards(ix) || s->n >= NONE) {
        stk_fail(err, STK_EINVAL, "%" PRIu64 " shards, the index has %" PRIu64, s->n,
                 stk_index_shards(ix));
        stk_shards_close(&s);
        return STK_EINVAL;
    }
    if (s->n <= s->cap) {
        s->files = stk_zalloc(s->n, sizeof *s->files);
        if (!s->files) {
            stk_shards_close(&s);
            return stk_fail_nomem(err, sizeof *s->files);
        }
    }
    *out = s;
    return 0;
}

const char *stk_shards_name(const stk_shards *s, uint64_t shard)
{
    return shard < s->n ? s->names.name[shard] : NULL;
}

/* Open the shard's file and compare it with the index, unless it has the mtime that was accepted
 * before. */
static int open_checked(stk_shards *s, uint64_t shard, stk_file **out, int64_t *mtime_ns,
                        stk_error *err)
{
    stk_shard_info was;
    stk_file_info info;
    int rc;

    STK_TRY(stk_index_shard(s->index, shard, &was, err));
    STK_TRY(stk_url_open(&(stk_open_info){ .url = s->names.name[shard],
                                           .etag = was.etag,
                                           .size = was.size,
                                           .mtime_ns = was.mtime_ns,
                                           .store = s->names.store },
                         out, err));
    rc = stk_index_check_file(s->index, shard, *out, mtime_ns, &info, err);
    if (rc < 0) {
        stk_file_close(out);
        stk_error_at(err, s->names.name[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
        return rc;
    }
    *mtime_ns = info.mtime_ns;
    stk_seekable_join(*out, &s->frames);
    return 0;
}

static int acquire_fixed(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err)
{
    stk_file *have = atomic_load_explicit(&s->files[shard], memory_order_acquire), *mine = NULL;
    stk_shard_info info;
    int64_t mtime_ns;

    if (!have) {
        STK_TRY(stk_index_shard(s->index, shard, &info, err));
        mtime_ns = info.mtime_ns;
        STK_TRY(open_checked(s, shard, &mine, &mtime_ns, err));
        if (atomic_compare_exchange_strong_explicit(&s->files[shard], &have, mine,
                                                    memory_order_acq_rel, memory_order_acquire))
            have = mine;
        else
            stk_file_close(&mine);
    }
    *out = have;
    return 0;
}

/* ---- beyond the cap ---- */

static int lru_of(stk_shards *s, lru **out, stk_error *err)
{
    lru *have = atomic_load_explicit(&s->lru, memory_order_acquire), *mine;
    size_t size = sizeof *mine + s->n * sizeof *mine->e;

    *out = have;
    if (have && have->pid == getpid())
        return 0;
    mine = stk_zalloc(1, size);
    if (!mine)
        return stk_fail_nomem(err, size);
    mine->pid = getpid();
    mine->oldest = mine->newest = NONE;
    mine->inherited = have;
    stk_mutex_init(&mine->lock);
    *out = mine;
    if (!atomic_compare_exchange_strong_explicit(&s->lru, &have, mine, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        *out = have; /* another thread of this process was first */
        stk_mutex_destroy(&mine->lock);
        stk_free(mine);
    }
    return 0;
}

static void unlink_locked(lru *l, uint32_t i) STK_REQUIRES(l->lock)
{
    lru_entry *e = &l->e[i];

    assert(l->oldest != NONE && l->newest != NONE); /* i is in the list */
    if (e->prev != NONE)
        l->e[e->prev].next = e->next;
    else
        l->oldest = e->next;
    if (e->next != NONE)
        l->e[e->next].prev = e->prev;
    else
        l->newest = e->prev;
}

static void push_newest_locked(lru *l, uint32_t i) STK_REQUIRES(l->lock)
{
    lru_entry *e = &l->e[i];

    e->prev = l->newest;
    e->next = NONE;
    if (l->newest != NONE)
        l->e[l->newest].next = i;
    else
        l->oldest = i;
    l->newest = i;
}

/* Take the oldest file that no one holds out of the list; NULL while there is room or all are
 * held. */
static stk_file *evict_locked(lru *l, uint32_t cap) STK_REQUIRES(l->lock)
{
    stk_file *f = NULL;

    if (l->n_open <= cap)
        return NULL;
    for (uint32_t i = l->oldest; i != NONE; i = l->e[i].next) {
        if (l->e[i].holders)
            continue;
        f = l->e[i].file;
        assert(f && l->n_open > 0); /* only open files are in the list */
        l->e[i].file = NULL;
        l->n_open--;
        unlink_locked(l, i);
        break;
    }
    return f;
}

static int hold_locked(lru *l, uint32_t i, stk_file **out) STK_REQUIRES(l->lock)
{
    if (!l->e[i].file)
        return 0;
    unlink_locked(l, i);
    push_newest_locked(l, i);
    l->e[i].holders++;
    *out = l->e[i].file;
    return 1;
}

static int acquire_lru(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err)
{
    uint32_t i = (uint32_t)shard;
    stk_file *mine = NULL, *old;
    stk_shard_info info;
    int64_t mtime_ns;
    int held;
    lru *l;

    STK_TRY(lru_of(s, &l, err));
    STK_TRY(stk_index_shard(s->index, shard, &info, err));
    stk_mutex_lock(&l->lock);
    held = hold_locked(l, i, out);
    mtime_ns = l->e[i].accepted ? l->e[i].mtime_ns : info.mtime_ns;
    stk_mutex_unlock(&l->lock);
    if (held)
        return 0;
    STK_TRY(open_checked(s, shard, &mine, &mtime_ns, err));
    stk_mutex_lock(&l->lock);
    if (!hold_locked(l, i, out)) { /* opened meanwhile by another thread: use that one */
        *out = l->e[i].file = mine;
        mine = NULL;
        l->e[i].holders = 1;
        l->e[i].mtime_ns = mtime_ns;
        l->e[i].accepted = 1;
        l->n_open++;
        push_newest_locked(l, i);
    }
    old = evict_locked(l, s->cap);
    stk_mutex_unlock(&l->lock);
    stk_file_close(&mine);
    stk_file_close(&old);
    return 0;
}

int stk_shards_acquire(stk_shards *s, uint64_t shard, stk_file **out, stk_error *err)
{
    *out = NULL;
    if (shard >= s->n)
        return stk_fail(err, STK_EINVAL, "shard %" PRIu64 " of %" PRIu64, shard, s->n);
    return s->files ? acquire_fixed(s, shard, out, err) : acquire_lru(s, shard, out, err);
}

static void release_lru(stk_shards *s, uint64_t shard)
{
    lru *l = shard >= s->n ? NULL : atomic_load_explicit(&s->lru, memory_order_acquire);
    stk_file *old;

    if (!l || l->pid != getpid())
        return;
    stk_mutex_lock(&l->lock);
    if (l->e[shard].holders)
        l->e[shard].holders--;
    old = evict_locked(l, s->cap);
    stk_mutex_unlock(&l->lock);
    stk_file_close(&old);
}

void stk_shards_release(stk_shards *s, uint64_t shard)
{
    if (!s->files)
        release_lru(s, shard);
}

static int lru_unchanged(stk_shards *s, lru *l, stk_error *err)
{
    int rc = 0;

    if (!l || l->pid != getpid())
        return 0;
    stk_mutex_lock(&l->lock);
    for (uint64_t i = 0; rc == 0 && i < s->n; i++)
        if (l->e[i].file)
            rc = stk_named_unchanged(s->names.name[i], l->e[i].file, err);
    stk_mutex_unlock(&l->lock);
    return rc;
}

int stk_shard_data_unchanged(const stk_dataset *d, stk_error *err)
{
    stk_shards *s = ((const stk_shard_data *)d)->shards;
    int rc = 0;

    if (!s->files)
        return lru_unchanged(s, atomic_load_explicit(&s->lru, memory_order_acquire), err);
    for (uint64_t i = 0; rc == 0 && i < s->n; i++) {
        stk_file *f = atomic_load_explicit(&s->files[i], memory_order_acquire);

        rc = f ? stk_named_unchanged(s->names.name[i], f, err) : 0;
    }
    return rc;
}

int stk_shard_data_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    stk_shards *s = ((const stk_shard_data *)d)->shards;

    if (s->files && shard < s->n) {
        *out = atomic_load_explicit(&s->files[shard], memory_order_acquire);
        if (*out)
            return 0;
    }
    return stk_shards_acquire(s, shard, out, err);
}

void stk_shard_data_release(const stk_dataset *d, uint64_t shard)
{
    stk_shards_release(((const stk_shard_data *)d)->shards, shard);
}

static void lru_close(lru *l, uint64_t n)
{
    while (l) {
        lru *up = l->inherited;

        for (uint64_t i = 0; i < n; i++)
            stk_file_close(&l->e[i].file);
        if (l->pid == getpid())
            stk_mutex_destroy(&l->lock);
        stk_free(l);
        l = up;
    }
}

void stk_shards_close(stk_shards **s)
{
    stk_shards *x = *s;

    *s = NULL;
    if (!x)
        return;
    for (uint64_t i = 0; x->files && i < x->n; i++) {
        stk_file *f = atomic_load_explicit(&x->files[i], memory_order_relaxed);

        stk_file_close(&f);
    }
    stk_free((void *)x->files);
    lru_close(atomic_load_explicit(&x->lru, memory_order_relaxed), x->n);
    stk_names_fini(&x->names);
    stk_mutex_destroy(&x->frames.lock);
    stk_free(x);
}
