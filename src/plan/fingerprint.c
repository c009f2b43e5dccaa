/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c - what a state remembers of data, so that it is not taken up with others: what each
 * data set says of itself, and which samples take part. */
#include "base/hash.h"
#include "plan/plan.h"

static uint64_t set_print(const stk_sample_set *r)
{
    uint64_t h = stk_hash64(r->skip, &r->limit, sizeof r->limit);

    h = stk_hash64(h, &r->repeat, sizeof r->repeat);
    if (r->exclude.n)
        h = stk_hash64(h, r->exclude.id, r->exclude.n * sizeof *r->exclude.id);
    if (r->n_select)
        h = stk_hash64(h, r->select, r->n_select * sizeof *r->select);
    return h;
}

int stk_plan_print(const stk_plan *p, const stk_schedule *s, stk_fingerprint *out, stk_error *err)
{
    *out = (stk_fingerprint){ 0 };
    for (uint32_t i = 0; i < p->data.n; i++)
        STK_TRY(p->data.set[i]->ops->fingerprint(p->data.set[i], out, err));
    out->taken = set_print(&s->set);
    return 0;
}
