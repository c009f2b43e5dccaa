/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_files.c - which files a data set of Parquet files has.
 *
 * Patterns are expanded as for shards.  A folder means the .parquet files below it, sorted by name; names that
 * begin with . or _ are others' (markers and logs of the writers). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "table/parquet_data.h"

#define DEPTH 8

static int is_parquet(const char *name)
{
    static const char *const ends[] = { ".parquet", ".parq", ".pq" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i]);

        if (n > k && !strcasecmp(name + n - k, ends[i]))
            return 1;
    }
    return 0;
}

static int is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int shown(const struct dirent *e)
{
    return e->d_name[0] != '.' && e->d_name[0] != '_';
}

/* Names in the folder that count, sorted. */
static int list(const char *path, stk_names *out, stk_error *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return stk_fail(err, STK_EIO, "the folder %.150s cannot be read", path);
    while (rc == 0 && (e = readdir(d)))
        if (shown(e))
            rc = stk_names_add(out, e->d_name, strlen(e->d_name), err);
    closedir(d);
    if (out->n)
        qsort(out->name, out->n, sizeof *out->name, by_name);
    return rc;
}

/* All Parquet files below; with `first` only until one is found. */
static int collect(const char *path, uint32_t depth, int first, stk_names *out, stk_error *err)
{
    stk_names here = { 0 };
    int rc = depth > DEPTH ? stk_fail(err, STK_ELIMIT, "folders more than %d deep", DEPTH)
                           : list(path, &here, err);

    for (size_t i = 0; rc == 0 && i < here.n && !(first && out->n); i++) {
        stk_text full = { 0 };

        rc = stk_text_put(&full, path, strlen(path), err);
        while (rc == 0 && full.len > 1 && full.s[full.len - 1] == '/')
            full.len--;
        if (rc == 0)
            rc = stk_text_put(&full, "/", 1, err);
        if (rc == 0)
            rc = stk_text_put(&full, here.name[i], strlen(here.name[i]), err);
        if (rc == 0 && is_parquet(full.s))
            rc = stk_names_add(out, full.s, full.len, err);
        else if (rc == 0 && is_dir(full.s))
            rc = collect(full.s, depth + 1, first, out, err);
        stk_free(full.s);
    }
    stk_names_fini(&here);
    return rc;
}

static const char *plain(const char *url)
{
    size_t k = strlen(STK_PATH_SCHEME);

    return strncmp(url, STK_PATH_SCHEME, k) ? url : url + k;
}

int stk_parquet_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    stk_names found = { 0 };
    int yes = 0;

    (void)o;
    for (size_t i = 0; i < n && !yes; i++) {
        yes = is_parquet(urls[i]);
        if (!yes && is_dir(plain(urls[i])))
            yes = collect(plain(urls[i]), 0, 1, &found, NULL) == 0 && found.n;
        stk_names_fini(&found);
        found = (stk_names){ 0 };
    }
    return yes;
}

static int expand(const char *url, stk_names *out, stk_error *err)
{
    if (is_dir(plain(url)))
        return collect(plain(url), 0, 0, out, err);
    return stk_urls_expand(&url, 1, out, err);
}

int stk_parquet_names(stk_names *out, const char *const *urls, size_t n, stk_error *err)
{
    stk_names found = { .store = out->store };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = expand(urls[i], &found, err);
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = stk_names_absolute(out, found.name[i], err);
    stk_names_fini(&found);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ENOTFOUND, "\"%.150s\" has no .parquet file: check the folder or the pattern",
                      n ? urls[0] : "");
    return rc;
}
