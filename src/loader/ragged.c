/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.c - see ragged.h. */
#include "loader/ragged.h"

#include "kern/convert.h"
#include "loader/lengths.h"

/* Batches have pictures of one size: padding to the largest changes none. */
static int comes_in_one_size(const stk_chain *c, const stk_loader_options *o)
{
    return o->bucket && !stk_has_budget(o) && c->spec.kind == STK_KIND_IMAGE &&
           !c->spec.picture.patch.side && !c->many.pictures && !c->clip;
}

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
static int plan_ragged(stk_plan_chains *out, uint32_t i, const stk_loader_options *o, uint32_t rows,
                       stk_error *err)
{
    stk_collation how = o->collations ? o->collations[i] : (stk_collation){ .collate = o->collate };
    stk_out_plan *p = &out->out[i];
    stk_chain *c = &out->chain[i];
    int words = c->spec.out == STK_OUT_TEXT || c->spec.out == STK_OUT_JSON;
    uint8_t value[8];

    if (how.collate == STK_COLLATE_STACK && comes_in_one_size(c, o)) {
        p->pad = p->one_size = 1;
        c->spec.out = STK_OUT_DENSE;
        return 0;
    }
    if ((how.collate == STK_COLLATE_PAD || how.collate == STK_COLLATE_PACK) && !words) {
        p->pad = 1;
        p->joined = how.collate == STK_COLLATE_PACK;
        if (p->joined && c->spec.kind == STK_KIND_IMAGE && !c->spec.picture.patch.side)
            return stk_fail(err, STK_EINVAL,
                            "output %s: collate=\"pack\" joins rows of patches or numbers, not "
                            "pictures: add patches() to its chain",
                            p->name);
        p->pad_value = how.pad;
        p->multiple = how.multiple;
        c->spec.out = STK_OUT_DENSE;
        if (c->spec.kind == STK_KIND_BYTES)
            c->spec.dtype = STK_U8;
        return c->spec.dtype ? stk_pad_value(how.pad, c->spec.dtype, value, err) : 0;
    }
    if (c->spec.kind == STK_KIND_BYTES || rows == 1)
        return 0;
    if (how.collate != STK_COLLATE_LIST)
        return no_tensor(c, p->name, rows, err);
    c->spec.out = STK_OUT_LIST;
    return 0;
}

static int takes_bytes(const stk_chain *c)
{
    return c->spec.kind == STK_KIND_BYTES && c->spec.out != STK_OUT_TEXT &&
           c->spec.out != STK_OUT_JSON;
}

/* Rows of packed samples have one length; their type must hold what is asked for. */
static int settle_packed(stk_chain *c, const char *name, stk_error *err)
{
    double most = c->pack->give == STK_GIVE_MASK ? 1 : (double)c->pack->block;
    stk_dtype dtype = c->spec.dtype ? c->spec.dtype : c->raw.dtype;
    uint8_t value[8];
    stk_error why;

    if (!dtype)
        return stk_fail(err, STK_EINVAL,
                        "output %s: to(stored) does not say which type that is: write it out",
                        name);
    c->spec.dtype = dtype;
    c->row_bytes = (size_t)c->pack->block * stk_dtype_size(dtype);
    if (c->pack->give == STK_GIVE_TOKENS) {
        if (stk_pad_value((double)c->pack->pad, dtype, value, &why) < 0)
            return stk_fail(err, STK_EINVAL, "output %s: %s; say pad= in pack()", name,
                            why.message);
        return 0;
    }
    if ((dtype != STK_I64 && !stk_convert_c(STK_I64, dtype)) ||
        stk_pad_value(most, dtype, value, &why) < 0)
        return stk_fail(err, STK_EINVAL,
                        "output %s: numbers up to %.0f are no %s: take a wider type", name, most,
                        stk_dtype_name(dtype));
    return 0;
}

int stk_ragged_plan(stk_plan_chains *out, uint32_t i, const stk_plan_input *in, uint32_t rows,
                    stk_error *err)
{
    stk_chain *c = &out->chain[i];

    if (c->pack && in->measured) { /* what is packed later */
        c->spec = c->raw;
        c->spec.out = STK_OUT_DENSE;
        c->pack = NULL;
    }
    if (c->pack)
        STK_TRY(settle_packed(c, out->out[i].name, err));
    if (!c->row_bytes)
        STK_TRY(plan_ragged(out, i, in->o, rows, err));
    c->counted = c->pack || (!c->row_bytes && (c->spec.kind == STK_KIND_VALUE || takes_bytes(c) ||
                                               c->spec.picture.patch.side));
    c->timed = c->sound && !in->measured && stk_by_seconds(in->o);
    c->counted = c->counted && !c->timed;
    return 0;
}
