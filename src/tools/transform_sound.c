/* SPDX-License-Identifier: Apache-2.0 */
/* transform_sound.c - a chain's steps on recordings in memory.
 *
 * A recording's samples take the way that those of a decoder take in a loader (row/sound_span.c),
 * so that a row is the loader's of a WAV file of the same floats.  Rows are made in scratch memory:
 * how long they are is known then, and they are copied to where they stay.  Where the chain says
 * how long rows are, all of them are one block of memory. */
#include "tools/transform_model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/jobs.h"
#include "codec/sound_points.h"
#include "op/sound.h"
#include "row/sound_span.h"

#define MAX_SAMPLES UINT64_C(178956970) /* of a row, as the loader's default of max_pixels */
#define ALONE UINT64_C(200000)          /* so few samples are done without threads */
#define BLOCK (UINT64_C(1) << 20)       /* samples that are checked and copied at a time */

/* ---- plan ---- */

static int needs_loader(const char *what, const char *field, stk_error *err)
{
    return stk_fail(err, STK_EINVAL,
                    "%s: the field %s says it, which only a loader knows: give a transform a "
                    "number",
                    what, field);
}

static int check_step(const stk_step *s, stk_error *err)
{
    const stk_part_fields none = { { NULL, NULL } };
    stk_part_fields named;

    if (s->codec && !(s->codec->can & (STK_CODEC_SOUND | STK_CODEC_OPENS)) && !s->codec->extract)
        return stk_fail(err, STK_EINVAL, "a transform takes samples of sound: leave `%s` away",
                        s->codec->name);
    if (s->codec && s->codec->can & STK_CODEC_SOUND &&
        ((const stk_sound *)s->state)->channel == STK_CHANNEL_FIELD)
        return needs_loader("sound(channel=)", ((const stk_sound *)s->state)->field, err);
    named = s->op && s->op->can & STK_OP_PART ? stk_part_named(s->state) : none;
    if (named.name[0] || named.name[1])
        return needs_loader("part", named.name[0] ? named.name[0] : named.name[1], err);
    return 0;
}

int stk_transform_check_sound(const stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < c->n_steps; i++)
        STK_TRY(check_step(&c->step[i], err));
    if (c->like.how || c->pack || c->tokens || c->spec.n_leads)
        return stk_fail(err, STK_ENOTSUP,
                        "a transform makes one row of each recording, by itself: like, pack and "
                        "views work in a loader");
    return 0;
}

/* ---- one recording ---- */

typedef struct made { /* rows where they stay */
    stk_buffer *all;  /* NULL: each has its own */
    size_t row_bytes; /* of `all` */
    stk_tensor *out;
} made;

typedef struct work {
    const stk_transform *t;
    const stk_recording *in;
    uint64_t n, share; /* recordings a job */
    uint32_t epoch;
    made made;
} work;

/* The samples that the span needs, a block at a time, as a decoder would give them. */
static int give(const stk_recording *r, stk_sound_taker *taker, stk_scratch *scratch,
                stk_error *err)
{
    const stk_sound_span *s = taker->s;
    const stk_media_ask ask = { .from = s->in_from, .to = s->in_to };
    stk_lane lane = STK_LANE_PLAIN;
    const stk_media_sink sink = { .cookie = taker, .sound = stk_sound_take, .lane = &lane };
    const stk_media_job job = { .ask = &ask, .sink = &sink, .scratch = scratch };
    float *channel[STK_SOUND_CHANNELS];

    for (uint64_t at = s->in_from; at < s->in_to; at += BLOCK) {
        uint64_t n = s->in_to - at < BLOCK ? s->in_to - at : BLOCK;

        for (uint32_t c = 0; c < r->channels; c++)
            channel[c] = (float *)(uintptr_t)((const char *)r->data + (int64_t)c * r->step_c) + at;
        STK_TRY(stk_sound_give_floats(
            "array", &job, &(stk_sound_block){ at, channel, (uint32_t)n, r->channels }, err));
    }
    return 0;
}

static int begin(const work *w, const stk_recording *r, stk_transform_room *room, stk_sound_draw *d,
                 stk_error *err)
{
    const stk_transform *t = w->t;
    const stk_step *sound = t->chain.sound;

    STK_TRY(stk_sound_check("the array", r->rate, r->channels, err));
    if (!room->sound)
        STK_TRY(sound->codec->open(sound->state, &room->sound, err));
    *d = (stk_sound_draw){
        .chain = &t->chain,
        .at = { .seed = t->seed, .position = r->position, .epoch = w->epoch, .output = t->output },
        .sample = STK_NO_SAMPLE,
        .most = MAX_SAMPLES,
        .ctx = room->sound
    };
    return 0;
}

static int run_steps(const stk_sound_draw *d, stk_scratch *scratch, stk_value_row *row,
                     stk_error *err)
{
    const stk_chain *c = d->chain;

    for (const stk_step *s = c->step; s < c->step + c->n_steps; s++) {
        stk_rng rng;

        if (!s->op || !s->op->value || s->early)
            continue;
        stk_sound_rng(d, s, &rng);
        STK_TRY(s->op->value(s->state, row, &rng, scratch, err));
    }
    return 0;
}

static void describe_row(const stk_value_row *row, stk_tensor *out)
{
    int64_t stride = 1;

    *out = (stk_tensor){ .dtype = row->dtype, .ndim = row->ndim };
    for (uint32_t i = row->ndim; i-- > 0;) {
        out->shape[i] = row->shape[i];
        out->strides[i] = stride;
        stride *= row->shape[i];
    }
}

static int bytes_of(const stk_value_row *row, size_t *out, stk_error *err)
{
    size_t n = stk_dtype_size(row->dtype);

    if (!n || row->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL, "a step gave %u dimensions (at most %d) of type %s",
                        row->ndim, STK_MAX_DIMS - 1, stk_dtype_name(row->dtype));
    for (uint32_t i = 0; i < row->ndim; i++)
        if (row->shape[i] < 0 || __builtin_mul_overflow(n, (size_t)row->shape[i], &n))
            return stk_fail(err, STK_EINVAL, "a step gave a length of %" PRId64, row->shape[i]);
    *out = n;
    return 0;
}

/* The row to where it stays. */
static int keep(const made *m, uint64_t i, const stk_value_row *row, stk_error *err)
{
    stk_tensor *out = &m->out[i];
    size_t bytes = 0;

    STK_TRY(bytes_of(row, &bytes, err));
    if (m->all && bytes != m->row_bytes)
        return stk_fail(err, STK_EINVAL, "its steps gave %zu bytes, and their plan says %zu", bytes,
                        m->row_bytes);
    describe_row(row, out);
    if (m->all) {
        stk_buffer_ref(m->all);
        out->buffer = m->all;
        out->data = (char *)m->all->data + (size_t)i * bytes;
    } else {
        out->buffer = stk_buffer_new(bytes ? bytes : 1);
        if (!out->buffer)
            return stk_fail_nomem(err, bytes);
        out->data = out->buffer->data;
    }
    if (bytes)
        memcpy(out->data, row->data, bytes);
    return 0;
}

static int make(const work *w, uint64_t i, stk_transform_room *room, stk_error *err)
{
    const stk_recording *r = &w->in[i];
    stk_sound_taker taker;
    stk_sound_span span = { .info = stk_sound_info(r->rate, r->channels, r->samples) };
    stk_sound_draw d;
    stk_value_row row;

    STK_TRY(begin(w, r, room, &d, err));
    STK_TRY(stk_sound_span_draw(&span, &d, err));
    stk_scratch_reset(&room->scratch);
    STK_TRY(stk_sound_taker_init(&taker, &span, &room->scratch, err));
    STK_TRY(give(r, &taker, &room->scratch, err));
    STK_TRY(stk_sound_span_row(&taker, &d, &room->scratch, &row, err));
    STK_TRY(run_steps(&d, &room->scratch, &row, err));
    return keep(&w->made, i, &row, err);
}

/* ---- all of them ---- */

static int run_share(void *cookie, uint64_t job, stk_error *err)
{
    const work *w = cookie;
    uint64_t end = (job + 1) * w->share < w->n ? (job + 1) * w->share : w->n;
    stk_transform_room room;
    stk_error why = { 0 };
    int rc = 0;

    stk_transform_room_take(w->t, &room);
    for (uint64_t i = job * w->share; rc == 0 && i < end; i++) {
        rc = make(w, i, &room, &why);
        if (rc < 0)
            stk_fail(err, rc, "recording %" PRIu64 ": %.200s", i, why.message);
    }
    stk_transform_room_give(w->t, &room);
    return rc;
}

/* Rows of one length are one block. */
static int room_for_all(const stk_chain *c, uint64_t n, made *m, stk_error *err)
{
    size_t bytes;

    if (c->spec.out != STK_OUT_DENSE || !c->row_bytes || !n)
        return 0;
    m->row_bytes = c->row_bytes;
    if (__builtin_mul_overflow(m->row_bytes, (size_t)n, &bytes) || bytes > SIZE_MAX / 2)
        return stk_fail_nomem(err, SIZE_MAX);
    m->all = stk_buffer_new(bytes);
    return m->all ? 0 : stk_fail_nomem(err, bytes);
}

int stk_transform_run_sound(const stk_transform *t, uint32_t epoch, const stk_recording *in,
                            uint64_t n, stk_tensor *out, stk_error *err)
{
    work w = { .t = t, .in = in, .n = n, .epoch = epoch, .made = { .out = out } };
    uint32_t workers = t->workers;
    uint64_t samples = 0;
    int rc;

    if (!t->chain.sound)
        return stk_fail(err, STK_EINVAL, "this transform takes pictures: stk_transform_run()");
    memset(out, 0, (size_t)n * sizeof *out);
    for (uint64_t i = 0; i < n && samples < ALONE; i++)
        samples += in[i].samples < ALONE ? in[i].samples : ALONE;
    if (samples < ALONE)
        workers = 1;
    w.share = n / (workers * STK_TRANSFORM_SHARES) + 1;
    rc = room_for_all(&t->chain, n, &w.made, err);
    if (rc == 0)
        rc = stk_jobs_run(workers, (n + w.share - 1) / w.share, run_share, &w, err);
    for (uint64_t i = 0; rc < 0 && i < n; i++) {
        if (out[i].buffer)
            stk_buffer_unref(out[i].buffer);
        out[i] = (stk_tensor){ 0 };
    }
    if (w.made.all)
        stk_buffer_unref(w.made.all);
    return rc;
}
