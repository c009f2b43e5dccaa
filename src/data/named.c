/* SPDX-License-Identifier: Apache-2.0 */
/* named.c - open a file that a sample names: a picture of a folder, the path of a manifest.
 *
 * Names of a manifest come from data, so they stay below their root: "..", absolute names and
 * symlinks that lead elsewhere are refused.  Names of a folder come from listing it (`listed`),
 * where symlinks are followed: they are what the user put there. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "data/data.h"

#include "source/folder_files.h"

#define PATH_BYTES 4096

/* The name as a path below root[0..len), which is "" for "/". */
static int join(char *path, const char *root, size_t len, stk_bytes name, stk_error *err)
{
    const char *s = (const char *)name.data;
    int shown = name.len > 100 ? 100 : (int)name.len;

    if (!name.len || s[name.len - 1] == '/' || memchr(s, 0, name.len))
        return stk_fail(err, STK_ECORRUPT, "\"%.*s\" names no file", shown, s);
    if (!stk_name_below((stk_bytes){ (const uint8_t *)root, len ? len : root[0] == '/' }, name))
        return stk_fail(err, STK_ECORRUPT,
                        "\"%.*s\" leads out of its root %.*s: refused; open(root=\"/\") allows "
                        "absolute names",
                        shown, s, len > 80 ? 80 : (int)len, root);
    if (s[0] == '/')
        len = 0;
    if (len + 1 + name.len >= PATH_BYTES)
        return stk_fail(err, STK_ELIMIT, "the path of \"%.*s\" has %zu bytes, %d are allowed",
                        shown, s, len + 1 + name.len, PATH_BYTES - 1);
    memcpy(path, root, len);
    if (s[0] != '/')
        path[len++] = '/';
    memcpy(path + len, s, name.len);
    path[len + name.len] = 0;
    return 0;
}

/* "a/1.jpg" with the suffix "txt" is "a/1.txt". */
static int change_suffix(char *path, stk_bytes suffix, stk_error *err)
{
    char *dot = strrchr(path, '.');
    size_t at = dot ? (size_t)(dot - path) + 1 : 0;

    if (!dot || strchr(dot, '/'))
        return stk_fail(err, STK_ECORRUPT, "the file's name has no suffix");
    if (at + suffix.len >= PATH_BYTES)
        return stk_fail(err, STK_ELIMIT, "the path has %zu bytes, %d are allowed", at + suffix.len,
                        PATH_BYTES - 1);
    memcpy(path + at, suffix.data, suffix.len);
    path[at + suffix.len] = 0;
    return 0;
}

static size_t root_len(const char *shard, const char *root)
{
    size_t len = strlen(root ? root : shard);

    if (!root && !stk_is_folder(shard))
        while (len && shard[len - 1] != '/')
            len--;
    while (len && (root ? root : shard)[len - 1] == '/')
        len--;
    return len;
}

static int check_size(const stk_place *p, uint64_t size, uint64_t *len, stk_error *err)
{
    if (p->whole) {
        if (p->offset > size)
            return stk_fail(err, STK_ECORRUPT,
                            "the file has %" PRIu64 " bytes, its range begins at %" PRIu64, size,
                            p->offset);
        *len = size - p->offset;
        return 0;
    }
    *len = p->len;
    if (p->must_equal && size != p->offset + p->len)
        return stk_fail(err, STK_ESTALE,
                        "the file has %" PRIu64 " bytes, the index was made when it had %" PRIu64
                        "; run: stoker index --force ...",
                        size, p->offset + p->len);
    if (p->offset > size || p->len > size - p->offset)
        return stk_fail(err, STK_ECORRUPT,
                        "the file has %" PRIu64 " bytes, its range is %" PRIu64 " at %" PRIu64,
                        size, p->len, p->offset);
    return 0;
}

static int path_of(const stk_named *at, const stk_place *place, char path[PATH_BYTES],
                   size_t *len_root, stk_error *err)
{
    const char *shard = at->data->ops->shard_name(at->data, at->shard);
    const char *root = at->root ? at->root : place->root;

    *len_root = root_len(shard, root);
    STK_TRY(join(path, root ? root : shard, *len_root, place->name, err));
    return place->suffix.data ? change_suffix(path, place->suffix, err) : 0;
}

int stk_named_failed(const stk_named *at, const stk_place *place, int rc, stk_error *err)
{
    char path[PATH_BYTES];
    size_t len;

    if (rc == STK_EINVAL) { /* a folder, a scheme: what the data says, and not the user */
        rc = STK_ECORRUPT;
        if (err)
            err->code = rc;
    }
    if (path_of(at, place, path, &len, NULL) == 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

int stk_named_begin(const stk_named *at, const stk_place *place, stk_file **out, stk_error *err)
{
    char path[PATH_BYTES];
    size_t len_root;
    int rc;

    *out = NULL;
    STK_TRY(path_of(at, place, path, &len_root, err));
    if (path[0] != '/')
        rc = stk_url_open(STK_URL(path, at->data->store), out, err);
    else if (place->listed)
        rc = stk_source_local.open(STK_URL(path, NULL), out, err);
    else
        rc = stk_local_open_below(path, len_root, out, err);
    return rc < 0 ? stk_named_failed(at, place, rc, err) : 0;
}

int stk_named_size(const stk_named *at, stk_place *place, stk_file *f, stk_error *err)
{
    stk_file_info info;
    int rc = stk_file_stat(f, &info, err);

    if (rc == 0)
        rc = check_size(place, info.size, &place->len, err);
    return rc < 0 ? stk_named_failed(at, place, rc, err) : 0;
}

int stk_named_open(const stk_named *at, stk_place *place, stk_file **out, stk_error *err)
{
    int rc = stk_named_begin(at, place, out, err);

    if (rc == 0)
        rc = stk_named_size(at, place, *out, err);
    if (rc < 0)
        stk_file_close(out);
    return rc;
}

int stk_dataset_shard_now(const stk_dataset *ds, uint64_t i, stk_shard_info *out, stk_error *err)
{
    const char *name = stk_dataset_shard_name(ds, i);
    struct stat st;

    STK_TRY(ds->ops->shard(ds, i, out, err));
    if (name && name[0] == '/' && stat(name, &st) == 0)
        out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

int stk_named_unchanged(const char *name, stk_file *f, stk_error *err)
{
    stk_file_info is;
    int rc = stk_file_unchanged(f, 0, err);

    /* One that is gone lives on in what is open. */
    if (rc == 0 && f->source == &stk_source_local && stk_file_stat(f, &is, NULL) == 0 &&
        stk_local_renamed(name, is.id))
        rc = stk_fail(err, STK_ESTALE,
                      "another file has this name now than when it was opened: open it again");
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}
