/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze.c - which way to pack a shard has which name and suffix. */
#include "compress/squeeze.h"

#include <string.h>

typedef struct way {
    const char *name, *suffix;
    int (*open)(stk_framer **out, stk_error *err);
} way;

static const way ways[] = { { "gz", ".gz", stk_squeeze_gz },
                            { "zstd", ".zst", stk_squeeze_zstd },
                            { "lz4", ".lz4", stk_squeeze_lz4 } };
#define N_WAYS (sizeof ways / sizeof *ways)

static int ends_in(const char *s, const char *end)
{
    size_t len = strlen(s), n = strlen(end);

    return len > n && !strcmp(s + len - n, end);
}

const char *stk_squeeze_of(const char *path)
{
    if (ends_in(path, ".tgz"))
        return "gz";
    if (ends_in(path, ".tar.zstd"))
        return "zstd";
    for (size_t i = 0; i < N_WAYS; i++)
        if (ends_in(path, ways[i].suffix))
            return ways[i].name;
    return NULL;
}

static const way *way_of(const char *name)
{
    for (size_t i = 0; i < N_WAYS; i++)
        if (!strcmp(ways[i].name, name))
            return &ways[i];
    return NULL;
}

const char *stk_squeeze_suffix(const char *name)
{
    const way *w = way_of(name);

    return w ? w->suffix : NULL;
}

int stk_squeeze_open(stk_framer **out, const char *name, stk_error *err)
{
    const way *w = way_of(name);

    *out = NULL;
    if (!w)
        return stk_fail(err, STK_EINVAL, "shards are compressed by gz, zstd or lz4, not by %.40s",
                        name);
    return w->open(out, err);
}
