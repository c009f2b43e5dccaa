/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - read and decode everything, in parallel; report what is bad and go on.
 *
 * Jobs are runs of neighbouring samples.  Without chains, check_field.c finds out what a field is
 * and decodes it; with chains, a loader in the job's own thread runs them, so that what passes
 * here passes there.  Seek points are held against the fields they were made of; those that do not
 * fit make no sample bad.  Shards are walked and compared with the index (check_walk.c).  Where the
 * data set can't be opened because of a shard, every shard is tried alone and the good ones are
 * checked.  What fails because of the machine is tried again and then ends the run: a sample that
 * could not be read for want of a descriptor is not a bad one. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/opts.h"
#include "base/registry.h"
#include "tools/check_model.h"
#include "codec/decoders.h"
#include "index/seekfile.h"
#include "base/jobs.h"
#include "source/folder_files.h"

#define RUN 128u /* samples a job */
#define TELL_EVERY_NS 50000000u
#define TRIES 3u

/* ---- reporting ---- */

int check_tell(check *c, uint64_t more)
{
    uint64_t done = atomic_fetch_add_explicit(&c->done, more, memory_order_relaxed) + more;
    uint64_t now = stk_now_ns();

    if (c->o.progress && stk_mutex_try(&c->lock)) {
        if (now - c->told_ns >= TELL_EVERY_NS) {
            c->told_ns = now;
            if (c->o.progress(c->o.progress_cookie, done, c->count))
                atomic_store_explicit(&c->stopped, 1, memory_order_relaxed);
        }
        stk_mutex_unlock(&c->lock);
    }
    return atomic_load_explicit(&c->stopped, memory_order_relaxed);
}

void check_say(check *c, const stk_bad *b)
{
    if (!c->o.bad)
        return;
    stk_mutex_lock(&c->lock);
    c->o.bad(c->o.bad_cookie, b);
    stk_mutex_unlock(&c->lock);
}

int check_again(int rc, uint32_t *tries)
{
    struct timespec pause = { 0, 2000000L << 2 * *tries }; /* 2, 8 ms */

    if (!check_is_machine(rc) || ++*tries == TRIES)
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

static int say_sample(check *c, const stk_entry *e, stk_bad *b, stk_error *err)
{
    stk_shard_info s;
    char row[STK_ROW_KEY];
    stk_bytes key = stk_entry_key(c->ds, e, row);

    STK_TRY(c->ds->ops->shard(c->ds, e->shard, &s, err));
    b->shard = s.name;
    /* a row's fields are anywhere */
    b->offset = c->ds->can & STK_DATA_KEYS ? e->offset : STK_NO_OFFSET;
    b->key = (const char *)key.data;
    b->key_len = key.len;
    check_say(c, b);
    return 0;
}

/* A failure that is the sample's is reported and is none; others are passed on. */
static int judge(check *c, uint64_t id, int rc, stk_error *err)
{
    stk_bad b = { .code = rc, .kind = rc == STK_ENOTSUP ? STK_BAD_UNSUPPORTED : STK_BAD_DATA };
    char reason[sizeof err->message];
    stk_entry e;

    if (rc >= 0)
        return 0;
    if (rc != STK_ECORRUPT && rc != STK_ELIMIT && rc != STK_ENOTFOUND && rc != STK_ENOTSUP)
        return rc;
    memcpy(reason, err->message, sizeof reason);
    b.reason = reason;
    STK_TRY(c->ds->ops->entry(c->ds, id, &e, err));
    atomic_fetch_add_explicit(rc == STK_ENOTSUP ? &c->unsupported : &c->bad_samples, 1,
                              memory_order_relaxed);
    return say_sample(c, &e, &b, err);
}

/* ---- seek points ---- */

typedef struct points { /* what a job holds for them */
    check *c;
    stk_decoders decoders;
    stk_seek_room room;
    stk_scratch scratch;
} points;

static int points_open(points *p, check *c, stk_error *err)
{
    *p = (points){ .c = c };
    return stk_decoders_init(&p->decoders, NULL, err);
}

static void points_close(points *p)
{
    stk_decoders_fini(&p->decoders);
    stk_seek_room_fini(&p->room);
    stk_scratch_fini(&p->scratch);
}

/* What the index keeps of a field: points, or the bytes of a short one. */
static int points_fit(points *p, const stk_entry *e, uint32_t field, stk_bytes in)
{
    stk_seek_field at = { e->shard, e->row, field };
    stk_bytes stored = p->c->ds->ops->hint(p->c->ds, &at, &p->room);

    if (stored.len && stored.data[0] == STK_SEEK_SHORT)
        return stored.len == in.len + 1 && !memcmp(stored.data + 1, in.data, in.len);
    return stk_points_fit(&p->decoders, stored, in, &p->scratch);
}

static int check_points(points *p, uint64_t id, const stk_sample *s, stk_error *err)
{
    check *c = p->c;
    stk_bad b = { .code = STK_ESTALE, .kind = STK_BAD_POINTS };
    char shown[200], reason[240];
    stk_entry e;

    if (!(c->ds->can & STK_DATA_HINTS))
        return 0;
    STK_TRY(c->ds->ops->entry(c->ds, id, &e, err));
    for (uint32_t k = 0; k < stk_sample_fields(s); k++) {
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, k, &data, &len);

        if (points_fit(p, &e, k, (stk_bytes){ data, len }))
            continue;
        stk_text_show(name, strnlen(name, 40), shown, sizeof shown);
        snprintf(reason, sizeof reason,
                 "%.100s: its seek points do not fit, it changed since; make them again: stoker "
                 "index --points --force ...",
                 shown);
        b.reason = reason;
        atomic_fetch_add_explicit(&c->misfits, 1, memory_order_relaxed);
        STK_TRY(say_sample(c, &e, &b, err));
    }
    return 0;
}

/* The same where the sample is not available; one that can't be read is told of elsewhere. */
static int read_points(points *p, uint64_t id, stk_error *err)
{
    const check *c = p->c;
    stk_sample *s = NULL;
    int rc = 0;

    if (c->ds->can & STK_DATA_HINTS && stk_dataset_read(c->ds, id, &s, NULL) == 0)
        rc = check_points(p, id, s, err);
    stk_sample_close(&s);
    return rc;
}

/* ---- runs of samples ---- */

static uint64_t sample_at(const check *c, uint64_t i)
{
    return c->id ? c->id[i] : i;
}

/* A column of numbers has nothing to decode. */
static int is_number(const reader *r, uint32_t field)
{
    stk_field_type t;

    return !stk_shard_data_of(r->c->ds) && stk_dataset_field_type(r->c->ds, field, &t) && t.dtype;
}

static int only_read(reader *r, size_t len)
{
    r->tally.bytes += len;
    r->tally.fields++;
    r->tally.only_read++;
    return 0;
}

/* All fields.  Damage outranks what is not supported: that it is found does not depend on the
 * order of fields. */
static int check_fields(reader *r, const stk_sample *s, stk_error *err)
{
    stk_error first = { 0 };
    int rc = 0;

    for (uint32_t k = 0; k < stk_sample_fields(s); k++) {
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, k, &data, &len);
        int one = is_number(r, k) || !data ? only_read(r, len)
                                           : check_field(r, name, (stk_bytes){ data, len }, err);

        if (one < 0 && one != STK_ENOTSUP)
            return one;
        if (one < 0 && !rc) {
            rc = one;
            first = *err;
        }
    }
    if (rc)
        *err = first;
    return rc;
}

static int check_sample(reader *r, points *p, uint64_t id, stk_error *err)
{
    tally before = r->tally;
    uint32_t tries = 0;
    int rc;

    do {
        stk_sample *s = NULL;

        r->tally = before;
        rc = stk_dataset_read(r->c->ds, id, &s, err);
        if (rc == 0)
            rc = check_fields(r, s, err);
        if (s && !check_is_machine(rc)) {
            stk_error ours = *err;
            int fit = check_points(p, id, s, err);

            rc = fit < 0 ? fit : rc;
            *err = fit < 0 ? *err : ours;
        }
        stk_sample_close(&s);
    } while (check_again(rc, &tries));
    return rc;
}

static int check_run(reader *r, points *p, uint64_t first, uint64_t end, stk_error *err)
{
    for (uint64_t at = first; at < end; at++) {
        uint64_t id = sample_at(r->c, at);

        STK_TRY(judge(r->c, id, check_sample(r, p, id, err), err));
        if (check_tell(r->c, 1))
            return stk_fail(err, STK_ECLOSED, "stopped");
    }
    return 0;
}

static void add_up(check *c, const tally *t)
{
    atomic_fetch_add_explicit(&c->bytes, t->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->fields, t->fields, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->only_read, t->only_read, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->unchecked, t->unchecked, memory_order_relaxed);
    for (size_t k = 0; k < CHECK_KINDS; k++)
        atomic_fetch_add_explicit(&c->decoded[k], t->decoded[k], memory_order_relaxed);
}

static int run_by_content(void *cookie, uint64_t job, stk_error *err)
{
    check *c = cookie;
    reader r = { .c = c };
    uint64_t n = c->count, first = job * RUN;
    points p;
    int rc = points_open(&p, c, err);

    if (rc == 0)
        rc = check_run(&r, &p, first, first + RUN < n ? first + RUN : n, err);
    add_up(c, &r.tally);
    points_close(&p);
    check_reader_fini(&r);
    return rc;
}

/* The sample's batch, of which nothing is kept. */
static int next_of(stk_loader *l, stk_error *err)
{
    stk_batch *b = NULL;
    uint32_t tries = 0;
    int rc;

    do { /* a failure moves nothing: the same batch again */
        rc = stk_loader_next(l, &b, -1, err);
        stk_batch_release(&b);
    } while (check_again(rc, &tries));
    return rc;
}

/* The chains as a loader runs them, one sample a batch, in this thread. */
static int run_by_chains(void *cookie, uint64_t job, stk_error *err)
{
    check *c = cookie;
    stk_loader_options o = { .size = sizeof o,
                             .outputs = c->o.outputs,
                             .n_outputs = c->o.n_outputs,
                             .num_workers = STK_NONE,
                             .prefetch = 1,
                             .select = c->id,
                             .n_select = c->id ? c->count : 0,
                             .max_pixels = c->o.max_pixels };
    uint64_t n = c->count, at = job * RUN, end = at + RUN < n ? at + RUN : n;
    stk_stats stats = { .size = sizeof stats };
    stk_loader *l = NULL;
    points p;
    int rc = points_open(&p, c, err), step;

    if (rc == 0)
        rc = stk_loader_open(&l, &c->ds, 1, &o, err);
    if (rc == 0)
        rc = stk_loader_seek(l, 0, at, err);
    for (; rc == 0 && at < end; at++) {
        uint64_t id = sample_at(c, at);

        step = next_of(l, err);
        rc = judge(c, id, step, err);
        if (rc == 0)
            rc = read_points(&p, id, err);
        if (rc == 0 && step < 0 && at + 1 < end)
            rc = stk_loader_seek(l, 0, at + 1, err);
        if (rc == 0 && check_tell(c, 1))
            rc = stk_fail(err, STK_ECLOSED, "stopped");
    }
    if (l) {
        stk_loader_stats(l, &stats);
        atomic_fetch_add_explicit(&c->bytes, stats.bytes, memory_order_relaxed);
    }
    stk_loader_close(&l);
    points_close(&p);
    return rc;
}

/* ---- shards that can't be indexed ---- */

/* Is it the shard's own fault that it can't be indexed? */
static int is_shards(int rc)
{
    return rc == STK_ECORRUPT || rc == STK_ENOTFOUND || rc == STK_ESTALE || rc == STK_ENOTSUP;
}

static int index_alone(check *c, const char *name, stk_error *err)
{
    stk_indexer x = { .format_name = c->o.format, .workers = 1, .home = c->home };
    int rc;

    x.names.store = c->o.store;
    rc = stk_names_add(&x.names, name, strlen(name), err);

    if (rc == 0)
        rc = stk_indexer_build(&x, NULL, err);
    stk_indexer_fini(&x);
    return rc;
}

static int try_shard(void *cookie, uint64_t i, stk_error *err)
{
    check *c = cookie;
    const char *name = c->all.name[i];
    stk_bad b = { .shard = stk_index_home_name(&c->home, name), .offset = STK_NO_OFFSET };
    uint32_t tries = 0;
    int rc;

    do
        rc = index_alone(c, name, err);
    while (check_again(rc, &tries));
    if (!is_shards(rc))
        return rc;
    b.code = rc;
    b.kind = rc == STK_ENOTSUP ? STK_BAD_UNSUPPORTED : STK_BAD_DATA;
    b.offset = err->offset;
    b.reason = err->message;
    c->bad_shard[i] = 1;
    atomic_fetch_add_explicit(rc == STK_ENOTSUP ? &c->unsupported : &c->bad_shards, 1,
                              memory_order_relaxed);
    check_say(c, &b);
    return 0;
}

static int names_all(check *c, const char *const *urls, size_t n, stk_error *err)
{
    int rc;

    c->all.store = c->o.store;
    rc = stk_names_expand(&c->all, urls, n, err);
    if (rc == 0)
        rc = stk_index_home_find(&c->home, &c->all, c->o.cache_dir, err);
    if (rc == 0)
        c->bad_shard = stk_zalloc(c->all.n + 1, 1);
    return rc < 0 || c->bad_shard ? rc : stk_fail_nomem(err, c->all.n);
}

static int is_table(const check *c, const char *const *urls, size_t n)
{
    const stk_data_kind *kind = stk_kind_meant(urls, n,
                                               &(stk_dataset_options){ .format = c->o.format });

    return kind && kind->rows;
}

static int open_data(check *c, const char *const *urls, size_t n, stk_error *err)
{
    stk_indexer x = { .cache_dir = c->o.cache_dir,
                      .format_name = c->o.format,
                      .workers = c->o.num_workers,
                      .keep_numbers = 1, /* to look at data is not to accept what is new in it */
                      .log = { c->o.log, c->o.log_cookie } };
    stk_dataset_options o = { .size = sizeof o,
                              .store = c->o.store,
                              .num_workers = c->o.num_workers,
                              .cache_dir = c->o.cache_dir,
                              .format = c->o.format,
                              .log = c->o.log,
                              .log_cookie = c->o.log_cookie };
    int rc;

    x.names.store = c->o.store;
    rc = is_table(c, urls, n) ? 0 : stk_indexer_repair(&x, urls, n, err);

    stk_indexer_fini(&x);
    if (rc == STK_EIO) /* nowhere to write it: opening can do without */
        rc = 0;
    return rc < 0 ? rc : stk_dataset_open(&c->ds, urls, n, &o, err);
}

/* A name that was expanded is not expanded again.  Names of other sources hold no pattern. */
static int path_url(const char *name, char **out, stk_error *err)
{
    size_t len = strlen(STK_PATH_SCHEME) + strlen(name) + 1;

    *out = stk_alloc(len);
    if (!*out)
        return stk_fail_nomem(err, len);
    snprintf(*out, len, "%s%s", name[0] == '/' ? STK_PATH_SCHEME : "", name);
    return 0;
}

/* Everything that can be opened.  ds stays NULL where no shard can. */
static int open_good(check *c, const char *const *urls, size_t n, stk_error *err)
{
    char **good;
    size_t k = 0;
    int rc = open_data(c, urls, n, err), made = 0;
    stk_error first = *err;

    if (rc == 0 || !is_shards(rc) || is_table(c, urls, n))
        return rc;
    if (rc == STK_ESTALE &&
        stk_is_folder(first.shard)) /* labels would be renumbered: all of them */
        return rc;
    if (names_all(c, urls, n, err) < 0) {
        *err = first;
        return rc;
    }
    STK_TRY(stk_jobs_run(c->o.num_workers, c->all.n, try_shard, c, err));
    if (!c->bad_shards && !c->unsupported) { /* then it was something else */
        *err = first;
        return rc;
    }
    good = stk_zalloc(c->all.n + 1, sizeof *good);
    if (!good)
        return stk_fail_nomem(err, c->all.n * sizeof *good);
    for (size_t i = 0; made == 0 && i < c->all.n; i++)
        if (!c->bad_shard[i])
            made = path_url(c->all.name[i], &good[k++], err);
    if (made == 0 && !k &&
        !c->bad_shards) /* nothing here is for us: arrays, or compressed shards */
        *err = first;
    else
        rc = made == 0 && k ? open_data(c, (const char *const *)good, k, err) : made;
    for (size_t i = 0; i < k; i++)
        stk_free(good[i]);
    stk_free(good);
    return rc;
}

/* The hashes that were written down for a shard. */
static int verify_shard(void *cookie, uint64_t shard, stk_error *err)
{
    check *c = cookie;
    stk_bad b = { .shard = stk_dataset_shard_name(c->ds, shard), .offset = STK_NO_OFFSET };
    uint32_t tries = 0;
    int rc;

    do
        rc = c->ds->ops->trust.verify(c->ds, shard, err);
    while (check_again(rc, &tries));
    if (!is_shards(rc))
        return rc;
    b.code = rc;
    b.kind = rc == STK_ENOTSUP ? STK_BAD_UNSUPPORTED : STK_BAD_DATA;
    b.reason = err->message;
    atomic_fetch_add_explicit(rc == STK_ENOTSUP ? &c->unsupported : &c->bad_shards, 1,
                              memory_order_relaxed);
    check_say(c, &b);
    return 0;
}

/* ---- the whole ---- */

static int check_all(check *c, const char *const *urls, size_t n, stk_error *err)
{
    uint64_t jobs;

    STK_TRY(check_codecs_plan(c, err));
    STK_TRY(open_good(c, urls, n, err));
    if (!c->ds)
        return 0;
    if (stk_shard_data_of(c->ds))
        STK_TRY(stk_jobs_run(c->o.num_workers, stk_dataset_shards(c->ds), check_walk, c, err));
    if (c->ds->ops->trust.verify)
        STK_TRY(stk_jobs_run(c->o.num_workers, stk_dataset_shards(c->ds), verify_shard, c, err));
    c->count = stk_dataset_len(c->ds);
    if (c->o.where)
        STK_TRY(stk_dataset_where(c->ds, c->o.where, &c->id, &c->count, err));
    jobs = (c->count + RUN - 1) / RUN;
    return stk_jobs_run(c->o.num_workers, jobs, c->o.n_outputs ? run_by_chains : run_by_content, c,
                        err);
}

/* The shards that are not in the data set. */
static uint64_t left_out(const check *c)
{
    uint64_t n = 0;

    for (size_t i = 0; c->bad_shard && i < c->all.n; i++)
        n += c->bad_shard[i];
    return n;
}

static void report_kinds(const check *c, stk_check_report *r)
{
    for (size_t k = 0; k < CHECK_KINDS; k++) {
        const char *name = check_kind_name(k);

        if (name && k < CHECK_FIRST_CODEC)
            r->pictures += c->decoded[k];
        if (name && c->decoded[k] && r->n_kinds < STK_CHECK_KINDS)
            r->kind[r->n_kinds++] = (stk_check_kind){ name, c->decoded[k] };
    }
    r->fields = c->fields;
    r->only_read = c->only_read;
}

static int report_fill(const check *c, stk_check_report *out, stk_error *err)
{
    stk_check_report r = { .size = sizeof r,
                           .shards = (c->ds ? stk_dataset_shards(c->ds) : 0) + left_out(c),
                           .samples = c->count,
                           .bytes = c->bytes,
                           .bad_shards = c->bad_shards,
                           .bad_samples = c->bad_samples,
                           .unchecked = c->unchecked,
                           .misfits = c->misfits,
                           .unsupported = c->unsupported,
                           .index_faults = c->index_faults,
                           .warnings = c->warnings };
    uint32_t given = out->size;

    if (given < sizeof given)
        return stk_fail(err, STK_EINVAL, "the report says size %u: set it to sizeof of the struct",
                        given);
    report_kinds(c, &r);
    r.size = given < sizeof r ? given : (uint32_t)sizeof r;
    memcpy(out, &r, r.size);
    return 0;
}

int stk_check(const char *const *urls, size_t n, const stk_check_options *opt,
              stk_check_report *report, stk_error *err)
{
    stk_error here = { 0 };
    check c = { .ds = NULL };
    int rc;

    stk_options_take(&c.o, sizeof c.o, opt);
    stk_mutex_init(&c.lock);
    rc = check_all(&c, urls, n, &here);
    if (rc == 0 && report)
        rc = report_fill(&c, report, &here);
    for (size_t k = 0; k < sizeof c.chain / sizeof *c.chain; k++)
        stk_chain_fini(&c.chain[k]);
    stk_dataset_unref(&c.ds);
    stk_names_fini(&c.all);
    stk_dataset_where_free(&c.id);
    stk_free(c.bad_shard);
    stk_mutex_destroy(&c.lock);
    if (rc < 0 && err)
        *err = here;
    return rc;
}
