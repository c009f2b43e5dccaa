/* SPDX-License-Identifier: Apache-2.0 */
/* reverb - a recording as a room answers it, whose response is a recording of another data set.
 *
 * As Kaldi's wav-reverberate has it: the response's loudest sample, which is the direct sound,
 * stays where it was, the row keeps its length, and it is as loud as before.  All channels get the
 * same response.  A row or a response that is silent leaves the row as it is. */
#include <math.h>

#include "op/random.h"
#include "op/sound.h"
#include "op/sound_partner.h"
#include "sound/convolve.h"

#define MOST_SECONDS 60 /* of a response */

struct reverb {
    stk_partners *partners;
    stk_convolver *convolver;
    double p, seconds;
};

static int reverb_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct reverb *s = state;

    STK_TRY(stk_op_needs_wave("reverb", spec, err));
    STK_TRY(stk_op_needs_rate("reverb", spec, err));
    STK_TRY(stk_arg_p(args, "reverb", &s->p, err));
    s->seconds = MOST_SECONDS;
    if (stk_args_has(args, "seconds"))
        STK_TRY(stk_op_seconds("reverb", args, "seconds", &s->seconds, err));
    s->seconds = s->seconds < MOST_SECONDS ? s->seconds : MOST_SECONDS;
    STK_TRY(stk_convolver_open(&s->convolver, err));
    return stk_partners_open(&s->partners, "reverb", args, err);
}

static void reverb_fini(void *state)
{
    struct reverb *s = state;

    stk_partners_close(&s->partners);
    stk_convolver_close(&s->convolver);
}

static uint64_t loudest(const float *x, uint64_t n)
{
    uint64_t at = 0;

    for (uint64_t i = 1; i < n; i++)
        at = fabsf(x[i]) > fabsf(x[at]) ? i : at;
    return at;
}

/* The row is as loud as it was: x becomes that. */
static void keep_power(const float *was, float *x, uint64_t n)
{
    double before = stk_wave_power(was, n), after = stk_wave_power(x, n);
    float by = (float)(after > 0 ? sqrt(before / after) : 0);

    for (uint64_t i = 0; i < n; i++)
        x[i] *= by;
}

static int reverb_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                        stk_error *err)
{
    const struct reverb *s = state;
    uint64_t n = stk_wave_len(row), channels = stk_wave_channels(row);
    stk_partner_ask ask = { rng, row->rate, stk_samples_of(s->seconds, row->rate) };
    stk_convolve_in in = { .n = n };
    const float *x = row->data;
    float *tap, *out;

    if (!stk_hits(rng, s->p) || !n)
        return 0;
    ask.n = ask.n < STK_CONVOLVE_TAPS ? ask.n : STK_CONVOLVE_TAPS;
    STK_TRY(stk_partners_take_start(s->partners, &ask, scratch, &tap, &in.n_taps, err));
    in.tap = tap;
    in.shift = loudest(tap, in.n_taps);
    if (!(fabsf(tap[in.shift]) > 0) || !(stk_wave_power(x, n * channels) > 0))
        return 0;
    STK_TRY(stk_wave_new(row, n, scratch, &out, err));
    for (uint64_t c = 0; c < channels; c++) {
        in.data = x + c * n;
        STK_TRY(stk_convolve(s->convolver, &in, scratch, out + c * n, err));
    }
    keep_power(x, out, n * channels);
    return 0;
}

static const stk_arg reverb_args[] = {
    { "from", STK_ARG_NAME, NULL, "the data set of responses: a path, a folder, a glob" },
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { "seconds", STK_ARG_FLOAT, "", "of a response from its start on; absent: all, at most 60" },
    { "field", STK_ARG_NAME, "", "of the recording; absent: the first that is sound" },
    { 0 },
};

const stk_op stk_op_reverb = { .abi = STK_PLUGIN_ABI,
                               .size = sizeof(stk_op),
                               .name = "reverb",
                               .help = "a recording as a room answers it, by a response of another "
                                       "data set",
                               .args = reverb_args,
                               .state_size = sizeof(struct reverb),
                               .plan = reverb_plan,
                               .fini = reverb_fini,
                               .value = reverb_value };
