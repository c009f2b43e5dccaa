/* SPDX-License-Identifier: Apache-2.0 */
/* libav.c - streams that libavcodec decodes: H.264, HEVC, VP8, VP9, MPEG-4, and AV1 where dav1d is
 * not there.
 *
 * A packet's number goes through the library as its time, which decoders copy to the frame and
 * never change.  A damaged packet is an error, and a frame that the library itself marks as damaged
 * has no planes.  Error concealment stays on, as only then it looks whether all slices came; what
 * it concealed is marked.  (Without it, each H.264 frame of several slices is marked by mistake.)
 * H.264 frames that are given while it drains after a start in the middle are marked as damaged by
 * mistake unless output_corrupt is set; that the start is a real one is seen to by video.c.  The
 * library prints nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "video/libav.h"

#define SILENT 150 /* added to the level of each of its messages, of which 56 is the last */
#define CORRUPT 1  /* AV_FRAME_FLAG_CORRUPT */
#define AGAIN (-EAGAIN)
#define AT_END (-('E' | 'O' << 8 | 'F' << 16 | (int)((unsigned)' ' << 24))) /* AVERROR_EOF */

typedef struct stream {
    stk_libav *l;
    AVCodecContext *ctx;
    AVPacket *packet;
    AVFrame *frame;
    int loose; /* errors are covered up */
} stream;

static int failed(const stream *s, int code, const char *what, stk_error *err)
{
    char why[128] = "";

    if (code == -ENOMEM)
        return stk_fail_nomem(err, 0);
    s->l->av_strerror(code, why, sizeof why);
    return stk_fail(err, STK_ECORRUPT, "%s: %s", what, why);
}

static void libav_close(void *d)
{
    stream *s = d;

    if (s->packet)
        s->l->av_packet_free(&s->packet);
    if (s->frame)
        s->l->av_frame_free(&s->frame);
    if (s->ctx)
        s->l->avcodec_free_context(&s->ctx);
    stk_free(s);
}

#define PADDING 64 /* AV_INPUT_BUFFER_PADDING_SIZE */

static int give_setup(stream *s, stk_bytes setup, stk_error *err)
{
    const stk_libav_at *at = s->l->at;
    int len = (int)setup.len;
    void *copy;

    if (!setup.len)
        return 0;
    copy = s->l->av_mallocz(setup.len + PADDING); /* the context frees it */
    if (!copy)
        return stk_fail_nomem(err, setup.len);
    memcpy(copy, setup.data, setup.len);
    memcpy(stk_libav_field(s->ctx, at->ctx.extradata), &copy, sizeof copy);
    memcpy(stk_libav_field(s->ctx, at->ctx.extradata_size), &len, sizeof len);
    return 0;
}

static int begin(stream *s, const AVCodec *codec, const stk_vdec_setup *how, stk_error *err)
{
    const int silent = SILENT;
    int64_t most = ((int64_t)how->width + 512) * ((int64_t)how->height + 512);
    int rc;

    s->ctx = s->l->avcodec_alloc_context3(codec);
    s->packet = s->l->av_packet_alloc();
    s->frame = s->l->av_frame_alloc();
    if (!s->ctx || !s->packet || !s->frame)
        return stk_fail_nomem(err, 0);
    memcpy(stk_libav_field(s->ctx, s->l->at->ctx.log_level_offset), &silent, sizeof silent);
    STK_TRY(give_setup(s, how->setup, err));
    if (s->l->av_opt_set_int(s->ctx, "threads", 1, 0) < 0 ||
        s->l->av_opt_set_int(s->ctx, "max_pixels", most, 0) < 0 ||
        s->l->av_opt_set(s->ctx, "err_detect", "explode", 0) < 0 ||
        s->l->av_opt_set(s->ctx, "flags", "+unaligned+output_corrupt", 0) < 0)
        return stk_fail(err, STK_ENOTSUP, "libavcodec has not the options that are needed");
    rc = s->l->avcodec_open2(s->ctx, codec, NULL);
    return rc < 0 ? failed(s, rc, "the video's codec setup is damaged", err) : 0;
}

static int libav_open(void **out, void *lib, const stk_vdec_setup *how, stk_error *err)
{
    static const char *const names[STK_VIDEO_CODECS] = {
        [STK_VIDEO_H264] = "h264", [STK_VIDEO_HEVC] = "hevc",    [STK_VIDEO_VP8] = "vp8",
        [STK_VIDEO_VP9] = "vp9",   [STK_VIDEO_AV1] = "libdav1d", [STK_VIDEO_MPEG4] = "mpeg4"
    };
    const char *name = how->codec < STK_VIDEO_CODECS ? names[how->codec] : NULL;
    stk_libav *l = lib;
    const AVCodec *codec = name ? l->avcodec_find_decoder_by_name(name) : NULL;
    stream *s;
    int rc;

    *out = NULL;
    if (!codec)
        return stk_fail(err, STK_ENOTSUP, "libavcodec here has no decoder of %s",
                        stk_video_codec_name(how->codec));
    s = STK_NEW(stream);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->l = l;
    rc = begin(s, codec, how, err);
    if (rc < 0)
        libav_close(s);
    else
        *out = s;
    return rc;
}

static int libav_send(void *d, const stk_vdec_packet *p, stk_error *err)
{
    const int64_t pts = p->number;
    stk_bytes in = p->bytes;
    stream *s = d;
    void *data;
    int rc;

    if (!in.data) {
        rc = s->l->avcodec_send_packet(s->ctx, NULL);
        return rc < 0 && rc != AT_END ? failed(s, rc, "the end of the video", err) : 0;
    }
    if (p->loose != s->loose) {
        s->loose = p->loose;
        s->l->av_opt_set(s->ctx, "err_detect", p->loose ? "0" : "explode", 0);
    }
    if (s->l->av_new_packet(s->packet, (int)in.len) < 0)
        return stk_fail_nomem(err, in.len);
    memcpy(&data, stk_libav_field(s->packet, s->l->at->packet.data), sizeof data);
    memcpy(data, in.data, in.len);
    memcpy(stk_libav_field(s->packet, s->l->at->packet.pts), &pts, sizeof pts);
    rc = s->l->avcodec_send_packet(s->ctx, s->packet);
    s->l->av_packet_unref(s->packet);
    return rc < 0 ? failed(s, rc, "a damaged packet", err) : 0;
}

/* ---- frames ---- */

static const struct {
    const char *name;
    uint8_t bits, half_x, half_y, full, gray, rgb, nv;
} formats[] = {
    { "yuv420p", 8, 1, 1 },
    { "yuv422p", 8, 1, 0 },
    { "yuv444p", 8, 0, 0 },
    { "yuvj420p", 8, 1, 1, 1 },
    { "yuvj422p", 8, 1, 0, 1 },
    { "yuvj444p", 8, 0, 0, 1 },
    { "yuv440p", 8, 0, 1 },
    { "yuvj440p", 8, 0, 1, 1 },
    { "yuv420p10le", 10, 1, 1 },
    { "yuv422p10le", 10, 1, 0 },
    { "yuv444p10le", 10, 0, 0 },
    { "yuv420p12le", 12, 1, 1 },
    { "yuv422p12le", 12, 1, 0 },
    { "yuv444p12le", 12, 0, 0 },
    { "gray", 8, 0, 0, 0, 1 },
    { "gray10le", 10, 0, 0, 0, 1 },
    { "gray12le", 12, 0, 0, 0, 1 },
    { "gbrp", 8, 0, 0, 1, 0, 1 },
    { "gbrp10le", 10, 0, 0, 1, 0, 1 },
    { "gbrp12le", 12, 0, 0, 1, 0, 1 },
    { "nv12", 8, 1, 1, 0, 0, 0, 1 },
};

static int int_of(const stream *s, uint32_t at)
{
    int v;

    memcpy(&v, stk_libav_field(s->frame, at), sizeof v);
    return v;
}

static int planes_of(const stream *s, stk_planes *out, stk_error *err)
{
    const stk_libav_at *at = s->l->at;
    const char *name = s->l->av_get_pix_fmt_name(int_of(s, at->frame.format));
    int width = int_of(s, at->frame.width), height = int_of(s, at->frame.height);
    size_t k = 0;

    while (k < sizeof formats / sizeof *formats && (!name || strcmp(name, formats[k].name) != 0))
        k++;
    if (k == sizeof formats / sizeof *formats || width <= 0 || height <= 0)
        return stk_fail(
            err, STK_ENOTSUP,
            "its pixel format is %s, which is not read: 4:2:0, 4:2:2 and 4:4:4 of 8, 10 "
            "and 12 bits are",
            name ? name : "unknown");
    *out = (stk_planes){ .kind = formats[k].nv ? STK_PLANES_NV12 : STK_PLANES_YUV,
                         .bits = formats[k].bits,
                         .half_x = formats[k].half_x,
                         .half_y = formats[k].half_y,
                         .matrix = formats[k].rgb ? 0 : (uint32_t)int_of(s, at->frame.colorspace),
                         .full_range = formats[k].full || int_of(s, at->frame.color_range) == 2,
                         .siting = (uint32_t)int_of(s, at->frame.chroma_location),
                         .area = { 0, 0, (uint32_t)width, (uint32_t)height } };
    for (uint32_t i = 0; i < (formats[k].gray ? 1u : formats[k].nv ? 2u : 3u); i++) {
        void *data;

        memcpy(&data, stk_libav_field(s->frame, at->frame.data + i * sizeof data), sizeof data);
        out->data[i] = data;
        out->stride[i] = (size_t)int_of(s, at->frame.linesize + i * (uint32_t)sizeof(int));
        if (!data || int_of(s, at->frame.linesize + i * (uint32_t)sizeof(int)) <= 0)
            return stk_fail(err, STK_ENOTSUP, "libavcodec gave a frame without pixels");
    }
    return 0;
}

static int libav_receive(void *d, uint32_t *number, stk_planes *out, stk_error *err)
{
    stream *s = d;
    int64_t pts;
    int rc = s->l->avcodec_receive_frame(s->ctx, s->frame);

    if (rc == AGAIN || rc == AT_END)
        return STK_END;
    if (rc < 0)
        return failed(s, rc, "a damaged packet", err);
    memcpy(&pts, stk_libav_field(s->frame, s->l->at->frame.pts), sizeof pts);
    *number = pts >= 0 && pts < UINT32_MAX ? (uint32_t)pts : UINT32_MAX;
    if (int_of(s, s->l->at->frame.flags) & CORRUPT ||
        int_of(s, s->l->at->frame.decode_error_flags)) {
        *out = (stk_planes){ 0 };
        return 0;
    }
    return planes_of(s, out, err);
}

static void libav_flush(void *d)
{
    stream *s = d;

    s->l->avcodec_flush_buffers(s->ctx);
}

const stk_vdec_ops stk_vdec_libav = { .name = "libavcodec",
                                      .load = stk_libav_open,
                                      .unload = stk_libav_close,
                                      .open = libav_open,
                                      .close = libav_close,
                                      .send = libav_send,
                                      .receive = libav_receive,
                                      .flush = libav_flush };
