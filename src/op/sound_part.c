/* SPDX-License-Identifier: Apache-2.0 */
/* part, random_part - some seconds of a recording.  Right after `sound` they are drawn before it is
 * read, in samples of the rate that the chain asks for, so that only what holds them is read
 * (row/row_sound.c); elsewhere they cut the row.  A recording that is shorter stays as it is. */
#include "op/sound.h"

#include <math.h>
#include <string.h>

#include "base/expr.h"
#include "base/mem.h"

#define MOST_SECONDS 86400.0

int stk_op_needs_wave(const char *op, const stk_spec *spec, stk_error *err)
{
    if (spec->kind == STK_KIND_VALUE && spec->sound == STK_WAVE && spec->dtype == STK_F32)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%s works on the samples of a recording: put `sound` before it%s", op,
                    spec->sound == STK_FEATURES ? ", and features after it" : "");
}

int stk_op_needs_rate(const char *op, const stk_spec *spec, stk_error *err)
{
    if (spec->rate > 0)
        return 0;
    return stk_fail(err, STK_EINVAL, "%s needs one rate for all recordings: sound(rate=16000)", op);
}

int stk_op_seconds(const char *op, const stk_args *args, const char *name, double *out,
                   stk_error *err)
{
    *out = stk_args_f64(args, name);
    if (*out > 0 && *out <= MOST_SECONDS)
        return 0;
    return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in 0..%g", op, name, *out, MOST_SECONDS);
}

uint64_t stk_samples_of(double seconds, double rate)
{
    double n = floor(seconds * rate + 0.5);

    return n < 1 ? 1 : n < 0x1p62 ? (uint64_t)n : (uint64_t)1 << 62;
}

int stk_wave_new(stk_value_row *row, uint64_t samples, stk_scratch *scratch, float **out,
                 stk_error *err)
{
    uint64_t n = stk_wave_channels(row);

    if (samples > (SIZE_MAX >> 3) / (n ? n : 1))
        return stk_fail(err, STK_ELIMIT, "a recording of %" PRIu64 " samples has no room", samples);
    *out = stk_scratch_get(scratch, (size_t)(n * samples) * sizeof **out + 1);
    if (!*out)
        return stk_fail_nomem(err, (size_t)(n * samples) * sizeof **out);
    row->shape[row->ndim - 1] = (int64_t)samples;
    row->data = *out;
    return 0;
}

struct part {
    int random;
    double start, seconds; /* seconds 0: to the end */
    char *field[2];        /* start and seconds are these fields'; NULL: the numbers */
    double *given[2];      /* ... whose values these are, for every sample */
    char of[64];           /* the output of a clip, whose span it is; "": none */
};

static int keep_name(struct part *p, const stk_args *args, const char *name, uint32_t which,
                     stk_error *err)
{
    const char *field = stk_args_str(args, name);

    if (field) {
        p->field[which] = stk_strdup(field);
        if (!p->field[which])
            return stk_fail_nomem(err, strlen(field) + 1);
    }
    return 0;
}

static int part_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *of = stk_args_has(args, "of") ? stk_args_str(args, "of") : NULL;
    struct part *p = state;

    STK_TRY(stk_op_needs_wave("part", spec, err));
    spec->out = STK_OUT_LIST;
    if (of) {
        if (!*of || strlen(of) >= sizeof p->of)
            return stk_fail(err, STK_EINVAL, "part: of=%.80s names no output", of);
        if (stk_args_given(args, "start") || stk_args_has(args, "seconds"))
            return stk_fail(err, STK_EINVAL,
                            "part: of= is the span of a clip: leave start= and seconds= out");
        memcpy(p->of, of, strlen(of) + 1);
        return 0;
    }
    STK_TRY(keep_name(p, args, "start", 0, err));
    STK_TRY(keep_name(p, args, "seconds", 1, err));
    p->start = p->field[0] ? 0 : stk_args_f64(args, "start");
    if (!(p->start >= 0 && p->start <= MOST_SECONDS))
        return stk_fail(err, STK_EINVAL, "part: start=%g is not in 0..%g", p->start, MOST_SECONDS);
    if (stk_args_has(args, "seconds") && !p->field[1])
        STK_TRY(stk_op_seconds("part", args, "seconds", &p->seconds, err));
    return 0;
}

const char *stk_part_clip(const void *state)
{
    const struct part *p = state;

    return p->of[0] ? p->of : NULL;
}

static void part_fini(void *state)
{
    struct part *p = state;

    for (int i = 0; i < 2; i++) {
        stk_free(p->field[i]);
        stk_free(p->given[i]);
        p->field[i] = NULL;
        p->given[i] = NULL;
    }
}

stk_part_fields stk_part_named(const void *state)
{
    const struct part *p = state;

    return (stk_part_fields){ { p->field[0], p->field[1] } };
}

void stk_part_bind(void *state, uint32_t which, double *values)
{
    struct part *p = state;

    stk_free(p->given[which]);
    p->given[which] = values;
}

/* Where a sample's part begins and how long it is, by its fields: no start is 0, no seconds, or
 * none above 0, are to the end. */
static int part_of_sample(const struct part *p, uint64_t sample, double *start, double *seconds,
                          stk_error *err)
{
    double *out[2] = { start, seconds };

    *start = p->start;
    *seconds = p->seconds;
    for (int i = 0; i < 2; i++) {
        if (!p->field[i])
            continue;
        if (!p->given[i] || sample == STK_NO_SAMPLE)
            return stk_fail(err, STK_EINVAL,
                            "part: the field %s says where: put part right after sound, in a "
                            "loader",
                            p->field[i]);
        *out[i] = p->given[i][sample];
        *out[i] = isnan(*out[i]) || (i && *out[i] < 0) ? 0 : *out[i];
    }
    if (*start >= 0 && *start <= MOST_SECONDS)
        return 0;
    return stk_fail(err, STK_ECORRUPT, "part: %s is %g, which is not in 0..%g seconds",
                    p->field[0] ? p->field[0] : "start", *start, MOST_SECONDS);
}

static int random_part_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct part *p = state;

    p->random = 1;
    STK_TRY(stk_op_needs_wave("random_part", spec, err));
    STK_TRY(stk_op_seconds("random_part", args, "seconds", &p->seconds, err));
    spec->out = STK_OUT_LIST;
    return 0;
}

int stk_part_span(const void *state, stk_rng *rng, const stk_part_in *in, stk_part_of *out,
                  stk_error *err)
{
    const struct part *p = state;
    uint64_t n = in->n, want;
    double start, seconds, at;

    if (p->of[0])
        return stk_fail(err, STK_EINVAL,
                        "part: of=%s is the span of a clip: put part right after sound, in a "
                        "loader",
                        p->of);
    STK_TRY(part_of_sample(p, in->sample, &start, &seconds, err));
    want = seconds > 0 ? stk_samples_of(seconds, in->rate) : n;
    at = floor(start * in->rate + 0.5);
    out->from = 0;
    if (p->random && want < n) {
        /* 53 bits, so that each sample of a long recording can be the first */
        double unit = stk_rng_unit(rng) + stk_rng_unit(rng) * 0x1p-32;

        out->from = (uint64_t)(unit * (double)(n - want + 1));
        out->from = out->from > n - want ? n - want : out->from;
    } else if (!p->random) {
        if (at >= (double)n)
            return stk_fail(err, STK_ECORRUPT,
                            "part: the recording has %.3f seconds, and the part begins at %g",
                            (double)n / in->rate, start);
        out->from = (uint64_t)at;
    }
    out->to = want < n - out->from ? out->from + want : n;
    return 0;
}

double stk_part_seconds(const void *state, double seconds, uint64_t sample)
{
    const struct part *p = state;
    double start = p->start, most = p->seconds, left;

    if (sample == STK_NO_SAMPLE || part_of_sample(p, sample, &start, &most, NULL) < 0) {
        start = p->start;
        most = p->seconds;
    }
    left = p->random || seconds < start ? seconds : seconds - start;
    return most > 0 && most < left ? most : left;
}

double stk_sound_seconds(const stk_op *op, const void *state, double seconds, uint64_t sample)
{
    return op && op->can & STK_OP_PART ? stk_part_seconds(state, seconds, sample)
                                       : stk_wave_seconds(op, state, seconds);
}

static int part_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                      stk_error *err)
{
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row), from, to;
    stk_part_of part;
    const float *all = row->data;
    float *out;

    STK_TRY(stk_part_span(state, rng, &(stk_part_in){ row->rate, n, STK_NO_SAMPLE }, &part, err));
    from = part.from;
    to = part.to;
    STK_TRY(stk_wave_new(row, to - from, scratch, &out, err));
    for (uint64_t c = 0; c < channels; c++)
        memcpy(out + c * (to - from), all + c * n + from, (size_t)(to - from) * sizeof *out);
    return 0;
}

static const stk_arg part_args[] = {
    { "start", STK_ARG_ANY, "0", "seconds from the recording's start, or a field that says it" },
    { "seconds", STK_ARG_ANY, "", "how many, or a field that says it; absent: to its end" },
    { "of", STK_ARG_NAME, "",
      "instead of start and seconds: an output of clips; the part lasts as long as its frames are "
      "shown, with silence where there is no sound" },
    { 0 },
};
static const stk_arg random_part_args[] = {
    { "seconds", STK_ARG_FLOAT, NULL, "how many; a shorter recording stays as it is" },
    { 0 },
};

const stk_op stk_op_part = { .abi = STK_PLUGIN_ABI,
                             .size = sizeof(stk_op),
                             .name = "part",
                             .help = "some seconds of a recording, from a given second on",
                             .args = part_args,
                             .state_size = sizeof(struct part),
                             .plan = part_plan,
                             .can = STK_OP_PART,
                             .fini = part_fini,
                             .value = part_value };
const stk_op stk_op_random_part = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_op),
                                    .name = "random_part",
                                    .help = "some seconds of a recording, from a random place on",
                                    .args = random_part_args,
                                    .state_size = sizeof(struct part),
                                    .plan = random_part_plan,
                                    .can = STK_OP_PART,
                                    .value = part_value };
