/* SPDX-License-Identifier: Apache-2.0 */
/* npy - an array as numpy.save() writes it, versions 1 to 3.
 *
 * The header is text, a Python dict; it is read by a small scanner of our own for just the three
 * keys that it has.  Rows come out in C order and in this machine's byte order, whatever the
 * file has.  Object arrays are pickles and are refused: reading data never runs code.
 *
 * npy alone gives rows that may differ (collate="list" or batch_size=1);
 * npy(shape=(3, 4), dtype=f32) gives rows that stack, and any other array is a bad sample. */
#include "codec/codec.h"
#include "codec/text.h"

#include <stdio.h>
#include <string.h>

#define MAX_HEADER 65536
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

/* ---- the header's text ---- */

typedef struct scan {
    const uint8_t *at, *end;
} scan;

static void skip_space(scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

/* The next character that is no space, taken if it is `c`. */
static int take(scan *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != (uint8_t)c)
        return 0;
    s->at++;
    return 1;
}

static int take_word(scan *s, const char *word)
{
    size_t n = strlen(word);

    skip_space(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return 0;
    s->at += n;
    return 1;
}

/* 'text' or "text", without escapes. */
static int take_string(scan *s, stk_bytes *out)
{
    char quote = take(s, '\'') ? '\'' : take(s, '"') ? '"' : 0;

    out->data = s->at;
    if (!quote)
        return 0;
    while (s->at < s->end && *s->at != (uint8_t)quote)
        s->at++;
    out->len = (size_t)(s->at - out->data);
    return take(s, quote);
}

static int take_int(scan *s, int64_t *out)
{
    int64_t v = 0;
    int digits = 0;

    skip_space(s);
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++, digits++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->at - '0', &v))
            return 0;
    if (digits && s->at < s->end && *s->at == 'L') /* Python 2 wrote it */
        s->at++;
    *out = v;
    return digits > 0;
}

/* ---- the header's meaning ---- */

static int is_order(uint8_t c)
{
    return c == '<' || c == '>' || c == '=' || c == '|';
}

static int read_type(npy_array *a, scan *s, stk_error *err)
{
    static const struct {
        char name[3];
        stk_dtype dtype;
    } known[] = { { "b1", STK_U8 },  { "u1", STK_U8 },  { "i1", STK_I8 },  { "u2", STK_U16 },
                  { "i2", STK_I16 }, { "i4", STK_I32 }, { "i8", STK_I64 }, { "f2", STK_F16 },
                  { "f4", STK_F32 }, { "f8", STK_F64 } };
    char shown[STK_SHOWN_MAX];
    stk_bytes d;

    if (!take_string(s, &d))
        return stk_fail(err, STK_ENOTSUP, "npy: a structured array, or no type at all");
    if (d.len && d.data[d.len > 1 && is_order(d.data[0])] == 'O')
        return stk_fail(err, STK_ENOTSUP,
                        "npy: an array of objects is a pickle and never read: save numbers");
    for (size_t i = 0; d.len == 3 && i < sizeof known / sizeof *known; i++) {
        if (memcmp(d.data + 1, known[i].name, 2) != 0 || !is_order(d.data[0]))
            continue;
        a->dtype = known[i].dtype;
        a->swapped = d.data[0] == '>' && stk_dtype_size(a->dtype) > 1;
        return 0;
    }
    return stk_fail(err, STK_ENOTSUP, "npy: type %s; known are b1 u1 i1 u2 i2 i4 i8 f2 f4 f8",
                    stk_shown(d, shown));
}

static int read_shape(npy_array *a, scan *s, stk_error *err)
{
    if (!take(s, '('))
        return stk_fail(err, STK_ECORRUPT, "npy: its header has no shape");
    for (a->ndim = 0; !take(s, ')'); a->ndim++) {
        if (a->ndim && !take(s, ','))
            return stk_fail(err, STK_ECORRUPT, "npy: its shape is damaged");
        if (a->ndim && take(s, ')'))
            return 0;
        if (a->ndim == MAX_NDIM)
            return stk_fail(err, STK_ENOTSUP, "npy: more than %d dimensions", MAX_NDIM);
        if (!take_int(s, &a->shape[a->ndim]))
            return stk_fail(err, STK_ECORRUPT, "npy: its shape is damaged");
    }
    return 0;
}

static int read_dict(npy_array *a, scan *s, stk_error *err)
{
    int seen = 0;
    stk_bytes key;

    if (!take(s, '{'))
        return stk_fail(err, STK_ECORRUPT, "npy: its header is no dict");
    while (!take(s, '}')) {
        if (!take_string(s, &key) || !take(s, ':'))
            return stk_fail(err, STK_ECORRUPT, "npy: its header is damaged");
        if (key.len == 5 && !memcmp(key.data, "descr", 5)) {
            seen |= 1;
            STK_TRY(read_type(a, s, err));
        } else if (key.len == 13 && !memcmp(key.data, "fortran_order", 13)) {
            seen |= 2;
            a->fortran = take_word(s, "True");
            if (!a->fortran && !take_word(s, "False"))
                return stk_fail(err, STK_ECORRUPT, "npy: fortran_order is neither True nor False");
        } else if (key.len == 5 && !memcmp(key.data, "shape", 5)) {
            seen |= 4;
            STK_TRY(read_shape(a, s, err));
        } else {
            return stk_fail(err, STK_ECORRUPT, "npy: its header has an unknown key");
        }
        take(s, ',');
    }
    return seen == 7 ? 0 : stk_fail(err, STK_ECORRUPT, "npy: its header lacks a key");
}

static int check_data(npy_array *a, stk_error *err)
{
    uint64_t bytes = stk_dtype_size(a->dtype);

    a->count = 1;
    for (uint32_t i = 0; i < a->ndim; i++)
        if (__builtin_mul_overflow(a->count, (uint64_t)a->shape[i], &a->count))
            return stk_fail(err, STK_ECORRUPT, "npy: more numbers than there are");
    if (__builtin_mul_overflow(bytes, a->count, &bytes) || bytes > a->data.len)
        return stk_fail(err, STK_ECORRUPT,
                        "npy: truncated: %zu numbers of type %s, but %zu bytes of data", a->count,
                        stk_dtype_name(a->dtype), a->data.len);
    a->data.len = (size_t)bytes;
    return 0;
}

static int read_array(npy_array *a, stk_bytes in, stk_error *err)
{
    const uint8_t *p = in.data;
    size_t at, len;
    scan s;

    *a = (npy_array){ 0 };
    if (in.len < 6 || memcmp(p, "\x93NUMPY", 6) != 0)
        return stk_fail(err, STK_ECORRUPT, "npy: these %zu bytes do not begin as an .npy file does",
                        in.len);
    if (in.len < 12)
        return stk_fail(err, STK_ECORRUPT, "npy: truncated: its %zu bytes end in the header",
                        in.len);
    if (p[6] < 1 || p[6] > 3)
        return stk_fail(err, STK_ENOTSUP, "npy: version %u.%u, known are 1 to 3", p[6], p[7]);
    at = p[6] == 1 ? 10 : 12;
    len = p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (len > MAX_HEADER)
        return stk_fail(err, STK_ELIMIT, "npy: a header of %zu bytes, at most %d", len, MAX_HEADER);
    if (len > in.len - at)
        return stk_fail(err, STK_ECORRUPT, "npy: truncated: its %zu bytes end in the header",
                        in.len);
    s = (scan){ p + at, p + at + len };
    STK_TRY(read_dict(a, &s, err));
    a->data = (stk_bytes){ p + at + len, in.len - at - len };
    return check_data(a, err);
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

static int npy_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
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
    for (stk_dtype d = STK_U8; name && d <= STK_F64; d++)
        if (d != STK_BF16 && !strcmp(stk_dtype_name(d), name))
            n->dtype = d;
    return n->dtype ? 0
                    : stk_fail(err, STK_EINVAL,
                               "npy: dtype `%s` is none of u8 i8 u16 i16 i32 i64 f16 f32 f64",
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
    { "dtype", STK_ARG_NAME, "", "of every row: u8 i8 u16 i16 i32 i64 f16 f32 f64; absent: any" },
    { 0 },
};

const stk_codec stk_codec_npy = { .abi = STK_PLUGIN_ABI,
                                  .name = "npy",
                                  .help = "an array as numpy.save() writes it",
                                  .args = npy_args,
                                  .state_size = sizeof(struct npy),
                                  .plan = npy_plan,
                                  .parse = npy_parse,
                                  .shape = npy_shape };
