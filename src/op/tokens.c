/* SPDX-License-Identifier: Apache-2.0 */
/* tokens - windows of a stream of tokens: all shards of a data set, one after the other.
 *
 * How many samples there are follows from it, so it is not done row by row here: the loader plans
 * the windows and the pipe cuts them (row/row_array.c).  A second output with shift=1 has the
 * labels of the first one. */
#include "op/tokens.h"

#include <string.h>

#include "codec/codec.h"
#include "order/bins.h"
#include "order/pack_fit.h"

#define MAX_BLOCK ((int64_t)1 << 30)

typedef struct asked { /* for messages */
    const char *step;
    const stk_args *args;
} asked;

static int choice(const asked *a, const char *arg, const char *const *names, int *out,
                  stk_error *err)
{
    const char *word = stk_args_str(a->args, arg);
    char all[80] = "";

    for (int i = 0; word && names[i]; i++)
        if (!strcmp(word, names[i])) {
            *out = i;
            return 0;
        }
    for (int i = 0; names[i]; i++) {
        strncat(all, names[i], sizeof all - strlen(all) - 1);
        if (names[i + 1])
            strncat(all, names[i + 2] ? ", " : " or ", sizeof all - strlen(all) - 1);
    }
    return stk_fail(err, STK_EINVAL, "%s: %s is %s", a->step, arg, all);
}

int stk_tokens_packing(stk_tokens *t, const char *step, const char *fit, const stk_args *args,
                       stk_error *err)
{
    static const char *const fits[] = { "first", "best", NULL };
    static const char *const gives[] = { "tokens", "positions", "documents", "mask", NULL };
    asked a = { step, args };
    int give = 0;

    STK_TRY(choice(&a, fit, fits, &t->pack, err));
    t->pack += STK_FIT_FIRST;
    if (t->block > STK_MAX_PACKED)
        return stk_fail(err, STK_EINVAL, "%s: packed rows have at most %u tokens", step,
                        STK_MAX_PACKED);
    if (stk_args_has(args, "give"))
        STK_TRY(choice(&a, "give", gives, &give, err));
    t->give = (stk_give)give;
    t->pad = stk_args_has(args, "pad") ? stk_args_i64(args, "pad") : t->shift ? -100 : 0;
    if (t->give != STK_GIVE_TOKENS && stk_args_has(args, "pad"))
        return stk_fail(err, STK_EINVAL, "%s: pad fills tokens; %s have values of their own", step,
                        gives[give]);
    t->window = STK_BIN_WINDOW;
    if (stk_args_has(args, "window")) {
        int64_t window = stk_args_i64(args, "window");

        if (window < 1 || window > STK_PACK_WINDOW)
            return stk_fail(err, STK_EINVAL, "%s: window=%" PRId64 " is not in 1..%" PRId64, step,
                            window, STK_PACK_WINDOW);
        t->window = (uint32_t)window;
    }
    return 0;
}

/* Documents side by side in rows, in place of windows. */
static int plan_pack(stk_tokens *t, const stk_args *args, stk_error *err)
{
    const char *odd = stk_args_has(args, "stride")      ? "stride"
                      : stk_args_has(args, "separator") ? "separator"
                      : t->random                       ? "random"
                      : t->share                        ? "share"
                                                        : NULL;

    if (!stk_args_has(args, "pack")) {
        if (!stk_args_has(args, "give") && !stk_args_has(args, "pad") && !t->repack)
            return 0;
        return stk_fail(err, STK_EINVAL,
                        "tokens: give, pad and repack go with pack=best or pack=first");
    }
    if (odd)
        return stk_fail(err, STK_EINVAL, "tokens: %s is for windows: it does not go with pack",
                        odd);
    return stk_tokens_packing(t, "tokens", "pack", args, err);
}

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
                       .repack = stk_args_bool(args, "repack"),
                       .parted = stk_args_has(args, "separator"),
                       .separator = stk_args_i64(args, "separator") };
    if (t->random && stk_args_has(args, "stride"))
        return stk_fail(err, STK_EINVAL, "tokens: random windows begin anywhere: leave stride out");
    STK_TRY(plan_pack(t, args, err));
    spec->dtype = STK_I64;
    spec->ndim = 1;
    spec->shape[0] = block;
    return 0;
}

static const stk_arg tokens_args[] = {
    { "block", STK_ARG_INT, NULL, "tokens of a row" },
    { "stride", STK_ARG_INT, "", "tokens from a window to the next; absent: block" },
    { "random", STK_ARG_BOOL, "false", "windows begin anywhere, drawn again each epoch" },
    { "shift", STK_ARG_INT, "0", "how far after the window's begin: 1 gives the labels" },
    { "share", STK_ARG_BOOL, "false", "outputs are views of one buffer, shifted, not copies" },
    { "separator", STK_ARG_INT, "", "a token to put after every document (Megatron's .idx)" },
    { "pack", STK_ARG_NAME, "", "rows of whole documents, longer ones cut: best or first fit" },
    { "give", STK_ARG_NAME, "",
      "of packed rows: tokens (absent: these), positions, documents, mask" },
    { "pad", STK_ARG_INT, "", "what fills packed rows; absent: 0, with shift -100" },
    { "repack", STK_ARG_BOOL, "false",
      "pack: the epoch's order, so that rows are others each time" },
    { 0 },
};

const stk_codec stk_codec_tokens = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "tokens",
    .help = "windows of token files: tokens(block=1024), labels: tokens(block=1024, shift=1)",
    .args = tokens_args,
    .state_size = sizeof(stk_tokens),
    .plan = tokens_plan,
    .can = STK_CODEC_WINDOWS
};
