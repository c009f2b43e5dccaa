/* SPDX-License-Identifier: Apache-2.0 */
/* class_list.c - remembers which classes a folder of pictures had, so that labels do not change
 * unseen.
 *
 * Classes are numbered by name, and the index is found by the list of class folders: a new folder
 * makes another index and moves the number of every class after it.  So the list is kept in a file
 * next to the index, found by the folders of the classes and not by their names.  Opening compares
 * the numbers of all classes that are in both lists; `stoker index` accepts the new ones.  A class
 * that sorts last moves none and is added without a word.
 *
 * The file: one line "stoker classes 1", then each name with a NUL after it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "indexer/indexer.h"
#include "source/folder_files.h"
#include "base/text.h"

#define HEAD "stoker classes 1\n"
#define MAX_FILE ((size_t)256 << 20)

typedef struct class_name { /* of a shard "photos/cat/" */
    const char *shard, *name;
    size_t len;
} class_name;

static class_name class_of(const char *shard)
{
    size_t end = strlen(shard) - 1, at = end;

    while (at && shard[at - 1] != '/')
        at--;
    return (class_name){ shard, shard + at, end - at };
}

static int by_name(const void *a, const void *b)
{
    const class_name *x = a, *y = b;
    int d = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

    return d ? d : (x->len > y->len) - (x->len < y->len);
}

/* The classes, each once, in the order of their numbers. */
static int list_now(const stk_indexer *x, class_name **out, size_t *n, stk_error *err)
{
    class_name *c = stk_zalloc(x->names.n + 1, sizeof *c);
    size_t all = 0, k = 0;

    if (!c)
        return stk_fail_nomem(err, x->names.n * sizeof *c);
    for (size_t i = 0; i < x->names.n; i++)
        if (stk_is_folder(x->names.name[i]) && !stk_is_flat(x->names.name[i]))
            c[all++] = class_of(x->names.name[i]);
    if (all)
        qsort(c, all, sizeof *c, by_name);
    for (size_t i = 0; i < all; i++)
        if (!k || by_name(&c[k - 1], &c[i]))
            c[k++] = c[i];
    *out = c;
    *n = k;
    return 0;
}

/* The list next to the index `index`, by the folders in which the classes are. */
static void path_of(const stk_indexer *x, const char *index, char *out, size_t size)
{
    size_t skip = index == x->home.cache ? 0 : strlen(x->home.root) + 1;
    uint64_t h = 0;
    stk_bytes before = { 0 };

    for (size_t i = 0; i < x->names.n; i++) {
        const char *name = x->names.name[i];
        stk_bytes root = { (const uint8_t *)name + skip,
                           (size_t)(class_of(name).name - name) - skip };

        if (root.len != before.len || memcmp(root.data, before.data, root.len) != 0)
            h = stk_hash64(h + root.len, root.data, root.len);
        before = root;
    }
    snprintf(out, size, "%.*s/%016" PRIx64 ".classes", (int)(strrchr(index, '/') - index), index,
             h);
}

/* *out: NULL when there is none, or none that can be read. */
static int list_read(const char *path, char **out, size_t *len, stk_error *err)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *text = NULL;
    int rc = 0;

    *out = NULL;
    if (!f)
        return 0;
    if (!fstat(fileno(f), &st) && (size_t)st.st_size < MAX_FILE) {
        text = stk_alloc((size_t)st.st_size + 1);
        rc = text ? 0 : stk_fail_nomem(err, (size_t)st.st_size);
    }
    *len = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    fclose(f);
    if (*len > strlen(HEAD) && !memcmp(text, HEAD, strlen(HEAD)) && !text[*len - 1])
        *out = text;
    else
        stk_free(text);
    return rc;
}

static int moved(const class_name *now, size_t i, const char *was, stk_error *err)
{
    int added = by_name(now, &(class_name){ NULL, was, strlen(was) }) < 0;
    int shown = now->len > 60 ? 60 : (int)now->len;
    int rc = added ? stk_fail(err, STK_ESTALE,
                              "the class folder \"%.*s\" is new: it would take number %zu from "
                              "\"%.60s\" and renumber every label from there on; remove it, fix "
                              "the list by classes=, or accept the new numbers: stoker index DIR",
                              shown, now->name, i, was)
                   : stk_fail(err, STK_ESTALE,
                              "the class folder \"%.60s\" is gone: \"%.*s\" would take its number "
                              "%zu and every label after it would be renumbered; put it back, fix "
                              "the list by classes=, or accept the new numbers: stoker index DIR",
                              was, shown, now->name, i);

    stk_error_at(err, now->shard, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

typedef enum known { NOTHING, SAME_NUMBERS, SAME_LIST } known;

/* Of the list at `path`; an error where a class of both has another number. */
static int compare(const stk_indexer *x, const char *path, known *out, stk_error *err)
{
    class_name *now = NULL;
    char *text = NULL, *at, *end;
    size_t n = 0, len = 0, i = 0;
    int rc = list_read(path, &text, &len, err);

    *out = NOTHING;
    if (rc < 0 || !text)
        return rc;
    end = text + len;
    rc = list_now(x, &now, &n, err);
    for (at = text + strlen(HEAD); rc == 0 && at < end && i < n; at += strlen(at) + 1, i++)
        if (strlen(at) != now[i].len || memcmp(at, now[i].name, now[i].len) != 0)
            rc = moved(&now[i], i, at, err);
    *out = rc < 0 ? NOTHING : at == end && i == n ? SAME_LIST : SAME_NUMBERS;
    stk_free(now);
    stk_free(text);
    return rc;
}

static int has_classes(const stk_indexer *x)
{
    return x->names.n && stk_is_folder(x->names.name[0]) && !stk_is_flat(x->names.name[0]);
}

int stk_classes_check(const stk_indexer *x, stk_error *err)
{
    const char *homes[] = { x->home.beside, x->home.cache };
    int rc = 0;

    if (!has_classes(x) || x->classes_fixed)
        return 0;
    for (int i = 0; i < 2; i++) { /* as with indexes: a good one in the cache is enough */
        char path[1400];
        stk_error why = { 0 };
        known how = NOTHING;
        int one = 0;

        if (!homes[i][0])
            continue;
        path_of(x, homes[i], path, sizeof path);
        one = compare(x, path, &how, &why);
        if (how)
            return 0;
        if (one < 0 && rc == 0) {
            rc = one;
            if (err)
                *err = why;
        }
    }
    return rc;
}

int stk_classes_keep(const stk_indexer *x, stk_error *err)
{
    class_name *now = NULL;
    stk_text t = { 0 };
    char path[1400];
    size_t n = 0;
    known how;
    int rc;

    if (!has_classes(x) || x->classes_fixed || !x->path[0])
        return 0;
    path_of(x, strcmp(x->path, x->home.cache) ? x->home.beside : x->home.cache, path, sizeof path);
    if (compare(x, path, &how, NULL) == 0 && how == SAME_LIST)
        return 0;
    rc = list_now(x, &now, &n, err);
    if (rc == 0)
        rc = stk_text_put(&t, HEAD, strlen(HEAD), err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = stk_text_put(&t, now[i].name, now[i].len, err);
        if (rc == 0)
            rc = stk_text_put(&t, "", 1, err);
    }
    if (rc == 0 && stk_atomic_put(path, t.s, t.len, STK_COMMIT_SYNC, NULL) < 0)
        stk_log_line(&x->log, STK_LOG_INFO,
                     "%s can't be written: new classes will renumber labels unseen", path);
    stk_free(now);
    stk_free(t.s);
    return rc;
}
