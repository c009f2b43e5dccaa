/* SPDX-License-Identifier: Apache-2.0 */
/* media_sizes.c - see media_sizes.h.  One job per shard; shards that a file of before knows are
 * carried over.  Processes of one host take turns: one reads, and the others find it done. */
#include "column/media_sizes.h"

#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/halt.h"
#include "base/hash.h"
#include "base/jobs.h"
#include "data/shard_data.h"

#define MAX_OLD 16
#define STOP_EVERY 64u
#define PROBES 16u

typedef struct making {
    stk_dataset *ds;
    const stk_media_making *how;
    stk_media_shard *id;
    stk_media_records *shard;
    stk_mediafile *old[MAX_OLD];
    uint32_t n_old;
    uint64_t n;
    _Atomic uint64_t done;
    char path[1300]; /* "": it is not kept */
} making;

/* ---- which shards ---- */

/* A shard may be written to and keep its size and fingerprint: its time counts, too. */
static int shard_id(const stk_dataset *ds, uint64_t i, stk_media_shard *out, stk_error *err)
{
    stk_shard_info info;

    STK_TRY(stk_dataset_shard_now(ds, i, &info, err));
    *out = (stk_media_shard){ info.size,
                              stk_hash64(info.print, &info.mtime_ns, sizeof info.mtime_ns),
                              info.samples };
    return 0;
}

static int all_ids(making *m, stk_error *err)
{
    m->n = stk_dataset_shards(m->ds);
    m->id = stk_zalloc(m->n + 1, sizeof *m->id);
    if (!m->id)
        return stk_fail_nomem(err, m->n * sizeof *m->id);
    for (uint64_t i = 0; i < m->n; i++)
        STK_TRY(shard_id(m->ds, i, &m->id[i], err));
    return 0;
}

static int fits(const making *m, const stk_mediafile *f)
{
    for (uint64_t i = 0; i < m->n; i++)
        if (!stk_mediafile_has(f, i, &m->id[i]))
            return 0;
    return stk_mediafile_shards(f) == m->n;
}

/* ---- found ---- */

static int can_have(const stk_dataset *ds)
{
    return ds->ops->shard && !(ds->can & (STK_DATA_IMMEDIATE | STK_DATA_STREAM));
}

/* Keep a file in the data set; *f is NULL then.  Another thread may have been first. */
static const stk_mediafile *keep(stk_dataset *ds, stk_mediafile **f)
{
    stk_mediafile *before = NULL;

    if (!atomic_compare_exchange_strong_explicit(&ds->media, &before, *f, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        stk_mediafile_close(f);
        return before;
    }
    before = *f;
    *f = NULL;
    return before;
}

static const stk_mediafile *load(making *m)
{
    stk_mediafile *f = NULL;

    if (!m->path[0] || stk_mediafile_open(&f, m->path, NULL) < 0)
        return NULL;
    if (fits(m, f))
        return keep(m->ds, &f);
    stk_mediafile_close(&f);
    return NULL;
}

const stk_mediafile *stk_media_found(stk_dataset *ds)
{
    const stk_mediafile *f = atomic_load_explicit(&ds->media, memory_order_acquire);
    making m = { .ds = ds };

    if (f || !can_have(ds))
        return f;
    stk_media_path(ds->index_path, m.path, sizeof m.path);
    if (m.path[0] && access(m.path, R_OK) == 0 && all_ids(&m, NULL) == 0)
        f = load(&m);
    stk_free(m.id);
    return f;
}

/* ---- made ---- */

typedef struct placing {
    stk_media_records *to;
    uint64_t row;
} placing;

static int put(void *cookie, const char *field, const stk_media_rec *rec, stk_error *err)
{
    const placing *p = cookie;

    return stk_media_records_put(p->to, field, p->row, rec, err);
}

static int tick(void *cookie)
{
    making *m = cookie;

    return m->how->progress &&
           m->how->progress(m->how->progress_cookie,
                            atomic_load_explicit(&m->done, memory_order_relaxed),
                            stk_dataset_len(m->ds));
}

/* A sample that can't be read has no sizes: the loader says why. */
static int look_at_all(making *m, stk_media_look *l, uint64_t first, placing *p, stk_error *err)
{
    for (p->row = 0; p->row < p->to->shard.samples; p->row++) {
        int rc = stk_media_look_at(l, first + p->row, NULL, put, p, err);

        if (rc < 0 && rc != STK_ECORRUPT && rc != STK_ENOTFOUND && rc != STK_ELIMIT)
            return rc;
        atomic_fetch_add_explicit(&m->done, 1, memory_order_relaxed);
        if (p->row % STOP_EVERY == 0 && stk_halt_wanted())
            return stk_fail_halted(err);
    }
    return 0;
}

static int make_shard(making *m, uint64_t i, stk_error *err)
{
    placing p = { .to = &m->shard[i] };
    stk_media_look *l = NULL;
    stk_shard_info info;
    stk_file *file; /* open from the first sample to the last */
    int rc = m->ds->ops->shard(m->ds, i, &info, err), held = 0;

    if (rc == 0)
        rc = stk_media_look_open(&l, m->ds, err);
    if (rc == 0 && info.samples) {
        rc = m->ds->ops->acquire(m->ds, i, &file, err);
        held = rc == 0;
    }
    if (rc == 0)
        rc = look_at_all(m, l, info.first, &p, err);
    if (held)
        m->ds->ops->release(m->ds, i);
    stk_media_look_close(&l);
    if (rc == 0)
        rc = stk_media_records_end(p.to, err);
    if (rc < 0)
        stk_error_at(err, stk_dataset_shard_name(m->ds, i), STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int do_shard(void *cookie, uint64_t i, stk_error *err)
{
    making *m = cookie;

    m->shard[i].shard = m->id[i];
    for (uint32_t k = 0; k < m->n_old; k++) {
        uint64_t from = stk_mediafile_match(m->old[k], &m->id[i]);

        if (from == UINT64_MAX)
            continue;
        atomic_fetch_add_explicit(&m->done, m->id[i].samples, memory_order_relaxed);
        return stk_media_records_copy(&m->shard[i], m->old[k], from, err);
    }
    return make_shard(m, i, err);
}

/* This list's own file, then those of other lists in the same folder. */
static void find_old(making *m)
{
    char dir[1300], path[1700];
    struct dirent *e;
    DIR *d;

    if (!m->path[0] || m->how->force)
        return;
    m->n_old += stk_mediafile_open(&m->old[0], m->path, NULL) == 0;
    snprintf(dir, sizeof dir, "%s", m->path);
    *strrchr(dir, '/') = 0;
    d = opendir(dir);
    while (d && m->n_old < MAX_OLD && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (len > 6 && !strcmp(e->d_name + len - 6, ".media") && strcmp(path, m->path) != 0)
            m->n_old += stk_mediafile_open(&m->old[m->n_old], path, NULL) == 0;
    }
    if (d)
        closedir(d);
}

/* What can't be written is read again next time. */
static int publish(making *m, const stk_mediafile **out, stk_error *err)
{
    stk_mediafile *f = NULL;
    stk_error why = { 0 };
    uint8_t *data = NULL;
    size_t len;
    int rc = stk_mediafile_make(m->shard, m->n, &data, &len, err);

    if (rc == 0 && m->path[0] && stk_atomic_put(m->path, data, len, STK_COMMIT_FAST, &why) < 0)
        stk_log_line(&m->ds->log, STK_LOG_WARN,
                     "the sizes of pictures can't be kept (%s): they are read again next time",
                     why.message);
    if (rc == 0)
        rc = stk_mediafile_take(&f, data, len, err);
    else
        stk_free(data);
    if (rc == 0)
        *out = keep(m->ds, &f);
    return rc;
}

static int make_all(making *m, const stk_mediafile **out, stk_error *err)
{
    int rc;

    m->shard = stk_zalloc(m->n + 1, sizeof *m->shard);
    if (!m->shard)
        return stk_fail_nomem(err, m->n * sizeof *m->shard);
    find_old(m);
    stk_log_line(&m->ds->log, STK_LOG_INFO,
                 "reading the sizes of pictures of %" PRIu64 " samples, once",
                 stk_dataset_len(m->ds));
    rc = stk_jobs_watch(m->how->workers, m->n, do_shard, tick, m, err);
    if (rc == 0)
        rc = publish(m, out, err);
    for (uint32_t i = 0; i < m->n_old; i++)
        stk_mediafile_close(&m->old[i]);
    for (uint64_t i = 0; i < m->n; i++)
        stk_media_records_fini(&m->shard[i]);
    stk_free(m->shard);
    return rc;
}

static int make_in_turn(making *m, const stk_mediafile **out, stk_error *err)
{
    stk_lock_file lock = { .fd = -1 };
    int rc;

    while (m->path[0] && stk_seek_lock(m->ds->index_path, &lock) == STK_END)
        if (tick(m) || stk_halt_sleep(50) < 0)
            return stk_fail_halted(err);
    *out = m->how->force ? NULL : load(m); /* another process was first */
    rc = *out ? 0 : make_all(m, out, err);
    stk_lock_drop(&lock);
    return rc;
}

int stk_media_sizes(stk_dataset *ds, const stk_media_making *how, const stk_mediafile **out,
                    stk_error *err)
{
    static const stk_media_making plain;
    making m = { .ds = ds, .how = how ? how : &plain };
    int rc;

    if (!can_have(ds))
        return stk_fail(err, STK_ENOTSUP, "%s have no sizes of pictures", ds->ops->plural);
    *out = m.how->force ? NULL : stk_media_found(ds);
    if (*out)
        return 0;
    stk_media_path(ds->index_path, m.path, sizeof m.path);
    rc = all_ids(&m, err);
    if (rc == 0)
        rc = make_in_turn(&m, out, err);
    stk_free(m.id);
    return rc;
}

/* ---- columns ---- */

static const char *const figures[] = { "width", "height",   "turn",   "units",
                                       "rate",  "channels", "seconds" };
#define FIGURES (sizeof figures / sizeof figures[0])
enum { WIDTH, HEIGHT, TURN, UNITS, RATE, CHANNELS, SECONDS };

/* A field by the name that users give it. */
static int find_field(const stk_dataset *ds, const char *name, char *out, size_t size)
{
    stk_field_type t;
    int at;

    for (uint32_t i = 0; ds->ops->type(ds, i, &t); i++)
        if (!strcmp(t.name, name))
            return snprintf(out, size, "%s", name) < (int)size;
    at = ds->can & STK_DATA_INDEXED ? -1 : ds->ops->find(ds, 0, name);
    return at >= 0 && ds->ops->type(ds, (uint32_t)at, &t) &&
           snprintf(out, size, "%s", t.name) < (int)size;
}

static int split(const stk_dataset *ds, const char *name, stk_media_what *out)
{
    const char *dot = strrchr(name, '.');
    char field[256];
    stk_field_type t;

    if (!dot || dot == name || (size_t)(dot - name) >= sizeof field)
        return 0;
    for (uint32_t i = 0; ds->ops->type(ds, i, &t); i++)
        if (!strcmp(t.name, name))
            return 0; /* a field of that very name */
    memcpy(field, name, (size_t)(dot - name));
    field[dot - name] = 0;
    for (out->figure = 0; out->figure < FIGURES; out->figure++)
        if (!strcmp(dot + 1, figures[out->figure]))
            return find_field(ds, field, out->field, sizeof out->field);
    return 0;
}

static int note(void *cookie, const char *field, const stk_media_rec *rec, stk_error *err)
{
    (void)field, (void)rec, (void)err;
    *(int *)cookie = 1;
    return 0;
}

/* Some samples, spread evenly: is the field media in one of them? */
static int probe(stk_dataset *ds, const char *field, stk_error *err)
{
    uint64_t n = stk_dataset_len(ds), look = n < PROBES ? n : PROBES;
    stk_media_look *l = NULL;
    int rc = stk_media_look_open(&l, ds, err), yes = 0;

    for (uint64_t i = 0; rc == 0 && !yes && i < look; i++) {
        rc = stk_media_look_at(l, (uint64_t)((unsigned __int128)i * n / look), field, note, &yes,
                               err);
        rc = rc == STK_ECORRUPT || rc == STK_ENOTFOUND || rc == STK_ELIMIT ? 0 : rc;
    }
    stk_media_look_close(&l);
    return rc < 0 ? rc : yes;
}

int stk_media_is_column(stk_dataset *ds, const char *name, stk_media_what *out, stk_error *err)
{
    const stk_mediafile *m;
    const char *have;

    if (!can_have(ds) || !split(ds, name, out))
        return 0;
    m = stk_media_found(ds);
    if (!m)
        return probe(ds, out->field, err);
    for (uint32_t i = 0; (have = stk_mediafile_name(m, i)); i++)
        if (!strcmp(have, out->field))
            return 1;
    return 0;
}

static double figure_of(const stk_media_rec *r, uint32_t figure)
{
    switch (figure) {
    case WIDTH: return r->width;
    case HEIGHT: return r->height;
    case TURN: return r->turn;
    case UNITS: return (double)r->units;
    case RATE: return r->rate;
    case CHANNELS: return r->channels;
    default: return (double)r->duration_us / 1e6;
    }
}

int stk_media_chunk(const stk_mediafile *m, const stk_media_what *what, uint64_t shard,
                    uint64_t rows, stk_chunk *out, stk_error *err)
{
    stk_media_column c = stk_mediafile_column(m, shard, what->field);
    stk_values values = { 0 };
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < rows; i++) {
        stk_media_rec r = stk_media_at(&c, i);
        double v = figure_of(&r, what->figure);
        char text[40];
        int n = snprintf(text, sizeof text, "%.0f", v);

        rc = what->figure == SECONDS
                 ? stk_values_add(&values, r.kind ? STK_VALUE_REAL : STK_VALUE_NULL,
                                  (stk_bytes){ (const uint8_t *)&v, sizeof v }, err)
                 : stk_values_add(&values, r.kind ? STK_VALUE_BARE : STK_VALUE_NULL,
                                  (stk_bytes){ (const uint8_t *)text, (size_t)n }, err);
    }
    if (rc == 0)
        rc = stk_values_chunk(&values, out, err);
    stk_values_fini(&values);
    return rc;
}
