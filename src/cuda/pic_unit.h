/* SPDX-License-Identifier: Apache-2.0 */
/* pic_unit.h - decodes one unit of a JPEG, block by block: the work of one thread of the decode
 * kernel.
 *
 *     stk_pic_unit_begin()
 *     for each MCU (until stk_pic_unit_more() says no), for each block of an MCU:
 *         stk_pic_unit_block()     entropy decoding, into the thread's slot
 *         stk_pic_unit_store()     inverse DCT, into the plane
 *     stk_pic_unit_end()           is it where it must be?
 *
 * Threads of a warp do the same block of their units at the same time.  Nothing of a unit is
 * trusted: it is cut to the picture, and only MCUs that planes cover are stored. */
#ifndef STOKER_PIC_UNIT_H
#define STOKER_PIC_UNIT_H

#include "cuda/pic_bits.h"
#include "cuda/pic_idct.h"

typedef struct stk_pic_place { /* one block of an MCU */
    uint64_t at;               /* of its first sample in an MCU at the planes' begin */
    uint32_t stride;           /* of its plane */
    uint32_t right, down;      /* from MCU to MCU, in bytes */
    uint8_t comp, quant, dc, ac;
} stk_pic_place;

/* What a block of threads knows about its picture. */
typedef struct stk_pic_shape {
    uint32_t cols, rows, x0, y0, x1, y1;
    uint32_t n_blocks;
    stk_pic_place block[STK_PIC_MAX_BLOCKS];
} stk_pic_shape;

typedef struct stk_pic_thread {
    stk_pic_bits b;
    uint32_t col, row, left; /* the MCU in hand; how many are left with it */
    int32_t pred[3];
    uint32_t bad; /* STK_PIC_BAD_* */
    uint32_t last;
} stk_pic_thread;

/* p: stk_pic_taps.plane of the job. */
STK_PIC_FN void stk_pic_shape_init(stk_pic_shape *s, const stk_pic *r, const stk_pic_plane p[3])
{
    uint32_t n = 0;

    s->cols = r->cols;
    s->rows = r->rows;
    s->x0 = r->x0;
    s->y0 = r->y0;
    s->x1 = r->x1;
    s->y1 = r->y1;
    for (unsigned c = 0; c < r->n_comps; c++)
        for (uint32_t y = 0; y < r->v[c]; y++)
            for (uint32_t x = 0; x < r->h[c]; x++) {
                stk_pic_place *k = &s->block[n++];

                k->quant = r->tables.quant[c];
                k->dc = r->tables.dc[c];
                k->ac = r->tables.ac[c];
                k->stride = p[c].pw;
                k->at = p[c].at + (uint64_t)y * 8 * k->stride + x * 8;
                k->right = 8u * r->h[c];
                k->down = 8u * r->v[c] * k->stride;
                k->comp = (uint8_t)c;
            }
    s->n_blocks = n;
}

/* Units are read word by word: they are 20 bytes each, 4-byte aligned. */
STK_PIC_FN stk_pic_unit stk_pic_unit_read(const stk_pic_unit *units, uint64_t i)
{
    const uint32_t *w = (const uint32_t *)(const void *)(units + i);
    stk_pic_unit u;

    u.at = w[0];
    u.mcu = w[1];
    u.bits = (uint16_t)w[2];
    u.count = (uint16_t)(w[2] >> 16);
    u.dc[0] = (int16_t)(w[3] & 0xFFFF);
    u.dc[1] = (int16_t)(w[3] >> 16);
    u.dc[2] = (int16_t)(w[4] & 0xFFFF);
    u.zero = 0;
    return u;
}

/* data: the record's, len bytes. */
STK_PIC_FN void stk_pic_unit_begin(stk_pic_thread *t, const stk_pic_shape *s, const stk_pic_unit *u,
                                   const uint8_t *data, uint32_t len)
{
    uint64_t all = (uint64_t)s->cols * s->rows;

    t->bad = t->last = 0;
    t->left = u->count;
    t->row = u->mcu / s->cols;
    t->col = u->mcu % s->cols;
    for (int c = 0; c < 3; c++)
        t->pred[c] = u->dc[c];
    if (u->count && ((uint64_t)u->mcu + u->count > all || u->at / 8 >= len)) {
        t->bad = STK_PIC_BAD_RECORD;
        t->left = 0;
    }
    stk_pic_bits_init(&t->b, data, len, t->left ? u->at : 0);
}

/* Is the MCU in hand one that planes cover? */
STK_PIC_FN int stk_pic_unit_seen(const stk_pic_thread *t, const stk_pic_shape *s)
{
    return t->col >= s->x0 && t->col < s->x1 && t->row >= s->y0 && t->row < s->y1;
}

/* Block k of the MCU in hand; the slot is zero before. */
STK_PIC_FN void stk_pic_unit_block(stk_pic_thread *t, const stk_pic_place *k,
                                   const stk_pic_tables *tables, uint8_t *slot)
{
    stk_pic_coder code = stk_pic_coder_of(tables, k->quant, k->dc, k->ac);
    int32_t pred = k->comp == 0 ? t->pred[0] : k->comp == 1 ? t->pred[1] : t->pred[2];
    int32_t last = stk_pic_block(&t->b, &code, &pred, slot);

    t->pred[0] = k->comp == 0 ? pred : t->pred[0];
    t->pred[1] = k->comp == 1 ? pred : t->pred[1];
    t->pred[2] = k->comp == 2 ? pred : t->pred[2];
    t->last = (uint32_t)last & 63;
    if (last < 0) {
        t->bad |= STK_PIC_BAD_CODE;
        t->left = 0;
        t->last = 63;
    }
}

STK_PIC_FN void stk_pic_unit_store(stk_pic_thread *t, const stk_pic_shape *s,
                                   const stk_pic_place *k, uint32_t pairs, const uint8_t *slot,
                                   uint8_t *planes)
{
    uint64_t at = k->at + (uint64_t)(t->row - s->y0) * k->down +
                  (uint64_t)(t->col - s->x0) * k->right;

    if (stk_pic_idct(slot, pairs, planes + at, k->stride))
        t->bad |= STK_PIC_BAD_CODE;
}

/* The next MCU; after the last that planes cover there is nothing to do for a unit whose end is
 * not checked. */
STK_PIC_FN void stk_pic_unit_next(stk_pic_thread *t, const stk_pic_shape *s)
{
    if (t->left)
        t->left--;
    if (++t->col == s->cols) {
        t->col = 0;
        t->row++;
    }
}

/* After unit i of n: it ends where it must, and the next one's DC values are ours. */
STK_PIC_FN uint32_t stk_pic_unit_end(const stk_pic_thread *t, const stk_pic_shape *s,
                                     const stk_pic_unit *units, uint64_t i, uint64_t n,
                                     uint32_t len)
{
    stk_pic_unit u = stk_pic_unit_read(units, i);
    uint32_t at, byte;

    if (!u.count || t->bad)
        return t->bad;
    at = stk_pic_bits_at(&t->b);
    if (at == UINT32_MAX || at > len * 8 || (u.bits && at - u.at != u.bits))
        return STK_PIC_BAD_END;
    if ((uint64_t)u.mcu + u.count == (uint64_t)s->cols * s->rows) { /* the end marker follows */
        byte = (at + 7) / 8 + (at % 8 && stk_pic_byte(&t->b, at / 8) == 255);
        if (byte + 2 > len || stk_pic_byte(&t->b, byte) != 255 ||
            stk_pic_byte(&t->b, byte + 1) != 0xD9)
            return STK_PIC_BAD_END;
    }
    if (i + 1 < n) {
        stk_pic_unit v = stk_pic_unit_read(units, i + 1);

        if (v.count && v.mcu == u.mcu + u.count)
            for (int c = 0; c < 3; c++)
                if (v.dc[c] != t->pred[c])
                    return STK_PIC_BAD_END;
    }
    return 0;
}

#endif
