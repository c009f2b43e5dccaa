/* SPDX-License-Identifier: Apache-2.0 */
/* pack_target.c - what the target's folder has: shards of this pack are kept, others are refused. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/pack_model.h"

static int foreign(const char *path, stk_error *err)
{
    stk_fail(err, STK_EINVAL,
             "there is a shard of that name that is not of this pack: take "
             "another place or name, or replace it (--force, force=True)");
    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

static int is_source(const stk_pack_run *p, const struct stat *st)
{
    struct stat src;

    for (uint64_t i = 0; i < stk_dataset_shards(p->ds); i++)
        if (stat(stk_dataset_shard_name(p->ds, i), &src) == 0 && src.st_ino == st->st_ino &&
            src.st_dev == st->st_dev)
            return 1;
    return 0;
}

/* One file of the target's folder that has a shard's name. */
static int look_at(stk_pack_run *p, uint64_t number, const char *path, stk_error *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    if (is_source(p, &st)) {
        stk_fail(err, STK_EINVAL,
                 "this shard is read and would be written over: pack to another "
                 "place or name");
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_EINVAL;
    }
    if (number < p->n && !stk_pack_mine(p, number))
        return 0;
    if (p->o.force == STK_YES)
        return number < p->n || unlink(path) == 0 ? 0 : foreign(path, err);
    if (number >= p->n || !(p->stamp.found || p->stamp.others) || !p->stamp.size[number] ||
        p->stamp.size[number] != (uint64_t)st.st_size)
        return foreign(path, err);
    p->keep[number] = STK_PACK_KEPT;
    return 0;
}

int stk_pack_look(stk_pack_run *p, stk_error *err)
{
    const char *dir = p->pattern.dir[0] ? p->pattern.dir : ".";
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;

    while (rc == 0 && d && (e = readdir(d))) {
        int64_t number = stk_shard_pattern_number(&p->pattern, e->d_name);
        char *path = number >= 0 ? stk_shard_pattern_at(&p->pattern, (uint64_t)number) : NULL;

        if (path)
            rc = look_at(p, (uint64_t)number, path, err);
        else if (number >= 0)
            rc = stk_fail_nomem(err, 64);
        stk_free(path);
    }
    if (d)
        closedir(d);
    return rc;
}

