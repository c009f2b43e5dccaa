/* SPDX-License-Identifier: Apache-2.0 */
/* spec_augment - bands of features in time and in frequency become one number, as SpecAugment has
 * it: widths and places are drawn for each mask. */
#include "op/sound.h"

struct augment {
    uint32_t time, freq;             /* widths, at most */
    uint32_t time_masks, freq_masks; /* how many */
    double share;                    /* of all frames that one mask in time covers, at most */
    int fixed;                       /* `fill` is given; else it is the mean */
    float fill;
};

static int count_arg(const stk_args *args, const char *name, uint32_t *out, stk_error *err)
{
    int64_t n = stk_args_i64(args, name);

    if (n < 0 || n > 1000000)
        return stk_fail(err, STK_EINVAL, "spec_augment: %s=%" PRId64 " is not in 0..1000000", name,
                        n);
    *out = (uint32_t)n;
    return 0;
}

static int spec_augment_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct augment *a = state;

    if (spec->sound != STK_FEATURES || spec->dtype != STK_F32)
        return stk_fail(err, STK_EINVAL,
                        "spec_augment works on features: put fbank(80) or log_mel(80) before it");
    STK_TRY(count_arg(args, "time", &a->time, err));
    STK_TRY(count_arg(args, "freq", &a->freq, err));
    STK_TRY(count_arg(args, "time_masks", &a->time_masks, err));
    STK_TRY(count_arg(args, "freq_masks", &a->freq_masks, err));
    a->share = stk_args_f64(args, "share");
    if (!(a->share > 0 && a->share <= 1))
        return stk_fail(err, STK_EINVAL, "spec_augment: share=%g is not in 0..1", a->share);
    a->fixed = stk_args_has(args, "fill");
    a->fill = (float)stk_args_f64(args, "fill");
    return 0;
}

static float mean_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return (float)(sum / (double)n);
}

/* Width and place of a mask in n: from *at on. */
static uint32_t draw_mask(stk_rng *rng, uint32_t most, uint32_t n, uint32_t *at)
{
    uint32_t width = stk_rng_below(rng, (most < n ? most : n) + 1);

    *at = stk_rng_below(rng, n - width + 1);
    return width;
}

static int spec_augment_value(const void *state, stk_value_row *row, stk_rng *rng,
                              stk_scratch *scratch, stk_error *err)
{
    const struct augment *a = state;
    uint32_t frames = (uint32_t)row->shape[0], bins = (uint32_t)row->shape[1], at, width;
    uint32_t most = (uint32_t)(a->share * frames);
    float *x = row->data, fill = a->fixed ? a->fill : mean_of(x, (size_t)frames * bins);

    (void)scratch, (void)err;
    for (uint32_t m = 0; m < a->freq_masks; m++) {
        width = draw_mask(rng, a->freq, bins, &at);
        for (uint32_t f = 0; f < frames; f++)
            for (uint32_t k = at; k < at + width; k++)
                x[(size_t)f * bins + k] = fill;
    }
    for (uint32_t m = 0; m < a->time_masks; m++) {
        width = draw_mask(rng, a->time < most ? a->time : most, frames, &at);
        for (size_t i = (size_t)at * bins; i < (size_t)(at + width) * bins; i++)
            x[i] = fill;
    }
    return 0;
}

static const stk_arg spec_augment_args[] = {
    { "time", STK_ARG_INT, "100", "frames of a mask, at most" },
    { "freq", STK_ARG_INT, "27", "bins of a mask, at most" },
    { "time_masks", STK_ARG_INT, "2", "how many masks in time" },
    { "freq_masks", STK_ARG_INT, "2", "how many masks in frequency" },
    { "share", STK_ARG_FLOAT, "1", "of all frames, that a mask in time covers at most" },
    { "fill", STK_ARG_FLOAT, "", "what stands there; absent: the row's mean" },
    { 0 },
};

const stk_op stk_op_spec_augment = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_op),
                                     .name = "spec_augment",
                                     .help = "mask bands of features in time and frequency",
                                     .args = spec_augment_args,
                                     .state_size = sizeof(struct augment),
                                     .plan = spec_augment_plan,
                                     .value = spec_augment_value };
