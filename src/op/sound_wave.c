/* SPDX-License-Identifier: Apache-2.0 */
/* resample, speed, gain, pad_to, normalize_peak, preemphasis - samples of a recording to others.
 *
 * resample and speed have their filters from the plan on.  speed draws one of the factors low,
 * low + step, ... high: at 1.1 the recording is a tenth faster and higher, as SoX's `speed` has
 * it. */
#include "op/sound.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "codec/sound_codec.h"

#define MOST_FACTORS 64

/* ---- at another rate ---- */

static int run_resampler(const stk_rate_change *r, stk_value_row *row, stk_scratch *scratch,
                         stk_error *err)
{
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row);
    uint64_t made = stk_rate_change_length(r, n);
    const float *x = row->data;
    size_t room = stk_rate_change_work(r) * sizeof(float);
    float *out, *work = stk_scratch_get(scratch, room + 1);

    if (!work)
        return stk_fail_nomem(err, room);
    STK_TRY(stk_wave_new(row, made, scratch, &out, err));
    for (uint64_t c = 0; c < channels; c++)
        stk_rate_change_run(r, &(stk_resample_in){ x + c * n, 0, n, work }, 0, made,
                            out + c * made);
    return 0;
}

struct resample {
    double rate;
    stk_rate_change *r; /* NULL: the rate stays */
};

static int resample_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct resample *s = state;
    int64_t rate = stk_args_i64(args, "rate");
    stk_resample_kind kind;

    STK_TRY(stk_op_needs_wave("resample", spec, err));
    STK_TRY(stk_op_needs_rate("resample", spec, err));
    if (rate < 100 || rate > 4000000)
        return stk_fail(err, STK_EINVAL, "resample: rate=%" PRId64 " is not in 100..4000000", rate);
    STK_TRY(stk_resample_kind_of(stk_args_str(args, "filter"), &kind, err));
    s->rate = (double)rate;
    if (s->rate != spec->rate)
        STK_TRY(stk_rate_change_open(&s->r, (uint32_t)spec->rate, (uint32_t)rate, kind, err));
    if (s->r && spec->out == STK_OUT_DENSE)
        spec->shape[0] = (int64_t)stk_rate_change_length(s->r, (uint64_t)spec->shape[0]);
    spec->rate = s->rate;
    return 0;
}

static void resample_fini(void *state)
{
    stk_rate_change_close(&((struct resample *)state)->r);
}

static int resample_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                          stk_error *err)
{
    const struct resample *s = state;

    (void)rng;
    row->rate = s->rate;
    return s->r ? run_resampler(s->r, row, scratch, err) : 0;
}

struct speed {
    double low;
    uint32_t n;
    stk_rate_change *r[MOST_FACTORS]; /* NULL: factor 1 */
};

static void speed_fini(void *state)
{
    struct speed *s = state;

    for (uint32_t i = 0; i < s->n; i++)
        stk_rate_change_close(&s->r[i]);
}

static int speed_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct speed *s = state;
    double low = stk_args_f64(args, "low"), step = stk_args_f64(args, "step");
    double high = stk_args_has(args, "high") ? stk_args_f64(args, "high") : low;

    STK_TRY(stk_op_needs_wave("speed", spec, err));
    if (!(low >= 0.1 && high <= 10 && low <= high && step >= 0.001) ||
        (high - low) / step >= MOST_FACTORS)
        return stk_fail(err, STK_EINVAL,
                        "speed: %g to %g in steps of %g: factors are in 0.1..10, at most %d of "
                        "them, in steps of at least 0.001",
                        low, high, step, MOST_FACTORS);
    s->low = low;
    for (int i = 0; low + i * step <= high + 1e-6; i++) {
        uint32_t per_mille = (uint32_t)floor((low + i * step) * 1000 + 0.5);

        s->r[s->n++] = NULL;
        if (per_mille != 1000)
            STK_TRY(stk_rate_change_open(&s->r[s->n - 1], per_mille, 1000, STK_RESAMPLE_HQ, err));
    }
    spec->out = STK_OUT_LIST;
    return 0;
}

static int speed_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                       stk_error *err)
{
    const struct speed *s = state;
    const stk_rate_change *r = s->r[stk_rng_below(rng, s->n)];

    return r ? run_resampler(r, row, scratch, err) : 0;
}

/* ---- louder, longer ---- */

#define SILENCE 1e-30f /* what is softer has no factor to full scale */

struct wave {
    double low, high; /* gain: dB; pad_to: low: seconds; others: low: their number */
};

static void multiply(stk_value_row *row, float by)
{
    uint64_t n = stk_wave_len(row) * stk_wave_channels(row);
    float *x = row->data;

    for (uint64_t i = 0; i < n; i++)
        x[i] *= by;
}

static int gain_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct wave *w = state;

    STK_TRY(stk_op_needs_wave("gain", spec, err));
    w->low = stk_args_f64(args, "low");
    w->high = stk_args_has(args, "high") ? stk_args_f64(args, "high") : w->low;
    if (!(w->low >= -120 && w->low <= w->high && w->high <= 120))
        return stk_fail(err, STK_EINVAL, "gain: %g to %g dB are not in -120..120, in that order",
                        w->low, w->high);
    return 0;
}

static int gain_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                      stk_error *err)
{
    const struct wave *w = state;
    double db = w->low + stk_rng_unit(rng) * (w->high - w->low);

    (void)scratch, (void)err;
    multiply(row, (float)pow(10, db / 20));
    return 0;
}

static int normalize_peak_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct wave *w = state;

    STK_TRY(stk_op_needs_wave("normalize_peak", spec, err));
    w->low = stk_args_f64(args, "peak");
    if (!(w->low > 0 && w->low <= 1e6))
        return stk_fail(err, STK_EINVAL, "normalize_peak: peak=%g is not above 0", w->low);
    return 0;
}

static int normalize_peak_value(const void *state, stk_value_row *row, stk_rng *rng,
                                stk_scratch *scratch, stk_error *err)
{
    uint64_t n = stk_wave_len(row) * stk_wave_channels(row);
    const float *x = row->data;
    float most = 0;

    (void)rng, (void)scratch, (void)err;
    for (uint64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    if (most > SILENCE) /* which stays silence */
        multiply(row, (float)(((const struct wave *)state)->low / most));
    return 0;
}

static int preemphasis_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct wave *w = state;

    STK_TRY(stk_op_needs_wave("preemphasis", spec, err));
    w->low = stk_args_f64(args, "factor");
    if (!(w->low >= 0 && w->low <= 1))
        return stk_fail(err, STK_EINVAL, "preemphasis: factor=%g is not in 0..1", w->low);
    return 0;
}

static int preemphasis_value(const void *state, stk_value_row *row, stk_rng *rng,
                             stk_scratch *scratch, stk_error *err)
{
    float by = (float)((const struct wave *)state)->low, *x = row->data;
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row);

    (void)rng, (void)scratch, (void)err;
    for (uint64_t c = 0; c < channels; c++, x += n)
        for (uint64_t i = n; i-- > 1;)
            x[i] -= by * x[i - 1];
    return 0;
}

static int pad_to_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct wave *w = state;

    STK_TRY(stk_op_needs_wave("pad_to", spec, err));
    STK_TRY(stk_op_seconds("pad_to", args, "seconds", &w->low, err));
    if (spec->ndim != 1 || spec->rate <= 0)
        return 0; /* rows differ in channels or samples */
    spec->out = STK_OUT_DENSE;
    spec->shape[0] = (int64_t)stk_samples_of(w->low, spec->rate);
    return 0;
}

static int pad_to_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                        stk_error *err)
{
    const struct wave *w = state;
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row);
    uint64_t want = stk_samples_of(w->low, row->rate);
    const float *x = row->data;
    float *out;

    (void)rng;
    if (n > want)
        return stk_fail(err, STK_ECORRUPT,
                        "pad_to: the recording has %.3f seconds, more than %g: put part(0, %g) or "
                        "random_part(%g) before it",
                        (double)n / row->rate, w->low, w->low, w->low);
    if (n == want)
        return 0;
    STK_TRY(stk_wave_new(row, want, scratch, &out, err));
    for (uint64_t c = 0; c < channels; c++) {
        memcpy(out + c * want, x + c * n, (size_t)n * sizeof *out);
        memset(out + c * want + n, 0, (size_t)(want - n) * sizeof *out);
    }
    return 0;
}

/* ---- tables ---- */

static const stk_arg resample_args[] = {
    { "rate", STK_ARG_INT, NULL, "samples per second" },
    { "filter", STK_ARG_NAME, "hq", "hq, or torchaudio" },
    { 0 },
};
static const stk_arg speed_args[] = {
    { "low", STK_ARG_FLOAT, NULL, "the least factor; 1.1: a tenth faster, and higher" },
    { "high", STK_ARG_FLOAT, "", "the greatest; absent: low alone" },
    { "step", STK_ARG_FLOAT, "0.1", "between factors, of which one is drawn" },
    { 0 },
};
static const stk_arg gain_args[] = {
    { "low", STK_ARG_FLOAT, NULL, "dB" },
    { "high", STK_ARG_FLOAT, "", "dB: drawn from low to high; absent: low" },
    { 0 },
};
static const stk_arg pad_to_args[] = {
    { "seconds", STK_ARG_FLOAT, NULL, "of every row; silence is added at its end" },
    { 0 },
};
static const stk_arg normalize_peak_args[] = {
    { "peak", STK_ARG_FLOAT, "1", "of the loudest sample" },
    { 0 },
};
static const stk_arg preemphasis_args[] = {
    { "factor", STK_ARG_FLOAT, "0.97", "of the sample before" },
    { 0 },
};

#define WAVE(op, state, text, ...)                                                                 \
    const stk_op stk_op_##op = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #op,                                                      \
                                 .help = text,                                                     \
                                 .args = op##_args,                                                \
                                 .state_size = sizeof(struct state),                               \
                                 .plan = op##_plan,                                                \
                                 .value = op##_value,                                              \
                                 __VA_ARGS__ };
WAVE(resample, resample, "a recording at another rate", .fini = resample_fini)
WAVE(speed, speed, "play a recording faster or slower, by a factor that is drawn",
     .fini = speed_fini)
WAVE(gain, wave, "make a recording louder or softer")
WAVE(pad_to, wave, "add silence up to so many seconds, so that rows stack")
WAVE(normalize_peak, wave, "make the loudest sample as loud as said")
WAVE(preemphasis, wave, "take from each sample a part of the one before it")

double stk_wave_seconds(const stk_op *op, const void *state, double seconds)
{
    if (op == &stk_op_speed)
        return seconds / ((const struct speed *)state)->low;
    if (op == &stk_op_pad_to && ((const struct wave *)state)->low > seconds)
        return ((const struct wave *)state)->low;
    return seconds;
}
