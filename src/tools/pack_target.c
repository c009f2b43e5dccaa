/* SPDX-License-Identifier: Apache-2.0 */
/* pack_target.c - what the target has: shards of this pack are kept, others are refused. */
#include <dirent.h>
#include <stdio.h>
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

static int is_read(const char *path, stk_error *err)
{
    stk_fail(err, STK_EINVAL,
             "this shard is read and would be written over: pack to another "
             "place or name");
    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

/* A shard beyond the last, with force. */
static int remove_shard(const stk_pack_run *p, const char *path, stk_error *err)
{
    if (p->stamp.source)
        return p->stamp.source->remove(path, p->pattern.store, err);
    return unlink(path) == 0 ? 0 : foreign(path, err);
}

/* One file that has a shard's name and is not of the source. */
static int settle(stk_pack_run *p, uint64_t number, const char *path, uint64_t size, stk_error *err)
{
    if (number < p->n && !stk_pack_mine(p, number))
        return 0;
    if (p->o.force == STK_YES)
        return number < p->n ? 0 : remove_shard(p, path, err);
    if (number >= p->n || !(p->stamp.found || p->stamp.others) || !p->stamp.size[number] ||
        p->stamp.size[number] != size)
        return foreign(path, err);
    p->keep[number] = STK_PACK_DONE;
    return 0;
}

static int look_at(stk_pack_run *p, uint64_t number, const char *path, stk_error *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    return is_source(p, &st) ? is_read(path, err)
                             : settle(p, number, path, (uint64_t)st.st_size, err);
}

/* ---- in a bucket ---- */

static int on_listed(void *cookie, const stk_listed *f, stk_error *err)
{
    stk_pack_run *p = cookie;
    int64_t number = stk_shard_pattern_number(&p->pattern, f->url + strlen(p->pattern.dir));

    if (number < 0)
        return 0;
    for (uint64_t i = 0; i < stk_dataset_shards(p->ds); i++)
        if (!strcmp(stk_dataset_shard_name(p->ds, i), f->url))
            return is_read(f->url, err);
    return settle(p, (uint64_t)number, f->url, f->size, err);
}

static char *remote_prefix(const stk_pack_run *p)
{
    size_t size = strlen(p->pattern.dir) + strlen(p->pattern.prefix) + 1;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s%s", p->pattern.dir, p->pattern.prefix);
    return s;
}

static int look_remote(stk_pack_run *p, stk_error *err)
{
    char *prefix = remote_prefix(p);
    int rc = prefix ? p->stamp.source->list(prefix, p->pattern.store, on_listed, p, err)
                    : stk_fail_nomem(err, 64);

    stk_free(prefix);
    return rc;
}

static int is_dead(void *cookie, const char *url)
{
    const stk_pack_run *p = cookie;
    int64_t number = stk_shard_pattern_number(&p->pattern, url + strlen(p->pattern.dir));

    return number >= 0 && ((uint64_t)number >= p->n || !p->keep[number]);
}

/* Who may not list uploads writes all the same: the bucket's own rules end them some day. */
void stk_pack_sweep(stk_pack_run *p)
{
    const stk_source *s = p->stamp.source;
    char *prefix = s && s->sweep ? remote_prefix(p) : NULL;
    stk_error err;

    if (prefix)
        (void)!s->sweep(prefix, p->pattern.store, is_dead, p, &err);
    stk_free(prefix);
}

int stk_pack_look(stk_pack_run *p, stk_error *err)
{
    const char *dir = p->pattern.dir[0] ? p->pattern.dir : ".";
    DIR *d;
    struct dirent *e;
    int rc = 0;

    if (p->stamp.source)
        return look_remote(p, err);
    d = opendir(dir);
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
