/* SPDX-License-Identifier: Apache-2.0 */
/* npy - an array as numpy.save() writes it.
 *
 * The header is read by format/npy_head.c.  Rows come out in C order and in this machine's byte
 * order, whatever the file has.
 *
 * npy alone gives rows that may differ (collate="list" or batch_size=1);
 * npy(shape=(3, 4), dtype=f32) gives rows that stack, and any other array is a bad sample. */
#include "codec/codec.h"
#include "format/npy_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_NDIM (STK_MAX_DIMS - 1) /* a batch adds one */
#define SHAPE_TEXT 128
#define MAX_ROW 0x1p34 /* bytes of a row that a chain may plan for */

struct npy {         /* what the chain asks for */
    stk_dtype dtype; /* 0: any */
    int fixed;       /* the shape too */
    uint32_t ndim;
    int64_t shape[MAX_NDIM];
};

typedef struct npy_array {
    stk_dtype dtype;
    int swapped, fortran;
    uint32_t ndim;
    int64_t shape[MAX_NDIM];
    size_t count;
    stk_bytes data;
} npy_array;

/* ---- the array ---- */

static int read_array(npy_array *a, stk_bytes in, stk_error *err)
{
    stk_npy head;
    size_t bytes;

    *a = (npy_array){ 0 };
    STK_TRY(stk_npy_head(in, &head, err));
    if (head.ndim > MAX_NDIM)
        return stk_fail(err, STK_ENOTSUP, "npy: more than %d dimensions", MAX_NDIM);
    bytes = (size_t)head.count * stk_dtype_size(head.dtype);
    if (bytes > in.len - head.offset)
        return stk_fail(err, STK_ECORRUPT,
                        "npy: truncated: %" PRIu64 " numbers of type %s, but %zu bytes of data",
                        head.count, stk_dtype_name(head.dtype), in.len - (size_t)head.offset);
    a->dtype = head.dtype;
    a->swapped = head.swapped;
    a->fortran = head.fortran;
    a->ndim = head.ndim;
    memcpy(a->shape, head.shape, sizeof a->shape);
    a->count = (size_t)head.count;
    a->data = (stk_bytes){ in.data + head.offset, bytes };
    return 0;
}

/* ---- the codec ---- */

static const char *shape_text(uint32_t ndim, const int64_t *shape, char buf[SHAPE_TEXT])
{
    size_t k = 1;

    buf[0] = '(';
    for (uint32_t i = 0; i < ndim && k < SHAPE_TEXT - 2; i++)
        k += (size_t)snprintf(buf + k, SHAPE_TEXT - k, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(buf + (k < SHAPE_TEXT - 2 ? k : SHAPE_TEXT - 2), 2, ")");
    return buf;
}

/* The array, if it is what the chain asks for. */
static int read_wanted(const struct npy *n, npy_array *a, stk_bytes in, stk_error *err)
{
    char have[SHAPE_TEXT], want[SHAPE_TEXT];

    STK_TRY(read_array(a, in, err));
    if (n->dtype && a->dtype != n->dtype)
        return stk_fail(err, STK_ECORRUPT, "npy: the array has type %s, the chain says %s",
                        stk_dtype_name(a->dtype), stk_dtype_name(n->dtype));
    if (n->fixed && (a->ndim != n->ndim || memcmp(a->shape, n->shape, sizeof a->shape) != 0))
        return stk_fail(err, STK_ECORRUPT, "npy: the array has shape %s, the chain says %s",
                        shape_text(a->ndim, a->shape, have), shape_text(n->ndim, n->shape, want));
    return 0;
}

static int npy_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    npy_array a;

    STK_TRY(read_wanted(state, &a, in, err));
    row->dtype = a.dtype;
    row->ndim = a.ndim;
    memcpy(row->shape, a.shape, sizeof a.shape);
    return 0;
}

/* Fortran's order: the first index runs fastest in the file, the last one in the row. */
static void copy_fortran(const npy_array *a, uint8_t *dst)
{
    size_t size = stk_dtype_size(a->dtype), from = 0, step[MAX_NDIM], stride = size;
    int64_t index[MAX_NDIM] = { 0 };

    for (uint32_t i = 0; i < a->ndim; i++) {
        step[i] = stride;
        stride *= (size_t)a->shape[i];
    }
    for (size_t n = 0; n < a->count; n++, dst += size) {
        memcpy(dst, a->data.data + from, size);
        for (uint32_t i = a->ndim; i-- > 0;) {
            from += step[i];
            if (++index[i] < a->shape[i])
                break;
            from -= step[i] * (size_t)a->shape[i];
            index[i] = 0;
        }
    }
}

static void swap_bytes(uint8_t *p, size_t count, size_t size)
{
    for (; count; count--, p += size)
        for (size_t i = 0; i < size / 2; i++) {
            uint8_t t = p[i];

            p[i] = p[size - 1 - i];
            p[size - 1 - i] = t;
        }
}

static int npy_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                     stk_error *err)
{
    npy_array a;

    STK_TRY(read_wanted(state, &a, in, err));
    if (!a.count)
        return 0;
    if (a.fortran && a.ndim > 1)
        copy_fortran(&a, dst);
    else
        memcpy(dst, a.data.data, a.data.len);
    if (a.swapped)
        swap_bytes(dst, a.count, stk_dtype_size(a.dtype));
    return 0;
}

static int plan_dtype(struct npy *n, const char *name, stk_error *err)
{
    for (stk_dtype d = STK_U8; name && d <= STK_U32; d++)
        if (d != STK_BF16 && !strcmp(stk_dtype_name(d), name))
            n->dtype = d;
    return n->dtype ? 0
                    : stk_fail(err, STK_EINVAL,
                               "npy: dtype `%s` is none of u8 i8 u16 i16 i32 u32 i64 f16 f32 f64",
                               name ? name : "?");
}

static int npy_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct npy *n = state;
    double bytes;

    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "npy reads a field's bytes: put it first");
    if (stk_args_has(args, "dtype"))
        STK_TRY(plan_dtype(n, stk_args_str(args, "dtype"), err));
    n->fixed = stk_args_has(args, "shape");
    if (n->fixed && !n->dtype)
        return stk_fail(err, STK_EINVAL,
                        "npy: rows of one shape stack if their type is one too: add dtype=f32");
    n->ndim = n->fixed ? stk_args_count(args, "shape") : 0;
    if (n->ndim > MAX_NDIM)
        return stk_fail(err, STK_EINVAL, "npy: shape has %u dimensions, at most %d", n->ndim,
                        MAX_NDIM);
    bytes = (double)stk_dtype_size(n->dtype);
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = n->fixed ? STK_OUT_DENSE : STK_OUT_LIST,
                        .dtype = n->dtype,
                        .ndim = n->ndim };
    for (uint32_t i = 0; i < n->ndim; i++) {
        double side = stk_args_f64_at(args, "shape", i);

        bytes *= side;

        if (!(side >= 1 && side <= UINT32_MAX))
            return stk_fail(err, STK_EINVAL, "npy: a side of %.0f in shape is not in 1..%u", side,
                            UINT32_MAX);
        spec->shape[i] = n->shape[i] = (int64_t)side;
    }
    if (bytes > MAX_ROW)
        return stk_fail(err, STK_EINVAL, "npy: a row of that shape has %.0f bytes, at most %.0f",
                        bytes, MAX_ROW);
    return 0;
}

static const stk_arg npy_args[] = {
    { "shape", STK_ARG_INTS, "", "of every row, so that they stack; absent: each has its own" },
    { "dtype", STK_ARG_NAME, "",
      "of every row: u8 i8 u16 i16 i32 u32 i64 f16 f32 f64; absent: any" },
    { 0 },
};

const stk_codec stk_codec_npy = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_codec),
                                  .name = "npy",
                                  .can = STK_CODEC_NPY,
                                  .help = "an array as numpy.save() writes it",
                                  .args = npy_args,
                                  .state_size = sizeof(struct npy),
                                  .plan = npy_plan,
                                  .parse = npy_parse,
                                  .shape = npy_shape };
