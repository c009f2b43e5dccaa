/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_columns.c - add typed columns to an index that is there.
 *
 * The index is never changed in place: a new one takes over every segment and every chunk that is
 * known, and only the chunks that are missing are read.  One job a shard. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "data/shard_data.h"
#include "column/column_read.h"
#include "column/media_sizes.h"
#include "fetch/request.h"
#include "indexer/indexer.h"
#include "base/jobs.h"

typedef struct adding {
    stk_indexer *x;
    stk_index_writer *writer;
    stk_shard_data data;               /* the index that is there, and its files */
    const char *name[STK_MAX_COLUMNS]; /* all that the new index shall know */
    uint32_t n, asked;                 /* the first `asked` must have a value somewhere */
    _Atomic int has_value[STK_MAX_COLUMNS];
    _Atomic uint64_t bad, done;
    uint64_t total;
    _Atomic int stop;
    pthread_t caller;
} adding;

static int want(adding *a, const char *name, stk_error *err)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (!strcmp(a->name[i], name))
            return 0;
    if (a->n == STK_MAX_COLUMNS)
        return stk_fail(err, STK_ELIMIT, "an index gets at most %u columns at a time",
                        STK_MAX_COLUMNS);
    a->name[a->n++] = name;
    return 0;
}

/* What is asked for, and, where an index is repaired, what it knows of some shards only. */
static int wanted(adding *a, stk_error *err)
{
    const stk_indexer *x = a->x;

    for (uint32_t i = 0; i < x->n_columns; i++)
        if (!(i < STK_MAX_COLUMNS && x->media >> i & 1) &&
            (strcmp(x->columns[i], "cls") != 0 || !stk_shards_have_classes(x->index, x->format)))
            STK_TRY(want(a, x->columns[i], err));
    a->asked = a->n;
    for (uint32_t c = 0; x->thorough && c < stk_index_columns(x->index); c++)
        if (!stk_index_column_known(x->index, c))
            STK_TRY(want(a, stk_index_column(x->index, c), err));
    return 0;
}

int stk_indexer_lacks_columns(stk_indexer *x, stk_error *err)
{
    adding a = { .x = x };
    int c;

    for (uint32_t i = 0; i < x->n_columns; i++)
        STK_TRY(stk_column_name_check(x->columns[i], err));
    STK_TRY(wanted(&a, err));
    for (uint32_t i = 0; i < a.n; i++) {
        c = stk_index_column_find(x->index, a.name[i]);
        if (c < 0 || !stk_index_column_known(x->index, (uint32_t)c))
            return 1;
    }
    return 0;
}

/* ---- one shard ---- */

static int tick(void *cookie)
{
    adding *a = cookie;

    if (a->x->progress && pthread_equal(a->caller, pthread_self()) &&
        a->x->progress(a->x->progress_cookie, atomic_load_explicit(&a->done, memory_order_relaxed),
                       a->total))
        atomic_store_explicit(&a->stop, 1, memory_order_relaxed);
    return atomic_load_explicit(&a->stop, memory_order_relaxed);
}

static int read_missing(adding *a, uint64_t shard, const stk_column_job *job, const uint32_t *which,
                        stk_error *err)
{
    const char *name = a->x->names.name[shard];
    stk_chunk chunk[STK_MAX_COLUMNS];
    int rc, got;

    memset(chunk, 0, sizeof chunk);
    rc = stk_column_read(job, shard, chunk, err);
    got = rc == 0;
    for (uint32_t c = 0; got && c < job->n_columns; c++) {
        if (rc == 0)
            rc = stk_index_writer_column(a->writer, shard, job->column[c], &chunk[c], err);
        if (chunk[c].rec.type > STK_CHUNK_NULL)
            atomic_store_explicit(&a->has_value[which[c]], 1, memory_order_relaxed);
        stk_chunk_fini(&chunk[c]);
    }
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int do_shard(void *cookie, uint64_t shard, stk_error *err)
{
    adding *a = cookie;
    const stk_index *ix = a->x->index;
    const char *missing[STK_MAX_COLUMNS];
    uint32_t which[STK_MAX_COLUMNS];
    stk_column_job job = {
        .data = &a->data.base, .column = missing, .stop = &a->stop, .bad = &a->bad
    };
    stk_shard_info info;
    stk_chunk chunk;

    tick(a);
    STK_TRY(stk_index_shard(ix, shard, &info, err));
    STK_TRY(stk_index_writer_reuse(a->writer, shard, &info, ix, shard, err));
    for (uint32_t i = 0; i < a->n; i++) {
        int c = stk_index_column_find(ix, a->name[i]);

        memset(&chunk, 0, sizeof chunk);
        if (c >= 0)
            STK_TRY(stk_index_chunk(ix, (uint32_t)c, shard, &chunk, err));
        if (chunk.rec.type > STK_CHUNK_NULL)
            atomic_store_explicit(&a->has_value[i], 1, memory_order_relaxed);
        if (chunk.rec.type != STK_CHUNK_UNKNOWN)
            continue;
        which[job.n_columns] = i;
        missing[job.n_columns++] = a->name[i];
    }
    if (job.n_columns)
        STK_TRY(read_missing(a, shard, &job, which, err));
    atomic_fetch_add_explicit(&a->done, info.size, memory_order_relaxed);
    return 0;
}

/* ---- the whole ---- */

static int values_check(const adding *a, stk_error *err)
{
    for (uint32_t i = 0; i < a->asked && stk_index_samples(a->x->index); i++)
        if (!atomic_load_explicit(&a->has_value[i], memory_order_relaxed))
            return stk_column_no_value(&a->data.base, a->name[i], err);
    return 0;
}

static int data_open(adding *a, stk_error *err)
{
    const stk_indexer *x = a->x;
    stk_format_data in = { .shards = (const char *const *)x->names.name, .n_shards = x->names.n };
    stk_names names = { .store = x->names.store };
    int rc = 0;

    stk_shard_data_init(&a->data, x->format);
    a->data.index = x->index;
    STK_TRY(stk_shard_data_open(&a->data, in, err));
    for (size_t i = 0; rc == 0 && i < x->names.n; i++)
        rc = stk_names_add(&names, x->names.name[i], strlen(x->names.name[i]), err);
    if (rc == 0)
        rc = stk_shards_open(&a->data.shards, x->index, x->format, &names, err);
    stk_names_fini(&names);
    return rc;
}

static void data_close(adding *a)
{
    stk_mediafile *media = atomic_load_explicit(&a->data.base.media, memory_order_acquire);

    stk_dataset_rest(&a->data.base);
    stk_mediafile_close(&media);
    stk_shards_close(&a->data.shards);
    if (a->data.state)
        a->data.format->close(a->data.state);
}

static int add_run(adding *a, const char *path, stk_error *err)
{
    stk_indexer *x = a->x;
    stk_index *ix = NULL;
    stk_shard_info s;
    uint64_t bad;

    STK_TRY(wanted(a, err));
    for (uint64_t i = 0; i < x->names.n; i++) {
        STK_TRY(stk_index_shard(x->index, i, &s, err));
        a->total += s.size;
    }
    stk_log_line(&x->log, STK_LOG_INFO, "reading %u column%s of %zu shards", a->n,
                 a->n == 1 ? "" : "s", x->names.n);
    STK_TRY(data_open(a, err));
    STK_TRY(stk_indexer_writer(x, path, &a->writer, err));
    STK_TRY(stk_jobs_watch(x->workers, x->names.n, do_shard, tick, a, err));
    STK_TRY(values_check(a, err));
    bad = atomic_load_explicit(&a->bad, memory_order_relaxed);
    if (bad)
        stk_log_line(&x->log, STK_LOG_WARN,
                     "%" PRIu64 " values were left out: their field is not JSON; stoker check "
                     "names the samples",
                     bad);
    STK_TRY(stk_index_writer_commit(a->writer, err));
    if (path)
        STK_TRY(stk_index_open(&ix, path, err));
    else
        STK_TRY(stk_index_open_fd(&ix, stk_index_writer_fd(a->writer), "(memory)", err));
    stk_index_close(&x->index);
    x->index = ix;
    x->built = 1;
    if (!path)
        x->path[0] = 0;
    return 0;
}

int stk_indexer_media_columns(stk_indexer *x, stk_error *err)
{
    adding *a = x->n_columns ? STK_NEW(adding) : NULL;
    stk_media_what what;
    int rc = 0;

    if (!x->n_columns)
        return 0;
    if (!a)
        return stk_fail_nomem(err, sizeof *a);
    a->x = x;
    rc = data_open(a, err);
    for (uint32_t i = 0; rc == 0 && i < x->n_columns && i < STK_MAX_COLUMNS; i++) {
        rc = stk_media_is_column(&a->data.base, x->columns[i], &what, err);
        x->media |= (uint64_t)(rc == 1) << i;
        rc = rc < 0 ? rc : 0;
    }
    data_close(a);
    stk_free(a);
    return rc;
}

int stk_indexer_add_columns(stk_indexer *x, const char *path, stk_error *err)
{
    adding *a = STK_NEW(adding);
    int rc;

    if (!a)
        return stk_fail_nomem(err, sizeof *a);
    a->x = x;
    a->caller = pthread_self();
    rc = add_run(a, path, err);
    if (rc == STK_EIO && a->writer)
        x->sys = stk_index_writer_unwritable(a->writer);
    stk_index_writer_close(&a->writer);
    data_close(a);
    stk_free(a);
    return rc;
}
