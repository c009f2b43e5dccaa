/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sound_points - any bytes as the points of a recording, and any as what was read of it: the
 * ranges that they name, samples, or a clean error.  The first byte says how long the points
 * are, in units of four; the decoder is the one whose tag they begin with. */
#include "codec/sound_points.h"
#include "sound.h"

static const stk_decoder *decoder_of(uint8_t tag)
{
    static const stk_decoder *const all[] = {
#define STK_DECODER(name) &stk_decoder_##name,
#include "registry.def"
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->tag && (uint8_t)all[i]->tag == tag && all[i]->ranges && tag != 'J')
            return all[i];
    return NULL;
}

static int listen(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                  stk_error *err)
{
    const stk_media_ask *ask = cookie;

    (void)channel, (void)err;
    FUZZ_CHECK(first >= ask->from && first + n <= ask->to);
    return 0;
}

static void decode_any(const stk_decoder *d, const stk_media_points *points, stk_bytes rest)
{
    stk_media_ask ask = { .from = 100, .to = 400 };
    const stk_media_sink sink = { .cookie = &ask, .sound = listen };
    stk_media_range range[STK_MEDIA_RANGES];
    stk_media_part part[STK_MEDIA_RANGES];
    stk_scratch scratch = { 0 };
    stk_media_job job = {
        .points = points, .ask = &ask, .part = part, .sink = &sink, .scratch = &scratch
    };
    stk_error err = { 0 };
    void *ctx;

    if (d->ranges(points, &ask, UINT64_MAX, range, &job.n_parts, &err) == 0 && job.n_parts &&
        d->open(&ctx, &err) == 0) {
        FUZZ_CHECK(job.n_parts <= STK_MEDIA_RANGES);
        for (uint32_t i = 0; i < job.n_parts; i++)
            part[i] = (stk_media_part){ range[i].offset,
                                        { rest.data, range[i].len < rest.len ? (size_t)range[i].len
                                                                             : rest.len } };
        if (part[job.n_parts - 1].offset)
            (void)d->decode(ctx, &job, &err);
        d->close(ctx);
    }
    stk_scratch_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len = size ? (size_t)data[0] * 4 : 0;
    const stk_decoder *d;
    stk_media_points points;
    stk_media_info info;

    if (size < 2 || len + 1 > size || !len)
        return 0;
    points = (stk_media_points){ .head = { data + 1, len } };
    d = decoder_of(data[1]);
    if (!d)
        return 0;
    if (d->know(&points, 0, &info, NULL) == 0)
        FUZZ_CHECK(info.medium == STK_SOUND && info.rate && info.channels);
    decode_any(d, &points, (stk_bytes){ data + 1 + len, size - 1 - len });
    return 0;
}
