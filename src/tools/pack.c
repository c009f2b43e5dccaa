/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - a data set into tar shards: plan, look at the target, write what is not there, index it.
 * pack_model.h says which file does what. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/opts.h"
#include "tools/pack_model.h"

#define DEFAULT_BYTES 500000000u
#define TELL_EVERY_NS 50000000u

/* ---- progress ---- */

int stk_pack_tell(stk_pack_run *p, uint64_t more)
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
    return stk_pack_tell(cookie, 0);
}

int stk_pack_publish(stk_pack_run *p, uint64_t i, stk_tar_writer *tar, stk_error *err)
{
    uint64_t size = 0;

    STK_TRY(stk_tar_writer_finish(tar, &size, err));
    STK_TRY(stk_stamp_add(&p->stamp, i, size, err));
    p->stamp.size[i] = size;
    return stk_tar_writer_publish(tar, err);
}

/* ---- the whole ---- */

static int write_index(stk_pack_run *p, stk_error *err)
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

static int run(stk_pack_run *p, stk_error *err)
{
    uint64_t kept = 0;

    STK_TRY(stk_pack_plan(p, err));
    STK_TRY(stk_shard_folder_make(p->pattern.dir, err));
    STK_TRY(stk_stamp_lock(&p->stamp, &p->pattern, waiting, p, err));
    stk_atomic_sweep(p->pattern.dir[0] ? p->pattern.dir : ".", p->pattern.prefix);
    STK_TRY(stk_stamp_load(&p->stamp, p->fingerprint, p->n, err));
    STK_TRY(stk_pack_look(p, err));
    STK_TRY(stk_pack_classes(p->ds, p->pattern.dir, p->o.force == STK_YES, err));
    for (uint64_t i = 0; i < p->n; i++) {
        kept += p->keep[i];
        if (!p->keep[i])
            p->stamp.size[i] = 0;
    }
    if (kept < p->n) {
        int anew = p->o.force == STK_YES || !p->stamp.found;

        STK_TRY(stk_stamp_begin(&p->stamp, p->fingerprint, anew, err));
        STK_TRY(stk_pack_copy(p, err));
    }
    return p->o.no_index == STK_YES ? 0 : write_index(p, err);
}

static int report_fill(const stk_pack_run *p, stk_pack_report *out, stk_error *err)
{
    stk_pack_report r = { .size = sizeof r,
                          .shards = p->n,
                          .samples = p->count,
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
    stk_pack_run p = { .ds = ds, .index = { .size = sizeof p.index } };
    int rc;

    STK_TRY(stk_needs_index(ds, "packing", err));
    p.count = stk_dataset_len(ds);
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
