/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - what is in a data set, in figures that can be compared: every sample is read once
 * and its pictures are decoded.
 *
 * Of every field: its size; of pictures width, height, brightness and colors; of sound seconds,
 * rate, channels, loudness, clipping and silence; of videos what their tables say, and no frame is
 * decoded; of short texts their value, as a category where there are few.  Jobs are runs of samples
 * and write to places of their own, so the result does not depend on how many work.  Figures are of
 * every k-th sample where there are more than a million; duplicates are looked for among all. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/opts.h"
#include "tools/check_model.h"
#include "tools/description.h"
#include "tools/hear.h"
#include "tools/look.h"
#include "tools/video_info.h"
#include "video/track.h"

#define RUN 64u
#define MOST 1000000u
#define MAX_FIELDS 64u
#define SHORT 40u /* bytes of a text that may be a category */

enum {
    SIZE,
    WIDTH,
    HEIGHT,
    BRIGHT,
    RED,
    GREEN,
    BLUE,
    VALUE,
    SECONDS,
    RATE,
    CHANNELS,
    LOUDNESS,
    CLIPPED,
    SILENT,
    FRAMES,
    FPS,
    GOP,
    CODEC, /* its number in codec_name[] */
    COLUMNS
};
static const char *const column_name[COLUMNS] = {
    "bytes", "width",    "height",   "brightness", "red",    "green",  "blue", "value", "seconds",
    "rate",  "channels", "loudness", "clipped",    "silent", "frames", "fps",  "gop",   "codec",
};

typedef struct field {
    const char *name;
    double *column[COLUMNS]; /* NaN: the sample has none */
    uint64_t *text;          /* hash of a short text; 0: none */
    uint64_t *from;          /* the sample that it is of */
} field;

typedef struct job {
    stk_describe_options o;
    stk_dataset *ds;
    uint64_t n, every, rows;
    uint32_t n_fields;
    field field[MAX_FIELDS];
    stk_same *same;
    uint64_t *look;
    uint8_t *has_look;
    _Atomic uint64_t done, bytes, bad;
    _Atomic int stopped;
} job;

typedef struct hand { /* of one run of samples */
    job *j;
    stk_decoders decoders;
    stk_scratch scratch;
} hand;

static int open_field(job *j, field *f, const char *name, stk_error *err)
{
    f->name = name;
    f->text = stk_zalloc(j->rows + 1, sizeof *f->text);
    f->from = stk_zalloc(j->rows + 1, sizeof *f->from);
    if (!f->text || !f->from)
        return stk_fail_nomem(err, j->rows * sizeof *f->text);
    for (int c = 0; c < COLUMNS; c++) {
        f->column[c] = stk_alloc((j->rows + 1) * sizeof(double));
        if (!f->column[c])
            return stk_fail_nomem(err, j->rows * sizeof(double));
        for (uint64_t i = 0; i < j->rows; i++)
            f->column[c][i] = NAN;
    }
    return 0;
}

static int open_job(job *j, stk_error *err)
{
    const char *name;
    int rc = 0;

    j->n = j->o.select ? j->o.n_select : stk_dataset_len(j->ds);
    j->every = 1 + (j->n ? (j->n - 1) / (j->o.most ? j->o.most : MOST) : 0);
    j->rows = (j->n + j->every - 1) / j->every;
    j->same = stk_zalloc(j->n + 1, sizeof *j->same);
    j->look = stk_zalloc(j->n + 1, sizeof *j->look);
    j->has_look = stk_zalloc(j->n + 1, 1);
    if (!j->same || !j->look || !j->has_look)
        return stk_fail_nomem(err, j->n * sizeof *j->same);
    for (; rc == 0 && j->n_fields < MAX_FIELDS && (name = stk_dataset_field(j->ds, j->n_fields));
         j->n_fields++)
        rc = open_field(j, &j->field[j->n_fields], name, err);
    return rc;
}

static void close_job(job *j)
{
    for (uint32_t i = 0; i < MAX_FIELDS; i++) {
        for (int c = 0; c < COLUMNS; c++)
            stk_free(j->field[i].column[c]);
        stk_free(j->field[i].text);
        stk_free(j->field[i].from);
    }
    stk_free(j->same);
    stk_free(j->look);
    stk_free(j->has_look);
}

/* ---- one sample ---- */

/* As look_at_picture(), of sound; 1: it is sound. */
static int hear_sound(hand *h, const char *name, stk_bytes in, double *v)
{
    stk_media_info info;
    stk_heard heard;
    int rc = stk_hear(&h->decoders, &h->scratch, in, &info, &heard);

    if (rc <= 0)
        return rc == 0 && check_names_sound(name) ? STK_ECORRUPT : rc;
    v[SECONDS] = heard.seconds;
    v[RATE] = info.rate;
    v[CHANNELS] = info.channels;
    v[LOUDNESS] = heard.loudness;
    v[CLIPPED] = heard.clipped;
    v[SILENT] = heard.silent;
    return 1;
}

/* 0: the field is not a picture, or one that was looked at.  Negative: it is a bad one, or its name
 * says that it has to be one. */
static int look_at_picture(hand *h, const char *name, stk_bytes in, uint64_t k, double *v)
{
    uint64_t most = h->j->o.max_pixels ? h->j->o.max_pixels : STK_LOOK_PIXELS;
    stk_media_info info;
    stk_look look;
    int rc = stk_look_read(&h->decoders, &h->scratch, in, most, &info, &look);

    if (rc == 0 && check_names_picture(name))
        return STK_ECORRUPT;
    if (rc <= 0)
        return rc;
    if (!h->j->has_look[k]) {
        h->j->look[k] = look.hash;
        h->j->has_look[k] = 1;
    }
    v[WIDTH] = info.width;
    v[HEIGHT] = info.height;
    v[RED] = look.mean[0];
    v[GREEN] = look.mean[1];
    v[BLUE] = look.mean[2];
    v[BRIGHT] = 0.299 * v[RED] + 0.587 * v[GREEN] + 0.114 * v[BLUE];
    return 0;
}

/* 1: it is a video, of which v has what its tables say. */
static int look_at_video(hand *h, stk_bytes in, double *v)
{
    const stk_media_reader here = stk_media_here(&in);
    stk_video_info info;
    int rc = stk_video_tell(&h->decoders, &h->scratch, &here, &in, &info, NULL);

    if (rc)
        return rc == STK_END ? 0 : rc;
    v[WIDTH] = info.width;
    v[HEIGHT] = info.height;
    v[SECONDS] = (double)info.duration_us / 1e6;
    v[FRAMES] = (double)info.frames;
    v[GOP] = (double)info.longest_gop;
    if (info.duration_us > 0)
        v[FPS] = (double)info.frames / v[SECONDS];
    for (int c = 0; c < STK_VIDEO_CODECS; c++)
        if (!strcmp(info.codec, stk_video_codec_name((stk_video_codec)c)))
            v[CODEC] = c;
    return 1;
}

/* A file may have both sound and a video; one with sound alone is not a bad video. */
static int describe_media(hand *h, const char *name, stk_bytes in, uint64_t k, double *v)
{
    int sound = hear_sound(h, name, in, v), video = sound < 0 ? sound : look_at_video(h, in, v);

    if (video > 0 || sound < 0)
        return video;
    if (sound)
        return video == STK_ECORRUPT ? sound : video;
    return video ? video : look_at_picture(h, name, in, k, v);
}

/* A text of one short line, without the spaces around it; its length, 0: it is none. */
static size_t short_text(stk_bytes in, char text[SHORT + 1])
{
    while (in.len && strchr(" \t\r\n", in.data[in.len - 1]) && in.data[in.len - 1])
        in.len--;
    if (!in.len || in.len > SHORT)
        return 0;
    for (size_t i = 0; i < in.len; i++)
        if (in.data[i] < 32 || in.data[i] > 126)
            return 0;
    memcpy(text, in.data, in.len);
    text[in.len] = 0;
    return in.len;
}

static void note_text(field *f, uint64_t row, uint64_t id, stk_bytes in, double *v)
{
    char text[SHORT + 1], *end;
    size_t len = short_text(in, text);

    if (!len)
        return;
    f->text[row] = stk_hash64(1, text, len) | 1;
    f->from[row] = id;
    v[VALUE] = strtod(text, &end);
    if (*end || !isfinite(v[VALUE]))
        v[VALUE] = NAN;
}

static field *field_named(job *j, const char *name)
{
    for (uint32_t i = 0; i < j->n_fields; i++)
        if (!strcmp(j->field[i].name, name))
            return &j->field[i];
    return NULL;
}

/* Sample number `k` of those that are looked at. */
static void describe_sample(hand *h, uint64_t k)
{
    job *j = h->j;
    uint64_t id = j->o.select ? j->o.select[k] : k;
    int described = k % j->every == 0, bad = 0;
    stk_sample *s = NULL;
    stk_error err;

    if (stk_dataset_read(j->ds, id, &s, &err) < 0) {
        atomic_fetch_add_explicit(&j->bad, 1, memory_order_relaxed);
        j->same[k] = (stk_same){ stk_mix64(k), ~k }; /* like no other */
        return;
    }
    for (uint32_t i = 0; i < stk_sample_fields(s); i++) {
        double v[COLUMNS];
        const void *data;
        size_t len;
        const char *name = stk_sample_field(s, i, &data, &len);
        field *f = field_named(j, name);

        for (int c = 0; c < COLUMNS; c++)
            v[c] = NAN;
        atomic_fetch_add_explicit(&j->bytes, len, memory_order_relaxed);
        stk_same_add(&j->same[k], name, data, len);
        bad |= describe_media(h, name, (stk_bytes){ data, len }, k, v) < 0;
        if (!f || !described)
            continue;
        v[SIZE] = (double)len;
        note_text(f, k / j->every, id, (stk_bytes){ data, len }, v);
        for (int c = 0; c < COLUMNS; c++)
            f->column[c][k / j->every] = v[c];
    }
    if (bad)
        atomic_fetch_add_explicit(&j->bad, 1, memory_order_relaxed);
    stk_sample_close(&s);
}

static int tick(void *cookie)
{
    job *j = cookie;

    if (j->o.progress && j->o.progress(j->o.progress_cookie,
                                       atomic_load_explicit(&j->done, memory_order_relaxed), j->n))
        atomic_store_explicit(&j->stopped, 1, memory_order_relaxed);
    return atomic_load_explicit(&j->stopped, memory_order_relaxed);
}

static int describe_run(void *cookie, uint64_t run, stk_error *err)
{
    job *j = cookie;
    uint64_t from = run * RUN, to = from + RUN < j->n ? from + RUN : j->n;
    hand h = { .j = j };

    STK_TRY(stk_decoders_init(&h.decoders, NULL, err));
    for (uint64_t k = from; k < to; k++)
        describe_sample(&h, k);
    atomic_fetch_add_explicit(&j->done, to - from, memory_order_relaxed);
    stk_decoders_fini(&h.decoders);
    stk_scratch_fini(&h.scratch);
    return 0;
}

/* ---- the sum of it ---- */

typedef struct found {
    uint64_t hash, count, from;
} found;

static int by_hash(const void *a, const void *b)
{
    const found *x = a, *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int by_count(const void *a, const void *b)
{
    const found *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The texts of a field with how often each occurs, the most frequent first. */
static uint64_t count_texts(const job *j, const field *f, found *list, uint64_t *all)
{
    uint64_t n = 0, kinds = 0;

    for (uint64_t i = 0; i < j->rows; i++)
        if (f->text[i])
            list[n++] = (found){ f->text[i], 1, f->from[i] };
    *all = n;
    qsort(list, n, sizeof *list, by_hash);
    for (uint64_t i = 0; i < n; i++) {
        if (kinds && list[kinds - 1].hash == list[i].hash) {
            list[kinds - 1].count++;
            list[kinds - 1].from = list[i].from < list[kinds - 1].from ? list[i].from
                                                                       : list[kinds - 1].from;
        } else {
            list[kinds++] = list[i];
        }
    }
    qsort(list, kinds, sizeof *list, by_count);
    return kinds;
}

static int text_of(job *j, const field *f, uint64_t id, char text[SHORT + 1], stk_error *err)
{
    stk_sample *s = NULL;

    text[0] = 0;
    STK_TRY(stk_dataset_read(j->ds, id, &s, err));
    for (uint32_t i = 0; i < stk_sample_fields(s); i++) {
        const void *data;
        size_t len;

        if (!strcmp(stk_sample_field(s, i, &data, &len), f->name))
            short_text((stk_bytes){ data, len }, text);
    }
    stk_sample_close(&s);
    return 0;
}

/* Texts that repeat are a category; else they are numbers, or nothing that can be compared. */
static int add_category(job *j, const field *f, found *list, stk_description *d, stk_error *err)
{
    uint64_t all, kinds = count_texts(j, f, list, &all);
    stk_feature *to;

    if (!all || (kinds > 20 && 2 * kinds > all))
        return 0;
    to = stk_description_add(d, f->name, strlen(f->name));
    if (!to)
        return 0;
    to->value = stk_zalloc(STK_MAX_VALUES, sizeof *to->value);
    if (!to->value)
        return stk_fail_nomem(err, STK_MAX_VALUES * sizeof *to->value);
    to->category = 1;
    to->count = all;
    for (uint64_t k = 0; k < kinds; k++) {
        if (k >= STK_MAX_VALUES) {
            to->rest += list[k].count;
            continue;
        }
        STK_TRY(text_of(j, f, list[k].from, to->value[k].text, err));
        to->value[k].count = list[k].count;
        to->n_values++;
    }
    return 1;
}

static int by_value_count(const void *a, const void *b)
{
    const stk_feature_value *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* Codecs by name, the most frequent first. */
static int add_codecs(const job *j, const field *f, stk_feature *to, stk_error *err)
{
    to->category = 1;
    to->value = stk_zalloc(STK_MAX_VALUES, sizeof *to->value);
    if (!to->value)
        return stk_fail_nomem(err, STK_MAX_VALUES * sizeof *to->value);
    for (int c = 0; c < STK_VIDEO_CODECS; c++) {
        stk_feature_value *v = &to->value[to->n_values];

        for (uint64_t i = 0; i < j->rows; i++)
            v->count += f->column[CODEC][i] == c;
        if (!v->count)
            continue;
        snprintf(v->text, sizeof v->text, "%s", stk_video_codec_name((stk_video_codec)c));
        to->count += v->count;
        to->n_values++;
    }
    qsort(to->value, to->n_values, sizeof *to->value, by_value_count);
    return 0;
}

static int add_column(const job *j, const field *f, int c, stk_description *d, stk_error *err)
{
    char name[200];
    stk_feature *to;
    int rc = 0;

    snprintf(name, sizeof name, "%.140s.%s", f->name, column_name[c]);
    to = stk_description_add(d, name, strlen(name));
    if (!to)
        return 0; /* as many as there is room for */
    if (c == CODEC)
        rc = add_codecs(j, f, to, err);
    else
        stk_feature_numbers(to, f->column[c], j->rows);
    if (rc == 0 && !to->count && c != SIZE) {
        stk_free(to->value);
        to->value = NULL;
        d->n--;
    }
    return rc;
}

static int add_field(job *j, const field *f, found *list, stk_description *d, stk_error *err)
{
    int category = add_category(j, f, list, d, err), rc = category < 0 ? category : 0;

    for (int c = 0; c < COLUMNS && rc == 0; c++)
        if (c != VALUE || !category)
            rc = add_column(j, f, c, d, err);
    return rc;
}

static int find_alike(job *j, stk_description_counts *c, stk_error *err)
{
    uint64_t *group = stk_zalloc(j->n + 1, sizeof *group);
    int rc = group ? stk_same_groups(j->same, j->n, group, err)
                   : stk_fail_nomem(err, j->n * sizeof *group);

    for (uint64_t i = 0; rc == 0 && i < j->n; i++)
        c->duplicates += group[i] != i;
    if (rc == 0)
        rc = stk_look_groups(j->look, j->has_look, j->n, group, err);
    for (uint64_t i = 0; rc == 0 && i < j->n; i++)
        c->near_duplicates += group[i] != i;
    stk_free(group);
    return rc;
}

static int sum_up(job *j, stk_description *d, stk_error *err)
{
    found *list = stk_zalloc(j->rows + 1, sizeof *list);
    int rc = list ? find_alike(j, &d->counts, err) : stk_fail_nomem(err, j->rows * sizeof *list);

    for (uint32_t i = 0; rc == 0 && i < j->n_fields; i++)
        rc = add_field(j, &j->field[i], list, d, err);
    stk_free(list);
    d->counts.samples = j->n;
    d->counts.described = j->rows;
    d->counts.bytes = atomic_load(&j->bytes);
    d->counts.bad = atomic_load(&j->bad);
    return rc;
}

static int describe_all(job *j, stk_description *d, stk_error *err)
{
    STK_TRY(open_job(j, err));
    STK_TRY(stk_jobs_watch(j->o.num_workers, (j->n + RUN - 1) / RUN, describe_run, tick, j, err));
    return sum_up(j, d, err);
}

int stk_describe(stk_dataset *ds, const stk_describe_options *opt, stk_description **out,
                 stk_error *err)
{
    job *j = STK_NEW(job);
    int rc = j ? stk_description_open(out, err) : stk_fail_nomem(err, sizeof *j);

    if (!j)
        return rc;
    stk_options_take(&j->o, sizeof j->o, opt);
    j->ds = ds;
    if (rc == 0)
        rc = stk_dataset_arrays(ds) ? stk_describe_arrays(ds, &j->o, *out, err)
                                    : describe_all(j, *out, err);
    if (rc < 0)
        stk_description_close(out);
    close_job(j);
    stk_free(j);
    return rc;
}
