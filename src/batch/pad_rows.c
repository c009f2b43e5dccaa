/* SPDX-License-Identifier: Apache-2.0 */
/* pad_rows.c - rows of different shapes as one tensor: the largest of each dimension, the rest
 * filled.
 *
 * Done once all rows are there, by the worker that made the last one.  The tensor's memory was
 * planned when the batch was opened (by the largest before it), so that a loader at its
 * memory_limit waits there and not here.  The rows' own memory goes back at once: afterwards a row
 * is a window of the tensor.  Shapes are turned to the order in which memory is, after a leading
 * dimension of 1, so that scalars and pictures with channels last are no cases of their own. */
#include <math.h>
#include <string.h>

#include "batch/stack.h"
#include "kern/kern.h"

typedef struct pad_job {
    uint32_t n;                  /* dimensions, with the leading one */
    int64_t whole[STK_MAX_DIMS]; /* the padded row */
    int64_t part[STK_MAX_DIMS];  /* the row under hand */
    size_t big[STK_MAX_DIMS];    /* bytes of one step of a dimension, padded ... */
    size_t small[STK_MAX_DIMS];  /* ... and in the row */
    uint32_t flat;               /* from this dimension on the row is one run of the padded one */
    size_t element;
    uint8_t value[8];
    int zero;
} pad_job;

/* ---- the value ---- */

static int whole_fits(double v, double low, double past)
{
    return v >= low && v < past && v == floor(v);
}

static int half_value(double v, stk_dtype dtype, uint8_t out[8])
{
    static const uint8_t black[4];
    stk_color color = { .add = { (float)v, (float)v, (float)v }, .dtype = dtype };
    uint16_t nan = dtype == STK_F16 ? 0x7e00 : 0x7fc0, three[3];

    stk_kern_c.store_packed(three, black, 1, &color);
    memcpy(out, isnan(v) ? &nan : three, sizeof nan);
    return 0;
}

int stk_pad_value(double v, stk_dtype dtype, uint8_t out[8], stk_error *err)
{
    static const struct {
        double low, past;
    } range[] = { [STK_U8] = { 0, 256 },
                  [STK_I8] = { -128, 128 },
                  [STK_U16] = { 0, 65536 },
                  [STK_I16] = { -32768, 32768 },
                  [STK_I32] = { -2147483648.0, 2147483648.0 },
                  [STK_I64] = { -9223372036854775808.0, 9223372036854775808.0 },
                  [STK_U32] = { 0, 4294967296.0 } };
    float f = (float)v;
    int64_t i;

    if (dtype == STK_F16 || dtype == STK_BF16)
        return half_value(v, dtype, out);
    if (dtype == STK_F32)
        memcpy(out, &f, sizeof f);
    else if (dtype == STK_F64)
        memcpy(out, &v, sizeof v);
    else if (whole_fits(v, range[dtype].low, range[dtype].past)) {
        i = (int64_t)v;
        memcpy(out, &i, stk_dtype_size(dtype)); /* little-endian: the low bytes come first */
    } else {
        return stk_fail(err, STK_EINVAL, "the pad value %g is not a %s", v, stk_dtype_name(dtype));
    }
    return 0;
}

static void fill(const pad_job *j, uint8_t *dst, size_t bytes)
{
    size_t done = j->element;

    if (!bytes)
        return;
    if (j->zero) {
        memset(dst, 0, bytes);
        return;
    }
    memcpy(dst, j->value, done);
    while (done < bytes) { /* what is there, once more */
        size_t n = done < bytes - done ? done : bytes - done;

        memcpy(dst + done, dst, n);
        done += n;
    }
}

/* ---- one row ---- */

static void put(const pad_job *j, uint32_t d, uint8_t *dst, const uint8_t *src)
{
    size_t have = (size_t)j->part[d] * j->big[d], all = (size_t)j->whole[d] * j->big[d];

    if (d >= j->flat) {
        if (have)
            memcpy(dst, src, have);
    } else {
        for (int64_t i = 0; i < j->part[d]; i++)
            put(j, d + 1, dst + (size_t)i * j->big[d], src + (size_t)i * j->small[d]);
    }
    fill(j, dst + have, all - have);
}

/* A shape as its memory is, after a leading 1. */
static void in_memory(const stk_spec *spec, const int64_t *shape, uint32_t n, int64_t *out)
{
    out[0] = 1;
    if (n)
        memcpy(out + 1, shape, n * sizeof *shape);
    if (n == 3 && spec->kind == STK_KIND_IMAGE && spec->picture.layout == STK_CHANNELS_LAST) {
        out[1] = shape[1];
        out[2] = shape[2];
        out[3] = shape[0];
    }
}

/* The row under hand. */
static void begin_row(pad_job *j, const stk_spec *spec, const stk_row_out *r)
{
    in_memory(spec, r->shape, r->ndim, j->part);
    j->flat = j->n - 1;
    j->small[j->n - 1] = j->element;
    for (uint32_t d = j->n - 1; d > 0; d--) {
        j->small[d - 1] = j->small[d] * (size_t)j->part[d];
        if (j->flat == d && j->part[d] == j->whole[d])
            j->flat = d - 1;
    }
}

static void put_row(pad_job *j, const stk_spec *spec, const stk_row_out *r, uint8_t *dst)
{
    begin_row(j, spec, r);
    put(j, 0, dst, r->data);
}

/* put() backwards: a row out of the tensor. */
static void get(const pad_job *j, uint32_t d, uint8_t *dst, const uint8_t *src)
{
    if (d >= j->flat) {
        if (j->part[d])
            memcpy(dst, src, (size_t)j->part[d] * j->big[d]);
        return;
    }
    for (int64_t i = 0; i < j->part[d]; i++)
        get(j, d + 1, dst + (size_t)i * j->small[d], src + (size_t)i * j->big[d]);
}

/* ---- one output ---- */

static stk_dtype dtype_of(const stk_out_plan *p, const stk_row_out *r)
{
    return r->dtype ? r->dtype : p->spec.dtype;
}

static int odd_row(const stk_batch *b, const char *name, uint32_t row, const stk_row_out *r,
                   stk_error *err)
{
    size_t len;
    const char *key = stk_batch_key(b, row, &len);
    int rc = stk_fail(err, STK_ECORRUPT,
                      "output %s: a row of %u dimensions, type %s, is not padded together with the "
                      "others of its batch: take collate=\"list\"",
                      name, r->ndim, stk_dtype_name(r->dtype));

    stk_error_at(err, NULL, STK_NO_OFFSET, (stk_bytes){ (const uint8_t *)key, len });
    if (err)
        err->sample = b->ids[row];
    return rc;
}

/* Nothing is filled where all pictures of a batch were to have one size. */
static int check_one_size(const stk_batch *b, uint32_t output, stk_error *err)
{
    const stk_batch_out *o = &b->out[output];
    size_t len;
    const char *key;
    int rc;

    for (uint32_t i = 1; i < b->rows; i++) {
        const stk_row_out *r = &o->row[i], *first = &o->row[0];

        if (!memcmp(r->shape, first->shape, o->ndim * sizeof *r->shape))
            continue;
        key = stk_batch_key(b, i, &len);
        rc = stk_fail(err, STK_ECORRUPT,
                      "output %s: its picture comes out as %" PRId64 "x%" PRId64 "x%" PRId64
                      ", those of its batch as %" PRId64 "x%" PRId64 "x%" PRId64
                      ": its size is not what the index or an op says; end the geometry with "
                      "resize_to_bucket, or index the data again",
                      b->common->out[output].name, r->shape[0], r->shape[1], r->shape[2],
                      first->shape[0], first->shape[1], first->shape[2]);
        stk_error_at(err, NULL, STK_NO_OFFSET, (stk_bytes){ (const uint8_t *)key, len });
        if (err)
            err->sample = b->ids[i];
        return rc;
    }
    return 0;
}

/* Up to a multiple: of arrays and patches the first dimension, of pictures height and width.  A
 * schedule says how long rows of patches are. */
static int round_up(const stk_batch *b, const stk_out_plan *p, stk_batch_out *o)
{
    int picture = p->spec.kind == STK_KIND_IMAGE && !p->spec.picture.patch.side;
    uint32_t from = picture && p->spec.picture.layout != STK_HWC;
    uint32_t to = picture ? from + 2 : 1;
    int64_t n = p->spec.picture.patch.side && b->limit.patches ? b->limit.patches : p->multiple;

    for (uint32_t d = from; n > 1 && d < to && d < o->ndim; d++)
        if (__builtin_add_overflow(o->shape[d], (n - o->shape[d] % n) % n, &o->shape[d]))
            return 0;
    return 1;
}

/* The largest of each dimension. */
static int measure(const stk_batch *b, uint32_t output, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];

    o->ndim = o->row[0].ndim;
    o->dtype = dtype_of(p, &o->row[0]);
    memset(o->shape, 0, sizeof o->shape);
    for (uint32_t i = 0; i < b->rows; i++) {
        const stk_row_out *r = &o->row[i];

        if (r->ndim != o->ndim || dtype_of(p, r) != o->dtype)
            return odd_row(b, p->name, i, r, err);
        for (uint32_t d = 0; d < o->ndim; d++)
            o->shape[d] = r->shape[d] > o->shape[d] ? r->shape[d] : o->shape[d];
    }
    return 0;
}

/* Memory for the tensor: what was planned, if it is large enough. */
static int provide(stk_batch *b, stk_batch_out *o, size_t size)
{
    stk_account *account = stk_pool_account(b->common->pool);

    if (o->dense && o->dense->size >= size)
        return 1;
    stk_batch_undense(b, o);
    o->dense = size < STK_SMALL_OUTPUT ? stk_buffer_new(size ? size : 1)
                                       : stk_pool_get(b->common->pool, size);
    if (o->dense)
        return 1;
    if (!stk_account_take(account, size)) /* the pool's share is spent; the rest may do */
        return 0;
    o->dense = stk_buffer_new(size);
    o->counted = o->dense != NULL;
    if (!o->dense)
        stk_account_give(account, size);
    return o->counted;
}

/* Rows that differ in another dimension than the first are not joined. */
static int check_joined(const stk_batch *b, uint32_t output, stk_error *err)
{
    const stk_batch_out *o = &b->out[output];

    for (uint32_t i = 0; i < b->rows; i++)
        if (!o->ndim ||
            memcmp(o->row[i].shape + 1, o->row[0].shape + 1, (o->ndim - 1) * sizeof *o->shape) != 0)
            return odd_row(b, b->common->out[output].name, i, &o->row[i], err);
    return 0;
}

/* All rows, one after another: where each will be. */
static int measure_joined(stk_batch *b, uint32_t output, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];

    STK_TRY(check_joined(b, output, err));
    o->shape[0] = 0;
    o->row_bytes = 0;
    for (uint32_t i = 0; i < b->rows; i++) {
        o->shape[0] += o->row[i].shape[0];
        o->row[i].gpu_at = o->row_bytes;
        o->row_bytes += p->gpu_made ? stk_row_out_bytes(b, output, i) : o->row[i].len;
    }
    o->joined = 1;
    return 0;
}

static int join(stk_batch *b, uint32_t output, stk_error *err)
{
    stk_batch_out *o = &b->out[output];

    STK_TRY(measure_joined(b, output, err));
    if (!provide(b, o, o->row_bytes))
        return stk_fail(err, STK_ENOMEM,
                        "output %s: memory_limit leaves no room for its joined batch: lower "
                        "max_tokens or batch_size",
                        b->common->out[output].name);
    for (uint32_t i = 0; i < b->rows; i++) {
        size_t len = o->row[i].len;

        if (len)
            memcpy((uint8_t *)o->dense->data + o->row[i].gpu_at, o->row[i].data, len);
        stk_batch_unreserve(b, output, i);
    }
    stk_buffer_unref(o->buffer);
    o->buffer = NULL;
    o->padded = 1;
    return 0;
}

static int no_padded_room(const stk_out_plan *p, stk_error *err)
{
    return stk_fail(err, STK_ENOMEM,
                    "output %s: memory_limit leaves no room for its padded batch: crop long "
                    "rows, lower batch_size or take collate=\"list\"",
                    p->name);
}

/* For rows of the tensor's size; their bytes go to *size.  1: more than there can be. */
static int begin_job(pad_job *j, const stk_out_plan *p, const stk_batch_out *o, size_t *size)
{
    int wide = 0;

    *size = j->element = stk_dtype_size(o->dtype);
    j->n = o->ndim + 1;
    in_memory(&p->spec, o->shape, o->ndim, j->whole);
    for (uint32_t d = j->n; d-- > 0;) {
        j->big[d] = *size;
        wide |= __builtin_mul_overflow(*size, (size_t)j->whole[d], size);
    }
    return wide;
}

/* Rows of one size: that of the tensor's, and its value behind others. */
static int measure_padded(stk_batch *b, uint32_t output, pad_job *j, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];
    int wide = !round_up(b, p, o);
    size_t all;

    STK_TRY(stk_pad_value(p->pad_value, o->dtype, j->value, err));
    memcpy(o->value, j->value, sizeof o->value);
    j->zero = !memcmp(j->value, (uint8_t[8]){ 0 }, sizeof j->value);
    wide |= begin_job(j, p, o, &o->row_bytes);
    wide |= __builtin_mul_overflow(o->row_bytes, (size_t)b->rows, &all);
    return wide ? no_padded_room(p, err) : 0;
}

int stk_batch_pad_there(stk_batch *b, uint32_t output, stk_error *err)
{
    stk_batch_out *o = &b->out[output];
    pad_job j = { 0 };

    STK_TRY(measure(b, output, err));
    if (b->common->out[output].joined) {
        STK_TRY(measure_joined(b, output, err));
    } else {
        STK_TRY(measure_padded(b, output, &j, err));
        for (uint32_t i = 0; i < b->rows; i++)
            o->row[i].gpu_at = i * o->row_bytes;
    }
    o->padded = 1;
    return 0;
}

int stk_batch_pad(stk_batch *b, uint32_t output, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];
    pad_job j = { 0 };

    STK_TRY(measure(b, output, err));
    if (p->one_size)
        STK_TRY(check_one_size(b, output, err));
    if (p->joined)
        return join(b, output, err);
    STK_TRY(measure_padded(b, output, &j, err));
    if (!provide(b, o, o->row_bytes * b->rows))
        return no_padded_room(p, err);
    for (uint32_t i = 0; i < b->rows; i++) {
        put_row(&j, &p->spec, &o->row[i], (uint8_t *)o->dense->data + i * o->row_bytes);
        stk_batch_unreserve(b, output, i);
    }
    stk_buffer_unref(o->buffer);
    o->buffer = NULL;
    o->padded = 1;
    return 0;
}

/* ---- a row made again ---- */

static size_t bytes_of(const stk_out_plan *p, const stk_row_out *r)
{
    size_t n = stk_dtype_size(dtype_of(p, r));

    for (uint32_t d = 0; d < r->ndim; d++)
        n *= (size_t)r->shape[d];
    return n;
}

/* All rows but `row` out of the tensor, side by side. */
static void take_rows(stk_batch *b, uint32_t output, uint32_t row, uint8_t *room)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];
    const uint8_t *from = o->dense->data;
    pad_job j = { 0 };
    size_t each;

    (void)begin_job(&j, p, o, &each);
    for (uint32_t i = 0; i < b->rows; i++) {
        stk_row_out *r = &o->row[i];
        size_t n = bytes_of(p, r);

        if (i == row)
            continue;
        if (o->joined && n) {
            memcpy(room, from + r->gpu_at, n);
        } else if (!o->joined) {
            begin_row(&j, &p->spec, r);
            get(&j, 0, room, from + i * each);
        }
        r->data = room;
        room += n;
    }
}

int stk_batch_pad_again(stk_batch *b, uint32_t output, uint32_t row, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[output];
    stk_batch_out *o = &b->out[output];
    size_t n = 1;
    uint8_t *room;
    int rc;

    for (uint32_t i = 0; i < b->rows; i++)
        n += i == row ? 0 : bytes_of(p, &o->row[i]);
    room = stk_alloc(n);
    if (!room)
        return stk_fail_nomem(err, n);
    take_rows(b, output, row, room);
    stk_batch_undense(b, o);
    o->padded = 0;
    rc = stk_batch_pad(b, output, err);
    stk_free(room);
    return rc;
}
