/* SPDX-License-Identifier: Apache-2.0 */
/* shard_list.c - WebDataset's wids files and Energon's .nv-meta, as lists of shards.
 *
 * Which shards there are, which split they are in and how many samples each has is taken from
 * there, and the counts are compared with what is indexed (indexer/indexer.c).  Where samples are
 * in a shard (.tar.idx, index.sqlite) is not: our own index says that, and was made from the shard
 * itself. */
#include "source/shard_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/numeral.h"
#include "base/registry.h"
#include "source/braces.h"
#include "source/leaves.h"
#include "source/hidden.h"

#define LIST_MAX ((uint64_t)1 << 28) /* bytes of one file */
#define LOOK 65536u                  /* bytes of a local file by which it is known */
#define SHARDS_MAX (16u << 20)

/* ---- files and names ---- */

static int read_file(const char *path, const stk_store *store, stk_text *out, stk_error *err)
{
    const stk_source *s = stk_registry_source(path);
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = s ? stk_source_open(s, STK_URL(path, store), &f, err)
               : stk_fail(err, STK_ENOTSUP, "no source reads addresses like this one");

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && info.size > LIST_MAX)
        rc = stk_fail(err, STK_ELIMIT, "a list of shards with %" PRIu64 " bytes", info.size);
    if (rc == 0) {
        out->s = stk_zalloc((size_t)info.size + 1, 1);
        out->len = (size_t)info.size;
        rc = out->s ? stk_file_read(f, 0, out->s, out->len, err) : stk_fail_nomem(err, out->len);
    }
    stk_file_close(&f);
    return rc;
}

/* A name of the list and what it says of it. */
static int add(stk_names *out, const stk_text *name, uint64_t samples, stk_error *err)
{
    const stk_source *s = stk_registry_source(name->s);
    int hides = s && s->can & STK_SOURCE_QUERIES, rc = 0;
    stk_text shown = { 0 };

    if (out->n >= SHARDS_MAX)
        return stk_fail(err, STK_ELIMIT, "more than %u shards", SHARDS_MAX);
    if (hides)
        rc = stk_url_hide(name->s, &shown, err);
    if (rc == 0)
        rc = stk_names_add(out, hides ? shown.s : name->s, hides ? shown.len : name->len, err);
    stk_free(shown.s);
    return rc == 0 ? stk_names_promise(out, samples, err) : rc;
}

static int put(stk_text *t, const char *s, size_t len, stk_error *err)
{
    return stk_text_put(t, s, len, err);
}

static int is_text(stk_bytes v, const char *what)
{
    return v.len == strlen(what) && !memcmp(v.data, what, v.len);
}

/* folder/name, unless name says all itself: an address, or a path that is below the folder of the
 * list, `home`. */
static int join(stk_text *t, stk_bytes home, stk_bytes folder, const char *name, stk_error *err)
{
    int address;

    t->len = 0;
    if (!strncmp(name, "file://", 7))
        name += 7;
    address = strstr(name, "://") != NULL;
    if (!address && !stk_name_below(home, (stk_bytes){ (const uint8_t *)name, strlen(name) }))
        return stk_fail(err, STK_ECORRUPT,
                        "the list names \"%.120s\", which is not below its folder: refused; open "
                        "the shards by a pattern",
                        name);
    if (folder.len && !address && name[0] != '/') {
        STK_TRY(put(t, (const char *)folder.data, folder.len, err));
        if (t->s[t->len - 1] != '/')
            STK_TRY(put(t, "/", 1, err));
    }
    return put(t, name, strlen(name), err);
}

/* ---- wids ---- */

typedef struct wids {
    stk_text folder, name, url; /* what names are relative to; work space */
    stk_bytes home;             /* the list's folder */
    int remote;
    stk_names *out;
} wids;

/* A member of `doc` as text; STK_END: there is none. */
static int text_at(stk_bytes doc, const char *key, stk_text *out, stk_error *err)
{
    stk_error none;
    stk_bytes v;
    uint8_t *plain;
    size_t len = 0;
    int rc;

    out->len = 0;
    if (stk_json_find(doc, key, &v, &none) < 0 || is_text(v, "null"))
        return STK_END;
    plain = stk_alloc(v.len + 1);
    rc = plain ? stk_json_unquote(v, plain, &len, err) : stk_fail_nomem(err, v.len);
    if (rc == 0 && (!len || memchr(plain, 0, len)))
        rc = stk_fail(err, STK_ECORRUPT,
                      "the %s of a list of shards is empty or has a null character", key);
    if (rc == 0)
        rc = put(out, (const char *)plain, len, err);
    stk_free(plain);
    return rc;
}

static int wids_shard(void *cookie, stk_bytes key, stk_bytes doc, stk_error *err)
{
    wids *w = cookie;
    int64_t n = -1;
    stk_error none;
    stk_bytes v;
    int rc = text_at(doc, "url", &w->url, err);

    (void)key;
    if (rc < 0)
        return rc;
    if (rc == STK_END || stk_json_find(doc, "nsamples", &v, &none) < 0 ||
        stk_number_i64(v, &n) != 1 || n < 0)
        return stk_fail(err, STK_ECORRUPT, "shard %zu of \"shardlist\" has no url, or no nsamples",
                        w->out->n);
    STK_TRY(join(&w->name, w->home, (stk_bytes){ (const uint8_t *)w->folder.s, w->folder.len },
                 w->url.s, err));
    if (w->remote && !strstr(w->name.s, "://"))
        return stk_fail(err, STK_EINVAL, "a remote list names the local file \"%.150s\"",
                        w->name.s);
    return add(w->out, &w->name, (uint64_t)n, err);
}

static int wids_folder(wids *w, stk_bytes text, stk_bytes from, stk_error *err)
{
    int rc = text_at(text, "base", &w->url, err);

    if (rc < 0)
        return rc;
    while (rc == 0 && w->url.len > 1 && w->url.s[w->url.len - 1] == '/')
        w->url.s[--w->url.len] = 0;
    return rc == STK_END ? put(&w->folder, (const char *)from.data, from.len, err)
                         : join(&w->folder, from, from, w->url.s, err);
}

int stk_wids_read(stk_bytes text, const char *from, size_t folder, stk_names *out, stk_error *err)
{
    wids w = { .out = out, .remote = strstr(from, "://") != NULL };
    stk_bytes list, version;
    stk_error none;
    int64_t v = 0;
    int rc;

    if (stk_json_find(text, "wids_version", &version, &none) == 0 &&
        (stk_number_i64(version, &v) != 1 || v != 1))
        return stk_fail(err, STK_ENOTSUP, "wids_version is not 1");
    if (stk_json_find(text, "datasets", &list, &none) == 0 && !is_text(list, "[]"))
        return stk_fail(err, STK_ENOTSUP,
                        "it lists other data sets (\"datasets\"): open each of them");
    STK_TRY(stk_json_find(text, "shardlist", &list, err));
    w.home = (stk_bytes){ (const uint8_t *)from, folder };
    rc = wids_folder(&w, text, w.home, err);
    if (rc == 0)
        rc = stk_json_elements(list, wids_shard, &w, err);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ENOTFOUND, "\"shardlist\" is empty");
    stk_free(w.folder.s);
    stk_free(w.name.s);
    stk_free(w.url.s);
    return rc;
}

static int ends(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && !strcmp(name + n - k, end);
}

static int looks_like_wids(const char *path)
{
    char *head = stk_alloc(LOOK);
    FILE *f = head ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(head, 1, LOOK, f) : 0;
    int yes = n && memmem(head, n, "\"shardlist\"", 11) != NULL;

    if (f)
        fclose(f);
    stk_free(head);
    return yes;
}

static int add_wids(const char *path, stk_names *out, stk_error *err)
{
    stk_names found = { 0 };
    stk_text text = { 0 }, whole = { 0 };
    char here[4096];
    int rc = read_file(path, out->store, &text, err);

    if (rc == 0 && path[0] != '/' && !strstr(path, "://") && getcwd(here, sizeof here)) {
        rc = put(&whole, here, strlen(here), err);
        if (rc == 0)
            rc = put(&whole, "/", 1, err);
    }
    if (rc == 0)
        rc = put(&whole, path, strlen(path), err);
    if (rc == 0)
        rc = stk_wids_read((stk_bytes){ (const uint8_t *)text.s, text.len }, whole.s,
                           (size_t)(strrchr(whole.s, '/') + 1 - whole.s), &found, err);
    stk_free(whole.s);
    stk_free(text.s);
    if (rc < 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = add(out, &(stk_text){ found.name[i], strlen(found.name[i]), 0 }, found.samples[i],
                 err);
    stk_names_fini(&found);
    return rc;
}

/* ---- Energon ---- */

typedef struct counted {
    char *name;
    uint64_t samples;
    int taken; /* it is in the split */
} counted;

typedef struct energon {
    const char *want;           /* the split; NULL: none is named */
    stk_names splits;           /* that have shards */
    stk_names shards, excluded; /* patterns */
    counted *count;             /* sorted by name */
    size_t n_count, cap;
} energon;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const counted *)a)->name, ((const counted *)b)->name);
}

static counted *find(const energon *e, const char *name)
{
    counted key = { .name = (char *)(uintptr_t)name };

    return e->n_count ? bsearch(&key, e->count, e->n_count, sizeof key, by_name) : NULL;
}

static int split_leaf(void *cookie, const char *top, const char *sub, const char *value,
                      stk_error *err)
{
    energon *e = cookie;

    if (!value)
        return 0;
    if (!strcmp(top, "exclude"))
        return stk_names_add(&e->excluded, value, strlen(value), err);
    if (strcmp(top, "split_parts") != 0)
        return 0;
    if (!e->splits.n || strcmp(e->splits.name[e->splits.n - 1], sub) != 0)
        STK_TRY(stk_names_add(&e->splits, sub, strlen(sub), err));
    return !e->want || !strcmp(e->want, sub) ? stk_names_add(&e->shards, value, strlen(value), err)
                                             : 0;
}

static int info_leaf(void *cookie, const char *top, const char *sub, const char *value,
                     stk_error *err)
{
    size_t len = value ? strlen(value) : 0;
    energon *e = cookie;
    int64_t n;

    if (strcmp(top, "shard_counts") != 0 || !*sub)
        return 0;
    if (!len || stk_number_i64((stk_bytes){ (const uint8_t *)value, len }, &n) != 1 || n < 0)
        return stk_fail(err, STK_ECORRUPT, "the count of \"%.150s\" is not a number", sub);
    if (e->n_count == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 16;
        counted *grown = stk_grow(e->count, e->n_count * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        e->count = grown;
        e->cap = cap;
    }
    e->count[e->n_count] = (counted){ stk_strndup(sub, strlen(sub)), (uint64_t)n, 0 };
    if (!e->count[e->n_count].name)
        return stk_fail_nomem(err, strlen(sub));
    e->n_count++;
    return 0;
}

/* The first of these files that is there.  STK_END: none is. */
static int read_leaves(stk_bytes folder, const char *const names[2], stk_leaf_fn fn, energon *e,
                       stk_error *err)
{
    stk_text path = { 0 }, text = { 0 };
    struct stat st;
    int rc = STK_END;

    for (int i = 0; rc == STK_END && i < 2; i++) {
        int told = join(&path, folder, folder, names[i], err);

        if (told < 0 || stat(path.s, &st)) {
            rc = told < 0 ? told : STK_END;
            continue;
        }
        rc = read_file(path.s, NULL, &text, err);
        if (rc == 0)
            rc = (ends(path.s, ".json") ? stk_leaves_json : stk_leaves_yaml)(
                (stk_bytes){ (const uint8_t *)text.s, text.len }, fn, e, err);
        if (rc < 0)
            stk_error_at(err, path.s, STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    stk_free(path.s);
    stk_free(text.s);
    return rc;
}

/* Each name of a pattern, in order. */
static int expand(const char *pattern, stk_names *out, stk_error *err)
{
    stk_braces *b = NULL;
    stk_bytes at;
    int rc = stk_braces_open(&b, pattern, strlen(pattern), err);

    if (rc == 0 && stk_braces_count(b) > SHARDS_MAX)
        rc = stk_fail(err, STK_ELIMIT, "\"%.150s\" stands for more than %u shards", pattern,
                      SHARDS_MAX);
    for (uint64_t i = 0; rc == 0 && i < stk_braces_count(b); i++) {
        rc = stk_braces_at(b, i, &at, err);
        if (rc == 0)
            rc = stk_names_add(out, (const char *)at.data, at.len, err);
    }
    stk_braces_close(&b);
    return rc;
}

static int expand_all(stk_names *patterns, stk_error *err)
{
    stk_names all = { 0 };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < patterns->n; i++)
        rc = expand(patterns->name[i], &all, err);
    stk_names_fini(patterns);
    *patterns = all;
    return rc;
}

static int is_below(const char *name)
{
    return stk_name_below((stk_bytes){ 0 }, (stk_bytes){ (const uint8_t *)name, strlen(name) });
}

static int which_split(const energon *e, const char *folder, stk_error *err)
{
    char list[160] = "";
    size_t at = 0;

    for (size_t i = 0; i < e->splits.n; i++) {
        if (e->want && !strcmp(e->want, e->splits.name[i]))
            return 0;
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%.40s", i ? ", " : "",
                                   e->splits.name[i]);
    }
    if (!e->want && e->splits.n == 1)
        return 0;
    if (!e->splits.n)
        return stk_fail(err, STK_ENOTFOUND, "none of its splits has a shard");
    return stk_fail(err, STK_EINVAL,
                    "%s%.60s%s its splits with shards are %s: write \"%.80s#%.40s\"",
                    e->want ? "there is no split \"" : "which split?", e->want ? e->want : "",
                    e->want ? "\";" : "", list, folder, e->splits.name[0]);
}

/* Marks what the list leaves out; a single sample that it leaves out is for the loader. */
static int take_excluded(energon *e, stk_error *err)
{
    for (size_t i = 0; i < e->excluded.n; i++) {
        char *name = e->excluded.name[i], *slash = strrchr(name, '/');
        counted *c = find(e, name);

        if (c) {
            c->taken = -1;
            continue;
        }
        if (!slash)
            continue;
        *slash = 0;
        c = find(e, name);
        *slash = '/';
        if (c && c->taken > 0)
            return stk_fail(err, STK_ENOTSUP,
                            "it leaves out the single sample \"%.100s\": open the shards by a "
                            "pattern and name its key in "
                            "the loader's exclude=",
                            name);
    }
    return 0;
}

static int take_shards(energon *e, stk_bytes folder, stk_names *out, stk_error *err)
{
    stk_text path = { 0 };
    size_t before = out->n;
    counted *c;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < e->shards.n; i++) {
        c = find(e, e->shards.name[i]);
        if (!c || !is_below(c->name))
            rc = stk_fail(err, STK_ECORRUPT,
                          "the split has the shard \"%.150s\", %s: prepare the data set again",
                          e->shards.name[i],
                          c ? "which is not below the folder" : "of which .info has no count");
        else
            c->taken = 1;
    }
    if (rc == 0)
        rc = take_excluded(e, err);
    for (size_t i = 0; rc == 0 && i < e->shards.n; i++) {
        c = find(e, e->shards.name[i]);
        if (c->taken < 0)
            continue;
        rc = join(&path, folder, folder, c->name, err);
        if (rc == 0)
            rc = add(out, &path, c->samples, err);
    }
    if (rc == 0 && out->n == before)
        rc = stk_fail(err, STK_ENOTFOUND, "all shards of the split are excluded");
    stk_free(path.s);
    return rc;
}

/* Without a split file all shards that are counted are meant. */
static int all_counted(energon *e, stk_error *err)
{
    int rc = e->want ? stk_fail(err, STK_ENOTFOUND, "it has no split.yaml, so no split \"%.60s\"",
                                e->want)
                     : 0;

    for (size_t i = 0; rc == 0 && i < e->n_count; i++)
        rc = stk_names_add(&e->shards, e->count[i].name, strlen(e->count[i].name), err);
    return rc;
}

static int read_energon(energon *e, const char *path, stk_bytes folder, stk_names *out,
                        stk_error *err)
{
    static const char *const info[2] = { ".nv-meta/.info.json", ".nv-meta/.info.yaml" };
    static const char *const split[2] = { ".nv-meta/split.yaml", ".nv-meta/split.json" };
    int rc = read_leaves(folder, info, info_leaf, e, err);

    if (rc)
        return rc;
    if (e->n_count)
        qsort(e->count, e->n_count, sizeof *e->count, by_name);
    rc = read_leaves(folder, split, split_leaf, e, err);
    if (rc < 0)
        return rc;
    if (rc == STK_END)
        rc = all_counted(e, err);
    else
        rc = which_split(e, path, err);
    if (rc == 0)
        rc = expand_all(&e->shards, err);
    if (rc == 0)
        rc = expand_all(&e->excluded, err);
    return rc == 0 ? take_shards(e, folder, out, err) : rc;
}

/* path[0..len) is the folder, `split` one of its splits or NULL. */
static int add_energon(const char *path, size_t len, const char *split, stk_names *out,
                       stk_error *err)
{
    char *folder = stk_strndup(path, len);
    energon e = { .want = split };
    int rc = folder
                 ? read_energon(&e, folder, (stk_bytes){ (const uint8_t *)folder, len }, out, err)
                 : stk_fail_nomem(err, len);

    if (rc < 0)
        stk_error_at(err, folder, STK_NO_OFFSET, (stk_bytes){ 0 });
    for (size_t i = 0; i < e.n_count; i++)
        stk_free(e.count[i].name);
    stk_free(e.count);
    stk_names_fini(&e.splits);
    stk_names_fini(&e.shards);
    stk_names_fini(&e.excluded);
    stk_free(folder);
    return rc;
}

int stk_shard_list_add(const char *name, stk_names *out, stk_error *err)
{
    const char *mark = strrchr(name, '#');
    struct stat st;

    if (strstr(name, "://"))
        return ends(name, ".json") && !ends(name, "/index.json") ? add_wids(name, out, err)
                                                                 : STK_END;
    if (stat(name, &st)) /* only then is "#" a mark */
        return mark && mark > name ? add_energon(name, (size_t)(mark - name), mark + 1, out, err)
                                   : STK_END;
    if (S_ISDIR(st.st_mode))
        return add_energon(name, strlen(name), NULL, out, err);
    return ends(name, ".json") && looks_like_wids(name) ? add_wids(name, out, err) : STK_END;
}
