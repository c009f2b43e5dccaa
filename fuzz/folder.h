/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - makes a folder for a fuzz target whose input is files, once, and removes it at
 * exit. */
#ifndef STOKER_FUZZ_FOLDER_H
#define STOKER_FUZZ_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static char fuzz_root[64];

static int fuzz_remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at;
    return remove(path);
}

static void fuzz_remove(void)
{
    nftw(fuzz_root, fuzz_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* 1: it is new. */
static int fuzz_folder(void)
{
    if (fuzz_root[0])
        return 0;
    snprintf(fuzz_root, sizeof fuzz_root, "/tmp/stoker-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(fuzz_root));
    atexit(fuzz_remove);
    return 1;
}

static void fuzz_mkdir(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", fuzz_root, name);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
}

static void fuzz_write(const char *name, const void *data, size_t size)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", fuzz_root, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

#endif
