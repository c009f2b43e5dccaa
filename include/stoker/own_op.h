/* SPDX-License-Identifier: Apache-2.0 */
/* own_op.h - ops of your own in a shared object, for stoker.load_op() and stk_registry_load().
 *
 * The object exports one function and links with nothing.  It gets the functions of the library as
 * a table, so it also works with the library inside a Python package.
 *
 *     const stk_op *const *stoker_ops(const stk_host *host);    its ops, and a NULL after the last
 *
 * host stays valid as long as the process.  The function returns NULL if the object does not work
 * with this library.  examples/my_op.c is a complete one.  UNSTABLE, as plugin.h is: abi must be
 * STK_PLUGIN_ABI, and a field exists if `size` covers it. */
#ifndef STOKER_OWN_OP_H
#define STOKER_OWN_OP_H

#include <stoker/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_host { /* functions of the library; plugin.h and plugin_op.h say what they do */
    uint32_t abi, size;
    int (*fail)(stk_error *err, int code, const char *fmt, ...) STK_PRINTF(3, 4);
    int (*args_has)(const stk_args *a, const char *name);
    int64_t (*args_i64)(const stk_args *a, const char *name);
    double (*args_f64)(const stk_args *a, const char *name);
    int (*args_bool)(const stk_args *a, const char *name);
    const char *(*args_str)(const stk_args *a, const char *name);
    uint32_t (*args_count)(const stk_args *a, const char *name);
    double (*args_f64_at)(const stk_args *a, const char *name, uint32_t i);
    uint32_t (*rng_u32)(stk_rng *rng);
    double (*rng_unit)(stk_rng *rng);
    uint32_t (*rng_below)(stk_rng *rng, uint32_t n);
    void *(*scratch_get)(stk_scratch *s, size_t size);
    void (*view_crop)(stk_view *v, int32_t x, int32_t y, uint32_t w, uint32_t h);
    void (*view_resize)(stk_view *v, uint32_t w, uint32_t h);
    void (*view_mirror)(stk_view *v);
    void (*view_upend)(stk_view *v);
    size_t (*dtype_size)(stk_dtype dtype);
    void *(*alloc)(size_t size);
    void (*free)(void *p);
} stk_host;

typedef const stk_op *const *(*stk_own_ops_fn)(const stk_host *host);

/* Add all ops of the shared object `path` to r (NULL: to the process).  It stays loaded while the
 * process runs.  *ops (or NULL): its tables, and a NULL after the last.  Its code runs in this
 * process: load only what you would run. */
STK_API STK_MUST_CHECK int stk_registry_load(stk_registry *r, const char *path,
                                             const stk_op *const **ops, stk_error *err);

/* stk_chain_check() with what r has (NULL: the process).  Nothing can be added to r after it. */
STK_API STK_MUST_CHECK int stk_chain_check_in(stk_registry *r, const char *text, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
