/* SPDX-License-Identifier: Apache-2.0 */
/* tar_write.c - tar files, POSIX ustar, with a pax header only where a name or a size needs one.
 *
 * Owner, mode and (unless given) time are fixed, so the bytes depend on names and data alone.
 * Written through one buffer; the kernel is asked to begin writing back early, so that the fsync
 * at the end has little left to wait for. */
#include "format/tar_write.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/registry.h"
#include "base/text.h"
#include "format/tar.h"
#include "store/remote.h"

#define BUFFER (1u << 20)
#define WRITE_BACK (16u << 20)      /* bytes between hints to the kernel */
#define SIZE_MAX_USTAR (1ull << 33) /* sizes below it fit into 11 octal digits */
#define TIME_MAX_USTAR (1ll << 33)
#define PREFIX 155u

struct stk_tar_writer {
    char *path;
    stk_atomic_file file;
    stk_put *remote; /* in place of the file; NULL: it is a local one */
    int replace, finished;
    uint8_t *buf;
    size_t used;
    uint64_t bytes;   /* members so far */
    uint64_t flushed; /* in the file */
    uint64_t hinted;
    stk_text pax;
    stk_framer *framer;     /* NULL: members are written as they are */
    stk_text frame, packed; /* what the next frame will hold; the last one */
};

/* ---- the file ---- */

static int failed(const stk_tar_writer *w, const char *what, int sys, stk_error *err)
{
    char text[96];

    if (sys == ENOMEM)
        return stk_fail_nomem(err, BUFFER);
    if (stk_is_full(sys))
        stk_fail(err, STK_EIO,
                 "%s: no room after %" PRIu64 " bytes: %s; nothing half-written stays", what,
                 w->flushed, strerror_r(sys, text, sizeof text));
    else
        stk_fail(err, STK_EIO, "%s: %s", what, strerror_r(sys, text, sizeof text));
    stk_error_at(err, w->path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EIO;
}

static int at_path(const stk_tar_writer *w, int rc, stk_error *err)
{
    if (rc < 0)
        stk_error_at(err, w->path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int write_out(stk_tar_writer *w, const void *data, size_t len, stk_error *err)
{
    if (w->remote) {
        w->flushed += len;
        return at_path(w, w->remote->write(w->remote, data, len, err), err);
    }
    if (stk_atomic_write(&w->file, data, len, w->flushed, NULL) < 0)
        return failed(w, "can't write the shard", w->file.sys, err);
    w->flushed += len;
    if (w->flushed - w->hinted >= WRITE_BACK) {
        (void)!sync_file_range(w->file.fd, (off_t)w->hinted, (off_t)(w->flushed - w->hinted),
                               SYNC_FILE_RANGE_WRITE);
        w->hinted = w->flushed;
    }
    return 0;
}

static int flush(stk_tar_writer *w, stk_error *err)
{
    size_t n = w->used;

    w->used = 0;
    return write_out(w, w->buf, n, err);
}

static int put_plain(stk_tar_writer *w, const void *data, size_t len, stk_error *err)
{
    if (len > BUFFER - w->used)
        STK_TRY(flush(w, err));
    if (len > BUFFER)
        return write_out(w, data, len, err);
    if (len)
        memcpy(w->buf + w->used, data, len);
    w->used += len;
    return 0;
}

static int frame_end(stk_tar_writer *w, stk_error *err)
{
    stk_bytes in = { (const uint8_t *)w->frame.s, w->frame.len };

    if (!in.len)
        return 0;
    w->packed.len = 0;
    STK_TRY(at_path(w, w->framer->frame(w->framer, in, &w->packed, err), err));
    w->frame.len = 0;
    return put_plain(w, w->packed.s, w->packed.len, err);
}

static int put_framed(stk_tar_writer *w, const uint8_t *data, size_t len, stk_error *err)
{
    while (len) {
        size_t room = STK_FRAME_MAX - w->frame.len, n = len < room ? len : room;

        STK_TRY(stk_text_put(&w->frame, data, n, err));
        if (w->frame.len == STK_FRAME_MAX)
            STK_TRY(frame_end(w, err));
        data += n;
        len -= n;
    }
    return 0;
}

static int put(stk_tar_writer *w, const void *data, size_t len, stk_error *err)
{
    return w->framer ? put_framed(w, data, len, err) : put_plain(w, data, len, err);
}

void stk_tar_writer_take_framer(stk_tar_writer *w, stk_framer *f)
{
    assert(!w->bytes && !w->framer);
    w->framer = f;
}

int stk_tar_writer_sample_end(stk_tar_writer *w, stk_error *err)
{
    return w->frame.len >= STK_FRAME ? frame_end(w, err) : 0;
}

/* The last frame, and what comes after it. */
static int frames_end(stk_tar_writer *w, stk_error *err)
{
    STK_TRY(frame_end(w, err));
    w->packed.len = 0;
    if (w->framer->end)
        STK_TRY(w->framer->end(w->framer, &w->packed, err));
    return put_plain(w, w->packed.s, w->packed.len, err);
}

static int put_zeros(stk_tar_writer *w, size_t len, stk_error *err)
{
    static const uint8_t zeros[2 * TAR_BLOCK];

    return put(w, zeros, len, err);
}

/* ---- headers ---- */

static uint64_t padded(uint64_t size)
{
    return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* Where a name of more than 100 bytes is cut into prefix and name; 0: it can't be. */
static size_t cut_name(const char *name, size_t len)
{
    size_t at = len - 1 < PREFIX ? len - 1 : PREFIX;

    if (len > PREFIX + 1 + 100)
        return 0;
    while (at && name[at] != '/')
        at--;
    return at && len - at - 1 <= 100 ? at : 0;
}

static void octal(uint8_t *field, int digits, uint64_t v)
{
    char text[24];

    snprintf(text, sizeof text, "%0*llo", digits, (unsigned long long)v);
    memcpy(field, text, (size_t)digits);
}

static void header_fill(uint8_t h[TAR_BLOCK], char type, uint64_t size, int64_t mtime)
{
    unsigned sum = 0;

    octal(h + 100, 7, 0444);
    octal(h + 108, 7, 0);
    octal(h + 116, 7, 0);
    octal(h + 124, 11, size < SIZE_MAX_USTAR ? size : 0);
    octal(h + 136, 11, mtime < 0 || mtime >= TIME_MAX_USTAR ? 0 : (uint64_t)mtime);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (unsigned i = 0; i < TAR_BLOCK; i++)
        sum += h[i];
    octal(h + 148, 6, sum);
    h[154] = 0;
}

/* "LEN key=value\n", where LEN counts itself. */
static int pax_record(stk_text *t, const char *key, const void *value, size_t len, stk_error *err)
{
    size_t rest = 1 + strlen(key) + 1 + len + 1, digits = 1, total;
    char head[40];

    while (total = rest + digits, (size_t)snprintf(head, sizeof head, "%zu", total) > digits)
        digits++;
    snprintf(head, sizeof head, "%zu %s=", total, key);
    STK_TRY(stk_text_put(t, head, strlen(head), err));
    STK_TRY(stk_text_put(t, value, len, err));
    return stk_text_put(t, "\n", 1, err);
}

static int put_pax(stk_tar_writer *w, stk_bytes name, int long_name, uint64_t size, stk_error *err)
{
    uint8_t h[TAR_BLOCK] = "PaxHeaders/member";
    char digits[24];

    w->pax.len = 0;
    if (long_name)
        STK_TRY(pax_record(&w->pax, "path", name.data, name.len, err));
    snprintf(digits, sizeof digits, "%" PRIu64, size);
    if (size >= SIZE_MAX_USTAR)
        STK_TRY(pax_record(&w->pax, "size", digits, strlen(digits), err));
    header_fill(h, 'x', w->pax.len, 0);
    STK_TRY(put(w, h, sizeof h, err));
    STK_TRY(put(w, w->pax.s, w->pax.len, err));
    w->bytes += TAR_BLOCK + padded(w->pax.len);
    return put_zeros(w, padded(w->pax.len) - w->pax.len, err);
}

uint64_t stk_tar_member_bytes(size_t name_len, uint64_t size)
{
    uint64_t pax = name_len > 100 || size >= SIZE_MAX_USTAR
                       ? TAR_BLOCK + padded(name_len + 32 + TAR_BLOCK / 4)
                       : 0;

    return pax + TAR_BLOCK + padded(size);
}

int stk_tar_writer_add(stk_tar_writer *w, stk_bytes name, stk_bytes data, int64_t mtime,
                       stk_error *err)
{
    uint8_t h[TAR_BLOCK] = { 0 };
    const char *s = (const char *)name.data;
    size_t cut = name.len > 100 ? cut_name(s, name.len) : 0;
    int long_name = name.len > 100 && !cut;

    if (!name.len || name.len > TAR_NAME_MAX || memchr(s, 0, name.len))
        return stk_fail(err, STK_EINVAL, "a member's name has 1 to %u bytes and no null among them",
                        TAR_NAME_MAX);
    if (long_name || data.len >= SIZE_MAX_USTAR)
        STK_TRY(put_pax(w, name, long_name, data.len, err));
    if (cut) {
        memcpy(h + 345, s, cut);
        memcpy(h, s + cut + 1, name.len - cut - 1);
    } else {
        memcpy(h, s, name.len < 100 ? name.len : 100);
    }
    header_fill(h, '0', data.len, mtime);
    STK_TRY(put(w, h, sizeof h, err));
    STK_TRY(put(w, data.data, data.len, err));
    w->bytes += TAR_BLOCK + padded(data.len);
    return put_zeros(w, padded(data.len) - data.len, err);
}

uint64_t stk_tar_writer_bytes(const stk_tar_writer *w)
{
    return w->bytes;
}

/* ---- open, publish ---- */

static int is_there(const stk_tar_writer *w, stk_error *err)
{
    stk_fail(err, STK_EINVAL,
             "the file is there already, and is not replaced unless that is "
             "asked for (force)");
    stk_error_at(err, w->path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

/* Does the object exist?  A server that does not say so is asked to write. */
static int is_remote_there(const stk_source *s, const char *url, const stk_store *store)
{
    stk_file_info info;
    stk_file *f = NULL;
    int yes = stk_source_open(s, STK_URL(url, store), &f, NULL) == 0 &&
              stk_file_stat(f, &info, NULL) == 0;

    stk_file_close(&f);
    return yes;
}

static int open_remote(stk_tar_writer *w, const stk_store *store, stk_error *err)
{
    const stk_source *s = stk_registry_source(w->path);
    char names[100];

    if (!s || !s->put)
        return at_path(w,
                       stk_fail(err, STK_ENOTSUP,
                                "nothing can be written there: write to a folder, %s",
                                stk_stores_that(STK_SOURCE_PUTS, names, sizeof names)),
                       err);
    if (!w->replace && is_remote_there(s, w->path, store))
        return is_there(w, err);
    return at_path(w, s->put(w->path, store, &w->remote, err), err);
}

int stk_tar_writer_open(stk_tar_writer **out, const char *path, const stk_store *store, int replace,
                        stk_error *err)
{
    stk_tar_writer *w = STK_NEW(stk_tar_writer);
    int rc = w ? 0 : stk_fail_nomem(err, sizeof *w);

    *out = w;
    if (rc < 0)
        return rc;
    w->replace = replace;
    w->path = stk_strdup(path);
    w->buf = stk_alloc(BUFFER);
    if (!w->path || !w->buf)
        rc = stk_fail_nomem(err, BUFFER);
    if (rc == 0 && stk_is_address(path)) {
        rc = open_remote(w, store, err);
        if (rc < 0)
            stk_tar_writer_close(out);
        return rc;
    }
    if (rc == 0 && !replace && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        rc = is_there(w, err);
    if (rc == 0 && stk_atomic_open(&w->file, path, NULL) < 0)
        rc = failed(w, "can't make the shard", w->file.sys, err);
    if (rc < 0)
        stk_tar_writer_close(out);
    return rc;
}

int stk_tar_writer_finish(stk_tar_writer *w, uint64_t *size, stk_error *err)
{
    STK_TRY(put_zeros(w, (size_t)2 * TAR_BLOCK, err));
    if (w->framer)
        STK_TRY(frames_end(w, err));
    STK_TRY(flush(w, err));
    if (!w->remote && stk_atomic_sync(&w->file, NULL) < 0)
        return failed(w, "can't bring the shard to disk", w->file.sys, err);
    w->finished = 1;
    if (size)
        *size = w->flushed;
    return 0;
}

int stk_tar_writer_publish(stk_tar_writer *w, stk_error *err)
{
    int how = STK_COMMIT_SYNCED | (w->replace ? 0 : STK_COMMIT_NO_REPLACE);

    if (w->remote)
        return at_path(w, w->remote->commit(w->remote, err), err);
    if (stk_atomic_commit(&w->file, how, NULL) == 0)
        return 0;
    if (!w->replace && w->file.sys == EEXIST)
        return is_there(w, err);
    return failed(w, "can't put the shard in place", w->file.sys, err);
}

void stk_tar_writer_close(stk_tar_writer **wp)
{
    stk_tar_writer *w = *wp;

    *wp = NULL;
    if (!w)
        return;
    if (w->remote)
        w->remote->close(w->remote); /* what was not committed is aborted */
    if (w->file.tmp)
        stk_atomic_close(&w->file);
    stk_free(w->path);
    stk_free(w->buf);
    stk_free(w->pax.s);
    if (w->framer)
        w->framer->close(w->framer);
    stk_free(w->frame.s);
    stk_free(w->packed.s);
    stk_free(w);
}
