/* SPDX-License-Identifier: Apache-2.0 */
/* tokens - windows of a stream of tokens: all shards of a data set, one behind the other.
 *
 * How many samples there are follows from it, so it is not done row by row here: the loader plans
 * the windows and the pipe cuts them (pipe/array_row.c).  A second output with shift=1 has the
 * labels of the first one. */
#include "codec/tokens.h"

#include "codec/codec.h"

#define MAX_BLOCK ((int64_t)1 << 30)

static int tokens_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_tokens *t = state;
    int64_t block = stk_args_i64(args, "block"), shift = stk_args_i64(args, "shift"),
            stride = stk_args_has(args, "stride") ? stk_args_i64(args, "stride") : block;

    if (!spec->array || spec->ndim)
        return stk_fail(err, STK_EINVAL,
                        spec->array ? "tokens comes twice: leave one"
                                    : "tokens cuts windows out of token files and arrays of whole "
                                      "numbers (.bin, .npy); these are samples with fields");
    if (block < 1 || block > MAX_BLOCK)
        return stk_fail(err, STK_EINVAL, "tokens: block=%" PRId64 " is not in 1..%" PRId64, block,
                        MAX_BLOCK);
    if (stride < 1 || stride > INT64_MAX / 2)
        return stk_fail(err, STK_EINVAL, "tokens: stride=%" PRId64 " is less than 1", stride);
    if (shift < 0 || shift > MAX_BLOCK)
        return stk_fail(err, STK_EINVAL, "tokens: shift=%" PRId64 " is not in 0..%" PRId64, shift,
                        MAX_BLOCK);
    *t = (stk_tokens){ .block = (uint64_t)block,
                       .stride = (uint64_t)stride,
                       .shift = (uint64_t)shift,
                       .random = stk_args_bool(args, "random"),
                       .share = stk_args_bool(args, "share"),
                       .parted = stk_args_has(args, "separator"),
                       .separator = stk_args_i64(args, "separator") };
    if (t->random && stk_args_has(args, "stride"))
        return stk_fail(err, STK_EINVAL, "tokens: random windows begin anywhere: leave stride out");
    spec->dtype = STK_I64;
    spec->ndim = 1;
    spec->shape[0] = block;
    return 0;
}

static const stk_arg tokens_args[] = {
    { "block", STK_ARG_INT, NULL, "tokens of a row" },
    { "stride", STK_ARG_INT, "", "tokens from a window to the next; absent: block" },
    { "random", STK_ARG_BOOL, "false", "windows begin anywhere, drawn anew each epoch" },
    { "shift", STK_ARG_INT, "0", "how far behind the window's begin: 1 gives the labels" },
    { "share", STK_ARG_BOOL, "false", "outputs are views of one buffer, shifted, not copies" },
    { "separator", STK_ARG_INT, "", "a token to put behind every document (Megatron's .idx)" },
    { 0 },
};

const stk_codec stk_codec_tokens = {
    .abi = STK_PLUGIN_ABI,
    .name = "tokens",
    .help = "windows of token files: tokens(block=1024), labels: tokens(block=1024, shift=1)",
    .args = tokens_args,
    .state_size = sizeof(stk_tokens),
    .plan = tokens_plan,
};
