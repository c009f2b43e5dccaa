/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - files of this machine, by path or file:// URL.
 *
 * Reads are pread, so one open file serves any number of threads.  try_read() takes what the
 * page cache holds and never waits for a disk; where the file system can't say (RWF_NOWAIT
 * unsupported) it reads plainly, and the file remembers that.  What it found before it would
 * have had to wait stays in place, counted by io->got, for a reader that can go on from there.
 *
 * A file below a root is opened by openat2(), which follows no symlink out of it.  Where that
 * refuses (absolute symlinks, also those that stay inside) or is not there, the file is opened as
 * usual and what was opened says where it is: /proc names the file of a descriptor, so that nothing
 * can change between check and use.
 *
 * Paths in file:// URLs are taken as they stand: WebDataset decodes no %XX, and neither do we. */
#include "source/folder_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif

typedef struct local_file {
    stk_file base;
    int fd;
    _Atomic int plain; /* RWF_NOWAIT was refused once */
    int watched;       /* a write to it while it is open is an error */
    stk_file_info was; /* when it was opened */
    _Atomic uint64_t looked;
} local_file;

static const char *local_path(const char *url)
{
    if (strncmp(url, "file://", 7))
        return url;
    url += 7;
    return strncmp(url, "localhost/", 10) ? url : url + 9;
}

static int open_failed(const char *path, int sys, stk_error *err)
{
    char text[96];
    int rc;

    if (sys == ENOENT || sys == ENOTDIR)
        rc = stk_fail(err, STK_ENOTFOUND, "no such file");
    else if (sys == ENAMETOOLONG)
        rc = stk_fail(err, STK_ENOTFOUND, "no such file: no file has such a long name");
    else if (sys == EISDIR)
        rc = stk_fail(err, STK_EINVAL, "is a directory, not a file");
    else if (sys == EACCES || sys == EPERM)
        rc = stk_fail(err, STK_EIO, "permission denied: this user may not read the file");
    else if (sys == EMFILE || sys == ENFILE)
        rc = stk_fail(err, STK_EIO, "too many open files: raise the limit (ulimit -n)");
    else
        rc = stk_fail(err, STK_EIO, "can't open the file: %s", strerror_r(sys, text, sizeof text));
    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* Without waiting, so that a FIFO among the shards is refused and not waited for. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int open_plain(const char *path)
{
    int fd;

    do
        fd = open(path, OPEN_FLAGS);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* What open() answered, if it is a file that can be read; else -1. */
static int look_at(int fd, struct stat *st, int *sys)
{
    if (fd < 0) {
        *sys = errno;
        return -1;
    }
    if (fstat(fd, st))
        *sys = errno;
    else if (S_ISDIR(st->st_mode))
        *sys = EISDIR;
    else if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
        *sys = ESPIPE;
    else
        return fd;
    close(fd);
    return -1;
}

/* For reads of any kind, which may wait. */
static int make_regular(int opened, struct stat *st, int *sys)
{
    int fd = look_at(opened, st, sys);

    if (fd < 0 || fcntl(fd, F_SETFL, 0) == 0)
        return fd;
    *sys = errno;
    close(fd);
    return -1;
}

int stk_local_open(const char *path, int *fd, uint64_t *size, stk_error *err)
{
    struct stat st;
    int sys = 0;

    *fd = look_at(open_plain(path), &st, &sys);
    if (*fd >= 0 && S_ISBLK(st.st_mode)) { /* whose size it does not tell */
        close(*fd);
        *fd = -1;
        sys = ESPIPE;
    }
    if (*fd < 0)
        return open_failed(path, sys, err);
    *size = (uint64_t)st.st_size;
    return 0;
}

static stk_file_info info_of(const struct stat *st)
{
    return (stk_file_info){ .size = (uint64_t)st->st_size,
                            .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 +
                                        st->st_mtim.tv_nsec,
                            .id = stk_mix64(stk_mix64((uint64_t)st->st_dev) ^ st->st_ino) | 1 };
}

static int file_new(int opened, const char *path, stk_file **out, stk_error *err)
{
    struct stat st;
    local_file *f;
    int sys = 0, fd = make_regular(opened, &st, &sys);

    if (fd < 0)
        return open_failed(path, sys, err);
    f = STK_NEW(local_file);
    if (!f) {
        close(fd);
        return stk_fail_nomem(err, sizeof *f);
    }
    f->base.source = &stk_source_local;
    f->fd = fd;
    f->watched = S_ISREG(st.st_mode) != 0;
    f->was = info_of(&st);
    atomic_init(&f->plain, 0);
    *out = &f->base;
    return 0;
}

int stk_local_take(int fd, stk_file **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(file_new(fd, "a file of the cache", out, err));
    ((local_file *)*out)->watched = 0; /* it is filled while it is read */
    return 0;
}

static int local_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    const char *path = local_path(o->url);

    *out = NULL;
    if (stk_is_folder(path))
        return stk_folder_open(path, out, err);
    return file_new(open_plain(path), path, out, err);
}

/* ---- below a root ---- */

#ifdef RESOLVE_BENEATH
static int open_beneath(int root, const char *name)
{
    struct open_how how = { .flags = OPEN_FLAGS,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    int fd = -1;

    for (int i = 0; i < 100; i++) { /* EAGAIN: a rename came in between */
        fd = (int)syscall(SYS_openat2, root, name, &how, sizeof how);
        if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
            break;
    }
    return fd;
}
#else
static int open_beneath(int root, const char *name)
{
    (void)root, (void)name;
    errno = ENOSYS;
    return -1;
}
#endif

/* The path of what is open; its length, or -1. */
static ssize_t path_of(int fd, char *out, size_t size)
{
    char link[32];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, out, size);
    return n > 0 && (size_t)n < size && out[0] == '/' ? n : -1;
}

static int is_below(int root, int fd)
{
    char folder[4096], file[4096];
    ssize_t n = path_of(root, folder, sizeof folder), m = path_of(fd, file, sizeof file);

    if (n == 1) /* the root of all */
        n = 0;
    return n >= 0 && m > n && !memcmp(folder, file, (size_t)n) && file[n] == '/';
}

int stk_local_open_below(const char *path, size_t root_len, stk_file **out, stk_error *err)
{
    char root[4096];
    int dir, fd, sys;

    *out = NULL;
    if (!root_len) /* "/": nothing is outside */
        return file_new(open_plain(path), path, out, err);
    if (root_len >= sizeof root)
        return open_failed(path, ENAMETOOLONG, err);
    memcpy(root, path, root_len);
    root[root_len] = 0;
    dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return open_failed(path, errno, err);
    fd = open_beneath(dir, path + root_len + 1);
    sys = errno;
    if (fd < 0 && (sys == EXDEV || sys == ENOSYS || sys == EPERM || sys == EINVAL)) {
        fd = open_plain(path);
        sys = errno;
        if (fd >= 0 && !is_below(dir, fd)) {
            close(fd);
            close(dir);
            stk_fail(
                err, STK_ECORRUPT,
                "a symlink leads out of the root %.150s: refused; put the file there, or allow "
                "any by open(root=\"/\")",
                root);
            stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
            return STK_ECORRUPT;
        }
    }
    close(dir);
    errno = sys;
    return file_new(fd, path, out, err);
}

static int local_ready(stk_file *file, int wait, stk_file_info *out, stk_error *err)
{
    local_file *f = (local_file *)file;
    struct stat st;
    off_t end;
    char text[96];

    if (fstat(f->fd, &st))
        return stk_fail(err, STK_EIO, "can't stat the file: %s",
                        strerror_r(errno, text, sizeof text));
    *out = info_of(&st);
    end = st.st_size;
    if (S_ISBLK(st.st_mode)) { /* a device's size is where it ends */
        end = lseek(f->fd, 0, SEEK_END);
        if (end < 0)
            return stk_fail(err, STK_EIO, "can't size the device: %s",
                            strerror_r(errno, text, sizeof text));
    }
    out->size = (uint64_t)end;
    return 0;
}

static uint64_t coarse_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int stk_local_renamed(const char *url, uint64_t id)
{
    struct stat st;

    return stat(local_path(url), &st) == 0 && info_of(&st).id != id;
}

static int local_unchanged(stk_file *file, int recent, stk_error *err)
{
    local_file *f = (local_file *)file;
    uint64_t now;
    struct stat st;
    stk_file_info is;

    if (!f->watched)
        return 0;
    now = coarse_ns();
    if (recent && now - atomic_load_explicit(&f->looked, memory_order_relaxed) < STK_LOOK_NS)
        return 0;
    if (fstat(f->fd, &st) < 0) /* reads say what is wrong */
        return 0;
    is = info_of(&st);
    if (is.size != f->was.size || is.mtime_ns != f->was.mtime_ns)
        return stk_fail(err, STK_ESTALE,
                        "the file was written to after it was opened (it has %" PRIu64
                        " bytes and had %" PRIu64 "): open it again, and replace files instead of "
                        "writing into them",
                        is.size, f->was.size);
    atomic_store_explicit(&f->looked, now, memory_order_relaxed);
    return 0;
}

static int io_failed(stk_io *io, int sys)
{
    io->sys = sys;
    return io->rc = STK_EIO;
}

static void io_begin(stk_io *io)
{
    io->got = 0;
    io->rc = io->sys = 0;
}

static int local_read(stk_file *file, stk_io *io)
{
    local_file *f = (local_file *)file;
    ssize_t n;

    io_begin(io);
    if (io->offset > INT64_MAX - io->len)
        return io_failed(io, EOVERFLOW);
    while (io->got < io->len) {
        n = pread(f->fd, (char *)io->dst + io->got, io->len - io->got,
                  (off_t)(io->offset + io->got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_failed(io, errno);
        if (!n)
            break;
        io->got += (size_t)n;
    }
    return 0;
}

static int local_try_read(stk_file *file, stk_io *io)
{
    local_file *f = (local_file *)file;
    struct iovec v;
    ssize_t n;

    if (atomic_load_explicit(&f->plain, memory_order_relaxed))
        return local_read(file, io);
    io_begin(io);
    if (io->offset > INT64_MAX - io->len)
        return io_failed(io, EOVERFLOW);
    while (io->got < io->len) { /* a short count may be the cache's end or the file's: ask again */
        v.iov_base = (char *)io->dst + io->got;
        v.iov_len = io->len - io->got;
        n = preadv2(f->fd, &v, 1, (off_t)(io->offset + io->got), RWF_NOWAIT);
        if (!n)
            break;
        if (n > 0) {
            io->got += (size_t)n;
        } else if (errno == EAGAIN) {
            return STK_PENDING;
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            atomic_store_explicit(&f->plain, 1, memory_order_relaxed);
            return local_read(file, io);
        } else if (errno != EINTR) {
            return io_failed(io, errno);
        }
    }
    return 0;
}

static int local_fd(const stk_file *f)
{
    return ((const local_file *)f)->fd;
}

static void local_close(stk_file *file)
{
    local_file *f = (local_file *)file;

    close(f->fd);
    stk_free(f);
}

const stk_source stk_source_local = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "local",
    .help = "files of this machine: a path, or file:///path",
    .open = local_open,
    .ready = local_ready,
    .read = local_read,
    .try_read = local_try_read,
    .close = local_close,
    .fd = local_fd,
    .unchanged = local_unchanged,
};
