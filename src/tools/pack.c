/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - a data set into tar shards, one job a shard.
 *
 * Which samples a shard gets follows from the index and the options alone, so that the shards
 * are the same for any number of workers, and a run that was stopped can go on.  The same walk
 * over the index gives the fingerprint by which a target is known to have this content. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/opts.h"
#include "data/shard_data.h"
#include "order/order.h"
#include "tools/pack_stamp.h"
#include "base/jobs.h"

#define DEFAULT_BYTES 500000000u
#define MAX_SHARDS (1u << 24)
#define PACK_VERSION 1u /* in the fingerprint: change it when the bytes that are written change */
#define TELL_EVERY_NS 50000000u
#define STK_SUFFIX 16 /* bytes of a picture's suffix */

typedef struct pack {
    stk_dataset *ds;
    stk_pack_options o;
    stk_shard_pattern pattern;
    stk_perm perm;
    uint64_t *first; /* positions: shard i has first[i] .. first[i + 1] - 1 */
    uint64_t n, cap;
    uint64_t total, fingerprint;
    stk_stamp stamp;
    uint8_t *keep; /* shard i is in place already */
    stk_index_report index;
    _Atomic uint64_t done, adapted;
    _Atomic int stopped;
    stk_mutex lock;
    uint64_t told_ns; /* lock */
} pack;

static uint64_t is_folder(const pack *p)
{
    const stk_shard_data *d = stk_shard_data_of(p->ds);

    return d && !strcmp(stk_index_format(d->index), "folder");
}

static uint64_t sample_at(const pack *p, uint64_t position)
{
    return p->o.shuffle == STK_YES ? stk_perm_at(&p->perm, position) : position;
}

/* ---- progress ---- */

static int tell(pack *p, uint64_t more)
{
    uint64_t now = stk_now_ns();
    uint64_t done = atomic_fetch_add_explicit(&p->done, more, memory_order_relaxed) + more;

    if (p->o.progress && stk_mutex_try(&p->lock)) {
        if (now - p->told_ns >= TELL_EVERY_NS) {
            p->told_ns = now;
            if (p->o.progress(p->o.progress_cookie, done, p->total))
                atomic_store_explicit(&p->stopped, 1, memory_order_relaxed);
        }
        stk_mutex_unlock(&p->lock);
    }
    return atomic_load_explicit(&p->stopped, memory_order_relaxed);
}

static int waiting(void *cookie)
{
    return tell(cookie, 0);
}

/* ---- the plan: which samples go where ---- */

static int plan_add(pack *p, uint64_t position, stk_error *err)
{
    if (p->n + 1 >= p->cap) {
        uint64_t cap = p->cap ? p->cap * 2 : 64;
        void *more = stk_grow(p->first, p->cap * sizeof *p->first, cap * sizeof *p->first);

        if (!more)
            return stk_fail_nomem(err, cap * sizeof *p->first);
        p->first = more;
        p->cap = cap;
    }
    if (p->n >= MAX_SHARDS)
        return stk_fail(err, STK_ELIMIT, "that makes more than %u shards: give them more samples",
                        MAX_SHARDS);
    p->first[p->n++] = position;
    return 0;
}

/* What sample `id` takes in a tar, and its part of the fingerprint. */
static int weigh(pack *p, uint64_t id, uint64_t *bytes, stk_error *err)
{
    const stk_dataset *ds = p->ds;
    uint64_t sizes[2] = { 0 };
    stk_entry e;
    stk_field f;

    STK_TRY(ds->ops->entry(ds, id, &e, err));
    *bytes = 0;
    p->fingerprint = stk_hash64(p->fingerprint, e.key.data, e.key.len);
    for (uint32_t k = 0; k < e.n_fields; k++) {
        STK_TRY(ds->ops->field(ds, &e, k, &f, err));
        *bytes += stk_tar_member_bytes(e.key.len + 1 + f.name_len, f.size);
        sizes[0] = stk_hash64(f.size, f.name, f.name_len);
        sizes[1] = f.offset;
        p->fingerprint = stk_hash64(p->fingerprint, sizes, sizeof sizes);
    }
    return 0;
}

static int plan_source(pack *p, stk_error *err)
{
    uint64_t head[] = {
        PACK_VERSION + is_folder(p), p->o.samples,          p->o.bytes, p->o.shuffle == STK_YES, p->o.seed,
        (uint64_t)p->o.mtime, stk_dataset_len(p->ds)
    };

    p->fingerprint = stk_hash64(0, head, sizeof head);
    for (uint64_t i = 0; i < stk_dataset_shards(p->ds); i++) {
        stk_shard_info s;
        uint64_t what[3];

        STK_TRY(p->ds->ops->shard(p->ds, i, &s, err));
        what[0] = s.size;
        what[1] = (uint64_t)s.mtime_ns;
        what[2] = s.print;
        p->fingerprint = stk_hash64(p->fingerprint, what, sizeof what);
        p->fingerprint = stk_hash64(p->fingerprint, s.name, strlen(s.name));
    }
    return 0;
}

/* Names of two lengths would not sort, and no brace pattern names them all. */
static int check_width(const pack *p, stk_error *err)
{
    int digits = 1;

    for (uint64_t n = p->n ? p->n - 1 : 0; n >= 10; n /= 10)
        digits++;
    if (p->pattern.width < 2 || digits <= p->pattern.width)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%" PRIu64 " shards need %d digits in their name: write %%0%dd", p->n, digits,
                    digits);
}

static int plan(pack *p, stk_error *err)
{
    uint64_t n = stk_dataset_len(p->ds), in_shard = 0, bytes = 0;

    stk_perm_init(&p->perm, n, p->o.seed, 0);
    STK_TRY(plan_source(p, err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t size;

        STK_TRY(weigh(p, sample_at(p, i), &size, err));
        if (!i || (p->o.samples && in_shard >= p->o.samples) ||
            (p->o.bytes && bytes + size > p->o.bytes)) {
            STK_TRY(plan_add(p, i, err));
            in_shard = bytes = 0;
        }
        in_shard++;
        bytes += size;
        p->total += size;
    }
    STK_TRY(plan_add(p, n, err));
    p->n--; /* the last one is the end */
    STK_TRY(check_width(p, err));
    p->keep = stk_zalloc(p->n + 1, 1);
    return p->keep ? 0 : stk_fail_nomem(err, p->n);
}

/* ---- the target: what is there ---- */

static int foreign(const char *path, stk_error *err)
{
    stk_fail(err, STK_EINVAL,
             "there is a shard of that name that is not of this pack: take "
             "another place or name, or replace it (--force, force=True)");
    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

static int is_source(const pack *p, const struct stat *st)
{
    struct stat src;

    for (uint64_t i = 0; i < stk_dataset_shards(p->ds); i++)
        if (stat(stk_dataset_shard_name(p->ds, i), &src) == 0 && src.st_ino == st->st_ino &&
            src.st_dev == st->st_dev)
            return 1;
    return 0;
}

/* One file of the target's folder that has a shard's name. */
static int look_at(pack *p, uint64_t number, const char *path, stk_error *err)
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
    if (p->o.force == STK_YES)
        return number < p->n || unlink(path) == 0 ? 0 : foreign(path, err);
    if (number >= p->n || !p->stamp.found || !p->stamp.size[number] ||
        p->stamp.size[number] != (uint64_t)st.st_size)
        return foreign(path, err);
    p->keep[number] = 1;
    return 0;
}

static int look(pack *p, stk_error *err)
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

/* ---- one shard ---- */

/* A folder's picture "cat/1.jpg" becomes the member cat/1.jpg, and not cat/1_jpg.image: readers such as
 * WebDataset choose a decoder by the suffix.  suffix: STK_SUFFIX bytes. */
static void name_picture(const pack *p, stk_bytes *key, stk_part *image, char *suffix)
{
    const uint8_t *dot = key->len ? memrchr(key->data, '.', key->len) : NULL;
    size_t len = dot ? key->len - (size_t)(dot - key->data) - 1 : 0;

    if (!is_folder(p) || strcmp(image->name, "image") != 0 || !len || len >= STK_SUFFIX)
        return;
    for (size_t i = 0; i < len; i++)
        suffix[i] = (char)(dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? dot[1 + i] + 32 : dot[1 + i]);
    suffix[len] = 0;
    key->len = (size_t)(dot - key->data);
    image->name = suffix;
}

static int write_sample(pack *p, stk_sample_out *out, stk_tar_writer *tar, uint64_t id,
                        stk_error *err)
{
    stk_sample *s = NULL;
    char suffix[STK_SUFFIX];
    stk_part *parts;
    stk_bytes key, name;
    uint32_t n;
    int rc;

    STK_TRY(stk_dataset_read(p->ds, id, &s, err));
    n = stk_sample_fields(s);
    key.data = (const uint8_t *)stk_sample_key(s, &key.len);
    parts = stk_alloc((n + 1) * sizeof *parts);
    rc = parts ? 0 : stk_fail_nomem(err, n * sizeof *parts);
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        parts[k].name = stk_sample_field(s, k, &parts[k].data, &parts[k].len);
    name = key;
    if (rc == 0 && n)
        name_picture(p, &name, &parts[0], suffix);
    if (rc == 0)
        rc = stk_sample_out_check(out, name, parts, n, err);
    if (rc < 0)
        stk_error_at(err, stk_sample_shard(s), STK_NO_OFFSET, key);
    if (rc == 0)
        rc = stk_sample_out_put(out, tar, parts, n, err);
    stk_free(parts);
    stk_sample_close(&s);
    return rc;
}

static int write_samples(pack *p, uint64_t i, stk_tar_writer *tar, stk_error *err)
{
    stk_sample_out out = { .adapt = 1, .mtime = p->o.mtime };
    uint64_t before = 0;
    int rc = 0;

    for (uint64_t at = p->first[i]; rc == 0 && at < p->first[i + 1]; at++) {
        rc = write_sample(p, &out, tar, sample_at(p, at), err);
        if (rc == 0 && tell(p, stk_tar_writer_bytes(tar) - before))
            rc = stk_fail(err, STK_ECLOSED, "stopped; the shards that are finished stay");
        before = stk_tar_writer_bytes(tar);
    }
    atomic_fetch_add_explicit(&p->adapted, out.adapted, memory_order_relaxed);
    stk_sample_out_fini(&out);
    return rc;
}

static int write_shard(void *cookie, uint64_t i, stk_error *err)
{
    pack *p = cookie;
    char *path = stk_shard_pattern_at(&p->pattern, i);
    stk_tar_writer *tar = NULL;
    uint64_t size = 0;
    int rc = path ? 0 : stk_fail_nomem(err, 64);

    if (rc == 0 && !p->keep[i]) {
        rc = stk_tar_writer_open(&tar, path, p->o.force == STK_YES, err);
        if (rc == 0)
            rc = write_samples(p, i, tar, err);
        if (rc == 0)
            rc = stk_tar_writer_finish(tar, &size, err);
        if (rc == 0)
            rc = stk_stamp_add(&p->stamp, i, size, err);
        if (rc == 0) {
            p->stamp.size[i] = size;
            rc = stk_tar_writer_publish(tar, err);
        }
    }
    stk_tar_writer_close(&tar);
    stk_free(path);
    return rc;
}

/* ---- the whole ---- */

static int write_index(pack *p, stk_error *err)
{
    stk_index_options o = { .size = sizeof o,
                            .num_workers = p->o.num_workers,
                            .log = p->o.log,
                            .log_cookie = p->o.log_cookie,
                            .progress_cookie = p->o.progress_cookie,
                            .jpeg = p->o.jpeg,
                            .jpeg_progress = p->o.jpeg_progress };
    const char **urls = stk_zalloc(p->n + 1, sizeof *urls);
    int rc = urls ? 0 : stk_fail_nomem(err, p->n * sizeof *urls);

    for (uint64_t i = 0; rc == 0 && i < p->n; i++) {
        urls[i] = stk_shard_pattern_at(&p->pattern, i);
        if (!urls[i])
            rc = stk_fail_nomem(err, 64);
    }
    if (rc == 0 && p->n)
        rc = stk_index_build(urls, p->n, &o, &p->index, err);
    for (uint64_t i = 0; urls && i < p->n; i++)
        stk_free((void *)(uintptr_t)urls[i]);
    stk_free(urls);
    return rc;
}

static int run(pack *p, stk_error *err)
{
    uint64_t kept = 0;

    STK_TRY(plan(p, err));
    STK_TRY(stk_shard_folder_make(p->pattern.dir, err));
    STK_TRY(stk_stamp_lock(&p->stamp, &p->pattern, waiting, p, err));
    stk_atomic_sweep(p->pattern.dir[0] ? p->pattern.dir : ".", p->pattern.prefix);
    STK_TRY(stk_stamp_load(&p->stamp, p->fingerprint, p->n, err));
    STK_TRY(look(p, err));
    STK_TRY(stk_pack_classes(p->ds, p->pattern.dir, p->o.force == STK_YES, err));
    for (uint64_t i = 0; i < p->n; i++) {
        kept += p->keep[i];
        if (!p->keep[i])
            p->stamp.size[i] = 0;
    }
    if (kept < p->n) {
        int anew = p->o.force == STK_YES || !p->stamp.found;

        STK_TRY(stk_stamp_begin(&p->stamp, p->fingerprint, anew, err));
        STK_TRY(stk_jobs_run(p->o.num_workers, p->n, write_shard, p, err));
    }
    return p->o.no_index == STK_YES ? 0 : write_index(p, err);
}

static int report_fill(const pack *p, stk_pack_report *out, stk_error *err)
{
    stk_pack_report r = { .size = sizeof r,
                          .shards = p->n,
                          .samples = stk_dataset_len(p->ds),
                          .changed_keys = p->adapted,
                          .jpegs = p->index.jpegs,
                          .jpeg_bytes = p->index.jpeg_bytes,
                          .seek_bytes = p->index.seek_bytes,
                          .jpegs_without = p->index.jpegs_without };
    uint32_t given = out->size;

    if (given < sizeof given)
        return stk_fail(err, STK_EINVAL, "the report says size %u: set it to sizeof of the struct",
                        given);
    for (uint64_t i = 0; i < p->n; i++) {
        r.bytes += p->stamp.size[i];
        r.kept_shards += p->keep[i];
    }
    if (p->n > 1)
        snprintf(r.pattern, sizeof r.pattern, "%s%s{%0*d..%0*llu}%s", p->pattern.dir,
                 p->pattern.prefix, p->pattern.width, 0, p->pattern.width,
                 (unsigned long long)p->n - 1, p->pattern.suffix);
    else
        snprintf(r.pattern, sizeof r.pattern, "%s%s%0*d%s", p->pattern.dir, p->pattern.prefix,
                 p->pattern.width, 0, p->pattern.suffix);
    r.size = given < sizeof r ? given : (uint32_t)sizeof r;
    memcpy(out, &r, r.size);
    return 0;
}

int stk_pack(stk_dataset *ds, const char *dst, const stk_pack_options *opt, stk_pack_report *report,
             stk_error *err)
{
    pack p = { .ds = ds, .index = { .size = sizeof p.index } };
    int rc;

    STK_TRY(stk_needs_index(ds, "packing", err));
    stk_options_take(&p.o, sizeof p.o, opt);
    if (p.o.jpeg == STK_YES && p.o.no_index == STK_YES)
        return stk_fail(
            err, STK_EINVAL,
            "seek points of JPEGs lie beside the index: pack with one, or without them");
    if (!p.o.samples && !p.o.bytes)
        p.o.bytes = DEFAULT_BYTES;
    stk_mutex_init(&p.lock);
    rc = stk_shard_pattern_parse(&p.pattern, dst, p.o.name ? p.o.name : "shard", err);
    if (rc == 0)
        rc = run(&p, err);
    if (rc == 0 && report)
        rc = report_fill(&p, report, err);
    stk_stamp_close(&p.stamp);
    stk_shard_pattern_fini(&p.pattern);
    stk_free(p.first);
    stk_free(p.keep);
    stk_mutex_destroy(&p.lock);
    return rc;
}
