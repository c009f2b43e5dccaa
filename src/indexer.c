/* SPDX-License-Identifier: Apache-2.0 */
/* indexer.c - find the index of a list of shards; when there is none, see that exactly one
 * process builds it.
 *
 * Looking needs no lock, because an index appears whole or not at all.  Building happens under a
 * lock file beside it, and everyone who waited for the lock looks again first.  The kernel drops
 * the lock of a process that dies; what it left is removed by the next builder.  The lock file
 * itself is removed by its holder, so whoever gets a lock makes sure that it is still on the
 * file of that name. */
#include "indexer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/registry.h"
#include "fetch/data.h"
#include "source/folder.h"

#define STAT_ALL_UP_TO 4096u /* shards; beyond it they are checked when they are first opened */
#define LOCK_LOOK_NS 10000000
#define SETTLE_AT_OPEN 256u /* shards with another mtime whose content is compared at once */

/* An absolute name; a directory keeps the end that says what it is (source/folder.h). */
static int name_resolve(stk_names *out, const char *name, stk_error *err)
{
    const char *end = stk_is_flat(name) ? "/." : stk_is_folder(name) ? "/" : "";
    size_t len, room;
    char *path = NULL, *grown;
    int rc;

    STK_TRY(stk_path_absolute(name, &path, err));
    len = strlen(path);
    room = len + strlen(end) + 1;
    grown = stk_grow(path, len + 1, room);
    if (!grown) {
        stk_free(path);
        return stk_fail_nomem(err, room);
    }
    memcpy(grown + len, end, strlen(end) + 1);
    rc = stk_names_add(out, grown, room - 1, err);
    stk_free(grown);
    return rc;
}

static int names_check(const stk_indexer *x, stk_error *err)
{
    const char *first = x->names.n ? x->names.name[0] : "";

    if (!x->names.n)
        return stk_fail(err, STK_ENOTFOUND, "no shards are named");
    for (size_t i = 1; i < x->names.n; i++)
        if (stk_is_folder(x->names.name[i]) != stk_is_folder(first))
            return stk_fail(err, STK_EINVAL,
                            "folders of pictures and files (%.60s, %.60s) make no one data set: "
                            "open them apart and give the loader both",
                            first, x->names.name[i]);
    return 0;
}

static int names_resolve(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    stk_names found = { 0 };
    int rc = stk_urls_expand(urls, n, &found, err);

    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = name_resolve(&x->names, found.name[i], err);
    if (rc == 0 && found.left_out)
        stk_log_line(&x->log, STK_LOG_WARN,
                     "a folder has .tar files and pictures: the .tar files are read, the pictures "
                     "are left out");
    stk_names_fini(&found);
    if (rc == 0)
        rc = names_check(x, err);
    if (rc == 0)
        rc = stk_index_home_find(&x->home, &x->names, x->cache_dir, err);
    return rc;
}

/* Names are compared too: a hash of names may meet another list's. */
static int same_list(const stk_indexer *x, const stk_index *ix)
{
    stk_shard_info s;

    if (stk_index_shards(ix) != x->names.n)
        return 0;
    for (size_t i = 0; i < x->names.n; i++)
        if (stk_index_shard(ix, i, &s, NULL) < 0 ||
            strcmp(s.name, stk_index_home_name(&x->home, x->names.name[i])) != 0)
            return 0;
    return !x->format_name || !strcmp(x->format_name, stk_index_format(ix));
}

static int check_shard(const stk_index *ix, uint64_t i, const char *name, stk_error *err)
{
    stk_file *f = NULL;
    int rc = stk_url_open(name, &f, err);

    if (rc == 0)
        rc = stk_index_check_file(ix, i, f, NULL, NULL, err);
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int check_shards(const stk_indexer *x, const stk_index *ix, stk_error *err)
{
    uint32_t settled = 0;

    if (x->names.n > STAT_ALL_UP_TO)
        return 0;
    for (size_t i = 0; i < x->names.n; i++) {
        const char *name = x->names.name[i];
        stk_shard_info was;
        struct stat st;
        int seen = name[0] == '/' && stat(name, &st) == 0;

        if (name[0] != '/')
            continue;
        STK_TRY(stk_index_shard(ix, i, &was, err));
        if (seen && (uint64_t)st.st_size == was.size && !stk_is_folder(name)) {
            int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;

            if (mtime_ns == was.mtime_ns || settled++ >= SETTLE_AT_OPEN)
                continue;
        }
        STK_TRY(check_shard(ix, i, name, err));
    }
    return 0;
}

/* 0: x has the index; STK_END: there is none at this path. */
static int look_at(stk_indexer *x, const char *path, stk_error *err)
{
    stk_index *ix = NULL;
    const stk_format *format;
    int rc;

    if (!path[0])
        return STK_END;
    rc = stk_index_open(&ix, path, err);
    if (rc < 0)
        return rc == STK_ENOTFOUND ? STK_END : rc;
    if (!same_list(x, ix)) {
        stk_index_close(&ix);
        return STK_END;
    }
    format = stk_registry_find(STK_PLUGIN_FORMAT, stk_index_format(ix));
    if (format)
        rc = x->thorough ? stk_index_check_all(ix, err) : 0;
    else
        rc = stk_fail(err, STK_ENOTSUP, "index %s is for the format %s, which is not here", path,
                      stk_index_format(ix));
    if (rc == 0)
        rc = check_shards(x, ix, err);
    if (rc < 0) {
        stk_index_close(&ix);
        return rc;
    }
    x->index = ix;
    x->format = format;
    snprintf(x->path, sizeof x->path, "%s", path);
    return 0;
}

/* Beside the data, then in the cache.  A bad one beside is no reason to refuse a good one in the
 * cache: that is how one mends the index of data that cannot be written to. */
static int look(stk_indexer *x, stk_error *err)
{
    stk_error other;
    int rc = look_at(x, x->home.beside, err), rc2;

    if (rc == 0)
        return 0;
    stk_error_clear(&other);
    rc2 = look_at(x, x->home.cache, &other);
    if (rc2 < 0 && rc == STK_END) {
        if (err)
            *err = other;
        return rc2;
    }
    return rc2 == 0 ? 0 : rc;
}

/* ---- the lock ---- */

typedef struct lock {
    char path[1300];
    int fd;
} lock;

static int folder_make(char *path, int parents)
{
    if (parents)
        for (char *p = path + 1; *p; p++)
            if (*p == '/') {
                *p = 0;
                (void)!mkdir(path, 0777); /* the last one's answer counts */
                *p = '/';
            }
    return mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
}

static void folder_of(const char *path, char *dir, size_t size)
{
    snprintf(dir, size, "%s", path);
    *strrchr(dir, '/') = 0;
}

/* Is fd still the file of this name? */
static int lock_current(const lock *l)
{
    struct stat a, b;

    return fstat(l->fd, &a) == 0 && stat(l->path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* 0: held; 1: there are no locks on this file system, at worst the index is built twice.  Looks now
 * and then instead of sleeping in the kernel, so that the caller can be asked whether it still
 * wants it. */
static int lock_wait(const lock *l, const stk_indexer *x)
{
    int told = 0;

    while (flock(l->fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return 1;
        if (!told++)
            stk_log_line(&x->log, STK_LOG_INFO,
                         "waiting for another process that builds the index (%s)", l->path);
        if (x->progress && x->progress(x->progress_cookie, 0, 0))
            return STK_ECLOSED;
        nanosleep(&(struct timespec){ 0, LOCK_LOOK_NS }, NULL);
    }
    return 0;
}

/* 1: locked; 0: the file was removed meanwhile, try again; STK_EIO: this folder cannot be
 * written; STK_ECLOSED. */
static int lock_try(lock *l, char *dir, int parents, const stk_indexer *x)
{
    int rc;

    if (folder_make(dir, parents) < 0)
        return STK_EIO;
    l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return errno == ENOENT ? 0 : STK_EIO;
    rc = lock_wait(l, x);
    if (rc == 0 && lock_current(l))
        rc = 1;
    if (rc > 0)
        return rc;
    close(l->fd);
    l->fd = -1;
    return rc;
}

/* 0: held.  STK_ECLOSED: the caller has had enough; else negative: nothing can be written there. */
static int lock_take(lock *l, const char *index, int parents, const stk_indexer *x)
{
    char dir[1280];
    int got = 0;

    l->fd = -1;
    if (!index[0])
        return STK_ENOTFOUND;
    folder_of(index, dir, sizeof dir);
    snprintf(l->path, sizeof l->path, "%.*s.lock", (int)(strlen(index) - strlen(".idx")), index);
    for (int i = 0; i < 1000 && !got; i++)
        got = lock_try(l, dir, parents, x);
    return got > 0 ? 0 : got < 0 ? got : STK_EIO;
}

static void lock_drop(lock *l)
{
    if (l->fd < 0)
        return;
    unlink(l->path);
    flock(l->fd, LOCK_UN); /* also where a forked child still has the descriptor */
    close(l->fd);
    l->fd = -1;
}

/* Under the lock nobody else writes this index, so temporary files of it are those of the dead. */
static void sweep(const char *index)
{
    const char *base = strrchr(index, '/') + 1;
    char dir[1280], path[1600];
    struct dirent *e;
    DIR *d;

    folder_of(index, dir, sizeof dir);
    d = opendir(dir);
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, base, strlen(base)) &&
            !strncmp(e->d_name + strlen(base), ".tmp.", 5)) {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            unlink(path);
        }
    if (d)
        closedir(d);
}

/* ---- open, mend ---- */

static int may_build(int rc, int mend)
{
    return rc == STK_END || (mend && (rc == STK_ESTALE || rc == STK_ECORRUPT || rc == STK_ENOTSUP));
}

/* Under the lock of `path`: look again, then build.  STK_END: this home cannot be written. */
static int build_at(stk_indexer *x, const char *path, int mend, stk_error *err)
{
    char dir[1280];
    lock l;
    int rc;

    rc = lock_take(&l, path, path != x->home.beside, x);
    if (rc == STK_ECLOSED)
        return stk_fail(err, rc, "stopped by the caller");
    if (rc < 0)
        return STK_END;
    rc = x->force ? STK_END : look(x, err);
    if (may_build(rc, mend)) {
        sweep(path);
        rc = stk_indexer_build(x, path, err);
    }
    lock_drop(&l);
    if (rc < 0) {
        folder_of(path, dir, sizeof dir);
        (void)!rmdir(dir); /* only if it is empty: leave nothing behind */
    }
    return rc;
}

static int find_or_build(stk_indexer *x, int mend, stk_error *err)
{
    int rc = x->force ? STK_END : look(x, err);

    if (!may_build(rc, mend))
        return rc;
    rc = build_at(x, x->home.beside, mend, err);
    if (rc == STK_END)
        rc = build_at(x, x->home.cache, mend, err);
    if (rc != STK_END)
        return rc;
    if (mend)
        return stk_fail(
            err, STK_EIO,
            "nowhere to write the index: neither %s nor %s can be written; set $STOKER_CACHE",
            x->home.root[0] ? x->home.root : "the shards' folder",
            x->home.cache[0] ? x->home.cache : "a cache");
    if (x->home.cache[0])
        stk_log_line(&x->log, STK_LOG_WARN,
                     "neither %s nor %s can be written: the index stays in memory and is built "
                     "again next time; set $STOKER_CACHE to a folder that can",
                     x->home.beside, x->home.cache);
    return stk_indexer_build(x, NULL, err);
}

/* Under the lock of the index: look whether somebody else was quicker, then add them.  STK_END: it
 * cannot be written. */
static int columns_at(stk_indexer *x, stk_error *err)
{
    char path[1280];
    lock l;
    int rc;

    memcpy(path, x->path, sizeof path);
    rc = lock_take(&l, path, 0, x);
    if (rc == STK_ECLOSED)
        return stk_fail(err, rc, "stopped by the caller");
    if (rc < 0)
        return STK_END;
    stk_index_close(&x->index);
    rc = look_at(x, path, err);
    if (rc == STK_END)
        rc = stk_fail(err, STK_ENOTFOUND, "index %s went away while its columns were added", path);
    if (rc == 0)
        rc = stk_indexer_lacks_columns(x, err);
    if (rc > 0) {
        sweep(path);
        rc = stk_indexer_add_columns(x, path, err);
    }
    lock_drop(&l);
    return rc;
}

static int columns_ensure(stk_indexer *x, int mend, stk_error *err)
{
    int built = x->built, rc = stk_indexer_lacks_columns(x, err);

    if (rc <= 0)
        return rc;
    rc = x->path[0] ? columns_at(x, err) : STK_END;
    x->built |= built;
    if (rc != STK_END)
        return rc;
    if (mend)
        return stk_fail(err, STK_EIO,
                        "index %s cannot be written, so no columns were added; opened with "
                        "columns= they are read into memory",
                        x->path);
    stk_log_line(&x->log, STK_LOG_WARN,
                 "index %s cannot be written: its columns stay in memory and are read again next "
                 "time",
                 x->path[0] ? x->path : "(memory)");
    return stk_indexer_add_columns(x, NULL, err);
}

int stk_indexer_open(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    STK_TRY(names_resolve(x, urls, n, err));
    STK_TRY(stk_classes_check(x, err));
    STK_TRY(find_or_build(x, 0, err));
    STK_TRY(columns_ensure(x, 0, err));
    return stk_classes_keep(x, err);
}

int stk_indexer_mend(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    x->thorough = 1;
    STK_TRY(names_resolve(x, urls, n, err));
    if (x->keep_numbers)
        STK_TRY(stk_classes_check(x, err));
    STK_TRY(find_or_build(x, 1, err));
    STK_TRY(columns_ensure(x, 1, err));
    return stk_classes_keep(x, err);
}

void stk_indexer_fini(stk_indexer *x)
{
    stk_names_fini(&x->names);
    stk_index_close(&x->index);
}
