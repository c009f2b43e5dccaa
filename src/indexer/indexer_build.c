/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_build.c - scan all shards in parallel and write their index.
 *
 * First a survey: every shard is opened and its size and mtime noted, so that progress has a
 * total and parts of older indexes can be matched.  Then one job a shard: carried over, or
 * scanned.  A shard that changed between survey and end of its scan is an error: an index of it
 * would be stale at birth. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/registry.h"
#include "data/shard_data.h"
#include "indexer/indexer.h"
#include "base/jobs.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"

#define MAX_OLD 1024u /* parts of an index are as many */
#define PROGRESS_EVERY_NS 50000000u
#define LOG_AFTER_NS 2000000000u /* without progress(): when the log is told first, and again */
#define LOG_EVERY_NS 10000000000u

typedef struct named { /* an old index's shards by name */
    uint64_t hash, shard;
} named;

typedef struct old_index {
    stk_index *index;
    named *by_name; /* sorted by hash */
    uint64_t n;
} old_index;

typedef struct build {
    stk_indexer *x;
    stk_file_info *info; /* of every shard, by the survey */
    char **warning;      /* of every shard; NULL: there is none */
    stk_index_writer *writer;
    old_index old[MAX_OLD];
    size_t n_old;
    int old_trusted; /* they are of this very folder: name, size and mtime are enough */
    uint64_t total;
    _Atomic uint64_t done, reused;
    _Atomic int stopped;
    pthread_t caller;                    /* the only one that calls progress() */
    uint64_t told_ns;                    /* caller */
    uint64_t begun_ns, logged_ns, quiet; /* caller, without progress() */
} build;

typedef struct scan_progress {
    build *b;
    uint64_t seen;
} scan_progress;

static int by_hash(const void *a, const void *b)
{
    const named *x = a, *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* ---- progress ---- */

/* Opening that takes long says how far it is, where no one draws a bar. */
static void tell_log(build *b, uint64_t now)
{
    uint64_t done = atomic_load_explicit(&b->done, memory_order_relaxed);

    if (!b->begun_ns) {
        b->begun_ns = now;
        b->logged_ns = now + LOG_AFTER_NS - LOG_EVERY_NS;
    }
    if (now < b->logged_ns + LOG_EVERY_NS || !b->total)
        return;
    b->logged_ns = now;
    stk_log_line(
        &b->x->log, STK_LOG_WARN,
        "opening takes %.0f s so far: the index of %zu shards is built, %.0f %% of %.1f GB; "
        "`stoker index` does it beforehand",
        (double)(now - b->begun_ns) * 1e-9, b->x->names.n, 100 * (double)done / (double)b->total,
        (double)b->total * 1e-9);
}

static int tell(build *b, int always)
{
    uint64_t now;

    if (!pthread_equal(b->caller, pthread_self()))
        return 0;
    if (!b->x->progress && !always && ++b->quiet % 256)
        return 0;
    now = stk_now_ns();
    if (!b->x->progress) {
        tell_log(b, now);
        return 0;
    }
    if (always || now - b->told_ns >= PROGRESS_EVERY_NS) {
        b->told_ns = now;
        if (b->x->progress(b->x->progress_cookie,
                           atomic_load_explicit(&b->done, memory_order_relaxed), b->total))
            atomic_store_explicit(&b->stopped, 1, memory_order_relaxed);
    }
    return atomic_load_explicit(&b->stopped, memory_order_relaxed);
}

static int tick(void *cookie)
{
    return tell(cookie, 1);
}

static int advance(void *cookie, uint64_t offset)
{
    scan_progress *p = cookie;

    if (offset > p->seen) {
        atomic_fetch_add_explicit(&p->b->done, offset - p->seen, memory_order_relaxed);
        p->seen = offset;
    }
    tell(p->b, 0);
    return atomic_load_explicit(&p->b->stopped, memory_order_relaxed);
}

/* ---- older indexes ---- */

static void old_add(build *b, const char *path)
{
    old_index *o = &b->old[b->n_old];
    stk_shard_info s;

    memset(o, 0, sizeof *o);
    if (stk_index_open(&o->index, path, NULL) < 0)
        return; /* damaged: nothing to carry over */
    o->n = stk_index_shards(o->index);
    o->by_name = strcmp(stk_index_format(o->index), b->x->format->name)
                     ? NULL
                     : stk_zalloc(o->n + 1, sizeof *o->by_name);
    if (!o->by_name) {
        stk_index_close(&o->index);
        return;
    }
    for (uint64_t i = 0; i < o->n; i++) {
        if (stk_index_shard(o->index, i, &s, NULL) < 0)
            continue;
        o->by_name[i] = (named){ stk_hash64(0, s.name, strlen(s.name)), i };
    }
    qsort(o->by_name, o->n, sizeof *o->by_name, by_hash);
    b->n_old++;
}

/* The index at `path` itself, stale as it may be, then others in its folder. */
static void old_find(build *b, const char *path)
{
    const char *base = strrchr(path, '/') + 1;
    char dir[1280], other[1600];
    struct dirent *e;
    DIR *d;

    old_add(b, path);
    snprintf(dir, sizeof dir, "%.*s", (int)(base - path), path);
    d = opendir(dir);
    while (d && b->n_old < MAX_OLD && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        if (len < 4 || strcmp(e->d_name + len - 4, ".idx") != 0 || !strcmp(e->d_name, base))
            continue;
        snprintf(other, sizeof other, "%s%s", dir, e->d_name);
        old_add(b, other);
    }
    if (d)
        closedir(d);
}

/* The old index's shard with this name, size and mtime; UINT64_MAX: none. */
static uint64_t old_match(const old_index *o, const char *name, const stk_file_info *info)
{
    uint64_t hash = stk_hash64(0, name, strlen(name)), lo = 0, hi = o->n;
    stk_shard_info s;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (o->by_name[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < o->n && o->by_name[lo].hash == hash; lo++)
        if (stk_index_shard(o->index, o->by_name[lo].shard, &s, NULL) == 0 &&
            !strcmp(s.name, name) && s.mtime_ns == info->mtime_ns &&
            (stk_is_folder(name) || (s.size == info->size && !strcmp(s.etag, info->etag))))
            return o->by_name[lo].shard;
    return UINT64_MAX;
}

/* In the cache folders of one name are many: there the content decides.  Of a directory only its
 * own mtime was compared so far. */
static int old_same_content(const build *b, const old_index *o, uint64_t from, const char *name)
{
    stk_file *f = NULL;
    int same;

    if (b->old_trusted && !stk_is_folder(name))
        return 1;
    same = stk_url_open(STK_URL(name, b->x->names.store), &f, NULL) == 0 &&
           (stk_is_folder(name) ? stk_index_check_file(o->index, from, f, NULL, NULL, NULL)
                                : stk_index_same_content(o->index, from, f, NULL)) == 0;
    stk_file_close(&f);
    return same;
}

/* 0: carried over; STK_END: it has to be scanned. */
static int carry_over(build *b, uint64_t i, const stk_shard_info *now, stk_error *err)
{
    stk_shard_info info = *now, was;

    for (size_t k = 0; k < b->n_old; k++) {
        uint64_t from = old_match(&b->old[k], now->name, &b->info[i]);
        int rc;

        if (from == UINT64_MAX || !old_same_content(b, &b->old[k], from, b->x->names.name[i]))
            continue;
        if (stk_is_folder(now->name) &&
            stk_index_shard(b->old[k].index, from, &was, NULL) == 0) { /* what the walk found */
            info.size = was.size;
            info.etag = was.etag;
        }
        rc = stk_index_writer_reuse(b->writer, i, &info, b->old[k].index, from, err);
        if (rc == STK_ECORRUPT || rc == STK_EIO)
            continue; /* the old segment is bad; a writer that failed says so again */
        if (rc == 0)
            atomic_fetch_add_explicit(&b->reused, 1, memory_order_relaxed);
        return rc;
    }
    return STK_END;
}

/* ---- jobs ---- */

static int survey_shard(void *cookie, uint64_t i, stk_error *err)
{
    build *b = cookie;
    stk_file *f = NULL;
    int rc;

    STK_TRY(stk_url_open(STK_URL(b->x->names.name[i], b->x->names.store), &f, err));
    rc = stk_file_stat(f, &b->info[i], err);
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, b->x->names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* What must be the same after the scan; of a directory, also those in it. */
static int state_of(stk_file *f, stk_file_info *out, stk_error *err)
{
    return stk_folder_path(f) ? stk_folder_state(f, out, err) : stk_file_stat(f, out, err);
}

static int scan_file(build *b, uint64_t i, stk_file *f, stk_index_part *part, stk_shard_info *info,
                     stk_error *err)
{
    scan_progress p = { b, 0 };
    stk_file_info now = { 0 };
    int folder = stk_folder_path(f) != NULL, pairs = stk_is_many(b->x->names.name[i]), rc;

    if (folder) { /* info borrows the etag */
        STK_TRY(state_of(f, &b->info[i], err));
        info->mtime_ns = b->info[i].mtime_ns;
    }
    stk_index_part_progress(part, advance, &p);
    stk_index_part_scan(part)->salvage = b->x->torn && b->x->salvage;
    stk_index_part_scan(part)->skip_damaged = b->x->torn;
    stk_index_part_scan(part)->encoding = b->x->encoding;
    stk_index_part_scan(part)->name = b->x->names.name[i];
    rc = b->x->format->index(f, info->size, stk_index_part_scan(part), err);
    if (atomic_load_explicit(&b->stopped, memory_order_relaxed))
        return stk_fail(err, STK_ECLOSED, "stopped by the caller");
    if (rc < 0)
        return rc;
    if (folder || pairs)
        info->size = p.seen;
    else
        STK_TRY(stk_index_part_print(part, f, info->size, &info->print, err));
    STK_TRY(state_of(f, &now, err));
    if (now.size != b->info[i].size || now.mtime_ns != info->mtime_ns ||
        strcmp(now.etag, info->etag) != 0)
        return stk_fail(err, STK_ESTALE,
                        "shard changed while it was indexed (%" PRIu64 " bytes, then %" PRIu64
                        "); try again when no one writes it",
                        info->size, now.size);
    advance(&p, info->size);
    return stk_index_writer_add(b->writer, i, info, part, err);
}

static int index_shard(void *cookie, uint64_t i, stk_error *err)
{
    build *b = cookie;
    const char *name = b->x->names.name[i];
    stk_shard_info info = { .name = stk_index_home_name(&b->x->home, name),
                            .size = b->info[i].size,
                            .mtime_ns = b->info[i].mtime_ns,
                            .etag = b->info[i].etag };
    stk_index_part *part = NULL;
    stk_file *f = NULL;
    int rc = carry_over(b, i, &info, err);

    if (rc != STK_END) {
        scan_progress p = { b, 0 };

        advance(&p, info.size);
        return rc;
    }
    rc = stk_url_open(STK_URL(name, b->x->names.store), &f, err);
    if (rc == 0)
        rc = stk_index_part_open(&part, err);
    if (rc == 0)
        rc = scan_file(b, i, f, part, &info, err);
    if (rc == 0 && stk_index_part_warning(part))
        b->warning[i] = stk_strdup(stk_index_part_warning(part));
    stk_index_part_close(&part);
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* ---- the whole ---- */

static int format_by_name(stk_indexer *x, stk_error *err)
{
    const char *near = stk_registry_nearest(NULL, STK_PLUGIN_FORMAT, x->format_name);

    x->format = stk_registry_find(NULL, STK_PLUGIN_FORMAT, x->format_name);
    if (x->format)
        return 0;
    return stk_fail(err, STK_EINVAL, "no format is called %s%s%s%s", x->format_name,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Files that people have and that are no shards: what to do with them. */
static int no_format(const char *name, int several, stk_error *err)
{
    static const char *const one[] = { "", "a picture", "a video", "a recording" };
    static const char *const many[] = { "", "pictures", "videos", "recordings" };
    const char *end = strrchr(name, '.');
    stk_file_kind kind = stk_file_kind_of(name);

    if (kind)
        return stk_fail(
            err, STK_ECORRUPT,
            "%s %s: open the folder, or a manifest of them: a .csv or .jsonl file with a "
            "column path, whose chain is from(path) | open | %s",
            several ? many[kind] : one[kind], several ? "are no shards" : "is no shard",
            stk_file_kind_field(kind));
    if (end && strlen(end) < 12 && !strchr(end, '/') && strcmp(end, ".tar") != 0)
        return stk_fail(err, STK_ECORRUPT,
                        "%s files are no shards. Files of any kind are handed out by a manifest (a "
                        ".csv or .jsonl file with a column path): from(path) | open | bytes, in "
                        "Python with .call(function) to decode them; or pack what they hold",
                        end);
    return stk_fail(err, STK_ECORRUPT,
                    "no format knows this shard by its name or first bytes; is it a tar file?");
}

/* By the first shard's name and head: the format that is surest of it. */
static int format_by_probe(stk_indexer *x, uint64_t size, stk_error *err)
{
    uint8_t head[1024];
    size_t len = size < sizeof head ? (size_t)size : sizeof head;
    const char *name = x->names.name[0];
    const stk_format *f;
    stk_file *file = NULL;
    int rc, sure = 0;

    STK_TRY(stk_url_open(STK_URL(name, x->names.store), &file, err));
    rc = len ? stk_file_read(file, 0, head, len, err) : 0;
    stk_file_close(&file);
    for (size_t i = 0; rc == 0 && (f = stk_registry_get(NULL, STK_PLUGIN_FORMAT, i)); i++) {
        int s = f->probe(name, (stk_bytes){ head, len });

        if (s > sure) {
            sure = s;
            x->format = f;
        }
    }
    if (rc == 0 && !x->format)
        rc = stk_kind_meant(&name, 1, &(stk_dataset_options){ 0 })
                 ? stk_fail(err, STK_ENOTSUP,
                            "token files and arrays need no index: open them as they are")
                 : no_format(name, x->names.n > 1, err);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* By the caller's thread: not every log can be called from others. */
static void warn_all(const build *b)
{
    for (size_t i = 0; i < b->x->names.n; i++)
        if (b->warning[i])
            stk_log_line(&b->x->log, STK_LOG_WARN, "%.*s [shard %.200s]", 220, b->warning[i],
                         b->x->names.name[i]);
}

static int build_run(build *b, const char *path, stk_error *err)
{
    stk_indexer *x = b->x;

    STK_TRY(stk_jobs_watch(x->workers, x->names.n, survey_shard, tick, b, err));
    for (size_t i = 0; i < x->names.n; i++)
        b->total += b->info[i].size;
    x->format = NULL;
    STK_TRY(x->format_name ? format_by_name(x, err) : format_by_probe(x, b->info[0].size, err));
    stk_log_line(&x->log, STK_LOG_INFO, "building the index of %zu shards (%" PRIu64 " bytes)",
                 x->names.n, b->total);
    if (path && !x->force)
        old_find(b, path);
    STK_TRY(stk_indexer_writer(x, path, &b->writer, err));
    STK_TRY(stk_jobs_watch(x->workers, x->names.n, index_shard, tick, b, err));
    STK_TRY(stk_index_writer_commit(b->writer, err));
    tell(b, 1);
    warn_all(b);
    if (path)
        STK_TRY(stk_index_open(&x->index, path, err));
    else
        STK_TRY(stk_index_open_fd(&x->index, stk_index_writer_fd(b->writer), "(memory)", err));
    x->reused = atomic_load_explicit(&b->reused, memory_order_relaxed);
    x->data_bytes = b->total;
    x->built = 1;
    snprintf(x->path, sizeof x->path, "%s", path ? path : "");
    return 0;
}

int stk_indexer_writer(stk_indexer *x, const char *path, stk_index_writer **out, stk_error *err)
{
    int rc;

    x->sys = 0;
    rc = stk_index_writer_open(out, path, x->format->name, x->names.n, err);

    x->sys = rc == STK_EIO && stk_unwritable(errno) ? errno : 0;
    return rc;
}

int stk_indexer_build(stk_indexer *x, const char *path, stk_error *err)
{
    build *b = STK_NEW(build);
    int rc;

    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    b->caller = pthread_self();
    b->x = x;
    b->old_trusted = path == x->home.beside;
    b->info = stk_zalloc(x->names.n, sizeof *b->info);
    b->warning = stk_zalloc(x->names.n, sizeof *b->warning);
    rc = b->info && b->warning ? build_run(b, path, err)
                               : stk_fail_nomem(err, x->names.n * sizeof *b->info);
    if (rc == STK_EIO && b->writer)
        x->sys = stk_index_writer_unwritable(b->writer);
    stk_index_writer_close(&b->writer);
    for (size_t i = 0; i < b->n_old; i++) {
        stk_index_close(&b->old[i].index);
        stk_free(b->old[i].by_name);
    }
    for (size_t i = 0; b->warning && i < x->names.n; i++)
        stk_free(b->warning[i]);
    stk_free(b->warning);
    stk_free(b->info);
    stk_free(b);
    return rc;
}
