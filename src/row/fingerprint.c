/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c - what a state remembers of data, so that it is not taken up with others: what each
 * data set says of itself, and which samples take part. */
#include "row/plan.h"

int stk_plan_print(const stk_plan *p, const stk_schedule *s, stk_fingerprint *out, stk_error *err)
{
    *out = (stk_fingerprint){ 0 };
    for (uint32_t i = 0; i < p->data.n; i++)
        STK_TRY(p->data.set[i]->ops->fingerprint(p->data.set[i], out, err));
    out->taken = stk_sample_set_print(&s->set);
    return 0;
}
