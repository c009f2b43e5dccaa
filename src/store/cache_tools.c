/* SPDX-License-Identifier: Apache-2.0 */
/* cache_tools.c - what is in a host cache, for people: list, compare, remove. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "store/store_cache.h"

typedef struct tour {
    const char *folder, *prefix;
    int verify;
    int (*each)(void *cookie, const stk_cached *c);
    void *cookie;
    stk_cache_cleared cleared;
} tour;

static int find_folder(const char *given, char *out, size_t size, stk_error *err)
{
    const char *path = given ? given : getenv("STOKER_STORE_CACHE");

    if (!path || !*path)
        return stk_fail(err, STK_EINVAL,
                        "which cache? name its folder: --store-cache DIR, or STOKER_STORE_CACHE");
    if ((size_t)snprintf(out, size, "%s/" STK_CACHE_VERSION, path) >= size)
        return stk_fail(err, STK_EINVAL, "the cache's path is too long");
    return access(out, F_OK) < 0 ? 0 : stk_cache_folder_check(path, 0, err);
}

static int show(void *cookie, const char *file, const stk_cache_name *name)
{
    tour *t = cookie;
    stk_cache_look *look = STK_NEW(stk_cache_look);
    stk_cached c = { .size = sizeof c };
    int rc;

    if (!look)
        return STK_ENOMEM;
    rc = stk_cache_look_at(file, t->verify, look);
    c.url = rc == 0 ? look->url : file;
    c.etag = look->etag;
    c.bytes = look->size;
    c.present = look->present;
    c.bad_chunks = look->bad;
    c.torn = rc < 0;
    c.in_use = stk_cache_group_used(t->folder, name->group);
    if (t->verify && rc < 0)
        unlink(file);
    rc = t->each(t->cookie, &c);
    stk_free(look);
    return rc;
}

int stk_cache_list(const char *folder, int verify, int (*each)(void *cookie, const stk_cached *c),
                   void *cookie, stk_error *err)
{
    char path[4096];
    tour t = { .folder = path, .verify = verify, .each = each, .cookie = cookie };

    STK_TRY(find_folder(folder, path, sizeof path, err));
    return stk_cache_folder_each(path, show, &t, err);
}

static int clear_one(void *cookie, const char *file, const stk_cache_name *name)
{
    tour *t = cookie;
    stk_cache_look *look = STK_NEW(stk_cache_look);
    struct stat st;
    int known;

    if (!look)
        return STK_ENOMEM;
    known = stk_cache_look_at(file, 0, look) == 0;
    if (t->prefix && (!known || strncmp(look->url, t->prefix, strlen(t->prefix)) != 0)) {
        stk_free(look);
        return 0;
    }
    stk_free(look);
    if (stk_cache_group_used(t->folder, name->group)) {
        t->cleared.in_use++;
    } else if (lstat(file, &st) == 0 && unlink(file) == 0) {
        t->cleared.objects++;
        t->cleared.bytes += (uint64_t)st.st_blocks * 512;
    }
    return 0;
}

int stk_cache_clear(const char *folder, const char *prefix, stk_cache_cleared *out, stk_error *err)
{
    char path[4096];
    tour t = { .folder = path, .prefix = prefix };
    int rc;

    memset(out, 0, sizeof *out);
    STK_TRY(find_folder(folder, path, sizeof path, err));
    rc = stk_cache_folder_each(path, clear_one, &t, err);
    *out = t.cleared;
    stk_cache_folder_recount(path);
    return rc;
}
