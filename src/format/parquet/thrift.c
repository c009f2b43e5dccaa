/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.c - the compact protocol: varints, zigzag, fields by difference of their numbers.
 *
 * Only what Parquet's metadata uses is read; everything else can be skipped.  Skipping goes at most
 * DEPTH levels deep, so that nested structs cannot use up the stack. */
#include "format/parquet/thrift.h"

#define DEPTH 32

static uint64_t fail(stk_thrift *t, const char *why)
{
    if (!t->bad)
        t->bad = why;
    t->p = t->end;
    return 0;
}

static uint8_t byte(stk_thrift *t)
{
    return t->p < t->end ? *t->p++ : (uint8_t)fail(t, "it ends too early");
}

uint64_t stk_thrift_varint(stk_thrift *t)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte(t);

        v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return t->bad ? 0 : v;
    }
    return fail(t, "a number has more than 64 bits");
}

static int64_t zigzag(stk_thrift *t)
{
    uint64_t v = stk_thrift_varint(t);

    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

int stk_thrift_next(stk_thrift *t, stk_thrift_field *f)
{
    uint8_t head = byte(t);
    int64_t id;

    if (t->bad || !(head & 15))
        return 0;
    id = head >> 4 ? f->id + (head >> 4) : zigzag(t);
    if (id < 0 || id > INT16_MAX)
        return (int)fail(t, "a field has an impossible number");
    f->id = (int32_t)id;
    f->type = head & 15;
    if (f->type > STK_THRIFT_STRUCT)
        return (int)fail(t, "a field has an unknown type");
    return !t->bad;
}

int64_t stk_thrift_int(stk_thrift *t, const stk_thrift_field *f)
{
    if (f->type == STK_THRIFT_I8)
        return (int8_t)byte(t);
    if (f->type == STK_THRIFT_TRUE || f->type == STK_THRIFT_FALSE)
        return f->type == STK_THRIFT_TRUE; /* fastparquet: has_nulls="infer" */
    if (f->type < STK_THRIFT_I16 || f->type > STK_THRIFT_I64)
        return (int64_t)fail(t, "a number has another type");
    return zigzag(t);
}

int stk_thrift_bool(stk_thrift *t, const stk_thrift_field *f)
{
    if (f->type != STK_THRIFT_TRUE && f->type != STK_THRIFT_FALSE)
        return (int)fail(t, "a flag has another type");
    return f->type == STK_THRIFT_TRUE;
}

stk_bytes stk_thrift_binary(stk_thrift *t, const stk_thrift_field *f)
{
    uint64_t n = f->type == STK_THRIFT_BINARY ? stk_thrift_varint(t)
                                              : fail(t, "a text has another type");
    stk_bytes out = { t->p, 0 };

    if (n > (uint64_t)(t->end - t->p))
        fail(t, "a text is longer than what is left");
    else {
        out.len = (size_t)n;
        t->p += n;
    }
    return out;
}

/* How many elements; *type: of what. */
static uint32_t list_head(stk_thrift *t, int *type)
{
    uint8_t head = byte(t);
    uint64_t n = head >> 4 == 15 ? stk_thrift_varint(t) : head >> 4;

    *type = head & 15;
    if (n > (uint64_t)(t->end - t->p) || n > UINT32_MAX)
        return (uint32_t)fail(t, "a list is longer than what is left");
    return (uint32_t)n;
}

uint32_t stk_thrift_list(stk_thrift *t, const stk_thrift_field *f, int want)
{
    uint32_t n;
    int type;

    if (f->type != STK_THRIFT_LIST)
        return (uint32_t)fail(t, "a list has another type");
    n = list_head(t, &type);
    if (n && type != want)
        return (uint32_t)fail(t, "a list has elements of another type");
    return n;
}

int stk_thrift_struct(stk_thrift *t, const stk_thrift_field *f)
{
    if (f->type != STK_THRIFT_STRUCT)
        return (int)fail(t, "a struct has another type");
    return 1;
}

/* ---- skipping ---- */

static void skip(stk_thrift *t, int type, int in_list, uint32_t depth);

static void skip_bytes(stk_thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p))
        fail(t, "it ends too early");
    else
        t->p += n;
}

static void skip_list(stk_thrift *t, uint32_t depth)
{
    int type;
    uint32_t n = list_head(t, &type);

    for (uint32_t i = 0; i < n && !t->bad; i++)
        skip(t, type, 1, depth + 1);
}

static void skip_map(stk_thrift *t, uint32_t depth)
{
    uint64_t n = stk_thrift_varint(t);
    uint8_t types = n ? byte(t) : 0;

    if (n > (uint64_t)(t->end - t->p))
        fail(t, "a map is longer than what is left");
    for (uint64_t i = 0; i < n && !t->bad; i++) {
        skip(t, types >> 4, 1, depth + 1);
        skip(t, types & 15, 1, depth + 1);
    }
}

static void skip(stk_thrift *t, int type, int in_list, uint32_t depth)
{
    stk_thrift_field f = { 0 };

    if (depth > DEPTH) {
        fail(t, "structs are nested too deep");
        return;
    }
    switch (type) {
    case STK_THRIFT_TRUE:
    case STK_THRIFT_FALSE: skip_bytes(t, in_list ? 1 : 0); break;
    case STK_THRIFT_I8: skip_bytes(t, 1); break;
    case STK_THRIFT_I16:
    case STK_THRIFT_I32:
    case STK_THRIFT_I64: stk_thrift_varint(t); break;
    case STK_THRIFT_DOUBLE: skip_bytes(t, 8); break;
    case STK_THRIFT_BINARY: skip_bytes(t, stk_thrift_varint(t)); break;
    case STK_THRIFT_LIST:
    case STK_THRIFT_SET: skip_list(t, depth); break;
    case STK_THRIFT_MAP: skip_map(t, depth); break;
    case STK_THRIFT_STRUCT:
        while (stk_thrift_next(t, &f))
            skip(t, f.type, 0, depth + 1);
        break;
    default: fail(t, "a field has an unknown type");
    }
}

void stk_thrift_skip(stk_thrift *t, const stk_thrift_field *f)
{
    skip(t, f->type, 0, 0);
}
