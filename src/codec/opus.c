/* SPDX-License-Identifier: Apache-2.0 */
/* opus - Opus in Ogg by libopus; the only file that knows its header.
 *
 * Opus predicts from what came before, without end.  A part is defined by a run-up: decoding begins
 * with the packet that holds the sample half a second before the part, with or without points.
 * What comes out differs from that slice of the whole by less than 0.005 (docs/sound.md). */
#include "codec/codec.h"
#include "codec/ogg_sound.h"

#include <config.h>

#define RATE 48000
#define RUN_UP 24000      /* half a second: 80 ms, as RFC 7845 has it, differ by up to 0.3 */
#define MOST_SAMPLES 5760 /* of a packet: 120 ms */

#if STK_HAVE_OPUS

#include <opus/opus_multistream.h>

typedef struct opus_ctx {
    OpusMSDecoder *d;
    uint32_t channels;
    float *mixed, *apart; /* MOST_SAMPLES of every channel */
    uint32_t room;        /* channels */
} opus_ctx;

static void *ctx_open(void)
{
    return STK_NEW(opus_ctx);
}

static void ctx_close(void *p)
{
    opus_ctx *c = p;

    if (c->d)
        opus_multistream_decoder_destroy(c->d);
    stk_free(c->mixed);
    stk_free(c->apart);
    stk_free(c);
}

static int make_room(opus_ctx *c, stk_error *err)
{
    if (c->room >= c->channels)
        return 0;
    stk_free(c->mixed);
    stk_free(c->apart);
    c->room = 0;
    c->mixed = stk_zalloc((size_t)c->channels * MOST_SAMPLES, sizeof(float));
    c->apart = stk_zalloc((size_t)c->channels * MOST_SAMPLES, sizeof(float));
    if (!c->mixed || !c->apart)
        return stk_fail_nomem(err, (size_t)c->channels * MOST_SAMPLES * sizeof(float));
    c->room = c->channels;
    return 0;
}

static int ctx_head(void *p, uint32_t i, stk_bytes in, stk_media_info *info, uint64_t *skip,
                    stk_error *err)
{
    uint8_t mapping[255] = { 0, 1 };
    int streams = 1, coupled, code = 0;
    const uint8_t *h = in.data;
    opus_ctx *c = p;

    if (i)
        return 0; /* tags */
    if (in.len < 19 || h[8] >> 4 || !h[9] || (h[18] && in.len < 21u + h[9]) || (!h[18] && h[9] > 2))
        return stk_fail(err, STK_ECORRUPT, "Opus: its head of %zu bytes is damaged", in.len);
    c->channels = h[9];
    coupled = h[9] - 1;
    if (h[18]) {
        streams = h[19];
        coupled = h[20];
        for (uint32_t k = 0; k < c->channels; k++)
            mapping[k] = h[21 + k];
    }
    if (c->d)
        opus_multistream_decoder_destroy(c->d);
    c->d = opus_multistream_decoder_create(RATE, (int)c->channels, streams, coupled, mapping,
                                           &code);
    if (!c->d)
        return stk_fail(err, code == OPUS_ALLOC_FAIL ? STK_ENOMEM : STK_ECORRUPT, "Opus: %s",
                        opus_strerror(code));
    opus_multistream_decoder_ctl(c->d, OPUS_SET_GAIN((int16_t)stk_le16(h + 16)));
    *skip = stk_le16(h + 10);
    info->rate = RATE;
    info->channels = c->channels;
    return make_room(c, err);
}

static void ctx_restart(void *p)
{
    opus_multistream_decoder_ctl(((opus_ctx *)p)->d, OPUS_RESET_STATE);
}

static int64_t ctx_samples(void *p, stk_bytes in)
{
    (void)p;
    if (!in.len || in.len > INT32_MAX)
        return -1;
    return opus_packet_get_nb_samples(in.data, (opus_int32)in.len, RATE);
}

static int ctx_decode(void *p, stk_bytes in, float *channel[STK_SOUND_CHANNELS], uint32_t *n,
                      stk_error *err)
{
    opus_ctx *c = p;
    int made = opus_multistream_decode_float(c->d, in.data, (opus_int32)in.len, c->mixed,
                                             MOST_SAMPLES, 0);

    if (made < 0)
        return stk_fail(err, STK_ECORRUPT, "Opus: %s", opus_strerror(made));
    *n = (uint32_t)made;
    for (uint32_t k = 0; k < c->channels; k++) {
        channel[k] = c->apart + (size_t)k * MOST_SAMPLES;
        for (uint32_t i = 0; i < *n; i++)
            channel[k][i] = c->mixed[(size_t)i * c->channels + k];
    }
    return 0;
}

static const stk_ogg_codec codec = { .name = "Opus",
                                     .tag = 'O',
                                     .magic = "OpusHead",
                                     .magic_len = 8,
                                     .heads = 2,
                                     .run_up = RUN_UP,
                                     .keeps_head = 1,
                                     .open = ctx_open,
                                     .close = ctx_close,
                                     .head = ctx_head,
                                     .restart = ctx_restart,
                                     .samples = ctx_samples,
                                     .decode = ctx_decode };

#else

static const stk_ogg_codec codec = {
    .name = "Opus",
    .magic = "OpusHead",
    .magic_len = 8,
    .lacks = "this build has no Opus: install libopus's headers and build again"
};

#endif

STK_OGG_DECODER(opus, 'O',
                "Opus in Ogg by libopus, 48000 samples per second; parts have a run-up of 0.5 s");
