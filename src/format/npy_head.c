/* SPDX-License-Identifier: Apache-2.0 */
/* npy_head.c - the header of an .npy file, versions 1 to 3.
 *
 * It is text, a Python dict, and is read by a small scanner of our own for just the three keys that
 * it has.  Object arrays are pickles and are refused: reading data never runs code. */
#include "format/npy_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define MAX_HEADER 65536

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

static int read_type(stk_npy *a, scan *s, stk_error *err)
{
    static const struct {
        char name[3];
        stk_dtype dtype;
    } known[] = { { "b1", STK_U8 },  { "u1", STK_U8 },  { "i1", STK_I8 },  { "u2", STK_U16 },
                  { "i2", STK_I16 }, { "i4", STK_I32 }, { "u4", STK_U32 }, { "i8", STK_I64 },
                  { "f2", STK_F16 }, { "f4", STK_F32 }, { "f8", STK_F64 } };
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
    return stk_fail(err, STK_ENOTSUP, "npy: type %s; known are b1 u1 i1 u2 i2 u4 i4 i8 f2 f4 f8",
                    stk_shown(d, shown));
}

static int read_shape(stk_npy *a, scan *s, stk_error *err)
{
    if (!take(s, '('))
        return stk_fail(err, STK_ECORRUPT, "npy: its header has no shape");
    for (a->ndim = 0; !take(s, ')'); a->ndim++) {
        if (a->ndim && !take(s, ','))
            return stk_fail(err, STK_ECORRUPT, "npy: its shape is damaged");
        if (a->ndim && take(s, ')'))
            return 0;
        if (a->ndim == STK_MAX_DIMS)
            return stk_fail(err, STK_ENOTSUP, "npy: more than %d dimensions", STK_MAX_DIMS);
        if (!take_int(s, &a->shape[a->ndim]))
            return stk_fail(err, STK_ECORRUPT, "npy: its shape is damaged");
    }
    return 0;
}

static int read_dict(stk_npy *a, scan *s, stk_error *err)
{
    int seen = 0;
    stk_bytes key;

    if (!take(s, '{'))
        return stk_fail(err, STK_ECORRUPT, "npy: its header is not a dict");
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

static int count_elements(stk_npy *a, stk_error *err)
{
    uint64_t bytes = stk_dtype_size(a->dtype);

    a->count = 1;
    for (uint32_t i = 0; i < a->ndim; i++)
        if (__builtin_mul_overflow(a->count, (uint64_t)a->shape[i], &a->count))
            return stk_fail(err, STK_ECORRUPT,
                            "npy: its shape is damaged: too many numbers for any file");
    if (__builtin_mul_overflow(bytes, a->count, &bytes))
        return stk_fail(err, STK_ECORRUPT,
                        "npy: its shape is damaged: too many numbers for any file");
    return 0;
}

int stk_npy_head(stk_bytes in, stk_npy *a, stk_error *err)
{
    const uint8_t *p = in.data;
    size_t at, len;
    scan s;

    *a = (stk_npy){ 0 };
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
    a->offset = at + len;
    if (len > in.len - at)
        return stk_fail(err, STK_ECORRUPT, "npy: truncated: its %zu bytes end in the header",
                        in.len);
    s = (scan){ p + at, p + at + len };
    STK_TRY(read_dict(a, &s, err));
    return count_elements(a, err);
}
