/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_head.h - reads the markers of a baseline JPEG, up to the first byte of its scan.  Our
 * decoder and code for GPUs call it. */
#ifndef STOKER_JPEG_HEAD_H
#define STOKER_JPEG_HEAD_H

#include "base/err.h"
#include "codec/jpeg_core.h"

#define STK_JPEG_COMPS 3
#define STK_JPEG_MCU_BLOCKS 10 /* the standard's limit */

typedef struct stk_jpeg_comp {
    uint8_t h, v;          /* sampling factors; 1, 1 where there is one component */
    uint8_t quant, dc, ac; /* numbers of its tables, 0..3 */
} stk_jpeg_comp;

/* The header of a picture that our decoder takes: baseline, 8 bits, gray or YCbCr, one scan. */
typedef struct stk_jpeg_head {
    uint32_t width, height;
    uint32_t restart; /* MCUs between restart markers; 0: none */
    uint32_t scan;    /* offset of the scan's first byte */
    uint8_t n_comps;  /* 1 or 3 */
    uint8_t max_h, max_v;
    stk_jpeg_comp comp[STK_JPEG_COMPS];
    uint16_t quant[4][64];      /* natural order */
    stk_jpeg_huff dc[4], ac[4]; /* tables that components name are present and valid */
} stk_jpeg_head;

/* Reads the markers.  STK_ENOTSUP: a JPEG for another decoder (progressive, arithmetic, 12 bit,
 * CMYK, RGB, several scans, fractional sampling).  STK_ECORRUPT: damaged, or not a JPEG. */
int stk_jpeg_parse(stk_jpeg_head *h, stk_bytes in, stk_error *err);

/* Checks sizes, factors and tables as parse() does.  For headers that were not parsed, such as
 * those in seek points. */
int stk_jpeg_head_check(stk_jpeg_head *h, stk_error *err);

/* The tables of the standard's annex K, which most encoders write: 0 or 1 for DC, 2 or 3 for AC. */
void stk_jpeg_standard(stk_jpeg_huff *h, unsigned which);

/* ---- the grid of blocks ---- */

static inline uint32_t stk_jpeg_ceil(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static inline uint32_t stk_jpeg_mcus_x(const stk_jpeg_head *h)
{
    return stk_jpeg_ceil(h->width, 8u * h->max_h);
}

static inline uint32_t stk_jpeg_mcus_y(const stk_jpeg_head *h)
{
    return stk_jpeg_ceil(h->height, 8u * h->max_v);
}

/* Samples of a component in a row and in a column. */
static inline uint32_t stk_jpeg_comp_w(const stk_jpeg_head *h, unsigned c)
{
    return stk_jpeg_ceil((uint64_t)h->width * h->comp[c].h, h->max_h);
}

static inline uint32_t stk_jpeg_comp_h(const stk_jpeg_head *h, unsigned c)
{
    return stk_jpeg_ceil((uint64_t)h->height * h->comp[c].v, h->max_v);
}

static inline uint32_t stk_jpeg_mcu_blocks(const stk_jpeg_head *h)
{
    uint32_t n = 0;

    for (unsigned c = 0; c < h->n_comps; c++)
        n += (uint32_t)h->comp[c].h * h->comp[c].v;
    return n;
}

#endif
