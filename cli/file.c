/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - a file that appears whole or not at all: written beside its place, then renamed.
 *
 * The name of the new file has random letters, and it must not be there (O_EXCL, O_NOFOLLOW), so
 * that a link that somebody put there is not written through.  What is there and is not a plain
 * file (/dev/stdout, a pipe) is written as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int can_not(const char *path)
{
    cli_usage("can't write %s: %s", path, strerror(errno));
    return CLI_FAILED;
}

/* Where the bytes shall be in the end: through links, so that a link stays one. */
static char *place_of(const char *path)
{
    char *real = realpath(path, NULL);

    return real ? real : strdup(path);
}

static int make_new(cli_file *f)
{
    unsigned long long random = 0;
    size_t size = strlen(f->path) + 32;
    int fd;

    f->tmp = malloc(size);
    if (!f->tmp || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    snprintf(f->tmp, size, "%s.%016llx.tmp", f->path, random);
    fd = open(f->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        free(f->tmp);
        f->tmp = NULL;
        return -1;
    }
    f->to = fdopen(fd, "wb");
    if (!f->to)
        close(fd);
    return f->to ? 0 : -1;
}

int cli_file_open(cli_file *f, const char *path)
{
    struct stat st;

    *f = (cli_file){ .path = place_of(path) };
    if (!f->path)
        return can_not(path);
    if (stat(f->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        f->to = fopen(f->path, "wb");
        return f->to ? 0 : can_not(path);
    }
    return make_new(f) ? can_not(path) : 0;
}

/* Every byte is on the disk before the name is there. */
static int finish(cli_file *f)
{
    int bad = fflush(f->to) || ferror(f->to) || (f->tmp && fsync(fileno(f->to)));

    bad |= fclose(f->to);
    f->to = NULL;
    return bad || (f->tmp && rename(f->tmp, f->path));
}

int cli_file_close(cli_file *f, int keep)
{
    int rc = 0;

    if (f->to && keep) {
        rc = finish(f) ? can_not(f->path) : 0;
    } else if (f->to) {
        fclose(f->to);
        f->to = NULL;
    }
    if (f->tmp && (!keep || rc))
        unlink(f->tmp);
    free(f->tmp);
    free(f->path);
    *f = (cli_file){ 0 };
    return rc;
}
