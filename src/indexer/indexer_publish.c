/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_publish.c - the index of remote shards beside them: FOLDER/.stoker/HASH.idx, .seek and
 * .media.
 *
 * stoker index puts it there where it may; every host takes it from there into its cache, once,
 * under the lock of the cache's index, so that the ranks of a host ask once together. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/registry.h"
#include "data/shard_data.h"
#include "indexer/indexer.h"

#define PIECE ((size_t)8 << 20)

static int copy_down(stk_file *f, uint64_t size, stk_atomic_file *to, stk_error *err)
{
    uint8_t *buf = stk_large_alloc(PIECE);
    int rc = buf ? 0 : stk_fail_nomem(err, PIECE);

    for (uint64_t at = 0; rc == 0 && at < size;) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;

        rc = stk_file_read(f, at, buf, n, err);
        if (rc == 0)
            rc = stk_atomic_write(to, buf, n, at, err);
        at += n;
    }
    stk_large_free(buf, PIECE);
    return rc;
}

static int fetch(const stk_indexer *x, const char *url, const char *path, stk_error *err)
{
    stk_atomic_file to = { 0 };
    stk_file_info info;
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(url, x->names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0)
        rc = stk_atomic_open(&to, path, err);
    if (rc == 0)
        rc = copy_down(f, info.size, &to, err);
    if (rc == 0)
        rc = stk_atomic_commit(&to, STK_COMMIT_FAST, err);
    if (to.tmp)
        stk_atomic_close(&to);
    stk_file_close(&f);
    return rc;
}

/* Servers answer to a name that they don't have with all kinds of pages. */
static int is_index(const char *path)
{
    stk_index *ix = NULL;
    int rc = stk_index_open(&ix, path, NULL);

    stk_index_close(&ix);
    if (rc < 0)
        unlink(path);
    return rc == 0;
}

/* An index that is not there, or can't be had, is made here: no reason to fail. */
int stk_indexer_fetch(stk_indexer *x)
{
    char beside_url[1290], beside[1290];
    stk_error err = { 0 };

    if (!x->home.remote[0] || !x->home.cache[0])
        return STK_END;
    if (fetch(x, x->home.remote, x->home.cache, &err) < 0 || !is_index(x->home.cache))
        return STK_END;
    stk_seek_path(x->home.remote, beside_url, sizeof beside_url);
    stk_seek_path(x->home.cache, beside, sizeof beside);
    (void)fetch(x, beside_url, beside, &err);
    if (!x->media)
        return 0; /* no size is asked for: a request less before the first sample */
    stk_media_path(x->home.remote, beside_url, sizeof beside_url);
    stk_media_path(x->home.cache, beside, sizeof beside);
    (void)fetch(x, beside_url, beside, &err);
    return 0;
}

static int copy_up(int fd, stk_put *to, stk_error *err)
{
    uint8_t *buf = stk_large_alloc(PIECE);
    int rc = buf ? 0 : stk_fail_nomem(err, PIECE);
    ssize_t n = 1;

    while (rc == 0 && n) {
        n = read(fd, buf, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = stk_fail(err, STK_EIO, "the index can't be read: %s", strerror(errno));
        else
            rc = to->write(to, buf, (size_t)n, err);
    }
    stk_large_free(buf, PIECE);
    return rc;
}

static int publish(const stk_indexer *x, const stk_source *s, const char *path, const char *url,
                   stk_error *err)
{
    stk_put *to = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

    if (fd < 0) /* there are no seek points */
        return 0;
    rc = s->put(url, x->names.store, &to, err);
    if (rc == 0)
        rc = copy_up(fd, to, err);
    if (rc == 0)
        rc = to->commit(to, err);
    if (to)
        to->close(to);
    close(fd);
    return rc;
}

/* A server that does not say is asked to write. */
static int is_there(const stk_indexer *x)
{
    stk_file_info info;
    stk_file *f = NULL;
    int yes = stk_url_open(STK_URL(x->home.remote, x->names.store), &f, NULL) == 0 &&
              stk_file_stat(f, &info, NULL) == 0;

    stk_file_close(&f);
    return yes;
}

void stk_indexer_publish(const stk_indexer *x, int changed)
{
    const stk_source *s = x->home.remote[0] ? stk_registry_source(x->home.remote) : NULL;
    char beside_url[1290], beside[1290];
    stk_error err = { 0 };
    int rc;

    if (!s || !s->put || !x->path[0] || (!changed && is_there(x)))
        return;
    stk_seek_path(x->home.remote, beside_url, sizeof beside_url);
    stk_seek_path(x->path, beside, sizeof beside);
    /* first: an index that is there has its points */
    rc = publish(x, s, beside, beside_url, &err);
    stk_media_path(x->home.remote, beside_url, sizeof beside_url);
    stk_media_path(x->path, beside, sizeof beside);
    if (rc == 0)
        rc = publish(x, s, beside, beside_url, &err);
    if (rc == 0)
        rc = publish(x, s, x->path, x->home.remote, &err);
    if (rc < 0)
        stk_log_line(&x->log, STK_LOG_WARN,
                     "the index stays in %s: it can't be put beside the data (%s)", x->path,
                     err.message);
}
