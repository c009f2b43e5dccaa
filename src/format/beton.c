/* SPDX-License-Identifier: Apache-2.0 */
/* beton.c - see beton.h. */
#include "format/beton.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define MAX_FIELDS 4096u
#define ARRAY_DIMS 32u /* sides that an array's arguments have room for */
#define ARRAY_MAX ((uint64_t)1 << 36)

static uint64_t u64_at(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t u16_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

int stk_beton_fields(stk_bytes head, uint32_t *n, stk_error *err)
{
    if (head.len < STK_BETON_HEAD)
        return stk_fail(err, STK_ECORRUPT, "the file is too short for the header of a .beton file");
    if (u16_at(head.data) != 2)
        return stk_fail(err, STK_ENOTSUP,
                        "it is not a .beton file of version 2: FFCV 0.0.3 and later write that");
    *n = u16_at(head.data + 2);
    return *n && *n <= MAX_FIELDS ? 0
                                  : stk_fail(err, STK_ECORRUPT, "a .beton file with %u fields", *n);
}

/* ---- fields ---- */

static stk_dtype dtype_of(const char *text)
{
    static const struct {
        const char *name;
        stk_dtype dtype;
    } known[] = { { "u1", STK_U8 },  { "b1", STK_U8 },  { "i1", STK_I8 },  { "u2", STK_U16 },
                  { "i2", STK_I16 }, { "u4", STK_U32 }, { "i4", STK_I32 }, { "i8", STK_I64 },
                  { "f2", STK_F16 }, { "f4", STK_F32 }, { "f8", STK_F64 } };

    for (size_t i = 0; (text[0] == '<' || text[0] == '|') && i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, text + 1))
            return known[i].dtype;
    return 0;
}

/* The arguments of an array: u64 sides[32], 0 after the last; u64 length; [["", "<f4"]]. */
static void read_array(stk_beton_field *f, const uint8_t *args)
{
    uint64_t len = u64_at(args + 8 * ARRAY_DIMS), count = 1;
    stk_bytes text = { args + 8 * ARRAY_DIMS + 8, (size_t)len }, v;
    uint8_t name[16] = { 0 };
    stk_error none;
    size_t n = 0;

    f->refused = "it is an array of a type that is not read";
    if (len > 1024 - 8 * (ARRAY_DIMS + 1) || stk_json_find(text, "0.1", &v, &none) < 0 ||
        v.len >= sizeof name || stk_json_unquote(v, name, &n, &none) < 0)
        return;
    f->dtype = dtype_of((const char *)name);
    if (!f->dtype)
        return;
    f->refused = "an array of too many sides, or too large";
    for (uint32_t i = 0; i < ARRAY_DIMS; i++)
        if (u64_at(args + 8 * (size_t)i))
            f->ndim = i + 1;
    if (f->ndim > 7)
        return;
    for (uint32_t i = 0; i < f->ndim; i++) {
        uint64_t side = u64_at(args + 8 * (size_t)i);

        if (side > ARRAY_MAX || (side && count > ARRAY_MAX / side))
            return;
        f->shape[i] = (int64_t)side;
        count *= side;
    }
    f->bytes = count * stk_dtype_size(f->dtype);
    f->refused = NULL;
}

static int read_field(stk_beton_field *f, const uint8_t *p, stk_error *err)
{
    memcpy(f->name, p + 1, 16);
    if (!f->name[0] ||
        stk_utf8_span((stk_bytes){ (const uint8_t *)f->name, strlen(f->name) }) != strlen(f->name))
        return stk_fail(err, STK_ECORRUPT, "a field without a name, or whose name is not UTF-8");
    if (p[0] > STK_BETON_TENSOR) /* how much of a row it takes is not in the file */
        return stk_fail(err, STK_ENOTSUP,
                        "field %s has a type of the writer's own (%u): write the file without it",
                        f->name, p[0]);
    f->type = (stk_beton_type)p[0];
    if (f->type == STK_BETON_FLOAT)
        f->dtype = STK_F64;
    else if (f->type == STK_BETON_INT)
        f->dtype = STK_I64;
    else if (f->type == STK_BETON_ARRAY || f->type == STK_BETON_TENSOR)
        read_array(f, p + 17);
    return 0;
}

/* Bytes that it takes of a row; *align: 8 or 1. */
static uint32_t room_of(stk_beton_type type, uint32_t *align)
{
    *align = type == STK_BETON_RGB || type == STK_BETON_BYTES || type == STK_BETON_JSON ? 1 : 8;
    return type == STK_BETON_RGB ? 13 : type == STK_BETON_BYTES || type == STK_BETON_JSON ? 16 : 8;
}

static int lay_out(stk_beton *b, stk_error *err)
{
    uint32_t at = 0, widest = 1, align;

    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t room = room_of(b->field[i].type, &align);

        widest = align > widest ? align : widest;
        b->field[i].at = (at + align - 1) / align * align;
        at = b->field[i].at + room;
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(b->field[k].name, b->field[i].name))
                return stk_fail(err, STK_ENOTSUP,
                                "two fields are called %s: FFCV keeps 16 characters of a name",
                                b->field[i].name);
    }
    b->row_bytes = (at + widest - 1) / widest * widest;
    return 0;
}

/* ---- the file ---- */

static int check_sizes(stk_beton *b, uint64_t size, stk_error *err)
{
    if (b->rows_at > size || b->samples > (size - b->rows_at) / b->row_bytes)
        return stk_fail(err, STK_ECORRUPT,
                        "it has no room for the %" PRIu64 " samples that its header says",
                        b->samples);
    if (b->table_at < b->rows_at + b->samples * b->row_bytes || b->table_at > size)
        return stk_fail(err, STK_ECORRUPT,
                        "its table is said to be at %" PRIu64
                        ": the file was not finished, or is cut off",
                        b->table_at);
    b->n_table = (size - b->table_at) / STK_BETON_ALLOC;
    return 0;
}

int stk_beton_read(stk_beton *out, stk_bytes head, uint64_t size, stk_error *err)
{
    int rc;

    *out = (stk_beton){ 0 };
    STK_TRY(stk_beton_fields(head, &out->n, err));
    out->rows_at = STK_BETON_HEAD + (uint64_t)out->n * STK_BETON_FIELD;
    if (head.len < out->rows_at)
        return stk_fail(err, STK_ECORRUPT, "the file is too short for its %u fields", out->n);
    out->samples = u64_at(head.data + 8);
    out->table_at = u64_at(head.data + 16);
    out->field = stk_zalloc(out->n, sizeof *out->field);
    rc = out->field ? 0 : stk_fail_nomem(err, out->n * sizeof *out->field);
    for (uint32_t i = 0; rc == 0 && i < out->n; i++)
        rc = read_field(&out->field[i], head.data + STK_BETON_HEAD + (size_t)i * STK_BETON_FIELD,
                        err);
    if (rc == 0)
        rc = lay_out(out, err);
    if (rc == 0)
        rc = check_sizes(out, size, err);
    if (rc < 0)
        stk_beton_fini(out);
    return rc;
}

void stk_beton_fini(stk_beton *b)
{
    stk_free(b->field);
    *b = (stk_beton){ 0 };
}

/* u8 mode, u16 width, u16 height, u64 offset */
static int picture(const uint8_t *p, stk_beton_value *out, stk_error *err)
{
    uint32_t w = u16_at(p + 1), h = u16_at(p + 3);

    *out = (stk_beton_value){ .offset = u64_at(p + 5), .len = UINT64_MAX };
    if (p[0] == 0)
        return 0;
    if (p[0] != 1 || !w || !h)
        return stk_fail(err, STK_ECORRUPT, "a picture of %ux%u in mode %u", w, h, p[0]);
    out->width = w;
    out->height = h;
    out->len = (uint64_t)w * h * 3;
    return 0;
}

int stk_beton_value_of(const stk_beton_field *f, const uint8_t *row, stk_beton_value *out,
                       stk_error *err)
{
    const uint8_t *p = row + f->at;

    switch (f->type) {
    case STK_BETON_FLOAT:
    case STK_BETON_INT: *out = (stk_beton_value){ .here = { p, 8 } }; return 0;
    case STK_BETON_RGB: return picture(p, out, err);
    case STK_BETON_BYTES:
        *out = (stk_beton_value){ .offset = u64_at(p), .len = u64_at(p + 8) };
        return 0;
    case STK_BETON_JSON: /* a zero follows the text */
        *out = (stk_beton_value){ .offset = u64_at(p),
                                  .len = u64_at(p + 8) ? u64_at(p + 8) - 1 : 0 };
        return 0;
    default: *out = (stk_beton_value){ .offset = u64_at(p), .len = f->bytes }; return 0;
    }
}
