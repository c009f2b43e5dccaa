/* SPDX-License-Identifier: Apache-2.0 */
/* table_files.c - see table_files.h. */
#include "table/table_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"

#define DEPTH 8

static int is_one(const stk_table_files_of *of, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; of->ends[i]; i++) {
        size_t k = strlen(of->ends[i]);

        if (n > k && !strcasecmp(name + n - k, of->ends[i]))
            return 1;
    }
    return 0;
}

static int is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A local file without an ending in its name that begins as files of this kind do? */
static int begins_so(const stk_table_files_of *of, const char *path)
{
    const char *base = strrchr(path, '/');
    char head[8] = { 0 };
    size_t n = of->magic ? strlen(of->magic) : 0;
    FILE *f;

    if (!n || strchr(base ? base : path, '.'))
        return 0;
    f = fopen(path, "rbe");
    if (!f)
        return 0;
    n = fread(head, 1, n, f) == n && !memcmp(head, of->magic, n);
    fclose(f);
    return (int)n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_shown(const stk_table_files_of *of, const char *name)
{
    return name[0] != '.' && name[0] != '_' &&
           !(of->hides && !strncmp(name, of->hides, strlen(of->hides)));
}

/* Names in the folder that count, sorted. */
static int list(const stk_table_files_of *of, const char *path, stk_names *out, stk_error *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return stk_fail(err, STK_EIO, "the folder %.150s cannot be read", path);
    while (rc == 0 && (e = readdir(d)))
        if (is_shown(of, e->d_name))
            rc = stk_names_add(out, e->d_name, strlen(e->d_name), err);
    closedir(d);
    if (out->n)
        qsort(out->name, out->n, sizeof *out->name, by_name);
    return rc;
}

typedef struct search {
    const stk_table_files_of *of;
    int first; /* until one is found */
    stk_names *out;
} search;

static int collect(const search *x, const char *path, uint32_t depth, stk_error *err)
{
    stk_names here = { 0 };
    int rc = depth > DEPTH ? stk_fail(err, STK_ELIMIT, "folders more than %d deep", DEPTH)
                           : list(x->of, path, &here, err);

    for (size_t i = 0; rc == 0 && i < here.n && !(x->first && x->out->n); i++) {
        stk_text full = { 0 };

        rc = stk_text_put(&full, path, strlen(path), err);
        while (rc == 0 && full.len > 1 && full.s[full.len - 1] == '/')
            full.len--;
        if (rc == 0)
            rc = stk_text_put(&full, "/", 1, err);
        if (rc == 0)
            rc = stk_text_put(&full, here.name[i], strlen(here.name[i]), err);
        if (rc == 0 && is_dir(full.s)) /* Spark calls folders a.parquet */
            rc = x->of->below ? collect(x, full.s, depth + 1, err) : 0;
        else if (rc == 0 && (is_one(x->of, full.s) || begins_so(x->of, full.s)))
            rc = stk_names_add(x->out, full.s, full.len, err);
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

int stk_table_files_meant(const stk_table_files_of *of, const char *const *urls, size_t n)
{
    stk_names found = { 0 };
    search x = { of, 1, &found };
    int yes = 0;

    for (size_t i = 0; i < n && !yes; i++) {
        yes = is_one(of, urls[i]);
        if (!yes && !is_dir(plain(urls[i])))
            yes = begins_so(of, plain(urls[i]));
        else if (!yes)
            yes = collect(&x, plain(urls[i]), 0, NULL) == 0 && found.n;
        stk_names_fini(&found);
        found = (stk_names){ 0 };
    }
    return yes;
}

static int expand(const stk_table_files_of *of, const char *url, stk_names *out, stk_error *err)
{
    if (is_dir(plain(url)))
        return collect(&(search){ of, 0, out }, plain(url), 0, err);
    return stk_urls_expand(&url, 1, out, err);
}

int stk_table_files_names(const stk_table_files_of *of, stk_names *out, const char *const *urls,
                          size_t n, stk_error *err)
{
    stk_names found = { .store = out->store };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = expand(of, urls[i], &found, err);
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = stk_names_absolute(out, found.name[i], err);
    stk_names_fini(&found);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ENOTFOUND,
                      "\"%.150s\" has no %s file: check the folder or the pattern",
                      n ? urls[0] : "", of->ends[0]);
    return rc;
}
