/* SPDX-License-Identifier: Apache-2.0 */
/* libav_sound.c - sound that libavcodec decodes, packet by packet.
 *
 * A packet's number goes through the library as its time, as that of a frame of video does
 * (libav.c).  Only planar samples are taken: then a frame's pointers say how many channels it has,
 * whatever the library's version; the rate is an option of its context.  Where nb_samples and
 * extended_data are follows from the fields beside them, which libav_load.c tries. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "video/libav.h"
#include "video/sound_track.h"

#define SILENT 150 /* as in libav.c */
#define AGAIN (-EAGAIN)
#define AT_END (-('E' | 'O' << 8 | 'F' << 16 | (int)((unsigned)' ' << 24))) /* AVERROR_EOF */
#define PADDING 64   /* AV_INPUT_BUFFER_PADDING_SIZE */
#define PLANAR_S16 6 /* AV_SAMPLE_FMT_S16P */

struct stk_libav_sound {
    stk_libav *l;
    AVCodecContext *ctx;
    AVPacket *packet;
    AVFrame *frame;
};

static int failed(const stk_libav_sound *s, int code, const char *what, stk_error *err)
{
    char why[128] = "";

    if (code == -ENOMEM)
        return stk_fail_nomem(err, 0);
    s->l->av_strerror(code, why, sizeof why);
    return stk_fail(err, STK_ECORRUPT, "%s: %s", what, why);
}

void stk_libav_sound_close(stk_libav_sound **p)
{
    stk_libav_sound *s = *p;

    if (s && s->packet)
        s->l->av_packet_free(&s->packet);
    if (s && s->frame)
        s->l->av_frame_free(&s->frame);
    if (s && s->ctx)
        s->l->avcodec_free_context(&s->ctx);
    stk_free(s);
    *p = NULL;
}

static int give_setup(stk_libav_sound *s, stk_bytes setup, stk_error *err)
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

static int begin(stk_libav_sound *s, const AVCodec *codec, const stk_libav_setup *how,
                 stk_error *err)
{
    const int silent = SILENT;
    int rc;

    s->ctx = s->l->avcodec_alloc_context3(codec);
    s->packet = s->l->av_packet_alloc();
    s->frame = s->l->av_frame_alloc();
    if (!s->ctx || !s->packet || !s->frame)
        return stk_fail_nomem(err, 0);
    memcpy(stk_libav_field(s->ctx, s->l->at->ctx.log_level_offset), &silent, sizeof silent);
    STK_TRY(give_setup(s, how->setup, err));
    if (s->l->av_opt_set_int(s->ctx, "threads", 1, 0) < 0 ||
        s->l->av_opt_set(s->ctx, "err_detect", "explode", 0) < 0)
        return stk_fail(err, STK_ENOTSUP, "libavcodec has not the options that are needed");
    if (how->coding == STK_CODING_FLAC)
        s->l->av_opt_set_int(s->ctx, "request_sample_fmt", PLANAR_S16, 0);
    rc = s->l->avcodec_open2(s->ctx, codec, NULL);
    return rc < 0 ? failed(s, rc, "the sound's codec setup is damaged", err) : 0;
}

int stk_libav_sound_open(stk_libav_sound **out, void *lib, const stk_libav_setup *how,
                         stk_error *err)
{
    static const char *const names[STK_CODINGS] = {
        [STK_CODING_AAC] = "aac",   [STK_CODING_MP3] = "mp3float", [STK_CODING_AC3] = "ac3",
        [STK_CODING_EAC3] = "eac3", [STK_CODING_ALAC] = "alac",    [STK_CODING_FLAC] = "flac",
        [STK_CODING_OPUS] = "opus"
    };
    const char *name = how->coding < STK_CODINGS ? names[how->coding] : NULL;
    stk_libav *l = lib;
    const AVCodec *codec = name ? l->avcodec_find_decoder_by_name(name) : NULL;
    int rc;

    *out = NULL;
    if (!codec)
        return stk_fail(err, STK_ENOTSUP, "libavcodec here has no decoder of %s",
                        stk_sound_coding_name(how->coding));
    *out = STK_NEW(stk_libav_sound);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    (*out)->l = l;
    rc = begin(*out, codec, how, err);
    if (rc < 0)
        stk_libav_sound_close(out);
    return rc;
}

int stk_libav_sound_send(stk_libav_sound *s, stk_bytes in, uint32_t number, stk_error *err)
{
    const int64_t pts = number;
    void *data;
    int rc;

    if (!in.data) {
        rc = s->l->avcodec_send_packet(s->ctx, NULL);
        return rc < 0 && rc != AT_END ? failed(s, rc, "the end of the sound", err) : 0;
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

/* ---- samples ---- */

static int int_of(const stk_libav_sound *s, uint32_t at)
{
    int v;

    memcpy(&v, stk_libav_field(s->frame, at), sizeof v);
    return v;
}

static const struct {
    const char *name;
    uint8_t bytes, whole;
} formats[] = { { "fltp", 4, 0 }, { "s16p", 2, 1 }, { "s32p", 4, 1 } };

static int samples_of(const stk_libav_sound *s, stk_libav_samples *out, stk_error *err)
{
    const stk_libav_at *at = s->l->at;
    const char *name = s->l->av_get_sample_fmt_name(int_of(s, at->frame.format));
    int n = int_of(s, at->frame.height + (uint32_t)sizeof(int));
    int64_t rate = 0, channels = 0;
    size_t k = 0;

    while (k < sizeof formats / sizeof *formats && (!name || strcmp(name, formats[k].name) != 0))
        k++;
    if (k == sizeof formats / sizeof *formats || n <= 0)
        return stk_fail(err, STK_ENOTSUP,
                        "libavcodec gives samples of format %s, which are not read",
                        name ? name : "unknown");
    memcpy(out->data, stk_libav_field(s->frame, at->frame.data), sizeof out->data);
    while (channels < 8 && out->data[channels])
        channels++;
    if (s->l->av_opt_get_int(s->ctx, "ar", 0, &rate) < 0 || rate <= 0 || rate > UINT32_MAX ||
        !channels)
        return stk_fail(err, STK_ENOTSUP, "libavcodec does not say the sound's rate or channels");
    out->rate = (uint32_t)rate;
    out->channels = (uint32_t)channels;
    out->n = (uint32_t)n;
    out->bytes = formats[k].bytes;
    out->whole = formats[k].whole;
    return 0;
}

int stk_libav_sound_receive(stk_libav_sound *s, stk_libav_samples *out, stk_error *err)
{
    int64_t pts;
    int rc = s->l->avcodec_receive_frame(s->ctx, s->frame);

    if (rc == AGAIN || rc == AT_END)
        return STK_END;
    if (rc < 0)
        return failed(s, rc, "a damaged packet", err);
    memcpy(&pts, stk_libav_field(s->frame, s->l->at->frame.pts), sizeof pts);
    *out = (stk_libav_samples){ .number = pts >= 0 && pts < UINT32_MAX ? (uint32_t)pts
                                                                       : UINT32_MAX };
    return samples_of(s, out, err);
}
