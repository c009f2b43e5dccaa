/* SPDX-License-Identifier: Apache-2.0 */
/* pack_classes.c - the class list of a folder of pictures beside its shards: classes.txt, a name
 * a line, number 0 first.
 *
 * Shards keep numbers only; without the names nobody could tell what they mean.  Another list
 * that is there already is another numbering, and is not replaced unasked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pack_stamp.h"

static int list_of(const stk_dataset *ds, stk_text *t, stk_error *err)
{
    const char *name;

    for (uint32_t i = 0; (name = stk_dataset_class(ds, i)); i++) {
        if (strchr(name, '\n'))
            return stk_fail(err, STK_EINVAL,
                            "class %u has a newline in its name, which "
                            "classes.txt can't hold",
                            i);
        STK_TRY(stk_text_put(t, name, strlen(name), err));
        STK_TRY(stk_text_put(t, "\n", 1, err));
    }
    return 0;
}

/* 1: there is a file with just these bytes; 0: none; -1: another. */
static int compare(const char *path, const stk_text *t)
{
    char buf[4096];
    FILE *f = fopen(path, "rb");
    size_t at = 0, n;
    int same = 1;

    if (!f)
        return errno == ENOENT ? 0 : -1;
    while (same && (n = fread(buf, 1, sizeof buf, f))) {
        same = n <= t->len - at && !memcmp(t->s + at, buf, n);
        at += n;
    }
    fclose(f);
    return same && at == t->len ? 1 : -1;
}

static int put_file(const char *path, const char *tmp, const stk_text *t, stk_error *err)
{
    FILE *f = fopen(tmp, "wb");
    int bad = !f || fwrite(t->s, 1, t->len, f) != t->len || fflush(f) || fsync(fileno(f));

    if (f)
        bad |= fclose(f) != 0;
    if (!bad && rename(tmp, path) == 0)
        return 0;
    unlink(tmp);
    return stk_fail(err, STK_EIO, "can't write %.160s", path);
}

int stk_pack_classes(const stk_dataset *ds, const char *dir, int force, stk_error *err)
{
    size_t size = strlen(dir) + 48;
    char *path = stk_alloc(size), *tmp = stk_alloc(size);
    stk_text t = { 0 };
    int rc = path && tmp ? list_of(ds, &t, err) : stk_fail_nomem(err, size), there = 0;

    if (rc == 0 && t.len) {
        snprintf(path, size, "%sclasses.txt", dir);
        snprintf(tmp, size, "%s.classes.txt.tmp.%d", dir, (int)getpid());
        there = compare(path, &t);
    }
    if (rc == 0 && there < 0 && !force)
        rc = stk_fail(err, STK_EINVAL,
                      "%.120s is another list of classes: take another place, or "
                      "replace it (--force, force=True)",
                      path);
    else if (rc == 0 && t.len && there <= 0)
        rc = put_file(path, tmp, &t, err);
    stk_free(t.s);
    stk_free(path);
    stk_free(tmp);
    return rc;
}
