/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.c - see ragged.h. */
#include "ragged.h"

static int no_tensor(const stk_chain *c, const char *name, uint32_t batch, stk_error *err)
{
    if (c->spec.kind == STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL,
                        "output %s: its pictures differ in size, so %u of them make no tensor: add "
                        "resize((h, w)) or center_crop(n), or take collate=\"pad\", "
                        "collate=\"list\" or batch_size=1",
                        name, batch);
    return stk_fail(
        err, STK_EINVAL,
        "output %s: its rows may differ in shape, so %u of them make no tensor: say "
        "their shape and dtype in the chain, or take collate=\"pad\", collate=\"list\" or "
        "batch_size=1",
        name, batch);
}

/* What becomes of an output whose rows may differ in shape; text and json stay strings. */
static int plan_ragged(const stk_engine *e, uint32_t i, const stk_loader_options *o, stk_error *err)
{
    stk_collation how = o->collations ? o->collations[i] : (stk_collation){ .collate = o->collate };
    stk_out_plan *p = &e->plan.batching.common->out[i];
    stk_chain *c = &e->plan.chains.chain[i];
    int words = c->spec.out == STK_OUT_TEXT || c->spec.out == STK_OUT_JSON;
    uint8_t value[8];

    if (how.collate == STK_COLLATE_PAD && !words) {
        p->pad = 1;
        p->pad_value = how.pad;
        p->multiple = how.multiple;
        c->spec.out = STK_OUT_DENSE;
        if (c->spec.kind == STK_KIND_BYTES)
            c->spec.dtype = STK_U8;
        return c->spec.dtype ? stk_pad_value(how.pad, c->spec.dtype, value, err) : 0;
    }
    if (c->spec.kind == STK_KIND_BYTES || e->plan.batching.tickets == 1)
        return 0;
    if (how.collate != STK_COLLATE_LIST)
        return no_tensor(c, p->name, e->plan.batching.tickets, err);
    c->spec.out = STK_OUT_LIST;
    return 0;
}

static int takes_bytes(const stk_chain *c)
{
    return c->spec.kind == STK_KIND_BYTES && c->spec.out != STK_OUT_TEXT &&
           c->spec.out != STK_OUT_JSON;
}

int stk_ragged_plan(const stk_engine *e, uint32_t i, const stk_loader_options *o, stk_error *err)
{
    stk_chain *c = &e->plan.chains.chain[i];

    if (c->pack && e->plan.rows.measured) { /* what is packed later */
        c->spec = c->raw;
        c->spec.out = STK_OUT_DENSE;
        c->pack = NULL;
    }
    if (c->pack)
        STK_TRY(stk_packed_settle(c, e->plan.batching.common->out[i].name, err));
    if (!c->row_bytes)
        STK_TRY(plan_ragged(e, i, o, err));
    c->counted = c->pack || (!c->row_bytes && (c->spec.kind == STK_KIND_VALUE || takes_bytes(c)));
    return 0;
}
