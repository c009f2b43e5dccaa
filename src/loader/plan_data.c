/* SPDX-License-Identifier: Apache-2.0 */
/* plan_data.c - the data sets, and what their sources can do. */
#include "base/registry.h"
#include "table/array_table.h"
#include "loader/parts.h"

int stk_plan_sources(const stk_plan_data *p,
                     int (*each)(void *cookie, const stk_source *s, stk_error *err), void *cookie,
                     stk_error *err)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const stk_dataset *ds = p->set[i];
        const char *name;

        if (ds->can & STK_DATA_IMMEDIATE) /* reads by itself */
            continue;
        for (uint64_t k = 0; (name = ds->ops->shard_name(ds, k)); k++)
            if (name[0] != '/') /* a plain path */
                STK_TRY(each(cookie, stk_registry_source(name), err));
    }
    return 0;
}

static int note_source(void *cookie, const stk_source *s, stk_error *err)
{
    stk_plan_data *p = cookie;

    (void)err;
    p->remote |= s && s->can & STK_SOURCE_REMOTE;
    p->peeks |= s && s->peek;
    return 0;
}

/* A store that says neither an ETag nor when a file changed: another file of the same size looks
 * the same. */
static int find_unversioned(stk_plan_data *p, stk_error *err)
{
    for (uint32_t i = 0; i < p->n && p->remote && !p->unversioned; i++) {
        const stk_dataset *ds = p->set[i];
        const char *name;

        for (uint64_t k = 0; ds->can & STK_DATA_INDEXED && (name = ds->ops->shard_name(ds, k));
             k++) {
            const stk_source *s = name[0] == '/' ? NULL : stk_registry_source(name);
            stk_shard_info info;

            if (!s || !(s->can & STK_SOURCE_REMOTE))
                continue;
            STK_TRY(ds->ops->shard(ds, k, &info, err));
            p->unversioned |= !info.etag[0];
        }
    }
    return 0;
}

static int all_immediate(const stk_plan_input *in)
{
    int all = 1;

    for (uint32_t i = 0; i < in->n_data; i++)
        all &= (in->data[i]->can & STK_DATA_IMMEDIATE) != 0;
    return all;
}

/* Arrays beside other kinds are read as those are. */
static int take_set(stk_dataset **out, stk_dataset *ds, int immediate, stk_error *err)
{
    if (!immediate && ds->can & STK_DATA_IMMEDIATE)
        return stk_array_table_open(out, ds, err);
    *out = stk_dataset_ref(ds);
    return 0;
}

int stk_plan_data_make(stk_plan_data *out, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    (void)so_far;
    out->set = stk_zalloc(in->n_data, sizeof *out->set);
    if (!out->set)
        return stk_fail_nomem(err, in->n_data * sizeof *out->set);
    out->immediate = all_immediate(in);
    for (; out->n < in->n_data; out->n++)
        STK_TRY(take_set(&out->set[out->n], in->data[out->n], out->immediate, err));
    STK_TRY(stk_plan_sources(out, note_source, out, err));
    return find_unversioned(out, err);
}

void stk_plan_data_fini(stk_plan_data *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        stk_dataset_unref(&p->set[i]);
    stk_free(p->set);
}
