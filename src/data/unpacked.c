/* SPDX-License-Identifier: Apache-2.0 */
/* unpacked.c - shards that are packed as a whole (.tar.gz, .jsonl.zst, .tfrecord.gz): unpacked once
 * into the host cache, and read from there as a plain file is.
 *
 * Nothing in such a file can be found without unpacking all before it.  The unpacked file is an
 * object of the cache; its version is made of the packed file's size, time and version, so that a
 * file that changed is another object.  One process of the host unpacks a shard, the others wait
 * for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/halt.h"
#include "base/hash.h"
#include "base/registry.h"
#include "compress/unpack.h"
#include "data/shard_data.h"
#include "store/store.h"
#include "store/store_cache.h"

typedef struct unpacked {
    stk_file base;
    stk_store *store;
    stk_cache_object *object;
    stk_file_info info;
} unpacked;

typedef struct packed { /* a file while it is unpacked */
    stk_file *from;
    uint64_t at, size;
    stk_cache_build *to;
} packed;

/* ---- the file ---- */

static int unpacked_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)wait, (void)err;
    *out = ((unpacked *)f)->info;
    return 0;
}

/* After the object's end are the cache's records. */
static int unpacked_read(stk_file *f, stk_io *io)
{
    stk_cache_object *o = ((unpacked *)f)->object;
    uint64_t left = io->offset < o->size ? o->size - io->offset : 0;
    stk_io inner = *io;

    if (inner.len > left)
        inner.len = (size_t)left;
    (void)o->local->source->read(o->local, &inner);
    io->got = inner.got;
    io->sys = inner.sys;
    return io->rc = inner.rc;
}

static int unpacked_try_read(stk_file *f, stk_io *io)
{
    stk_cache_object *o = ((unpacked *)f)->object;

    if (io->offset > o->size || io->len > o->size - io->offset)
        return unpacked_read(f, io);
    io->file = o->local;
    return o->local->source->try_read(o->local, io);
}

static int unpacked_fd(const stk_file *f)
{
    return ((const unpacked *)f)->object->fd;
}

static void unpacked_close(stk_file *file)
{
    unpacked *f = (unpacked *)file;

    stk_cache_object_unref(&f->object);
    stk_store_unref(&f->store);
    stk_free(f);
}

static const stk_source source_unpacked = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "unpacked",
    .help = "shards that were unpacked into the cache",
    .ready = unpacked_ready,
    .read = unpacked_read,
    .try_read = unpacked_try_read,
    .fd = unpacked_fd,
    .close = unpacked_close,
};

/* ---- unpacking ---- */

typedef int (*unpack_fn)(const stk_unpack_io *io, stk_error *err);

/* Is the name, without its last suffix, one of shards?  TFRecord's may have a number after it:
 * a.tfrecord-00000-of-00002.gz. */
static int is_shard(const char *url, size_t len)
{
    static const char *const all[] = { ".tar", ".jsonl",    ".ndjson",   ".csv",
                                       ".tsv", ".tfrecord", ".tfrecords" };
    const char *base = memrchr(url, '/', len);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i]);

        if (len > n && !strncmp(url + len - n, all[i], n))
            return 1;
    }
    base = strstr(base ? base : url, ".tfrecord");
    return base && base < url + len;
}

/* A local TFRecord file that is gzip by its first bytes: TensorFlow puts no .gz after the name. */
static int is_gzip_inside(const char *url)
{
    const char *base = strrchr(url, '/');
    uint8_t head[3] = { 0 };
    FILE *f;

    if (!strstr(base ? base : url, ".tfrecord") || strstr(url, "://"))
        return 0;
    f = fopen(url, "rbe");
    if (!f)
        return 0;
    if (fread(head, 1, sizeof head, f) != sizeof head)
        head[0] = 0;
    fclose(f);
    return !memcmp(head, "\x1f\x8b\x08", 3);
}

static unpack_fn unpacker_of(const char *url)
{
    static const struct {
        const char *end;
        unpack_fn fn;
    } all[] = { { ".gz", stk_gunzip_all },
                { ".zst", stk_unzstd_all },
                { ".zstd", stk_unzstd_all },
                { ".lz4", stk_unlz4_all } };
    size_t len = strlen(url);

    if (len > 4 && !strcmp(url + len - 4, ".tgz"))
        return stk_gunzip_all;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i].end);

        if (len > n && !strcmp(url + len - n, all[i].end) && is_shard(url, len - n))
            return all[i].fn;
    }
    return is_gzip_inside(url) ? stk_gunzip_all : NULL;
}

int stk_is_packed(const char *url)
{
    return unpacker_of(url) != NULL;
}

static int read_packed(void *cookie, void *dst, size_t room, size_t *got, stk_error *err)
{
    packed *p = cookie;

    *got = p->size - p->at < room ? (size_t)(p->size - p->at) : room;
    if (*got)
        STK_TRY(stk_file_read(p->from, p->at, dst, *got, err));
    p->at += *got;
    return 0;
}

static int write_unpacked(void *cookie, const void *data, size_t len, stk_error *err)
{
    return stk_cache_build_write(((packed *)cookie)->to, data, len, err);
}

static int unpack(stk_cache_folder *folder, const stk_cache_id *id, stk_file *from, uint64_t size,
                  stk_error *err)
{
    stk_cache_build *to = NULL;
    packed p = { .from = from, .size = size };
    stk_unpack_io io = { read_packed, write_unpacked, &p };
    int rc = stk_cache_build_open(&to, folder, id, err);

    p.to = to;
    if (rc == 0)
        rc = unpacker_of(id->url)(&io, err);
    if (rc == 0)
        rc = stk_cache_build_commit(to, err);
    stk_cache_build_close(&to);
    return rc;
}

/* What is there, and good.  STK_END: it is not. */
static int find(stk_cache_folder *folder, const stk_cache_id *id, stk_cache_object **out,
                stk_error *err)
{
    int rc = stk_cache_object_find(out, folder, id, err);

    if (rc == 0 && !stk_cache_object_check_all(*out)) {
        stk_cache_object_unref(out);
        stk_cache_object_remove(folder, id);
        rc = STK_END;
    }
    return rc;
}

#define WAIT_MS 20

/* One process of the host unpacks. */
static int find_or_unpack(stk_cache_folder *folder, const stk_cache_id *id, stk_file *from,
                          stk_cache_object **out, stk_error *err)
{
    stk_lock_file lock = { .fd = -1 };
    char path[4096];
    stk_file_info info;
    int rc;

    stk_cache_object_path(folder, id, ".lock", path, sizeof path);
    for (;;) {
        rc = find(folder, id, out, err);
        if (rc != STK_END)
            return rc;
        rc = stk_lock_try(&lock, path);
        if (rc != STK_END)
            break;
        if (stk_halt_sleep(WAIT_MS) < 0)
            return stk_fail_halted(err);
    }
    if (rc < 0)
        return stk_fail(err, STK_EIO, "the cache can't be written to: %s", strerror(errno));
    rc = find(folder, id, out, err); /* another one was quicker */
    if (rc == STK_END)
        rc = stk_file_stat(from, &info, err);
    if (rc == 0 && !*out)
        rc = unpack(folder, id, from, info.size, err);
    if (rc == 0 && !*out)
        rc = find(folder, id, out, err);
    stk_lock_drop(&lock);
    return rc == STK_END ? stk_fail(err, STK_EIO, "the cache lost what was unpacked") : rc;
}

/* ---- open ---- */

/* The version of what a packed file unpacks to. */
static void version_of(const stk_file_info *file, char out[64])
{
    struct {
        uint64_t size;
        int64_t mtime_ns;
        char etag[64];
    } all;

    memset(&all, 0, sizeof all);
    all.size = file->size;
    all.mtime_ns = file->mtime_ns;
    memcpy(all.etag, file->etag, strlen(file->etag));
    snprintf(out, 64, "unpacked-%016" PRIx64 "%016" PRIx64, stk_hash64(1, &all, sizeof all),
             stk_hash64(2, &all, sizeof all));
}

/* *size: of the packed file. */
static int open_packed(const stk_open_info *o, const stk_store *store, stk_file **out,
                       char etag[64], uint64_t *size, stk_error *err)
{
    const stk_source *s = stk_registry_source(o->url);
    stk_open_info plain = { .url = o->url, .size = UINT64_MAX, .store = store, .uncached = 1 };
    stk_file_info info;

    if (!s)
        return stk_fail(err, STK_ENOTSUP, "no source reads addresses like this one");
    STK_TRY(stk_source_open(s, &plain, out, err));
    STK_TRY(stk_file_stat(*out, &info, err));
    version_of(&info, etag);
    *size = info.size;
    return 0;
}

/* Without a cache: what can be read where it is.  STK_END: it can't. */
static int open_in_place(const stk_open_info *o, stk_file **out, stk_error *err)
{
    stk_file *from = NULL;
    char etag[64];
    uint64_t size = 0;
    int rc = unpacker_of(o->url) == stk_unzstd_all
                 ? open_packed(o, o->store, &from, etag, &size, err)
                 : STK_END;

    if (rc == 0)
        rc = stk_seekable_take(&from, size, etag, out, err);
    stk_file_close(&from);
    return rc;
}

/* With an index, what a remote file unpacked to is found without asking for the file. */
static int obtain(unpacked *f, const stk_open_info *o, stk_error *err)
{
    const stk_source *s = stk_registry_source(o->url);
    stk_cache_id id = { .url = o->url, .etag = f->info.etag, .size = UINT64_MAX };
    stk_file *from = NULL;
    uint64_t size;
    int rc = STK_END;

    if (!f->store->cache)
        return stk_fail(
            err, STK_EINVAL,
            "packed shards are unpacked into a cache on a local disk: name its folder, "
            "stoker.Store(cache=...) or STOKER_STORE_CACHE; zstd's seekable format needs none");
    if (s && s->can & STK_SOURCE_REMOTE && o->etag && o->etag[0] && strlen(o->etag) < 64) {
        memcpy(f->info.etag, o->etag, strlen(o->etag) + 1);
        rc = find(f->store->cache, &id, &f->object, err);
    }
    if (rc == STK_END) {
        rc = open_packed(o, f->store, &from, f->info.etag, &size, err);
        if (rc == 0)
            rc = find_or_unpack(f->store->cache, &id, from, &f->object, err);
    }
    stk_file_close(&from);
    return rc;
}

int stk_unpacked_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    unpacked *f = STK_NEW(unpacked);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->base.source = &source_unpacked;
    f->store = o->store ? stk_store_ref((stk_store *)(uintptr_t)o->store) : stk_store_usual(err);
    rc = !f->store ? STK_ENOMEM : f->store->cache ? STK_END : open_in_place(o, out, err);
    if (rc == STK_END)
        rc = obtain(f, o, err);
    if (rc < 0 || *out) {
        unpacked_close(&f->base);
        return rc;
    }
    f->info.size = f->object->size;
    *out = &f->base;
    return 0;
}
