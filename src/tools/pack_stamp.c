/* SPDX-License-Identifier: Apache-2.0 */
/* pack_stamp.c - see pack_stamp.h.  Lines are appended by one write each, so that a killed
 * process leaves whole lines, and perhaps one torn at the end, which is ignored. */
#include "tools/pack_stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/text.h"

#define STAMP_MAX (256u << 20)
#define POLL_US 20000

static char *path_of(const stk_shard_pattern *p, const char *end)
{
    size_t size = strlen(p->dir) + strlen(p->prefix) + strlen(p->suffix) + 48;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s.stoker/%s%%%02dd%s.%s", p->dir, p->prefix, p->width, p->suffix, end);
    return s;
}

static int failed(const char *path, int sys, stk_error *err)
{
    char text[96];

    return stk_fail(err, STK_EIO, "can't write %.120s: %s", path,
                    strerror_r(sys, text, sizeof text));
}

static int lock_take(stk_stamp *s, const char *path, int (*stop)(void *cookie), void *cookie,
                     stk_error *err)
{
    int rc;

    while ((rc = stk_lock_try(&s->lock, path)) == STK_END) {
        if (stop(cookie))
            return stk_fail(err, STK_ECLOSED, "stopped while another process packs to here");
        usleep(POLL_US);
    }
    if (rc == STK_ENOMEM)
        return stk_fail_nomem(err, strlen(path));
    return rc < 0 ? failed(path, errno, err) : 0;
}

int stk_stamp_lock(stk_stamp *s, const stk_shard_pattern *p, int (*stop)(void *cookie),
                   void *cookie, stk_error *err)
{
    char *lock = path_of(p, "lock"), *dir;
    int rc;

    s->path = path_of(p, "pack");
    dir = s->path ? stk_strndup(s->path, (size_t)(strrchr(s->path, '/') - s->path)) : NULL;
    rc = dir && lock ? stk_shard_folder_make(dir, err) : stk_fail_nomem(err, 64);
    if (rc == 0)
        rc = lock_take(s, lock, stop, cookie, err);
    stk_free(dir);
    stk_free(lock);
    return rc;
}

/* ---- reading ---- */

static int number_at(stk_bytes line, const char *name, uint64_t *out)
{
    stk_bytes v;
    char text[32] = "", *end;

    if (stk_json_find(line, name, &v, NULL) < 0 || !v.len || v.len >= sizeof text)
        return 0;
    memcpy(text, v.data, v.len);
    if (text[0] == '"') /* the fingerprint, in hex */
        *out = strtoull(text + 1, &end, 16);
    else
        *out = strtoull(text, &end, 10);
    return end > text && (*end == 0 || *end == '"');
}

void stk_stamp_parse(stk_stamp *s, char *text, uint64_t fingerprint)
{
    uint64_t shard, size, print;
    char *end;

    for (int first = 1; (end = strchr(text, '\n')); text = end + 1, first = 0) {
        stk_bytes line = { (const uint8_t *)text, (size_t)(end - text) };

        if (first) {
            s->found = number_at(line, "fingerprint", &print) && print == fingerprint;
            if (!s->found)
                return;
        } else if (number_at(line, "shard", &shard) && number_at(line, "size", &size) &&
                   shard < s->n) {
            s->size[shard] = size;
        }
    }
}

int stk_stamp_load(stk_stamp *s, uint64_t fingerprint, uint64_t n, stk_error *err)
{
    int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *text;
    ssize_t got;

    s->n = n;
    s->size = stk_zalloc(n + 1, sizeof *s->size);
    if (!s->size || fd < 0 || fstat(fd, &st) < 0 || st.st_size > STAMP_MAX) {
        if (fd >= 0)
            close(fd);
        return s->size ? 0 : stk_fail_nomem(err, n * sizeof *s->size);
    }
    text = stk_zalloc(1, (size_t)st.st_size + 1);
    got = text ? read(fd, text, (size_t)st.st_size) : -1;
    if (got > 0)
        stk_stamp_parse(s, text, fingerprint);
    stk_free(text);
    close(fd);
    return 0;
}

/* ---- writing ---- */

static int append(const stk_stamp *s, const char *line, stk_error *err)
{
    size_t len = strlen(line);

    if (write(s->fd, line, len) != (ssize_t)len || fdatasync(s->fd) < 0)
        return failed(s->path, errno, err);
    return 0;
}

/* Begun by a rename, so that a link of its name is replaced and not followed. */
static int begin_new(stk_stamp *s, uint64_t fingerprint, stk_error *err)
{
    stk_atomic_file f;
    char line[160];
    int rc;

    snprintf(line, sizeof line,
             "{\"stoker\": \"pack\", \"fingerprint\": \"%016" PRIx64 "\", \"shards\": %" PRIu64
             "}\n",
             fingerprint, s->n);
    rc = stk_atomic_open(&f, s->path, err);
    if (rc == 0)
        rc = stk_atomic_write(&f, line, strlen(line), 0, err);
    if (rc == 0)
        rc = stk_atomic_commit(&f, STK_COMMIT_SYNC, err);
    if (rc == 0 && fcntl(f.fd, F_SETFL, O_APPEND) < 0)
        rc = failed(s->path, errno, err);
    if (rc == 0)
        s->fd = stk_atomic_take(&f);
    stk_atomic_close(&f);
    return rc;
}

int stk_stamp_begin(stk_stamp *s, uint64_t fingerprint, int anew, stk_error *err)
{
    if (anew)
        return begin_new(s, fingerprint, err);
    s->fd = open(s->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0) {
        s->fd = 0;
        return failed(s->path, errno, err);
    }
    return append(s, "\n", err); /* ends a line that a kill may have torn */
}

int stk_stamp_add(stk_stamp *s, uint64_t shard, uint64_t size, stk_error *err)
{
    char line[96];

    snprintf(line, sizeof line, "{\"shard\": %" PRIu64 ", \"size\": %" PRIu64 "}\n", shard, size);
    return append(s, line, err);
}

void stk_stamp_close(stk_stamp *s)
{
    char *slash = s->path ? strrchr(s->path, '/') : NULL;

    if (s->fd > 0)
        close(s->fd);
    stk_lock_drop(&s->lock);
    if (slash) {
        *slash = 0;
        (void)!rmdir(s->path); /* only if it is empty: leave nothing behind */
    }
    stk_free(s->path);
    stk_free(s->size);
    memset(s, 0, sizeof *s);
}
