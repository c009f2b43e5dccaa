/* SPDX-License-Identifier: Apache-2.0 */
/* libav.h - the functions of libavcodec and libavutil, which are opened at run time, and the
 * offsets of fields in their structs.  FFmpeg's headers are not needed to compile this.  libav*.c
 * call it. */
#ifndef STOKER_VIDEO_LIBAV_H
#define STOKER_VIDEO_LIBAV_H

#include "video/vdec.h"

typedef struct stk_libav_at { /* a row of libav_table.c, made by tools/libav_offsets.py */
    uint32_t codec_major, util_major;
    struct {
        uint32_t log_level_offset, extradata, extradata_size;
    } ctx;
    struct {
        uint32_t pts, data, size;
    } packet;
    struct {
        uint32_t data, linesize, width, height, format, pts, flags, color_range, colorspace,
            chroma_location, decode_error_flags;
    } frame;
} stk_libav_at;
extern const stk_libav_at stk_libav_table[];
extern const uint32_t stk_libav_rows;

typedef struct AVCodecContext AVCodecContext; /* FFmpeg's types, which are opaque here */
typedef struct AVCodec AVCodec;
typedef struct AVPacket AVPacket;
typedef struct AVFrame AVFrame;

typedef struct stk_libav { /* Thread: worker. */
    void *handle;
    const stk_libav_at *at;
    unsigned (*avcodec_version)(void);
    unsigned (*avutil_version)(void);
    const AVCodec *(*avcodec_find_decoder_by_name)(const char *name);
    AVCodecContext *(*avcodec_alloc_context3)(const AVCodec *codec);
    void (*avcodec_free_context)(AVCodecContext **c);
    int (*avcodec_open2)(AVCodecContext *c, const AVCodec *codec, void **options);
    int (*avcodec_send_packet)(AVCodecContext *c, const AVPacket *p);
    int (*avcodec_receive_frame)(AVCodecContext *c, AVFrame *f);
    void (*avcodec_flush_buffers)(AVCodecContext *c);
    AVPacket *(*av_packet_alloc)(void);
    void (*av_packet_free)(AVPacket **p);
    void (*av_packet_unref)(AVPacket *p);
    int (*av_new_packet)(AVPacket *p, int size);
    AVFrame *(*av_frame_alloc)(void);
    void (*av_frame_free)(AVFrame **f);
    int (*av_opt_set)(void *o, const char *name, const char *value, int flags);
    int (*av_opt_set_int)(void *o, const char *name, int64_t value, int flags);
    int (*av_opt_get_int)(void *o, const char *name, int flags, int64_t *out);
    const char *(*av_get_pix_fmt_name)(int format);
    const char *(*av_get_sample_fmt_name)(int format);
    void *(*av_mallocz)(size_t size);
    int (*av_strerror)(int code, char *out, size_t size);
} stk_libav;

static inline void *stk_libav_field(void *base, uint32_t at)
{
    return (uint8_t *)base + at;
}

/* libav_load.c: opens the library, and checks that its structs are as the table says. */
int stk_libav_open(void **out, stk_error *err);
void stk_libav_close(void *l);
/* Writes its major version and path, or why it can't be used and what to install. */
void stk_libav_tell(char *out, size_t size);

#endif
