/* SPDX-License-Identifier: Apache-2.0 */
/* load_op.c - ops out of a shared object.  It is never unloaded: chains, and threads that run them,
 * hold its functions. */
#include <dlfcn.h>

#include <stoker/own_op.h>

#include "base/err.h"

static const stk_host host = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_host),
    .fail = stk_fail,
    .args_has = stk_args_has,
    .args_i64 = stk_args_i64,
    .args_f64 = stk_args_f64,
    .args_bool = stk_args_bool,
    .args_str = stk_args_str,
    .args_count = stk_args_count,
    .args_f64_at = stk_args_f64_at,
    .rng_u32 = stk_rng_u32,
    .rng_unit = stk_rng_unit,
    .rng_below = stk_rng_below,
    .scratch_get = stk_scratch_get,
    .view_crop = stk_view_crop,
    .view_resize = stk_view_resize,
    .view_mirror = stk_view_mirror,
    .view_upend = stk_view_upend,
    .dtype_size = stk_dtype_size,
    .alloc = stk_alloc,
    .free = stk_free,
};

int stk_registry_load(stk_registry *r, const char *path, const stk_op *const **out, stk_error *err)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    const stk_op *const *ops;

    if (!object)
        return stk_fail(err, STK_ENOTFOUND, "%s", dlerror()); /* it names the file */
    symbol = dlsym(object, "stoker_ops");
    if (!symbol)
        return stk_fail(err, STK_EINVAL,
                        "%.120s exports no stoker_ops(): include stoker/own_op.h and define it",
                        path);
    ops = ((stk_own_ops_fn)(uintptr_t)symbol)(&host);
    if (!ops || !ops[0])
        return stk_fail(
            err, STK_EINVAL,
            "%.120s: stoker_ops() gives no op: it was built for another version (ABI %d "
            "here)",
            path, STK_PLUGIN_ABI);
    for (uint32_t i = 0; ops[i]; i++)
        STK_TRY(r ? stk_registry_add(r, STK_PLUGIN_OP, ops[i], err)
                  : stk_plugin_add(STK_PLUGIN_OP, ops[i], err));
    if (out)
        *out = ops;
    return 0;
}
