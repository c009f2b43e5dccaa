/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - files of one name are one sample: images/a/1.jpg and masks/a/1.png, or 1.jpg beside
 * 1.png in one folder.
 *
 * Of several folders each is a field, and a sample has one file of each.  Of one folder the
 * suffixes, in lower case, are the fields, as in tar shards; where all files are in subdirectories,
 * these are classes as in folders of pictures.  Where a folder has pictures, its other files are
 * passed over, but for those that belong to pictures (txt, json, ...) where suffixes are fields.
 * The key is the path without its suffix; samples come in the order of keys.  A name that lacks a
 * file is an error that counts them, is left out, or kept as it is. */
#include "source/pair_folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/annotated.h"
#include "source/folder_files.h"

typedef struct found {
    char *name; /* the path below its folder */
    size_t stem, dir;
    uint64_t size;
    uint32_t folder;
    int picture;
} found;

typedef struct listing {
    const stk_pairs *what;
    found *file;
    size_t n, cap;
    uint32_t folder; /* that is being listed */
    const char *sub;
    uint64_t names, lack[STK_PAIRS_MAX], dropped;
    char first[100];                /* a name that lacks a file */
    char suffix[STK_PAIRS_MAX][16]; /* of pictures, one for each that occurs */
    uint32_t n_suffix;
    stk_text classes; /* each with a NUL */
    uint32_t n_classes;
    stk_record record;
} listing;

/* ---- listing ---- */

static int by_suffix(const listing *l)
{
    return !l->what->field.name[0][0];
}

static int belongs(const char *suffix)
{
    static const char *const all[] = { "caption", "cls", "json", "npy", "text", "txt", "xml" };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(suffix, all[i]))
            return 1;
    return 0;
}

static int take_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    size_t cap, dir, len = strlen(e->name);
    const char *dot = strrchr(e->name, '.');
    listing *l = cookie;
    struct stat st;
    found *f;

    if (e->folder || !dot || dot == e->name || !dot[1])
        return 0;
    if (l->n == l->cap) {
        cap = l->cap ? 2 * l->cap : 256;
        f = stk_grow(l->file, l->n * sizeof *f, cap * sizeof *f);
        if (!f)
            return stk_fail_nomem(err, cap * sizeof *f);
        l->file = f;
        l->cap = cap;
    }
    if (fstatat(e->fd, e->name, &st, 0) || !S_ISREG(st.st_mode))
        st.st_size = 0; /* a dangling symlink: reading it says what is wrong */
    dir = l->sub[0] ? strlen(l->sub) + 1 : 0;
    f = &l->file[l->n];
    *f = (found){ stk_alloc(dir + len + 1),
                  dir + (size_t)(dot - e->name),
                  dir,
                  (uint64_t)st.st_size,
                  l->folder,
                  stk_is_picture(e->name) };
    if (!f->name)
        return stk_fail_nomem(err, dir + len + 1);
    if (dir) {
        memcpy(f->name, l->sub, dir - 1);
        f->name[dir - 1] = '/';
    }
    memcpy(f->name + dir, e->name, len + 1);
    l->n++;
    return 0;
}

/* Where there are pictures, other files are no fields. */
static void keep_pictures(listing *l, size_t from)
{
    int pictures = 0;
    size_t n = from;

    for (size_t i = from; i < l->n; i++)
        pictures |= l->file[i].picture;
    for (size_t i = from; i < l->n; i++) {
        found *f = &l->file[i];

        if (f->picture || (by_suffix(l) ? belongs(f->name + f->stem + 1) : !pictures))
            l->file[n++] = *f;
        else
            stk_free(f->name);
    }
    l->n = n;
}

static int list_folder(listing *l, stk_error *err)
{
    const char *path = l->what->folder.name[l->folder];
    stk_names dirs = { 0 };
    size_t from = l->n;
    int rc = stk_folder_walk(path, &dirs, err);

    for (size_t i = 0; rc == 0 && i < dirs.n; i++) {
        l->sub = dirs.name[i];
        rc = stk_folder_list(path, l->sub, take_entry, l, err);
    }
    stk_names_fini(&dirs);
    keep_pictures(l, from);
    if (rc == 0 && l->n == from) {
        rc = stk_fail(err, STK_ENOTFOUND, "the folder has no files that could be paired");
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    return rc;
}

/* Compares the names up to their suffixes. */
static int by_stem(const found *x, const found *y)
{
    size_t n = x->stem < y->stem ? x->stem : y->stem;
    int d = memcmp(x->name, y->name, n);

    return d ? d : (x->stem > y->stem) - (x->stem < y->stem);
}

static int by_name(const void *a, const void *b)
{
    const found *x = a, *y = b;
    int d = by_stem(x, y);

    return d                        ? d
           : x->folder != y->folder ? (x->folder > y->folder ? 1 : -1)
                                    : strcmp(x->name + x->stem, y->name + y->stem);
}

/* The suffix in lower case; jpeg is jpg to those who count. */
static void suffix_of(const found *f, int one_word, char out[16])
{
    const char *s = f->name + f->stem + 1;
    size_t i = 0;

    for (; s[i] && i < 15; i++)
        out[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
    out[i] = 0;
    if (one_word && !strcmp(out, "jpeg"))
        memcpy(out, "jpg", 4);
}

/* Which part of a sample the file is: its folder, or its suffix among those of pictures. */
static uint32_t part_of(const listing *l, const found *f)
{
    char suffix[16];
    uint32_t i = 0;

    if (!by_suffix(l))
        return f->folder;
    suffix_of(f, 1, suffix);
    while (i < l->n_suffix && strcmp(l->suffix[i], suffix) != 0)
        i++;
    return i;
}

static void note_suffixes(listing *l)
{
    for (size_t i = 0; by_suffix(l) && i < l->n; i++)
        if (l->file[i].picture && l->n_suffix < STK_PAIRS_MAX &&
            part_of(l, &l->file[i]) == l->n_suffix)
            suffix_of(&l->file[i], 1, l->suffix[l->n_suffix++]);
}

static uint32_t n_parts(const listing *l)
{
    return by_suffix(l) ? l->n_suffix : (uint32_t)l->what->folder.n;
}

/* ---- samples ---- */

static size_t group_end(const listing *l, size_t from)
{
    size_t to = from + 1;

    while (to < l->n && !by_stem(&l->file[from], &l->file[to]))
        to++;
    return to;
}

/* 1: every part is there.  Two files for one part are an error. */
static int complete(listing *l, size_t from, size_t to, stk_error *err)
{
    uint8_t seen[STK_PAIRS_MAX + 1] = { 0 };
    int whole = 1;

    for (size_t i = from; i < to; i++) {
        const found *f = &l->file[i], *g = i > from ? f - 1 : f;
        char a[16], b[16];
        uint32_t part = part_of(l, f);

        suffix_of(f, 0, a);
        suffix_of(g, 0, b);
        if (part < n_parts(l) ? seen[part]++ != 0 : g != f && !strcmp(a, b)) {
            stk_fail(err, STK_EINVAL,
                     "\"%.100s\" and \"%.100s\" would be the same field of one sample: rename or "
                     "remove one",
                     g->name, f->name);
            stk_error_at(err, l->what->folder.name[f->folder], STK_NO_OFFSET, (stk_bytes){ 0 });
            return STK_EINVAL;
        }
    }
    for (uint32_t k = 0; k < n_parts(l); k++) {
        l->lack[k] += !seen[k];
        whole &= seen[k] != 0;
    }
    if (!whole && !l->first[0])
        snprintf(l->first, sizeof l->first, "%.*s", (int)(to > from ? l->file[from].stem : 0),
                 l->file[from].name);
    return whole;
}

/* All are in subdirectories: the topmost are classes. */
static int note_classes(listing *l, stk_error *err)
{
    const char *last = NULL;
    size_t len = 0;

    if (!by_suffix(l))
        return 0;
    for (size_t i = 0; i < l->n; i++)
        if (!l->file[i].dir)
            return 0;
    for (size_t i = 0; i < l->n; i++) {
        const char *name = l->file[i].name;
        size_t n = strcspn(name, "/");

        if (last && n == len && !memcmp(last, name, n))
            continue;
        STK_TRY(stk_text_put(&l->classes, name, n, err));
        STK_TRY(stk_text_put(&l->classes, "", 1, err));
        last = name;
        len = n;
        l->n_classes++;
    }
    return 0;
}

static const char *const field_words[] = { "bmp",  "caption", "cls",  "jpeg", "jpg",  "json",
                                           "npy",  "pgm",     "png",  "ppm",  "text", "tif",
                                           "tiff", "txt",     "webp", "xml" };

static const char *field_of(const listing *l, const found *f)
{
    char suffix[16];

    if (!by_suffix(l))
        return l->what->field.name[f->folder];
    suffix_of(f, 0, suffix);
    for (size_t i = 0; i < sizeof field_words / sizeof *field_words; i++)
        if (!strcmp(field_words[i], suffix))
            return field_words[i];
    return "";
}

static int report(listing *l, size_t from, size_t to, uint32_t cls, stk_error *err)
{
    stk_record *r = &l->record;
    stk_bytes head = { (const uint8_t *)l->classes.s, l->names ? 0 : l->classes.len };
    char number[16];
    int n = snprintf(number, sizeof number, "%u", cls);

    l->names++;
    STK_TRY(stk_record_begin(
        r, (stk_bytes){ (const uint8_t *)l->file[from].name, l->file[from].stem }, head, err));
    for (size_t i = from; i < to; i++) {
        const found *f = &l->file[i];
        const char *field = field_of(l, f);

        if (*field && !(l->n_classes && !strcmp(field, "cls")))
            STK_TRY(stk_record_file(r, field, (uint8_t)f->folder,
                                    (stk_bytes){ (const uint8_t *)f->name, strlen(f->name) },
                                    f->size, err));
    }
    if (l->n_classes)
        STK_TRY(stk_record_text(r, "cls", (stk_bytes){ (const uint8_t *)number, (size_t)n }, err));
    return stk_record_report(r, 0, err);
}

static int some_missing(const listing *l, uint64_t all, uint64_t lacking, stk_error *err)
{
    char list[160] = "";
    size_t at = 0;

    for (uint32_t k = 0; k < n_parts(l) && at < sizeof list; k++)
        if (l->lack[k])
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%" PRIu64 " have no %.40s",
                                   at ? ", " : "", l->lack[k],
                                   by_suffix(l) ? l->suffix[k] : l->what->field.name[k]);
    return stk_fail(err, STK_ENOTFOUND,
                    "%" PRIu64 " of %" PRIu64 " names lack a file: %s; the first is \"%.60s\": add "
                    "the files, or say missing=\"drop\" (or \"keep\")",
                    lacking, all, list, l->first);
}

/* How many names there are, how many lack a file, and whether any has two. */
static int survey(listing *l, uint64_t *all, stk_error *err)
{
    uint64_t lacking = 0, paired = 0;

    for (size_t i = 0, to; i < l->n; i = to) {
        int whole;

        to = group_end(l, i);
        whole = complete(l, i, to, err);
        if (whole < 0)
            return whole;
        ++*all;
        lacking += !whole;
        paired += to - i > 1;
    }
    if (!paired)
        return stk_fail(err, STK_ENOTFOUND, "no two files have the same name but for their %s",
                        by_suffix(l) ? "suffix: open the folder without pairs" : "folder");
    if (lacking && l->what->missing == STK_MISSING_ERROR)
        return some_missing(l, *all, lacking, err);
    l->dropped = l->what->missing == STK_MISSING_DROP ? lacking : 0;
    return lacking == *all && l->dropped
               ? stk_fail(err, STK_ENOTFOUND, "no name has all of its files")
               : 0;
}

static int report_all(listing *l, stk_error *err)
{
    uint64_t all = 0, bytes = 0;
    stk_scan *scan = l->record.scan;
    uint32_t cls = 0;

    STK_TRY(survey(l, &all, err));
    STK_TRY(note_classes(l, err));
    for (size_t i = 0, to; i < l->n; i = to) {
        const char *name = l->file[i].name, *was = i ? l->file[i - 1].name : name;
        size_t dir = l->n_classes ? strcspn(name, "/") : 0;

        cls += l->n_classes && (strcspn(was, "/") != dir || memcmp(was, name, dir) != 0);
        to = group_end(l, i);
        if (l->dropped && !complete(l, i, to, err))
            continue;
        STK_TRY(report(l, i, to, cls, err));
        for (size_t k = i; k < to; k++)
            bytes += l->file[k].size;
    }
    if (scan->progress && scan->progress(scan, bytes))
        return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    if (l->dropped && scan->warn) {
        char why[120];

        snprintf(why, sizeof why, "%" PRIu64 " of %" PRIu64 " names lack a file: left out",
                 l->dropped, all);
        scan->warn(scan, why);
    }
    return 0;
}

static int pairs_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    listing *l = STK_NEW(listing);
    stk_pairs what = { 0 };
    int rc = l ? 0 : stk_fail_nomem(err, sizeof *l);

    (void)f, (void)size;
    if (rc == 0)
        rc = scan->name && stk_is_pairs(scan->name)
                 ? stk_pairs_parse(scan->name, &what, err)
                 : stk_fail(err, STK_EINVAL, "is not an address of folders, pairs://...");
    for (uint32_t i = 0; rc == 0 && i < what.folder.n; i++) {
        l->what = &what;
        l->folder = i;
        rc = list_folder(l, err);
    }
    if (rc == 0) {
        l->record.scan = scan;
        qsort(l->file, l->n, sizeof *l->file, by_name);
        note_suffixes(l);
        rc = report_all(l, err);
    }
    for (size_t i = 0; l && i < l->n; i++)
        stk_free(l->file[i].name);
    if (l) {
        stk_free(l->file);
        stk_free(l->classes.s);
        stk_record_fini(&l->record);
    }
    stk_free(l);
    stk_pairs_fini(&what);
    return rc;
}

static int pairs_probe(const char *name, stk_bytes head)
{
    (void)head;
    return stk_is_pairs(name) ? 100 : 0;
}

/* ---- reading ---- */

typedef stk_annotated state; /* classes of the first shard */

int stk_pairs_open(const stk_format_data *in, void **out, stk_error *err)
{
    state *s = STK_NEW(state);
    stk_pairs what = { 0 };
    stk_bytes head = { 0 };
    int rc = s ? 0 : stk_fail_nomem(err, sizeof *s);

    *out = NULL;
    if (rc == 0 && in->n_shards != 1)
        rc = stk_fail(
            err, STK_ENOTSUP,
            "pairs and folders of frames are opened one by one: give the loader a list of data "
            "sets");
    if (rc == 0 && in->classes)
        rc = stk_fail(err, STK_ENOTSUP,
                      "classes= is for folders of pictures, not for pairs or frames");
    if (rc == 0)
        rc = stk_pairs_parse(in->shards[0], &what, err);
    if (rc == 0) {
        s->folders = what.folder;
        what.folder = (stk_names){ 0 };
        head = in->first ? stk_record_head(in->first[0]) : head;
    }
    for (size_t at = 0; rc == 0 && at < head.len;) {
        size_t len = strnlen((const char *)head.data + at, head.len - at);

        rc = stk_names_add(&s->classes, (const char *)head.data + at, len, err);
        at += len + 1;
    }
    stk_pairs_fini(&what);
    if (rc < 0)
        stk_annotated_close(s);
    else
        *out = s;
    return rc;
}

static const char *pairs_class_name(const void *p, uint32_t i)
{
    const state *s = p;

    return i < s->classes.n ? s->classes.name[i] : NULL;
}

int stk_pairs_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    const state *s = e->state;

    return stk_record_locate(e, field, s ? &s->folders : NULL, 1, out, err);
}

const stk_format stk_format_pairs = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "pairs",
    .help = "files of one name are one sample: pairs://image=images&mask=masks",
    .suffixes = "",
    .probe = pairs_probe,
    .index = pairs_index,
    .locate = stk_pairs_locate,
    .open = stk_pairs_open,
    .close = stk_annotated_close,
    .class_name = pairs_class_name,
};
