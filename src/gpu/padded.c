/* SPDX-License-Identifier: Apache-2.0 */
/* padded.c - tensors that a GPU makes of rows of different sizes, padded or joined: it fills
 * the space after each row, and replaces a row that is made again.
 *
 * The place of each row is decided when the last row is ready (batch/pad_rows.c).  A row that is
 * made again may have another size, which moves all other rows: the tensor is then built again from
 * the rows of the old one. */
#include "gpu/padded.h"

#include <string.h>

#include "base/mem.h"

stk_pic_lay stk_padded_lay(const stk_batch *b, uint32_t output)
{
    const stk_picture_spec *p = &b->common->out[output].spec.picture;
    const stk_batch_out *o = &b->out[output];
    uint32_t from = p->layout != STK_HWC; /* height, then width */
    stk_pic_lay lay = { .patch = p->patch };

    if (p->patch.side && b->limit.side) /* a schedule says another one for this batch */
        lay.patch.side = b->limit.side;
    if (!p->patch.side && !p->several && o->padded) {
        lay.h = (uint32_t)o->shape[from];
        lay.w = (uint32_t)o->shape[from + 1];
    }
    return lay;
}

/* Elements as large as those of `value`, all over the tensor: what is there, once more. */
static int fill_value(stk_gpu_transfer *f, const stk_batch_out *o, size_t bytes)
{
    const stk_device *d = f->device;
    size_t done = stk_dtype_size(o->dtype);
    uint8_t *to = o->gpu_memory->data;
    int rc = d->cuda->copy(d->gpu, to, o->value, done, STK_COPY_IN, f->stream);

    while (done < bytes && !rc) {
        size_t n = done < bytes - done ? done : bytes - done;

        rc = d->cuda->copy(d->gpu, to + done, to, n, STK_COPY_WITHIN, f->stream);
        done += n;
    }
    return rc;
}

int stk_padded_fill(stk_gpu_transfer *f, const stk_batch *b, uint32_t output)
{
    const stk_batch_out *o = &b->out[output];
    size_t bytes = stk_padded_bytes(b, o), rows = 0;

    for (uint32_t r = 0; r < b->rows; r++)
        rows += stk_row_out_bytes(b, output, r);
    if (rows == bytes)
        return 0;
    if (memcmp(o->value, (uint8_t[sizeof o->value]){ 0 }, sizeof o->value))
        return fill_value(f, o, bytes);
    return f->device->cuda->zero(f->device->gpu, o->gpu_memory->data, bytes, f->stream);
}

/* ---- a row made again ---- */

typedef struct lines { /* a row, or a place for rows, as runs of bytes */
    uint32_t planes, n;
    size_t bytes; /* of one line */
} lines;

static lines lines_of(const stk_out_plan *p, const int64_t *shape)
{
    size_t size = stk_dtype_size(p->spec.dtype);
    const stk_picture_spec *s = &p->spec.picture;

    if (s->patch.side)
        return (lines){ 1, 1, (size_t)(shape[0] * shape[1]) * size };
    if (s->several) /* of one size */
        return (lines){ 1, 1, (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * size };
    if (s->layout == STK_HWC)
        return (lines){ 1, (uint32_t)shape[0], (size_t)(shape[1] * shape[2]) * size };
    if (s->layout == STK_CHANNELS_LAST)
        return (lines){ 1, (uint32_t)shape[1], (size_t)(shape[2] * shape[0]) * size };
    return (lines){ (uint32_t)shape[0], (uint32_t)shape[1], (size_t)shape[2] * size };
}

typedef struct moved { /* from one place for rows to another */
    stk_gpu_transfer *f;
    uint8_t *to;
    const uint8_t *from;
    lines at, was, row;
    stk_copy how;
} moved;

static int move_row(const moved *m)
{
    const stk_device *d = m->f->device;
    int rc = 0;

    for (uint32_t c = 0; c < m->row.planes; c++)
        for (uint32_t y = 0; y < m->row.n && !rc; y++)
            rc = d->cuda->copy(d->gpu, m->to + ((size_t)c * m->at.n + y) * m->at.bytes,
                               m->from + ((size_t)c * m->was.n + y) * m->was.bytes, m->row.bytes,
                               m->how, m->f->stream);
    return rc;
}

typedef struct before { /* the tensor as it was */
    stk_buffer *memory;
    int64_t shape[STK_MAX_DIMS - 1];
    size_t *at; /* of each row */
} before;

/* All rows into o->gpu_memory, `again` from its record; one of several pictures is no record. */
static int move_rows(stk_gpu_transfer *f, stk_batch *b, uint32_t output, uint32_t again,
                     const before *was)
{
    const stk_out_plan *p = &b->common->out[output];
    const stk_batch_out *o = &b->out[output];
    int rc = stk_padded_fill(f, b, output);

    for (uint32_t r = 0; r < b->rows && !rc; r++) {
        const stk_row_out *row = &o->row[r];
        const stk_pic *record = (const stk_pic *)(const void *)row->data;
        moved m = { .f = f,
                    .to = (uint8_t *)o->gpu_memory->data + row->gpu_at,
                    .from = (const uint8_t *)was->memory->data + was->at[r],
                    .at = lines_of(p, o->shape),
                    .was = lines_of(p, was->shape),
                    .row = lines_of(p, row->shape),
                    .how = STK_COPY_WITHIN };

        if (r == again) {
            m.from = row->data + (p->spec.picture.several ? 0 : record->data_at);
            m.was = m.row;
            m.how = STK_COPY_IN;
        }
        rc = move_row(&m);
    }
    return rc;
}

static int make_anew(stk_gpu_transfer *f, stk_batch *b, uint32_t output, uint32_t again,
                     const before *was, stk_error *err)
{
    stk_batch_out *o = &b->out[output];
    stk_device *d = f->device;
    stk_buffer *made = NULL;
    size_t bytes;
    int rc, over;

    STK_TRY(stk_batch_pad_there(b, output, err));
    bytes = stk_padded_bytes(b, o);
    STK_TRY(stk_gpu_pool_get(d->pool, bytes + !bytes, f->stream, &made, err));
    o->gpu_memory = made;
    rc = move_rows(f, b, output, again, was);
    over = d->cuda->stream_sync(d->gpu, f->stream);
    rc = rc ? rc : over;
    stk_buffer_unref(was->memory);
    return rc ? stk_device_fail(d, rc, "rows could not be moved", err) : 0;
}

int stk_padded_redo(stk_gpu_transfer *f, stk_batch *b, uint32_t output, uint32_t row,
                    stk_error *err)
{
    const stk_batch_out *o = &b->out[output];
    before was = { .memory = o->gpu_memory, .at = stk_zalloc(b->rows, sizeof *was.at) };
    int rc;

    if (!was.at)
        return stk_fail_nomem(err, b->rows * sizeof *was.at);
    memcpy(was.shape, o->shape, sizeof was.shape);
    for (uint32_t r = 0; r < b->rows; r++)
        was.at[r] = o->row[r].gpu_at;
    rc = make_anew(f, b, output, row, &was, err);
    stk_free(was.at);
    return rc;
}
