/* SPDX-License-Identifier: Apache-2.0 */
/* video.c - videos through the seam of decoders: a decoder per container, which share all but
 * reading its tables.
 *
 * A frame is known by the number of its packet, from the table through the library and back, so
 * that another frame can't stand in for it.  Where a wanted frame does not come, or a packet that
 * it may depend on is damaged, decoding begins again at an earlier keyframe: some streams have
 * keyframes from which on pictures become exact only after a while.  If that does not help, the
 * sample is bad. */
#include <string.h>

#include "codec/codec.h"
#include "codec/decoders.h"
#include "video/clip.h"
#include "video/h264.h"
#include "video/sound_track.h"
#include "video/vdec.h"
#include "video/video.h"

#define MP4_TAG '4'
#define MATROSKA_TAG 'K'

/* Keyframes that decoding begins earlier, at most, where it fails; keyframes that are none are
 * passed, however many there are. */
#define BACK 2u

enum { LIBAV, DAV1D, MJPEG, LIBS };

typedef struct video_ctx { /* of one worker */
    stk_video_track track;
    uint8_t *made; /* points of the bytes that header() saw */
    size_t made_len, made_cap;
    void *lib[LIBS];
    const stk_vdec_ops *ops; /* of the stream that is open */
    void *stream;
    stk_video_codec codec; /* its ... */
    uint32_t width, height;
    uint8_t *setup;
    size_t setup_len;
    stk_h264 h264; /* of that setup ... */
    int copies;    /* ... if frames that copy can stand in for others */
    double most;   /* seconds of CPU time that a clip may take; 0: by its packets */
} video_ctx;

/* ---- contexts ---- */

static const stk_vdec_ops *const libs[LIBS] = { [LIBAV] = &stk_vdec_libav,
#if STK_HAVE_DAV1D
                                                [DAV1D] = &stk_vdec_dav1d,
#endif
                                                [MJPEG] = &stk_vdec_mjpeg };

static int video_open(void **out, stk_error *err)
{
    *out = STK_NEW(video_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(video_ctx));
}

static void drop_stream(video_ctx *v)
{
    if (v->stream)
        v->ops->close(v->stream);
    v->stream = NULL;
}

static void video_close(void *p)
{
    video_ctx *v = p;

    if (!v)
        return;
    drop_stream(v);
    for (int i = 0; i < LIBS; i++)
        if (v->lib[i])
            libs[i]->unload(v->lib[i]);
    stk_video_track_fini(&v->track);
    stk_free(v->made);
    stk_free(v->setup);
    stk_free(v);
}

static int keep_setup(video_ctx *v, const stk_vdec_setup *s, stk_error *err)
{
    uint8_t *copy = stk_alloc(s->setup.len + 1);

    if (!copy)
        return stk_fail_nomem(err, s->setup.len);
    if (s->setup.len)
        memcpy(copy, s->setup.data, s->setup.len);
    stk_free(v->setup);
    v->setup = copy;
    v->setup_len = s->setup.len;
    v->codec = s->codec;
    v->width = s->width;
    v->height = s->height;
    return 0;
}

/* The stream's setup also has what frames that copy need. */
static int open_copying(video_ctx *v, stk_vdec_setup *s, stk_error *err)
{
    uint8_t *more = stk_alloc(s->setup.len + STK_H264_MORE);
    int rc;

    if (!more)
        return stk_fail_nomem(err, s->setup.len);
    s->setup = (stk_bytes){ more, stk_h264_setup(&v->h264, s->setup, more) };
    rc = v->ops->open(&v->stream, v->lib[LIBAV], s, err);
    stk_free(more);
    return rc;
}

/* A stream for these packets: the one that is open, where it has the same setup. */
static int open_stream(video_ctx *v, const stk_video_head *h, stk_error *err)
{
    stk_vdec_setup s = { .codec = h->codec, .width = h->width, .height = h->height };
    int lib = h->codec == STK_VIDEO_MJPEG                ? MJPEG
              : h->codec == STK_VIDEO_AV1 && libs[DAV1D] ? DAV1D
                                                         : LIBAV;

    STK_TRY(stk_video_points_setup(h, &s.setup, err));
    if (v->stream && v->codec == s.codec && v->width == s.width && v->height == s.height &&
        v->setup_len == s.setup.len && !memcmp(v->setup, s.setup.data, s.setup.len))
        return 0;
    drop_stream(v);
    STK_TRY(keep_setup(v, &s, err));
    v->ops = libs[lib];
    if (v->ops->load && !v->lib[lib])
        STK_TRY(v->ops->load(&v->lib[lib], err));
    v->copies = h->codec == STK_VIDEO_H264 &&
                stk_h264_sets(&v->h264, (stk_bytes){ v->setup, v->setup_len }) == 0;
    if (v->copies)
        return open_copying(v, &s, err);
    return v->ops->open(&v->stream, v->lib[lib], &s, err);
}

/* ---- points ---- */

typedef struct container {
    int (*read)(stk_video_track *t, const stk_media_reader *read, stk_error *err);
    char tag; /* of its points */
} container;
static const container mp4 = { stk_mp4_read, MP4_TAG };
static const container matroska = { stk_matroska_read, MATROSKA_TAG };

static int make_points(video_ctx *v, const container *k, const stk_media_reader *read, size_t *len,
                       stk_error *err)
{
    STK_TRY(k->read(&v->track, read, err));
    *len = stk_video_points_pack(&v->track, k->tag, NULL);
    return *len ? 0 : stk_fail(err, STK_ELIMIT, "the video's points would take more than 2 GiB");
}

static int points_of(video_ctx *v, const container *k, const stk_media_reader *read,
                     stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    uint8_t *dst;
    size_t len;

    STK_TRY(make_points(v, k, read, &len, err));
    dst = stk_scratch_get(scratch, len);
    if (!dst)
        return stk_fail_nomem(err, len);
    stk_video_points_pack(&v->track, k->tag, dst);
    *out = (stk_bytes){ dst, len };
    return 0;
}

static void info_of(const stk_video_head *h, stk_media_info *out)
{
    int64_t first = stk_video_us(h, h->first);

    *out = (stk_media_info){ .medium = STK_VIDEO,
                             .tracks = h->tracks,
                             .width = h->width,
                             .height = h->height,
                             .turn = h->turn,
                             .units = h->shown,
                             .first_us = first,
                             .duration_us = stk_video_us(h, h->end) - first,
                             .session_bytes = (uint64_t)h->width * h->height * 24 };
}

static int video_know(const stk_media_points *p, uint32_t track, stk_media_info *out,
                      stk_error *err)
{
    stk_video_head h;

    STK_TRY(stk_video_points_open(&h, p, err));
    if (track)
        return stk_fail(err, STK_ENOTSUP, "only the first video track of a file is read");
    info_of(&h, out);
    return 0;
}

static int header_of(video_ctx *v, const container *k, stk_bytes in, const stk_media_points *p,
                     stk_media_info *out, stk_error *err)
{
    const stk_media_reader read = stk_media_here(&in);
    stk_video_head h;
    size_t len;

    v->made_len = 0;
    if (p->head.data && p->head.len && p->head.data[0] == (uint8_t)k->tag &&
        stk_video_points_open(&h, p, NULL) == 0 && h.field == in.len) {
        info_of(&h, out);
        return 0;
    }
    STK_TRY(make_points(v, k, &read, &len, err));
    if (len > v->made_cap) {
        stk_free(v->made);
        v->made_cap = 0;
        v->made = stk_alloc(len);
        if (!v->made)
            return stk_fail_nomem(err, len);
        v->made_cap = len;
    }
    v->made_len = stk_video_points_pack(&v->track, k->tag, v->made);
    return video_know(&(stk_media_points){ .head = { v->made, v->made_len } }, 0, out, err);
}

stk_media_points stk_video_made(void *ctx)
{
    const video_ctx *v = ctx;

    return (stk_media_points){ .head = { v->made, v->made_len } };
}

void stk_video_limit(void *ctx, double seconds)
{
    ((video_ctx *)ctx)->most = seconds;
}

void stk_video_forget(void *ctx)
{
    video_ctx *v = ctx;

    v->made_len = 0;
}

/* Frames after an open keyframe of H.264 may drop references that were made before it; libavcodec
 * takes it for damage where these are not there. */
static int needs_run_up(const stk_video_head *h, const stk_clip *c)
{
    for (uint32_t i = 0; h->codec == STK_VIDEO_H264 && i < c->n; i++)
        if (c->packet[i].leading)
            return 1;
    return 0;
}

static int video_ranges(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                        stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    stk_scratch scratch = { 0 };
    stk_video_head h;
    stk_clip clip;
    int rc;

    (void)session_at;
    *n = 0;
    STK_TRY(stk_video_points_open(&h, p, err));
    rc = stk_clip_plan(&h, ask, 0, &scratch, &clip, err);
    if (rc == 0 && needs_run_up(&h, &clip)) {
        stk_scratch_reset(&scratch);
        rc = stk_clip_plan(&h, ask, 1, &scratch, &clip, err);
    }
    if (rc == 0)
        rc = stk_clip_ranges(&clip, &h, out, n, err);
    stk_scratch_fini(&scratch);
    return rc;
}

/* 1: `p` has the sound's points that this decoder makes, or none. */
static int sound_fits(const stk_decoder *d, const stk_media_points *p, const stk_video_head *h,
                      const stk_media_reader *read)
{
    stk_scratch scratch = { 0 };
    stk_bytes again = { 0 };
    void *ctx = NULL;
    int fit;

    if (!h->sound)
        return h->bytes == p->head.len;
    fit = d->open(&ctx, NULL) == 0 && d->points(ctx, read, &scratch, &again, NULL) == 0 &&
          again.len == h->sound && h->bytes <= p->head.len && again.len == p->head.len - h->bytes &&
          !memcmp(again.data, p->head.data + h->bytes, again.len);
    d->close(ctx);
    stk_scratch_fini(&scratch);
    return fit;
}

#define SOUND_LEN 84u /* where a head says how long the sound's points are, which make is without */

static int fits_of(const container *k, const stk_decoder *sound, const stk_media_points *p,
                   const stk_media_reader *read)
{
    video_ctx v = { 0 };
    uint8_t *again = NULL;
    stk_video_head h;
    size_t len = 0;
    int fit = stk_video_points_open(&h, p, NULL) == 0 &&
              make_points(&v, k, read, &len, NULL) == 0 && len == h.bytes && len <= p->head.len &&
              (again = stk_alloc(len)) != NULL;

    if (fit) {
        stk_video_points_pack(&v.track, k->tag, again);
        fit = !memcmp(again, p->head.data, SOUND_LEN) &&
              !memcmp(again + SOUND_LEN + 4, p->head.data + SOUND_LEN + 4, len - SOUND_LEN - 4) &&
              sound_fits(sound, p, &h, read);
    }
    stk_free(again);
    stk_video_track_fini(&v.track);
    return fit;
}

/* ---- decoding ---- */

typedef struct run {
    video_ctx *v;
    const stk_media_job *job;
    const stk_media_points *points;
    const stk_video_head *h;
    const stk_clip *clip;
    uint8_t *given; /* by wanted frame: the sink has it */
    uint32_t left;  /* wanted frames that it has not */
    uint64_t until; /* CPU time of this thread at which it is given up */
    stk_error why;  /* the first packet that failed */
    int whole;      /* all bytes of the field are there */
    int no_start;   /* a keyframe is none */
    int open;       /* the run begins at an open keyframe of H.264 */
    uint8_t *need; /* of its packets; those that are not needed are sent as copies; NULL: all are */
    int copied;    /* some were */
    int plain;     /* none is from now on */
} run;

static int packet_bytes(const run *r, const stk_clip_packet *k, stk_bytes *out, stk_error *err)
{
    for (uint32_t i = 0; i < r->job->n_parts; i++) {
        const stk_media_part *p = &r->job->part[i];

        if (k->at >= p->offset && k->at - p->offset <= p->bytes.len &&
            k->size <= p->bytes.len - (k->at - p->offset)) {
            *out = (stk_bytes){ p->bytes.data + (k->at - p->offset), k->size };
            return 0;
        }
    }
    if (!r->whole)
        return stk_fail(err, STK_ESTALE, "a part that holds a wanted packet was not read");
    return stk_fail(err, STK_ECORRUPT,
                    "track %u: the packet of frame %u in decode order is at byte %" PRIu64
                    " with %u bytes, and the file ends at %" PRIu64,
                    r->h->number, k->decode, k->at, k->size, r->h->field);
}

/* A damaged frame may be shown after those that refer to it, and these were given then. */
static void take_back(run *r)
{
    r->left = r->job->ask->n_frames;
    memset(r->given, 0, r->left);
}

/* STK_END: it is damaged. */
static int give(run *r, const stk_clip_packet *k, stk_planes *p, stk_error *err)
{
    int64_t time = 0;

    if (!p->data[0] && !k->leading && !k->run_up) { /* what refers to it would be wrong */
        stk_fail(&r->why, STK_ECORRUPT, "it, or a frame before it, could not be decoded in full");
        take_back(r);
        return STK_END;
    }
    if (k->want == STK_NOT_WANTED || r->given[k->want] || !p->data[0])
        return 0;
    if (p->area.w != r->h->width || p->area.h != r->h->height)
        return stk_fail(err, STK_ECORRUPT,
                        "track %u: frame %" PRIu64 " is %ux%u in a video of %ux%u", r->h->number,
                        r->job->ask->frame[k->want], p->area.w, p->area.h, r->h->width,
                        r->h->height);
    if (p->matrix == 2 && p->kind != STK_PLANES_RGBX)
        p->matrix = r->h->matrix;
    p->full_range |= r->h->full_range && r->h->matrix != 2;
    for (uint32_t i = 0; i < r->clip->n_want; i++)
        if (r->clip->want[i].i == k->want)
            time = r->clip->want[i].time;
    r->given[k->want] = 1;
    r->left--;
    return r->job->sink->frame(r->job->sink->cookie, k->want, stk_video_us(r->h, time), p, err);
}

/* Streams that are made for it keep a decoder busy without end. */
static int check_time(const run *r, stk_error *err)
{
    if (stk_thread_ns() < r->until)
        return 0;
    if (r->v->most > 0)
        return stk_fail(err, STK_ELIMIT,
                        "track %u: the clip took more than %g s of CPU time to decode, which "
                        "video(timeout=%g) allows (%s by %s)",
                        r->h->number, r->v->most, r->v->most, stk_video_codec_name(r->h->codec),
                        r->v->ops->name);
    return stk_fail(err, STK_ELIMIT,
                    "track %u: the clip took more than %u s of CPU time to decode %u packets (%s "
                    "by %s): give it longer by video(timeout=...) if that is meant",
                    r->h->number, 30 + r->clip->n, r->clip->n, stk_video_codec_name(r->h->codec),
                    r->v->ops->name);
}

/* 0, STK_END: a frame failed to decode (why), or an error of the sink's. */
static int take_frames(run *r, stk_error *err)
{
    stk_planes p;
    uint32_t i;
    int rc;

    while ((rc = r->v->ops->receive(r->v->stream, &i, &p, &r->why)) == 0) {
        STK_TRY(check_time(r, err));
        rc = i < r->clip->n ? give(r, &r->clip->packet[i], &p, err) : 0;
        if (rc)
            return rc;
    }
    return rc == STK_END ? 0 : rc == STK_ENOMEM ? stk_fail_nomem(err, 0) : STK_END;
}

static int send(run *r, uint32_t i, stk_error *err)
{
    const stk_clip_packet *k = &r->clip->packet[i];
    uint8_t copy[STK_H264_COPY];
    stk_h264_slice slice;
    stk_bytes in, setup;
    int loose, rc;

    STK_TRY(check_time(r, err));
    STK_TRY(packet_bytes(r, k, &in, err));
    if (k->want == STK_NOT_WANTED || r->given[k->want]) {
        STK_TRY(stk_video_points_setup(r->h, &setup, err));
        if (!in.len || stk_packet_is_spare(r->h->codec, setup, in))
            return 0;
    }
    loose = k->leading || k->run_up || r->open;
    if (r->need && !r->need[i] &&
        stk_h264_next(&r->v->h264, &(stk_bytes){ in.data, in.len }, &slice) == 0) {
        in = (stk_bytes){ copy, stk_h264_copy(&r->v->h264, &slice, copy) };
        r->copied = 1;
    }
    rc = r->v->ops->send(r->v->stream, &(stk_vdec_packet){ in, i, loose }, &r->why);
    if (rc == 0)
        rc = take_frames(r, err);
    else if (rc == STK_ENOMEM)
        return stk_fail_nomem(err, in.len);
    else
        rc = STK_END;
    return rc == STK_END && (k->leading || k->run_up) ? 0 : rc;
}

/* STK_END: the stream does not begin here, whatever the container says. */
static int is_start(run *r, const stk_clip_packet *k, stk_error *err)
{
    stk_bytes in, setup;
    int is;

    STK_TRY(packet_bytes(r, k, &in, err));
    STK_TRY(stk_video_points_setup(r->h, &setup, err));
    is = stk_packet_is_start(r->h->codec, setup, in);
    r->open = is == STK_START_OPEN;
    if (is)
        return 0;
    r->no_start = 1;
    stk_fail(&r->why, STK_ECORRUPT, "the keyframe at byte %" PRIu64 " is none", k->at);
    return STK_END;
}

/* Which packets of a run the wanted frames depend on. */
static int find_needed(run *r, uint32_t from, uint32_t end, stk_error *err)
{
    stk_scratch *scratch = r->job->scratch;
    uint32_t n = end - from;
    stk_bytes *in;

    r->need = NULL;
    if (!r->v->copies || r->open || r->plain || n < 3 || n > STK_H264_RUN ||
        r->clip->packet[from].run_up)
        return 0;
    in = stk_scratch_get(scratch, n * sizeof *in);
    r->need = stk_scratch_get(scratch, r->clip->n);
    if (!in || !r->need)
        return stk_fail_nomem(err, n * sizeof *in);
    for (uint32_t i = from; i < end; i++) {
        const stk_clip_packet *k = &r->clip->packet[i];

        STK_TRY(packet_bytes(r, k, &in[i - from], err));
        r->need[i] = k->want != STK_NOT_WANTED && !r->given[k->want];
    }
    if (stk_h264_needed(&r->v->h264, in, n, r->need + from, scratch))
        r->need = NULL;
    return 0;
}

/* One run from packet `at` on; *at: the first packet of the next one. */
static int decode_run(run *r, uint32_t *at, stk_error *err)
{
    uint32_t from = *at, end = from + 1;
    int rc = 0, wanted = 0;

    while (end < r->clip->n && !r->clip->packet[end].begins)
        end++;
    *at = end;
    for (uint32_t i = from; i < end && !wanted; i++)
        if (r->clip->packet[i].want != STK_NOT_WANTED && !r->given[r->clip->packet[i].want])
            wanted = 1;
    if (!wanted)
        return 0; /* of an earlier try */
    rc = is_start(r, &r->clip->packet[from], err);
    if (rc)
        return rc < 0 ? rc : 0;
    STK_TRY(find_needed(r, from, end, err));
    r->v->ops->flush(r->v->stream);
    for (uint32_t i = from; i < end && rc == 0; i++)
        rc = send(r, i, err);
    /* Errors after an open keyframe are covered up, and seen in the frames alone: in all. */
    if (rc == 0 && (r->left || r->open) &&
        r->v->ops->send(r->v->stream, &(stk_vdec_packet){ 0 }, &r->why) == 0)
        rc = take_frames(r, err);
    return rc == STK_END ? 0 : rc;
}

static int decode_from(run *r, uint32_t back, stk_error *err)
{
    unsigned mark = stk_scratch_mark(r->job->scratch);
    stk_clip clip;
    int rc;

    STK_TRY(stk_clip_plan(r->h, r->job->ask, back, r->job->scratch, &clip, err));
    r->clip = &clip;
    r->until = r->until ? r->until : stk_vdec_until(r->v->most, clip.n);
    rc = 0;
    for (uint32_t at = 0; at < clip.n && rc == 0;)
        rc = decode_run(r, &at, err);
    stk_scratch_rewind(r->job->scratch, mark);
    return rc;
}

static int missing(const run *r, stk_error *err)
{
    uint32_t i = 0;

    while (r->given[i])
        i++;
    if (!r->whole)
        return stk_fail(err, STK_ESTALE,
                        "frame %" PRIu64 " did not come of the parts that were read: %s",
                        r->job->ask->frame[i], r->why.message);
    return stk_fail(err, STK_ECORRUPT,
                    "track %u: frame %" PRIu64 " can't be decoded (%s by %s): %s", r->h->number,
                    r->job->ask->frame[i], stk_video_codec_name(r->h->codec), r->v->ops->name,
                    r->why.message[0] ? r->why.message : "it did not come");
}

static int video_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    video_ctx *v = ctx;
    const stk_media_points made = { .head = { v->made, v->made_len } };
    run r = { .v = v, .job = job, .points = v->made_len ? &made : job->points };
    stk_video_head h;

    STK_TRY(stk_video_points_open(&h, r.points, err));
    STK_TRY(open_stream(v, &h, err));
    r.h = &h;
    r.left = job->ask->n_frames;
    r.whole = job->n_parts == 1 && !job->part->offset && job->part->bytes.len == h.field;
    r.given = stk_scratch_get(job->scratch, r.left + 1);
    if (!r.given || !stk_scratch_beside(job->scratch, (size_t)h.width * h.height * 12))
        return stk_fail_nomem(err, (size_t)h.width * h.height * 12);
    memset(r.given, 0, r.left);
    for (uint32_t back = 0; r.left && (back <= BACK || r.no_start) && back <= h.keys;
         back += back ? back : 1) {
        int rc;

        r.no_start = 0;
        rc = decode_from(&r, back, err);
        if (rc == 0 && r.left && r.copied) {
            r.plain = 1;
            rc = decode_from(&r, back, err);
        }
        if (rc < 0) {
            drop_stream(v); /* in whatever state it is */
            return rc;
        }
    }
    if (r.left)
        drop_stream(v);
    if (job->sink->lane)
        *job->sink->lane = v->made_len ? STK_LANE_PLAIN : STK_LANE_SEEK;
    return r.left ? missing(&r, err) : 0;
}

/* ---- the decoders ---- */

static int mp4_header(void *ctx, stk_bytes in, const stk_media_points *p, stk_media_info *out,
                      stk_error *err)
{
    return header_of(ctx, &mp4, in, p, out, err);
}

static int mp4_points(void *ctx, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                      stk_error *err)
{
    return points_of(ctx, &mp4, read, scratch, out, err);
}

static int matroska_header(void *ctx, stk_bytes in, const stk_media_points *p, stk_media_info *out,
                           stk_error *err)
{
    return header_of(ctx, &matroska, in, p, out, err);
}

static int matroska_points(void *ctx, const stk_media_reader *read, stk_scratch *scratch,
                           stk_bytes *out, stk_error *err)
{
    return points_of(ctx, &matroska, read, scratch, out, err);
}

static int mp4_fits(const stk_media_points *p, const stk_media_reader *read)
{
    return fits_of(&mp4, &stk_decoder_mp4_sound, p, read);
}

static int matroska_fits(const stk_media_points *p, const stk_media_reader *read)
{
    return fits_of(&matroska, &stk_decoder_matroska_sound, p, read);
}

int stk_video_is(const stk_decoder *d)
{
    return d->decode == video_decode;
}

const stk_decoder stk_decoder_mp4 = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "mp4",
    .help = "video in MP4 and MOV: H.264, HEVC, VP9, MPEG-4 by libavcodec, AV1 by dav1d, MJPEG",
    .probe = stk_mp4_probe,
    .open = video_open,
    .close = video_close,
    .header = mp4_header,
    .decode = video_decode,
    .tag = MP4_TAG,
    .know = video_know,
    .ranges = video_ranges,
    .points = mp4_points,
    .fits = mp4_fits
};

const stk_decoder stk_decoder_matroska = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "matroska",
    .help = "video in Matroska and WebM: the codecs of mp4, and VP8",
    .probe = stk_matroska_probe,
    .open = video_open,
    .close = video_close,
    .header = matroska_header,
    .decode = video_decode,
    .tag = MATROSKA_TAG,
    .know = video_know,
    .ranges = video_ranges,
    .points = matroska_points,
    .fits = matroska_fits
};
