/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file.c - see atomic_file.h.
 *
 * A sweep may meet a file between its creation and its lock, so a writer that has the lock makes
 * sure that the file still has its name.  The same holds for lock files, whose holders remove
 * them. */
#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define RANDOM_DIGITS 16
#define TRIES 100

static int failed(stk_atomic_file *f, const char *what, int sys, stk_error *err)
{
    char text[96];

    f->sys = sys;
    return stk_fail(err, sys == ENOMEM ? STK_ENOMEM : STK_EIO, "can't %s %.160s: %s", what, f->path,
                    strerror_r(sys, text, sizeof text));
}

/* Is fd the file of this name? */
static int named(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* 0, or an errno. */
static int create(stk_atomic_file *f, const char *base, size_t room)
{
    uint64_t random;

    for (int i = 0; i < TRIES; i++) {
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return EAGAIN;
        snprintf(f->tmp, room, "%.*s.%s.tmp.%016" PRIx64, (int)(base - f->path), f->path, base,
                 random);
        f->fd = open(f->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno == EEXIST)
            continue;
        if (f->fd < 0)
            return errno;
        (void)!flock(f->fd, LOCK_EX | LOCK_NB); /* without locks nothing is swept either */
        if (named(f->fd, f->tmp))
            return 0;
        close(f->fd);
        f->fd = -1;
    }
    return EEXIST;
}

int stk_atomic_open(stk_atomic_file *f, const char *path, stk_error *err)
{
    const char *slash;
    size_t room = strlen(path) + RANDOM_DIGITS + 16;
    int sys;

    *f = (stk_atomic_file){ .path = stk_strdup(path), .tmp = stk_alloc(room), .fd = -1 };
    if (!f->path || !f->tmp) {
        stk_atomic_close(f);
        f->sys = ENOMEM;
        return stk_fail_nomem(err, room);
    }
    slash = strrchr(f->path, '/');
    sys = create(f, slash ? slash + 1 : f->path, room);
    if (!sys)
        return 0;
    failed(f, "create", sys, err);
    stk_atomic_close(f);
    f->sys = sys;
    return sys == ENOMEM ? STK_ENOMEM : STK_EIO;
}

int stk_atomic_write(stk_atomic_file *f, const void *data, size_t len, uint64_t offset,
                     stk_error *err)
{
    const uint8_t *p = data;

    while (len) {
        ssize_t n = pwrite(f->fd, p, len < (1u << 30) ? len : 1u << 30, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(f, "write", n ? errno : ENOSPC, err);
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int stk_atomic_sync(stk_atomic_file *f, stk_error *err)
{
    return fsync(f->fd) < 0 ? failed(f, "bring to disk", errno, err) : 0;
}

/* The rename is on disk only when the folder is.  A folder that can't be synced still has a whole
 * file. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? stk_strndup(path, (size_t)(slash - path) + 1) : stk_strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    stk_free(dir);
    if (fd < 0)
        return;
    (void)!fsync(fd);
    close(fd);
}

/* Where the file system has no rename that leaves an existing file alone, a second link is one. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (link(from, to) == 0)
        return unlink(from);
    return errno == EEXIST ? -1 : rename(from, to);
}

int stk_atomic_commit(stk_atomic_file *f, int how, stk_error *err)
{
    if (how & STK_COMMIT_SYNC)
        STK_TRY(stk_atomic_sync(f, err));
    if ((how & STK_COMMIT_NO_REPLACE ? rename_new(f->tmp, f->path) : rename(f->tmp, f->path)) < 0)
        return failed(f, "put in place", errno, err);
    f->committed = 1;
    if (how & (STK_COMMIT_SYNC | STK_COMMIT_SYNCED))
        sync_folder(f->path);
    return 0;
}

int stk_atomic_take(stk_atomic_file *f)
{
    int fd = f->fd;

    f->fd = -1;
    return fd;
}

void stk_atomic_close(stk_atomic_file *f)
{
    if (f->tmp && f->fd >= 0) {
        if (!f->committed)
            unlink(f->tmp);
        close(f->fd);
    }
    stk_free(f->path);
    stk_free(f->tmp);
    *f = (stk_atomic_file){ .fd = -1 };
}

int stk_atomic_put(const char *path, const void *data, size_t len, int how, stk_error *err)
{
    stk_atomic_file f;
    int rc = stk_atomic_open(&f, path, err);

    if (rc == 0)
        rc = stk_atomic_write(&f, data, len, 0, err);
    if (rc == 0)
        rc = stk_atomic_commit(&f, how, err);
    stk_atomic_close(&f);
    return rc;
}

int stk_is_full(int sys)
{
    return sys == ENOSPC || sys == EDQUOT || sys == EFBIG;
}

int stk_unwritable(int sys)
{
    return stk_is_full(sys) || sys == EROFS || sys == EACCES || sys == EPERM;
}

/* ---- leftovers ---- */

static int is_temporary(const char *name, const char *prefix)
{
    const char *end = name + strlen(name) - RANDOM_DIGITS;

    return name[0] == '.' && !strncmp(name + 1, prefix, strlen(prefix)) &&
           end > name + 5 + strlen(prefix) && !strncmp(end - 5, ".tmp.", 5) &&
           strspn(end, "0123456789abcdef") == RANDOM_DIGITS;
}

/* Opened for writing, since some network file systems give exclusive locks to no other. */
static void sweep_one(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0); /* its writer is dead */
    close(fd);
}

void stk_atomic_sweep(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (is_temporary(e->d_name, prefix))
            sweep_one(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

void stk_atomic_sweep_like(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
               *dot = strrchr(base, '.');
    char *dir = slash ? stk_strndup(path, (size_t)(slash - path) + 1) : stk_strdup(".");
    char *prefix = dot ? stk_strndup(base, (size_t)(dot - base)) : stk_strdup(base);

    if (dir && prefix)
        stk_atomic_sweep(dir, prefix);
    stk_free(dir);
    stk_free(prefix);
}

/* ---- locks ---- */

enum { GONE = 0, HELD = 2 }; /* and STK_END, STK_EIO.  GONE: its holder removed it meanwhile */

static int lock_once(stk_lock_file *l)
{
    l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return errno == ENOENT ? GONE : STK_EIO;
    if (flock(l->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? STK_END : errno == EINTR ? GONE : HELD;
    return named(l->fd, l->path) ? HELD : GONE;
}

int stk_lock_try(stk_lock_file *l, const char *path)
{
    int got = GONE, sys;

    *l = (stk_lock_file){ .path = stk_strdup(path), .fd = -1 };
    if (!l->path)
        return STK_ENOMEM;
    for (int i = 0; i < TRIES && got == GONE; i++) {
        got = lock_once(l);
        if (got == HELD)
            return 0;
        sys = errno;
        if (l->fd >= 0)
            close(l->fd);
        l->fd = -1;
        errno = sys;
    }
    sys = errno;
    stk_free(l->path);
    *l = (stk_lock_file){ .fd = -1 };
    errno = sys;
    return got == STK_END ? STK_END : STK_EIO;
}

void stk_lock_drop(stk_lock_file *l)
{
    if (l->path && l->fd >= 0) {
        if (named(l->fd, l->path)) /* without locks another process may have removed it */
            unlink(l->path);
        flock(l->fd, LOCK_UN); /* also where a forked child still has the descriptor */
        close(l->fd);
    }
    stk_free(l->path);
    *l = (stk_lock_file){ .fd = -1 };
}
