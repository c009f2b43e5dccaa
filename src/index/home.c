/* SPDX-License-Identifier: Apache-2.0 */
/* home.c - where the index of a list of shards is.
 *
 * The list, not how it was written, names the index: beside the data by the names relative to
 * their common folder, so that the folder can be moved; in the cache by absolute names, since
 * many folders share it.  Symlinks are not followed: a name that the user chose to keep stable
 * stays the name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/registry.h"
#include "index/layout.h"
#include "source/folder_files.h"

static int has_scheme(const char *name)
{
    const char *p = name;

    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
           *p == '+' || *p == '-')
        p++;
    return p > name && !strncmp(p, "://", 3);
}

/* Take the last folder of buf[0..len) away for a "..", unless it is a symlink: then ".." leads
 * elsewhere. */
static int climb(char *buf, size_t *len)
{
    size_t cut = *len;
    struct stat st;

    while (cut && buf[cut - 1] != '/')
        cut--;
    if (!strcmp(buf + cut, "..") || (lstat(buf, &st) == 0 && S_ISLNK(st.st_mode)))
        return 0;
    *len = cut ? cut - 1 : 0;
    buf[*len] = 0;
    return 1;
}

/* Append the parts of `path` to buf, which has room for all of them.  buf is "" (the root) or
 * "/a/b". */
static void append_parts(char *buf, size_t *len, const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        int plain = n && !(n == 1 && path[0] == '.');

        if (n == 2 && path[0] == '.' && path[1] == '.' && (!*len || climb(buf, len)))
            plain = 0;
        if (plain) {
            buf[(*len)++] = '/';
            memcpy(buf + *len, path, n);
            *len += n;
            buf[*len] = 0;
        }
        path += n;
        path += *path == '/';
    }
}

int stk_path_absolute(const char *path, char **out, stk_error *err)
{
    char cwd[4096] = "";
    size_t room, len = 0;
    char *buf;

    *out = NULL;
    if (!strncmp(path, "file://", 7))
        path += strncmp(path + 7, "localhost/", 10) ? 7 : 16;
    else if (has_scheme(path)) {
        *out = stk_strdup(path);
        return *out ? 0 : stk_fail_nomem(err, strlen(path));
    }
    if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
        return stk_fail(err, STK_EIO, "the current folder has no name: %s", strerror(errno));
    room = strlen(cwd) + strlen(path) + 3;
    buf = stk_alloc(room);
    if (!buf)
        return stk_fail_nomem(err, room);
    buf[0] = 0;
    append_parts(buf, &len, cwd);
    append_parts(buf, &len, path);
    if (!len)
        memcpy(buf, "/", 2);
    *out = buf;
    return 0;
}

int stk_names_absolute(stk_names *out, const char *name, stk_error *err)
{
    char *path = NULL;
    int rc = stk_path_absolute(name, &path, err);

    if (rc == 0)
        rc = stk_names_add(out, path, strlen(path), err);
    stk_free(path);
    return rc;
}

int stk_names_expand(stk_names *out, const char *const *urls, size_t n, stk_error *err)
{
    stk_names found = { .store = out->store };
    int rc = stk_urls_expand(urls, n, &found, err);

    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = stk_names_absolute(out, found.name[i], err);
    stk_names_fini(&found);
    return rc;
}

/* Length of the folder in which the shard is, without its slash.  A directory of pictures has its
 * index outside its root: there a folder with no picture would be a bad class to ImageFolder. */
static size_t folder_of(const char *name)
{
    int up = stk_is_flat(name) ? 2 : stk_is_folder(name) ? 3 : 1;
    size_t len = strlen(name);

    while (len && up)
        up -= name[--len] == '/';
    return len;
}

/* Length of the common folder of all shards, without its slash. */
static size_t common_folder(const stk_names *shards)
{
    const char *a = shards->name[0];
    size_t len = folder_of(a);

    for (size_t i = 1; i < shards->n; i++) {
        const char *b = shards->name[i];
        size_t k = 0, cut = 0, own = folder_of(b);

        for (; k <= len && b[k]; k++) {
            if (b[k] == '/' && (k == len || a[k] == '/'))
                cut = k;
            if (k == len || a[k] != b[k])
                break;
        }
        len = cut < own ? cut : own;
    }
    return len;
}

static uint64_t list_hash(const stk_names *shards, size_t skip)
{
    uint64_t h = shards->n;

    for (size_t i = 0; i < shards->n; i++)
        h = stk_hash64(h, shards->name[i] + skip, strlen(shards->name[i]) - skip);
    return h;
}

/* A folder below the scheme, of a source that a round trip leads to. */
static int is_remote(const char *name, size_t folder)
{
    const stk_source *s = stk_registry_source(name);
    const char *rest = strstr(name, "://");

    return s && s->can & STK_SOURCE_LISTS && rest && rest + 3 < name + folder && folder < 1200;
}

int stk_index_home_find(stk_index_home *out, const stk_names *shards, const char *cache_dir,
                        stk_error *err)
{
    char cache[1024];
    int files = 1, cached = 1;
    size_t len;

    memset(out, 0, sizeof *out);
    if (!shards->n)
        return stk_fail(err, STK_EINVAL, "no shards");
    for (size_t i = 0; i < shards->n; i++) {
        files &= shards->name[i][0] == '/';
        cached &= strncmp(shards->name[i], "mem://", 6) !=
                  0; /* memory is gone when the process is */
    }
    if (cached && stk_cache_home(cache, sizeof cache, cache_dir))
        snprintf(out->cache, sizeof out->cache, "%s/index/%016" PRIx64 ".idx", cache,
                 list_hash(shards, 0));
    if (!files) {
        len = common_folder(shards);
        if (out->cache[0] && len > 8 && is_remote(shards->name[0], len))
            snprintf(out->remote, sizeof out->remote, "%.*s/.stoker/%016" PRIx64 ".idx", (int)len,
                     shards->name[0], list_hash(shards, 0));
        return 0;
    }
    len = common_folder(shards);
    if (len >= sizeof out->root)
        return stk_fail(err, STK_ELIMIT,
                        "the folder of the shards has a name of %zu bytes; %zu are allowed", len,
                        sizeof out->root - 1);
    memcpy(out->root, shards->name[0], len);
    snprintf(out->beside, sizeof out->beside, "%s/.stoker/%016" PRIx64 ".idx", out->root,
             list_hash(shards, len + 1));
    return 0;
}

const char *stk_index_home_name(const stk_index_home *h, const char *shard)
{
    return h->beside[0] ? shard + strlen(h->root) + 1 : shard;
}
