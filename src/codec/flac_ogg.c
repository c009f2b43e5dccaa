/* SPDX-License-Identifier: Apache-2.0 */
/* flac_ogg - FLAC in Ogg, as RFC 9639 has it: the first packet has STREAMINFO, each packet after
 * those of metadata is a frame.  Frames depend on nothing before them, so that a part equals that
 * slice of the whole, bit for bit. */
#include "codec/codec.h"
#include "codec/flac_frame.h"
#include "codec/ogg_sound.h"

#define BLOCK 13 /* byte of the first packet at which its metadata block begins */
#define STREAMINFO 34
#define ANY UINT64_MAX

typedef struct flac_ogg_ctx {
    stk_flac frames;
    stk_flac_stream stream;
    uint64_t next; /* the first sample of the next packet; or ANY */
} flac_ogg_ctx;

static void *ctx_open(void)
{
    flac_ogg_ctx *c = STK_NEW(flac_ogg_ctx);

    if (c)
        stk_flac_init(&c->frames);
    return c;
}

static void ctx_close(void *p)
{
    stk_flac_fini(&((flac_ogg_ctx *)p)->frames);
    stk_free(p);
}

static int ctx_head(void *p, uint32_t i, stk_bytes in, stk_media_info *info, uint64_t *skip,
                    stk_error *err)
{
    size_t block = i ? 0 : BLOCK;
    flac_ogg_ctx *c = p;

    (void)skip;
    if (in.len < block + 4 || (!i && in.len < BLOCK + 4 + STREAMINFO) || in.data[block] == 0xFF ||
        !i != !(in.data[block] & 127))
        return stk_fail(err, STK_ECORRUPT, "FLAC in Ogg: packet %u of its header is damaged", i);
    if (!i)
        STK_TRY(stk_flac_stream_read(&c->stream, in.data + BLOCK + 4, err));
    info->rate = c->stream.rate;
    info->channels = c->stream.channels;
    return in.data[block] & 0x80 ? 0 : STK_PENDING;
}

static void ctx_restart(void *p)
{
    ((flac_ogg_ctx *)p)->next = ANY;
}

static int64_t ctx_samples(void *p, stk_bytes in)
{
    flac_ogg_ctx *c = p;
    stk_flac_head h;

    if (!in.len) /* as FFmpeg ends a stream */
        return 0;
    if (!stk_flac_head_read(&c->frames, &c->stream, in, &h) ||
        (c->next != ANY && h.first != c->next))
        return -1;
    c->next = h.first + h.block;
    return h.block;
}

static int ctx_decode(void *p, stk_bytes in, float *channel[STK_SOUND_CHANNELS], uint32_t *n,
                      stk_error *err)
{
    flac_ogg_ctx *c = p;
    stk_flac_head h;
    size_t size;

    *n = 0;
    if (!in.len)
        return 0;
    if (!stk_flac_head_read(&c->frames, &c->stream, in, &h))
        return stk_fail(err, STK_ECORRUPT, "FLAC in Ogg: a packet is not a frame");
    STK_TRY(stk_flac_check_rate(&c->stream, &h, err));
    STK_TRY(stk_flac_decode(&c->frames, &c->stream, &h, in, &size, err));
    if (size != in.len)
        return stk_fail(err, STK_ECORRUPT,
                        "FLAC in Ogg: the frame of sample %" PRIu64 " does not fill its packet",
                        h.first);
    for (uint32_t k = 0; k < c->stream.channels; k++)
        channel[k] = c->frames.channel[k];
    *n = h.block;
    return 0;
}

static const stk_ogg_codec codec = { .name = "FLAC in Ogg",
                                     .tag = 'G',
                                     .magic = "\177FLAC",
                                     .magic_len = 5,
                                     .heads = 1,
                                     .keeps_head = 1,
                                     .open = ctx_open,
                                     .close = ctx_close,
                                     .head = ctx_head,
                                     .restart = ctx_restart,
                                     .samples = ctx_samples,
                                     .decode = ctx_decode };

STK_OGG_DECODER(flac_ogg, 'G', "FLAC in Ogg; parts are slices of the whole");
