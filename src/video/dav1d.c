/* SPDX-License-Identifier: Apache-2.0 */
/* dav1d.c - AV1 by libdav1d: one thread, one frame at a time.  Film grain is part of the picture,
 * as FFmpeg has it.  Frames larger than the container says are refused by the library. */
#include "video/vdec.h"

#if STK_HAVE_DAV1D

#include <dav1d/dav1d.h>
#include <errno.h>
#include <string.h>

typedef struct stream {
    Dav1dContext *c;
    Dav1dPicture picture;
} stream;

static void dav1d_close_stream(void *d)
{
    stream *s = d;

    dav1d_picture_unref(&s->picture);
    dav1d_close(&s->c);
    stk_free(s);
}

/* Keyframes repeat the sequence header (the container's rules ask for it), so that av1C is not
 * needed. */
static int give(stream *s, stk_bytes in, int64_t number, stk_error *err)
{
    Dav1dData data = { 0 };
    uint8_t *copy = dav1d_data_create(&data, in.len);
    int rc;

    if (!copy)
        return stk_fail_nomem(err, in.len);
    memcpy(copy, in.data, in.len);
    data.m.timestamp = number;
    rc = dav1d_send_data(s->c, &data);
    if (data.sz)
        dav1d_data_unref(&data);
    return rc < 0 ? stk_fail(err, STK_ECORRUPT, "a damaged packet (dav1d %d)", rc) : 0;
}

static int dav1d_open_stream(void **out, void *lib, const stk_vdec_setup *how, stk_error *err)
{
    stream *s = STK_NEW(stream);
    Dav1dSettings set;
    int rc = 0;

    (void)lib;
    *out = NULL;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    dav1d_default_settings(&set);
    set.n_threads = 1;
    set.max_frame_delay = 1;
    set.all_layers = 0;
    set.frame_size_limit = (how->width + 128) * (how->height + 128);
    set.logger.callback = NULL;
    if (dav1d_open(&s->c, &set) < 0)
        rc = stk_fail_nomem(err, 0);
    if (rc < 0) {
        stk_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static int dav1d_send(void *d, const stk_vdec_packet *p, stk_error *err)
{
    return p->bytes.data && p->bytes.len ? give(d, p->bytes, p->number, err) : 0;
}

static int planes_of(const Dav1dPicture *p, stk_planes *out, stk_error *err)
{
    const Dav1dSequenceHeader *seq = p->seq_hdr;
    int layout = p->p.layout;

    *out = (stk_planes){ .kind = STK_PLANES_YUV,
                         .bits = (uint32_t)p->p.bpc,
                         .half_x = layout == DAV1D_PIXEL_LAYOUT_I420 ||
                                   layout == DAV1D_PIXEL_LAYOUT_I422,
                         .half_y = layout == DAV1D_PIXEL_LAYOUT_I420,
                         .matrix = (uint32_t)seq->mtrx,
                         .full_range = (uint32_t)seq->color_range,
                         /* 1: left, 3: top left, as FFmpeg counts */
                         .siting = seq->chr == DAV1D_CHR_VERTICAL    ? 1
                                   : seq->chr == DAV1D_CHR_COLOCATED ? 3
                                                                     : 0,
                         .area = { 0, 0, (uint32_t)p->p.w, (uint32_t)p->p.h } };
    for (int i = 0; i < (layout == DAV1D_PIXEL_LAYOUT_I400 ? 1 : 3); i++) {
        if (!p->data[i] || p->stride[i > 0] <= 0)
            return stk_fail(err, STK_ECORRUPT, "dav1d gave a frame without pixels");
        out->data[i] = p->data[i];
        out->stride[i] = (size_t)p->stride[i > 0];
    }
    return 0;
}

static int dav1d_receive(void *d, uint32_t *number, stk_planes *out, stk_error *err)
{
    stream *s = d;
    int rc;

    dav1d_picture_unref(&s->picture);
    memset(&s->picture, 0, sizeof s->picture);
    rc = dav1d_get_picture(s->c, &s->picture);
    if (rc == DAV1D_ERR(EAGAIN))
        return STK_END;
    if (rc < 0)
        return stk_fail(err, STK_ECORRUPT, "a damaged packet (dav1d %d)", rc);
    *number = s->picture.m.timestamp >= 0 && s->picture.m.timestamp < UINT32_MAX
                  ? (uint32_t)s->picture.m.timestamp
                  : UINT32_MAX;
    return planes_of(&s->picture, out, err);
}

static void dav1d_flush_stream(void *d)
{
    dav1d_flush(((stream *)d)->c);
}

const stk_vdec_ops stk_vdec_dav1d = { .name = "dav1d",
                                      .open = dav1d_open_stream,
                                      .close = dav1d_close_stream,
                                      .send = dav1d_send,
                                      .receive = dav1d_receive,
                                      .flush = dav1d_flush_stream };

#endif
