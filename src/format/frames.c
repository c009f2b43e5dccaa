/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c - folders of numbered pictures: each folder is a clip, frames:///data/clips.
 *
 * Every folder at or below that one which has pictures is a sample, called by its path.  Its fields
 * are 000001.jpg, 000002.jpg, ...: the number at the end of each file's name, with its suffix in
 * lower case, so that they are called as the members of a packed clip are.  What stands before the
 * number (img_, frame-) is the same for all pictures of a folder.  Numbers may have gaps: a clip
 * that wants a missing one is a bad sample.  Where all clips are in folders of folders, the topmost
 * are classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/annotated.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"

#define DIGITS 10

typedef struct one_frame {
    uint64_t number, size;
    size_t name;  /* in listing.names: the file's name */
    size_t field; /* ... and its field's */
} one_frame;

typedef struct listing { /* of one folder */
    const char *path;    /* of all of them */
    const char *sub;
    stk_text names, file; /* file: a path below `path` */
    one_frame *frame;
    size_t n, cap;
    size_t before; /* bytes before the number */
    stk_text classes;
    uint64_t samples;
    stk_record record;
} listing;

/* An error of the file `name` of the folder. */
static int bad_file(const listing *l, const char *name, stk_error *err, const char *why)
{
    stk_text path = { 0 };
    int rc = stk_text_put(&path, l->path, strlen(l->path), err);

    if (rc == 0 && l->sub[0]) {
        rc = stk_text_put(&path, "/", 1, err);
        if (rc == 0)
            rc = stk_text_put(&path, l->sub, strlen(l->sub), err);
    }
    if (rc == 0) {
        rc = stk_fail(err, STK_EINVAL, "\"%.100s\" %s", name, why);
        stk_error_at(err, path.s, STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    stk_free(path.s);
    return rc;
}

/* Where the digits before its suffix begin; their end is *dot.  NULL: there are none. */
static const char *digits_of(const char *name, const char **dot)
{
    const char *from = strrchr(name, '.');

    *dot = from;
    while (from > name && from[-1] >= '0' && from[-1] <= '9')
        from--;
    return from < *dot ? from : NULL;
}

/* 000001.jpg: the digits as they are, the suffix in lower case. */
static int put_field(listing *l, const char *digits, stk_error *err)
{
    size_t at = l->names.len;

    STK_TRY(stk_text_put(&l->names, digits, strlen(digits) + 1, err));
    for (char *c = l->names.s + at; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    return 0;
}

static int grow(listing *l, stk_error *err)
{
    size_t cap = l->cap ? 2 * l->cap : 64;
    one_frame *grown;

    if (l->n < l->cap)
        return 0;
    grown = stk_grow(l->frame, l->n * sizeof *grown, cap * sizeof *grown);
    if (!grown)
        return stk_fail_nomem(err, cap * sizeof *grown);
    l->frame = grown;
    l->cap = cap;
    return 0;
}

static int take_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    listing *l = cookie;
    const char *digits, *dot;
    struct stat st;
    one_frame f;

    if (e->folder || !stk_is_picture(e->name))
        return 0;
    digits = digits_of(e->name, &dot);
    if (!digits || dot - digits > DIGITS)
        return bad_file(l, e->name, err,
                        digits ? "has a number of more than 10 digits"
                               : "has no number before its suffix, as frames have (000001.jpg): "
                                 "move it out of the folder");
    if (!l->n)
        l->before = (size_t)(digits - e->name);
    else if ((size_t)(digits - e->name) != l->before ||
             memcmp(e->name, l->names.s + l->frame[0].name, l->before) != 0)
        return bad_file(l, e->name, err,
                        "does not begin as other pictures of its folder: put each row of frames "
                        "into a folder of its own");
    STK_TRY(grow(l, err));
    if (fstatat(e->fd, e->name, &st, 0) || !S_ISREG(st.st_mode))
        st.st_size = 0; /* a dangling symlink: reading it says what is wrong */
    f = (one_frame){ strtoull(digits, NULL, 10), (uint64_t)st.st_size, l->names.len, 0 };
    STK_TRY(stk_text_put(&l->names, e->name, strlen(e->name) + 1, err));
    f.field = l->names.len;
    STK_TRY(put_field(l, digits, err));
    l->frame[l->n++] = f;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const one_frame *x = a, *y = b;

    return x->number != y->number ? (x->number > y->number ? 1 : -1) : (x->name > y->name) * 2 - 1;
}

static int list_clip(listing *l, stk_error *err)
{
    l->n = l->names.len = 0;
    STK_TRY(stk_folder_list(l->path, l->sub, take_entry, l, err));
    if (l->n)
        qsort(l->frame, l->n, sizeof *l->frame, by_number);
    for (size_t i = 1; i < l->n; i++)
        if (l->frame[i].number == l->frame[i - 1].number)
            return bad_file(l, l->names.s + l->frame[i].name, err,
                            "has the number of another picture of its folder: remove one");
    if (l->n > STK_RECORD_FIELDS - 1)
        return bad_file(l, l->sub, err, "has more than 65533 frames: a clip has no more");
    return 0;
}

/* ---- samples ---- */

static int put_file(listing *l, const one_frame *f, stk_error *err)
{
    const char *name = l->names.s + f->name;

    l->file.len = 0;
    if (l->sub[0]) {
        STK_TRY(stk_text_put(&l->file, l->sub, strlen(l->sub), err));
        STK_TRY(stk_text_put(&l->file, "/", 1, err));
    }
    STK_TRY(stk_text_put(&l->file, name, strlen(name), err));
    return stk_record_file(&l->record, l->names.s + f->field, 0,
                           (stk_bytes){ (const uint8_t *)l->file.s, l->file.len }, f->size, err);
}

/* A folder that is a clip itself is called by its own name. */
static const char *key_of(const listing *l)
{
    const char *slash = strrchr(l->path, '/');

    return l->sub[0] ? l->sub : slash && slash[1] ? slash + 1 : "frames";
}

static int report(listing *l, int64_t cls, stk_error *err)
{
    stk_bytes head = { (const uint8_t *)l->classes.s, l->samples++ ? 0 : l->classes.len };
    const char *key = key_of(l);
    char number[24];
    int n = snprintf(number, sizeof number, "%" PRId64, cls);

    STK_TRY(
        stk_record_begin(&l->record, (stk_bytes){ (const uint8_t *)key, strlen(key) }, head, err));
    for (size_t i = 0; i < l->n; i++)
        STK_TRY(put_file(l, &l->frame[i], err));
    if (cls >= 0)
        STK_TRY(stk_record_text(&l->record, "cls",
                                (stk_bytes){ (const uint8_t *)number, (size_t)n }, err));
    return stk_record_report(&l->record, 0, err);
}

/* Folders that have pictures; *deep 1: all of them are in a folder. */
static int find_clips(listing *l, const stk_names *dirs, stk_names *clips, int *deep,
                      stk_error *err)
{
    *deep = 1;
    for (size_t i = 0; i < dirs->n; i++) {
        l->sub = dirs->name[i];
        STK_TRY(list_clip(l, err));
        if (!l->n)
            continue;
        *deep &= strchr(l->sub, '/') != NULL;
        STK_TRY(stk_names_add(clips, l->sub, strlen(l->sub), err));
    }
    if (clips->n)
        return 0;
    l->sub = "";
    return bad_file(l, l->path, err, "has no folder of numbered pictures (000001.jpg)");
}

/* 1: this clip is in another topmost folder than the one before. */
static int other_class(const stk_names *clips, size_t i)
{
    const char *name = clips->name[i], *was = i ? clips->name[i - 1] : "";
    size_t len = strcspn(name, "/");

    return !i || strcspn(was, "/") != len || memcmp(was, name, len) != 0;
}

static int note_classes(listing *l, const stk_names *clips, stk_error *err)
{
    for (size_t i = 0; i < clips->n; i++) {
        if (!other_class(clips, i))
            continue;
        STK_TRY(stk_text_put(&l->classes, clips->name[i], strcspn(clips->name[i], "/"), err));
        STK_TRY(stk_text_put(&l->classes, "", 1, err));
    }
    return 0;
}

static int report_all(listing *l, const stk_names *clips, int deep, stk_error *err)
{
    stk_scan *scan = l->record.scan;
    uint64_t bytes = 0;
    int64_t cls = -1;

    if (deep)
        STK_TRY(note_classes(l, clips, err));
    for (size_t i = 0; i < clips->n; i++) {
        l->sub = clips->name[i];
        STK_TRY(list_clip(l, err));
        cls += deep && other_class(clips, i);
        STK_TRY(report(l, cls, err));
        for (size_t k = 0; k < l->n; k++)
            bytes += l->frame[k].size;
        if (scan->progress && scan->progress(scan, bytes))
            return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    }
    return 0;
}

static int frames_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    stk_names dirs = { 0 }, clips = { 0 };
    listing l = { .sub = "", .record = { .scan = scan } };
    stk_pairs what = { 0 };
    int deep, rc;

    (void)f, (void)size;
    rc = scan->name && stk_is_frames(scan->name)
             ? stk_pairs_parse(scan->name, &what, err)
             : stk_fail(err, STK_EINVAL, "is not an address of a folder, frames://...");
    if (rc == 0) {
        l.path = what.folder.name[0];
        rc = stk_folder_walk(l.path, &dirs, err);
    }
    if (rc == 0)
        rc = find_clips(&l, &dirs, &clips, &deep, err);
    if (rc == 0)
        rc = report_all(&l, &clips, deep, err);
    stk_names_fini(&dirs);
    stk_names_fini(&clips);
    stk_free(l.names.s);
    stk_free(l.file.s);
    stk_free(l.classes.s);
    stk_free(l.frame);
    stk_record_fini(&l.record);
    stk_pairs_fini(&what);
    return rc;
}

static int frames_probe(const char *name, stk_bytes head)
{
    (void)head;
    return stk_is_frames(name) ? 100 : 0;
}

const stk_format stk_format_frames = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "frames",
    .help = "folders of numbered pictures, each a clip: frames://clips",
    .suffixes = "",
    .probe = frames_probe,
    .index = frames_index,
    .locate = stk_pairs_locate,
    .open = stk_pairs_open,
    .close = stk_annotated_close,
    .class_name = stk_annotated_class,
};
