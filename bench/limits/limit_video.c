/* SPDX-License-Identifier: Apache-2.0 */
/* limit_video - the least that clips of a video cost with libavcodec: a bare loop in one thread.
 *
 *     limit_video FILE FRAMES RGB START...      decodes clips of FRAMES frames, each from the frame
 *                                               with that show number on; RGB: 0, planes only
 *     limit_video FILE order RGB ROUNDS         all frames, in order
 *
 * libavformat lists the packets before the clock starts.  Timed is: pread() of the packets from the
 * keyframe on (those of H.264 to which nothing refers left out before the clip), libavcodec with
 * one thread, kept open, and swscale to RGB of what is wanted,
 * into memory of a clip.  The last wanted frame ends it. */
#include <fcntl.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <string.h>
#include <unistd.h>

#include "timing.h"

typedef struct packet {
    int64_t at, pts;
    int size, key;
    uint32_t show;
} packet;

typedef struct loop {
    AVFormatContext *file;
    AVCodecContext *ctx;
    AVFrame *frame;
    AVPacket *avp;
    struct SwsContext *sws;
    packet *packet;
    uint32_t n, *order; /* packets by the time at which they are shown */
    uint32_t keeps;     /* frames that stay: those of a clip */
    int fd, rgb;
    uint8_t *picture;
    uint64_t frames;
} loop;

static void fail(const char *what)
{
    fprintf(stderr, "limit_video: %s\n", what);
    exit(3);
}

static const packet *sorted;

static int by_pts(const void *a, const void *b)
{
    int64_t x = sorted[*(const uint32_t *)a].pts, y = sorted[*(const uint32_t *)b].pts;

    return x < y ? -1 : x > y;
}

static void list_packets(loop *l, int stream)
{
    AVPacket *p = av_packet_alloc();
    uint32_t cap = 0;

    while (av_read_frame(l->file, p) >= 0) {
        if (p->stream_index == stream) {
            if (l->n == cap)
                l->packet = realloc(l->packet, (cap = cap ? cap * 2 : 1024) * sizeof *l->packet);
            if (!l->packet)
                fail("no memory");
            l->packet[l->n++] = (packet){ p->pos, p->pts, p->size, p->flags & AV_PKT_FLAG_KEY, 0 };
        }
        av_packet_unref(p);
    }
    av_packet_free(&p);
    l->order = calloc(l->n + 1, sizeof *l->order);
    for (uint32_t i = 0; i < l->n; i++)
        l->order[i] = i;
    sorted = l->packet;
    qsort(l->order, l->n, sizeof *l->order, by_pts);
    for (uint32_t i = 0; i < l->n; i++)
        l->packet[l->order[i]].show = i;
}

static void open_all(loop *l, const char *path)
{
    const AVCodec *codec;
    int stream;

    l->file = NULL;
    if (avformat_open_input(&l->file, path, NULL, NULL) < 0 ||
        avformat_find_stream_info(l->file, NULL) < 0)
        fail("the file can't be opened");
    stream = av_find_best_stream(l->file, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (stream < 0)
        fail("no video");
    codec = avcodec_find_decoder(l->file->streams[stream]->codecpar->codec_id);
    l->ctx = avcodec_alloc_context3(codec);
    if (!l->ctx || avcodec_parameters_to_context(l->ctx, l->file->streams[stream]->codecpar) < 0)
        fail("no decoder");
    l->ctx->thread_count = 1;
    if (avcodec_open2(l->ctx, codec, NULL) < 0)
        fail("the decoder can't be opened");
    list_packets(l, stream);
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    l->frame = av_frame_alloc();
    l->avp = av_packet_alloc();
    l->picture = malloc((size_t)l->ctx->width * l->ctx->height * 3 * l->keeps + 64);
    if (l->fd < 0 || !l->frame || !l->avp || !l->picture)
        fail("no memory");
}

static void to_rgb(loop *l)
{
    size_t bytes = (size_t)l->ctx->width * l->ctx->height * 3;
    uint8_t *dst[1] = { l->picture + l->frames % l->keeps * bytes };
    int stride[1] = { l->ctx->width * 3 };

    l->frames++;
    if (!l->rgb)
        return;
    if (!l->sws)
        l->sws = sws_getContext(l->frame->width, l->frame->height, l->frame->format, l->ctx->width,
                                l->ctx->height, AV_PIX_FMT_RGB24, SWS_BILINEAR, NULL, NULL, NULL);
    if (!l->sws || sws_scale(l->sws, (const uint8_t *const *)l->frame->data, l->frame->linesize, 0,
                             l->frame->height, dst, stride) < 0)
        fail("swscale");
}

/* Frames that are there and wanted; how many. */
static uint32_t take(loop *l, uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    while (avcodec_receive_frame(l->ctx, l->frame) == 0) {
        uint32_t show = l->packet[l->frame->pts].show; /* a packet's number stands for its time */

        if (show >= from && show < to) {
            to_rgb(l);
            n++;
        }
    }
    return n;
}

/* 1: nothing refers to this frame of H.264, whose NAL units have their lengths before them. */
static int is_spare(const loop *l, const AVPacket *p)
{
    if (l->ctx->codec_id != AV_CODEC_ID_H264)
        return 0;
    for (int at = 0; at + 5 <= p->size;) {
        const uint8_t *d = p->data + at;
        int type = d[4] & 31;

        if (type >= 1 && type <= 5)
            return !(d[4] & 0x60);
        at += 4 + (int)((uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3]);
    }
    return 0;
}

static void clip(loop *l, uint32_t from, uint32_t to)
{
    uint32_t first = UINT32_MAX, last = 0, got = 0;

    for (uint32_t i = from; i < to; i++) {
        first = l->order[i] < first ? l->order[i] : first;
        last = l->order[i] > last ? l->order[i] : last;
    }
    while (first && !l->packet[first].key)
        first--;
    avcodec_flush_buffers(l->ctx);
    for (uint32_t i = first; i <= last && got < to - from; i++) {
        const packet *p = &l->packet[i];

        if (av_new_packet(l->avp, p->size) < 0 ||
            pread(l->fd, l->avp->data, (size_t)p->size, p->at) != p->size)
            fail("a packet can't be read");
        l->avp->pts = i;
        if ((p->show < from || p->show >= to) && is_spare(l, l->avp)) {
            av_packet_unref(l->avp);
            continue;
        }
        if (avcodec_send_packet(l->ctx, l->avp) < 0)
            fail("a packet can't be decoded");
        av_packet_unref(l->avp);
        got += take(l, from, to);
    }
    if (got < to - from && avcodec_send_packet(l->ctx, NULL) == 0)
        got += take(l, from, to);
    if (got != to - from)
        fail("frames are missing");
}

int main(int argc, char **argv)
{
    loop l = { 0 };
    double cpu, start;

    if (argc < 5)
        fail("usage: limit_video FILE FRAMES RGB START... | FILE order RGB ROUNDS");
    av_log_set_level(AV_LOG_QUIET);
    l.keeps = atoi(argv[2]) > 0 ? (uint32_t)atoi(argv[2]) : 16;
    open_all(&l, argv[1]);
    l.rgb = atoi(argv[3]);
    clip(&l, 0, 1);
    l.frames = 0;
    cpu = cpu_s();
    start = now_s();
    if (!strcmp(argv[2], "order"))
        for (int r = 0; r < atoi(argv[4]); r++)
            clip(&l, 0, l.n);
    else
        for (int i = 4; i < argc; i++)
            clip(&l, (uint32_t)atoi(argv[i]), (uint32_t)(atoi(argv[i]) + atoi(argv[2])));
    report("limit_video", l.frames, now_s() - start, cpu_s() - cpu);
    return 0;
}
