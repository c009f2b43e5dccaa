/* SPDX-License-Identifier: Apache-2.0 */
/* pair_folders.c - several folders as one shard.  Its version is made of the times of all
 * directories at and below them; nothing can be read from it: its samples name files. */
#include "source/pair_folders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "source/folder_files.h"

typedef struct pairs_file {
    stk_file base;
    stk_pairs what;
    char *url;
} pairs_file;

int stk_is_pairs(const char *url)
{
    return !strncmp(url, STK_PAIRS_SCHEME, strlen(STK_PAIRS_SCHEME));
}

int stk_is_frames(const char *url)
{
    return !strncmp(url, STK_FRAMES_SCHEME, strlen(STK_FRAMES_SCHEME));
}

int stk_is_coco(const char *url)
{
    return !strncmp(url, STK_COCO_SCHEME, strlen(STK_COCO_SCHEME));
}

int stk_is_voc(const char *url)
{
    return !strncmp(url, STK_VOC_SCHEME, strlen(STK_VOC_SCHEME));
}

int stk_is_yolo(const char *url)
{
    return !strncmp(url, STK_YOLO_SCHEME, strlen(STK_YOLO_SCHEME));
}

int stk_is_many(const char *url)
{
    return stk_is_pairs(url) || stk_is_frames(url) || stk_is_voc(url) || stk_is_yolo(url);
}

void stk_pairs_fini(stk_pairs *p)
{
    stk_names_fini(&p->field);
    stk_names_fini(&p->folder);
}

/* ---- the address ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static int put_plain(stk_text *t, const char *s, size_t len, stk_error *err)
{
    t->len = 0;
    STK_TRY(stk_text_put(t, "", 0, err));
    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (c == '%' && i + 2 < len && digit(s[i + 1]) >= 0 && digit(s[i + 2]) >= 0) {
            c = (char)(digit(s[i + 1]) * 16 + digit(s[i + 2]));
            i += 2;
        }
        if (!c)
            return stk_fail(err, STK_EINVAL, "a folder's name has a null character");
        STK_TRY(stk_text_put(t, &c, 1, err));
    }
    return 0;
}

int stk_pairs_escape(stk_text *t, const char *s, stk_error *err)
{
    for (; *s; s++) {
        char code[8];
        int plain = !strchr("%&={}[]*?$:\\", *s),
            n = plain ? 1 : snprintf(code, sizeof code, "%%%02X", (unsigned)(unsigned char)*s);

        STK_TRY(stk_text_put(t, plain ? s : code, (size_t)n, err));
    }
    return 0;
}

static int add_folder(stk_pairs *out, stk_text *path, stk_error *err)
{
    char cwd[4096] = "";
    stk_text whole = { 0 };
    int rc = 0;

    while (path->len > 1 && path->s[path->len - 1] == '/')
        path->s[--path->len] = 0;
    if (!path->len)
        return stk_fail(err, STK_EINVAL,
                        "an address has no name in it: write "
                        "pairs://image=images&mask=masks, coco://FILE&images=DIR");
    if (path->s[0] != '/' && !getcwd(cwd, sizeof cwd))
        return stk_fail(err, STK_EIO, "the current folder has no name: %s", strerror(errno));
    if (cwd[0]) {
        rc = stk_text_put(&whole, cwd, strlen(cwd), err);
        if (rc == 0)
            rc = stk_text_put(&whole, "/", 1, err);
    }
    if (rc == 0)
        rc = stk_text_put(&whole, path->s, path->len, err);
    if (rc == 0)
        rc = stk_names_add(&out->folder, whole.s, whole.len, err);
    stk_free(whole.s);
    return rc;
}

static int take_missing(stk_pairs *out, const char *word, stk_error *err)
{
    static const char *const words[] = { "error", "drop", "keep" };

    for (int i = 0; i < 3; i++)
        if (!strcmp(word, words[i])) {
            out->missing = (stk_missing)i;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "missing is error, drop or keep, not \"%.40s\"", word);
}

static int take_split(stk_pairs *out, const char *word, stk_error *err)
{
    static const char *const words[] = { "train", "val", "test" };

    for (int i = 0; i < 3; i++)
        if (!strcmp(word, words[i])) {
            snprintf(out->split, sizeof out->split, "%s", word);
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "split is train, val or test, not \"%.40s\"", word);
}

static int take_item(stk_pairs *out, const char *s, size_t len, stk_text *text, stk_error *err)
{
    const char *mark = memchr(s, '=', len);
    size_t name = mark ? (size_t)(mark - s) : 0, from = mark ? name + 1 : 0;

    if (name == 7 && !memcmp(s, "missing", 7)) {
        STK_TRY(put_plain(text, s + from, len - from, err));
        return take_missing(out, text->s, err);
    }
    if (name == 5 && !memcmp(s, "split", 5)) {
        STK_TRY(put_plain(text, s + from, len - from, err));
        return take_split(out, text->s, err);
    }
    if (out->folder.n == STK_PAIRS_MAX)
        return stk_fail(err, STK_ELIMIT, "more than %d folders", STK_PAIRS_MAX);
    STK_TRY(put_plain(text, s, name, err));
    for (size_t i = 0; i < out->field.n; i++)
        if (!strcmp(out->field.name[i], text->s))
            return stk_fail(err, STK_EINVAL, "pairs://: the field \"%.60s\" is there twice",
                            text->s);
    STK_TRY(stk_names_add(&out->field, text->s, text->len, err));
    STK_TRY(put_plain(text, s + from, len - from, err));
    return add_folder(out, text, err);
}

int stk_pairs_parse(const char *url, stk_pairs *out, stk_error *err)
{
    const char *at = strstr(url, "://") + 3;
    stk_text text = { 0 };
    int rc = 0;

    while (rc == 0 && *at) {
        size_t len = strcspn(at, "&");

        rc = take_item(out, at, len, &text, err);
        at += len;
        at += *at == '&';
    }
    stk_free(text.s);
    for (size_t i = 0; rc == 0 && i < out->field.n; i++)
        if (!out->field.name[i][0] && out->field.n > 1 && stk_is_pairs(url))
            rc = stk_fail(err, STK_EINVAL,
                          "pairs://: of several folders each is a field: write "
                          "pairs://image=images&mask=masks");
    if (rc == 0 && !out->folder.n)
        rc = stk_fail(err, STK_EINVAL, "pairs:// names no folder");
    if (rc == 0 && stk_is_frames(url) && (out->folder.n > 1 || out->field.name[0][0]))
        rc = stk_fail(err, STK_EINVAL, "folders of frames are one folder: frames://FOLDER");
    if (rc == 0 && stk_is_yolo(url) &&
        (out->field.name[0][0] || out->field.n > 2 ||
         (out->field.n == 2 && strcmp(out->field.name[1], "names") != 0)))
        rc = stk_fail(err, STK_EINVAL,
                      "a YOLO data set is yolo://FOLDER, "
                      "yolo://FOLDER&names=data.yaml or "
                      "yolo://data.yaml&split=val");
    return rc;
}

int stk_pairs_resolve(const char *url, stk_names *out, stk_error *err)
{
    static const char *const missing[] = { "", "&missing=drop", "&missing=keep" };
    stk_pairs p = { 0 };
    stk_text t = { 0 };
    int rc = stk_pairs_parse(url, &p, err);

    if (rc == 0)
        rc = stk_text_put(&t, url, (size_t)(strstr(url, "://") + 3 - url), err);
    for (size_t i = 0; rc == 0 && i < p.folder.n; i++) {
        if (i)
            rc = stk_text_put(&t, "&", 1, err);
        if (rc == 0)
            rc = stk_pairs_escape(&t, p.field.name[i], err);
        if (rc == 0 && p.field.name[i][0])
            rc = stk_text_put(&t, "=", 1, err);
        if (rc == 0)
            rc = stk_pairs_escape(&t, p.folder.name[i], err);
    }
    if (rc == 0)
        rc = stk_text_put(&t, missing[p.missing], strlen(missing[p.missing]), err);
    if (rc == 0)
        rc = stk_names_add(out, t.s, t.len, err);
    stk_free(t.s);
    stk_pairs_fini(&p);
    return rc;
}

int stk_voc_add(const char *name, stk_names *out, stk_error *err)
{
    size_t len = strlen(name);
    stk_text t = { 0 };
    int rc;

    if (len < 4 || strcmp(name + len - 4, ".txt") != 0 || strstr(name, "://") ||
        !(strstr(name, "/ImageSets/") || !strncmp(name, "ImageSets/", 10)))
        return STK_END;
    rc = stk_text_put(&t, STK_VOC_SCHEME, strlen(STK_VOC_SCHEME), err);
    if (rc == 0)
        rc = stk_pairs_escape(&t, name, err);
    if (rc == 0)
        rc = stk_pairs_resolve(t.s, out, err);
    stk_free(t.s);
    return rc;
}

int stk_coco_file(const char *shard, stk_text *file, stk_text *images, stk_error *err)
{
    stk_pairs p = { 0 };
    int rc;

    file->len = images->len = 0;
    STK_TRY(stk_text_put(images, "", 0, err));
    if (!stk_is_coco(shard))
        return stk_text_put(file, shard, strlen(shard), err);
    rc = stk_pairs_parse(shard, &p, err);
    for (size_t i = 0; rc == 0 && i < p.folder.n; i++) {
        const char *field = p.field.name[i];

        if (*field && strcmp(field, "images") != 0)
            rc = stk_fail(err, STK_EINVAL, "coco://FILE&images=FOLDER has no \"%.40s\"", field);
        else
            rc = stk_text_put(*field ? images : file, p.folder.name[i], strlen(p.folder.name[i]),
                              err);
    }
    stk_pairs_fini(&p);
    return rc == 0 && !file->len ? stk_fail(err, STK_EINVAL,
                                            "coco:// names no annotation file: write "
                                            "coco://FILE&images=FOLDER")
                                 : rc;
}

static int coco_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    stk_text file = { 0 }, images = { 0 };
    int rc = stk_coco_file(o->url, &file, &images, err);

    *out = NULL;
    if (rc == 0)
        rc = stk_source_local.open(STK_URL(file.s, NULL), out, err);
    stk_free(file.s);
    stk_free(images.s);
    return rc;
}

/* ---- the file ---- */

static int folder_version(const char *path, uint64_t *hash, stk_error *err)
{
    stk_text name = { 0 };
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_text_put(&name, path, strlen(path), err);

    if (rc == 0)
        rc = stk_text_put(&name, "/", 1, err);
    if (rc == 0)
        rc = stk_folder_open(name.s, &f, err);
    if (rc == 0)
        rc = stk_folder_state(f, &info, err);
    *hash = stk_hash64(*hash, &info.mtime_ns, sizeof info.mtime_ns);
    *hash = stk_hash64(*hash, info.etag, strlen(info.etag));
    stk_file_close(&f);
    stk_free(name.s);
    return rc;
}

/* VOC: Annotations/ beside ImageSets/.  YOLO: labels/ in place of images/, or beside the
 * pictures. */
int stk_labels_folder(const char *url, const char *path, stk_text *out, stk_error *err)
{
    const char *word = stk_is_voc(url) ? "/ImageSets/" : "/images/", *at = NULL, *rest;
    char whole[4096];

    out->len = 0;
    if (snprintf(whole, sizeof whole, "%s/", path) >= (int)sizeof whole)
        return stk_fail(err, STK_ELIMIT, "the path has more than %zu bytes", sizeof whole - 2);
    for (const char *p = whole; (p = strstr(p, word)); p++)
        at = p;
    if (!at && stk_is_voc(url))
        return stk_fail(err, STK_EINVAL,
                        "a list of Pascal VOC is in ImageSets/, as in VOC2012/ImageSets/Main/"
                        "train.txt");
    if (!at)
        return stk_text_put(out, path, strlen(path), err);
    STK_TRY(stk_text_put(out, whole, (size_t)(at - whole), err));
    if (stk_is_voc(url))
        return stk_text_put(out, "/Annotations", 12, err);
    STK_TRY(stk_text_put(out, "/labels/", 8, err));
    rest = at + strlen(word);
    STK_TRY(stk_text_put(out, rest, strlen(rest), err));
    out->s[--out->len] = 0; /* the slash */
    return 0;
}

static int file_version(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    uint64_t *hash = cookie;
    struct stat st;

    (void)err;
    if (e->folder || fstatat(e->fd, e->name, &st, 0))
        return 0;
    /* a sum: folders are listed in any order */
    *hash += stk_hash64((uint64_t)st.st_size, e->name, strlen(e->name)) *
             (uint64_t)(st.st_mtim.tv_sec * 1000000007 + st.st_mtim.tv_nsec + 1);
    return 0;
}

/* Every file at and below the folder; one that is not there has none. */
static int labels_version(const char *path, uint64_t *hash, stk_error *err)
{
    stk_names dirs = { 0 };
    struct stat st;
    int rc = stat(path, &st) ? STK_END : stk_folder_walk(path, &dirs, err);

    for (size_t i = 0; rc == 0 && i < dirs.n; i++)
        rc = stk_folder_list(path, dirs.name[i], file_version, hash, err);
    stk_names_fini(&dirs);
    return rc < 0 ? rc : 0;
}

static int annotations_version(const pairs_file *f, uint64_t *hash, stk_error *err)
{
    const char *path = f->what.folder.name[0];
    stk_text labels = { 0 };
    struct stat st;
    int rc = stk_labels_folder(f->url, path, &labels, err);

    if (rc == 0 && stat(path, &st)) {
        rc = stk_fail(err, STK_ENOTFOUND, "no such file or folder");
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    if (rc == 0 && f->what.folder.n > 1 && stat(f->what.folder.name[1], &st) == 0)
        *hash = stk_hash64(*hash + (uint64_t)st.st_size, &st.st_mtim, sizeof st.st_mtim);
    if (rc == 0 && stk_is_yolo(f->url))
        rc = folder_version(path, hash, err);
    else if (rc == 0)
        *hash = stk_hash64((uint64_t)st.st_size, &st.st_mtim, sizeof st.st_mtim);
    if (rc == 0)
        rc = labels_version(labels.s, hash, err);
    stk_free(labels.s);
    return rc;
}

/* Its version is that of its folders alone. */
static int of_folders(const char *url)
{
    return stk_is_pairs(url) || stk_is_frames(url);
}

static int pairs_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    const stk_pairs *p = &((pairs_file *)f)->what;
    uint64_t hash = p->folder.n;

    (void)wait;
    memset(out, 0, sizeof *out);
    if (!of_folders(((pairs_file *)f)->url))
        STK_TRY(annotations_version((pairs_file *)f, &hash, err));
    for (size_t i = 0; of_folders(((pairs_file *)f)->url) && i < p->folder.n; i++)
        STK_TRY(folder_version(p->folder.name[i], &hash, err));
    snprintf(out->etag, sizeof out->etag, "%016" PRIx64, hash);
    return 0;
}

static int pairs_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->got = 0;
    io->sys = EISDIR;
    return io->rc = STK_EIO;
}

static void pairs_close(stk_file *f)
{
    stk_pairs_fini(&((pairs_file *)f)->what);
    stk_free(((pairs_file *)f)->url);
    stk_free(f);
}

static int pairs_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    pairs_file *f = STK_NEW(pairs_file);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->base.source = stk_is_voc(o->url)      ? &stk_source_voc
                     : stk_is_yolo(o->url)   ? &stk_source_yolo
                     : stk_is_frames(o->url) ? &stk_source_frames
                                             : &stk_source_pairs;
    f->url = stk_strdup(o->url);
    rc = f->url ? stk_pairs_parse(o->url, &f->what, err) : stk_fail_nomem(err, strlen(o->url));
    if (rc < 0)
        pairs_close(&f->base);
    else
        *out = &f->base;
    return rc;
}

/* coco_open() gives a local file: these are never called. */
const stk_source stk_source_coco = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "coco",
    .help = "an annotation file of this machine, and the folder of its pictures",
    .scheme = "coco",
    .open = coco_open,
    .ready = pairs_ready,
    .read = pairs_read,
    .close = pairs_close,
};

const stk_source stk_source_voc = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "voc",
    .help = "a list of Pascal VOC (ImageSets/Main/train.txt), with pictures and annotations",
    .scheme = "voc",
    .open = pairs_open,
    .ready = pairs_ready,
    .read = pairs_read,
    .close = pairs_close,
};

const stk_source stk_source_yolo = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "yolo",
    .help = "a folder of pictures with YOLO's text files (images/train, labels/train)",
    .scheme = "yolo",
    .open = pairs_open,
    .ready = pairs_ready,
    .read = pairs_read,
    .close = pairs_close,
};

const stk_source stk_source_pairs = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "pairs",
    .help = "folders of this machine whose files belong together by their names",
    .scheme = "pairs",
    .open = pairs_open,
    .ready = pairs_ready,
    .read = pairs_read,
    .close = pairs_close,
};

const stk_source stk_source_frames = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_source),
    .name = "frames",
    .help = "a folder whose folders of numbered pictures are clips",
    .scheme = "frames",
    .open = pairs_open,
    .ready = pairs_ready,
    .read = pairs_read,
    .close = pairs_close,
};
