/* SPDX-License-Identifier: Apache-2.0 */
/* cache_fill.c - bring remote files into the host cache before anyone reads them. */
#include <string.h>

#include "base/jobs.h"
#include "data/data.h"
#include "source/source.h"
#include "store/store.h"

#define FILES_AT_ONCE 4u

typedef struct fill {
    stk_names names;
    stk_progress_fn progress;
    void *cookie;
    _Atomic uint64_t done;
    _Atomic uint64_t files, bytes, left_out;
} fill;

static int fill_one(void *cookie, uint64_t i, stk_error *err)
{
    fill *x = cookie;
    stk_file_info info;
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(x->names.name[i], x->names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0)
        rc = stk_file_fill(f, err);
    if (rc == 0) {
        atomic_fetch_add_explicit(&x->files, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&x->bytes, info.size, memory_order_relaxed);
    } else if (rc == STK_END) {
        atomic_fetch_add_explicit(&x->left_out, 1, memory_order_relaxed);
        rc = 0;
    } else {
        stk_error_at(err, x->names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
    }
    stk_file_close(&f);
    atomic_fetch_add_explicit(&x->done, 1, memory_order_relaxed);
    return rc;
}

static int tick(void *cookie)
{
    fill *x = cookie;

    return x->progress
               ? x->progress(x->cookie, atomic_load_explicit(&x->done, memory_order_relaxed),
                             x->names.n)
               : 0;
}

int stk_cache_fill(const char *const *urls, size_t n, const stk_cache_fill_options *o,
                   stk_cache_filled *out, stk_error *err)
{
    fill x = { .names = { .store = o->store }, .progress = o->progress, .cookie = o->cookie };
    stk_store *held = o->store ? stk_store_ref((stk_store *)(uintptr_t)o->store)
                               : stk_store_usual(err);
    int rc = held ? 0 : STK_ENOMEM;

    memset(out, 0, sizeof *out);
    if (rc == 0 && !held->cache)
        rc = stk_fail(err, STK_EINVAL,
                      "which cache? name its folder: --store-cache DIR, or STOKER_STORE_CACHE");
    x.names.store = held;
    if (rc == 0)
        rc = stk_urls_expand(urls, n, &x.names, err);
    if (rc == 0)
        rc = stk_jobs_watch(FILES_AT_ONCE, x.names.n, fill_one, tick, &x, err);
    out->files = atomic_load_explicit(&x.files, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&x.bytes, memory_order_relaxed);
    out->left_out = atomic_load_explicit(&x.left_out, memory_order_relaxed);
    stk_names_fini(&x.names);
    stk_store_unref(&held);
    return rc;
}
