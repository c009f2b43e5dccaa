/* SPDX-License-Identifier: Apache-2.0 */
/* pack_classes.c - the class list of a folder of pictures beside its shards: classes.txt, a name
 * a line, number 0 first.
 *
 * Shards keep numbers only; without the names no one could tell what they mean.  Another list
 * that is there already is another numbering, and is not replaced unasked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "tools/pack_side.h"
#include "tools/pack_stamp.h"

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

/* The same of a file in a bucket; one that can't be read is another. */
static int compare_remote(const char *url, const stk_store *store, const stk_text *t)
{
    stk_text now = { 0 };
    int rc = stk_side_read(url, store, &now, NULL), same = rc == 0 && now.len == t->len;

    same = same && !memcmp(now.s, t->s, now.len);
    stk_free(now.s);
    return rc == STK_ENOTFOUND ? 0 : same ? 1 : -1;
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

int stk_pack_classes(const stk_dataset *ds, const stk_shard_pattern *p, int force, stk_error *err)
{
    size_t size = strlen(p->dir) + 48;
    char *path = stk_alloc(size);
    stk_text t = { 0 };
    int rc = path ? list_of(ds, &t, err) : stk_fail_nomem(err, size), there = 0;

    if (rc == 0 && t.len) {
        snprintf(path, size, "%sclasses.txt", p->dir);
        there = stk_is_address(path) ? compare_remote(path, p->store, &t) : compare(path, &t);
    }
    if (rc == 0 && there < 0 && !force)
        rc = stk_fail(err, STK_EINVAL,
                      "%.120s is another list of classes: take another place, or "
                      "replace it (--force, force=True)",
                      path);
    else if (rc == 0 && t.len && there <= 0)
        rc = stk_is_address(path) ? stk_object_write(path, p->store, t.s, t.len, err)
                                  : stk_atomic_put(path, t.s, t.len, STK_COMMIT_SYNC, err);
    stk_free(t.s);
    stk_free(path);
    return rc;
}
