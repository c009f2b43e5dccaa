/* SPDX-License-Identifier: Apache-2.0 */
/* noise - recordings of another data set mixed into a sample's, so much softer that the ratio of
 * their powers is what is drawn.  All channels get the same.  A row or a partner that is silent
 * stays as it is. */
#include <math.h>

#include "op/random.h"
#include "op/sound.h"
#include "op/sound_partner.h"

struct sound_noise {
    stk_partners *partners;
    stk_range snr;
    double p;
};

static int noise_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct sound_noise *s = state;

    STK_TRY(stk_op_needs_wave("noise", spec, err));
    STK_TRY(stk_op_needs_rate("noise", spec, err));
    STK_TRY(stk_arg_range(args, "noise", "snr", (stk_range){ -100, 100 }, &s->snr, err));
    STK_TRY(stk_arg_p(args, "noise", &s->p, err));
    return stk_partners_open(&s->partners, "noise", args, err);
}

static void noise_fini(void *state)
{
    stk_partners_close(&((struct sound_noise *)state)->partners);
}

static int noise_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                       stk_error *err)
{
    const struct sound_noise *s = state;
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row);
    float *x = row->data, *other, by;
    double snr, own, its;

    if (!stk_hits(rng, s->p) || !n)
        return 0;
    snr = stk_between(rng, &s->snr);
    STK_TRY(stk_partners_take(s->partners, &(stk_partner_ask){ rng, row->rate, n }, scratch, &other,
                              err));
    own = stk_wave_power(x, n * channels);
    its = stk_wave_power(other, n);
    if (!(own > 0 && its > 0))
        return 0;
    by = (float)sqrt(own / its * pow(10, -snr / 10));
    if (!isfinite(by)) /* as good as silent */
        return 0;
    for (uint64_t c = 0; c < channels; c++, x += n)
        for (uint64_t i = 0; i < n; i++)
            x[i] += other[i] * by;
    return 0;
}

static const stk_arg noise_args[] = {
    { "from", STK_ARG_NAME, NULL, "the data set of noises: a path, a folder, a glob" },
    { "snr", STK_ARG_FLOATS, "(10, 20)", "dB by which the row is louder; or (least, most)" },
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { "field", STK_ARG_NAME, "", "of the recording; absent: the first that is sound" },
    { 0 },
};

const stk_op stk_op_noise = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "noise",
                              .help = "mix a recording of another data set into this one",
                              .args = noise_args,
                              .state_size = sizeof(struct sound_noise),
                              .plan = noise_plan,
                              .fini = noise_fini,
                              .value = noise_value };
