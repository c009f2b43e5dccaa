/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - what ships and what a program added, as one list per kind of plug-in.
 *
 * What ships is a constant table per kind (stk_registry_kinds).  All that this file knows of other
 * tables is how they begin (stk_plugin) and how large they are.  Added tables are copied to this
 * build's size (base/table.h).  Lists grow by blocks that never move, each twice as large as the
 * one before, and entries are published by a release store of the count: lookups take no lock.  A
 * registry with a parent has those entries that the parent had when it was opened, so that the
 * number of a plug-in never changes. */
#include "base/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/table.h"

#define KINDS STK_PLUGIN_KINDS
#define FIRST_BLOCK 16u /* entries; a power of two */
#define BLOCKS 24       /* 2^28 entries */

typedef struct list {
    void **block[BLOCKS]; /* FIRST_BLOCK << k entries each */
    _Atomic size_t n;
} list;

struct stk_registry {
    stk_registry *parent; /* NULL: what ships */
    size_t inherited[KINDS];
    list added[KINDS];
    stk_mutex lock; /* of adding */
    _Atomic int sealed;
    _Atomic uint32_t refs;
};

static stk_registry process = { .lock = STK_MUTEX_INITIALIZER };

static int is_kind(stk_plugin_kind kind)
{
    return kind >= STK_PLUGIN_SOURCE && kind <= STK_PLUGIN_DATA;
}

/* ---- lists ---- */

/* Entry i is number *at of block k. */
static uint32_t block_of(size_t i, size_t *at)
{
    uint32_t k = 0;

    for (; i >= (size_t)FIRST_BLOCK << k; k++)
        i -= (size_t)FIRST_BLOCK << k;
    *at = i;
    return k;
}

static void *list_get(const list *l, size_t i)
{
    size_t at;
    uint32_t k;

    if (i >= atomic_load_explicit(&l->n, memory_order_acquire))
        return NULL;
    k = block_of(i, &at);
    return l->block[k][at];
}

static int list_add(list *l, void *entry, stk_error *err)
{
    size_t n = atomic_load_explicit(&l->n, memory_order_relaxed), at;
    uint32_t k = block_of(n, &at);

    if (k >= BLOCKS)
        return stk_fail(err, STK_ELIMIT, "%zu plug-ins of a kind are too many", n);
    if (!l->block[k])
        l->block[k] = stk_zalloc((size_t)FIRST_BLOCK << k, sizeof *l->block[k]);
    if (!l->block[k])
        return stk_fail_nomem(err, ((size_t)FIRST_BLOCK << k) * sizeof *l->block[k]);
    l->block[k][at] = entry;
    atomic_store_explicit(&l->n, n + 1, memory_order_release);
    return 0;
}

/* ---- lookups ---- */

static const stk_registry *or_process(const stk_registry *r)
{
    return r ? r : &process;
}

size_t stk_registry_count(const stk_registry *r, stk_plugin_kind kind)
{
    r = or_process(r);
    return (r->parent ? r->inherited[kind] : stk_registry_kinds[kind].n) +
           atomic_load_explicit(&r->added[kind].n, memory_order_acquire);
}

const void *stk_registry_get(const stk_registry *r, stk_plugin_kind kind, size_t i)
{
    r = or_process(r);
    for (; r->parent; r = r->parent)
        if (i >= r->inherited[kind])
            return list_get(&r->added[kind], i - r->inherited[kind]);
    return i < stk_registry_kinds[kind].n
               ? stk_registry_kinds[kind].ships[i]
               : list_get(&r->added[kind], i - stk_registry_kinds[kind].n);
}

const void *stk_registry_find(const stk_registry *r, stk_plugin_kind kind, const char *name)
{
    const stk_plugin *p;

    for (size_t i = 0; (p = stk_registry_get(r, kind, i)); i++)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

const char *stk_registry_nearest(const stk_registry *r, stk_plugin_kind kind, const char *name)
{
    const char *two[2] = { NULL, NULL };
    const stk_plugin *p;

    for (size_t i = 0; (p = stk_registry_get(r, kind, i)); i++) {
        two[1] = p->name;
        two[0] = two[0] ? stk_nearest(name, two, 2) : stk_nearest(name, two + 1, 1);
    }
    return two[0];
}

const stk_source *stk_registry_source(const char *url)
{
    const char *sep = strstr(url, "://");
    const stk_source *s;

    for (size_t i = 0; (s = stk_registry_get(NULL, STK_PLUGIN_SOURCE, i)); i++) {
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

/* ---- adding ---- */

/* Functions that are called without asking whether they are there. */
static int check_needs(stk_plugin_kind kind, const void *table, stk_error *err)
{
    for (const stk_registry_need *n = stk_registry_kinds[kind].needs; n->name; n++) {
        void *fn;

        memcpy(&fn, (const uint8_t *)table + n->at, sizeof fn);
        if (!fn)
            return stk_fail(err, STK_EINVAL, "%s %s has no %s()", stk_registry_kinds[kind].name,
                            ((const stk_plugin *)table)->name, n->name);
    }
    return 0;
}

static int add_locked(stk_registry *r, stk_plugin_kind kind, const void *table, stk_error *err)
    STK_REQUIRES(r->lock)
{
    stk_plugin *copy;
    int rc;

    if (atomic_load_explicit(&r->sealed, memory_order_relaxed))
        return stk_fail(err, STK_EINVAL,
                        "a chain was planned with this registry: add %s before that",
                        ((const stk_plugin *)table)->name);
    copy = stk_zalloc(1, stk_registry_kinds[kind].size);
    if (!copy)
        return stk_fail_nomem(err, stk_registry_kinds[kind].size);
    rc = stk_table_take(copy, stk_registry_kinds[kind].size, table, stk_registry_kinds[kind].name,
                        err);
    if (rc == 0 && stk_registry_find(r, kind, copy->name))
        rc = stk_fail(err, STK_EINVAL, "a plug-in called %s is there already", copy->name);
    if (rc == 0)
        rc = check_needs(kind, copy, err);
    if (rc == 0)
        rc = stk_registry_kinds[kind].check ? stk_registry_kinds[kind].check(r, copy, err) : 0;
    if (rc == 0)
        rc = list_add(&r->added[kind], copy, err);
    if (rc < 0)
        stk_free(copy);
    return rc;
}

int stk_registry_add(stk_registry *r, stk_plugin_kind kind, const void *table, stk_error *err)
{
    int rc;

    if (!is_kind(kind) || !table || !((const stk_plugin *)table)->name)
        return stk_fail(err, STK_EINVAL, "a plug-in needs a kind, a table and a name");
    if (!r)
        return stk_fail(err, STK_EINVAL,
                        "stk_registry_add() needs a registry: open one with stk_registry_open(), "
                        "or add the plug-in for all loaders with stk_plugin_add()");
    if (r != &process &&
        (kind == STK_PLUGIN_SOURCE || kind == STK_PLUGIN_FORMAT || kind == STK_PLUGIN_DATA))
        return stk_fail(err, STK_EINVAL,
                        "%s %s is for data sets, which know no registry of a loader: use "
                        "stk_plugin_add()",
                        stk_registry_kinds[kind].name, ((const stk_plugin *)table)->name);
    stk_mutex_lock(&r->lock);
    rc = add_locked(r, kind, table, err);
    stk_mutex_unlock(&r->lock);
    return rc;
}

int stk_plugin_add(stk_plugin_kind kind, const void *table, stk_error *err)
{
    return stk_registry_add(&process, kind, table, err);
}

int stk_plugin_list(stk_plugin_kind kind, size_t i, stk_plugin_info *out)
{
    const stk_plugin *p = is_kind(kind) ? stk_registry_get(NULL, kind, i) : NULL;

    if (!p)
        return STK_END;
    out->name = p->name;
    out->help = p->help;
    out->args = kind == STK_PLUGIN_OP      ? ((const stk_op *)(const void *)p)->args
                : kind == STK_PLUGIN_CODEC ? ((const stk_codec *)(const void *)p)->args
                                           : NULL;
    return 0;
}

/* ---- a registry of one's own ---- */

int stk_registry_open(stk_registry **out, stk_registry *parent, stk_error *err)
{
    stk_registry *r = STK_NEW(stk_registry);

    *out = r;
    if (!r)
        return stk_fail_nomem(err, sizeof *r);
    stk_mutex_init(&r->lock);
    r->parent = stk_registry_ref(parent ? parent : &process);
    atomic_store_explicit(&r->refs, 1, memory_order_relaxed);
    for (int kind = STK_PLUGIN_SOURCE; kind < KINDS; kind++)
        r->inherited[kind] = stk_registry_count(parent, kind);
    return 0;
}

stk_registry *stk_registry_ref(stk_registry *r)
{
    if (r)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void stk_registry_seal(stk_registry *r)
{
    if (r)
        atomic_store_explicit(&r->sealed, 1, memory_order_relaxed);
}

static void list_fini(list *l)
{
    void *entry;

    for (size_t i = 0; (entry = list_get(l, i)); i++)
        stk_free(entry);
    for (int k = 0; k < BLOCKS; k++)
        stk_free(l->block[k]);
}

void stk_registry_close(stk_registry **r)
{
    stk_registry *x = *r, *parent;

    *r = NULL;
    if (!x || x == &process || atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int kind = STK_PLUGIN_SOURCE; kind < KINDS; kind++)
        list_fini(&x->added[kind]);
    stk_mutex_destroy(&x->lock);
    parent = x->parent;
    stk_free(x);
    stk_registry_close(&parent);
}
