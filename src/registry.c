/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - what ships (registry.def) and what a program added, as one list a kind.
 *
 * Every table begins { abi, name, help }, which is all this file knows of it.  Added entries are
 * published by a release store of the count, so lookups take no lock. */
#include "base/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "codec/codec.h"
#include "format/format.h"
#include "op/view.h"
#include "source/source.h"

#define MAX_ADDED 64

struct head { /* how every vtable begins */
    uint32_t abi;
    const char *name, *help;
};

static const void *const builtin[][32] = {
#define STK_SOURCE(x) &stk_source_##x,
#define STK_FORMAT(x)
#define STK_CODEC(x)
#define STK_DECODER(x)
#define STK_OP(x)
    [STK_PLUGIN_SOURCE] = {
#include "registry.def"
    },
#undef STK_SOURCE
#undef STK_FORMAT
#define STK_SOURCE(x)
#define STK_FORMAT(x) &stk_format_##x,
    [STK_PLUGIN_FORMAT] = {
#include "registry.def"
    },
#undef STK_FORMAT
#undef STK_CODEC
#define STK_FORMAT(x)
#define STK_CODEC(x) &stk_codec_##x,
    [STK_PLUGIN_CODEC] = {
#include "registry.def"
    },
#undef STK_CODEC
#undef STK_DECODER
#define STK_CODEC(x)
#define STK_DECODER(x) &stk_decoder_##x,
    [STK_PLUGIN_DECODER] = {
#include "registry.def"
    },
#undef STK_DECODER
#undef STK_OP
#define STK_DECODER(x)
#define STK_OP(x) &stk_op_##x,
    [STK_PLUGIN_OP] = {
#include "registry.def"
    },
};

static const void *added[STK_PLUGIN_OP + 1][MAX_ADDED];
static _Atomic size_t n_added[STK_PLUGIN_OP + 1];
static stk_mutex add_lock = STK_MUTEX_INITIALIZER;

static size_t n_builtin(stk_plugin_kind kind)
{
    size_t n = 0;

    while (builtin[kind][n])
        n++;
    return n;
}

const void *stk_registry_get(stk_plugin_kind kind, size_t i)
{
    size_t n = n_builtin(kind);

    if (i < n)
        return builtin[kind][i];
    return i - n < atomic_load_explicit(&n_added[kind], memory_order_acquire) ? added[kind][i - n]
                                                                              : NULL;
}

const void *stk_registry_find(stk_plugin_kind kind, const char *name)
{
    const struct head *h;

    for (size_t i = 0; (h = stk_registry_get(kind, i)); i++)
        if (!strcmp(h->name, name))
            return h;
    return NULL;
}

const char *stk_registry_nearest(stk_plugin_kind kind, const char *name)
{
    const char *names[32 + MAX_ADDED];
    const struct head *h;
    size_t n = 0;

    for (; n < sizeof names / sizeof *names && (h = stk_registry_get(kind, n)); n++)
        names[n] = h->name;
    return stk_nearest(name, names, n);
}

const stk_source *stk_registry_source(const char *url)
{
    const char *sep = strstr(url, "://");
    const stk_source *s;

    for (size_t i = 0; (s = stk_registry_get(STK_PLUGIN_SOURCE, i)); i++) {
        if (!sep && !s->scheme)
            return s;
        if (sep && s->scheme && strlen(s->scheme) == (size_t)(sep - url) &&
            !strncmp(url, s->scheme, (size_t)(sep - url)))
            return s;
        if (sep && !s->scheme && !strncmp(url, "file://", 7))
            return s;
    }
    return NULL;
}

int stk_plugin_add(stk_plugin_kind kind, const void *vtable, stk_error *err)
{
    const struct head *h = vtable;
    int rc = 0;
    size_t n;

    if (kind < STK_PLUGIN_SOURCE || kind > STK_PLUGIN_OP || !h || !h->name)
        return stk_fail(err, STK_EINVAL, "a plug-in needs a kind, a table and a name");
    if (h->abi != STK_PLUGIN_ABI)
        return stk_fail(err, STK_EINVAL, "plug-in %s was built for ABI %u, this is %d: rebuild it",
                        h->name, h->abi, STK_PLUGIN_ABI);
    stk_mutex_lock(&add_lock);
    n = atomic_load_explicit(&n_added[kind], memory_order_relaxed);
    if (stk_registry_find(kind, h->name)) {
        rc = stk_fail(err, STK_EINVAL, "a plug-in called %s is there already", h->name);
    } else if (n == MAX_ADDED) {
        rc = stk_fail(err, STK_ELIMIT, "no room for plug-in %s: at most %d of a kind", h->name,
                      MAX_ADDED);
    } else {
        added[kind][n] = vtable;
        atomic_store_explicit(&n_added[kind], n + 1, memory_order_release);
    }
    stk_mutex_unlock(&add_lock);
    return rc;
}

int stk_plugin_list(stk_plugin_kind kind, size_t i, stk_plugin_info *out)
{
    const struct head *h = kind >= STK_PLUGIN_SOURCE && kind <= STK_PLUGIN_OP
                               ? stk_registry_get(kind, i)
                               : NULL;

    if (!h)
        return STK_END;
    out->name = h->name;
    out->help = h->help;
    out->args = kind == STK_PLUGIN_OP      ? ((const stk_op *)h)->args
                : kind == STK_PLUGIN_CODEC ? ((const stk_codec *)h)->args
                                           : NULL;
    return 0;
}
