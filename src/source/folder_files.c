/* SPDX-License-Identifier: Apache-2.0 */
/* folder_files.c - directories of pictures, videos or recordings.
 *
 * The rules are those of torchvision's ImageFolder, so that classes get the same numbers: every
 * subdirectory of the root is a class, symlinks are followed.  Two things differ: what programs
 * leave in folders without being asked (hidden names and a few others, stk_is_clutter()) is not
 * seen at all, since a viewer must not change labels; and a symlink that leads back to a directory
 * above it is an error. */
#include "source/folder_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"

#define FOLDERS_MAX (1u << 20) /* in one class: symlinks can make few look like many */

typedef struct folder_file {
    stk_file base;
    char path[];
} folder_file;

int stk_is_flat(const char *name)
{
    size_t n = strlen(name);

    return n > 1 && !strcmp(name + n - 2, "/.");
}

int stk_is_folder(const char *name)
{
    size_t n = strlen(name);

    return (n && name[n - 1] == '/') || stk_is_flat(name);
}

int stk_is_clutter(const char *name)
{
    static const char *const left[] = { "__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN",
                                        "System Volume Information" };

    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!strcmp(name, left[i]))
            return 1;
    return name[0] == '.';
}

stk_file_kind stk_file_kind_of(const char *name)
{
    static const struct {
        const char *end;
        stk_file_kind kind;
    } ends[] = {
        { "jpg", STK_FILE_PICTURE }, { "jpeg", STK_FILE_PICTURE }, { "png", STK_FILE_PICTURE },
        { "ppm", STK_FILE_PICTURE }, { "bmp", STK_FILE_PICTURE },  { "pgm", STK_FILE_PICTURE },
        { "tif", STK_FILE_PICTURE }, { "tiff", STK_FILE_PICTURE }, { "webp", STK_FILE_PICTURE },
        { "mp4", STK_FILE_VIDEO },   { "m4v", STK_FILE_VIDEO },    { "mov", STK_FILE_VIDEO },
        { "mkv", STK_FILE_VIDEO },   { "webm", STK_FILE_VIDEO },   { "wav", STK_FILE_SOUND },
        { "flac", STK_FILE_SOUND },  { "mp3", STK_FILE_SOUND },    { "opus", STK_FILE_SOUND },
        { "ogg", STK_FILE_SOUND },   { "oga", STK_FILE_SOUND },    { "m4a", STK_FILE_SOUND },
        { "aac", STK_FILE_SOUND },   { "mka", STK_FILE_SOUND },
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcasecmp(dot + 1, ends[i].end))
            return ends[i].kind;
    return STK_FILE_OTHER;
}

const char *stk_file_kind_field(stk_file_kind k)
{
    static const char *const field[] = { "", "image", "video", "sound" };

    return field[k];
}

int stk_is_picture(const char *name)
{
    return stk_file_kind_of(name) == STK_FILE_PICTURE;
}

/* ---- listing ---- */

static int list_failed(const char *path, int sys, stk_error *err)
{
    char why[96];
    int rc = stk_fail(err, sys == ENOENT || sys == ENOTDIR ? STK_ENOTFOUND : STK_EIO,
                      "can't list this folder: %s", strerror_r(sys, why, sizeof why));

    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int join(stk_text *t, const char *base, const char *sub, stk_error *err)
{
    t->len = 0;
    STK_TRY(stk_text_put(t, base, strlen(base), err));
    if (!sub[0])
        return 0;
    if (t->len && t->s[t->len - 1] != '/')
        STK_TRY(stk_text_put(t, "/", 1, err));
    return stk_text_put(t, sub, strlen(sub), err);
}

/* readdir() tells most; what it leaves open is asked for. */
static void classify(stk_dir_entry *e, unsigned char type)
{
    struct stat st;

    e->linked = type == DT_LNK;
    e->folder = type == DT_DIR;
    if (type == DT_UNKNOWN && !fstatat(e->fd, e->name, &st, AT_SYMLINK_NOFOLLOW)) {
        e->linked = S_ISLNK(st.st_mode);
        e->folder = S_ISDIR(st.st_mode);
    }
    if (e->linked)
        e->folder = !fstatat(e->fd, e->name, &st, 0) && S_ISDIR(st.st_mode);
}

static int list_open(DIR *d, int (*fn)(void *cookie, const stk_dir_entry *e, stk_error *err),
                     void *cookie, const char *path, stk_error *err)
{
    struct dirent *de;
    int rc = 0;

    for (errno = 0; rc == 0 && (de = readdir(d)); errno = 0) {
        stk_dir_entry e = { .name = de->d_name, .fd = dirfd(d) };

        if (stk_is_clutter(e.name))
            continue;
        classify(&e, de->d_type);
        rc = fn(cookie, &e, err);
    }
    return rc == 0 && errno ? list_failed(path, errno, err) : rc;
}

int stk_folder_list(const char *base, const char *sub,
                    int (*fn)(void *cookie, const stk_dir_entry *e, stk_error *err), void *cookie,
                    stk_error *err)
{
    stk_text path = { 0 };
    DIR *d = NULL;
    int rc = join(&path, base, sub, err);

    if (rc == 0) {
        d = opendir(path.s);
        rc = d ? list_open(d, fn, cookie, path.s, err) : list_failed(path.s, errno, err);
    }
    if (d)
        closedir(d);
    stk_free(path.s);
    return rc;
}

/* ---- walking ---- */

typedef struct walked { /* a directory on the way: who it is, and in which one it is */
    dev_t dev;
    ino_t ino;
    size_t parent;
} walked;

typedef struct walk {
    const char *base;
    stk_names *dirs;
    walked *who;
    size_t cap, at; /* at: the one that is being listed */
} walk;

static int walk_add(walk *w, const char *name, const struct stat *st, stk_error *err)
{
    size_t n = w->dirs->n, cap = w->cap ? 2 * w->cap : 8;

    if (n == FOLDERS_MAX)
        return stk_fail(err, STK_ELIMIT, "more than %u folders below \"%.120s\"", FOLDERS_MAX,
                        w->base);
    if (n == w->cap) {
        walked *grown = stk_grow(w->who, n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        w->who = grown;
        w->cap = cap;
    }
    w->who[n] = (walked){ st->st_dev, st->st_ino, w->at };
    return stk_names_add(w->dirs, name, strlen(name), err);
}

static int leads_back(const walk *w, const struct stat *st)
{
    for (size_t i = w->at;; i = w->who[i].parent) {
        if (w->who[i].dev == st->st_dev && w->who[i].ino == st->st_ino)
            return 1;
        if (!i)
            return 0;
    }
}

static int walk_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    walk *w = cookie;
    stk_text path = { 0 };
    struct stat st;
    int rc;

    if (!e->folder || fstatat(e->fd, e->name, &st, 0))
        return 0; /* gone meanwhile */
    rc = join(&path, w->dirs->name[w->at], e->name, err);
    if (rc == 0 && e->linked && leads_back(w, &st)) {
        rc = stk_fail(err, STK_EINVAL,
                      "the symlink \"%.150s\" leads back to a folder above it: remove it", path.s);
        stk_error_at(err, w->base, STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    if (rc == 0)
        rc = walk_add(w, path.s, &st, err);
    stk_free(path.s);
    return rc;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int stk_folder_walk(const char *path, stk_names *out, stk_error *err)
{
    walk w = { .base = path, .dirs = out };
    struct stat st;
    int rc;

    if (stat(path, &st))
        return list_failed(path, errno, err);
    rc = walk_add(&w, "", &st, err);
    for (; rc == 0 && w.at < out->n; w.at++)
        rc = stk_folder_list(path, out->name[w.at], walk_entry, &w, err);
    stk_free(w.who);
    if (rc == 0)
        qsort(out->name, out->n, sizeof *out->name, by_bytes);
    return rc;
}

/* ---- a root's shards ---- */

static void note_kind(stk_file_kind *best, stk_file_kind k)
{
    if (k && (!*best || k < *best))
        *best = k;
}

/* Nothing comes before pictures. */
static int stop_at_picture(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    stk_file_kind *best = cookie;

    (void)err;
    if (!e->folder)
        note_kind(best, stk_file_kind_of(e->name));
    return *best == STK_FILE_PICTURE ? STK_END : 0;
}

int stk_folder_kind(const char *path, const char *sub, int deep, stk_file_kind *best,
                    stk_error *err)
{
    stk_names dirs = { 0 };
    stk_text base = { 0 };
    int rc = join(&base, path, sub, err);

    if (rc == 0)
        rc = stk_folder_list(base.s, "", stop_at_picture, best, err); /* as a rule that is all */
    if (rc == 0 && deep)
        rc = stk_folder_walk(base.s, &dirs, err);
    for (size_t i = 1; rc == 0 && i < dirs.n; i++)
        rc = stk_folder_list(base.s, dirs.name[i], stop_at_picture, best, err);
    stk_names_fini(&dirs);
    stk_free(base.s);
    return rc == STK_END ? 0 : rc;
}

typedef struct root {
    stk_names subs;
    stk_file_kind kind, below; /* of the files in it, and in all its directories */
} root;

static int root_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    root *r = cookie;

    if (e->folder)
        return stk_names_add(&r->subs, e->name, strlen(e->name), err);
    note_kind(&r->kind, stk_file_kind_of(e->name));
    return 0;
}

static int add_shard(const char *path, const char *sub, const char *end, stk_names *out,
                     stk_error *err)
{
    stk_text t = { 0 };
    int rc = join(&t, path, sub, err);

    if (rc == 0 && t.len && t.s[t.len - 1] == '/')
        end += *end == '/';
    if (rc == 0)
        rc = stk_text_put(&t, end, strlen(end), err);
    if (rc == 0)
        rc = stk_names_add(out, t.s, t.len, err);
    stk_free(t.s);
    return rc;
}

static int find_below(const char *path, root *r, stk_error *err)
{
    for (size_t i = 0; r->below != STK_FILE_PICTURE && i < r->subs.n; i++)
        STK_TRY(stk_folder_kind(path, r->subs.name[i], 1, &r->below, err));
    return 0;
}

static int add_classes(const char *path, const root *r, stk_names *out, stk_error *err)
{
    for (size_t i = 0; i < r->subs.n; i++)
        STK_TRY(add_shard(path, r->subs.name[i], "/", out, err));
    return 0;
}

int stk_folder_expand(const char *path, stk_names *out, stk_error *err)
{
    root r = { 0 };
    int rc = stk_folder_list(path, "", root_entry, &r, err);
    stk_file_kind kind;

    if (rc == 0 && r.subs.n)
        qsort(r.subs.name, r.subs.n, sizeof *r.subs.name, by_bytes);
    if (rc == 0)
        rc = find_below(path, &r, err);
    kind = r.kind;
    note_kind(&kind, r.below);
    if (rc == 0 && kind && r.below == kind)
        rc = add_classes(path, &r, out, err);
    else if (rc == 0 && kind)
        rc = add_shard(path, "", "/.", out, err);
    stk_names_fini(&r.subs);
    return rc;
}

/* ---- a directory as a shard ---- */

static int folder_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    const char *path = stk_folder_path(f);
    struct stat st;

    memset(out, 0, sizeof *out);
    if (stat(path, &st))
        return list_failed(path, errno, err);
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

static int folder_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->got = 0;
    io->sys = EISDIR;
    return io->rc = STK_EIO;
}

static void folder_close(stk_file *f)
{
    stk_free(f);
}

static const stk_source folder_source = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "folder",
    .help = "directories of this machine, as shards",
    .ready = folder_ready,
    .read = folder_read,
    .close = folder_close,
};

int stk_folder_open(const char *path, stk_file **out, stk_error *err)
{
    size_t len = strlen(path) + 1;
    folder_file *f;
    struct stat st;

    *out = NULL;
    if (stat(path, &st))
        return list_failed(path, errno, err);
    if (!S_ISDIR(st.st_mode))
        return list_failed(path, ENOTDIR, err);
    f = stk_alloc(sizeof *f + len);
    if (!f)
        return stk_fail_nomem(err, sizeof *f + len);
    f->base.source = &folder_source;
    memcpy(f->path, path, len);
    *out = &f->base;
    return 0;
}

const char *stk_folder_path(const stk_file *f)
{
    return f->source == &folder_source ? ((const folder_file *)f)->path : NULL;
}

int stk_folder_state(const stk_file *f, stk_file_info *out, stk_error *err)
{
    const char *path = stk_folder_path(f);
    stk_names dirs = { 0 };
    stk_text t = { 0 };
    uint64_t hash = 0;
    int rc;

    STK_TRY(folder_ready((stk_file *)(uintptr_t)f, 1, out, err));
    if (stk_is_flat(path)) /* what is deeper is none of its */
        return 0;
    rc = stk_folder_walk(path, &dirs, err);
    for (size_t i = 1; rc == 0 && i < dirs.n; i++) {
        struct stat st;

        rc = join(&t, path, dirs.name[i], err);
        if (rc == 0 && stat(t.s, &st))
            rc = list_failed(t.s, errno, err);
        if (rc < 0)
            break;
        hash = stk_hash64(hash, dirs.name[i], strlen(dirs.name[i]) + 1);
        hash = stk_hash64(hash, &st.st_mtim, sizeof st.st_mtim);
    }
    if (rc == 0 && dirs.n > 1)
        snprintf(out->etag, sizeof out->etag, "%016" PRIx64, hash);
    stk_names_fini(&dirs);
    stk_free(t.s);
    return rc;
}
