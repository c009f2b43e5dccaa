/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - a data set into tar shards: plan, look at the target, write what is not there, index it.
 * pack_model.h says which file does what. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/opts.h"
#include "tools/pack_arrays.h"

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

int stk_pack_publish(stk_pack_run *p, uint64_t i, stk_tar_writer *tar, const stk_text *failed,
                     stk_error *err)
{
    stk_stamp_line line = { .shard = i, .failed = failed };

    STK_TRY(stk_tar_writer_finish(tar, &line.size, err));
    STK_TRY(stk_stamp_add(&p->stamp, &line, err));
    p->stamp.size[i] = line.size;
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
                            .store = p->o.store,
                            .jpeg_progress = p->o.jpeg_progress };
    const char **urls = stk_zalloc(p->n + 1, sizeof *urls);
    int rc = urls ? 0 : stk_fail_nomem(err, p->n * sizeof *urls);

    for (uint64_t i = 0; rc == 0 && i < p->n; i++) {
        urls[i] = stk_shard_pattern_at(&p->pattern, i);
        if (!urls[i])
            rc = stk_fail_nomem(err, 64);
    }
    /* packed ones are indexed where they are unpacked */
    if (rc == 0 && p->n && !p->pattern.squeeze)
        rc = stk_index_build(urls, p->n, &o, &p->index, err);
    for (uint64_t i = 0; urls && i < p->n; i++)
        stk_free((void *)(uintptr_t)urls[i]);
    stk_free(urls);
    return rc;
}

/* Which shards this run writes, and which are there. */
static int look(stk_pack_run *p, const stk_pack_fields *f, uint64_t *missing, stk_error *err)
{
    STK_TRY(p->o.arrays == STK_YES ? stk_pack_arrays_look(p, f, err) : stk_pack_look(p, err));
    for (uint64_t i = 0; i < p->n; i++) {
        if (!stk_pack_mine(p, i))
            p->keep[i] = STK_PACK_OTHERS;
        else if (!p->keep[i])
            p->stamp.size[i] = 0;
        *missing += !p->keep[i];
    }
    return 0;
}

static int write_shards(stk_pack_run *p, stk_pack_fields *f, stk_error *err)
{
    int first = p->o.force == STK_YES || !p->stamp.found;

    STK_TRY(stk_stamp_begin(&p->stamp, p->fingerprint, first, err));
    stk_pack_sweep(p);
    return f->n ? stk_pack_make(p, f, err) : stk_pack_copy(p, err);
}

static int target_open(stk_pack_run *p, stk_error *err)
{
    if (p->o.parts && p->o.merge != STK_YES)
        snprintf(p->stamp.part, sizeof p->stamp.part, "part-%" PRIu64 "-of-%" PRIu64 ".", p->o.part,
                 p->o.parts);
    if (!stk_is_address(p->pattern.dir))
        STK_TRY(stk_shard_folder_make(p->pattern.dir, err));
    STK_TRY(stk_stamp_lock(&p->stamp, &p->pattern, waiting, p, err));
    if (!p->stamp.source)
        stk_atomic_sweep(p->pattern.dir[0] ? p->pattern.dir : ".", p->pattern.prefix);
    STK_TRY(stk_stamp_load(&p->stamp, p->fingerprint, p->n, err));
    return stk_stamp_gather(&p->stamp, &p->pattern, p->fingerprint, err);
}

/* All shards are there: an index of them, or for arrays a look at them. */
static int complete(stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    if (p->o.arrays == STK_YES)
        return stk_pack_arrays_verify(p, f, err);
    return p->o.no_index == STK_YES ? 0 : write_index(p, err);
}

static int settle(stk_pack_run *p, stk_error *err)
{
    if (p->stamp.source && !p->o.parts)
        STK_TRY(stk_remote_notes_settle(&p->stamp, err));
    return stk_stamp_list_failed(&p->stamp, &p->pattern, err);
}

/* Why the first sample of a shard's list could not be made, in quotes. */
static stk_bytes first_reason(const char *list)
{
    const char *end = strstr(list, "}, {\"sample\": ");
    stk_bytes doc = { (const uint8_t *)list, end ? (size_t)(end + 1 - list) : strlen(list) };
    stk_bytes reason = { (const uint8_t *)"?", 1 };

    (void)stk_json_find(doc, "reason", &reason, NULL);
    return reason;
}

/* A part alone may have only bad samples; if all of them have, it is the chain's fault. */
static int check_some_good(const stk_pack_run *p, stk_error *err)
{
    stk_bytes reason = { (const uint8_t *)"?", 1 };
    uint64_t failed = 0;

    for (uint64_t i = p->n; i-- > 0;) {
        failed += stk_stamp_failed(&p->stamp, i);
        if (stk_stamp_failed(&p->stamp, i))
            reason = first_reason(p->stamp.failed[i]);
    }
    if (!failed || failed < p->count || p->o.only_failed == STK_YES)
        return 0;
    return stk_fail(err, STK_EINVAL, "none of the %" PRIu64 " samples could be made: %.*s", failed,
                    (int)(reason.len < 400 ? reason.len : 400), (const char *)reason.data);
}

/* All parts are written, by other processes: look that every shard is there, and make one note and
 * one index of them. */
static int merge(stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    uint64_t missing = 0, first = UINT64_MAX;

    p->o.parts = 0;
    p->o.force = STK_NO;
    STK_TRY(look(p, f, &missing, err));
    for (uint64_t i = p->n; i-- > 0;)
        if (!p->keep[i])
            first = i;
    if (missing)
        return stk_fail(err, STK_ENOTFOUND,
                        "%" PRIu64 " of %" PRIu64
                        " shards are not there yet, the first is number %" PRIu64
                        ": write them (--from-plan PLAN --shard %" PRIu64 "), then merge",
                        missing, p->n, first, first);
    STK_TRY(check_some_good(p, err));
    STK_TRY(stk_stamp_begin(&p->stamp, p->fingerprint, 1, err));
    for (uint64_t i = 0; !p->stamp.source && i < p->n; i++) {
        char *list = p->stamp.failed[i];
        stk_text failed = { .s = list, .len = list ? strlen(list) : 0 };
        stk_stamp_line line = { .shard = i, .size = p->stamp.size[i], .failed = &failed };
        int rc;

        p->stamp.failed[i] = NULL;
        rc = stk_stamp_add(&p->stamp, &line, err);
        stk_free(list);
        STK_TRY(rc);
    }
    STK_TRY(settle(p, err));
    STK_TRY(complete(p, f, err));
    stk_stamp_drop_parts(&p->stamp, &p->pattern);
    return 0;
}

static int run(stk_pack_run *p, stk_pack_fields *f, stk_error *err)
{
    uint64_t missing = 0;

    if (p->o.only_failed == STK_YES)
        STK_TRY(stk_pack_again(p, err));
    STK_TRY(stk_pack_select(p, err));
    STK_TRY(stk_pack_plan_make(p, f, err));
    if (p->o.plan_only == STK_YES)
        return 0;
    if (p->o.expect && p->o.only_failed != STK_YES && p->o.expect != p->fingerprint)
        return stk_fail(err, STK_EINVAL,
                        "the data is not what the plan was made of: write the plan again");
    STK_TRY(stk_pack_source_same(p->ds, err));
    STK_TRY(target_open(p, err));
    if (p->o.merge == STK_YES)
        return merge(p, f, err);
    STK_TRY(look(p, f, &missing, err));
    STK_TRY(stk_pack_classes(p->ds, &p->pattern, p->o.force == STK_YES, err));
    if (missing) {
        STK_TRY(write_shards(p, f, err));
        STK_TRY(stk_pack_made(p, err));
    }
    STK_TRY(settle(p, err));
    return p->o.parts ? 0 : complete(p, f, err);
}

static int report_fill(const stk_pack_run *p, const stk_pack_fields *f, stk_pack_report *out,
                       stk_error *err)
{
    stk_pack_report r = { .size = sizeof r,
                          .shards = p->n,
                          .samples = 0,
                          .left_out = (p->o.select ? p->o.n_select : stk_dataset_len(p->ds)) -
                                      p->count,
                          .fingerprint = p->fingerprint,
                          .dropped = p->dropped,
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
        if (p->o.parts && p->stamp.size && !p->stamp.size[i]) { /* another part will make it */
            r.shards--;
            continue;
        }
        r.samples += p->first[i + 1] - p->first[i];
        if (!p->stamp.size)
            continue;
        /* as the note counts */
        r.bytes += p->stamp.size[i] - (p->o.arrays == STK_YES && p->stamp.size[i]);
        r.kept_shards += p->keep[i] == STK_PACK_DONE;
        r.failed += stk_stamp_failed(&p->stamp, i);
    }
    r.samples -= r.failed;
    if (p->o.arrays == STK_YES)
        stk_pack_arrays_pattern(p, f, r.pattern, sizeof r.pattern);
    else if (p->n > 1)
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

/* Arrays have no samples that are read each by itself. */
static int can_pack(const stk_dataset *ds, stk_error *err)
{
    return ds->can & STK_DATA_IMMEDIATE ? stk_needs_index(ds, "packing", err) : 0;
}

int stk_pack(stk_dataset *ds, const char *dst, const stk_pack_options *opt, stk_pack_report *report,
             stk_error *err)
{
    stk_pack_run p = { .ds = ds, .index = { .size = sizeof p.index } };
    stk_pack_fields fields = { 0 };
    int rc;

    STK_TRY(can_pack(ds, err));
    stk_options_take(&p.o, sizeof p.o, opt);
    if (p.o.jpeg == STK_YES && p.o.no_index == STK_YES)
        return stk_fail(
            err, STK_EINVAL,
            "seek points of JPEGs are kept beside the index: pack with one, or without them");
    if (p.o.parts > UINT32_MAX)
        return stk_fail(err, STK_EINVAL, "%" PRIu64 " parts are more than 2^32: take fewer",
                        p.o.parts);
    if (p.o.parts && p.o.part >= p.o.parts)
        return stk_fail(err, STK_EINVAL,
                        "part %" PRIu64 " of %" PRIu64 ": parts are numbered from 0", p.o.part,
                        p.o.parts);
    if (!p.o.samples && !p.o.bytes)
        p.o.bytes = DEFAULT_BYTES;
    stk_mutex_init(&p.lock);
    p.pattern.store = p.o.store;
    rc = stk_shard_pattern_parse(&p.pattern, dst, p.o.name ? p.o.name : "shard", err);
    if (rc == 0)
        rc = stk_shard_pattern_squeeze(&p.pattern, p.o.compress, err);
    if (rc == 0 && p.pattern.squeeze && p.o.jpeg == STK_YES)
        rc = stk_fail(err, STK_EINVAL,
                      "seek points are for shards that are read in place: pack without "
                      "compression, or without them");
    if (rc == 0)
        rc = stk_pack_fields_plan(&fields, &p.o, err);
    if (rc == 0 && p.o.arrays == STK_YES)
        rc = stk_pack_arrays_check(&p, &fields, err);
    if (rc == 0)
        rc = stk_pack_names(&p, err);
    if (rc == 0)
        stk_pack_look_files(&p);
    if (rc == 0)
        rc = run(&p, &fields, err);
    if (rc == 0 && report)
        rc = report_fill(&p, &fields, report, err);
    stk_stamp_close(&p.stamp);
    stk_shard_pattern_fini(&p.pattern);
    stk_pack_fields_fini(&fields);
    stk_pack_names_fini(&p);
    stk_free(p.id);
    stk_free(p.again);
    stk_free(p.first);
    stk_free(p.keep);
    stk_mutex_destroy(&p.lock);
    return rc;
}

int stk_pack_ids(stk_dataset *ds, const char *dst, const stk_pack_options *opt, uint64_t **ids,
                 stk_pack_report *report, stk_error *err)
{
    stk_pack_run p = { .ds = ds };
    stk_pack_fields fields = { 0 };
    int rc;

    *ids = NULL;
    STK_TRY(can_pack(ds, err));
    stk_options_take(&p.o, sizeof p.o, opt);
    p.pattern.store = p.o.store;
    rc = stk_shard_pattern_parse(&p.pattern, dst, p.o.name ? p.o.name : "shard", err);
    if (rc == 0 && p.o.only_failed == STK_YES)
        rc = stk_pack_again(&p, err);
    if (rc == 0)
        rc = stk_pack_select(&p, err);
    *ids = rc == 0 ? stk_alloc((p.count + 1) * sizeof **ids) : NULL;
    if (rc == 0 && !*ids)
        rc = stk_fail_nomem(err, p.count * sizeof **ids);
    stk_perm_init(&p.perm, p.count, p.o.seed, 0);
    for (uint64_t i = 0; rc == 0 && i < p.count; i++)
        (*ids)[i] = stk_pack_at(&p, i);
    if (rc == 0)
        rc = stk_pack_source_same(ds, err);
    if (rc == 0)
        rc = stk_pack_source_print(&p, &p.fingerprint, err);
    if (rc == 0)
        rc = report_fill(&p, &fields, report, err);
    report->samples = p.count;
    stk_shard_pattern_fini(&p.pattern);
    stk_free(p.again);
    stk_free(p.id);
    return rc;
}
