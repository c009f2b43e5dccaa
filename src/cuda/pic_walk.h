/* SPDX-License-Identifier: Apache-2.0 */
/* pic_walk.h - reads over a baseline scan without storing it: finds where blocks begin and by how
 * much DC values grow, on the host and on a GPU.  pic_sync.h calls it.
 *
 * AC values do not matter here, so a lookup of ten bits says two things: what the first symbol
 * takes, and what all symbols take whose codes are within the ten bits (their values may come after
 * them).  The second is used while the block can't end among them, the first otherwise; so every
 * walk that goes through a place where a block begins stops there, whatever it came from.
 *
 * A walk may begin at any bit.  From a wrong one it finds codes that do not exist and blocks that
 * run over: it notes that, takes the block as done and goes on.  Bits after the scan's end read as
 * something; the place where the next block begins tells. */
#ifndef STOKER_PIC_WALK_H
#define STOKER_PIC_WALK_H

#include "codec/jpeg_core.h"

#define STK_WALK_AC_BITS 10
#define STK_WALK_DC_BITS 9
#define STK_WALK_STEPS 8    /* lookups between two looks at whether a block is done */
#define STK_WALK_MOST 31    /* bits that one lookup may take; more than 32 are in the window */
#define STK_WALK_DONE 64    /* as the place in a block: there is none in hand */
#define STK_WALK_TABLES 3   /* of a kind */
#define STK_WALK_BLOCKS 10  /* of an MCU */
#define STK_WALK_UNKNOWN 64 /* step of `many`: look at `one` */
#define STK_WALK_EOB 128    /* added to the steps before it */
#define STK_WALK_ONE_EOB 0x4000
#define STK_WALK_ONE_LONG 0x8000 /* a code of more than 10 bits, or none */

typedef union stk_walk_ac {
    uint32_t both;
    struct {
        uint16_t many; /* bits taken | steps << 8 */
        uint16_t one;  /* bits taken | bits of the code << 5 | step << 9 | STK_WALK_ONE_* */
    } half;
} stk_walk_ac;

typedef struct stk_walk_tables {
    stk_walk_ac ac[STK_WALK_TABLES][1 << STK_WALK_AC_BITS];
    uint8_t dc[STK_WALK_TABLES][1 << STK_WALK_DC_BITS]; /* bits of the code << 4 | of the value */
    stk_jpeg_long more[2][STK_WALK_TABLES];             /* DC, AC */
    const uint8_t *vals[2][STK_WALK_TABLES];
    uint8_t op[STK_WALK_BLOCKS]; /* component | DC table << 2 | AC table << 4 of an MCU's blocks */
    uint32_t blocks;
} stk_walk_tables;

/* ---- tables, entry by entry ---- */

STK_HD static inline uint8_t stk_walk_dc_entry(const stk_jpeg_long *t, const uint8_t *vals,
                                               uint32_t i)
{
    int32_t c = stk_jpeg_long_code(t, vals, (uint64_t)i << (64 - STK_WALK_DC_BITS));

    return c < 0 || c >> 8 > STK_WALK_DC_BITS ? 0 : (uint8_t)(c >> 8 << 4 | (c & 15));
}

STK_HD static inline uint16_t stk_walk_one_entry(const stk_jpeg_long *t, const uint8_t *vals,
                                                 uint32_t i)
{
    int32_t c = stk_jpeg_long_code(t, vals, (uint64_t)i << (64 - STK_WALK_AC_BITS));
    uint32_t len = (uint32_t)c >> 8, size = (uint32_t)c & 15, run = (uint32_t)c >> 4 & 15;

    if (c < 0 || len > STK_WALK_AC_BITS)
        return STK_WALK_ONE_LONG;
    if (!size && run != 15)
        return (uint16_t)(len | len << 5 | STK_WALK_ONE_EOB);
    return (uint16_t)((len + size) | len << 5 | (run + 1) << 9);
}

/* From the `one` halves of the whole table. */
STK_HD static inline uint16_t stk_walk_many_entry(const stk_walk_ac *ac, uint32_t i)
{
    uint32_t len = 0, steps = 0;

    while (len < STK_WALK_AC_BITS) {
        uint32_t one = ac[i << len & ((1u << STK_WALK_AC_BITS) - 1)].half.one, step = one >> 9 & 31;

        if (one & STK_WALK_ONE_LONG || (one >> 5 & 15) > STK_WALK_AC_BITS - len ||
            len + (one & 31) > STK_WALK_MOST || steps + step >= 63)
            break;
        len += one & 31;
        steps += step;
        if (one & STK_WALK_ONE_EOB) {
            steps += STK_WALK_EOB;
            break;
        }
    }
    return (uint16_t)(len ? len | steps << 8 : STK_WALK_UNKNOWN << 8);
}

/* ---- bits ---- */

/* Everything up to `end` is data: 0xFF is followed by 0 there. */
typedef struct stk_walk_data {
    const uint8_t *bytes; /* aligned to 4; 16 more than `end` may be read */
    uint32_t end;         /* at most STK_WALK_MAX */
} stk_walk_data;

#define STK_WALK_MAX (UINT32_MAX / 8 - 4096)

typedef struct stk_walk_bits {
    uint64_t buf;    /* the next bits, from the top */
    uint32_t n;      /* bits in buf */
    uint32_t p;      /* the first byte that is not in buf */
    uint32_t ff;     /* the byte after the last stuffed one that was seen */
    uint32_t lo, hi; /* big-endian: the words at p / 4 and after it */
} stk_walk_bits;

STK_HD static inline uint32_t stk_walk_word(const stk_walk_data *d, uint32_t i)
{
    uint32_t v;

    if (i * 4 >= d->end)
        return 0;
#if defined(__CUDA_ARCH__)
    v = __byte_perm(__ldg((const uint32_t *)(const void *)d->bytes + i), 0, 0x0123);
#else
    memcpy(&v, d->bytes + (size_t)i * 4, 4);
    v = __builtin_bswap32(v);
#endif
    return v;
}

STK_HD static inline uint32_t stk_walk_funnel(uint32_t hi, uint32_t lo, uint32_t shift)
{
#if defined(__CUDA_ARCH__)
    return __funnelshift_l(lo, hi, shift);
#else
    return (uint32_t)(((uint64_t)hi << 32 | lo) << shift >> 32);
#endif
}

STK_HD static inline uint32_t stk_walk_clz(uint32_t v)
{
#if defined(__CUDA_ARCH__)
    return (uint32_t)__clz((int)v);
#else
    return (uint32_t)__builtin_clz(v);
#endif
}

STK_HD static inline void stk_walk_load(stk_walk_bits *b, const stk_walk_data *d)
{
    b->lo = stk_walk_word(d, b->p >> 2);
    b->hi = stk_walk_word(d, (b->p >> 2) + 1);
}

/* Up to and with the first 0xFF of w; `ff` has the top bit of each of them. */
STK_HD static inline void stk_walk_stuffed(stk_walk_bits *b, const stk_walk_data *d, uint32_t w,
                                           uint32_t ff)
{
    uint32_t m = stk_walk_clz(ff) / 8 + 1;

    b->buf |= (uint64_t)(w & ~0u << (32 - 8 * m)) << (32 - b->n);
    b->n += 8 * m;
    b->p += m;
    if (b->p <= d->end) {
        b->p++;
        b->ff = b->p;
    }
    stk_walk_load(b, d);
}

/* More than 32 bits. */
STK_HD static inline void stk_walk_refill(stk_walk_bits *b, const stk_walk_data *d)
{
    while (b->n <= 32) {
        uint32_t w = stk_walk_funnel(b->lo, b->hi, (b->p & 3) * 8);
        uint32_t not_w = ~w, ff = ~(((not_w & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | not_w | 0x7F7F7F7Fu);

        if (ff) {
            stk_walk_stuffed(b, d, w, ff);
            continue;
        }
        b->buf |= (uint64_t)w << (32 - b->n);
        b->n += 32;
        b->p += 4;
        b->lo = b->hi;
        b->hi = stk_walk_word(d, (b->p >> 2) + 1); /* not needed before the next time */
    }
}

STK_HD static inline void stk_walk_seek(stk_walk_bits *b, const stk_walk_data *d, uint32_t at)
{
    b->buf = 0;
    b->n = b->ff = 0;
    b->p = at / 8;
    stk_walk_load(b, d);
    stk_walk_refill(b, d);
    b->buf <<= at % 8;
    b->n -= at % 8;
}

STK_HD static inline void stk_walk_drop(stk_walk_bits *b, uint32_t n)
{
    b->buf <<= n;
    b->n -= n;
}

/* Where the next bit is, or a little after it: stuffed bytes in the window are not seen. */
STK_HD static inline uint32_t stk_walk_near(const stk_walk_bits *b)
{
    return b->p * 8 - b->n;
}

/* Where it is, as stk_jpeg_bits_at() has it. */
STK_HD static inline uint32_t stk_walk_at(const stk_walk_bits *b, const stk_walk_data *d)
{
    uint32_t bytes = (b->n + 7) / 8, p = b->p;

    if (p - bytes >= b->ff)
        return stk_walk_near(b);
    for (; bytes; bytes--)
        p -= p <= d->end && p >= 2 && d->bytes[p - 1] == 0 && d->bytes[p - 2] == 0xFF ? 2 : 1;
    return p * 8 + (8 - b->n % 8) % 8;
}

/* ---- blocks ---- */

typedef struct stk_walk {
    stk_walk_bits b;
    uint32_t k;     /* place in the block in hand, or STK_WALK_DONE */
    uint32_t block; /* number in the MCU of the block in hand, or of the next one */
    uint32_t bad;   /* something was not right */
    uint32_t sum[3];
    const stk_walk_ac *ac;
} stk_walk;

STK_HD static inline void stk_walk_begin(stk_walk *w, const stk_walk_data *d, uint32_t at,
                                         uint32_t block)
{
    stk_walk_seek(&w->b, d, at);
    w->k = STK_WALK_DONE;
    w->block = block;
    w->bad = 0;
    w->sum[0] = w->sum[1] = w->sum[2] = 0;
}

STK_HD static inline void stk_walk_end_block(stk_walk *w, const stk_walk_tables *t)
{
    w->k = STK_WALK_DONE;
    w->block = w->block + 1 == t->blocks ? 0 : w->block + 1;
}

STK_HD static inline void stk_walk_fail(stk_walk *w, const stk_walk_tables *t)
{
    w->bad = 1;
    stk_walk_end_block(w, t);
}

/* The DC value of the next block. */
STK_HD static inline void stk_walk_dc(stk_walk *w, const stk_walk_data *d, const stk_walk_tables *t)
{
    uint32_t op = t->op[w->block], which = op >> 2 & 3, e, len, size;
    int32_t diff;

    w->ac = t->ac[op >> 4];
    w->k = 0;
    stk_walk_refill(&w->b, d);
    e = t->dc[which][w->b.buf >> (64 - STK_WALK_DC_BITS)];
    len = e >> 4;
    size = e & 15;
    if (!len) {
        int32_t c = stk_jpeg_long_code(&t->more[0][which], t->vals[0][which], w->b.buf);

        if (c < 0) {
            stk_walk_drop(&w->b, 1);
            stk_walk_fail(w, t);
            return;
        }
        len = (uint32_t)c >> 8;
        size = (uint32_t)c & 15;
    }
    stk_walk_drop(&w->b, len);
    diff = size ? stk_jpeg_extend((uint32_t)(w->b.buf >> 32) >> (32 - size), size) : 0;
    stk_walk_drop(&w->b, size);
    for (uint32_t c = 0; c < 3; c++)
        w->sum[c] += (op & 3) == c ? (uint32_t)diff : 0;
}

/* One AC symbol. */
STK_HD static inline void stk_walk_one(stk_walk *w, const stk_walk_tables *t, uint32_t one)
{
    uint32_t drop = one & 31, step = one >> 9 & 31, eob = one & STK_WALK_ONE_EOB;

    if (one & STK_WALK_ONE_LONG) {
        uint32_t which = t->op[w->block] >> 4;
        int32_t c = stk_jpeg_long_code(&t->more[1][which], t->vals[1][which], w->b.buf);

        if (c < 0) {
            stk_walk_drop(&w->b, 1);
            stk_walk_fail(w, t);
            return;
        }
        drop = ((uint32_t)c >> 8) + ((uint32_t)c & 15);
        step = ((uint32_t)c >> 4 & 15) + 1;
        eob = !(c & 15) && step != 16;
    }
    stk_walk_drop(&w->b, drop);
    w->k += step;
    if (eob || w->k == 63)
        stk_walk_end_block(w, t);
    else if (w->k > 63)
        stk_walk_fail(w, t);
}

/* One lookup in the block in hand. */
STK_HD static inline void stk_walk_step(stk_walk *w, const stk_walk_data *d,
                                        const stk_walk_tables *t)
{
    uint32_t e, k;

    stk_walk_refill(&w->b, d);
    e = w->ac[w->b.buf >> (64 - STK_WALK_AC_BITS)].both;
    k = w->k + (e >> 8 & 255);
    if (k < 63) {
        stk_walk_drop(&w->b, e & 31);
        w->k = k;
    } else if (k >= STK_WALK_EOB && k < STK_WALK_EOB + 63) {
        stk_walk_drop(&w->b, e & 31);
        stk_walk_end_block(w, t);
    } else {
        stk_walk_one(w, t, e >> 16);
    }
}

/* The block in hand, or a part of it: threads of a warp whose blocks are done wait for the others,
 * but not for the longest of all. */
STK_HD static inline void stk_walk_ac_some(stk_walk *w, const stk_walk_data *d,
                                           const stk_walk_tables *t)
{
    for (int i = 0; i < STK_WALK_STEPS && w->k != STK_WALK_DONE; i++)
        stk_walk_step(w, d, t);
}

#endif
