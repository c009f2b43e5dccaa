/* SPDX-License-Identifier: Apache-2.0 */
/* hear.c - see hear.h.  Full scale is the largest number of 16 bits, which is a little less than 1:
 * what was cut off when it was recorded is there, or above where a codec has changed it. */
#include "tools/hear.h"

#include <math.h>

#include "base/err.h"
#include "codec/sound_decoders.h"

#define FULL_SCALE (32766.5f / 32768)
#define QUIET 0.001f
#define PIECES 50 /* of a second */

typedef struct hearing {      /* the sink */
    uint32_t channels, piece; /* samples of a piece */
    uint32_t left;            /* of the piece that is heard */
    uint64_t values, clipped, pieces, quiet;
    double square;
    float loudest; /* of the piece */
} hearing;

static void end_piece(hearing *h)
{
    h->pieces++;
    h->quiet += h->loudest <= QUIET;
    h->loudest = 0;
    h->left = h->piece;
}

static int hear(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                stk_error *err)
{
    hearing *h = cookie;

    (void)first, (void)err;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < h->channels; c++) {
            float x = fabsf(channel[c][i]);

            h->square += (double)x * (double)x;
            h->clipped += x >= FULL_SCALE;
            h->loudest = x > h->loudest ? x : h->loudest;
        }
        if (!--h->left)
            end_piece(h);
    }
    h->values += (uint64_t)n * h->channels;
    return 0;
}

static void sum_up(hearing *h, const stk_media_info *info, stk_heard *out)
{
    double power = h->values ? h->square / (double)h->values : 0;

    if (h->left != h->piece)
        end_piece(h); /* the last one, which is shorter */
    *out = (stk_heard){ .seconds = (double)info->units / info->rate,
                        .loudness = power > 1e-20 ? 10 * log10(power) : -200,
                        .clipped = (double)h->clipped / (double)h->values,
                        .silent = (double)h->quiet / (double)h->pieces };
}

int stk_hear(stk_decoders *decoders, stk_scratch *scratch, stk_bytes in, stk_media_info *info,
             stk_heard *out)
{
    const stk_media_points none = { 0 };
    const stk_media_part all = { 0, in };
    stk_lane lane = STK_LANE_PLAIN;
    hearing h = { 0 };
    const stk_media_sink sink = { .cookie = &h, .sound = hear, .lane = &lane };
    stk_media_ask ask = { 0 };
    const stk_media_job job = {
        .points = &none, .ask = &ask, .part = &all, .n_parts = 1, .sink = &sink, .scratch = scratch
    };
    const stk_decoder *d;
    void *ctx;

    *info = (stk_media_info){ 0 };
    if (stk_decoders_find_sound(decoders, in, &d, &ctx, NULL) != 0 ||
        d->header(ctx, in, &none, info, NULL) < 0 || info->medium != STK_SOUND)
        return 0; /* or a bad one, which no other decoder takes */
    if (!info->units)
        return STK_ECORRUPT;
    stk_scratch_reset(scratch);
    ask.to = info->units;
    h.channels = info->channels;
    h.piece = h.left = info->rate / PIECES ? info->rate / PIECES : 1;
    STK_TRY(d->decode(ctx, &job, NULL));
    if (!h.values)
        return STK_ECORRUPT;
    sum_up(&h, info, out);
    return 1;
}
