/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - read and decode everything, in parallel; report what is bad and go on.
 *
 * Jobs are runs of neighbouring samples.  Without chains, a field's name says what it should be
 * (a picture, JSON, text, a label), its content which decoder it needs; with chains, a loader in
 * the job's own thread runs them, so that what passes here passes there.  Seek points of JPEGs are
 * held against the pictures; those that do not fit make no sample bad.  Where the data set can't be
 * opened because of a shard, every shard is tried alone and the good ones are checked. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/opts.h"
#include "base/registry.h"
#include "codec/jpeg_seek.h"
#include "fetch/data.h"
#include "indexer.h"
#include "pipe/engine.h"
#include "pipe/jobs.h"

#define RUN 128u /* samples a job */
#define DEFAULT_PIXELS 178956970u
#define TELL_EVERY_NS 50000000u

static const struct {
    const char *ending, *chain; /* chain NULL: a picture */
} known[] = {
    { "jpg", NULL },   { "jpeg", NULL },   { "png", NULL },    { "webp", NULL },
    { "image", NULL }, { "json", "json" }, { "txt", "text" },  { "text", "text" },
    { "cls", "int" },  { "cls2", "int" },  { "index", "int" }, { "inx", "int" },
};
#define KNOWN (sizeof known / sizeof *known)

typedef struct check {
    stk_check_options o;
    stk_dataset *ds;
    stk_chain chain[KNOWN]; /* planned where known[] has one */
    stk_names all;          /* of the shards, absolute; only where some are bad */
    stk_index_home home;
    uint8_t *bad_shard;
    _Atomic uint64_t done, bytes, bad_samples, bad_shards, pictures, unchecked, misfits;
    _Atomic int stopped;
    stk_mutex lock;
    uint64_t told_ns; /* lock */
} check;

typedef struct reader { /* a job's own */
    check *c;
    void *decoder[STK_MAX_DECODERS];
    stk_scratch scratch;
} reader;

/* ---- reporting ---- */

static int tell(check *c, uint64_t more)
{
    uint64_t done = atomic_fetch_add_explicit(&c->done, more, memory_order_relaxed) + more;
    uint64_t now = stk_now_ns();

    if (c->o.progress && stk_mutex_try(&c->lock)) {
        if (now - c->told_ns >= TELL_EVERY_NS) {
            c->told_ns = now;
            if (c->o.progress(c->o.progress_cookie, done, stk_dataset_len(c->ds)))
                atomic_store_explicit(&c->stopped, 1, memory_order_relaxed);
        }
        stk_mutex_unlock(&c->lock);
    }
    return atomic_load_explicit(&c->stopped, memory_order_relaxed);
}

static void say(check *c, const stk_bad *b)
{
    if (!c->o.bad)
        return;
    stk_mutex_lock(&c->lock);
    c->o.bad(c->o.bad_cookie, b);
    stk_mutex_unlock(&c->lock);
}

static int say_sample(check *c, const stk_entry *e, stk_bad *b, stk_error *err)
{
    stk_shard_info s;

    STK_TRY(stk_index_shard(c->ds->index, e->shard, &s, err));
    b->shard = s.name;
    b->offset = e->offset;
    b->key = (const char *)e->key.data;
    b->key_len = e->key.len;
    say(c, b);
    return 0;
}

/* A failure that is the sample's is reported and is none; others are passed on. */
static int judge(check *c, uint64_t id, int rc, stk_error *err)
{
    stk_bad b = { .code = rc };
    char reason[sizeof err->message];
    stk_entry e;

    if (rc >= 0)
        return 0;
    if (rc != STK_ECORRUPT && rc != STK_ELIMIT && rc != STK_ENOTFOUND && rc != STK_EIO)
        return rc;
    memcpy(reason, err->message, sizeof reason);
    b.reason = reason;
    STK_TRY(stk_index_entry(c->ds->index, id, &e, err));
    atomic_fetch_add_explicit(&c->bad_samples, 1, memory_order_relaxed);
    return say_sample(c, &e, &b, err);
}

/* ---- seek points ---- */

static int points_fit(const check *c, const stk_entry *e, uint32_t field, stk_bytes in)
{
    stk_bytes points = stk_seekfile_get(c->ds->seek, e->shard, e->row, field);
    stk_jpeg_seek seek;
    stk_jpeg_head head;

    return !points.data || (stk_jpeg_seek_open(&seek, &head, points, NULL) == 0 &&
                            stk_jpeg_seek_check(&seek, &head, in, NULL) == 0);
}

static int check_points(check *c, uint64_t id, const stk_sample *s, stk_error *err)
{
    stk_bad b = { .code = STK_ESTALE };
    char reason[160];
    stk_entry e;

    if (!c->ds->seek)
        return 0;
    STK_TRY(stk_index_entry(c->ds->index, id, &e, err));
    for (uint32_t k = 0; k < stk_sample_fields(s); k++) {
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, k, &data, &len);

        if (points_fit(c, &e, k, (stk_bytes){ data, len }))
            continue;
        snprintf(reason, sizeof reason,
                 "%.40s: its seek points do not fit, it changed since; make them anew: stoker "
                 "index --jpeg --force ...",
                 name);
        b.reason = reason;
        atomic_fetch_add_explicit(&c->misfits, 1, memory_order_relaxed);
        STK_TRY(say_sample(c, &e, &b, err));
    }
    return 0;
}

/* The same where the sample is not at hand; one that can't be read is told of elsewhere. */
static int read_points(check *c, uint64_t id, stk_error *err)
{
    stk_sample *s = NULL;
    int rc = 0;

    if (c->ds->seek && stk_dataset_read(c->ds, id, &s, NULL) == 0)
        rc = check_points(c, id, s, err);
    stk_sample_close(&s);
    return rc;
}

/* ---- one field ---- */

static size_t kind_of(const char *name)
{
    const char *dot = strrchr(name, '.'), *ending = dot ? dot + 1 : name;
    size_t k = 0;

    while (k < KNOWN && strcmp(known[k].ending, ending))
        k++;
    return k;
}

/* Bytes that begin as a picture of a usual kind: no decoder for it is the build's fault. */
static int looks_like_picture(stk_bytes in)
{
    static const uint8_t png[] = { 0x89, 'P', 'N', 'G' };

    return in.len >= 12 && (!memcmp(in.data, png, 4) || !memcmp(in.data, "\xff\xd8\xff", 3) ||
                            (!memcmp(in.data, "RIFF", 4) && !memcmp(in.data + 8, "WEBP", 4)) ||
                            !memcmp(in.data, "GIF8", 4) || !memcmp(in.data, "BM", 2));
}

static int decode_with(reader *r, size_t i, const stk_decoder *d, stk_bytes in, stk_error *err)
{
    uint64_t limit = r->c->o.max_pixels ? r->c->o.max_pixels : DEFAULT_PIXELS;
    stk_pixels pixels = { 0 };
    stk_image_info info;
    stk_rect all = { 0 };

    if (!r->decoder[i])
        STK_TRY(d->open(&r->decoder[i], err));
    STK_TRY(d->header(r->decoder[i], in, (stk_bytes){ 0 }, &info, err));
    if (!info.width || !info.height)
        return stk_fail(err, STK_ECORRUPT, "the picture is %ux%u", info.width, info.height);
    if ((uint64_t)info.width * info.height > limit)
        return stk_fail(err, STK_ELIMIT,
                        "the picture is %ux%u, over the limit of %" PRIu64 " pixels", info.width,
                        info.height, limit);
    all.w = info.width;
    all.h = info.height;
    atomic_fetch_add_explicit(&r->c->pictures, 1, memory_order_relaxed);
    return d->decode(r->decoder[i], &(stk_ask){ .need = all }, &r->scratch, &pixels, err);
}

static int check_picture(reader *r, stk_bytes in, stk_error *err)
{
    const stk_decoder *d;

    for (size_t i = 0; i < STK_MAX_DECODERS && (d = stk_registry_get(STK_PLUGIN_DECODER, i)); i++)
        if (d->probe(in))
            return decode_with(r, i, d, in, err);
    if (looks_like_picture(in)) {
        atomic_fetch_add_explicit(&r->c->unchecked, 1, memory_order_relaxed);
        return 0;
    }
    return stk_fail(err, STK_ECORRUPT,
                    in.len ? "these %zu bytes are no picture" : "the picture is empty (%zu bytes)",
                    in.len);
}

static int check_value(reader *r, const stk_chain *chain, stk_bytes in, stk_error *err)
{
    void *dst;

    for (uint32_t i = 0; i < chain->n_steps; i++)
        if (chain->step[i].codec->narrow)
            STK_TRY(chain->step[i].codec->narrow(chain->step[i].state, in, &r->scratch, &in, err));
    if (!chain->parse)
        return 0;
    dst = stk_scratch_get(&r->scratch, chain->row_bytes);
    if (!dst)
        return stk_fail_nomem(err, chain->row_bytes);
    return chain->parse->codec->parse(chain->parse->state, in, dst, err);
}

static int check_field(reader *r, const char *name, stk_bytes in, stk_error *err)
{
    size_t k = kind_of(name);
    char why[sizeof err->message];
    int rc;

    if (k == KNOWN)
        return 0; /* it was read */
    stk_scratch_reset(&r->scratch);
    rc = known[k].chain ? check_value(r, &r->c->chain[k], in, err) : check_picture(r, in, err);
    if (rc < 0) {
        memcpy(why, err->message, sizeof why);
        snprintf(err->message, sizeof err->message, "%.40s: %.190s", name, why);
    }
    return rc;
}

static int check_sample(reader *r, uint64_t id, stk_error *err)
{
    stk_sample *s = NULL;
    uint64_t bytes = 0;
    int rc = stk_dataset_read(r->c->ds, id, &s, err);

    if (rc == 0)
        rc = check_points(r->c, id, s, err);
    for (uint32_t k = 0; rc == 0 && k < stk_sample_fields(s); k++) {
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, k, &data, &len);

        bytes += len;
        rc = check_field(r, name, (stk_bytes){ data, len }, err);
    }
    stk_sample_close(&s);
    atomic_fetch_add_explicit(&r->c->bytes, bytes, memory_order_relaxed);
    return rc;
}

/* ---- runs of samples ---- */

static int check_run(reader *r, uint64_t first, uint64_t end, stk_error *err)
{
    for (uint64_t id = first; id < end; id++) {
        STK_TRY(judge(r->c, id, check_sample(r, id, err), err));
        if (tell(r->c, 1))
            return stk_fail(err, STK_ECLOSED, "stopped");
    }
    return 0;
}

static int run_by_content(void *cookie, uint64_t job, stk_error *err)
{
    check *c = cookie;
    reader r = { .c = c };
    uint64_t n = stk_dataset_len(c->ds), first = job * RUN;
    const stk_decoder *d;
    int rc = check_run(&r, first, first + RUN < n ? first + RUN : n, err);

    for (size_t i = 0; i < STK_MAX_DECODERS; i++) {
        d = stk_registry_get(STK_PLUGIN_DECODER, i);
        if (d && r.decoder[i])
            d->close(r.decoder[i]);
    }
    stk_scratch_fini(&r.scratch);
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
                             .max_pixels = c->o.max_pixels };
    uint64_t n = stk_dataset_len(c->ds), id = job * RUN, end = id + RUN < n ? id + RUN : n;
    stk_stats stats = { .size = sizeof stats };
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc = stk_loader_open(&l, &c->ds, 1, &o, err), step;

    if (rc == 0)
        rc = stk_loader_seek(l, 0, id, err);
    for (; rc == 0 && id < end; id++) {
        step = stk_loader_next(l, &b, -1, err);
        stk_batch_release(&b);
        rc = judge(c, id, step, err);
        if (rc == 0)
            rc = read_points(c, id, err);
        if (rc == 0 && step < 0 && id + 1 < end)
            rc = stk_loader_seek(l, 0, id + 1, err);
        if (rc == 0 && tell(c, 1))
            rc = stk_fail(err, STK_ECLOSED, "stopped");
    }
    if (l) {
        stk_loader_stats(l, &stats);
        atomic_fetch_add_explicit(&c->bytes, stats.bytes, memory_order_relaxed);
    }
    stk_loader_close(&l);
    return rc;
}

/* ---- shards that can't be indexed ---- */

static int try_shard(void *cookie, uint64_t i, stk_error *err)
{
    check *c = cookie;
    stk_indexer x = { .format_name = c->o.format, .workers = 1, .home = c->home };
    const char *name = c->all.name[i];
    stk_bad b = { .shard = stk_index_home_name(&c->home, name), .offset = STK_NO_OFFSET };
    int rc = stk_names_add(&x.names, name, strlen(name), err);

    if (rc == 0)
        rc = stk_indexer_build(&x, NULL, err);
    stk_indexer_fini(&x);
    if (rc != STK_ECORRUPT && rc != STK_ENOTFOUND && rc != STK_EIO && rc != STK_ESTALE)
        return rc;
    b.code = rc;
    b.offset = err->offset;
    b.reason = err->message;
    c->bad_shard[i] = 1;
    atomic_fetch_add_explicit(&c->bad_shards, 1, memory_order_relaxed);
    say(c, &b);
    return 0;
}

static int names_all(check *c, const char *const *urls, size_t n, stk_error *err)
{
    stk_names found = { 0 };
    int rc = stk_urls_expand(urls, n, &found, err);

    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        char *path = NULL;

        rc = stk_path_absolute(found.name[i], &path, err);
        if (rc == 0)
            rc = stk_names_add(&c->all, path, strlen(path), err);
        stk_free(path);
    }
    stk_names_fini(&found);
    if (rc == 0)
        rc = stk_index_home_find(&c->home, &c->all, c->o.cache_dir, err);
    if (rc == 0)
        c->bad_shard = stk_zalloc(c->all.n + 1, 1);
    return rc < 0 || c->bad_shard ? rc : stk_fail_nomem(err, c->all.n);
}

static int open_data(check *c, const char *const *urls, size_t n, stk_error *err)
{
    stk_index_options io = { .size = sizeof io,
                             .num_workers = c->o.num_workers,
                             .cache_dir = c->o.cache_dir,
                             .format = c->o.format,
                             .log = c->o.log,
                             .log_cookie = c->o.log_cookie };
    stk_dataset_options o = { .size = sizeof o,
                              .num_workers = c->o.num_workers,
                              .cache_dir = c->o.cache_dir,
                              .format = c->o.format,
                              .log = c->o.log,
                              .log_cookie = c->o.log_cookie };
    int rc = stk_index_build(urls, n, &io, NULL, err);

    if (rc == STK_EIO) /* nowhere to write it: opening can do without */
        rc = 0;
    return rc < 0 ? rc : stk_dataset_open(&c->ds, urls, n, &o, err);
}

/* Everything that can be opened.  ds stays NULL where no shard can. */
static int open_good(check *c, const char *const *urls, size_t n, stk_error *err)
{
    const char **good;
    size_t k = 0;
    int rc = open_data(c, urls, n, err);
    stk_error first = *err;

    if (rc != STK_ECORRUPT && rc != STK_ENOTFOUND && rc != STK_EIO)
        return rc;
    if (names_all(c, urls, n, err) < 0) {
        *err = first;
        return rc;
    }
    STK_TRY(stk_jobs_run(c->o.num_workers, c->all.n, try_shard, c, err));
    if (!c->bad_shards) { /* then it was something else */
        *err = first;
        return rc;
    }
    good = stk_zalloc(c->all.n + 1, sizeof *good);
    if (!good)
        return stk_fail_nomem(err, c->all.n * sizeof *good);
    for (size_t i = 0; i < c->all.n; i++)
        if (!c->bad_shard[i])
            good[k++] = c->all.name[i];
    rc = k ? open_data(c, good, k, err) : 0;
    stk_free(good);
    return rc;
}

/* ---- the whole ---- */

static int check_all(check *c, const char *const *urls, size_t n, stk_error *err)
{
    uint64_t jobs;

    for (size_t k = 0; k < KNOWN; k++)
        if (known[k].chain)
            STK_TRY(stk_chain_plan(&c->chain[k], known[k].ending, known[k].chain, err));
    STK_TRY(open_good(c, urls, n, err));
    if (!c->ds)
        return 0;
    jobs = (stk_dataset_len(c->ds) + RUN - 1) / RUN;
    return stk_jobs_run(c->o.num_workers, jobs, c->o.n_outputs ? run_by_chains : run_by_content, c,
                        err);
}

static int report_fill(const check *c, stk_check_report *out, stk_error *err)
{
    stk_check_report r = { .size = sizeof r,
                           .shards = c->ds ? stk_dataset_shards(c->ds) : 0,
                           .samples = c->ds ? stk_dataset_len(c->ds) : 0,
                           .bytes = c->bytes,
                           .bad_shards = c->bad_shards,
                           .bad_samples = c->bad_samples,
                           .pictures = c->pictures,
                           .unchecked = c->unchecked,
                           .misfits = c->misfits };
    uint32_t given = out->size;

    if (given < sizeof given)
        return stk_fail(err, STK_EINVAL, "the report says size %u: set it to sizeof of the struct",
                        given);
    r.shards += r.bad_shards;
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
    for (size_t k = 0; k < KNOWN; k++)
        stk_chain_fini(&c.chain[k]);
    stk_dataset_unref(&c.ds);
    stk_names_fini(&c.all);
    stk_free(c.bad_shard);
    stk_mutex_destroy(&c.lock);
    if (rc < 0 && err)
        *err = here;
    return rc;
}
