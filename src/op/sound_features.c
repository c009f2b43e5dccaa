/* SPDX-License-Identifier: Apache-2.0 */
/* fbank, log_mel, mfcc, spectrogram - features of a recording: rows of (frames, bins), f32.
 *
 * Each is what its original computes: fbank and mfcc are Kaldi's, log_mel has the definitions of
 * Whisper, NeMo and torchaudio by name.  A recording that is shorter than a frame is a bad
 * sample. */
#include "op/sound.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sound/spectral.h"

#define MOST_BINS 4096
#define EPSILON 1.1920928955078125e-07

typedef enum after { NOTHING, WHISPER, NEMO, CEPSTRA } after; /* what is done to the frames */

struct features {
    const char *name;
    stk_spectral *s;
    after after;
    int emphasize; /* NeMo: the whole recording, before frames */
    int normalize; /* NeMo: each bin */
    uint32_t ceps; /* of CEPSTRA */
    float *dct;    /* ceps rows of bins */
};

static void features_fini(void *state)
{
    struct features *f = state;

    stk_spectral_close(&f->s);
    stk_free(f->dct);
}

/* ---- plans ---- */

static int bins_of(const char *op, const stk_args *args, uint32_t *out, stk_error *err)
{
    int64_t n = stk_args_i64(args, "bins");

    if (n < 1 || n > MOST_BINS)
        return stk_fail(err, STK_EINVAL, "%s: bins=%" PRId64 " is not in 1..%d", op, n, MOST_BINS);
    *out = (uint32_t)n;
    return 0;
}

static int samples_arg(const char *op, const stk_args *args, const char *name, uint32_t *out,
                       stk_error *err)
{
    int64_t n = stk_args_i64(args, name);

    if (!stk_args_has(args, name))
        return 0;
    if (n < 1 || n > STK_SPECTRAL_FFT)
        return stk_fail(err, STK_EINVAL, "%s: %s=%" PRId64 " is not in 1..%d samples", op, name, n,
                        STK_SPECTRAL_FFT);
    *out = (uint32_t)n;
    return 0;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 2;

    while (p < n)
        p *= 2;
    return p;
}

/* What a chain has after them. */
static int settle(struct features *f, const stk_spectral_config *c, stk_spec *spec, stk_error *err)
{
    uint32_t bins;
    stk_error why;

    if (spec->ndim != 1)
        return stk_fail(err, STK_EINVAL,
                        "%s takes one channel: sound(mono=true), or sound(channel=0)", f->name);
    if (stk_spectral_open(&f->s, c, &why) < 0)
        return stk_fail(err, why.code, "%s: %s", f->name, why.message);
    bins = f->ceps ? f->ceps : stk_spectral_bins(f->s);
    if (spec->out == STK_OUT_DENSE)
        spec->shape[0] = (int64_t)stk_spectral_frames(f->s, (uint64_t)spec->shape[0]);
    if (spec->out == STK_OUT_DENSE && !spec->shape[0])
        return stk_fail(err, STK_EINVAL, "%s: the rows are shorter than a frame", f->name);
    spec->ndim = 2;
    spec->shape[1] = bins;
    spec->sound = STK_FEATURES;
    return 0;
}

static int needs(const char *op, const stk_spec *spec, stk_error *err)
{
    STK_TRY(stk_op_needs_wave(op, spec, err));
    return stk_op_needs_rate(op, spec, err);
}

static int kaldi_config(const char *op, const stk_args *args, const stk_spec *spec,
                        stk_spectral_config *c, stk_error *err)
{
    double high = stk_args_f64(args, "high"), frame = stk_args_f64(args, "frame"),
           hop = stk_args_f64(args, "hop");

    STK_TRY(needs(op, spec, err));
    if (!(frame > 0 && frame <= 1000 && hop > 0 && hop <= 1000))
        return stk_fail(err, STK_EINVAL, "%s: frames of %g ms every %g ms are not in 0..1000", op,
                        frame, hop);
    *c = (stk_spectral_config){ .rate = spec->rate,
                                .win = (uint32_t)(spec->rate * 0.001 * frame),
                                .hop = (uint32_t)(spec->rate * 0.001 * hop),
                                .edge = STK_EDGE_SYMMETRIC,
                                .window = STK_WINDOW_POVEY,
                                .scale = stk_args_f64(args, "scale"),
                                .preemphasis = 0.97,
                                .remove_mean = 1,
                                .mel = STK_MEL_KALDI,
                                .low = stk_args_f64(args, "low"),
                                .high = high > 0 ? high : spec->rate / 2 + high,
                                .log = STK_LOG_LN,
                                .floor = EPSILON,
                                .exact = 1 };
    c->frames = stk_args_bool(args, "snip_edges") ? STK_FRAMES_SNIP : STK_FRAMES_ROUND;
    c->fft = power_of_two(c->win);
    return bins_of(op, args, &c->mels, err);
}

static int fbank_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct features *f = state;
    stk_spectral_config c;

    f->name = "fbank";
    STK_TRY(kaldi_config("fbank", args, spec, &c, err));
    return settle(f, &c, spec, err);
}

static int mfcc_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct features *f = state;
    int64_t n = stk_args_i64(args, "n");
    double lifter = stk_args_f64(args, "lifter");
    stk_spectral_config c;

    f->name = "mfcc";
    f->after = CEPSTRA;
    STK_TRY(kaldi_config("mfcc", args, spec, &c, err));
    if (n < 1 || n > c.mels)
        return stk_fail(err, STK_EINVAL, "mfcc: n=%" PRId64 " is not in 1..bins, which are %u", n,
                        c.mels);
    f->ceps = (uint32_t)n;
    f->dct = stk_zalloc((size_t)n * c.mels, sizeof *f->dct);
    if (!f->dct)
        return stk_fail_nomem(err, (size_t)n * c.mels * sizeof *f->dct);
    for (uint32_t k = 0; k < f->ceps; k++)
        for (uint32_t j = 0; j < c.mels; j++) {
            double lift = lifter > 0 ? 1 + 0.5 * lifter * sin(M_PI * k / lifter) : 1;

            f->dct[(size_t)k * c.mels + j] = (float)(lift * sqrt((k ? 2.0 : 1.0) / c.mels) *
                                                     cos(M_PI / c.mels * (j + 0.5) * k));
        }
    return settle(f, &c, spec, err);
}

static int whisper_config(stk_spectral_config *c, stk_error *err)
{
    if (c->rate != 16000)
        return stk_fail(
            err, STK_EINVAL,
            "log_mel(preset=whisper) is of 16000 samples per second: sound(rate=16000)");
    c->win = c->fft = 400;
    c->hop = 160;
    c->frames = STK_FRAMES_SHORT;
    c->edge = STK_EDGE_REFLECT;
    c->mel = STK_MEL_SLANEY;
    c->log = STK_LOG_10;
    c->floor = 1e-10;
    return 0;
}

static void nemo_config(stk_spectral_config *c)
{
    c->win = (uint32_t)(c->rate * 0.025);
    c->hop = (uint32_t)(c->rate * 0.01);
    c->fft = power_of_two(c->win);
    c->frames = STK_FRAMES_SHORT;
    c->window = STK_WINDOW_HANN_SYM;
    c->mel = STK_MEL_SLANEY;
    c->log = STK_LOG_LN_ADD;
    c->floor = 0x1p-24;
    c->exact = 1;
}

static void torchaudio_config(stk_spectral_config *c)
{
    c->win = c->fft = 400;
    c->hop = 160;
    c->frames = STK_FRAMES_CENTER;
    c->edge = STK_EDGE_REFLECT;
    c->mel = STK_MEL_HTK;
    c->log = STK_LOG_LN;
    c->floor = 1e-10;
    c->exact = 1;
}

static int log_mel_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *preset = stk_args_str(args, "preset");
    stk_spectral_config c = { .rate = spec->rate, .scale = 1, .high = spec->rate / 2 };
    struct features *f = state;
    uint32_t fft = 0;

    f->name = "log_mel";
    STK_TRY(needs("log_mel", spec, err));
    STK_TRY(bins_of("log_mel", args, &c.mels, err));
    if (preset && !strcmp(preset, "whisper")) {
        STK_TRY(whisper_config(&c, err));
        f->after = WHISPER;
    } else if (preset && !strcmp(preset, "nemo")) {
        nemo_config(&c);
        f->after = NEMO;
        f->emphasize = 1;
        f->normalize = stk_args_bool(args, "normalize");
    } else if (preset && !strcmp(preset, "torchaudio")) {
        torchaudio_config(&c);
    } else {
        return stk_fail(err, STK_EINVAL, "log_mel: preset is whisper, nemo or torchaudio");
    }
    STK_TRY(samples_arg("log_mel", args, "fft", &fft, err));
    c.win = fft && c.win == c.fft ? fft : c.win;
    c.fft = fft ? fft : c.fft;
    STK_TRY(samples_arg("log_mel", args, "win", &c.win, err));
    STK_TRY(samples_arg("log_mel", args, "hop", &c.hop, err));
    return settle(f, &c, spec, err);
}

static int spectrogram_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_spectral_config c = {
        .rate = spec->rate, .scale = 1, .frames = STK_FRAMES_CENTER, .edge = STK_EDGE_REFLECT
    };
    struct features *f = state;
    double power = stk_args_f64(args, "power");

    f->name = "spectrogram";
    STK_TRY(stk_op_needs_wave("spectrogram", spec, err));
    STK_TRY(samples_arg("spectrogram", args, "fft", &c.fft, err));
    c.win = c.fft;
    c.hop = c.fft / 2;
    STK_TRY(samples_arg("spectrogram", args, "win", &c.win, err));
    STK_TRY(samples_arg("spectrogram", args, "hop", &c.hop, err));
    if (power != 1 && power != 2)
        return stk_fail(err, STK_EINVAL, "spectrogram: power is 1 or 2, not %g", power);
    c.magnitude = power == 1;
    return settle(f, &c, spec, err);
}

/* ---- values ---- */

static void after_whisper(float *x, size_t n)
{
    float most = -INFINITY;

    for (size_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < n; i++) {
        float v = x[i] > most - 8 ? x[i] : most - 8;

        x[i] = (v + 4) / 4;
    }
}

/* Each bin over all frames: less its mean, by its deviation.  Sums of eight bins at once: they are
 * beside each other in memory. */
#define BINS 8
static void normalize_bins(float *x, size_t frames, uint32_t bins, uint32_t n)
{
    double sum[BINS] = { 0 }, square[BINS] = { 0 };
    float mean[BINS], by[BINS];

    for (size_t i = 0; i < frames; i++)
        for (uint32_t b = 0; b < n; b++)
            sum[b] += x[i * bins + b];
    for (uint32_t b = 0; b < n; b++)
        sum[b] /= (double)frames;
    for (size_t i = 0; i < frames; i++)
        for (uint32_t b = 0; b < n; b++) {
            double d = x[i * bins + b] - sum[b];

            square[b] += d * d;
        }
    for (uint32_t b = 0; b < n; b++) {
        mean[b] = (float)sum[b];
        by[b] = (float)(frames > 1 ? sqrt(square[b] / (double)(frames - 1)) : 0) + 1e-5f;
    }
    for (size_t i = 0; i < frames; i++)
        for (uint32_t b = 0; b < n; b++)
            x[i * bins + b] = (x[i * bins + b] - mean[b]) / by[b];
}

static void after_nemo(float *x, size_t frames, uint32_t bins)
{
    uint32_t b = 0;

    for (; b + BINS <= bins; b += BINS)
        normalize_bins(x + b, frames, bins, BINS);
    if (b < bins)
        normalize_bins(x + b, frames, bins, bins - b);
}

static int after_cepstra(const struct features *f, const float *x, size_t frames,
                         stk_scratch *scratch, float **out, stk_error *err)
{
    uint32_t bins = stk_spectral_bins(f->s);
    size_t bytes = frames * f->ceps * sizeof **out;

    *out = stk_scratch_get(scratch, bytes + 1);
    if (!*out)
        return stk_fail_nomem(err, bytes);
    for (size_t i = 0; i < frames; i++)
        for (uint32_t k = 0; k < f->ceps; k++) {
            const float *row = x + i * bins, *c = f->dct + (size_t)k * bins;
            float sum = 0;

            for (uint32_t j = 0; j < bins; j++)
                sum += row[j] * c[j];
            (*out)[i * f->ceps + k] = sum;
        }
    return 0;
}

/* Samples of decoders are never so loud that their squares overflow; those of steps may be. */
static int check_finite(const struct features *f, const float *x, size_t n, stk_error *err)
{
    int bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= !(fabsf(x[i]) <= FLT_MAX);
    if (!bad)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "%s: the samples are so loud that its numbers overflow: make them softer "
                    "before it, by gain() or normalize_peak()",
                    f->name);
}

static int emphasized(const float **x, uint64_t n, stk_scratch *scratch, stk_error *err)
{
    float *y = stk_scratch_get(scratch, (size_t)n * sizeof *y + 1);

    if (!y)
        return stk_fail_nomem(err, (size_t)n * sizeof *y);
    for (uint64_t i = 1; i < n; i++)
        y[i] = (*x)[i] - 0.97f * (*x)[i - 1];
    if (n)
        y[0] = (*x)[0];
    *x = y;
    return 0;
}

static int features_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                          stk_error *err)
{
    const struct features *f = state;
    uint64_t n = stk_wave_len(row), frames = stk_spectral_frames(f->s, n);
    uint32_t bins = stk_spectral_bins(f->s);
    const float *x = row->data;
    float *made;

    (void)rng;
    if (!frames)
        return stk_fail(err, STK_ECORRUPT, "%s: %" PRIu64 " samples are less than one frame",
                        f->name, n);
    made = stk_scratch_get(scratch, (size_t)frames * bins * sizeof *made);
    if (!made)
        return stk_fail_nomem(err, (size_t)frames * bins * sizeof *made);
    if (f->emphasize)
        STK_TRY(emphasized(&x, n, scratch, err));
    STK_TRY(stk_spectral_run(f->s, x, n, scratch, made, err));
    STK_TRY(check_finite(f, made, (size_t)frames * bins, err));
    if (f->after == WHISPER)
        after_whisper(made, (size_t)frames * bins);
    if (f->after == NEMO && f->normalize)
        after_nemo(made, (size_t)frames, bins);
    if (f->after == CEPSTRA)
        STK_TRY(after_cepstra(f, made, (size_t)frames, scratch, &made, err));
    row->ndim = 2;
    row->shape[0] = (int64_t)frames;
    row->shape[1] = f->ceps ? f->ceps : bins;
    row->data = made;
    row->rate = 0;
    return 0;
}

/* ---- tables ---- */

#define KALDI_ARGS(default_bins)                                                                   \
    { "bins", STK_ARG_INT, default_bins, "mel bands" },                                            \
        { "frame", STK_ARG_FLOAT, "25", "milliseconds of a frame" },                               \
        { "hop", STK_ARG_FLOAT, "10", "milliseconds between frames" },                             \
        { "low", STK_ARG_FLOAT, "20", "Hz, where bands begin" },                                   \
        { "high", STK_ARG_FLOAT, "0",                                                              \
          "Hz, where they end; 0 or less: so far from half the rate" },                            \
        { "snip_edges", STK_ARG_BOOL, "true", "only whole frames; false: n / hop, mirrored" },     \
    {                                                                                              \
        "scale", STK_ARG_FLOAT, "1", "of samples; 32768: as of 16-bit numbers"                     \
    }

static const stk_arg fbank_args[] = { KALDI_ARGS("80"), { 0 } };
static const stk_arg mfcc_args[] = {
    { "n", STK_ARG_INT, "13", "coefficients" },
    KALDI_ARGS("23"),
    { "lifter", STK_ARG_FLOAT, "22", "0: none" },
    { 0 },
};
static const stk_arg log_mel_args[] = {
    { "bins", STK_ARG_INT, "80", "mel bands" },
    { "preset", STK_ARG_NAME, "whisper", "whose definition: whisper, nemo or torchaudio" },
    { "normalize", STK_ARG_BOOL, "true", "nemo: each band by its mean and deviation" },
    { "fft", STK_ARG_INT, "", "samples of a transform; absent: the preset's" },
    { "win", STK_ARG_INT, "", "samples of a frame; absent: the preset's" },
    { "hop", STK_ARG_INT, "", "samples between frames; absent: the preset's" },
    { 0 },
};
static const stk_arg spectrogram_args[] = {
    { "fft", STK_ARG_INT, "400", "samples of a transform" },
    { "win", STK_ARG_INT, "", "samples of a frame; absent: fft" },
    { "hop", STK_ARG_INT, "", "samples between frames; absent: fft / 2" },
    { "power", STK_ARG_FLOAT, "2", "2, or 1: its root" },
    { 0 },
};

#define FEATURES(op, text)                                                                         \
    const stk_op stk_op_##op = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #op,                                                      \
                                 .help = text,                                                     \
                                 .args = op##_args,                                                \
                                 .state_size = sizeof(struct features),                            \
                                 .plan = op##_plan,                                                \
                                 .fini = features_fini,                                            \
                                 .value = features_value };
FEATURES(fbank, "Kaldi's log-mel filter bank: rows of (frames, bins)")
FEATURES(log_mel, "log-mel features as Whisper, NeMo or torchaudio define them: (frames, bins)")
FEATURES(mfcc, "Kaldi's cepstral coefficients, without energy: rows of (frames, n)")
FEATURES(spectrogram, "the power spectrum of frames, as torchaudio has it: (frames, fft / 2 + 1)")
