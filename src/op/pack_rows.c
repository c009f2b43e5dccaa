/* SPDX-License-Identifier: Apache-2.0 */
/* pack - rows of whole numbers that differ in length, side by side in rows of one length.  It only
 * says so: which rows share one follows from their lengths (order/bins.c), and the pipe writes each
 * to its place (row/row_packed.c). */
#include "op/tokens.h"
#include "op/spec.h"

static int whole_numbers(stk_dtype d)
{
    return d != STK_F16 && d != STK_BF16 && d != STK_F32 && d != STK_F64;
}

static int pack_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_tokens *t = state;
    int64_t block = stk_args_i64(args, "block"), shift = stk_args_i64(args, "shift");

    if (spec->kind != STK_KIND_VALUE || spec->out != STK_OUT_LIST || !whole_numbers(spec->dtype) ||
        spec->ndim > 1)
        return stk_fail(err, STK_EINVAL,
                        spec->array ? "pack works on fields of samples; token files have "
                                      "tokens(block=..., pack=best)"
                                    : "pack works on rows of whole numbers that differ in length: "
                                      "put `npy` or `ints` before it");
    if (block < 1 || block > INT32_MAX)
        return stk_fail(err, STK_EINVAL, "pack: block=%" PRId64 " is less than 1", block);
    if (shift < 0 || shift > INT32_MAX)
        return stk_fail(err, STK_EINVAL, "pack: shift=%" PRId64 " is less than 0", shift);
    *t = (stk_tokens){ .block = (uint64_t)block, .shift = (uint64_t)shift };
    STK_TRY(stk_tokens_packing(t, "pack", "fit", args, err));
    *spec = (stk_spec){
        .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_I64, .array = 1, .ndim = 1
    };
    spec->shape[0] = block;
    return 0;
}

static const stk_arg pack_args[] = {
    { "block", STK_ARG_INT, NULL, "values of a row" },
    { "fit", STK_ARG_NAME, "best", "best or first" },
    { "shift", STK_ARG_INT, "0", "how far after its begin a sample is taken: 1 gives the labels" },
    { "give", STK_ARG_NAME, "", "tokens (absent: these), positions, documents, mask" },
    { "pad", STK_ARG_INT, "", "what fills rows; absent: 0, with shift -100" },
    { "window", STK_ARG_INT, "65536", "samples of the epoch's order that are packed together" },
    { 0 },
};

const stk_op stk_op_pack = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "pack",
    .help = "several samples side by side in rows of `block` values; longer "
            "ones are cut",
    .args = pack_args,
    .state_size = sizeof(stk_tokens),
    .plan = pack_plan,
    .can = STK_OP_PACKS
};
