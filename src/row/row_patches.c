/* SPDX-License-Identifier: Apache-2.0 */
/* row_patches.c - a picture as a sequence of patches: patches().
 *
 * The picture is sampled whole, as RGBX of 8 bits, which the second cache holds; the kernels that
 * store pixels then write each row of each patch to its place, with color and type: the same bits
 * as a picture that is not cut.  Where an op works on the finished row (random_erasing after
 * normalize), the row is made first, in its type, and then moved. */
#include <assert.h>
#include <string.h>

#include "kern/patch.h"
#include "row/row.h"

/* A schedule may say another side for this batch. */
static stk_patch_spec patch_of(const stk_row *x)
{
    stk_patch_spec p = stk_row_chain(x)->spec.picture.patch;

    p.side = x->batch->limit.side ? x->batch->limit.side : p.side;
    return p;
}

uint32_t stk_patches_keep(const stk_row *x, uint32_t output)
{
    if (x->keep || !x->schedule->truncated.n || x->plan->chains.chain[output].many.pictures)
        return x->keep;
    return stk_schedule_keeps(x->schedule, output, stk_schedule_id(x->schedule, &x->where));
}

int stk_patches_shape(const stk_row *x, const stk_view *v, stk_error *err)
{
    const stk_patch_spec p = patch_of(x);
    uint32_t unit = p.side * p.block;
    stk_row_out *out = stk_row_out_of(x);

    if (v->vis_w % unit || v->vis_h % unit)
        return stk_fail(err, STK_ECORRUPT,
                        "the picture is %ux%u at `patches`, which is not whole patches of %u: put "
                        "resize_to_patches before it",
                        v->vis_w, v->vis_h, unit);
    out->ndim = 2;
    out->shape[STK_GRID_AT] = v->vis_h / p.side;
    out->shape[STK_GRID_AT + 1] = v->vis_w / p.side;
    out->shape[0] = out->shape[STK_GRID_AT] * out->shape[STK_GRID_AT + 1];
    out->shape[1] = stk_patch_values(&p);
    return stk_value_check(x, out->shape[0], err);
}

int stk_patches_begin(stk_row *x, int in_row, const stk_sample_job *job, stk_sample_job *whole,
                      stk_error *err)
{
    size_t pixels = (size_t)job->view->vis_w * job->view->vis_h;
    size_t bytes = pixels * (in_row ? 3 * stk_dtype_size(job->dtype) : 4);
    void *room = stk_scratch_get(&x->m->scratch, bytes);

    *whole = *job;
    if (!room)
        return stk_fail_nomem(err, bytes);
    if (in_row) {
        whole->layout = patch_of(x).first ? STK_CHW : STK_HWC;
        whole->dst = room;
    } else {
        whole->tile = room;
    }
    return 0;
}

typedef struct cutting {
    const stk_kern *kern;
    const stk_patch_spec *p;
    const stk_sample_job *whole;
    stk_color color;
    size_t size, frame; /* bytes of an element; elements of a frame of one channel */
} cutting;

/* Row y of the picture from column x on: one row of a patch, to where its first element goes. */
static void put_line(const cutting *k, uint32_t x, uint32_t y, uint8_t *dst)
{
    uint32_t side = k->p->side, w = k->whole->view->vis_w, h = k->whole->view->vis_h;
    size_t at = (size_t)y * w + x;

    if (k->whole->tile && k->p->first) {
        k->kern->store_planar(dst, k->frame * k->p->frames, (uint8_t *)(k->whole->tile + at), side,
                              &k->color);
    } else if (k->whole->tile) {
        k->kern->store_packed(dst, (uint8_t *)(k->whole->tile + at), side, &k->color);
    } else if (k->p->first) {
        for (size_t c = 0; c < 3; c++)
            memcpy(dst + c * k->frame * k->p->frames * k->size,
                   (uint8_t *)k->whole->dst + (c * w * h + at) * k->size, side * k->size);
    } else {
        memcpy(dst, (uint8_t *)k->whole->dst + 3 * at * k->size, 3 * side * k->size);
    }
}

/* The frames after the first are the same. */
static void repeat(const cutting *k, uint8_t *patch)
{
    size_t frame = k->frame * k->size;

    if (!k->p->first) {
        for (uint32_t t = 1; t < k->p->frames; t++)
            memcpy(patch + 3 * frame * t, patch, 3 * frame);
        return;
    }
    for (uint32_t c = 0; c < 3; c++, patch += frame * k->p->frames)
        for (uint32_t t = 1; t < k->p->frames; t++)
            memcpy(patch + frame * t, patch, frame);
}

static void cut_one(const cutting *k, uint32_t px, uint32_t py, uint8_t *dst)
{
    uint32_t side = k->p->side;
    size_t line = (k->p->first ? 1u : 3u) * side * k->size;

    for (uint32_t y = 0; y < side; y++)
        put_line(k, px * side, py * side + y, dst + y * line);
    if (k->p->frames > 1)
        repeat(k, dst);
}

void stk_patches_cut(const stk_row *x, const stk_sample_job *job, const stk_sample_job *whole)
{
    const stk_patch_spec p = patch_of(x);
    cutting k = { .kern = x->plan->rows.kern, .p = &p, .whole = whole };
    uint32_t wide = job->view->vis_w / p.side, high = job->view->vis_h / p.side;

    assert(job->view->vis_w == wide * p.side && wide % p.block == 0);
    assert(job->view->vis_h == high * p.side && high % p.block == 0);
    k.size = stk_dtype_size(job->dtype);
    k.frame = (size_t)p.side * p.side;
    k.color.dtype = job->dtype;
    memcpy(k.color.mul, job->mul, sizeof k.color.mul);
    memcpy(k.color.add, job->add, sizeof k.color.add);
    for (uint32_t y = 0; y < high; y++)
        for (uint32_t i = 0; i < wide; i++)
            cut_one(&k, i, y,
                    (uint8_t *)job->dst +
                        stk_patch_at(&p, job->view->vis_w, i * p.side, y * p.side) * k.size);
}
