/* SPDX-License-Identifier: Apache-2.0 */
/* h5_type.c - the datatype message: what an element is, and the members of a struct. */
#include <string.h>

#include "base/json.h"
#include "format/hdf5/h5_parts.h"

#define DEPTH 8u
#define MEMBERS 4096u

typedef struct parsed { /* one level of a datatype */
    uint32_t class, version, bits;
} parsed;

static int read_any(stk_h5_type *out, h5_members *members, h5_cursor *c, uint32_t depth,
                    stk_error *err);

static void read_fixed(stk_h5_type *t, uint32_t bits, h5_cursor *c)
{
    static const stk_dtype by[2][9] = { { 0, STK_U8, STK_U16, 0, STK_U32, 0, 0, 0, STK_I64 },
                                        { 0, STK_I8, STK_I16, 0, STK_I32, 0, 0, 0, STK_I64 } };
    uint32_t is_signed = bits >> 3 & 1, from = (uint32_t)h5_uint(c, 2),
             precision = (uint32_t)h5_uint(c, 2);

    t->kind = STK_H5_NUMBER;
    t->dtype = t->size <= 8 ? by[is_signed][t->size] : 0;
    t->swap = bits & 1 && t->size > 1;
    t->unsigned64 = t->size == 8 && !is_signed;
    if (precision && precision < 8 * t->size && from <= 8 * t->size - precision) {
        t->bits = precision;
        t->shift = from;
    } else if (from || precision != 8 * t->size)
        t->dtype = 0;
    if (!t->dtype)
        t->refused = "whole numbers of this size are not supported";
}

static void read_float(stk_h5_type *t, uint32_t bits, h5_cursor *c)
{
    uint32_t precision, exponent, mantissa;

    h5_skip(c, 2);
    precision = (uint32_t)h5_uint(c, 2);
    h5_skip(c, 1);
    exponent = (uint32_t)h5_uint(c, 1);
    h5_skip(c, 1);
    mantissa = (uint32_t)h5_uint(c, 1);
    h5_skip(c, 4);
    t->kind = STK_H5_NUMBER;
    t->swap = bits & 1;
    if (precision != 8 * t->size || bits & 0x40)
        t->dtype = 0;
    else if (t->size == 2)
        t->dtype = exponent == 5 && mantissa == 10  ? STK_F16
                   : exponent == 8 && mantissa == 7 ? STK_BF16
                                                    : 0;
    else if (t->size == 4)
        t->dtype = exponent == 8 && mantissa == 23 ? STK_F32 : 0;
    else if (t->size == 8)
        t->dtype = exponent == 11 && mantissa == 52 ? STK_F64 : 0;
    if (!t->dtype)
        t->refused = "floats of this size are not supported";
}

/* A name that ends with a null; those of versions 1 and 2 take a multiple of 8 bytes. */
static const char *read_name(h5_cursor *c, uint32_t version)
{
    const uint8_t *start = c->p, *end = c->bad || !h5_left(c) ? NULL : memchr(c->p, 0, h5_left(c));
    size_t n;

    if (!end) {
        c->bad = 1;
        return NULL;
    }
    n = (size_t)(end - start) + 1;
    h5_skip(c, version < 3 ? (n + 7) & ~(size_t)7 : n);
    return c->bad ? NULL : (const char *)start;
}

static int read_enum(stk_h5_type *t, const parsed *p, h5_cursor *c, uint32_t depth, stk_error *err)
{
    uint32_t n = p->bits & 0xFFFF, size = t->size, named = 0;
    stk_h5_type base = { 0 };

    STK_TRY(read_any(&base, NULL, c, depth + 1, err));
    for (uint32_t i = 0; i < n && !c->bad; i++) {
        const char *name = read_name(c, p->version);

        named += name && (!strcmp(name, "FALSE") || !strcmp(name, "TRUE"));
    }
    h5_skip(c, (uint64_t)n * base.size);
    if (base.kind != STK_H5_NUMBER || base.size != size)
        base.refused = "an enumeration of something other than numbers";
    *t = base;
    if (t->dtype == STK_I8 && n == 2 && named == 2) /* h5py's booleans */
        t->dtype = STK_U8;
    return 0;
}

static int read_sequence(stk_h5_type *t, const parsed *p, h5_cursor *c, uint32_t depth,
                         stk_error *err)
{
    stk_h5_type base = { 0 };

    STK_TRY(read_any(&base, NULL, c, depth + 1, err));
    t->kind = STK_H5_VALUES;
    if ((p->bits & 0xF) == 1) { /* text */
        if (base.size != 1)
            t->refused = "texts whose characters have more than one byte are not supported";
        return 0;
    }
    if (base.refused || base.kind != STK_H5_NUMBER || base.ndim ||
        (base.bits && base.dtype == STK_U8))
        t->refused = base.refused ? base.refused : "sequences of this type are not supported";
    /* those are bytes, as pictures are stored */
    if (base.kind == STK_H5_NUMBER && base.dtype != STK_U8) {
        t->dtype = base.dtype;
        t->swap = base.swap;
        t->unsigned64 = base.unsigned64;
        t->bits = base.bits;
        t->shift = base.shift;
    }
    return 0;
}

static int read_array(stk_h5_type *t, const parsed *p, h5_cursor *c, uint32_t depth, stk_error *err)
{
    uint32_t n = (uint32_t)h5_uint(c, 1), dim[STK_H5_RANK] = { 0 };
    uint64_t count = 1, size = t->size;
    stk_h5_type base = { 0 };

    h5_skip(c, p->version < 3 ? 3 : 0);
    for (uint32_t i = 0; i < n && !c->bad; i++) {
        uint32_t d = (uint32_t)h5_uint(c, 4);

        dim[i < STK_H5_RANK ? i : STK_H5_RANK - 1] = d;
        count = count > UINT32_MAX ? count : count * d;
    }
    h5_skip(c, p->version < 3 ? 4u * n : 0);
    STK_TRY(read_any(&base, NULL, c, depth + 1, err));
    if (n > STK_H5_RANK || base.ndim)
        base.refused = "arrays of so many dimensions are not supported";
    else if (!base.refused && base.kind != STK_H5_NUMBER)
        base.refused = "arrays of anything but numbers are not supported";
    else if (count * base.size != size)
        return h5_bad(err, STK_NO_OFFSET, "an array type of another size than its elements have");
    *t = base;
    t->size = (uint32_t)size;
    t->ndim = n > STK_H5_RANK ? STK_H5_RANK : n;
    memcpy(t->dim, dim, sizeof dim);
    return 0;
}

static int add_member(h5_members *m, const char *name, const h5_member *what, stk_error *err)
{
    h5_member *grown = stk_grow(m->member, m->n * sizeof *grown, (m->n + 1) * sizeof *grown);

    if (!grown)
        return stk_fail_nomem(err, sizeof *grown);
    m->member = grown;
    if (stk_utf8_span((stk_bytes){ (const uint8_t *)name, strlen(name) }) != strlen(name))
        return h5_bad(err, STK_NO_OFFSET, "a name that is not UTF-8");
    m->member[m->n] = *what;
    m->member[m->n].name = stk_strdup(name);
    if (!m->member[m->n].name)
        return stk_fail_nomem(err, strlen(name));
    m->n++;
    return 0;
}

static uint32_t offset_bytes(const parsed *p, uint32_t size)
{
    if (p->version < 3)
        return 4;
    return size < 1u << 8 ? 1 : size < 1u << 16 ? 2 : size < 1u << 24 ? 3 : 4;
}

static int read_struct(stk_h5_type *t, h5_members *members, const parsed *p, h5_cursor *c,
                       uint32_t depth, stk_error *err)
{
    uint32_t n = p->bits & 0xFFFF;

    t->kind = STK_H5_STRUCT;
    if (n > MEMBERS)
        return stk_fail(err, STK_ELIMIT, "a struct of %u members", n);
    if (depth || !members)
        t->refused = "structs in structs and in arrays are not supported";
    for (uint32_t i = 0; i < n && !c->bad; i++) {
        const char *name = read_name(c, p->version);
        h5_member m = { .offset = (uint32_t)h5_uint(c, offset_bytes(p, t->size)) };
        uint32_t old = 0;

        if (p->version == 1) { /* its own way of arrays */
            old = (uint32_t)h5_uint(c, 1);
            h5_skip(c, 27);
        }
        STK_TRY(read_any(&m.type, NULL, c, depth + 1, err));
        if (old)
            m.type.refused = "arrays in a struct of an old version are not supported";
        if (m.type.size > t->size || m.offset > t->size - m.type.size)
            return h5_bad(err, STK_NO_OFFSET, "a member is past the end of its struct");
        if (name && members && !depth)
            STK_TRY(add_member(members, name, &m, err));
    }
    return 0;
}

/* Classes of datatypes, as the file format numbers them. */
enum { CLASS_FIXED, CLASS_FLOAT, CLASS_STRING = 3, CLASS_BITS, CLASS_OPAQUE, CLASS_COMPOUND };
enum { CLASS_REFERENCE = 7, CLASS_ENUM, CLASS_SEQUENCE, CLASS_ARRAY };

static int read_class(stk_h5_type *t, h5_members *members, const parsed *p, h5_cursor *c,
                      uint32_t depth, stk_error *err)
{
    switch (p->class) {
    case CLASS_FIXED: read_fixed(t, p->bits, c); return 0;
    case CLASS_FLOAT: read_float(t, p->bits, c); return 0;
    case CLASS_STRING:
        t->kind = STK_H5_TEXT;
        t->pad = p->bits & 0xF;
        return 0;
    case CLASS_BITS:
        read_fixed(t, p->bits & ~8u, c); /* a bit field: an unsigned number */
        return 0;
    case CLASS_OPAQUE:
        t->kind = STK_H5_BYTES;
        h5_skip(c, p->bits & 0xFF); /* its tag */
        return 0;
    case CLASS_COMPOUND: return read_struct(t, members, p, c, depth, err);
    case CLASS_REFERENCE: t->refused = "references to other objects are not followed"; return 0;
    case CLASS_ENUM: return read_enum(t, p, c, depth, err);
    case CLASS_SEQUENCE: return read_sequence(t, p, c, depth, err);
    case CLASS_ARRAY: return read_array(t, p, c, depth, err);
    default: t->refused = "this type is not supported"; return 0;
    }
}

static int read_any(stk_h5_type *out, h5_members *members, h5_cursor *c, uint32_t depth,
                    stk_error *err)
{
    uint32_t first = (uint32_t)h5_uint(c, 1);
    parsed p = { first & 0xF, first >> 4, 0 };

    *out = (stk_h5_type){ 0 };
    p.bits = (uint32_t)h5_uint(c, 3);
    out->size = (uint32_t)h5_uint(c, 4);
    if (depth > DEPTH)
        return stk_fail(err, STK_ELIMIT, "a type of more than %u levels", DEPTH);
    if (c->bad || !p.version || p.version > 5 || !out->size)
        return h5_bad(err, STK_NO_OFFSET, "a datatype");
    STK_TRY(read_class(out, members, &p, c, depth, err));
    return c->bad ? h5_bad(err, STK_NO_OFFSET, "a datatype is cut off") : 0;
}

int h5_type_read(stk_h5_type *out, h5_members *members, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);

    return read_any(out, members, &c, 0, err);
}

void h5_members_fini(h5_members *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        stk_free(m->member[i].name);
    stk_free(m->member);
    *m = (h5_members){ 0 };
}
