/* SPDX-License-Identifier: Apache-2.0 */
/* row_deep.c - a picture of 16 bits (image(mode=gray16)): its views and warps one after the other
 * (kern/deep.h), then its row.  Ops that change 8-bit pixels are refused by its plan. */
#include <assert.h>
#include <string.h>

#include "kern/convert.h"
#include "kern/deep.h"
#include "kern/pil.h"
#include "row/row.h"

/* Values as the row has them. */
static int put(const stk_spec *spec, const stk_tile *t, stk_scratch *scratch, void *dst,
               stk_error *err)
{
    int plain = spec->picture.mul[0] == 1 && spec->picture.add[0] == 0;
    stk_convert_fn convert = stk_convert_find(stk_cpu_level(), plain ? STK_U16 : STK_F32,
                                              spec->dtype);
    size_t n = (size_t)t->width * t->height, each = plain ? sizeof(uint16_t) : sizeof(float);
    void *made = stk_scratch_get(scratch, n * each);

    if (!made)
        return stk_fail_nomem(err, n * each);
    for (size_t i = 0; i < n; i++) {
        if (plain)
            ((uint16_t *)made)[i] = (uint16_t)t->data[i];
        else
            ((float *)made)[i] = (float)(t->data[i] & 65535) * spec->picture.mul[0] +
                                 spec->picture.add[0];
    }
    if (convert)
        return convert(dst, made, n) ? stk_fail(err, STK_ECORRUPT, "a value that does not fit") : 0;
    memcpy(dst, made, n * stk_dtype_size(spec->dtype));
    return 0;
}

int stk_deep_row(stk_row *x, const stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                 void *dst, stk_error *err)
{
    uint64_t most = x->plan->policy.max_pixels;
    stk_scratch *scratch = &x->m->scratch;
    stk_pixels px = *pixels;
    stk_tile t = { 0 };

    for (uint32_t k = 0; k < d->n_passes; k++) {
        uint32_t end = k + 1 < d->n_passes ? d->from[k + 1] : d->n_actions;

        if ((uint64_t)d->view[k].vis_w * d->view[k].vis_h > most)
            return stk_fail(err, STK_ELIMIT, "it would be %ux%u, over the limit of max_pixels",
                            d->view[k].vis_w, d->view[k].vis_h);
        STK_TRY(stk_deep_sample(&d->view[k], &px, &t, scratch, err));
        for (uint32_t i = d->from[k]; i < end; i++) {
            const stk_action a = stk_pil_as_warp(&d->action[i], t.width, t.height);

            assert(stk_act_moves(d->action[i].code)); /* the plan lets no other op in */
            STK_TRY(stk_deep_warp(&a, &t, scratch, err));
        }
        px = (stk_pixels){ .data = (uint8_t *)t.data,
                           .stride = (size_t)t.width * 4,
                           .area = { 0, 0, t.width, t.height } };
    }
    return put(spec, &t, scratch, dst, err);
}
