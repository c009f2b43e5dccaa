/* SPDX-License-Identifier: Apache-2.0 */
/* lag.c - see lag.h.  Both fail one read in a hundred with STK_EIO when told to. */
#include "lag.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct lag_file {
    stk_file base;
    int fd;
} lag_file;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stk_io *pending; /* lock */
static _Atomic unsigned turn;
_Atomic int lag_fails;

static int file_open(const stk_source *source, const char *url, stk_file **out, stk_error *err)
{
    lag_file *f = malloc(sizeof *f);

    f->base.source = source;
    f->fd = open(strstr(url, "://") + 3, O_RDONLY);
    if (f->fd < 0) {
        free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file");
    }
    *out = &f->base;
    return 0;
}

static int lag_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    return file_open(&lag_source, o->url, out, err);
}

static int cold_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    return file_open(&cold_source, o->url, out, err);
}

static int file_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    struct stat st;

    (void)err;
    memset(out, 0, sizeof *out);
    fstat(((lag_file *)f)->fd, &st);
    out->size = (uint64_t)st.st_size;
    return 0;
}

static int fill(stk_file *f, stk_io *io, int may_fail)
{
    ssize_t n;

    io->got = 0;
    io->rc = io->sys = 0;
    if (may_fail && atomic_load(&lag_fails) && atomic_fetch_add(&turn, 1) % 100 == 77) {
        io->sys = EIO;
        return io->rc = STK_EIO;
    }
    n = pread(((lag_file *)f)->fd, io->dst, io->len, (off_t)io->offset);
    io->got = n < 0 ? 0 : (size_t)n;
    return 0;
}

static int plain_read(stk_file *f, stk_io *io)
{
    return fill(f, io, 0);
}

static int cold_read(stk_file *f, stk_io *io)
{
    if (atomic_load(&turn) % 16 == 0)
        nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    return fill(f, io, 1);
}

static int lag_submit(stk_file *f, stk_io *io)
{
    unsigned t = atomic_fetch_add(&turn, 1);

    if (t % 7 == 0) {
        fill(f, io, 1);
        return 0;
    }
    pthread_mutex_lock(&lock);
    io->next = pending; /* the latest is answered first */
    pending = io;
    pthread_mutex_unlock(&lock);
    return STK_PENDING;
}

static void lag_drive(int timeout_ms)
{
    unsigned some = 1 + atomic_fetch_add(&turn, 1) % 13;
    stk_io *io;

    do {
        pthread_mutex_lock(&lock);
        io = pending;
        if (io)
            pending = io->next;
        pthread_mutex_unlock(&lock);
        if (io) {
            fill(io->file, io, 1);
            io->done(io);
        }
    } while (io && --some);
    if (!io && timeout_ms)
        nanosleep(&(struct timespec){ 0, 100000 }, NULL);
}

static void file_close(stk_file *f)
{
    close(((lag_file *)f)->fd);
    free(f);
}

const stk_source lag_source = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_source),
                                .name = "lag",
                                .help = "later",
                                .scheme = "lag",
                                .open = lag_open,
                                .ready = file_ready,
                                .read = plain_read,
                                .submit = lag_submit,
                                .drive = lag_drive,
                                .close = file_close };
const stk_source cold_source = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_source),
                                 .name = "cold",
                                 .help = "waits",
                                 .scheme = "cold",
                                 .open = cold_open,
                                 .ready = file_ready,
                                 .read = cold_read,
                                 .close = file_close };
