/* SPDX-License-Identifier: Apache-2.0 */
/* indexer.c - find the index of a list of shards; when there is none, see that exactly one
 * process builds it.
 *
 * Looking needs no lock, because an index appears whole or not at all.  Building happens under a
 * lock file beside it (base/atomic_file.h), and every process that waited for the lock looks again
 * first.  The kernel drops the lock of a process that dies; what it left is removed by the next
 * builder. */
#include "indexer/indexer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/halt.h"
#include "base/registry.h"
#include "data/shard_data.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"

#define STAT_ALL_UP_TO 4096u /* shards; beyond it they are checked when they are first opened */
#define LOCK_LOOK_NS 10000000
#define SETTLE_AT_OPEN 256u /* shards with another mtime whose content is compared at once */

/* An absolute name; a directory keeps the end that says what it is (source/folder_files.c). */
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

static void name_part(const stk_indexer *x, char *path, size_t size)
{
    size_t len = strlen(path);

    if (len > 4)
        snprintf(path + len - 4, size - len + 4, ".part-%u-of-%u.idx", x->part, x->parts);
}

/* Of the names every parts-th one.  Its index is beside that of the whole, which is then made of
 * it. */
static int take_part(stk_indexer *x, stk_error *err)
{
    stk_names all = x->names;
    int rc = 0;

    if (stk_is_folder(all.name[0]))
        return stk_fail(
            err, STK_EINVAL,
            "folders of pictures are not indexed in parts: their classes are numbered as a whole");
    x->names = (stk_names){ .store = all.store };
    for (size_t i = x->part; rc == 0 && i < all.n; i += x->parts) {
        rc = stk_names_add(&x->names, all.name[i], strlen(all.name[i]), err);
        if (rc == 0 && i < all.n_samples)
            rc = stk_names_promise(&x->names, all.samples[i], err);
    }
    if (rc == 0 && !x->names.n)
        rc = stk_fail(err, STK_EINVAL,
                      "part %u of %u has no shard: there are %zu, take fewer parts", x->part,
                      x->parts, all.n);
    stk_names_fini(&all);
    name_part(x, x->home.beside, sizeof x->home.beside);
    name_part(x, x->home.cache, sizeof x->home.cache);
    x->home.remote[0] = 0; /* there is only the whole */
    return rc;
}

void stk_indexer_drop_parts(const stk_indexer *x)
{
    const char *base = strrchr(x->path, '/');
    size_t len = base ? strlen(base + 1) : 0;
    char dir[1280], path[1600];
    struct dirent *e;
    DIR *d;

    if (len <= 4)
        return;
    snprintf(dir, sizeof dir, "%.*s", (int)(base - x->path), x->path);
    d = opendir(dir);
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, base + 1, len - 4) && !strncmp(e->d_name + len - 4, ".part-", 6)) {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            (void)!unlink(path);
        }
    if (d)
        closedir(d);
}

static int names_resolve(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    stk_names found = { .store = x->names.store, .cache_dir = x->cache_dir };
    int rc = stk_urls_expand(urls, n, &found, err);

    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = name_resolve(&x->names, found.name[i], err);
    x->names.samples = found.samples;
    x->names.n_samples = x->names.cap_samples = found.n_samples;
    found.samples = NULL;
    if (rc == 0 && found.left_out)
        stk_log_line(&x->log, STK_LOG_WARN,
                     "a folder has .tar files and pictures: the .tar files are read, the pictures "
                     "are left out");
    stk_names_fini(&found);
    if (rc == 0)
        rc = names_check(x, err);
    if (rc == 0)
        rc = stk_index_home_find(&x->home, &x->names, x->cache_dir, err);
    return rc == 0 && x->parts ? take_part(x, err) : rc;
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

/* touched: only its mtime is another one.  Then a look at samples of its content has to do: all of
 * its members are compared when it is first read. */
static int check_shard(const stk_indexer *x, const stk_index *ix, uint64_t i, int touched,
                       stk_error *err)
{
    const char *name = x->names.name[i];
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(name, x->names.store), &f, err);

    if (rc == 0)
        rc = touched ? stk_index_same_content(ix, i, f, err)
                     : stk_index_check_file(ix, i, f, NULL, NULL, err);
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int touched_since(const char *name, stk_error *err)
{
    int rc = stk_fail(err, STK_ESTALE, "shard was written to since it was indexed");

    stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int check_shards(const stk_indexer *x, const stk_index *ix, stk_error *err)
{
    uint32_t touched = 0;

    if (x->names.n > STAT_ALL_UP_TO && !x->thorough && !x->grow)
        return 0;
    for (size_t i = 0; i < x->names.n; i++) {
        const char *name = x->names.name[i];
        stk_shard_info was;
        struct stat st;
        int seen = name[0] == '/' && stat(name, &st) == 0, other = 0;

        if (name[0] != '/') { /* reads compare the version; only a thorough look asks for it */
            if (x->thorough || stk_is_many(name) || stk_is_coco(name))
                STK_TRY(check_shard(x, ix, i, 0, err));
            continue;
        }
        STK_TRY(stk_index_shard(ix, i, &was, err));
        if (seen && (uint64_t)st.st_size == was.size && !stk_is_folder(name)) {
            int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;

            if (mtime_ns == was.mtime_ns)
                continue;
            if (x->thorough) /* columns and seek points may be of what was there before */
                return touched_since(name, err);
            other = 1;
            if (touched++ >= SETTLE_AT_OPEN)
                continue;
        }
        STK_TRY(check_shard(x, ix, i, other, err));
    }
    if (touched)
        stk_log_line(&x->log, STK_LOG_INFO,
                     "%u shard(s) have changed times since they were indexed: their members are "
                     "compared when they are first read; stoker index ... settles it for good",
                     touched);
    return 0;
}

/* 1: every shard is what was indexed, or a folder to which files were only added. */
static int only_added(const stk_indexer *x, const stk_index *ix)
{
    int same = 1;

    for (size_t i = 0; same && i < x->names.n; i++) {
        stk_file *f = NULL;

        same = stk_url_open(STK_URL(x->names.name[i], x->names.store), &f, NULL) == 0 &&
               (stk_index_check_file(ix, i, f, NULL, NULL, NULL) == 0 ||
                stk_index_only_added(ix, i, f));
        stk_file_close(&f);
    }
    return same;
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
    format = stk_registry_find(NULL, STK_PLUGIN_FORMAT, stk_index_format(ix));
    if (format)
        rc = x->thorough ? stk_index_check_all(ix, err) : 0;
    else
        rc = stk_fail(err, STK_ENOTSUP, "index %s is for the format %s, which is not here", path,
                      stk_index_format(ix));
    if (rc == 0)
        rc = check_shards(x, ix, err);
    if (rc < 0) {
        x->grown |= rc == STK_ESTALE && x->grow && only_added(x, ix);
        stk_index_close(&ix);
        return rc;
    }
    x->index = ix;
    x->format = format;
    snprintf(x->path, sizeof x->path, "%s", path);
    return 0;
}

/* Beside the data, then in the cache.  A bad one beside is no reason to refuse a good one in the
 * cache: that is how one repairs the index of data that cannot be written to. */
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

/* 0: held, or there are no locks there.  STK_ECLOSED: the caller wants it no more.  STK_EIO:
 * nothing can be written there.  Looks now and then instead of sleeping in the kernel, so that the
 * caller can be asked.  The folder is made each time: a holder that failed removes it. */
static int lock_take(stk_lock_file *l, const char *index, int parents, const stk_indexer *x)
{
    char dir[1280], path[1300];
    int told = 0, rc;

    if (!index[0])
        return STK_ENOTFOUND;
    folder_of(index, dir, sizeof dir);
    snprintf(path, sizeof path, "%.*s.lock", (int)(strlen(index) - strlen(".idx")), index);
    for (int gone = 0; gone < 100;) {
        rc = folder_make(dir, parents) < 0 ? STK_EIO : stk_lock_try(l, path);
        if (rc == 0 || rc == STK_ENOMEM || (rc < 0 && errno != ENOENT))
            return rc;
        gone += rc < 0;
        if (rc < 0)
            continue;
        if (!told++)
            stk_log_line(&x->log, STK_LOG_INFO,
                         "waiting for another process that builds the index (%s)", path);
        if ((x->progress && x->progress(x->progress_cookie, 0, 0)) || stk_halt_wanted())
            return STK_ECLOSED;
        nanosleep(&(struct timespec){ 0, LOCK_LOOK_NS }, NULL);
    }
    return STK_EIO;
}

/* ---- open, repair ---- */

static int may_build(int rc, int repair)
{
    return rc == STK_END ||
           (repair && (rc == STK_ESTALE || rc == STK_ECORRUPT || rc == STK_ENOTSUP));
}

/* Under the lock of `path`: look again, then build.  STK_END: this home cannot be written. */
static int build_at(stk_indexer *x, const char *path, int repair, stk_error *err)
{
    char dir[1280];
    stk_lock_file l = { .fd = -1 };
    int rc;

    x->sys = 0;
    rc = lock_take(&l, path, path != x->home.beside, x);
    if (rc == STK_ECLOSED)
        return stk_fail(err, rc, "stopped by the caller");
    if (rc == STK_ENOMEM)
        return stk_fail_nomem(err, sizeof l);
    if (rc < 0) {
        x->sys = errno;
        return STK_END;
    }
    rc = x->force ? STK_END : look(x, err);
    if (rc == STK_END && !x->force && path == x->home.cache && stk_indexer_fetch(x) == 0)
        rc = look(x, err);
    if (may_build(rc, repair)) {
        stk_atomic_sweep_like(path);
        rc = stk_indexer_build(x, path, err);
    }
    stk_lock_drop(&l);
    if (rc < 0) {
        folder_of(path, dir, sizeof dir);
        (void)!rmdir(dir); /* only if it is empty: leave nothing behind */
    }
    return rc == STK_EIO && x->sys ? STK_END : rc;
}

static int find_or_build(stk_indexer *x, int repair, stk_error *err)
{
    char why[96], line[400];
    int rc = x->force ? STK_END : look(x, err);

    if (!may_build(rc, repair || x->grown))
        return rc;
    if (x->grown)
        stk_log_line(&x->log, STK_LOG_INFO, "files were added: the index is built again");
    if (rc < 0 && x->keep_numbers) { /* who only looks at the data is told what was wrong */
        stk_error_format(err, line, sizeof line);
        stk_log_line(&x->log, STK_LOG_WARN, "the index is made again: %s", line);
    }
    rc = build_at(x, x->home.beside, repair || x->grown, err);
    if (rc == STK_END && x->home.beside[0] && x->home.cache[0]) /* read-only data is nothing odd */
        stk_log_line(&x->log, stk_is_full(x->sys) ? STK_LOG_WARN : STK_LOG_INFO,
                     "the index goes to %s: %s can't be written (%s)", x->home.cache,
                     x->home.beside, strerror_r(x->sys, why, sizeof why));
    if (rc == STK_END)
        rc = build_at(x, x->home.cache, repair || x->grown, err);
    if (rc != STK_END)
        return rc;
    if (repair)
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
    stk_lock_file l = { .fd = -1 };
    int rc;

    memcpy(path, x->path, sizeof path);
    x->sys = 0;
    rc = lock_take(&l, path, 0, x);
    if (rc == STK_ECLOSED)
        return stk_fail(err, rc, "stopped by the caller");
    if (rc == STK_ENOMEM)
        return stk_fail_nomem(err, sizeof l);
    if (rc < 0)
        return STK_END;
    stk_index_close(&x->index);
    rc = look_at(x, path, err);
    if (rc == STK_END)
        rc = stk_fail(err, STK_ENOTFOUND, "index %s went away while its columns were added", path);
    if (rc == 0)
        rc = stk_indexer_lacks_columns(x, err);
    if (rc > 0) {
        stk_atomic_sweep_like(path);
        rc = stk_indexer_add_columns(x, path, err);
    }
    stk_lock_drop(&l);
    return rc == STK_EIO && x->sys ? STK_END : rc;
}

static int columns_ensure(stk_indexer *x, int repair, stk_error *err)
{
    int built = x->built, rc = stk_indexer_media_columns(x, err);

    if (rc == 0)
        rc = stk_indexer_lacks_columns(x, err);
    if (rc <= 0)
        return rc;
    rc = x->path[0] ? columns_at(x, err) : STK_END;
    x->built |= built;
    if (rc != STK_END)
        return rc;
    if (repair)
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

/* Another tool's index lists the shards (source/shard_list.h): has each as many samples as it
 * says? */
static int check_promised(const stk_indexer *x, stk_error *err)
{
    stk_shard_info s;

    for (size_t i = 0; i < x->names.n_samples && !x->torn; i++) {
        STK_TRY(stk_index_shard(x->index, i, &s, err));
        if (x->names.samples[i] == UINT64_MAX || x->names.samples[i] == s.samples)
            continue;
        (void)stk_fail(err, STK_ESTALE,
                       "the shard has %" PRIu64 " samples, the list that names it says %" PRIu64
                       ": make the list again, or open the shards by a pattern",
                       s.samples, x->names.samples[i]);
        stk_error_at(err, x->names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_ESTALE;
    }
    return 0;
}

int stk_indexer_open(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    int rc;

    STK_TRY(names_resolve(x, urls, n, err));
    STK_TRY(stk_classes_check(x, err));
    rc = find_or_build(x, 0, err);
    if ((x->salvage && (rc == STK_ECORRUPT || rc == STK_ESTALE)) ||
        (x->skip_damaged && rc == STK_ECORRUPT)) {
        x->torn = 1;
        /* on disk it would be taken for the index of whole shards */
        rc = stk_indexer_build(x, NULL, err);
    }
    STK_TRY(rc);
    STK_TRY(check_promised(x, err));
    STK_TRY(columns_ensure(x, 0, err));
    return stk_classes_keep(x, err);
}

int stk_indexer_repair(stk_indexer *x, const char *const *urls, size_t n, stk_error *err)
{
    x->thorough = 1;
    STK_TRY(names_resolve(x, urls, n, err));
    if (x->keep_numbers)
        STK_TRY(stk_classes_check(x, err));
    STK_TRY(find_or_build(x, 1, err));
    STK_TRY(check_promised(x, err));
    STK_TRY(columns_ensure(x, 1, err));
    return stk_classes_keep(x, err);
}

void stk_indexer_fini(stk_indexer *x)
{
    stk_names_fini(&x->names);
    stk_index_close(&x->index);
}
