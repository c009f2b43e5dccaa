/* SPDX-License-Identifier: Apache-2.0 */
/* pic_bits.h - entropy decoding of a JPEG by one thread of a GPU: bits, Huffman tables, one block
 * of coefficients.  pic_unit.h calls it.
 *
 * As jpeg_core.h, but for many threads: bits come in aligned words of 32, one of them loaded ahead;
 * tables are made entry by entry; coefficients are stored dequantized.  Stuffing (0 after 0xFF) is
 * dropped on the way in.  A marker is read like data: a unit that decodes one ends where no unit
 * may end, which is checked once, after the unit.  Words after the data are zeros. */
#ifndef STOKER_PIC_BITS_H
#define STOKER_PIC_BITS_H

#include "cuda/pic_geom.h"

#define STK_PIC_AC_BITS 10
#define STK_PIC_DC_BITS 9

typedef struct stk_pic_bits {
    const uint32_t *data;
    uint32_t hi, lo; /* the next bits, from the top of hi on; after n there are zeros */
    uint32_t n;
    uint32_t w, words; /* the word that is ahead; words that may be read */
    uint32_t ahead;
    uint32_t ff; /* the last byte taken was 0xFF */
} stk_pic_bits;

/* Tables of one picture, shared by a block of threads. */
typedef struct stk_pic_tables {
    uint32_t ac[STK_PIC_TABLES][1 << STK_PIC_AC_BITS];
    uint32_t dc[STK_PIC_TABLES][1 << STK_PIC_DC_BITS];
    uint32_t place[3][64];                 /* by zigzag place: byte in a slot | quantizer << 16 */
    stk_jpeg_long more[2][STK_PIC_TABLES]; /* DC, AC */
    uint8_t vals[2][STK_PIC_TABLES][256];
    uint32_t bad;
} stk_pic_tables;

/* ---- bits ---- */

STK_PIC_FN uint32_t stk_pic_swap(uint32_t v)
{
#if defined(__CUDA_ARCH__)
    return __byte_perm(v, 0, 0x0123);
#else
    return __builtin_bswap32(v);
#endif
}

STK_PIC_FN uint32_t stk_pic_word(const stk_pic_bits *b, uint32_t w)
{
#if defined(__CUDA_ARCH__)
    return w < b->words ? __ldg(b->data + w) : 0;
#else
    return w < b->words ? b->data[w] : 0;
#endif
}

/* Drop d < 32 bits. */
STK_PIC_FN void stk_pic_drop(stk_pic_bits *b, uint32_t d)
{
#if defined(__CUDA_ARCH__)
    b->hi = __funnelshift_l(b->lo, b->hi, d);
    b->lo <<= d;
#else
    uint64_t v = ((uint64_t)b->hi << 32 | b->lo) << d;

    b->hi = (uint32_t)(v >> 32);
    b->lo = (uint32_t)v;
#endif
    b->n -= d;
}

/* `bits` more, the top ones of v, after n < 32; the rest of v is zero. */
STK_PIC_FN void stk_pic_append(stk_pic_bits *b, uint32_t v, uint32_t bits)
{
    b->hi |= v >> b->n;
#if defined(__CUDA_ARCH__)
    b->lo = __funnelshift_r(0, v, b->n);
#else
    b->lo = (uint32_t)((uint64_t)v << 32 >> b->n);
#endif
    b->n += bits;
}

/* A word in which there is stuffing, from its byte `from` on. */
STK_PIC_FN void stk_pic_stuffed(stk_pic_bits *b, uint32_t word, uint32_t from)
{
    uint32_t v = 0, bits = 0;

    for (uint32_t i = from; i < 4; i++) {
        uint32_t byte = word >> 8 * i & 255;

        if (!(b->ff && byte == 0)) {
            v |= byte << (24 - bits);
            bits += 8;
        }
        b->ff = byte == 255;
    }
    stk_pic_append(b, v, bits);
}

/* At least 32 bits. */
STK_PIC_FN void stk_pic_refill(stk_pic_bits *b)
{
    while (b->n < 32) {
        uint32_t word = b->ahead;

        b->w++;
        b->ahead = stk_pic_word(b, b->w);
        if (((0xFEFEFEFEu - word) & word & 0x80808080u) | b->ff)
            stk_pic_stuffed(b, word, 0);
        else
            stk_pic_append(b, stk_pic_swap(word), 32);
    }
}

/* Begin at bit `at` of data (its words are aligned); len: bytes, STK_PIC_PAD more may be read. */
STK_PIC_FN void stk_pic_bits_init(stk_pic_bits *b, const uint8_t *data, uint32_t len, uint32_t at)
{
    uint32_t word;

    b->data = (const uint32_t *)(const void *)data;
    b->words = (len + STK_PIC_PAD) / 4;
    b->hi = b->lo = b->n = b->ff = 0;
    b->w = at / 32;
    word = stk_pic_word(b, b->w);
    b->w++;
    b->ahead = stk_pic_word(b, b->w);
    stk_pic_stuffed(b, word, at / 8 % 4);
    stk_pic_drop(b, at % 8);
}

STK_PIC_FN uint32_t stk_pic_byte(const stk_pic_bits *b, uint32_t i)
{
    return stk_pic_word(b, i / 4) >> i % 4 * 8 & 255;
}

/* Where the next bit is; UINT32_MAX: far after the end. */
STK_PIC_FN uint32_t stk_pic_bits_at(const stk_pic_bits *b)
{
    uint32_t p = b->w * 4 + (b->ff && stk_pic_byte(b, b->w * 4) == 0);

    if (b->w > b->words + 4)
        return UINT32_MAX;
    for (uint32_t bytes = (b->n + 7) / 8; bytes; bytes--)
        p -= p >= 2 && stk_pic_byte(b, p - 1) == 0 && stk_pic_byte(b, p - 2) == 255 ? 2 : 1;
    return p * 8 + (8 - b->n % 8) % 8;
}

/* ---- tables ---- */

/* Entry i of a lookup of `bits` bits. */
STK_PIC_FN uint32_t stk_pic_entry(const stk_jpeg_long *t, const uint8_t *vals, uint32_t bits,
                                  uint32_t i, int is_dc)
{
    for (uint32_t len = 1; len <= bits; len++) {
        int32_t code = (int32_t)(i >> (bits - len));
        uint32_t symbol, size, step, room = bits - len;

        if (code > t->max[len])
            continue;
        symbol = vals[(code + t->delta[len]) & 255];
        size = symbol & 15;
        step = is_dc ? 1 : (symbol >> 4) + 1;
        if (size > room)
            return stk_jpeg_entry(len, STK_JPEG_STEP_VALUE, symbol);
        if (!size)
            return stk_jpeg_entry(len, !is_dc && step != 16 ? STK_JPEG_STEP_EOB : step, 0);
        return stk_jpeg_entry(
            len + size, step,
            (uint32_t)stk_jpeg_extend(i >> (room - size) & ((1u << size) - 1), size));
    }
    return stk_jpeg_entry(0, STK_JPEG_STEP_LONG, 0);
}

/* First part, thread `t` of `threads`: symbols, and quantizers with their places. */
STK_PIC_FN void stk_pic_tables_begin(stk_pic_tables *to, const stk_pic *r, uint32_t t,
                                     uint32_t threads)
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;
    const uint8_t *base = (const uint8_t *)r;

    for (uint32_t i = t; i < 2u * STK_PIC_TABLES * 256; i += threads) {
        uint32_t kind = i / (STK_PIC_TABLES * 256), k = i / 256 % STK_PIC_TABLES;
        const stk_pic_huff *h = (const stk_pic_huff *)(const void *)(base +
                                                                     (kind ? r->tables.acs_at
                                                                           : r->tables.dcs_at));

        to->vals[kind][k][i % 256] = k < (kind ? r->tables.n_ac : r->tables.n_dc)
                                         ? h[k].vals[i % 256]
                                         : 0;
    }
    for (uint32_t i = t; i < 3 * 64; i += threads) {
        const uint16_t *q = (const uint16_t *)(const void *)(base + r->tables.quants_at) +
                            i / 64 * 64;
        uint32_t at = natural[i % 64];

        to->place[i / 64][i % 64] = (at % 8 * 8 + at / 8) * 2 |
                                    (i / 64 < r->tables.n_quant ? (uint32_t)q[at] << 16 : 0);
    }
}

/* Second part, table number t (DC, then AC): its codes; 0 or -1. */
STK_PIC_FN int stk_pic_tables_codes(stk_pic_tables *to, const stk_pic *r, uint32_t t)
{
    uint32_t kind = t / STK_PIC_TABLES, k = t % STK_PIC_TABLES;
    const uint8_t *base = (const uint8_t *)r + (kind ? r->tables.acs_at : r->tables.dcs_at);
    const stk_pic_huff *h = (const stk_pic_huff *)(const void *)base + k;
    const uint32_t *word = (const uint32_t *)(const void *)h;
    stk_jpeg_long *more = &to->more[kind][k];
    int32_t code = 0, at = 0;
    uint32_t bits[4];

    if (k >= (kind ? r->tables.n_ac : r->tables.n_dc))
        return 0;
    for (int i = 0; i < 4; i++) /* all at once: one wait for memory */
        bits[i] = word[i];
    STK_PIC_UNROLL
    for (int len = 1; len <= 16; len++, code <<= 1) {
        int32_t n = (int32_t)(bits[(len - 1) / 4] >> (len - 1) % 4 * 8 & 255);

        more->delta[len] = at - code;
        at += n;
        code += n;
        more->max[len] = n ? code - 1 : -1;
        if (at > 256 || code >= (int32_t)1 << len)
            return -1;
    }
    for (int32_t i = 0; !kind && i < at; i++)
        if (to->vals[0][k][i] > 15)
            return -1;
    return at && at == h->n ? 0 : -1;
}

/* Third part: the lookups. */
STK_PIC_FN void stk_pic_tables_fill(stk_pic_tables *to, const stk_pic *r, uint32_t t,
                                    uint32_t threads)
{
    for (uint32_t i = t; i < (uint32_t)r->tables.n_ac << STK_PIC_AC_BITS; i += threads) {
        uint32_t k = i >> STK_PIC_AC_BITS;

        to->ac[k][i & ((1 << STK_PIC_AC_BITS) - 1)] = stk_pic_entry(
            &to->more[1][k], to->vals[1][k], STK_PIC_AC_BITS, i & ((1 << STK_PIC_AC_BITS) - 1), 0);
    }
    for (uint32_t i = t; i < (uint32_t)r->tables.n_dc << STK_PIC_DC_BITS; i += threads) {
        uint32_t k = i >> STK_PIC_DC_BITS;

        to->dc[k][i & ((1 << STK_PIC_DC_BITS) - 1)] = stk_pic_entry(
            &to->more[0][k], to->vals[0][k], STK_PIC_DC_BITS, i & ((1 << STK_PIC_DC_BITS) - 1), 1);
    }
}

/* ---- one block ---- */

typedef struct stk_pic_coder { /* the tables of one component */
    const uint32_t *dc, *ac, *place;
    const stk_jpeg_long *dc_more, *ac_more;
    const uint8_t *dc_vals, *ac_vals;
} stk_pic_coder;

STK_PIC_FN stk_pic_coder stk_pic_coder_of(const stk_pic_tables *t, uint32_t quant, uint32_t dc,
                                          uint32_t ac)
{
    stk_pic_coder k = { t->dc[dc],       t->ac[ac],      t->place[quant], &t->more[0][dc],
                        &t->more[1][ac], t->vals[0][dc], t->vals[1][ac] };

    return k;
}

/* The rest of a symbol whose entry is not whole: run and size, and its value; UINT32_MAX: none. */
STK_PIC_FN uint32_t stk_pic_rest(stk_pic_bits *b, const stk_jpeg_long *more, const uint8_t *vals,
                                 uint32_t e, int32_t *value)
{
    uint32_t symbol = e >> 16, size;

    if ((e >> 8 & 255) == STK_JPEG_STEP_LONG) {
        uint32_t len = 1;

        while (len <= 16 && (int32_t)(b->hi >> (32 - len)) > more->max[len])
            len++;
        if (len > 16)
            return UINT32_MAX;
        symbol = vals[((int32_t)(b->hi >> (32 - len)) + more->delta[len]) & 255];
        stk_pic_drop(b, len);
    }
    size = symbol & 15;
    *value = 0;
    if (size) {
        *value = stk_jpeg_extend(b->hi >> (32 - size), size);
        stk_pic_drop(b, size);
    }
    return symbol;
}

STK_PIC_FN void stk_pic_put(uint8_t *slot, uint32_t place, int32_t value)
{
    *(int16_t *)(void *)(slot + (place & 255)) = (int16_t)(value * (int32_t)(place >> 16));
}

/* A block into `slot`, whose 64 values are zero; dequantized, column by column.  Returns the zigzag
 * place of the last value, or -1.  Up to 31 bits are taken at once, and 32 are there. */
STK_PIC_FN int32_t stk_pic_block(stk_pic_bits *b, const stk_pic_coder *t, int32_t *pred,
                                 uint8_t *slot)
{
    uint32_t e, k = 0;
    int32_t value;

    stk_pic_refill(b);
    e = t->dc[b->hi >> (32 - STK_PIC_DC_BITS)];
    stk_pic_drop(b, e & 31);
    value = (int32_t)e >> 16;
    if ((e >> 8 & 255) >= 64 && stk_pic_rest(b, t->dc_more, t->dc_vals, e, &value) == UINT32_MAX)
        return -1;
    *pred += value;
    if (*pred != (int16_t)*pred)
        return -1;
    stk_pic_put(slot, t->place[0], *pred);
    for (;;) {
        uint32_t symbol, step;

        stk_pic_refill(b);
        e = t->ac[b->hi >> (32 - STK_PIC_AC_BITS)];
        stk_pic_drop(b, e & 31);
        value = (int32_t)e >> 16;
        step = e >> 8 & 255;
        if (k + step < 64) {
            k += step;
            stk_pic_put(slot, t->place[k], value);
            if (k == 63)
                return 63;
            continue;
        }
        if (step == STK_JPEG_STEP_EOB)
            return (int32_t)k;
        if (step < 64)
            return -1;
        symbol = stk_pic_rest(b, t->ac_more, t->ac_vals, e, &value);
        if (!(symbol & 15) && symbol != 0xF0)
            return (int32_t)k;
        k += (symbol >> 4 & 15) + 1;
        if (symbol == UINT32_MAX || k > 63)
            return -1;
        stk_pic_put(slot, t->place[k], value);
        if (k == 63)
            return 63;
    }
}

#endif
