/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - a directory of pictures as a shard: field `image` is a file, field `cls` the number
 * of its class.  A file beside the picture that differs in its suffix only (1.jpg, 1.txt) is one
 * more field, called by the suffix.  Where there is no picture, videos are the samples, field
 * `video`, and where there is none either recordings, field `sound`.
 *
 * Order and numbers are those of torchvision's ImageFolder: classes sorted by name, in a class
 * the directories by path, in a directory the files by name.  The class of a sample is that of
 * its shard, so the number stands nowhere in the index and a class may be added without touching
 * the others.  The key is the path below the root, "cat/sub/a.jpg"; the file's name within its
 * shard is what follows the class. */
#include "source/folder_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/format.h"
#include "base/text.h"

#define NO_CLASS UINT32_MAX

/* Suffixes of files that belong to a picture: what chains have steps for.  Others stay unseen. */
static const char *const companions[] = { "caption", "cls", "json", "npy", "text", "txt" };

#define N_COMPANIONS (sizeof companions / sizeof *companions)

/* ---- indexing ---- */

typedef struct picture { /* or what belongs to one */
    const char *name;    /* while listing: an offset in the names */
    uint64_t size;
    int companion; /* number of its suffix + 1; 0: a picture */
} picture;

typedef struct listing { /* the pictures of one directory, and the files that belong to them */
    stk_file_kind kind;  /* what is a picture: or videos, or recordings */
    stk_text names;
    picture *picture;
    size_t n, cap;
} listing;

typedef struct scan_state {
    const char *path;
    stk_scan *scan;
    listing list;
    stk_text key;
    uint64_t bytes, samples, same_name;
} scan_state;

/* The number of the name's suffix + 1; 0: it does not belong to a picture. */
static int companion_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < N_COMPANIONS; i++)
        if (!strcmp(dot + 1, companions[i]))
            return (int)i + 1;
    return 0;
}

static int take_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    listing *l = cookie;
    struct stat st;
    int one = !e->folder && l->kind && stk_file_kind_of(e->name) == l->kind;
    int companion = e->folder || one ? 0 : companion_of(e->name);

    if (!one && !companion)
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        picture *grown = stk_grow(l->picture, l->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        l->picture = grown;
        l->cap = cap;
    }
    if (fstatat(e->fd, e->name, &st, 0) || !S_ISREG(st.st_mode))
        st.st_size = 0; /* a dangling symlink: it is listed, reading it says what is wrong */
    l->picture[l->n++] = (picture){ (const char *)l->names.len, (uint64_t)st.st_size, companion };
    return stk_text_put(&l->names, e->name, strlen(e->name) + 1, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const picture *)a)->name, ((const picture *)b)->name);
}

static int list_pictures(scan_state *s, const char *sub, stk_error *err)
{
    listing *l = &s->list;

    l->n = l->names.len = 0;
    STK_TRY(stk_folder_list(s->path, sub, take_entry, l, err));
    for (size_t i = 0; i < l->n; i++)
        l->picture[i].name = l->names.s + (size_t)l->picture[i].name;
    if (l->n)
        qsort(l->picture, l->n, sizeof *l->picture, by_name);
    return 0;
}

/* The files that belong to picture i: those from its stem and dot on, which sorting put
 * together. */
static uint32_t find_companions(const listing *l, size_t i, int has_class, stk_field *out)
{
    const char *name = l->picture[i].name, *dot = strrchr(name, '.');
    size_t stem = (size_t)(dot - name) + 1, from = i;
    uint32_t n = 0;

    while (from && !strncmp(l->picture[from - 1].name, name, stem))
        from--;
    for (; from < l->n && !strncmp(l->picture[from].name, name, stem); from++) {
        const picture *p = &l->picture[from];
        const char *suffix = p->companion ? companions[p->companion - 1] : "";

        if (p->companion && !strcmp(p->name + stem, suffix) &&
            !(has_class && !strcmp(suffix, "cls")))
            out[n++] = (stk_field){ suffix, (uint16_t)strlen(suffix), 0, p->size };
    }
    return n;
}

static int report(scan_state *s, size_t i, size_t prefix, uint32_t n, stk_error *err)
{
    const picture *p = &s->list.picture[i];
    stk_field fields[2 + N_COMPANIONS] = {
        { stk_file_kind_field(s->list.kind), 5, 0, p->size }, /* image, video, sound */
        { "cls", 3, 0, 0 },
    };

    n += find_companions(&s->list, i, n == 2, fields + n);
    s->key.len = prefix;
    STK_TRY(stk_text_put(&s->key, p->name, strlen(p->name), err));
    STK_TRY(s->scan->sample(s->scan, (stk_bytes){ (uint8_t *)s->key.s, s->key.len }, 0, fields, n,
                            err));
    s->bytes += p->size;
    s->samples++;
    return 0;
}

/* 1.jpg and 1.png: two pictures of one name. */
static int same_stem(const picture *a, const picture *b)
{
    size_t n = (size_t)(strrchr(b->name, '.') - b->name);

    return !a->companion && !strncmp(a->name, b->name, n + 1) && !strchr(a->name + n + 1, '.');
}

static int report_folder(scan_state *s, const char *sub, size_t class_len, uint32_t n,
                         stk_error *err)
{
    size_t prefix;

    STK_TRY(list_pictures(s, sub, err));
    s->key.len = class_len;
    if (sub[0]) {
        STK_TRY(stk_text_put(&s->key, sub, strlen(sub), err));
        STK_TRY(stk_text_put(&s->key, "/", 1, err));
    }
    prefix = s->key.len;
    for (size_t i = 0; i < s->list.n; i++)
        if (!s->list.picture[i].companion) {
            s->same_name += i && same_stem(&s->list.picture[i - 1], &s->list.picture[i]);
            STK_TRY(report(s, i, prefix, n, err));
        }
    if (s->scan->progress && s->scan->progress(s->scan, s->bytes))
        return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    return 0;
}

/* The class's part of a shard's name "root/cat/": "cat/". */
static stk_bytes class_of(const char *path)
{
    size_t end = strlen(path), at = end;

    if (stk_is_flat(path))
        return (stk_bytes){ 0 };
    while (at && path[at - 1] == '/')
        at--;
    end = at + (at < end);
    while (at && path[at - 1] != '/')
        at--;
    return (stk_bytes){ (const uint8_t *)path + at, end - at };
}

static int scan_folders(scan_state *s, const stk_names *dirs, stk_error *err)
{
    static const char *const names[] = { "files", "pictures", "videos", "recordings" };
    stk_bytes cls = class_of(s->path);

    STK_TRY(stk_text_put(&s->key, cls.data ? (const char *)cls.data : "", cls.len, err));
    for (size_t i = 0; i < dirs->n; i++)
        STK_TRY(report_folder(s, dirs->name[i], cls.len, cls.len ? 2 : 1, err));
    if (s->same_name && s->scan->warn) {
        char why[180];

        snprintf(why, sizeof why,
                 "%" PRIu64 " %s have the name of another but for its suffix: each is a "
                 "sample; pairs=True (pairs://FOLDER) makes files of one name one",
                 s->same_name, names[s->list.kind]);
        s->scan->warn(s->scan, why);
    }
    if (!s->samples)
        return stk_fail(
            err, STK_ENOTFOUND,
            "the class has no picture (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff "
            ".webp), video (.mp4 .m4v .mov .mkv .webm) or sound (.wav .flac .mp3 .opus "
            ".ogg .oga .m4a .aac .mka) in its folder or below: remove the folder, or fill it");
    return 0;
}

static int folder_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    scan_state s = { .path = stk_folder_path(f), .scan = scan };
    stk_names dirs = { 0 };
    int rc;

    (void)size;
    if (!s.path)
        return stk_fail(err, STK_EINVAL, "is a file, not a folder of pictures");
    rc = stk_folder_kind(s.path, "", !stk_is_flat(s.path), &s.list.kind, err);
    if (rc == 0 && stk_is_flat(s.path)) /* what is deeper has no class and is none of its */
        rc = stk_names_add(&dirs, "", 0, err);
    else if (rc == 0)
        rc = stk_folder_walk(s.path, &dirs, err);
    if (rc == 0)
        rc = scan_folders(&s, &dirs, err);
    stk_names_fini(&dirs);
    stk_free(s.list.names.s);
    stk_free(s.list.picture);
    stk_free(s.key.s);
    return rc;
}

static int folder_probe(const char *name, stk_bytes head)
{
    (void)head;
    return stk_is_folder(name) ? 100 : 0;
}

/* ---- classes ---- */

typedef struct classes {
    uint32_t n;
    stk_names name;
    char (*text)[12];   /* the number of each, as the field's bytes */
    uint32_t *of_shard; /* NO_CLASS: a flat one */
    uint64_t n_shards;
} classes;

static void folder_close(void *state)
{
    classes *c = state;

    if (!c)
        return;
    stk_names_fini(&c->name);
    stk_free(c->text);
    stk_free(c->of_shard);
    stk_free(c);
}

typedef struct named { /* a class by its name */
    stk_bytes name;
    uint64_t from; /* shard, or place in the user's list */
} named;

static int by_class(const void *a, const void *b)
{
    const named *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int d = n ? memcmp(x->name.data, y->name.data, n) : 0;

    return d ? d : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

/* The classes of all shards, sorted: two roots may have the same one. */
static int number_found(classes *c, const named *sorted, size_t n, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!i || by_class(&sorted[i - 1], &sorted[i])) {
            STK_TRY(stk_names_add(&c->name, (const char *)sorted[i].name.data, sorted[i].name.len,
                                  err));
            c->n++;
        }
        c->of_shard[sorted[i].from] = c->n - 1;
    }
    return 0;
}

static int fixed_list(classes *c, const stk_format_data *in, named *list, stk_error *err)
{
    for (uint32_t i = 0; i < in->n_classes; i++) {
        STK_TRY(stk_names_add(&c->name, in->classes[i], strlen(in->classes[i]), err));
        list[i] = (named){ { (const uint8_t *)c->name.name[i], strlen(in->classes[i]) }, i };
    }
    qsort(list, in->n_classes, sizeof *list, by_class);
    for (uint32_t i = 1; i < in->n_classes; i++)
        if (!by_class(&list[i - 1], &list[i]))
            return stk_fail(err, STK_EINVAL, "classes= has \"%.150s\" twice",
                            (const char *)list[i].name.data);
    c->n = in->n_classes;
    return 0;
}

/* Both sides are sorted: one walk. */
static int number_fixed(classes *c, const stk_format_data *in, const named *sorted, size_t n,
                        stk_error *err)
{
    named *list = stk_zalloc(in->n_classes + 1u, sizeof *list);
    int rc = list ? fixed_list(c, in, list, err) : stk_fail_nomem(err, in->n_classes);

    for (size_t i = 0, k = 0; rc == 0 && i < n; i++) {
        while (k < in->n_classes && by_class(&list[k], &sorted[i]) < 0)
            k++;
        if (k < in->n_classes && !by_class(&list[k], &sorted[i])) {
            c->of_shard[sorted[i].from] = (uint32_t)list[k].from;
            continue;
        }
        rc = stk_fail(err, STK_EINVAL,
                      "the class \"%.*s\" is not one of the %u in classes=: add it there, or take "
                      "its folder away",
                      sorted[i].name.len > 120 ? 120 : (int)sorted[i].name.len,
                      (const char *)sorted[i].name.data, in->n_classes);
        stk_error_at(err, in->shards[sorted[i].from], STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    stk_free(list);
    return rc;
}

static int number_shards(classes *c, const stk_format_data *in, stk_error *err)
{
    named *found = stk_zalloc(in->n_shards + 1, sizeof *found);
    size_t n = 0;
    int rc;

    if (!found)
        return stk_fail_nomem(err, in->n_shards * sizeof *found);
    for (uint64_t i = 0; i < in->n_shards; i++) {
        stk_bytes name = class_of(in->shards[i]);

        c->of_shard[i] = NO_CLASS;
        if (name.len)
            found[n++] = (named){ { name.data, name.len - 1 }, i };
    }
    if (n)
        qsort(found, n, sizeof *found, by_class);
    rc = in->classes ? number_fixed(c, in, found, n, err) : number_found(c, found, n, err);
    stk_free(found);
    return rc;
}

static int folder_open(const stk_format_data *in, void **state, stk_error *err)
{
    classes *c = STK_NEW(classes);
    int rc;

    *state = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->n_shards = in->n_shards;
    c->of_shard = stk_zalloc(in->n_shards + 1, sizeof *c->of_shard);
    rc = c->of_shard ? number_shards(c, in, err) : stk_fail_nomem(err, in->n_shards);
    if (rc == 0) {
        c->text = stk_zalloc(c->n + 1u, sizeof *c->text);
        rc = c->text ? 0 : stk_fail_nomem(err, c->n);
    }
    for (uint32_t i = 0; rc == 0 && i < c->n; i++)
        snprintf(c->text[i], sizeof c->text[i], "%u", i);
    if (rc < 0)
        folder_close(c);
    else
        *state = c;
    return rc;
}

static const char *folder_class_name(const void *state, uint32_t i)
{
    const classes *c = state;

    return i < c->n ? c->name.name[i] : NULL;
}

/* ---- reading ---- */

static int is_companion(const char *field)
{
    for (size_t i = 0; i < N_COMPANIONS; i++)
        if (!strcmp(field, companions[i]))
            return 1;
    return 0;
}

static int folder_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    const classes *c = e->state;
    const uint8_t *slash = e->key.data;
    uint32_t cls = c && e->shard < c->n_shards ? c->of_shard[e->shard] : NO_CLASS;

    if (!strcmp(field->name, "cls") && cls != NO_CLASS) {
        *out = (stk_place){ .here = { (uint8_t *)c->text[cls], strlen(c->text[cls]) } };
        return 0;
    }
    if (cls != NO_CLASS) {
        slash = memchr(e->key.data, '/', e->key.len);
        slash = slash ? slash + 1 : e->key.data + e->key.len;
    }
    *out = (stk_place){ .len = field->size, .must_equal = 1, .listed = 1 };
    out->name = (stk_bytes){ slash, e->key.len - (size_t)(slash - e->key.data) };
    if (is_companion(field->name))
        out->suffix = (stk_bytes){ (const uint8_t *)field->name, field->name_len };
    if (!out->name.len)
        return stk_fail(err, STK_ECORRUPT, "the index has no file name here");
    return 0;
}

const stk_format stk_format_folder = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "folder",
    .help =
        "pictures, videos or sound in directories, a class each as in ImageFolder: fields image "
        "(video, sound) and cls",
    .suffixes = "/",
    .probe = folder_probe,
    .index = folder_index,
    .locate = folder_locate,
    .open = folder_open,
    .close = folder_close,
    .class_name = folder_class_name,
    .class_of_shard = 1,
};
