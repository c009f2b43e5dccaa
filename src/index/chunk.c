/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.c - values out of a packed chunk.
 *
 * The bytes may begin at any address and come from a file, so numbers are loaded with memcpy.
 * stk_chunk_sound() has looked at every number that points somewhere, so that reading values
 * checks nothing and cannot fail. */
#include "index/chunk.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static uint64_t padded(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

static int width_fits(const idx_chunk *c)
{
    switch (c->type) {
    case STK_CHUNK_UNKNOWN:
    case STK_CHUNK_NULL: return c->width == 0;
    case STK_CHUNK_I64: return c->width <= 8 && !(c->width & (c->width - 1));
    case STK_CHUNK_F64: return c->width == 4 || c->width == 8;
    case STK_CHUNK_TEXT: return c->width <= 4 && !(c->width & (c->width - 1)) && c->entries;
    default: return 0;
    }
}

/* Where the parts begin. */
static uint64_t validity_at(const idx_chunk *c, uint64_t rows)
{
    return padded(rows * c->width);
}

static uint64_t offsets_at(const idx_chunk *c, uint64_t rows)
{
    return validity_at(c, rows) + (c->nulls ? padded((rows + 7) / 8) : 0);
}

static uint64_t text_at(const idx_chunk *c, uint64_t rows)
{
    return offsets_at(c, rows) + padded(((uint64_t)c->entries + 1) * 4);
}

uint64_t idx_chunk_bytes(const idx_chunk *c, uint64_t rows)
{
    if (!width_fits(c))
        return UINT64_MAX;
    if (c->type <= STK_CHUNK_NULL)
        return 0;
    return c->type == STK_CHUNK_TEXT ? text_at(c, rows) + padded(c->text) : offsets_at(c, rows);
}

static uint32_t u32_at(const uint8_t *p, uint64_t i)
{
    uint32_t v;

    memcpy(&v, p + i * 4, 4);
    return v;
}

static uint64_t value_at(const stk_chunk *c, uint64_t row)
{
    uint64_t v = 0;

    if (c->rec.width)
        memcpy(&v, c->data + row * c->rec.width, c->rec.width); /* little-endian */
    return v;
}

int stk_chunk_sound(const stk_chunk *c)
{
    const uint8_t *offsets;

    if (c->rec.type != STK_CHUNK_TEXT)
        return 1;
    offsets = c->data + offsets_at(&c->rec, c->rows);
    for (uint32_t i = 0; i < c->rec.entries; i++)
        if (u32_at(offsets, i) > u32_at(offsets, (uint64_t)i + 1))
            return 0;
    if (u32_at(offsets, c->rec.entries) > c->rec.text)
        return 0;
    for (uint64_t i = 0; c->rec.width && i < c->rows; i++)
        if (value_at(c, i) >= c->rec.entries)
            return 0;
    return 1;
}

void stk_chunk_fini(stk_chunk *c)
{
    stk_free(c->owned);
    memset(c, 0, sizeof *c);
}

int stk_chunk_valid(const stk_chunk *c, uint64_t row)
{
    if (c->rec.type <= STK_CHUNK_NULL)
        return 0;
    return !c->rec.nulls || c->data[validity_at(&c->rec, c->rows) + row / 8] >> row % 8 & 1;
}

/* One loop a width: the compiler turns each into a few vector instructions. */
#define WIDEN(type)                                                                                \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        type v;                                                                                    \
        memcpy(&v, p + i * sizeof v, sizeof v);                                                    \
        out[i] = (int64_t)(base + v);                                                              \
    }

void stk_chunk_i64(const stk_chunk *c, uint64_t row, uint64_t n, int64_t *out)
{
    uint64_t base = (uint64_t)c->rec.base;
    const uint8_t *p = c->rec.width ? c->data + row * c->rec.width : NULL;

    if (c->rec.type != STK_CHUNK_I64)
        base = 0;
    switch (c->rec.type == STK_CHUNK_I64 ? c->rec.width : 0) {
    case 1: WIDEN(uint8_t) break;
    case 2: WIDEN(uint16_t) break;
    case 4: WIDEN(uint32_t) break;
    case 8: WIDEN(uint64_t) break;
    default:
        for (uint64_t i = 0; i < n; i++)
            out[i] = (int64_t)base;
    }
    for (uint64_t i = 0; c->rec.nulls && i < n; i++)
        if (!stk_chunk_valid(c, row + i))
            out[i] = 0;
}

static double real_at(const stk_chunk *c, uint64_t row)
{
    double v;
    float f;

    if (c->rec.type == STK_CHUNK_I64)
        return (double)(int64_t)((uint64_t)c->rec.base + value_at(c, row));
    if (c->rec.width == 4) {
        memcpy(&f, c->data + row * 4, 4);
        return (double)f;
    }
    memcpy(&v, c->data + row * 8, 8);
    return v;
}

void stk_chunk_f64(const stk_chunk *c, uint64_t row, uint64_t n, double *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = stk_chunk_valid(c, row + i) ? real_at(c, row + i) : NAN;
}

stk_bytes stk_chunk_text(const stk_chunk *c, uint64_t row)
{
    const uint8_t *offsets;
    uint64_t k;
    uint32_t from;

    if (c->rec.type != STK_CHUNK_TEXT || !stk_chunk_valid(c, row))
        return (stk_bytes){ 0 };
    offsets = c->data + offsets_at(&c->rec, c->rows);
    k = value_at(c, row);
    from = u32_at(offsets, k);
    return (stk_bytes){ c->data + text_at(&c->rec, c->rows) + from, u32_at(offsets, k + 1) - from };
}

int stk_chunk_utf8(const stk_chunk *c)
{
    const uint8_t *offsets, *text;

    if (c->rec.type != STK_CHUNK_TEXT)
        return 1;
    offsets = c->data + offsets_at(&c->rec, c->rows);
    text = c->data + text_at(&c->rec, c->rows);
    for (uint32_t i = 0; i < c->rec.entries; i++) {
        uint32_t from = u32_at(offsets, i);
        stk_bytes t = { text + from, u32_at(offsets, (uint64_t)i + 1) - from };

        if (stk_utf8_span(t) != t.len)
            return 0;
    }
    return 1;
}

stk_chunk stk_chunk_constant(uint64_t rows, int64_t value)
{
    return (stk_chunk){ .rec = { .type = STK_CHUNK_I64, .base = value }, .rows = rows };
}
