/* SPDX-License-Identifier: Apache-2.0 */
/* truncate - rows of numbers that are too long keep their first values, or their last.  It only
 * says so: the pipe cuts the row where it is made (row/row_value.c). */
#include "op/spec.h"

#include <string.h>

static int truncate_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *keep = stk_args_str(args, "keep");
    int64_t n = stk_args_i64(args, "n");

    (void)state;
    if (spec->kind != STK_KIND_VALUE || spec->out != STK_OUT_LIST)
        return stk_fail(err, STK_EINVAL,
                        "truncate works on rows of numbers that differ in length: put `npy`, "
                        "`ints` or `floats` before it");
    if (spec->sound)
        return stk_fail(err, STK_EINVAL, "truncate: of sound, part(0, seconds) cuts it");
    if (spec->max_len)
        return stk_fail(err, STK_EINVAL, "truncate comes twice: leave one");
    if (n < 1)
        return stk_fail(err, STK_EINVAL, "truncate: n=%" PRId64 " is less than 1", n);
    if (!keep || (strcmp(keep, "first") && strcmp(keep, "last")))
        return stk_fail(err, STK_EINVAL, "truncate: keep is first or last");
    spec->max_len = n;
    spec->keep_last = !strcmp(keep, "last");
    return 0;
}

static const stk_arg truncate_args[] = {
    { "n", STK_ARG_INT, NULL, "the most values of a row, along its first dimension" },
    { "keep", STK_ARG_NAME, "first", "which of them stay: first or last" },
    { 0 },
};

const stk_op stk_op_truncate = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "truncate",
                                 .help = "cut rows of numbers that are longer than n",
                                 .args = truncate_args,
                                 .plan = truncate_plan };
