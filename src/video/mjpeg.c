/* SPDX-License-Identifier: Apache-2.0 */
/* mjpeg.c - Motion JPEG: every packet is a JPEG, and becomes the pixels that our decoder of JPEGs
 * makes of it as a picture. */
#include "codec/codec.h"
#include "codec/decoders.h"
#include "video/vdec.h"

typedef struct stream {
    void *ctx; /* of the decoder of JPEGs: the library */
    stk_scratch scratch;
    stk_pixels pixels;
    uint32_t number, width, height;
    int ready;
} stream;

static int jpeg_load(void **lib, stk_error *err)
{
    return stk_decoder_jpeg.open(lib, err);
}

static void jpeg_unload(void *lib)
{
    stk_decoder_jpeg.close(lib);
}

static int mjpeg_open(void **out, void *lib, const stk_vdec_setup *how, stk_error *err)
{
    stream *s = STK_NEW(stream);

    *out = s;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->ctx = lib;
    s->width = how->width;
    s->height = how->height;
    return 0;
}

static void mjpeg_close(void *d)
{
    stream *s = d;

    stk_scratch_fini(&s->scratch);
    stk_free(s);
}

static int mjpeg_send(void *d, const stk_vdec_packet *p, stk_error *err)
{
    stk_bytes in = p->bytes;
    stream *s = d;
    const stk_picture_source from = { .decoder = &stk_decoder_jpeg, .ctx = s->ctx };
    stk_media_info info;

    if (!in.data)
        return 0;
    s->ready = 0;
    stk_scratch_reset(&s->scratch);
    STK_TRY(stk_picture_header(&from, in, &info, err));
    if (info.width != s->width || info.height != s->height)
        return stk_fail(err, STK_ECORRUPT, "a JPEG of %ux%u in a video of %ux%u", info.width,
                        info.height, s->width, s->height);
    STK_TRY(stk_picture_whole(&from, in,
                              &(stk_decode_request){ .need = { 0, 0, info.width, info.height } },
                              &s->scratch, &s->pixels, err));
    s->number = p->number;
    s->ready = 1;
    return 0;
}

static int mjpeg_receive(void *d, uint32_t *number, stk_planes *out, stk_error *err)
{
    stream *s = d;

    (void)err;
    if (!s->ready)
        return STK_END;
    s->ready = 0;
    *number = s->number;
    *out = (stk_planes){ .kind = STK_PLANES_RGBX,
                         .bits = 8,
                         .data = { s->pixels.data },
                         .stride = { s->pixels.stride },
                         .area = s->pixels.area };
    return 0;
}

static void mjpeg_flush(void *d)
{
    ((stream *)d)->ready = 0;
}

const stk_vdec_ops stk_vdec_mjpeg = { .name = "jpeg",
                                      .load = jpeg_load,
                                      .unload = jpeg_unload,
                                      .open = mjpeg_open,
                                      .close = mjpeg_close,
                                      .send = mjpeg_send,
                                      .receive = mjpeg_receive,
                                      .flush = mjpeg_flush };
