/* SPDX-License-Identifier: Apache-2.0 */
/* sound - a recording.  Which decoder reads it is settled by its first bytes, sample by sample;
 * here is what a row looks like, and the resamplers that a worker keeps: filters of the last few
 * rates that it met. */
#include "base/mem.h"
#include "codec/codec.h"
#include "codec/sound_codec.h"
#include "codec/sound_points.h"

#include <string.h>

#define CACHED 8

typedef struct sound_ctx {
    struct {
        uint32_t from;
        uint64_t used;
        stk_rate_change *r;
    } cached[CACHED];
    uint64_t clock;
} sound_ctx;

static int sound_open(const void *state, void **out, stk_error *err)
{
    (void)state;
    *out = STK_NEW(sound_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(sound_ctx));
}

static void sound_close(void *p)
{
    sound_ctx *c = p;

    for (int i = 0; c && i < CACHED; i++)
        stk_rate_change_close(&c->cached[i].r);
    stk_free(c);
}

int stk_sound_resampler(void *ctx, const stk_sound *s, uint32_t from, const stk_rate_change **out,
                        stk_error *err)
{
    sound_ctx *c = ctx;
    int oldest = 0;

    *out = NULL;
    if (!s->rate || s->rate == from)
        return 0;
    for (int i = 0; i < CACHED; i++) {
        if (c->cached[i].r && c->cached[i].from == from) {
            c->cached[i].used = ++c->clock;
            *out = c->cached[i].r;
            return 0;
        }
        if (c->cached[i].used < c->cached[oldest].used)
            oldest = i;
    }
    stk_rate_change_close(&c->cached[oldest].r);
    STK_TRY(stk_rate_change_open(&c->cached[oldest].r, from, s->rate, s->kind, err));
    c->cached[oldest].from = from;
    c->cached[oldest].used = ++c->clock;
    *out = c->cached[oldest].r;
    return 0;
}

int stk_resample_kind_of(const char *name, stk_resample_kind *out, stk_error *err)
{
    if (name && !strcmp(name, "torchaudio"))
        *out = STK_RESAMPLE_TORCHAUDIO;
    else if (name && !strcmp(name, "hq"))
        *out = STK_RESAMPLE_HQ;
    else
        return stk_fail(err, STK_EINVAL, "the filter of a resampler is hq or torchaudio, not %s",
                        name ? name : "a number");
    return 0;
}

static int plan_channel(stk_sound *s, const stk_args *args, stk_error *err)
{
    const char *name = stk_args_str(args, "channel");
    double number = stk_args_f64(args, "channel");

    s->channel = STK_CHANNEL_ALL;
    s->mono = stk_args_bool(args, "mono");
    if (!stk_args_has(args, "channel"))
        return 0;
    s->mono = 0;
    if (name && !strcmp(name, "random")) {
        s->channel = STK_CHANNEL_RANDOM;
        return 0;
    }
    if (name && *name) {
        s->channel = STK_CHANNEL_FIELD;
        s->field = stk_strdup(name);
        return s->field ? 0 : stk_fail_nomem(err, strlen(name) + 1);
    }
    if (name || !(number >= 0 && number < STK_SOUND_CHANNELS) || number != (int)number)
        return stk_fail(err, STK_EINVAL,
                        "sound: channel is random, a number from 0 on, or a field that says it");
    s->channel = (int)number;
    return 0;
}

static void sound_fini(void *state)
{
    stk_sound *s = state;

    stk_free(s->field);
    stk_free(s->given);
    s->field = NULL;
    s->given = NULL;
}

void stk_sound_bind(void *state, double *values)
{
    stk_sound *s = state;

    stk_free(s->given);
    s->given = values;
}

static int sound_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_sound *s = state;
    int64_t rate = stk_args_i64(args, "rate");

    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "sound reads a field's bytes: put it first");
    if (stk_args_has(args, "rate") && (rate < 100 || rate > STK_SOUND_RATE))
        return stk_fail(err, STK_EINVAL, "sound: rate=%" PRId64 " is not in 100..%d", rate,
                        STK_SOUND_RATE);
    s->rate = (uint32_t)rate;
    STK_TRY(plan_channel(s, args, err));
    STK_TRY(stk_resample_kind_of(stk_args_str(args, "filter"), &s->kind, err));
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = STK_OUT_LIST,
                        .dtype = STK_F32,
                        .ndim = s->mono || s->channel != STK_CHANNEL_ALL ? 1 : 2,
                        .sound = STK_WAVE,
                        .rate = s->rate };
    return 0;
}

static const stk_arg sound_args[] = {
    { "rate", STK_ARG_INT, "", "samples per second; absent: as each recording is stored" },
    { "mono", STK_ARG_BOOL, "true",
      "the mean of all channels, rows of (samples); false: (channels, samples)" },
    { "channel", STK_ARG_ANY, "",
      "one channel alone: its number, a field that says it, or random" },
    { "filter", STK_ARG_NAME, "hq", "of the resampler: hq, or torchaudio" },
    { 0 },
};

const stk_codec stk_codec_sound = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "sound",
    .help = "decode a recording to f32 samples; its content says what it is (WAV, FLAC, ...)",
    .args = sound_args,
    .state_size = sizeof(stk_sound),
    .plan = sound_plan,
    .fini = sound_fini,
    .open = sound_open,
    .close = sound_close,
    .can = STK_CODEC_SOUND
};
