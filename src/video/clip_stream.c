/* SPDX-License-Identifier: Apache-2.0 */
/* clip_stream.c - see clip_stream.h.  Packets to which nothing refers, and those that lead a
 * keyframe of HEVC, are left out where they are not wanted: what follows does not need them. */
#include "video/clip_stream.h"

#include <string.h>

#include "video/vdec.h"

static int bytes_of(const stk_media_job *job, const stk_clip_packet *k, stk_bytes *out,
                    stk_error *err)
{
    for (uint32_t i = 0; i < job->n_parts; i++) {
        const stk_media_part *p = &job->part[i];

        if (k->at >= p->offset && k->at - p->offset <= p->bytes.len &&
            k->size <= p->bytes.len - (k->at - p->offset)) {
            *out = (stk_bytes){ p->bytes.data + (k->at - p->offset), k->size };
            return 0;
        }
    }
    return stk_fail(err, STK_ENOTSUP, "a packet is not among the bytes that were read");
}

static int refuse(stk_error *err, const char *why)
{
    return stk_fail(err, STK_ENOTSUP, "not decoded on the GPU: %s", why);
}

typedef struct cut {
    stk_clip_stream *out;
    const stk_video_head *h;
    const stk_media_job *job;
    stk_bytes setup;
    stk_frame_format said; /* by the setup, or the first packet: without what the container says */
} cut;

/* A packet that has to be sent?  1, 0; or it can't be done. */
static int is_needed(const cut *c, const stk_clip_packet *k, stk_bytes in, stk_error *err)
{
    int h264 = c->h->codec == STK_VIDEO_H264, wanted = k->want != STK_NOT_WANTED;

    if (k->leading && (h264 || wanted))
        return refuse(err, "frames before their keyframe");
    if (k->run_up && h264)
        return refuse(err, "frames before their keyframe");
    if (k->begins && !stk_packet_is_start(c->h->codec, c->setup, in))
        return refuse(err, "a keyframe that is none");
    if (wanted)
        return in.len ? 1 : refuse(err, "an empty packet");
    return in.len && !k->leading && !stk_packet_is_spare(c->h->codec, c->setup, in);
}

static int add(cut *c, const stk_clip_packet *k, stk_bytes in, stk_error *err)
{
    stk_clip_stream *o = c->out;
    stk_cut_packet *p = &o->packet[o->n];
    size_t n, from, mark = 0;

    if (!stk_frame_format_holds(&c->said, c->h->codec, c->setup, in))
        return refuse(err, "size or colors of its frames change");
    *p = (stk_cut_packet){ .at = o->len, .want = k->want, .begins = k->begins };
    if (k->begins) {
        n = stk_stream_setup(c->h->codec, c->setup, o->data + o->len);
        if (n == SIZE_MAX)
            return refuse(err, "its setup can't be split");
        o->len += n;
    }
    n = stk_stream_packet(c->h->codec, c->setup, in, o->data + o->len);
    if (n == SIZE_MAX)
        return refuse(err, "a packet's units don't fit");
    from = o->len;
    o->len += n;
    p->mark_len = (uint32_t)stk_stream_picture(c->h->codec, (stk_bytes){ o->data + from, n },
                                               &mark);
    p->mark = from + mark;
    if (!p->mark_len)
        return refuse(err, "a packet without one picture of its own");
    if (o->len - p->at > STK_VIDEO_PACKET)
        return refuse(err, "a packet is too large");
    p->len = (uint32_t)(o->len - p->at);
    o->n++;
    return 0;
}

static int make_room(cut *c, const stk_clip *clip, stk_error *err)
{
    size_t size = 64;

    for (uint32_t i = 0; i < clip->n; i++)
        size += stk_stream_room((stk_bytes){ NULL, clip->packet[i].size }) +
                (clip->packet[i].begins ? stk_stream_room(c->setup) : 0);
    c->out->data = stk_scratch_get(c->job->scratch, size);
    c->out->packet = stk_scratch_get(c->job->scratch, (clip->n + 1) * sizeof *c->out->packet);
    c->out->time_us = stk_scratch_get(c->job->scratch, (clip->n_want + 1) * sizeof(int64_t));
    if (!c->out->data || !c->out->packet || !c->out->time_us)
        return stk_fail_nomem(err, size);
    for (uint32_t i = 0; i < clip->n_want; i++)
        c->out->time_us[clip->want[i].i] = stk_video_us(c->h, clip->want[i].time);
    return 0;
}

int stk_clip_stream_cut(stk_clip_stream *out, const stk_video_head *h, const stk_media_job *job,
                        stk_error *err)
{
    cut c = { .out = out, .h = h, .job = job };
    stk_bytes in = { 0 };
    stk_clip clip;
    int rc;

    *out = (stk_clip_stream){ 0 };
    if (h->codec != STK_VIDEO_H264 && h->codec != STK_VIDEO_HEVC && h->codec != STK_VIDEO_VP9)
        return refuse(err, stk_video_codec_name(h->codec));
    STK_TRY(stk_clip_plan(h, job->ask, 0, job->scratch, &clip, err));
    STK_TRY(stk_video_points_setup(h, &c.setup, err));
    if (!clip.n)
        return refuse(err, "no packets");
    STK_TRY(bytes_of(job, &clip.packet[0], &in, err));
    STK_TRY(stk_frame_format_read(&c.said, h->codec, c.setup, in, err));
    out->format = c.said;
    stk_video_color(h, &out->format.matrix, &out->format.full_range);
    if (out->format.width != h->width || out->format.height != h->height)
        return refuse(err, "its frames are not as large as the container says");
    STK_TRY(make_room(&c, &clip, err));
    for (uint32_t i = 0; i < clip.n; i++) {
        STK_TRY(bytes_of(job, &clip.packet[i], &in, err));
        rc = is_needed(&c, &clip.packet[i], in, err);
        if (rc < 0)
            return rc;
        if (rc)
            STK_TRY(add(&c, &clip.packet[i], in, err));
    }
    return 0;
}
