/* SPDX-License-Identifier: Apache-2.0 */
/* blend.h - mixes two rows of a batch, element by element, for batch ops such as mixup and cutmix,
 * on the host and on a GPU.
 *
 * a * l + b * k in f32, each operation rounded by itself; f16 and bf16 are widened for it.  A row
 * that has a box takes its partner's elements there and keeps its own elsewhere. */
#ifndef STOKER_KERN_BLEND_H
#define STOKER_KERN_BLEND_H

#include "kern/half.h"

typedef struct stk_blend_row { /* what one row gets */
    uint32_t on;               /* 0: it stays as it is */
    /* its pictures have a box; else they are blended, as labels always are */
    uint32_t cut;
    float l, k; /* of itself, of its partner */
    uint32_t y0, y1, x0, x1;
} stk_blend_row;

typedef struct stk_blend { /* one output of a batch; row i and row rows - 1 - i are partners */
    uint8_t *data;
    const stk_blend_row *row; /* of each; NULL: every element becomes v * keep + add */
    float keep, add;
    uint64_t count; /* elements of a row */
    uint32_t rows;
    uint32_t dtype; /* stk_dtype; one that is not a float is only cut */
    uint32_t size;  /* bytes of an element */
    /* 1: rows are pictures, of so many pixels with so many elements: */
    uint32_t boxes;
    uint32_t width, height, pixel;
} stk_blend;

STK_HD static inline uint32_t stk_blend_get(const uint8_t *p, uint32_t size)
{
    return size == 1   ? *p
           : size == 2 ? *(const uint16_t *)(const void *)p
                       : *(const uint32_t *)(const void *)p;
}

STK_HD static inline void stk_blend_put(uint8_t *p, uint32_t size, uint32_t v)
{
    if (size == 1)
        *p = (uint8_t)v;
    else if (size == 2)
        *(uint16_t *)(void *)p = (uint16_t)v;
    else
        *(uint32_t *)(void *)p = v;
}

STK_HD static inline float stk_blend_float(uint32_t dtype, uint32_t bits)
{
    return dtype == STK_F16    ? stk_f16_to((uint16_t)bits)
           : dtype == STK_BF16 ? stk_bf16_to((uint16_t)bits)
                               : stk_float_of(bits);
}

STK_HD static inline uint32_t stk_blend_bits(uint32_t dtype, float v)
{
    return dtype == STK_F16    ? stk_f16_from(v)
           : dtype == STK_BF16 ? stk_bf16_from(v)
                               : stk_bits_of(v);
}

STK_HD static inline int stk_blend_inside(const stk_blend *m, const stk_blend_row *r, uint64_t e)
{
    uint64_t at = e / m->pixel;
    uint32_t x = (uint32_t)(at % m->width), y = (uint32_t)(at / m->width % m->height);

    return x >= r->x0 && x < r->x1 && y >= r->y0 && y < r->y1;
}

/* Element e of a row, which has `own` there and its partner `other`. */
STK_HD static inline uint32_t stk_blended(const stk_blend *m, const stk_blend_row *r, uint64_t e,
                                          uint32_t own, uint32_t other)
{
    if (!r->on)
        return own;
    if (m->boxes && r->cut)
        return stk_blend_inside(m, r, e) ? other : own;
    return stk_blend_bits(m->dtype, stk_blend_float(m->dtype, own) * r->l +
                                        stk_blend_float(m->dtype, other) * r->k);
}

/* Element e of the pair of rows i and rows - 1 - i; smoothing: of row i. */
STK_HD static inline void stk_blend_one(const stk_blend *m, uint32_t i, uint64_t e)
{
    uint32_t j = m->rows - 1 - i, a, b;
    uint8_t *x = m->data + (i * m->count + e) * m->size,
            *y = m->data + (j * m->count + e) * m->size;

    a = stk_blend_get(x, m->size);
    if (!m->row) {
        stk_blend_put(x, m->size,
                      stk_blend_bits(m->dtype, stk_blend_float(m->dtype, a) * m->keep + m->add));
        return;
    }
    b = stk_blend_get(y, m->size);
    stk_blend_put(x, m->size, stk_blended(m, m->row + i, e, a, b));
    if (i != j)
        stk_blend_put(y, m->size, stk_blended(m, m->row + j, e, b, a));
}

/* Rows that stk_blend_one() is called for: half of them, or all. */
STK_HD static inline uint32_t stk_blend_turns(const stk_blend *m)
{
    return m->row ? m->rows - m->rows / 2 : m->rows;
}

#endif
