/* SPDX-License-Identifier: Apache-2.0 */
/* cache_object.c - one object in the host cache.
 *
 * [0, size) is the object, with holes where nothing came yet.  From the next multiple of 4096 on
 * there is a head, which says whose bytes these are, then 8 bytes per chunk: CRC-32C and the mark
 * of the session in which the chunk was written or compared; 0 and 0: it is not there.  The head is
 * written before the file gets its name.  A file whose length or head is not what it must be is
 * removed.  Nothing is mapped, so that a file that others cut short is an error and no signal. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/lock.h"
#include "store/cache_layout.h"
#include "source/folder_files.h"

#define ATTEMPTS 8

/* 0: the file is whole; its head is in *h. */
static int head_read(int fd, head *h)
{
    struct stat st;
    uint64_t size, at;

    /* The length says where the head is: size, rounded up, then the head and the records. */
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)HEAD)
        return -1;
    /* A chunk has 8 bytes of the map, so the end of the data is near; try the two places that
     * fit. */
    size = (uint64_t)st.st_size - HEAD;
    for (uint64_t n = size / (STK_CHUNK + 8), i = 0; i < 3; i++, n++) {
        at = size >= n * 8 ? size - n * 8 : 1;
        if (at % HEAD || pread(fd, h, sizeof *h, (off_t)at) != (ssize_t)sizeof *h)
            continue;
        if (!memcmp(h->magic, STK_OBJECT_MAGIC, 8) && h->crc == head_crc(h) &&
            h->chunk == STK_CHUNK && map_at(h->size) == at && h->n_chunks == n &&
            chunks_of(h->size) == n && !h->etag[sizeof h->etag - 1] && !h->url[STK_CACHE_URL_MAX])
            return 0;
    }
    return -1;
}

/* ---- open ---- */

void stk_cache_object_path(const stk_cache_folder *f, const stk_cache_id *id, const char *more,
                           char *out, size_t size)
{
    snprintf(out, size, "%s/%016" PRIx64 "-%016" PRIx64 "-%016" PRIx64 ".obj%s",
             stk_cache_folder_path(f), stk_cache_group(id->url),
             stk_hash64(3, id->url, strlen(id->url)), stk_hash64(4, id->etag, strlen(id->etag)),
             more);
}

/* The file that is there: its descriptor, -1: there is none.  What is not ours is removed. */
static int open_there(const char *path, const stk_cache_id *id, uint64_t *size)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), same = 0;
    head h, want;

    if (fd < 0) {
        if (errno == ELOOP || errno == ENXIO || errno == EISDIR)
            unlink(path);
        return -1;
    }
    if (head_read(fd, &h) == 0) {
        stk_cache_id wanted = { id->url, id->etag, id->size == UINT64_MAX ? h.size : id->size };

        head_make(&want, &wanted);
        same = !memcmp(&h, &want, sizeof h);
    }
    if (same) {
        *size = h.size;
        (void)!futimens(fd, NULL); /* used now */
        return fd;
    }
    close(fd);
    unlink(path);
    return -1;
}

/* 0: *fd; or an errno. */
static int create(const char *path, const stk_cache_id *id, int *fd)
{
    static const char zeros[HEAD];
    uint64_t at = map_at(id->size), records = chunks_of(id->size) * 8;
    stk_atomic_file a;
    head h;
    int rc, sys;

    *fd = -1;
    head_make(&h, id);
    rc = stk_atomic_open(&a, path, NULL);
    if (rc < 0)
        return a.sys ? a.sys : EIO;
    rc = stk_atomic_write(&a, &h, sizeof h, at, NULL);
    for (uint64_t i = 0; rc == 0 && i < records; i += HEAD)
        rc = stk_atomic_write(&a, zeros, records - i < HEAD ? (size_t)(records - i) : HEAD,
                              at + HEAD + i, NULL);
    if (rc == 0)
        rc = stk_atomic_commit(&a, STK_COMMIT_NO_REPLACE, NULL);
    sys = rc < 0 ? a.sys : 0;
    if (rc == 0)
        *fd = stk_atomic_take(&a);
    stk_atomic_close(&a);
    return sys;
}

static int open_or_create(const char *path, const stk_cache_id *id, int *sys)
{
    uint64_t size;
    int fd = open_there(path, id, &size);

    *sys = 0;
    for (int i = 0; fd < 0 && i < ATTEMPTS; i++) {
        *sys = create(path, id, &fd);
        if (*sys && *sys != EEXIST)
            return -1;
        if (fd < 0) /* another process made it meanwhile */
            fd = open_there(path, id, &size);
    }
    return fd;
}

static void read_records(stk_cache_object *o)
{
    uint64_t buf[512];

    for (uint64_t i = 0; i < o->n_chunks;) {
        uint64_t n = o->n_chunks - i < 512 ? o->n_chunks - i : 512;

        if (pread(o->fd, buf, (size_t)n * 8, (off_t)(RECORDS_AT(o) + i * 8)) != (ssize_t)(n * 8))
            return;
        for (uint64_t k = 0; k < n; k++)
            atomic_store_explicit(&o->record[i + k], buf[k], memory_order_relaxed);
        i += n;
    }
}

static int cachable(const stk_cache_id *id, stk_error *err)
{
    if (!id->etag[0] || strlen(id->etag) >= 64 || strlen(id->url) > STK_CACHE_URL_MAX ||
        (id->size > INT64_MAX / 2 && id->size != UINT64_MAX))
        return stk_fail(err, STK_ENOTSUP, "it can't be cached: it has no version (etag)");
    return 0;
}

/* fd becomes its own. */
static int object_new(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id, int fd,
                      stk_error *err)
{
    size_t bytes = sizeof(stk_cache_object) + (size_t)chunks_of(id->size) * 8;
    stk_cache_object *o = stk_zalloc(1, bytes);
    int rc = o ? stk_local_take(fd, &o->local, err) : stk_fail_nomem(err, bytes);

    if (rc < 0) {
        if (!o)
            close(fd);
        stk_free(o);
        return rc;
    }
    atomic_init(&o->refs, 1);
    o->folder = f;
    o->fd = fd;
    o->size = id->size;
    o->map_at = map_at(id->size);
    o->n_chunks = chunks_of(id->size);
    o->group = stk_cache_group(id->url);
    read_records(o);
    *out = o;
    return 0;
}

int stk_cache_object_open(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err)
{
    char path[4096];
    int fd, sys;

    *out = NULL;
    STK_TRY(cachable(id, err));
    stk_cache_folder_use(f, stk_cache_group(id->url));
    stk_cache_object_path(f, id, "", path, sizeof path);
    fd = open_or_create(path, id, &sys);
    if (fd < 0) {
        stk_cache_folder_failed(f, sys ? sys : EIO);
        return stk_fail(err, STK_EIO, "the cache can't take it");
    }
    return object_new(out, f, id, fd, err);
}

int stk_cache_object_find(stk_cache_object **out, stk_cache_folder *f, const stk_cache_id *id,
                          stk_error *err)
{
    stk_cache_id found = *id;
    char path[4096];
    int fd;

    *out = NULL;
    STK_TRY(cachable(id, err));
    stk_cache_folder_use(f, stk_cache_group(id->url));
    stk_cache_object_path(f, id, "", path, sizeof path);
    fd = open_there(path, id, &found.size);
    return fd < 0 ? STK_END : object_new(out, f, &found, fd, err);
}

void stk_cache_object_remove(const stk_cache_folder *f, const stk_cache_id *id)
{
    char path[4096];

    stk_cache_object_path(f, id, "", path, sizeof path);
    unlink(path);
}

stk_cache_object *stk_cache_object_ref(stk_cache_object *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void stk_cache_object_unref(stk_cache_object **op)
{
    stk_cache_object *o = *op;

    *op = NULL;
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    stk_file_close(&o->local);
    stk_free(o);
}

/* ---- chunks ---- */

size_t stk_cache_chunk_len(const stk_cache_object *o, uint64_t chunk)
{
    uint64_t left = o->size - chunk * STK_CHUNK;

    return (size_t)(left < STK_CHUNK ? left : STK_CHUNK);
}

static uint64_t record_of(const stk_cache_object *o, uint32_t crc)
{
    return crc | (uint64_t)stk_cache_folder_session(o->folder) << 32;
}

static int is_trusted(const stk_cache_object *o, uint64_t record)
{
    return (uint32_t)(record >> 32) == stk_cache_folder_session(o->folder);
}

stk_chunk_state stk_cache_object_has(stk_cache_object *o, uint64_t chunk)
{
    uint64_t r = atomic_load_explicit(&o->record[chunk], memory_order_acquire);

    if (!is_trusted(o, r) &&
        pread(o->fd, &r, sizeof r, (off_t)(RECORDS_AT(o) + chunk * 8)) == sizeof r)
        atomic_store_explicit(&o->record[chunk], r, memory_order_release);
    return is_trusted(o, r) ? STK_CHUNK_HERE : r >> 32 ? STK_CHUNK_UNCHECKED : STK_CHUNK_ABSENT;
}

int stk_cache_object_covers(stk_cache_object *o, uint64_t offset, size_t len)
{
    if (offset > o->size || len > o->size - offset)
        return 0;
    for (uint64_t c = offset / STK_CHUNK; len && c <= (offset + len - 1) / STK_CHUNK; c++)
        if (stk_cache_object_has(o, c) != STK_CHUNK_HERE)
            return 0;
    return 1;
}

int stk_cache_object_whole(stk_cache_object *o)
{
    for (uint64_t c = 0; !atomic_load_explicit(&o->whole, memory_order_relaxed) && c < o->n_chunks;
         c++)
        if (stk_cache_object_has(o, c) != STK_CHUNK_HERE)
            return -1;
    atomic_store_explicit(&o->whole, 1, memory_order_relaxed);
    return o->fd;
}

static int write_all(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *p = data;

    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? errno : ENOSPC;
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int stk_cache_object_write(stk_cache_object *o, uint64_t chunk, const void *data)
{
    return write_all(o->fd, data, stk_cache_chunk_len(o, chunk), chunk * STK_CHUNK);
}

int stk_cache_object_sync(stk_cache_object *o)
{
    return fdatasync(o->fd) < 0 ? errno : 0;
}

static int put_record(stk_cache_object *o, uint64_t chunk, uint64_t record)
{
    int sys = write_all(o->fd, &record, sizeof record, RECORDS_AT(o) + chunk * 8);

    if (!sys)
        atomic_store_explicit(&o->record[chunk], record, memory_order_release);
    return sys;
}

int stk_cache_object_mark(stk_cache_object *o, uint64_t chunk, const void *data)
{
    return put_record(o, chunk, record_of(o, stk_crc32c(0, data, stk_cache_chunk_len(o, chunk))));
}

static int chunk_good(int fd, uint64_t chunk, size_t len, uint64_t record, void *into)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (char *)into + got, len - got, (off_t)(chunk * STK_CHUNK + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        got += (size_t)n;
    }
    return stk_crc32c(0, into, len) == (uint32_t)record;
}

int stk_cache_object_check(stk_cache_object *o, uint64_t chunk, void *into)
{
    uint64_t r = atomic_load_explicit(&o->record[chunk], memory_order_acquire);
    int good = chunk_good(o->fd, chunk, stk_cache_chunk_len(o, chunk), r, into);

    (void)put_record(o, chunk, good ? record_of(o, (uint32_t)r) : 0);
    return good;
}

int stk_cache_object_check_all(stk_cache_object *o)
{
    void *buf = NULL;
    int good = 1;

    for (uint64_t c = 0; good && c < o->n_chunks; c++) {
        stk_chunk_state is = stk_cache_object_has(o, c);

        if (is == STK_CHUNK_HERE)
            continue;
        if (!buf)
            buf = stk_large_alloc(STK_CHUNK);
        good = buf && is == STK_CHUNK_UNCHECKED && stk_cache_object_check(o, c, buf);
    }
    stk_large_free(buf, STK_CHUNK);
    return good;
}

/* A lock on the record, by open file: it ends with the process, whatever ends that. */
static int lock_record(stk_cache_object *o, uint64_t chunk, int type)
{
    struct flock l = { .l_type = (short)type,
                       .l_whence = SEEK_SET,
                       .l_start = (off_t)(RECORDS_AT(o) + chunk * 8),
                       .l_len = 8 };

    return fcntl(o->fd, F_OFD_SETLK, &l) < 0 ? errno : 0;
}

int stk_cache_object_claim(stk_cache_object *o, uint64_t chunk)
{
    int sys = lock_record(o, chunk, F_WRLCK);

    return sys != EAGAIN && sys != EACCES; /* without locks work is done twice, at worst */
}

void stk_cache_object_unclaim(stk_cache_object *o, uint64_t chunk)
{
    (void)lock_record(o, chunk, F_UNLCK);
}

/* ---- for tools ---- */

static void look_at_chunks(int fd, int check, stk_cache_look *out)
{
    uint64_t at = map_at(out->size) + HEAD, r, zero = 0;
    void *buf = check ? stk_large_alloc(STK_CHUNK) : NULL;

    for (uint64_t c = 0; c < out->n_chunks; c++) {
        uint64_t left = out->size - c * STK_CHUNK;
        size_t len = (size_t)(left < STK_CHUNK ? left : STK_CHUNK);

        if (pread(fd, &r, sizeof r, (off_t)(at + c * 8)) != sizeof r || !(r >> 32))
            continue;
        if (buf && !chunk_good(fd, c, len, r, buf)) {
            (void)write_all(fd, &zero, sizeof zero, at + c * 8);
            out->bad++;
            continue;
        }
        out->present += len;
    }
    stk_large_free(buf, STK_CHUNK);
}

int stk_cache_look_at(const char *file, int check, stk_cache_look *out)
{
    int fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    head h;

    memset(out, 0, sizeof *out);
    if (fd < 0 || head_read(fd, &h) < 0) {
        if (fd >= 0)
            close(fd);
        return STK_ECORRUPT;
    }
    memcpy(out->url, h.url, sizeof out->url);
    memcpy(out->etag, h.etag, sizeof out->etag);
    out->size = h.size;
    out->n_chunks = h.n_chunks;
    look_at_chunks(fd, check, out);
    close(fd);
    return 0;
}
