/* SPDX-License-Identifier: Apache-2.0 */
/* vorbis - Vorbis in Ogg by libvorbis; the only file that knows its header.  A packet's samples
 * depend on it and the one before it alone, so that a part equals that slice of the whole, bit for
 * bit. */
#include "codec/codec.h"
#include "codec/ogg_sound.h"

#include <config.h>

#define RUN_UP 16384 /* two packets of the longest */

#if STK_HAVE_VORBIS

#include <vorbis/codec.h>

typedef struct vorbis_ctx {
    vorbis_info info;
    vorbis_comment comment;
    vorbis_dsp_state dsp;
    vorbis_block block;
    int has_info, has_dsp;
    int64_t before; /* size of the block before; 0: none was */
} vorbis_ctx;

static void drop_dsp(vorbis_ctx *c)
{
    if (c->has_dsp) {
        vorbis_block_clear(&c->block);
        vorbis_dsp_clear(&c->dsp);
    }
    c->has_dsp = 0;
}

static void drop_info(vorbis_ctx *c)
{
    drop_dsp(c);
    if (c->has_info) {
        vorbis_comment_clear(&c->comment);
        vorbis_info_clear(&c->info);
    }
    c->has_info = 0;
}

static void *ctx_open(void)
{
    return STK_NEW(vorbis_ctx);
}

static void ctx_close(void *p)
{
    drop_info(p);
    stk_free(p);
}

static ogg_packet packet_of(stk_bytes in, int first)
{
    return (ogg_packet){ .packet = (unsigned char *)(uintptr_t)in.data,
                         .bytes = (long)in.len,
                         .b_o_s = first,
                         .granulepos = -1 };
}

static int ctx_head(void *p, uint32_t i, stk_bytes in, stk_media_info *info, uint64_t *skip,
                    stk_error *err)
{
    ogg_packet packet = packet_of(in, i == 0);
    vorbis_ctx *c = p;

    (void)skip;
    if (!i) {
        drop_info(c);
        vorbis_info_init(&c->info);
        vorbis_comment_init(&c->comment);
        c->has_info = 1;
    }
    if (vorbis_synthesis_headerin(&c->info, &c->comment, &packet))
        return stk_fail(err, STK_ECORRUPT, "Vorbis: packet %u of its header is damaged", i);
    if (c->info.channels < 1 || c->info.rate < 1)
        return stk_fail(err, STK_ECORRUPT, "Vorbis: %d channels, a rate of %ld", c->info.channels,
                        c->info.rate);
    info->channels = (uint32_t)c->info.channels;
    info->rate = (uint32_t)c->info.rate;
    if (i < 2)
        return 0;
    if (vorbis_synthesis_init(&c->dsp, &c->info))
        return stk_fail(err, STK_ECORRUPT, "Vorbis: its setup is damaged");
    vorbis_block_init(&c->dsp, &c->block);
    c->has_dsp = 1;
    return 0;
}

static void ctx_restart(void *p)
{
    vorbis_ctx *c = p;

    c->before = 0;
    if (c->has_dsp)
        vorbis_synthesis_restart(&c->dsp);
}

static int64_t ctx_samples(void *p, stk_bytes in)
{
    vorbis_ctx *c = p;
    ogg_packet packet = packet_of(in, 0);
    int64_t size = in.len ? vorbis_packet_blocksize(&c->info, &packet) : -1;
    int64_t made = c->before ? (c->before + size) / 4 : 0;

    if (size <= 0)
        return -1;
    c->before = size;
    return made;
}

static int ctx_decode(void *p, stk_bytes in, float *channel[STK_SOUND_CHANNELS], uint32_t *n,
                      stk_error *err)
{
    ogg_packet packet = packet_of(in, 0);
    vorbis_ctx *c = p;
    float **pcm = NULL;
    int made;

    if (!c->has_dsp || vorbis_synthesis(&c->block, &packet) ||
        vorbis_synthesis_blockin(&c->dsp, &c->block))
        return stk_fail(err, STK_ECORRUPT, "Vorbis: a packet is damaged");
    made = vorbis_synthesis_pcmout(&c->dsp, &pcm);
    for (int k = 0; made > 0 && k < c->info.channels && k < STK_SOUND_CHANNELS; k++)
        channel[k] = pcm[k];
    *n = made > 0 ? (uint32_t)made : 0;
    vorbis_synthesis_read(&c->dsp, made > 0 ? made : 0);
    return 0;
}

static const stk_ogg_codec codec = { .name = "Vorbis",
                                     .tag = 'V',
                                     .magic = "\1vorbis",
                                     .magic_len = 7,
                                     .heads = 3,
                                     .run_up = RUN_UP,
                                     .after = 1,
                                     .open = ctx_open,
                                     .close = ctx_close,
                                     .head = ctx_head,
                                     .restart = ctx_restart,
                                     .samples = ctx_samples,
                                     .decode = ctx_decode };

#else

static const stk_ogg_codec codec = {
    .name = "Vorbis",
    .magic = "\1vorbis",
    .magic_len = 7,
    .lacks = "this build has no Vorbis: install libvorbis's headers and build again"
};

#endif

STK_OGG_DECODER(vorbis, 'V', "Vorbis in Ogg by libvorbis; parts are slices of the whole");
