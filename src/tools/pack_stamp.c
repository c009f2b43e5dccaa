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

#include "base/halt.h"
#include "base/json.h"
#include "base/registry.h"
#include "tools/pack_side.h"

#define POLL_US 20000

static char *path_of(const stk_shard_pattern *p, const char *part, const char *end)
{
    size_t size = strlen(p->dir) + strlen(p->prefix) + strlen(p->suffix) + strlen(part) + 48;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s.stoker/%s%%%02dd%s.%s%s", p->dir, p->prefix, p->width, p->suffix,
                 part, end);
    return s;
}

char *stk_stamp_path(const stk_shard_pattern *p, const char *end)
{
    return path_of(p, "", end);
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
        if (stop(cookie) || stk_halt_wanted())
            return stk_fail(err, STK_ECLOSED, "stopped while another process packs to here");
        usleep(POLL_US);
    }
    if (rc == STK_ENOMEM)
        return stk_fail_nomem(err, strlen(path));
    return rc < 0 ? failed(path, errno, err) : 0;
}

/* A bucket has no locks: one of this host's, in the index cache.  Without one two packs at a time
 * write the same bytes twice. */
static int lock_remote(stk_stamp *s, const stk_shard_pattern *p, int (*stop)(void *cookie),
                       void *cookie, stk_error *err)
{
    char path[1200], dir[1200];
    int rc = 0;

    STK_TRY(stk_object_writable(p->dir, err));
    s->source = stk_registry_source(p->dir);
    s->store = p->store;
    s->path = path_of(p, "", "pack");
    if (!s->path)
        return stk_fail_nomem(err, 64);
    if (!stk_remote_lock_path(s, path, sizeof path))
        return 0;
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (stk_shard_folder_make(dir, NULL) < 0)
        return 0;
    rc = lock_take(s, path, stop, cookie, err);
    return rc == STK_EIO ? 0 : rc;
}

int stk_stamp_lock(stk_stamp *s, const stk_shard_pattern *p, int (*stop)(void *cookie),
                   void *cookie, stk_error *err)
{
    char *lock = path_of(p, s->part, "lock"), *dir;
    int rc;

    if (stk_is_address(p->dir)) {
        stk_free(lock);
        return lock_remote(s, p, stop, cookie, err);
    }
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
            s->found = stk_side_number(line, "fingerprint", &print) && print == fingerprint;
            if (!s->found)
                return;
        } else if (stk_side_number(line, "shard", &shard) && stk_side_number(line, "size", &size) &&
                   shard < s->n) {
            s->size[shard] = size;
            take_failed(s, shard, line);
        }
    }
}

/* One that can't be read is none: its shards are made again. */
static int read_note(stk_stamp *s, const char *path, uint64_t fingerprint, stk_error *err)
{
    stk_text text = { 0 };
    int rc = stk_side_read(path, NULL, &text, err);

    if (rc == 0 && text.len)
        stk_stamp_parse(s, text.s, fingerprint);
    stk_free(text.s);
    return rc == STK_ENOMEM ? rc : 0;
}

int stk_stamp_load(stk_stamp *s, uint64_t fingerprint, uint64_t n, stk_error *err)
{
    s->n = n;
    s->size = stk_zalloc(n + 1, sizeof *s->size);
    s->failed = stk_zalloc(n + 1, sizeof *s->failed);
    if (!s->size || !s->failed)
        return stk_fail_nomem(err, n * sizeof *s->size);
    return s->source ? stk_remote_notes_load(s, fingerprint, err)
                     : read_note(s, s->path, fingerprint, err);
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
static int each_part(const stk_shard_pattern *p,
                     int (*fn)(void *cookie, const char *path, stk_error *err), void *cookie,
                     stk_error *err)
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
    char *whole;
    int rc;

    if (s->source) /* it has no notes of parts */
        return 0;
    whole = path_of(p, "", "pack");
    rc = whole ? 0 : stk_fail_nomem(err, 64);
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

    if (!s->source)
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

/* A part in a bucket makes no list: the merge does. */
static int put_failed(const stk_stamp *s, const char *path, const stk_text *text, stk_error *err)
{
    if (!s->source && text->len)
        return stk_side_write(path, NULL, text, err);
    if (!s->source)
        (void)!unlink(path);
    else if (!s->part[0] && text->len)
        return stk_side_write(path, s->store, text, err);
    else if (!s->part[0] && s->listed_failed)
        return s->source->remove(path, s->store, err);
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
    if (rc == 0)
        rc = put_failed(s, path, &text, err);
    stk_free(text.s);
    stk_free(path);
    return rc;
}

static int no_list(const char *path, stk_error *err)
{
    return stk_fail(
        err, STK_ENOTFOUND,
        "there is no list %.160s: no sample of this pack failed, or it is not packed to its end",
        path);
}

/* What the list at `path` has, if it is there. */
static int add_failed(const char *path, stk_text *out, stk_error *err)
{
    int rc = stk_side_read(path, NULL, out, err);

    return rc == STK_ENOMEM ? rc : 0;
}

static int add_part_failed(void *cookie, const char *path, stk_error *err)
{
    size_t len = strlen(path);

    return len > 7 && !strcmp(path + len - 7, ".failed") ? add_failed(path, cookie, err) : 0;
}

/* Parts have lists of their own until they are merged. */
static int read_failed(const stk_shard_pattern *p, const char *path, stk_text *out, stk_error *err)
{
    STK_TRY(add_failed(path, out, err));
    STK_TRY(each_part(p, add_part_failed, out, err));
    return out->len ? 0 : no_list(path, err);
}

int stk_stamp_read_failed(const stk_shard_pattern *p, stk_text *out, stk_error *err)
{
    char *path = path_of(p, "", "failed");
    int rc = path ? 0 : stk_fail_nomem(err, 64);

    if (rc == 0 && !stk_is_address(path))
        rc = read_failed(p, path, out, err);
    else if (rc == 0)
        rc = stk_object_writable(p->dir, err);
    if (rc == 0 && stk_is_address(path)) {
        rc = stk_side_read(path, p->store, out, err);
        if (rc == STK_ENOTFOUND)
            rc = no_list(path, err);
    }
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

size_t stk_stamp_head(const stk_stamp *s, uint64_t fingerprint, char line[STK_STAMP_HEAD])
{
    int n = snprintf(line, STK_STAMP_HEAD,
                     "{\"stoker\": \"pack\", \"fingerprint\": \"%016" PRIx64
                     "\", \"shards\": %" PRIu64 "}\n",
                     fingerprint, s->n);

    return (size_t)n;
}

/* Begun by a rename, so that a link of its name is replaced and not followed. */
static int begin_new(stk_stamp *s, uint64_t fingerprint, stk_error *err)
{
    stk_atomic_file f;
    char line[STK_STAMP_HEAD];
    size_t len = stk_stamp_head(s, fingerprint, line);
    int rc = stk_atomic_open(&f, s->path, err);

    if (rc == 0)
        rc = stk_atomic_write(&f, line, len, 0, err);
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
    if (s->source)
        return stk_remote_notes_begin(s, err);
    if (first)
        return begin_new(s, fingerprint, err);
    s->fd = open(s->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0) {
        s->fd = 0;
        return failed(s->path, errno, err);
    }
    return append(s, "\n", err); /* ends a line that a kill may have torn */
}

int stk_stamp_line_text(const stk_stamp_line *l, stk_text *out, stk_error *err)
{
    char head[96];
    int n = snprintf(head, sizeof head, "{\"shard\": %" PRIu64 ", \"size\": %" PRIu64, l->shard,
                     l->size);

    STK_TRY(stk_text_put(out, head, (size_t)n, err));
    if (l->failed && l->failed->len) {
        STK_TRY(stk_text_put(out, ", \"failed\": [", 13, err));
        STK_TRY(stk_text_put(out, l->failed->s, l->failed->len, err));
        STK_TRY(stk_text_put(out, "]", 1, err));
    }
    return stk_text_put(out, "}\n", 2, err);
}

int stk_stamp_add(stk_stamp *s, const stk_stamp_line *l, stk_error *err)
{
    stk_text line = { 0 };
    int rc = stk_stamp_line_text(l, &line, err);

    if (rc == 0)
        rc = s->source ? stk_remote_note_add(s, l, &line, err) : append(s, line.s, err);
    if (rc == 0)
        atomic_fetch_add_explicit(&s->notes, 1, memory_order_relaxed);
    if (rc == 0 && l->failed && l->failed->len) {
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
    stk_names_fini(&s->foreign);
    if (slash && !s->source) {
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
