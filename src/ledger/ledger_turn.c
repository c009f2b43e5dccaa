/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_turn.c - which of a folder's files was begun after which, without clocks.
 *
 * Every file takes the next turn of its folder when it is begun: a count in the file `.turn`, moved
 * on under a lock.  A run that begins a file after another one was there has a larger turn, on
 * whatever machine, however its clock is set.  Ranks that begin together may take turns in any
 * order, and where locks don't work even the same one: they are of one life, whose last turn
 * counts.  If the count is lost (files were copied without it) the files' heads have it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "ledger/ledger_write.h"

#define COUNT_FILE ".turn"
#define COUNT_BYTES 11 /* ten digits and a line's end */
#define LOCK_TRIES 5000

static int is_ledger(const char *name)
{
    size_t len = strlen(name), end = strlen(LDG_SUFFIX);

    return len > end && name[0] != '.' && !strcmp(name + len - end, LDG_SUFFIX);
}

/* 0 for a file that is none, is damaged, or is older than turns. */
static uint32_t turn_of(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint32_t turn = 0, crc;
    ldg_head h;

    if (fd < 0)
        return 0;
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
        !memcmp(h.magic, LDG_MAGIC, sizeof h.magic) && h.version == LDG_VERSION) {
        crc = h.crc;
        h.crc = 0;
        turn = stk_crc32c(0, &h, sizeof h) == crc ? h.turn : 0;
    }
    close(fd);
    return turn;
}

static uint32_t last_of_files(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    uint32_t last = 0;

    if (!dir)
        return 0;
    while ((entry = readdir(dir)))
        if (is_ledger(entry->d_name)) {
            uint32_t turn = turn_of(dirfd(dir), entry->d_name);

            last = turn > last ? turn : last;
        }
    closedir(dir);
    return last;
}

/* Held for one read and one write.  Some file systems have no locks, and some lose who held one: a
 * run does not wait for those. */
static void lock(int fd)
{
    const struct timespec moment = { .tv_nsec = 1000000 };

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
            return;
        nanosleep(&moment, NULL);
    }
}

/* The last turn that was taken: ten digits, or what the files say. */
static uint32_t last_taken(int fd, const char *folder)
{
    char text[COUNT_BYTES + 1] = { 0 };
    unsigned long long n;
    char *end;

    if (pread(fd, text, COUNT_BYTES, 0) == COUNT_BYTES && text[0] >= '0' && text[0] <= '9') {
        n = strtoull(text, &end, 10);
        if (*end == '\n' && n <= UINT32_MAX)
            return (uint32_t)n;
    }
    return last_of_files(folder);
}

int stk_ledger_turn(const char *folder, uint32_t *out, stk_error *err)
{
    size_t size = strlen(folder) + sizeof COUNT_FILE + 1;
    char *path = stk_alloc(size), text[COUNT_BYTES + 1], why[80];
    int fd, rc = 0;

    *out = 0;
    if (!path)
        return stk_fail_nomem(err, size);
    snprintf(path, size, "%s/" COUNT_FILE, folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0) {
        lock(fd);
        *out = last_taken(fd, folder);
        *out += *out < UINT32_MAX;
        snprintf(text, sizeof text, "%010" PRIu32 "\n", *out);
    }
    if (fd < 0 || pwrite(fd, text, COUNT_BYTES, 0) != COUNT_BYTES)
        rc = stk_fail(err, STK_EIO, "can't count the files of the ledger in %.120s: %s", path,
                      strerror_r(errno, why, sizeof why));
    if (fd >= 0)
        close(fd); /* and the lock is gone */
    stk_free(path);
    return rc;
}
