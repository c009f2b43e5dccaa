/* SPDX-License-Identifier: Apache-2.0 */
/* pack_stamp.c - see pack_stamp.h.  Lines are appended by one write each, so that a killed
 * process leaves whole lines, and perhaps one torn at the end, which is ignored. */
#include "tools/pack_stamp.h"

#include <dirent.h>
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

static char *path_of(const stk_shard_pattern *p, const char *part, const char *end)
{
    size_t size = strlen(p->dir) + strlen(p->prefix) + strlen(p->suffix) + strlen(part) + 48;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s.stoker/%s%%%02dd%s.%s%s", p->dir, p->prefix, p->width, p->suffix, part, end);
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
    char *lock = path_of(p, s->part, "lock"), *dir;
    int rc;

    s->path = path_of(p, s->part, "pack");
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

/* The list without its brackets; without memory for it the shard is made again. */
static void take_failed(stk_stamp *s, uint64_t shard, stk_bytes line)
{
    stk_bytes v;

    stk_free(s->failed[shard]);
    s->failed[shard] = NULL;
    if (stk_json_find(line, "failed", &v, NULL) < 0 || v.len < 3 || v.data[0] != '[')
        return;
    s->failed[shard] = stk_strndup((const char *)v.data + 1, v.len - 2);
    if (!s->failed[shard])
        s->size[shard] = 0;
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
            take_failed(s, shard, line);
        }
    }
}

static int read_note(stk_stamp *s, const char *path, uint64_t fingerprint, stk_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *text;
    ssize_t got;

    if (fd < 0)
        return 0;
    text = fstat(fd, &st) < 0 || st.st_size > STAMP_MAX ? NULL : stk_zalloc(1, (size_t)st.st_size + 1);
    got = text ? read(fd, text, (size_t)st.st_size) : -1;
    if (got > 0)
        stk_stamp_parse(s, text, fingerprint);
    stk_free(text);
    close(fd);
    return text || st.st_size > STAMP_MAX ? 0 : stk_fail_nomem(err, (size_t)st.st_size);
}

int stk_stamp_load(stk_stamp *s, uint64_t fingerprint, uint64_t n, stk_error *err)
{
    s->n = n;
    s->size = stk_zalloc(n + 1, sizeof *s->size);
    s->failed = stk_zalloc(n + 1, sizeof *s->failed);
    if (!s->size || !s->failed)
        return stk_fail_nomem(err, n * sizeof *s->size);
    return read_note(s, s->path, fingerprint, err);
}

uint64_t stk_stamp_failed(const stk_stamp *s, uint64_t shard)
{
    const char *t = s->failed && s->failed[shard] ? s->failed[shard] : "";
    uint64_t n = 0;

    for (; (t = strstr(t, "{\"sample\": ")); t++)
        n++;
    return n;
}

/* ---- notes of parts ---- */

/* Call fn for the path of every note of a part. */
static int each_part(const stk_shard_pattern *p, int (*fn)(void *cookie, const char *path, stk_error *err),
                     void *cookie, stk_error *err)
{
    char *begin = path_of(p, "", "part-"), *slash = begin ? strrchr(begin, '/') : NULL;
    DIR *d = NULL;
    struct dirent *e;
    int rc = begin ? 0 : stk_fail_nomem(err, 64);

    if (slash) {
        *slash = 0;
        d = opendir(begin);
    }
    while (rc == 0 && d && (e = readdir(d))) {
        char path[4400];

        if (strncmp(e->d_name, slash + 1, strlen(slash + 1)))
            continue;
        snprintf(path, sizeof path, "%s/%s", begin, e->d_name);
        rc = fn(cookie, path, err);
    }
    if (d)
        closedir(d);
    stk_free(begin);
    return rc;
}

typedef struct gather {
    stk_stamp *s;
    uint64_t fingerprint;
} gather;

static int gather_one(void *cookie, const char *path, stk_error *err)
{
    gather *g = cookie;
    size_t len = strlen(path);
    int found = g->s->found, rc;

    if (len < 5 || strcmp(path + len - 5, ".pack"))
        return 0;
    rc = read_note(g->s, path, g->fingerprint, err);
    g->s->others |= g->s->found;
    g->s->found = found; /* the note to go on with is one's own */
    return rc;
}

int stk_stamp_gather(stk_stamp *s, const stk_shard_pattern *p, uint64_t fingerprint, stk_error *err)
{
    gather g = { s, fingerprint };
    char *whole = path_of(p, "", "pack");
    int rc = whole ? 0 : stk_fail_nomem(err, 64);

    if (rc == 0 && s->part[0])
        rc = gather_one(&g, whole, err);
    stk_free(whole);
    return rc == 0 ? each_part(p, gather_one, &g, err) : rc;
}

static int drop_one(void *cookie, const char *path, stk_error *err)
{
    (void)cookie;
    (void)err;
    (void)!unlink(path);
    return 0;
}

void stk_stamp_drop_parts(const stk_stamp *s, const stk_shard_pattern *p)
{
    stk_error err;

    (void)s;
    (void)each_part(p, drop_one, NULL, &err);
}

/* ---- what could not be made ---- */

/* One object per line: they stand in the list with ", " between them. */
static int list_lines(const char *list, stk_text *out, stk_error *err)
{
    while (*list) {
        const char *end = strstr(list, "}, {\"sample\": ");
        size_t len = end ? (size_t)(end - list) + 1 : strlen(list);

        STK_TRY(stk_text_put(out, list, len, err));
        STK_TRY(stk_text_put(out, "\n", 1, err));
        list += len + (end ? 2 : 0);
    }
    return 0;
}

int stk_stamp_list_failed(const stk_stamp *s, const stk_shard_pattern *p, stk_error *err)
{
    char *path = path_of(p, s->part, "failed");
    stk_text text = { 0 };
    int rc = path ? 0 : stk_fail_nomem(err, 64);

    for (uint64_t i = 0; rc == 0 && i < s->n; i++)
        if (s->failed[i])
            rc = list_lines(s->failed[i], &text, err);
    if (rc == 0 && text.len)
        rc = stk_atomic_put(path, text.s, text.len, STK_COMMIT_SYNC, err);
    else if (rc == 0)
        (void)!unlink(path);
    stk_free(text.s);
    stk_free(path);
    return rc;
}

int stk_stamp_read_failed(const stk_shard_pattern *p, stk_text *out, stk_error *err)
{
    char *path = path_of(p, "", "failed"), buf[8192];
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, rc = 0;
    ssize_t got = 0;

    if (!path)
        return stk_fail_nomem(err, 64);
    if (fd < 0)
        rc = stk_fail(err, STK_ENOTFOUND, "there is no list %.160s: no sample of this pack failed", path);
    while (rc == 0 && out->len < STAMP_MAX && (got = read(fd, buf, sizeof buf)) > 0)
        rc = stk_text_put(out, buf, (size_t)got, err);
    if (fd >= 0)
        close(fd);
    stk_free(path);
    return rc;
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

int stk_stamp_begin(stk_stamp *s, uint64_t fingerprint, int first, stk_error *err)
{
    if (first)
        return begin_new(s, fingerprint, err);
    s->fd = open(s->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0) {
        s->fd = 0;
        return failed(s->path, errno, err);
    }
    return append(s, "\n", err); /* ends a line that a kill may have torn */
}

int stk_stamp_add(stk_stamp *s, const stk_stamp_line *l, stk_error *err)
{
    char head[96];
    stk_text line = { 0 };
    int n = snprintf(head, sizeof head, "{\"shard\": %" PRIu64 ", \"size\": %" PRIu64, l->shard, l->size);
    int rc = stk_text_put(&line, head, (size_t)n, err), bad = l->failed && l->failed->len;

    if (rc == 0 && bad) {
        rc = stk_text_put(&line, ", \"failed\": [", 13, err);
        if (rc == 0)
            rc = stk_text_put(&line, l->failed->s, l->failed->len, err);
        if (rc == 0)
            rc = stk_text_put(&line, "]", 1, err);
    }
    if (rc == 0)
        rc = stk_text_put(&line, "}\n", 2, err);
    if (rc == 0)
        rc = append(s, line.s, err);
    if (rc == 0 && bad) {
        s->failed[l->shard] = stk_strndup(l->failed->s, l->failed->len);
        if (!s->failed[l->shard])
            rc = stk_fail_nomem(err, l->failed->len);
    }
    stk_free(line.s);
    return rc;
}

void stk_stamp_close(stk_stamp *s)
{
    char *slash = s->path ? strrchr(s->path, '/') : NULL;

    if (s->fd > 0)
        close(s->fd);
    stk_lock_drop(&s->lock);
    if (slash) {
        *slash = 0;
        (void)!rmdir(s->path); /* only if it is empty: leave nothing there */
    }
    stk_free(s->path);
    stk_free(s->size);
    for (uint64_t i = 0; s->failed && i < s->n; i++)
        stk_free(s->failed[i]);
    stk_free(s->failed);
    memset(s, 0, sizeof *s);
}
