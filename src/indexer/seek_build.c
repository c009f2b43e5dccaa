/* SPDX-License-Identifier: Apache-2.0 */
/* seek_build.c - see seek_build.h.  One job a group of samples: read them, make the points of
 * every field whose decoder has some, hand the group in.
 *
 * A sample is read whole, unless a field of it is large: of that only the parts are read that its
 * decoder looks at, which of a video are its tables. */
#include "indexer/seek_build.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "codec/sound_decoders.h"
#include "base/halt.h"
#include "base/jobs.h"
#include "fetch/field_reader.h"
#include "video/video_points.h"

#define MAX_OLD 16
#define HEAD 4096u
/* Bytes of a field from which on parts of it are read.  A picture that is larger costs a request
 * more than it did; a video that is not costs its frames. */
#define LARGE ((uint64_t)256 << 10)

typedef struct job {
    stk_seek_build *b;
    stk_shard_data *ds;
    stk_seek_writer *w;
    stk_seekfile *old[MAX_OLD];
    uint32_t n_old;
    uint64_t samples;
    _Atomic uint64_t done;
} job;

typedef struct group { /* what one job holds */
    stk_decoders decoders;
    stk_scratch scratch;
    stk_field_reader *reader;
    stk_seek_group out;
} group;

/* The points of a video with those of the sound beside it, where these can be made. */
static int join_sound(group *g, const stk_decoder *sound, void *ctx, const stk_media_reader *in,
                      stk_bytes *points, stk_error *err)
{
    stk_bytes more = { 0 };
    int rc = sound->points(ctx, in, &g->scratch, &more, err);

    if (rc == STK_ENOMEM || rc == STK_EIO)
        return rc;
    return rc < 0 ? 0 : stk_video_points_join(*points, more, &g->scratch, points, err);
}

/* head: its first bytes, or all. */
static int add_points(group *g, uint32_t row, uint32_t field, stk_bytes head,
                      const stk_media_reader *in, stk_error *err)
{
    const stk_decoder *decoder = NULL, *sound = NULL;
    stk_bytes points;
    void *ctx, *sound_ctx;
    int rc = stk_decoders_find(&g->decoders, head, &decoder, &ctx, err);

    if (stk_decoders_find_sound(&g->decoders, head, &sound, &sound_ctx, NULL) != 0 ||
        !(sound->can & STK_DECODER_SOUND_TRACK))
        sound = NULL;
    if ((rc == STK_END || (rc == 0 && !decoder->points)) && !sound)
        return 0;
    stk_scratch_reset(&g->scratch);
    if (rc == 0 && decoder->points)
        rc = decoder->points(ctx, in, &g->scratch, &points, err);
    if (sound && (rc == STK_END || rc == STK_ECORRUPT || rc == STK_ENOTSUP)) { /* no video in it */
        decoder = sound;
        rc = decoder->points(sound_ctx, in, &g->scratch, &points, err);
    } else if (sound && rc == 0) {
        rc = join_sound(g, sound, sound_ctx, in, &points, err);
    }
    if (rc == STK_ENOMEM || rc == STK_EIO)
        return rc;
    if (rc < 0) {
        g->out.counts.others++;
        return 0;
    }
    if (!stk_points_are_of(decoder, points))
        return stk_fail(err, STK_EINVAL,
                        "decoder %s made points that do not begin with its tag, %c: they could not "
                        "be told from others",
                        decoder->name, decoder->tag);
    g->out.counts.fields++;
    g->out.counts.bytes += in->size;
    return stk_seek_group_add(&g->out, row, field, points, err);
}

/* Labels and the like, of a sample that has points.  What has points itself has its record. */
static int add_short(group *g, uint32_t row, uint32_t field, stk_bytes in, stk_error *err)
{
    uint8_t record[1 + STK_SEEK_SHORT_MAX] = { STK_SEEK_SHORT };
    const stk_decoder *decoder;
    void *ctx;

    if (!in.len || in.len > STK_SEEK_SHORT_MAX)
        return 0;
    if (stk_decoders_find(&g->decoders, in, &decoder, &ctx, NULL) == 0 && decoder->points)
        return 0;
    memcpy(record + 1, in.data, in.len);
    return stk_seek_group_add(&g->out, row, field, (stk_bytes){ record, 1 + in.len }, err);
}

static stk_bytes bytes_of(const stk_sample *s, uint32_t field)
{
    const void *data;
    size_t len;

    stk_sample_field(s, field, &data, &len);
    return (stk_bytes){ data, len };
}

static int add_whole(job *j, group *g, uint64_t id, uint32_t row, stk_error *err)
{
    uint32_t before = g->out.counts.fields;
    stk_sample *s = NULL;
    int rc = stk_dataset_read(&j->ds->base, id, &s, err);

    for (uint32_t k = 0; rc == 0 && k < stk_sample_fields(s); k++) {
        const stk_bytes in = bytes_of(s, k);
        const stk_media_reader here = stk_media_here(&in);

        rc = add_points(g, row, k, in, &here, err);
    }
    for (uint32_t k = 0; rc == 0 && g->out.counts.fields > before && k < stk_sample_fields(s); k++)
        rc = add_short(g, row, k, bytes_of(s, k), err);
    stk_sample_close(&s);
    return rc;
}

/* One field of a sample that has a large one.  only_short: it has points of another field. */
static int add_part(group *g, const stk_entry *e, uint32_t row, uint32_t field, int only_short,
                    stk_error *err)
{
    stk_bytes head = { 0 };
    stk_media_reader in;
    int rc = stk_field_reader_take(g->reader, e, field, &in, err);

    if (rc == 0 && only_short && in.size > STK_SEEK_SHORT_MAX)
        return 0;
    if (rc == 0)
        rc = in.read(in.cookie, 0, in.size < HEAD ? (size_t)in.size : HEAD, &head, err);
    if (rc == 0)
        rc = only_short ? add_short(g, row, field, head, err)
                        : add_points(g, row, field, head, &in, err);
    return rc == STK_ECORRUPT || rc == STK_ENOTFOUND ? 0 : rc;
}

static int add_parts(job *j, group *g, const stk_entry *e, uint32_t row, stk_error *err)
{
    uint32_t before = g->out.counts.fields;

    if (!g->reader)
        STK_TRY(stk_field_reader_open(&g->reader, &j->ds->base, err));
    for (uint32_t k = 0; k < e->n_fields; k++)
        STK_TRY(add_part(g, e, row, k, 0, err));
    for (uint32_t k = 0; g->out.counts.fields > before && k < e->n_fields; k++)
        STK_TRY(add_part(g, e, row, k, 1, err));
    return 0;
}

static int has_large(const stk_dataset *d, const stk_entry *e)
{
    stk_field f;

    for (uint32_t k = 0; k < e->n_fields; k++)
        if (d->ops->field(d, e, k, &f, NULL) == 0 && f.size > LARGE)
            return 1;
    return 0;
}

/* A sample that can't be read has no points: the loader says why. */
static int add_sample(job *j, group *g, uint64_t id, uint32_t row, stk_error *err)
{
    stk_entry e;
    int rc = j->ds->base.ops->entry(&j->ds->base, id, &e, err);

    if (rc == 0)
        rc = has_large(&j->ds->base, &e) ? add_parts(j, g, &e, row, err)
                                         : add_whole(j, g, id, row, err);
    return rc == STK_ECORRUPT || rc == STK_ENOTFOUND ? 0 : rc;
}

static int make_group(job *j, group *g, uint64_t number, stk_error *err)
{
    uint64_t shard, first;
    stk_shard_info info;
    uint32_t rows;

    stk_seek_writer_place(j->w, number, &shard, &first, &rows);
    STK_TRY(stk_index_shard(j->ds->index, shard, &info, err));
    STK_TRY(stk_seek_group_begin(&g->out, rows, err));
    STK_TRY(stk_decoders_init(&g->decoders, NULL, err));
    for (uint32_t i = 0; i < rows; i++) {
        STK_TRY(add_sample(j, g, info.first + first + i, i, err));
        atomic_fetch_add_explicit(&j->done, 1, memory_order_relaxed);
    }
    stk_seek_group_end(&g->out);
    return stk_seek_writer_add(j->w, number, &g->out, err);
}

/* 0: carried over; STK_END: it has to be made. */
static int carry_over(job *j, uint64_t number, stk_error *err)
{
    uint64_t shard, first;
    stk_shard_info info;
    uint32_t rows;

    stk_seek_writer_place(j->w, number, &shard, &first, &rows);
    STK_TRY(stk_index_shard(j->ds->index, shard, &info, err));
    for (uint32_t i = 0; i < j->n_old; i++) {
        uint64_t from = stk_seekfile_match(j->old[i], &info);

        if (from != UINT64_MAX && stk_seekfile_made(j->old[i], from, first) &&
            stk_seek_writer_reuse(j->w, number, j->old[i], from, err) == 0) {
            atomic_fetch_add_explicit(&j->done, rows, memory_order_relaxed);
            return 0;
        }
    }
    return STK_END;
}

static int run_group(void *cookie, uint64_t number, stk_error *err)
{
    job *j = cookie;
    group g = { 0 };
    int rc = carry_over(j, number, err);

    if (rc != STK_END)
        return rc;
    rc = make_group(j, &g, number, err);
    stk_field_reader_close(&g.reader);
    stk_decoders_fini(&g.decoders);
    stk_scratch_fini(&g.scratch);
    stk_seek_group_fini(&g.out);
    return rc;
}

static int tick(void *cookie)
{
    job *j = cookie;

    return j->b->progress &&
           j->b->progress(j->b->progress_cookie,
                          atomic_load_explicit(&j->done, memory_order_relaxed), j->samples);
}

static void take_old(job *j, const char *path)
{
    if (j->n_old < MAX_OLD && stk_seekfile_open(&j->old[j->n_old], path, NULL, NULL) == 0)
        j->n_old++;
}

/* This list's own file, then those of others in the same folder: a cache may have very many. */
static void find_old(job *j)
{
    char dir[1290], path[1600];
    struct dirent *e;
    DIR *d;

    take_old(j, j->b->path);
    snprintf(dir, sizeof dir, "%s", j->b->path);
    *strrchr(dir, '/') = 0;
    d = opendir(dir);
    while (d && j->n_old < MAX_OLD && (e = readdir(d))) {
        size_t len = strlen(e->d_name);

        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (len > 5 && !strcmp(e->d_name + len - 5, ".seek") && strcmp(path, j->b->path) != 0)
            take_old(j, path);
    }
    if (d)
        closedir(d);
}

static int build(job *j, stk_error *err)
{
    stk_seek_build *b = j->b;

    if (!b->force)
        find_old(j);
    STK_TRY(stk_seek_writer_open(&j->w, b->path, j->ds->index, err));
    STK_TRY(stk_jobs_watch(b->workers, stk_seek_writer_groups(j->w), run_group, tick, j, err));
    STK_TRY(stk_seek_writer_commit(j->w, err));
    (void)tick(j);
    b->built = 1;
    return 0;
}

/* Once per host, however many processes ask: the others find it done. */
static int wait_turn(job *j, stk_lock_file *lock, stk_error *err)
{
    while (stk_seek_lock(j->ds->base.index_path, lock) == STK_END)
        if (tick(j) || stk_halt_sleep(50) < 0)
            return stk_fail(err, STK_ECLOSED, "stopped");
    if (j->b->force)
        return 0;
    stk_seekfile_close(&j->ds->seek);
    (void)stk_seekfile_open(&j->ds->seek, j->b->path, j->ds->index, NULL);
    return 0;
}

int stk_seek_build_run(stk_seek_build *b, stk_shard_data *ds, stk_error *err)
{
    job j = { .b = b, .ds = ds, .samples = stk_dataset_len(&ds->base) };
    stk_lock_file lock = { .fd = -1 };
    int rc;

    stk_seek_path(ds->base.index_path, b->path, sizeof b->path);
    if (!b->path[0])
        return stk_fail(err, STK_EIO,
                        "seek points are stored beside the index, and that is in memory only: set "
                        "$STOKER_CACHE to a folder that can be written");
    rc = wait_turn(&j, &lock, err);
    if (rc == 0 && (b->force || !ds->seek || !stk_seekfile_whole(ds->seek))) {
        rc = build(&j, err);
        stk_seek_writer_close(&j.w);
        for (uint32_t i = 0; i < j.n_old; i++)
            stk_seekfile_close(&j.old[i]);
    }
    if (rc == 0 && b->built) { /* the data set sees them too */
        stk_seekfile_close(&ds->seek);
        rc = stk_seekfile_open(&ds->seek, b->path, ds->index, err);
    }
    stk_shard_data_seek(ds);
    stk_lock_drop(&lock);
    if (ds->seek)
        stk_seekfile_tell(ds->seek, &ds->base.log);
    if (rc == 0) {
        b->bytes = stk_seekfile_bytes(ds->seek);
        stk_seekfile_counts(ds->seek, &b->jpegs, &b->others, &b->jpeg_bytes);
    }
    return rc;
}
