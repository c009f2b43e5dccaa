/* SPDX-License-Identifier: Apache-2.0 */
/* pic_testing.h - for tests and benches: makes a record without units (STK_PIC_WHOLE) of a JPEG,
 * with all of it in view. */
#ifndef STOKER_PIC_TESTING_H
#define STOKER_PIC_TESTING_H

#include "codec/jpeg_head.h"
#include "cuda/slab.h"

#define PIC_HEAD_BYTES ((sizeof(stk_pic) + 63) / 64 * 64)

/* DC or AC tables up to the last that a component names. */
static inline unsigned pic_tables(const stk_jpeg_head *h, int is_ac)
{
    unsigned n = 0;

    for (unsigned c = 0; c < h->n_comps; c++) {
        unsigned which = is_ac ? h->comp[c].ac : h->comp[c].dc;

        n = which >= n ? which + 1 : n;
    }
    return n;
}

/* Bytes of the record; the last 16 are only there to be read. */
static inline size_t pic_whole_size(const stk_jpeg_head *h, stk_bytes in)
{
    unsigned tables = pic_tables(h, 0) + pic_tables(h, 1);

    return PIC_HEAD_BYTES + tables * sizeof(stk_pic_huff) + (in.len - h->scan) + 16;
}

static inline uint32_t pic_put_huffs(uint8_t *to, const stk_jpeg_huff *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        stk_pic_huff *h = (stk_pic_huff *)(void *)to + i;

        memset(h, 0, sizeof *h);
        memcpy(h->bits, from[i].bits, 16);
        memcpy(h->vals, from[i].vals, 256);
        h->n = from[i].n;
    }
    return n * (uint32_t)sizeof(stk_pic_huff);
}

/* `to`: 64-byte aligned, pic_whole_size() bytes.  0; -1: tables beyond the third. */
static inline int pic_put_whole(uint8_t *to, const stk_jpeg_head *h, stk_bytes in)
{
    stk_pic *p = (stk_pic *)(void *)to;
    uint32_t at = PIC_HEAD_BYTES, len = (uint32_t)(in.len - h->scan);

    memset(to, 0, pic_whole_size(h, in));
    p->kind = STK_PIC_WHOLE;
    p->n_comps = h->n_comps;
    p->width = h->width;
    p->height = h->height;
    p->cols = p->x1 = stk_jpeg_mcus_x(h);
    p->rows = p->y1 = stk_jpeg_mcus_y(h);
    p->max_h = h->max_h;
    p->max_v = h->max_v;
    for (unsigned c = 0; c < h->n_comps; c++) {
        p->h[c] = h->comp[c].h;
        p->v[c] = h->comp[c].v;
        p->tables.dc[c] = h->comp[c].dc;
        p->tables.ac[c] = h->comp[c].ac;
    }
    p->tables.n_dc = (uint8_t)pic_tables(h, 0);
    p->tables.n_ac = (uint8_t)pic_tables(h, 1);
    if (p->tables.n_dc > 3 || p->tables.n_ac > 3)
        return -1;
    p->tables.dcs_at = at;
    at += pic_put_huffs(to + at, h->dc, p->tables.n_dc);
    p->tables.acs_at = at;
    at += pic_put_huffs(to + at, h->ac, p->tables.n_ac);
    p->data_at = at;
    p->data_len = len;
    p->size = (uint32_t)pic_whole_size(h, in);
    memcpy(to + p->data_at, in.data + h->scan, len);
    return 0;
}

#endif
