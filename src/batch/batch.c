/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - the public face of a batch: names, tensors, ids, keys. */
#include <string.h>

#include "batch/stack.h"

uint32_t stk_batch_rows(const stk_batch *b)
{
    return b->rows;
}

uint64_t stk_batch_epoch(const stk_batch *b)
{
    return b->epoch;
}

uint64_t stk_batch_serial(const stk_batch *b)
{
    return b->serial;
}

uint64_t stk_batch_step(const stk_batch *b)
{
    return b->step;
}

uint32_t stk_batch_outputs(const stk_batch *b)
{
    return b->common->n_out;
}

const char *stk_batch_output_name(const stk_batch *b, uint32_t output)
{
    return output < b->common->n_out ? b->common->out[output].name : NULL;
}

stk_out_kind stk_batch_output_kind(const stk_batch *b, uint32_t output)
{
    return b->common->out[output].spec.out;
}

const uint64_t *stk_batch_ids(const stk_batch *b)
{
    return b->ids;
}

const uint8_t *stk_batch_valid(const stk_batch *b)
{
    return b->valid;
}

const char *stk_batch_key(const stk_batch *b, uint32_t row, size_t *len)
{
    const stk_batch_plan *c = b->common;
    const char *key;
    uint32_t d = 0;

    *len = 0;
    if (row >= b->rows || !c->n_data)
        return "";
    while (d + 1 < c->n_data && c->start[d + 1] <= b->ids[row])
        d++;
    key = stk_dataset_key(c->data[d], b->ids[row] - c->start[d], len);
    return key ? key : "";
}

/* Rows are C-contiguous, except that channels_last gives the logical shape C, H, W over memory
 * H, W, C. */
static void set_strides(stk_tensor *t, const stk_spec *spec)
{
    int64_t stride = 1;

    for (uint32_t i = t->ndim; i-- > 0;) {
        t->strides[i] = stride;
        stride *= t->shape[i];
    }
    if (spec->kind == STK_KIND_IMAGE && spec->picture.layout == STK_CHANNELS_LAST) {
        uint32_t c = t->ndim - 3;

        t->strides[c] = 1;
        t->strides[c + 2] = t->shape[c];
        t->strides[c + 1] = t->shape[c] * t->shape[c + 2];
    }
}

/* The same tensor where the GPU has it: `at` bytes into its buffer. */
static void gpu_tensor(const stk_batch *b, uint32_t output, size_t at, stk_tensor *t)
{
    stk_buffer *gpu_memory = b->out[output].gpu_memory;

    if (!gpu_memory)
        return;
    t->data = (uint8_t *)gpu_memory->data + at;
    t->buffer = gpu_memory;
    t->gpu = b->gpu;
}

/* The tensor that padding made. */
static void padded_tensor(const stk_batch *b, uint32_t output, stk_tensor *out)
{
    const stk_batch_out *o = &b->out[output];

    *out = (stk_tensor){ .dtype = o->dtype, .ndim = o->ndim + 1 };
    if (o->dense) { /* else a GPU makes it */
        out->data = o->dense->data;
        out->buffer = o->dense;
    }
    out->shape[0] = b->rows;
    memcpy(out->shape + 1, o->shape, o->ndim * sizeof *out->shape);
    if (b->common->out[output].joined) {
        out->ndim--;
        memcpy(out->shape, o->shape, o->ndim * sizeof *out->shape);
    }
    set_strides(out, &b->common->out[output].spec);
    gpu_tensor(b, output, 0, out);
}

/* One row of it at its own size. */
static void padded_row(const stk_batch *b, uint32_t output, uint32_t row, stk_tensor *out)
{
    const stk_batch_out *o = &b->out[output];

    padded_tensor(b, output, out);
    if (out->data)
        out->data = (uint8_t *)out->data +
                    (o->joined ? o->row[row].gpu_at : (size_t)row * o->row_bytes);
    if (o->joined) {
        out->shape[0] = o->row[row].shape[0];
        return;
    }
    out->ndim--;
    memcpy(out->shape, o->row[row].shape, sizeof o->row[row].shape);
    memmove(out->strides, out->strides + 1, out->ndim * sizeof *out->strides);
}

int stk_batch_padded(const stk_batch *b, uint32_t output)
{
    return output < b->common->n_out && b->common->out[output].pad;
}

int stk_batch_joined(const stk_batch *b, uint32_t output)
{
    return output < b->common->n_out && b->common->out[output].joined;
}

uint32_t stk_batch_grid(const stk_batch *b, uint32_t output, uint32_t row, int64_t grid[3])
{
    const stk_out_plan *p = output < b->common->n_out ? &b->common->out[output] : NULL;
    const stk_patch_spec *patch = p ? &p->spec.picture.patch : NULL;

    if (!p || !patch->side || row >= b->rows || p->spec.picture.several)
        return 0;
    grid[0] = patch->frames > 1;
    grid[1] = p->row_bytes || p->gpu_bytes ? p->spec.picture.height / patch->side
                                           : b->out[output].row[row].shape[STK_GRID_AT];
    grid[2] = p->row_bytes || p->gpu_bytes ? p->spec.picture.width / patch->side
                                           : b->out[output].row[row].shape[STK_GRID_AT + 1];
    return patch->block;
}

const stk_frame_at *stk_batch_frames(const stk_batch *b, uint32_t output, uint32_t row, uint32_t *n)
{
    *n = output < b->common->n_out && row < b->rows ? b->common->out[output].clip_frames : 0;
    return *n ? b->out[output].frames + (size_t)row * *n : NULL;
}

uint32_t stk_batch_pictures(const stk_batch *b, uint32_t output, uint32_t row, uint32_t *n)
{
    const stk_picture_grids *g = output < b->common->n_out ? b->out[output].pictures : NULL;

    *n = g && row < b->rows ? g->first[row + 1] - g->first[row] : 0;
    return g && row < b->rows ? g->first[row] : 0;
}

uint32_t stk_batch_picture_grid(const stk_batch *b, uint32_t output, uint32_t picture,
                                int64_t grid[3])
{
    const stk_picture_grids *g = output < b->common->n_out ? b->out[output].pictures : NULL;
    const stk_patch_spec *patch = g ? &b->common->out[output].spec.picture.patch : NULL;

    if (!g || !patch->side)
        return 0;
    grid[0] = patch->frames > 1;
    grid[1] = picture < g->n ? g->at[picture][0] : 0;
    grid[2] = picture < g->n ? g->at[picture][1] : 0;
    return patch->block;
}

int stk_batch_several(const stk_batch *b, uint32_t output)
{
    return output < b->common->n_out && b->common->out[output].spec.picture.several;
}

int stk_batch_dense(const stk_batch *b, uint32_t output, stk_tensor *out)
{
    const stk_out_plan *p = output < b->common->n_out ? &b->common->out[output] : NULL;

    if (!p || p->spec.out != STK_OUT_DENSE)
        return STK_EINVAL;
    if (!p->row_bytes && !p->gpu_bytes && b->common->batch == 1 && !b->out[output].padded) {
        int rc = stk_batch_row(b, output, 0, out); /* ragged, but one row: with a leading 1 */

        memmove(out->shape + 1, out->shape, out->ndim * sizeof *out->shape);
        out->shape[0] = 1;
        out->ndim++;
        set_strides(out, &p->spec);
        return rc;
    }
    if (b->out[output].padded) {
        padded_tensor(b, output, out);
        return 0;
    }
    *out = (stk_tensor){ .dtype = p->spec.dtype, .ndim = p->spec.ndim + 1 };
    if (!p->gpu_bytes) {
        out->data = stk_batch_place((stk_batch *)(uintptr_t)b, output, 0);
        out->buffer = b->out[output].buffer;
    }
    gpu_tensor(b, output, p->skip, out);
    out->shape[0] = b->rows;
    memcpy(out->shape + 1, p->spec.shape, p->spec.ndim * sizeof *out->shape);
    set_strides(out, &p->spec);
    if (p->shared)
        out->strides[0] = (int64_t)(p->row_bytes / stk_dtype_size(p->spec.dtype));
    return 0;
}

int stk_batch_row(const stk_batch *b, uint32_t output, uint32_t row, stk_tensor *out)
{
    const stk_out_plan *p = output < b->common->n_out ? &b->common->out[output] : NULL;
    const stk_row_out *r;

    if (!p || row >= b->rows)
        return STK_EINVAL;
    if (b->out[output].padded) {
        padded_row(b, output, row, out);
        return 0;
    }
    if (p->row_bytes || p->gpu_bytes) {
        size_t each = p->gpu_bytes ? p->gpu_bytes : p->row_bytes;

        *out = (stk_tensor){ .dtype = p->spec.dtype, .ndim = p->spec.ndim };
        if (!p->gpu_bytes) {
            out->data = stk_batch_place((stk_batch *)(uintptr_t)b, output, row);
            out->buffer = b->out[output].buffer;
        }
        gpu_tensor(b, output, row * each + p->skip, out);
        memcpy(out->shape, p->spec.shape, p->spec.ndim * sizeof *out->shape);
    } else {
        r = &b->out[output].row[row];
        *out = (stk_tensor){ .data = p->gpu_made ? NULL : r->data, /* it is the record */
                             .buffer = r->own ? r->own : b->out[output].buffer,
                             .dtype = r->dtype        ? r->dtype
                                      : p->spec.dtype ? p->spec.dtype
                                                      : STK_U8,
                             .ndim = r->ndim };
        memcpy(out->shape, r->shape, sizeof r->shape);
        gpu_tensor(b, output, r->gpu_at, out);
    }
    set_strides(out, &p->spec);
    return 0;
}
