/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_write.c - what a rank is handed, written down before it is handed out.
 *
 * One pwrite a step, at the place where the last whole record ended: a kill tears at most the last
 * record, and a write that failed is simply made again.  The first write has head and record
 * and goes to a file beside it that is then renamed, so a file never stands without a step and an
 * earlier try is replaced whole.  A file that was replaced or removed underneath is an error: its
 * steps would be written to nowhere. */
#include "ledger/ledger_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/mem.h"

struct stk_ledger_writer {
    ldg_head head;
    char *folder, *path;
    int fd; /* -1: not begun */
    uint64_t size;
    uint8_t *buf; /* room for the head and one record */
};

static int failed(const char *what, const char *path, int sys, stk_error *err)
{
    char text[80];

    return stk_fail(err, sys == ENOMEM ? STK_ENOMEM : STK_EIO, "can't %s the ledger %.120s: %s",
                    what, path, strerror_r(sys, text, sizeof text));
}

/* Every folder on the way, as mkdir -p. */
static int folder_make(const char *folder, stk_error *err)
{
    char *path = stk_strdup(folder);
    struct stat st;
    int rc = 0;

    if (!path)
        return stk_fail_nomem(err, strlen(folder));
    for (char *p = path + 1; rc == 0 && *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        if (mkdir(path, 0777) < 0 && errno != EEXIST && stat(path, &st) < 0)
            rc = failed("make a folder for", path, errno, err);
        *p = '/';
    }
    if (rc == 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
        rc = failed("make a folder for", path, errno, err);
    if (rc == 0 && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        rc = stk_fail(err, STK_EINVAL, "a ledger is a folder, and %.160s is a file", folder);
    if (rc == 0 && access(path, W_OK | X_OK) < 0)
        rc = failed("write to the folder of", path, errno, err);
    stk_free(path);
    return rc;
}

static char *path_of(const char *folder, const ldg_head *h)
{
    size_t size = strlen(folder) + 80;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s/rank%05" PRIu32 "-gen%04" PRIu64 LDG_SUFFIX, folder, h->rank,
                 h->generation);
    return s;
}

int stk_ledger_writer_open(stk_ledger_writer **out, const char *folder, const ldg_head *head,
                           stk_error *err)
{
    size_t room = sizeof *head + ldg_step_bytes(head->max_rows, 8);
    stk_ledger_writer *w;
    int rc;

    *out = NULL;
    if (!folder[0])
        return stk_fail(err, STK_EINVAL, "a ledger needs the name of a folder");
    STK_TRY(folder_make(folder, err));
    w = STK_NEW(stk_ledger_writer);
    if (!w)
        return stk_fail_nomem(err, sizeof *w);
    w->fd = -1;
    w->head = *head;
    w->head.id_bytes = head->data.samples >> 32 ? 8 : 4;
    w->folder = stk_strdup(folder);
    w->path = path_of(folder, head);
    w->buf = stk_alloc(room);
    rc = w->folder && w->path && w->buf ? 0 : stk_fail_nomem(err, room);
    if (rc < 0)
        stk_ledger_writer_close(&w);
    *out = w;
    return rc;
}

int stk_ledger_writer_is(const stk_ledger_writer *w, const char *folder, uint64_t generation)
{
    return w->head.generation == generation && !strcmp(w->folder, folder);
}

void stk_ledger_writer_close(stk_ledger_writer **wp)
{
    stk_ledger_writer *w = *wp;

    if (!w)
        return;
    *wp = NULL;
    if (w->fd >= 0)
        close(w->fd);
    stk_free(w->folder);
    stk_free(w->path);
    stk_free(w->buf);
    stk_free(w);
}

/* ---- a step ---- */

static size_t put_head(stk_ledger_writer *w, uint8_t *at)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    memcpy(w->head.magic, LDG_MAGIC, sizeof w->head.magic);
    w->head.version = LDG_VERSION;
    w->head.head_bytes = sizeof w->head;
    w->head.started_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    w->head.crc = 0;
    w->head.crc = stk_crc32c(0, &w->head, sizeof w->head);
    memcpy(at, &w->head, sizeof w->head);
    return sizeof w->head;
}

static size_t put_step(const stk_ledger_writer *w, const stk_ledger_row *row, uint8_t *at)
{
    size_t len = ldg_step_bytes(row->rows, w->head.id_bytes);
    uint8_t *ids = at + sizeof(ldg_step), *bits = ids + (size_t)row->rows * w->head.id_bytes;
    ldg_step s = { .rows = row->rows,
                   .epoch = row->epoch,
                   .step = row->step,
                   .start = row->start,
                   .count = row->count };

    memset(bits, 0, (size_t)(at + len - bits));
    for (uint32_t i = 0; i < row->rows; i++) {
        memcpy(ids + (size_t)i * w->head.id_bytes, &row->ids[i], w->head.id_bytes);
        bits[i / 8] |= (uint8_t)(!!row->valid[i] << i % 8);
    }
    memcpy(at, &s, sizeof s);
    s.crc = stk_crc32c(0, at, len);
    memcpy(at, &s, sizeof s);
    return len;
}

/* One write, but for what a full disk or a signal cut short. */
static int put_bytes(int fd, const uint8_t *p, size_t len, uint64_t at)
{
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

/* The file has its name only once it has a record.  A link of that name is replaced, not
 * followed. */
static int begin(stk_ledger_writer *w, const stk_ledger_row *row, stk_error *err)
{
    stk_atomic_file f = { 0 };
    size_t len;
    int rc;

    STK_TRY(stk_ledger_turn(w->folder, &w->head.turn, err));
    len = put_head(w, w->buf);
    len += put_step(w, row, w->buf + len);
    stk_atomic_sweep_like(w->path);
    rc = stk_atomic_open(&f, w->path, NULL);
    if (rc == 0)
        rc = stk_atomic_write(&f, w->buf, len, 0, NULL);
    if (rc == 0)
        rc = stk_atomic_commit(&f, STK_COMMIT_FAST, NULL);
    if (rc == 0) {
        w->fd = stk_atomic_take(&f);
        w->size = len;
    } else {
        rc = failed("begin", w->path, f.sys, err);
    }
    stk_atomic_close(&f);
    return rc;
}

int stk_ledger_writer_add(stk_ledger_writer *w, const stk_ledger_row *row, stk_error *err)
{
    struct stat st;
    size_t len;

    if (w->fd < 0)
        return begin(w, row, err);
    if (fstat(w->fd, &st) == 0 && !st.st_nlink)
        return stk_fail(err, STK_EIO,
                        "the ledger %.120s was replaced or removed: give every loader a folder of "
                        "its own",
                        w->path);
    len = put_step(w, row, w->buf);
    if (put_bytes(w->fd, w->buf, len, w->size) < 0)
        return failed("write", w->path, errno, err);
    w->size += len;
    return 0;
}
