/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_read.c - ledger files, streamed: record by record through one buffer, however large they
 * are.
 *
 * Nothing of a file is believed before its CRC was looked at.  What a kill or a crash leaves at the
 * end of a file (a record that is cut short, a last one that is not whole, zeros) is passed over;
 * anything else that does not fit is an error with the file's name and the offset.  A file may
 * grow while it is read: what stands in it when its turn comes is read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "ledger/ledger_model.h"

#define PIECE (1u << 20)
#define MAX_FILES (1u << 20)

/* ---- the folder ---- */

static int bad_file(const char *name, uint64_t offset, const char *why, stk_error *err)
{
    int rc = stk_fail(err, STK_ECORRUPT, "%s: this ledger file is damaged; move it away", why);

    stk_error_at(err, name, offset, (stk_bytes){ 0 });
    return rc;
}

static int cant(const char *what, const char *name, int sys, stk_error *err)
{
    char text[80];

    return stk_fail(err, sys == ENOENT ? STK_ENOTFOUND : STK_EIO, "can't %s %.140s: %s", what, name,
                    strerror_r(sys, text, sizeof text));
}

static int file_open(const stk_ledger *l, const char *name, stk_error *err)
{
    size_t size = strlen(l->folder) + strlen(name) + 2;
    char *path = stk_alloc(size);
    int fd;

    if (!path)
        return stk_fail_nomem(err, size);
    snprintf(path, size, "%s/%s", l->folder, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fd = cant("open", path, errno, err);
    stk_free(path);
    return fd;
}

/* Bytes that are there, up to len; or -1. */
static ssize_t read_at(int fd, void *to, size_t len, uint64_t offset)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (uint8_t *)to + got, len - got, (off_t)(offset + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static const char *head_problem(const ldg_head *h)
{
    ldg_head bare = *h;

    bare.crc = 0;
    if (memcmp(h->magic, LDG_MAGIC, sizeof h->magic) != 0)
        return "it does not begin as a ledger does";
    if (h->version != LDG_VERSION || h->head_bytes != sizeof *h)
        return "it has another version";
    if (stk_crc32c(0, &bare, sizeof bare) != h->crc)
        return "the checksum of its head is wrong";
    if (h->rank >= h->world || !h->max_rows || h->max_rows > LDG_MAX_ROWS ||
        (h->id_bytes != 4 && h->id_bytes != 8) || !h->data.samples || h->data.samples >> 48)
        return "its head makes no sense";
    return NULL;
}

int stk_ledger_new(stk_ledger **out, const char *folder, stk_error *err)
{
    stk_ledger *l = STK_NEW(stk_ledger);

    *out = NULL;
    if (!l)
        return stk_fail_nomem(err, sizeof *l);
    l->fd = -1;
    l->last_epoch = UINT64_MAX;
    l->folder = stk_strdup(folder);
    if (!l->folder) {
        stk_free(l);
        return stk_fail_nomem(err, strlen(folder));
    }
    *out = l;
    return 0;
}

static int file_room(stk_ledger *l, stk_error *err)
{
    size_t cap = l->cap ? l->cap * 2 : 16;
    ldg_file *file;

    if (l->n < l->cap)
        return 0;
    if (l->n == MAX_FILES)
        return stk_fail(err, STK_ELIMIT, "%.160s has more than %u files", l->folder, MAX_FILES);
    file = stk_grow(l->file, l->cap * sizeof *file, cap * sizeof *file);
    if (!file)
        return stk_fail_nomem(err, cap * sizeof *file);
    l->file = file;
    l->cap = cap;
    return 0;
}

int stk_ledger_add(stk_ledger *l, const char *name, int fd, stk_error *err)
{
    ldg_file f = { .fd = fd };
    int mine = fd < 0 ? file_open(l, name, err) : fd;
    const char *why;
    ssize_t got;

    if (mine < 0)
        return mine == STK_ENOTFOUND ? 0 : mine; /* replaced just now */
    got = read_at(mine, &f.head, sizeof f.head, 0);
    if (fd < 0)
        close(mine);
    if (got < 0)
        return cant("read", name, errno, err);
    if ((size_t)got < sizeof f.head)
        return 0; /* a crash of the machine left a name without content */
    why = head_problem(&f.head);
    if (why)
        return bad_file(name, 0, why, err);
    STK_TRY(file_room(l, err));
    f.name = stk_strdup(name);
    if (!f.name)
        return stk_fail_nomem(err, strlen(name));
    l->file[l->n++] = f;
    return 0;
}

static int is_ledger(const char *name)
{
    size_t len = strlen(name), end = strlen(LDG_SUFFIX);

    return len > end && name[0] != '.' && !strcmp(name + len - end, LDG_SUFFIX);
}

int stk_ledger_open(stk_ledger **out, const char *folder, stk_error *err)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    stk_ledger *l = NULL;
    int rc;

    *out = NULL;
    if (!dir)
        return cant("open the ledger", folder, errno, err);
    rc = stk_ledger_new(&l, folder, err);
    while (rc == 0 && (entry = readdir(dir)))
        if (is_ledger(entry->d_name))
            rc = stk_ledger_add(l, entry->d_name, -1, err);
    closedir(dir);
    if (rc == 0 && !l->n)
        rc = stk_fail(err, STK_ENOTFOUND,
                      "there is no ledger in %.160s: loader.ledger(folder) writes one", folder);
    if (rc == 0)
        rc = stk_ledger_settle(l, err);
    if (rc < 0)
        stk_ledger_close(&l);
    *out = l;
    return rc;
}

int stk_ledger_file_at(const stk_ledger *l, size_t i, stk_ledger_file *out)
{
    const ldg_file *f = i < l->n ? &l->file[i] : NULL;
    stk_ledger_file full;

    if (!f)
        return STK_END;
    full = (stk_ledger_file){ .size = out->size,
                              .rank = f->head.rank,
                              .world_size = f->head.world,
                              .generation = f->head.generation,
                              .global_batch_size = f->head.global,
                              .seed = f->head.seed,
                              .started_ns = f->head.started_ns,
                              .epoch = f->head.epoch,
                              .position = f->head.position,
                              .samples = f->head.samples,
                              .data = f->head.data,
                              .given_up = f->given_up,
                              .name = f->name };
    memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
    return 0;
}

/* ---- records ---- */

static void file_leave(stk_ledger *l)
{
    if (l->fd >= 0 && l->file[l->at].fd < 0)
        close(l->fd);
    l->fd = -1;
}

static int file_enter(stk_ledger *l, stk_error *err)
{
    const ldg_file *f = &l->file[l->at];
    struct stat st;
    ldg_head now;

    if (f->head.max_rows > l->cap_rows) {
        stk_free(l->ids);
        stk_free(l->valid);
        l->ids = stk_alloc(f->head.max_rows * sizeof *l->ids);
        l->valid = stk_alloc(f->head.max_rows);
        l->cap_rows = l->ids && l->valid ? f->head.max_rows : 0;
        if (!l->cap_rows)
            return stk_fail_nomem(err, f->head.max_rows * sizeof *l->ids);
    }
    l->fd = f->fd >= 0 ? f->fd : file_open(l, f->name, err);
    if (l->fd < 0)
        return l->fd;
    if (fstat(l->fd, &st) < 0)
        return cant("read", f->name, errno, err);
    if (read_at(l->fd, &now, sizeof now, 0) != sizeof now ||
        memcmp(&now, &f->head, sizeof now) != 0)
        return stk_fail(err, STK_ESTALE,
                        "%.160s was replaced while it was read: the run began again, look again",
                        f->name);
    l->size = (uint64_t)st.st_size;
    l->offset = sizeof f->head;
    l->have = 0;
    return 0;
}

static int buf_room(stk_ledger *l, size_t len, stk_error *err)
{
    size_t cap = len > PIECE ? len : PIECE;

    if (l->buf && len <= l->cap_buf)
        return 0;
    stk_free(l->buf);
    l->have = 0;
    l->buf = stk_alloc(cap);
    l->cap_buf = l->buf ? cap : 0;
    return l->buf ? 0 : stk_fail_nomem(err, cap);
}

/* `len` bytes at `offset`, which the file had when it was entered. */
static int piece(stk_ledger *l, uint64_t offset, size_t len, const uint8_t **out, stk_error *err)
{
    uint64_t left = l->size - offset;
    ssize_t got;

    if (offset < l->buf_at || offset - l->buf_at + len > l->have) {
        STK_TRY(buf_room(l, len, err));
        got = read_at(l->fd, l->buf, left < l->cap_buf ? (size_t)left : l->cap_buf, offset);
        l->buf_at = offset;
        l->have = got > 0 ? (size_t)got : 0;
        if (got < 0)
            return cant("read", l->file[l->at].name, errno, err);
        if (l->have < len)
            return bad_file(l->file[l->at].name, offset, "it became shorter", err);
    }
    *out = l->buf + (offset - l->buf_at);
    return 0;
}

/* What a crash of the machine leaves where a write had no blocks yet. */
static int only_zeros(stk_ledger *l)
{
    for (uint64_t at = l->offset; at < l->size;) {
        size_t len = l->size - at < 4096 ? (size_t)(l->size - at) : 4096;
        const uint8_t *p;

        if (piece(l, at, len, &p, NULL) < 0)
            return 0;
        for (size_t i = 0; i < len; i++)
            if (p[i])
                return 0;
        at += len;
    }
    return 1;
}

static int unpack(stk_ledger *l, const ldg_head *h, const uint8_t *p, uint32_t rows)
{
    const uint8_t *bits = p + (size_t)rows * h->id_bytes;

    for (uint32_t i = 0; i < rows; i++) {
        l->ids[i] = 0;
        memcpy(&l->ids[i], p + (size_t)i * h->id_bytes, h->id_bytes);
        l->valid[i] = bits[i / 8] >> i % 8 & 1;
        if (l->ids[i] >= h->data.samples)
            return -1;
    }
    return 0;
}

static uint32_t record_crc(const uint8_t *p, size_t len)
{
    static const uint8_t zero[4] = { 0 };
    uint32_t crc = stk_crc32c(0, p, 4);

    crc = stk_crc32c(crc, zero, 4);
    return stk_crc32c(crc, p + 8, len - 8);
}

/* The record at l->offset.  0: *out has it; 1: it does not count, go on; STK_END: no more here. */
static int record(stk_ledger *l, stk_ledger_step *out, stk_error *err)
{
    const ldg_file *f = &l->file[l->at];
    const ldg_head *h = &f->head;
    uint64_t left = l->size - l->offset, at = l->offset;
    const uint8_t *p;
    ldg_step s;
    size_t len;

    if (left < sizeof s) {
        l->torn += left > 0;
        return STK_END;
    }
    STK_TRY(piece(l, at, sizeof s, &p, err));
    memcpy(&s, p, sizeof s);
    if (!s.rows || s.rows > h->max_rows) {
        l->torn++;
        return only_zeros(l) ? STK_END : bad_file(f->name, at, "a step has no sound size", err);
    }
    len = ldg_step_bytes(s.rows, h->id_bytes);
    if (left < len) {
        l->torn++;
        return STK_END;
    }
    l->offset += len;
    if (s.epoch < l->first_epoch || s.epoch > l->last_epoch)
        return STK_PENDING;
    STK_TRY(piece(l, at, len, &p, err));
    if (record_crc(p, len) != s.crc) {
        l->torn++;
        return left == len ? STK_END : bad_file(f->name, at, "a step's checksum is wrong", err);
    }
    if (s.epoch > f->end_epoch || (s.epoch == f->end_epoch && s.start >= f->end_at)) {
        l->superseded++;
        return STK_PENDING;
    }
    if (unpack(l, h, p + sizeof s, s.rows) < 0)
        return bad_file(f->name, at, "a step has a sample that the data has not", err);
    *out = (stk_ledger_step){ .size = out->size,
                              .rank = h->rank,
                              .world_size = h->world,
                              .rows = s.rows,
                              .generation = h->generation,
                              .epoch = s.epoch,
                              .step = s.step,
                              .position = s.start,
                              .count = s.count,
                              .ids = l->ids,
                              .valid = l->valid };
    return 0;
}

int stk_ledger_next(stk_ledger *l, stk_ledger_step *out, stk_error *err)
{
    stk_ledger_step full = { .size = out->size };
    int rc;

    for (;;) {
        while (l->fd < 0 && l->at < l->n && l->file[l->at].given_up)
            l->at++;
        if (l->at >= l->n)
            break;
        if (l->fd < 0)
            STK_TRY(file_enter(l, err));
        rc = record(l, &full, err);
        if (rc == 0)
            memcpy(out, &full, full.size < sizeof full ? full.size : sizeof full);
        if (rc <= 0)
            return rc;
        if (rc == STK_END) {
            file_leave(l);
            l->at++;
        }
    }
    l->at = 0;
    return STK_END;
}

void stk_ledger_range(stk_ledger *l, uint64_t first_epoch, uint64_t last_epoch)
{
    if (l->at < l->n)
        file_leave(l);
    l->at = 0;
    l->first_epoch = first_epoch;
    l->last_epoch = last_epoch;
    l->superseded = l->torn = 0;
}

void stk_ledger_left_out(const stk_ledger *l, uint64_t *superseded, uint64_t *torn)
{
    *superseded = l->superseded;
    *torn = l->torn;
}

void stk_ledger_close(stk_ledger **lp)
{
    stk_ledger *l = *lp;

    if (!l)
        return;
    *lp = NULL;
    if (l->at < l->n)
        file_leave(l);
    for (size_t i = 0; i < l->n; i++)
        stk_free(l->file[i].name);
    stk_free(l->file);
    stk_free(l->folder);
    stk_free(l->buf);
    stk_free(l->ids);
    stk_free(l->valid);
    stk_free(l);
}
