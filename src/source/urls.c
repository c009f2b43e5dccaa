/* SPDX-License-Identifier: Apache-2.0 */
/* urls.c - from what the user wrote to the list of shards.
 *
 * First WebDataset's rules in its order ("::", ${X}, braces), so that a list that works there
 * names the same shards here in the same order.  Then ours for local names: globs and folders
 * (of shards, else of pictures), sorted bytewise, so that the order of the data depends on
 * neither locale nor file system.  "path:NAME" is a local name as it stands, without any of this.
 * A plain name is not looked up: opening it says what is wrong, with its reason. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/braces.h"
#include "base/registry.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"
#include "source/shard_list.h"
#include "source/shared_list.h"
#include "source/hidden.h"
#include "source/source.h"
#include "base/text.h"

#define NAMES_MAX (16u << 20)
#define TEXT_MAX (1u << 20) /* a pattern after ${X}: values can name each other */
#define ENV_PASSES 10

static int text_put(stk_text *t, const char *s, size_t len, stk_error *err)
{
    if (len > TEXT_MAX || t->len + len > TEXT_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "the pattern grows beyond 1 MiB: do WDS_ variables name each other?");
    return stk_text_put(t, s, len, err);
}

static int name_add(stk_names *out, const char *name, size_t len, stk_error *err)
{
    if (out->n >= NAMES_MAX)
        return stk_fail(err, STK_ELIMIT, "more than %u shards", NAMES_MAX);
    return stk_names_add(out, name, len, err);
}

/* ---- ${X} ---- */

/* Length of "${WORD}" at s, or 0. */
static size_t reference(const char *s, const char *end)
{
    const char *p = s + 2;

    if (end - s < 4 || s[0] != '$' || s[1] != '{')
        return 0;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_'))
        p++;
    return p < end && p > s + 2 && *p == '}' ? (size_t)(p + 1 - s) : 0;
}

static int put_value(stk_text *to, const char *word, size_t len, stk_error *err)
{
    char name[128] = "WDS_";
    const char *value;

    if (len >= sizeof name - 4)
        return stk_fail(err, STK_EINVAL, "the variable ${%.100s...} has too long a name", word);
    memcpy(name + 4, word, len);
    name[4 + len] = 0;
    value = getenv(name);
    if (!value)
        return stk_fail(err, STK_EINVAL,
                        "the environment has no %s, which ${%s} stands for: set it", name,
                        name + 4);
    return text_put(to, value, strlen(value), err);
}

/* One pass over `from`; *found counts the references. */
static int substitute(const stk_text *from, stk_text *to, size_t *found, stk_error *err)
{
    const char *p = from->s, *end = p + from->len;
    size_t len;

    *found = 0;
    STK_TRY(text_put(to, "", 0, err));
    for (; p < end; p += len) {
        len = reference(p, end);
        if (len) {
            ++*found;
            STK_TRY(put_value(to, p + 2, len - 3, err));
        } else {
            len = 1;
            STK_TRY(text_put(to, p, 1, err));
        }
    }
    return 0;
}

static int substitute_all(stk_text *t, stk_error *err)
{
    size_t found = 1;
    int rc = 0;

    for (int pass = 0; pass < ENV_PASSES && found && rc == 0; pass++) {
        stk_text next = { 0 };

        rc = substitute(t, &next, &found, err);
        if (rc < 0) {
            stk_free(next.s);
            break;
        }
        stk_free(t->s);
        *t = next;
    }
    return rc;
}

/* ---- folders and globs ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(stk_names *l, size_t from)
{
    if (l->n > from)
        qsort(l->name + from, l->n - from, sizeof *l->name, by_bytes);
}

static int is_folder(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int is_shard(const struct dirent *e)
{
    size_t len = strlen(e->d_name);

    return e->d_name[0] != '.' && len > 4 && !strcmp(e->d_name + len - 4, ".tar") &&
           e->d_type != DT_DIR;
}

/* The shards of a folder; none is no error here. */
static int add_folder(const char *path, stk_names *out, stk_error *err)
{
    size_t from = out->n, len = strlen(path);
    int pictures = 0;
    char why[96];
    struct dirent *e;
    DIR *d = opendir(path);
    int rc = 0;

    if (!d)
        return stk_fail(err, STK_EIO, "can't list the folder \"%.120s\": %s", path,
                        strerror_r(errno, why, sizeof why));
    while (rc == 0 && (e = readdir(d))) {
        stk_text t = { 0 };

        pictures |= stk_is_picture(e->d_name) && !stk_is_clutter(e->d_name);
        if (!is_shard(e))
            continue;
        rc = text_put(&t, path, len, err);
        if (rc == 0 && path[len - 1] != '/')
            rc = text_put(&t, "/", 1, err);
        if (rc == 0)
            rc = text_put(&t, e->d_name, strlen(e->d_name), err);
        if (rc == 0)
            rc = name_add(out, t.s, t.len, err);
        stk_free(t.s);
    }
    closedir(d);
    sort_from(out, from);
    out->left_out |= pictures && out->n > from;
    return rc;
}

static int add_glob(const char *pattern, stk_names *out, stk_error *err)
{
    stk_names found = { 0 };
    glob_t g = { 0 };
    int rc = 0, sys = glob(pattern, GLOB_NOSORT, NULL, &g);
    size_t i;

    if (sys == GLOB_NOSPACE)
        rc = stk_fail_nomem(err, 0);
    for (i = 0; rc == 0 && sys == 0 && i < g.gl_pathc; i++)
        rc = name_add(&found, g.gl_pathv[i], strlen(g.gl_pathv[i]), err);
    globfree(&g);
    sort_from(&found, 0);
    for (i = 0; rc == 0 && i < found.n; i++)
        rc = is_folder(found.name[i]) ? add_folder(found.name[i], out, err)
                                      : name_add(out, found.name[i], strlen(found.name[i]), err);
    stk_names_fini(&found);
    return rc;
}

/* The end of a file of tokens or arrays in a folder, or of a packed shard; NULL: there is none. */
static const char *file_to_name(const char *folder)
{
    static const char *const ends[] = { ".bin", ".npy", ".npz", ".tar.gz", ".tar.zst", ".tar.lz4" };
    const char *found = NULL;
    struct dirent *e;
    DIR *d = opendir(folder);

    while (d && !found && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (len > strlen(ends[i]) && !strcmp(e->d_name + len - strlen(ends[i]), ends[i]))
                found = ends[i];
    }
    if (d)
        closedir(d);
    return found;
}

/* What datasets.DatasetDict.save_to_disk() writes: a folder for each split. */
static int has_splits(const char *folder)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/dataset_dict.json", folder) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

static int no_shards(const char *folder, stk_error *err)
{
    const char *end = file_to_name(folder);

    if (has_splits(folder))
        return stk_fail(err, STK_ENOTFOUND,
                        "the folder \"%.120s\" has the splits of a Hugging Face data set: name "
                        "one, as in \"%.80s/train\"",
                        folder, folder);

    if (end)
        return stk_fail(err, STK_ENOTFOUND,
                        "the folder \"%.120s\" has %s: say which, as in \"%.80s/*%s\"", folder,
                        strncmp(end, ".tar", 4) ? "token files or arrays" : "packed shards", folder,
                        end);
    return stk_fail(
        err, STK_ENOTFOUND,
        "the folder \"%.120s\" has no .tar, .parquet or .arrow files and no pictures (.jpg .png "
        ".webp ...), videos (.mp4 .mkv ...) or sound (.wav .flac ...) in it or below",
        folder);
}

/* ---- remote names ---- */

typedef struct matching {
    const char *pattern; /* NULL: the shards right under `folder` */
    size_t folder;
    stk_names *out;
} matching;

static int add_listed(void *cookie, const stk_listed *f, stk_error *err)
{
    const matching *m = cookie;
    size_t len = strlen(f->url);

    if (len && f->url[len - 1] == '/') /* consoles make such an object for a folder */
        return 0;
    if (m->pattern ? fnmatch(m->pattern, f->url, FNM_PATHNAME) != 0
                   : len <= m->folder + 4 || strchr(f->url + m->folder, '/') ||
                         strcmp(f->url + len - 4, ".tar") != 0)
        return 0;
    return name_add(m->out, f->url, len, err);
}

/* Of names in order: a server may list a key twice. */
static void drop_twice(stk_names *out, size_t from)
{
    size_t n = from;

    for (size_t i = from; i < out->n; i++) {
        if (n > from && !strcmp(out->name[n - 1], out->name[i]))
            stk_free(out->name[i]);
        else
            out->name[n++] = out->name[i];
    }
    out->n = n;
}

static int add_matching(const stk_source *s, const char *name, stk_names *out, stk_error *err)
{
    size_t before = out->n, fixed = strcspn(name, "*?["), len = strlen(name);
    int glob_like = name[fixed] != 0;
    matching m = { glob_like ? name : NULL, len, out };
    char *prefix = stk_strndup(name, fixed);
    stk_shared_list shared;
    int rc = prefix ? 0 : stk_fail_nomem(err, len),
        taken = stk_shared_list_take(&shared, out, name);

    if (rc == 0 && !taken)
        rc = s->list(prefix, out->store, add_listed, &m, err);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_free(prefix);
    sort_from(out, before);
    drop_twice(out, before);
    if (rc == 0 && !taken && out->n > before)
        stk_shared_list_keep(&shared, out, before);
    stk_shared_list_close(&shared);
    if (rc == 0 && out->n == before)
        rc = glob_like ? stk_fail(err, STK_ENOTFOUND, "nothing matches \"%.180s\"", name)
                       : stk_fail(err, STK_ENOTFOUND, "no .tar files are under \"%.180s\"", name);
    return rc;
}

/* A web server lists nothing, and what follows "?" is often a secret. */
static int add_web(const char *name, stk_names *out, stk_error *err)
{
    stk_text t = { 0 };
    int rc = stk_url_hide(name, &t, err);

    if (rc == 0 && strpbrk(t.s, "*["))
        rc = stk_fail(err, STK_EINVAL,
                      "\"%.150s\": a web server can't be asked what it has; write the names out, "
                      "as in {000..099}",
                      t.s);
    if (rc == 0)
        rc = name_add(out, t.s, t.len, err);
    stk_free(t.s);
    return rc;
}

static int add_remote(const char *name, stk_names *out, stk_error *err)
{
    const stk_source *s = stk_registry_source(name);
    const char *rest = strstr(name, "://") + 3;

    if (s && s->can & STK_SOURCE_QUERIES)
        return add_web(name, out, err);
    if (s && s->list && (strpbrk(rest, "*?[") || name[strlen(name) - 1] == '/'))
        return add_matching(s, name, out, err);
    return name_add(out, name, strlen(name), err);
}

/* A folder without shards: of YOLO, or of pictures. */
static int add_pictures(const char *path, stk_names *out, stk_error *err)
{
    int rc = stk_yolo_add_folder(path, out, err);

    return rc == STK_END ? stk_folder_expand(path, out, err) : rc;
}

/* One expanded name: remote and plain ones as they stand, globs and folders as what they hold. */
static int add_expanded(const char *name, stk_names *out, stk_error *err)
{
    size_t before = out->n;
    struct stat st;
    int glob_like, rc;

    if (!strncmp(name, "file://", 7))
        name += 7; /* one spelling for local files: the index is found by it */
    rc = stk_yolo_add(name, out, err);
    if (rc != STK_END)
        return rc;
    if (stk_is_many(name) || stk_is_coco(name))
        return stk_pairs_resolve(name, out, err);
    rc = stk_voc_add(name, out, err);
    if (rc == STK_END)
        rc = stk_shard_list_add(name, out, err);
    if (rc != STK_END)
        return rc;
    if (strstr(name, "://"))
        return add_remote(name, out, err);
    glob_like = strpbrk(name, "*?[") != NULL;
    if (stat(name, &st))
        st.st_mode = 0;
    else
        glob_like = 0; /* a file that is really called a[1].tar */
    if (!glob_like && !S_ISDIR(st.st_mode))
        return name_add(out, name, strlen(name), err);
    if (glob_like)
        STK_TRY(add_glob(name, out, err));
    else
        STK_TRY(add_folder(name, out, err));
    if (!glob_like && out->n == before)
        STK_TRY(add_pictures(name, out, err));
    if (out->n > before)
        return 0;
    return glob_like ? stk_fail(err, STK_ENOTFOUND, "nothing matches \"%.180s\"", name)
                     : no_shards(name, err);
}

/* ---- a name that is meant as it stands ---- */

static int add_as_it_stands(const char *path, stk_names *out, stk_error *err)
{
    size_t before = out->n;
    struct stat st;
    int rc;

    if (!*path)
        return stk_fail(err, STK_EINVAL, "\"path:\" has no name after it");
    if (stat(path, &st))
        return stk_fail(err, STK_ENOTFOUND,
                        "there is no \"%.150s\"; it was given as a path: give a string for a "
                        "pattern",
                        path);
    rc = stk_voc_add(path, out, err);
    if (rc == STK_END)
        rc = stk_yolo_add(path, out, err);
    if (rc == STK_END)
        rc = stk_shard_list_add(path, out, err);
    if (rc != STK_END)
        return rc;
    if (!S_ISDIR(st.st_mode))
        return name_add(out, path, strlen(path), err);
    STK_TRY(add_folder(path, out, err));
    if (out->n == before)
        STK_TRY(add_pictures(path, out, err));
    return out->n > before ? 0 : no_shards(path, err);
}

/* ---- a whole pattern ---- */

static int expand_braces(const stk_text *t, stk_names *out, stk_error *err)
{
    stk_braces *b = NULL;
    stk_text name = { 0 };
    stk_bytes at;
    uint64_t i, n;
    int rc;

    STK_TRY(stk_braces_open(&b, t->s, t->len, err));
    n = stk_braces_count(b);
    rc = n <= NAMES_MAX - out->n
             ? 0
             : stk_fail(err, STK_ELIMIT, "\"%.150s\" stands for more than %u shards", t->s,
                        NAMES_MAX);
    for (i = 0; rc == 0 && i < n; i++) {
        rc = stk_braces_at(b, i, &at, err);
        if (rc == 0 && !at.len)
            rc = stk_fail(err, STK_EINVAL, "the pattern \"%.150s\" has an empty name in it", t->s);
        name.len = 0;
        if (rc == 0)
            rc = text_put(&name, (const char *)at.data, at.len, err);
        if (rc == 0) {
            for (size_t k = 0, scheme = stk_scheme_len(name.s); k < scheme; k++)
                name.s[k] = (char)tolower((unsigned char)name.s[k]); /* HTTP:// is http:// */
            rc = add_expanded(name.s, out, err);
        }
    }
    stk_free(name.s);
    stk_braces_close(&b);
    return rc;
}

static int expand_part(const char *part, size_t len, stk_names *out, stk_error *err)
{
    stk_text t = { 0 };
    int rc = text_put(&t, part, len, err);

    if (rc == 0)
        rc = substitute_all(&t, err);
    if (rc == 0)
        rc = expand_braces(&t, out, err);
    stk_free(t.s);
    return rc;
}

int stk_urls_expand(const char *const *urls, size_t n, stk_names *out, stk_error *err)
{
    const char *part, *next;

    for (size_t i = 0; i < n; i++) {
        if (!strncmp(urls[i], STK_PATH_SCHEME, strlen(STK_PATH_SCHEME))) {
            STK_TRY(add_as_it_stands(urls[i] + strlen(STK_PATH_SCHEME), out, err));
            continue;
        }
        for (part = urls[i]; part; part = next) {
            next = strstr(part, "::");
            STK_TRY(expand_part(part, next ? (size_t)(next - part) : strlen(part), out, err));
            next = next ? next + 2 : NULL;
        }
    }
    return 0;
}
