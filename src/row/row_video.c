/* SPDX-License-Identifier: Apache-2.0 */
/* row_video.c - a clip: which frames are drawn once, what is seen of them once, and each frame goes
 * through the passes of a picture into its place of the row.
 *
 * Where the field is a range of a file, its tables are read first (or its points are known), and
 * then only the packets of the clip.  Where a field has the clip's time, packets of a store are
 * asked for when that was read.  make() draws again; draws are addressed, so that they are the
 * same. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "codec/sound_decoders.h"
#include "kern/convert.h"
#include "kern/sample.h"
#include "kern/turn.h"
#include "kern/yuv.h"
#include "row/row_clip.h"
#include "row/sound_span.h"
#include "source/read_steps.h"
#include "video/points_cache.h"
#include "video/sessions.h"

typedef stk_row_clip clip;

/* ---- which frames ---- */

/* A follower shows what its leader shows. */
static void rng_of(const stk_row *x, stk_rng *rng)
{
    const stk_chain *c = stk_row_chain(x), *drawn = c->like.leader ? c->like.leader : c;
    const stk_address at = { .seed = x->plan->policy.seed,
                             .position = x->position,
                             .path = stk_path(drawn->clip->number),
                             .epoch = (uint32_t)x->batch->epoch,
                             .output = c->like.leader ? c->like.leader_output : x->output };

    stk_rng_at(rng, &at);
}

/* The numbers that another output has for this sample, before its own row is made. */
static int times_of(const stk_row *x, const stk_clip_how *how, double **out, stk_error *err)
{
    stk_row other = *x;
    const uint32_t output = how->at_output;
    const stk_chain *c = &x->plan->chains.chain[output];
    size_t size = how->n_at * sizeof(double);
    stk_bytes in = x->req->want[output].bytes;
    void *value = stk_scratch_get(&x->m->scratch, c->row_bytes + sizeof(uint64_t));
    stk_convert_fn convert;

    *out = stk_scratch_get(&x->m->scratch, size);
    if (!value || !*out)
        return stk_fail_nomem(err, size);
    other.output = output;
    if (x->req->want[output].unpack || c->extracts)
        STK_TRY(stk_row_extract_more(&other, &in, err));
    STK_TRY(stk_row_parse(&other, in, value, err));
    convert = stk_convert_find(stk_cpu_level(), c->spec.dtype, STK_F64);
    if (c->spec.dtype == STK_F64)
        memcpy(*out, value, size);
    else if (!convert || convert(*out, value, how->n_at))
        return stk_fail(err, STK_ECORRUPT, "at=: its number is no time");
    for (uint32_t i = 0; i < how->n_at; i++)
        if (!((*out)[i] > -1e9 && (*out)[i] < 1e9))
            return stk_fail(err, STK_ECORRUPT, "at=: a time of %g seconds", (*out)[i]);
    return 0;
}

static void sort_once(clip *c)
{
    uint32_t n = 0;

    memcpy(c->wanted, c->frame, c->how->frames * sizeof *c->frame);
    for (uint32_t i = 1; i < c->how->frames; i++) /* nearly in order */
        for (uint32_t k = i; k && c->wanted[k - 1] > c->wanted[k]; k--) {
            uint64_t one = c->wanted[k];

            c->wanted[k] = c->wanted[k - 1];
            c->wanted[k - 1] = one;
        }
    for (uint32_t i = 0; i < c->how->frames; i++)
        if (!n || c->wanted[i] != c->wanted[n - 1])
            c->wanted[n++] = c->wanted[i];
    c->n_wanted = n;
}

/* c->points are known. */
int stk_row_clip_pick(clip *c, stk_scratch *scratch, stk_error *err)
{
    size_t size = 2 * (size_t)c->how->frames * sizeof *c->frame;
    stk_clip_draw draw = { .at = NULL };
    double *at = NULL;

    STK_TRY(stk_video_points_open(&c->h, &c->points, err));
    c->frame = stk_scratch_get(scratch, size);
    if (!c->frame)
        return stk_fail_nomem(err, size);
    c->wanted = c->frame + c->how->frames;
    rng_of(c->x, &draw.rng);
    if (c->how->at[0])
        STK_TRY(times_of(c->x, c->how, &at, err));
    draw.at = at;
    STK_TRY(stk_clip_pick(c->how, &c->h, &draw, scratch, c->frame, err));
    sort_once(c);
    return 0;
}

/* From when its first frame is shown until its last one is over: as long as clips with this stride
 * or rate are that follow each other; no longer than the video. */
static int span_of(const clip *c, stk_scratch *scratch, stk_clip_span *out, stk_error *err)
{
    const stk_clip_how *how = c->how;
    const stk_video_head *h = &c->h;
    int listed = how->n_offsets || how->n_at > 1 || how->start >= STK_START_UNIFORM,
        lasting = listed || how->keyframes || how->fps > 0;
    uint64_t next = c->wanted[c->n_wanted - 1] + (lasting ? 1 : how->stride);
    double unit = (double)h->num / h->den, last;
    unsigned mark = stk_scratch_mark(scratch);
    int64_t from, to = h->end;

    STK_TRY(stk_clip_time(h, listed ? c->wanted[0] : c->frame[0], scratch, &from, err));
    stk_scratch_rewind(scratch, mark);
    if (next < h->shown)
        STK_TRY(stk_clip_time(h, next, scratch, &to, err));
    stk_scratch_rewind(scratch, mark);
    last = (double)(to - from) * unit;
    if (how->fps > 0 && !listed) {
        last = (double)(h->end - from) * unit;
        last = how->frames / how->fps < last ? how->frames / how->fps : last;
    }
    out->timed = !c->untimed;
    out->from = (double)from * unit;
    out->seconds = last > 0 ? last : 0;
    return 0;
}

int stk_row_clip_note_span(const clip *c, stk_error *err)
{
    stk_row *x = c->x;
    uint32_t n = x->plan->chains.n_out;
    stk_clip_span *s;

    if (!stk_row_chain(x)->like.heard)
        return 0;
    if (!x->m->clip_spans)
        x->m->clip_spans = stk_zalloc(n, sizeof *x->m->clip_spans);
    if (!x->m->clip_spans)
        return stk_fail_nomem(err, n * sizeof *x->m->clip_spans);
    s = &x->m->clip_spans[x->output];
    s->row = 0;
    STK_TRY(span_of(c, &x->m->scratch, s, err));
    s->row = stk_schedule_id(x->schedule, &x->where) + 1;
    return 0;
}

static const stk_clip_how *how_of(const stk_row *x)
{
    return stk_row_chain(x)->clip->state;
}

/* ---- before it is read ---- */

typedef struct reads { /* the field, while it is read */
    stk_wanted *want;
    stk_scratch *scratch;
    unsigned mark;
    int keep;       /* what is read first stays, ... */
    stk_bytes head; /* ... as tables are asked for box by box */
} reads;

/* Valid until the next call. */
static int read_range(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    reads *r = cookie;
    uint8_t *dst;

    if (at <= r->head.len && len <= r->head.len - at && len) {
        *out = (stk_bytes){ r->head.data + at, len };
        return 0;
    }
    stk_scratch_rewind(r->scratch, r->mark);
    dst = stk_scratch_get(r->scratch, len + 1);
    if (!dst)
        return stk_fail_nomem(err, len);
    *out = (stk_bytes){ dst, len };
    STK_TRY(stk_row_read_field(r->want, at, len, dst, err));
    if (r->keep && !at) {
        r->keep = 0;
        r->head = *out;
        r->mark = stk_scratch_mark(r->scratch);
    }
    return 0;
}

static int fill_step(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    return stk_row_read_field(cookie, at, len, dst, err);
}

#define HEAD STK_POINTS_HEAD

typedef struct tracks {               /* who reads the tables of a field */
    const stk_decoder *video, *sound; /* sound: NULL: its points are not wanted */
    void *video_ctx, *sound_ctx;
} tracks;

/* Of a store the tables of sound are read only where they are together with those of the video. */
static int find_tracks(stk_row *x, const stk_media_reader *read, tracks *out, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    stk_bytes head;
    int rc;

    STK_TRY(read->read(read->cookie, 0, read->size < HEAD ? (size_t)read->size : HEAD, &head, err));
    rc = stk_decoders_find(&x->m->decoders, head, &out->video, &out->video_ctx, err);
    if (rc || !stk_video_is(out->video))
        return STK_ECORRUPT;
    rc = stk_row_chain(x)->like.heard
             ? stk_decoders_find_sound(&x->m->decoders, head, &out->sound, &out->sound_ctx, NULL)
             : STK_END;
    if (rc || !(out->sound->can & STK_DECODER_SOUND_TRACK) ||
        (want->file->source->can & STK_SOURCE_REMOTE && !out->sound->measure))
        out->sound = NULL;
    return 0;
}

/* By what its tables say, to be shared by all that want this field. */
static int make_points(stk_row *x, uint64_t key, reads *r, const stk_media_reader *read,
                       stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_bytes points, sound = { 0 };
    tracks t;

    STK_TRY(find_tracks(x, read, &t, err));
    STK_TRY(t.video->points(t.video_ctx, read, &x->m->scratch, &points, err));
    r->mark = stk_scratch_mark(&x->m->scratch);
    if (t.sound && t.sound->points(t.sound_ctx, read, &x->m->scratch, &sound, NULL) == 0)
        STK_TRY(stk_video_points_join(points, sound, &x->m->scratch, &points, err));
    want->hint_shared = stk_points_cache_put(how_of(x)->points, key, points);
    return want->hint_shared ? 0 : stk_fail_nomem(err, points.len);
}

/* Of a file without points: its tables are read now, which is much less than all of it. */
static int read_points(stk_row *x, uint64_t key, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    reads r = { want, &x->m->scratch, stk_scratch_mark(&x->m->scratch), .keep = 1 };
    stk_media_reader read = { &r, want->place.len, read_range };
    stk_read_steps steps = { .fill = fill_step, .cookie = want };
    int rc;

    if (want->file->source->can & STK_SOURCE_REMOTE) {
        stk_read_steps_begin(&steps, read.size);
        read.cookie = &steps;
        read.read = stk_read_steps_read;
    }
    rc = make_points(x, key, &r, &read, err);
    stk_read_steps_fini(&steps);
    return rc;
}

/* A smaller field of a store without points is read whole: that is one request, which other work
 * does not wait for. */
#define SMALL_FIELD ((uint64_t)4 << 20)

static uint64_t key_of(const stk_wanted *want)
{
    return stk_points_key_at(stk_points_key(want->file, want->place.name), want->place.offset,
                             want->place.len);
}

/* 1: its points are known: those that the index has, or that were kept, or read now.  A file of a
 * store is read for them if they can be kept. */
static int know_points(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    uint64_t key;

    if (want->hint.data)
        return 1;
    key = key_of(want);
    want->hint_shared = stk_points_cache_get(how_of(x)->points, key);
    if (!want->hint_shared) {
        if (want->file->source->can & STK_SOURCE_REMOTE &&
            (!key || (!x->plan->chains.open_root[x->output] && want->place.len < SMALL_FIELD)))
            return 0;
        if (read_points(x, key, NULL) < 0)
            return 0;
    }
    want->hint = (stk_bytes){ want->hint_shared->data, want->hint_shared->size };
    return 1;
}

/* ---- points that the index has ---- */

/* What is known of the field, in which `c` stays where it is. */
static void use_points(clip *c)
{
    const stk_wanted *want = &c->x->req->want[c->x->output];
    int in_pieces = want->hint.len == HEAD && !want->hint_shared;

    c->more = (stk_row_points){ .x = c->x };
    c->points = (stk_media_points){ .head = want->hint,
                                    .slice = in_pieces ? stk_row_points_more : NULL,
                                    .cookie = &c->more };
}

static void forget_points(stk_wanted *want)
{
    stk_buffer_unref(want->hint_shared);
    want->hint_shared = NULL;
}

int stk_row_clip_in_parts(const stk_row *x)
{
    const stk_request *r = x->req;
    const stk_wanted *want = &r->want[x->output];

    return !x->plan->rows.whole[x->output] && !r->row.whole && !want->unpack &&
           !stk_row_chain(x)->extracts && !want->cached_bytes.data &&
           stk_request_has_range(r, x->output) && want->place.len > HEAD;
}

/* Of a clip whose time has to be read first, this much is read of a local file; its packets are
 * when the time is there. */
#define LATER 1u

/* ... which it is, if the field that has it is in the index. */
int stk_row_clip_knows_time(stk_row *x)
{
    const stk_clip_how *how = how_of(x);
    stk_wanted *at = &x->req->want[how->at_output];

    if (!how->at[0])
        return 1;
    at->bytes = at->place.here;
    return at->bytes.data != NULL;
}

void stk_row_clip_begin(clip *c, stk_row *x)
{
    *c = (clip){ .x = x, .how = how_of(x), .spec = &stk_row_chain(x)->spec };
}

/* Decoders that go on from window to window read for themselves; of a store, packets are asked for
 * before. */
static stk_sessions *sessions_of(const stk_row *x)
{
    stk_sessions **all = x->plan->rows.sessions;

    return all && !(x->req->want[x->output].file->source->can & STK_SOURCE_REMOTE) ? all[x->output]
                                                                                   : NULL;
}

/* Which frames it has, and so when it is shown.  0: its points do not say. */
static int know_frames(clip *c)
{
    stk_row *x = c->x;
    const stk_wanted *want = &x->req->want[x->output];

    return !stk_decoders_of_points(&x->m->decoders, want->hint, &c->decoder, &c->ctx, NULL) &&
           stk_video_is(c->decoder) && stk_row_clip_pick(c, &x->m->scratch, NULL) == 0 &&
           c->h.field == want->place.len && stk_row_clip_note_span(c, NULL) == 0;
}

/* Which bytes hold the clip.  0: its points do not say. */
static int know_ranges(clip *c, stk_ranged *g)
{
    const stk_wanted *want = &c->x->req->want[c->x->output];
    stk_media_ask ask = { 0 };

    if (!know_frames(c))
        return 0;
    ask.frame = c->wanted;
    ask.n_frames = c->n_wanted;
    return c->decoder->ranges(&c->points, &ask, UINT64_MAX, g->range, &g->n, NULL) == 0 &&
           stk_row_ranges_fit(g, want->place.len);
}

/* Of the same sample, in another epoch. */
static void forget_span(const stk_row *x)
{
    if (stk_row_chain(x)->like.heard && x->m->clip_spans)
        x->m->clip_spans[x->output].row = 0;
}

void stk_row_clip_know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_ranged *g = &x->req->ranged[x->output];
    clip c;

    forget_points(want);
    forget_span(x);
    stk_scratch_reset(&x->m->scratch);
    if (stk_row_frames_are(x)) {
        stk_row_frames_know(x);
        return;
    }
    stk_row_clip_begin(&c, x);
    stk_picture_know_some(x, HEAD);
    if (!stk_row_clip_in_parts(x) || !know_points(x))
        return;
    use_points(&c);
    if (sessions_of(x) || !stk_row_clip_knows_time(x)) {
        if (stk_row_chain(x)->like.heard && stk_row_clip_knows_time(x))
            (void)know_frames(&c);
        if (want->file->source->can & STK_SOURCE_REMOTE) {
            stk_request_defer(x->req, x->output);
        } else {
            g->range[0] = (stk_media_range){ 0, LATER };
            g->n = 1;
        }
        return;
    }
    if (know_ranges(&c, g))
        return;
    g->n = 0; /* the field is read whole, and says itself what it has */
    want->hint = (stk_bytes){ 0 };
}

/* ---- frames ---- */

#define BAND_BYTES 65536u

typedef struct planes { /* a frame on its way to pixels */
    stk_cpu level;
    stk_yuv yuv;
    const stk_planes *p;
    uint16_t *room;
    uint32_t *dst;
    stk_pixel_rows rows;
} planes;

static void make_rows(void *cookie, const stk_rect *need, stk_pixels *out)
{
    planes *f = cookie;

    stk_yuv_rgbx(f->level, &f->yuv, f->p, need, f->room, f->dst);
    *out = (stk_pixels){ .data = (uint8_t *)f->dst, .stride = (size_t)need->w * 4, .area = *need };
}

/* 1: the frame is seen once, and from the top down: pixels are made as they are needed. */
static int in_rows(const clip *c)
{
    return c->turn == 1 && stk_row_views(c->x) == 1 && !c->d->view->border &&
           stk_row_chain(c->x)->spec.picture.mode != STK_MODE_GRAY16;
}

/* The frame's pixels that are seen, upright. */
static int pixels_of(clip *c, const stk_planes *p, planes *f, stk_pixels *out, stk_error *err)
{
    const stk_rect need = stk_turn_rect(c->turn, c->filed, &c->need);
    stk_scratch *scratch = &c->x->m->scratch;
    uint32_t most = BAND_BYTES / 4 / need.w;

    *out = (stk_pixels){ .data = (uint8_t *)(uintptr_t)p->data[0],
                         .stride = p->stride[0],
                         .area = p->area };
    if (p->kind != STK_PLANES_RGBX) {
        f->level = stk_cpu_level();
        STK_TRY(stk_yuv_init(&f->yuv, p, err));
        most = !in_rows(c) || most > need.h ? need.h : most + !most;
        f->p = p;
        f->room = stk_scratch_get(scratch, 2 * STK_YUV_ROOM(need.w) * sizeof *f->room);
        f->dst = stk_scratch_get(scratch, (size_t)need.w * most * 4);
        f->rows = (stk_pixel_rows){ f, most, make_rows };
        if (!f->room || !f->dst)
            return stk_fail_nomem(err, (size_t)need.w * most * 4);
        if (in_rows(c))
            *out = (stk_pixels){ .area = need, .rows = &f->rows };
        else
            make_rows(f, &need, out);
    }
    return c->turn == 1 ? 0 : stk_turn_pixels(c->turn, c->filed, &c->need, scratch, out, err);
}

/* Channels first, then frames: each channel of a frame to its place. */
static void put_apart(const clip *c, uint8_t *row, uint32_t i, size_t bytes)
{
    uint32_t channels = stk_row_chain(c->x)->spec.picture.mode ? 1 : 3;
    size_t plane = bytes / channels;

    for (uint32_t k = 0; k < channels; k++)
        memcpy(row + ((size_t)k * c->how->frames + i) * plane, c->one + k * plane, plane);
}

/* Bytes of one picture of the row. */
static size_t picture_bytes(const stk_chain *chain)
{
    return chain->row_bytes / stk_spec_times(&chain->spec);
}

/* One frame of one view, into all its places in the clip. */
static int place(clip *c, uint32_t view, uint64_t number, stk_pixels *px, stk_error *err)
{
    size_t bytes = c->bytes, first = SIZE_MAX;
    uint8_t *row = c->dst + (size_t)view * c->how->frames * c->step;

    for (uint32_t i = 0; i < c->how->frames; i++) {
        if (c->frame[i] != number)
            continue;
        if (first == SIZE_MAX)
            STK_TRY(stk_picture_array(c->x, &c->d[view], px, c->spec,
                                      c->one ? c->one : row + i * c->step, err));
        if (c->one)
            put_apart(c, row, i, bytes);
        else if (first != SIZE_MAX)
            memcpy(row + i * c->step, row + first * c->step, bytes);
        first = i;
    }
    return 0;
}

/* Which frame it is and when it is shown, in all its places in the clip. */
void stk_row_clip_note(const clip *c, uint32_t wanted, int64_t time_us)
{
    const uint64_t number = c->wanted[wanted];
    const double seconds = c->untimed ? NAN : (double)time_us / 1e6;
    stk_frame_at *at = c->x->batch->out[c->x->output].frames + (size_t)c->x->row * c->how->frames;

    for (uint32_t i = 0; i < c->how->frames; i++)
        if (c->frame[i] == number)
            at[i] = (stk_frame_at){ (int64_t)number, seconds };
}

int stk_row_clip_frame(void *cookie, uint32_t i, int64_t time_us, const stk_planes *p,
                       stk_error *err)
{
    clip *c = cookie;
    stk_scratch *scratch = &c->x->m->scratch;
    unsigned mark = stk_scratch_mark(scratch);
    uint64_t from = stk_ticks();
    stk_pixels px = { 0 };
    planes f;
    int rc = 0;

    stk_row_clip_note(c, i, time_us);
    if (c->need.w && c->need.h)
        rc = pixels_of(c, p, &f, &px, err);
    for (uint32_t v = 0; v < stk_row_views(c->x) && rc == 0; v++) {
        unsigned here = stk_scratch_mark(scratch);

        rc = place(c, v, c->wanted[i], &px, err);
        stk_scratch_rewind(scratch, here);
    }
    stk_scratch_rewind(scratch, mark);
    c->ticks += stk_ticks() - from;
    return rc;
}

/* ---- the row ---- */

static int open_clip(clip *c, stk_media_part *all, stk_error *err)
{
    stk_row *x = c->x;
    const stk_ranged *g = &x->req->ranged[x->output];
    stk_wanted *want = &x->req->want[x->output];
    stk_media_info info;
    stk_bytes in;
    int rc;

    stk_scratch_reset(&x->m->scratch);
    stk_does_next(x->m, STK_STAGE_DECODE);
    use_points(c);
    if (g->n) {
        rc = stk_decoders_of_points(&x->m->decoders, want->hint, &c->decoder, &c->ctx, err);
        if (rc == 0)
            stk_video_forget(c->ctx); /* the field before this one may have been read whole */
        return rc;
    }
    STK_TRY(stk_row_input(x, &in, err));
    rc = stk_decoders_find(&x->m->decoders, in, &c->decoder, &c->ctx, err);
    if (rc < 0)
        return rc;
    if (rc == STK_END || !stk_video_is(c->decoder))
        return stk_fail(err, STK_ECORRUPT,
                        rc == STK_END
                            ? "these %zu bytes are not a video that is read: MP4, MOV, Matroska "
                              "and WebM are"
                            : "these %zu bytes are a picture, not a video: write image in place of "
                              "video",
                        in.len);
    if (in.data != want->bytes.data || in.len != want->bytes.len)
        c->points = (stk_media_points){ 0 }; /* of the field as it is stored */
    *all = (stk_media_part){ 0, in };
    STK_TRY(c->decoder->header(c->ctx, in, &c->points, &info, err));
    if (stk_video_made(c->ctx).head.len)
        c->points = stk_video_made(c->ctx);
    return 0;
}

/* The packets of a clip that know() could not tell, from a local file. */
static int read_later(clip *c, stk_error *err)
{
    stk_wanted *want = &c->x->req->want[c->x->output];
    stk_ranged g = { 0 };

    STK_TRY(c->decoder->ranges(&c->points, &c->ask, UINT64_MAX, g.range, &g.n, err));
    if (!g.n || !stk_row_ranges_fit(&g, want->place.len))
        return stk_fail(err, STK_ESTALE, "its points are of another video");
    for (uint32_t i = 0; i < g.n; i++) {
        reads r = { want, &c->x->m->scratch, stk_scratch_mark(&c->x->m->scratch) };

        c->part[i].offset = g.range[i].offset;
        STK_TRY(read_range(&r, g.range[i].offset, (size_t)g.range[i].len, &c->part[i].bytes, err));
        c->x->req->ranged[c->x->output].later += g.range[i].len;
    }
    c->job.n_parts = g.n;
    return 0;
}

/* What is seen of every frame. */
int stk_row_clip_look(clip *c, stk_error *err)
{
    stk_row *x = c->x;
    size_t size = stk_row_views(x) * sizeof *c->d;

    c->filed = (stk_image_info){ c->h.width, c->h.height };
    c->turn = stk_row_chain(x)->spec.picture.exif ? c->h.turn : 1;
    STK_TRY(stk_picture_check(x, &c->filed, err));
    STK_TRY(stk_picture_note_size(x, &c->filed, &c->turn, &c->upright, err));
    c->d = stk_scratch_get(&x->m->scratch, size);
    if (!c->d)
        return stk_fail_nomem(err, size);
    STK_TRY(stk_row_clip_note_span(c, err));
    for (uint32_t i = 0; i < stk_row_views(x); i++) {
        stk_rect one;

        STK_TRY(stk_picture_draw(x, &c->upright, i, &c->d[i], err));
        stk_sample_need(c->d[i].view, &one);
        stk_rect_widen(&c->need, &one);
    }
    return 0;
}

int stk_row_clip_open(clip *c, stk_row *x, stk_error *err)
{
    const stk_ranged *g = &x->req->ranged[x->output];

    assert(stk_row_chain(x)->row_bytes); /* the plan lets no clip of unknown size in */
    stk_row_clip_begin(c, x);
    if (stk_row_frames_are(x))
        return stk_row_frames_open(c, err);
    STK_TRY(open_clip(c, &c->part[0], err));
    STK_TRY(stk_row_clip_pick(c, &x->m->scratch, err));
    STK_TRY(stk_row_clip_look(c, err));
    c->ask = (stk_media_ask){ .frame = c->wanted, .n_frames = c->n_wanted };
    c->job = (stk_media_job){ .points = &c->points,
                              .ask = &c->ask,
                              .part = g->n ? g->part : c->part,
                              .n_parts = g->n ? g->n : 1,
                              .scratch = &x->m->scratch };
    c->later = g->n == 1 && g->range[0].len == LATER;
    if (c->later) {
        c->job.part = c->part;
        c->job.n_parts = 0;
    }
    if (c->later && !sessions_of(x))
        STK_TRY(read_later(c, err));
    return 0;
}

/* ---- in order ---- */

static int read_there(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    const clip *c = cookie;

    STK_TRY(stk_row_read_field(&c->x->req->want[c->x->output], at, len, dst, err));
    c->x->req->ranged[c->x->output].later += len;
    return 0;
}

/* By a decoder that stands where the window before ended.  STK_END: not so. */
static int decode_in_order(clip *c, const stk_media_sink *sink, stk_error *err)
{
    stk_wanted *want = &c->x->req->want[c->x->output];
    const stk_session_job job = { .key = key_of(want),
                                  .points = &c->points,
                                  .ask = &c->ask,
                                  .frames = c->how->frames,
                                  .stride = c->how->stride,
                                  .step = c->how->step,
                                  .most = c->how->timeout,
                                  .read = read_there,
                                  .cookie = c,
                                  .sink = sink,
                                  .scratch = &c->x->m->scratch };
    int rc = stk_sessions_decode(sessions_of(c->x), &job, err);

    if (rc != STK_END)
        return rc;
    STK_TRY(read_later(c, err));
    return STK_END;
}

int stk_row_clip_decode(clip *c, stk_row_clip_fn frame, stk_error *err)
{
    const stk_media_sink sink = { .cookie = c, .frame = frame };
    int rc = STK_END;

    c->job.sink = &sink;
    if (c->later && !c->job.n_parts)
        rc = decode_in_order(c, &sink, err);
    if (c->frames) {
        rc = stk_row_frames_decode(c, frame, err);
    } else if (rc == STK_END) {
        stk_video_limit(c->ctx, c->how->timeout);
        rc = c->decoder->decode(c->ctx, &c->job, err);
    }
    c->job.sink = NULL;
    stk_stage_time_row_less(c->x->m, STK_STAGE_DECODE, c->ticks);
    stk_stage_time_row(c->x->m, STK_STAGE_RESAMPLE);
    return rc;
}

int stk_row_clip_make(clip *c, stk_error *err)
{
    return stk_row_clip_decode(c, stk_row_clip_frame, err);
}

static int make(stk_row *x, stk_error *err)
{
    const stk_chain *chain = stk_row_chain(x);
    clip c;

    STK_TRY(stk_row_clip_open(&c, x, err));
    c.bytes = c.step = picture_bytes(chain);
    if (chain->spec.picture.channels_first) {
        c.one = stk_scratch_get(&x->m->scratch, c.bytes);
        if (!c.one)
            return stk_fail_nomem(err, c.bytes);
    }
    c.dst = stk_batch_place(x->batch, x->output, x->row);
    return stk_row_clip_make(&c, err);
}

const stk_row_from stk_from_clip = { .name = "clip", .know = stk_row_clip_know };
const stk_row_work stk_work_clip = { .name = "clip", .make = make };
