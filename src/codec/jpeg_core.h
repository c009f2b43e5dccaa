/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_core.h - the parts of a baseline JPEG decoder that host and GPU share: the bit reader, the
 * tables, one block, one inverse DCT.  The files jpeg_*.c and the kernels in cuda/ include it.
 *
 * Nothing here allocates, calls other code or keeps state, and it needs only <stdint.h> and
 * <string.h>, so that it compiles as CUDA, too (tests/codec/jpeg_core.cu).
 *
 * A lookup of `bits` bits gives code and value at once.  An entry is
 *     bits 0-7    bits to drop: code and value; only the code (or nothing) where it is not whole
 *     bits 8-15   what the place in the block grows by: run + 1; 64 and more: not an ordinary
 *                 coefficient, see STK_JPEG_STEP_*
 *     bits 16-31  the value; the symbol where the value is after the lookup
 * so that "place >= 63" is the only test an ordinary symbol needs. */
#ifndef STOKER_JPEG_CORE_H
#define STOKER_JPEG_CORE_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define STK_HD __host__ __device__
#else
#define STK_HD
#endif

#define STK_JPEG_AC_BITS 11 /* bits that the host's tables look up at once, for AC and DC codes */
#define STK_JPEG_DC_BITS 10

enum {
    STK_JPEG_STEP_VALUE = 64, /* the lookup has the whole code; its value bits follow */
    STK_JPEG_STEP_LONG = 65,  /* a code longer than the lookup, or an invalid one */
    STK_JPEG_STEP_EOB = 128   /* end of the block */
};

typedef struct stk_jpeg_huff { /* a Huffman table as the file has it */
    uint8_t bits[16];          /* codes of 1..16 bits */
    uint8_t vals[256];
    uint16_t n; /* symbols; 0: the file has no such table */
} stk_jpeg_huff;

typedef struct stk_jpeg_long { /* for codes that the lookup can't hold */
    int32_t max[17];           /* the largest code of 1..16 bits, -1: none */
    int32_t delta[17];         /* place of a code in vals = code + delta */
} stk_jpeg_long;

/* Bits of a scan, its bytes as they are stored in the file (0xFF is followed by 0).  After the end,
 * or a marker, come zeros, which `over` counts: who uses them finds it in stk_jpeg_bits_at(). */
typedef struct stk_jpeg_bits {
    uint64_t buf;      /* the next bits, from the top */
    const uint8_t *p;  /* the first byte that is not in buf */
    const uint8_t *ok; /* up to here 8 bytes may be taken as they are */
    const uint8_t *end;
    uint32_t n; /* bits in buf; only the low byte means it */
    uint32_t over;
} stk_jpeg_bits;

/* Zigzag to natural order. */
#define STK_JPEG_ZIGZAG                                                                            \
    {                                                                                              \
        0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34,    \
            27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37,  \
            44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63                 \
    }

/* ---- tables ---- */

/* Canonical codes of h; 0, or -1 where they do not fit or a DC category is above 15. */
STK_HD static inline int stk_jpeg_long_build(stk_jpeg_long *t, const stk_jpeg_huff *h, int is_dc)
{
    int32_t code = 0, at = 0;

    for (int len = 1; len <= 16; len++, code <<= 1) {
        int32_t n = h->bits[len - 1];

        t->delta[len] = at - code;
        at += n;
        code += n;
        t->max[len] = n ? code - 1 : -1;
        if (at > 256 || code >= (int32_t)1 << len)
            return -1;
    }
    if (at != h->n || !at)
        return -1;
    for (int32_t i = 0; is_dc && i < at; i++)
        if (h->vals[i] > 15)
            return -1;
    return 0;
}

/* `size` bits as the standard's signed value. */
STK_HD static inline int32_t stk_jpeg_extend(uint32_t v, uint32_t size)
{
    return (int32_t)v - (int32_t)(((v >> (size - 1)) ^ 1u) * ((1u << size) - 1u));
}

STK_HD static inline uint32_t stk_jpeg_entry(uint32_t drop, uint32_t step, uint32_t value)
{
    return drop | step << 8 | (value & 0xFFFFu) << 16;
}

/* The entries of one code of `len` bits, all 1 << (bits - len) of them; what follows them. */
STK_HD static inline uint32_t *stk_jpeg_fill_code(uint32_t *to, unsigned bits, unsigned len,
                                                  unsigned symbol, int is_dc)
{
    uint32_t size = symbol & 15, step = is_dc ? 1 : (symbol >> 4) + 1, room = bits - len;
    uint32_t n = (uint32_t)1 << room, e, same;

    if (size > room) {
        e = stk_jpeg_entry(len, STK_JPEG_STEP_VALUE, symbol);
        for (uint32_t i = 0; i < n; i++)
            *to++ = e;
        return to;
    }
    if (!size) {
        if (!is_dc && step != 16)
            step = STK_JPEG_STEP_EOB; /* runs of 1..14 without a value end a block as well */
        e = stk_jpeg_entry(len, step, 0);
        for (uint32_t i = 0; i < n; i++)
            *to++ = e;
        return to;
    }
    same = (uint32_t)1 << (room - size);
    for (uint32_t v = 0; v < (uint32_t)1 << size; v++) {
        e = stk_jpeg_entry(len + size, step, (uint32_t)stk_jpeg_extend(v, size));
        for (uint32_t i = 0; i < same; i++)
            *to++ = e;
    }
    return to;
}

/* The lookup of a table that stk_jpeg_long_build() accepted. */
STK_HD static inline void stk_jpeg_fast_build(uint32_t *fast, unsigned bits, const stk_jpeg_huff *h,
                                              int is_dc)
{
    uint32_t *to = fast, *end = fast + ((size_t)1 << bits);
    const uint8_t *val = h->vals;

    for (unsigned len = 1; len <= bits; len++)
        for (unsigned i = 0; i < h->bits[len - 1]; i++)
            to = stk_jpeg_fill_code(to, bits, len, *val++, is_dc);
    while (to < end)
        *to++ = stk_jpeg_entry(0, STK_JPEG_STEP_LONG, 0);
}

/* For reading over coefficients: as many symbols as one lookup tells, made from the lookup of AC
 * codes with as many bits.  Entries are 16 bits, the same without the value; 18 bits at most are
 * dropped.  EOB has the steps before it added; 64: nothing is known. */
STK_HD static inline void stk_jpeg_skip_build(uint16_t *skip, const uint32_t *fast, unsigned bits)
{
    uint32_t n = (uint32_t)1 << bits;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = 0, step = 0;

        while (len < bits && step < 63) {
            uint32_t e = fast[i << len & (n - 1)], drop = e & 63, s = e >> 8 & 255;

            if (s == STK_JPEG_STEP_LONG || drop > bits - len)
                break;
            if (s == STK_JPEG_STEP_VALUE) {
                if (len + drop + (e >> 16 & 15) > 18)
                    break;
                len += drop + (e >> 16 & 15); /* its value may come after the lookup */
                step += (e >> 20) + 1;
                break;
            }
            len += drop;
            step += s;
        }
        if (!len || (step >= 63 && step < STK_JPEG_STEP_EOB))
            len = 0, step = STK_JPEG_STEP_VALUE;
        skip[i] = (uint16_t)(len | step << 8);
    }
}

/* The code at the top of buf: symbol | length << 8, or -1. */
STK_HD static inline int32_t stk_jpeg_long_code(const stk_jpeg_long *t, const uint8_t *vals,
                                                uint64_t buf)
{
    for (int len = 1; len <= 16; len++) {
        int32_t code = (int32_t)(buf >> (64 - len));

        if (code <= t->max[len])
            return vals[code + t->delta[len]] | len << 8;
    }
    return -1;
}

/* ---- bits ---- */

STK_HD static inline uint64_t stk_jpeg_be64(const uint8_t *p)
{
    uint64_t v;

#if defined(__CUDA_ARCH__)
    v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
#else
    memcpy(&v, p, 8);
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* How far 8 bytes may be taken at once: up to the next 0xFF. */
STK_HD static inline const uint8_t *stk_jpeg_find_ok(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *ff;

#if defined(__CUDA_ARCH__)
    for (ff = p; ff < end && *ff != 0xFF; ff++)
        ;
#else
    ff = p < end ? (const uint8_t *)memchr(p, 0xFF, (size_t)(end - p)) : end;
    if (!ff)
        ff = end;
#endif
    return ff - p >= 8 ? ff - 8 : p - 1; /* p - 1: nothing may be taken; never read */
}

/* Byte by byte, around 0xFF and at the end. */
STK_HD static inline void stk_jpeg_refill_slow(stk_jpeg_bits *b)
{
    uint32_t n = b->n & 255;
    int looked = 0;

    while (n < 56) {
        uint64_t v = 0;

        if (b->p < b->end && *b->p != 0xFF) {
            v = *b->p++;
        } else if (b->end - b->p >= 2 && b->p[1] == 0) {
            v = 0xFF;
            b->p += 2;
            looked = 1;
        } else {
            b->over += 8;
        }
        b->buf |= v << (56 - n);
        n += 8;
    }
    b->n = n;
    if (looked)
        b->ok = stk_jpeg_find_ok(b->p, b->end);
}

/* At least 56 bits.  What buf has beyond n bits is right too, so or-ing it again is harmless. */
STK_HD static inline void stk_jpeg_refill(stk_jpeg_bits *b)
{
    uint32_t n = b->n & 255;

    if (b->p <= b->ok) {
        b->buf |= stk_jpeg_be64(b->p) >> n;
        b->p += (63 - n) >> 3;
        b->n = n | 56;
        return;
    }
    stk_jpeg_refill_slow(b);
}

/* Begin at bit `at` of the bytes; there must be at least at / 8 of them. */
STK_HD static inline void stk_jpeg_bits_init(stk_jpeg_bits *b, const uint8_t *data, size_t len,
                                             uint64_t at)
{
    b->buf = 0;
    b->p = data + at / 8;
    b->end = data + len;
    b->n = b->over = 0;
    b->ok = stk_jpeg_find_ok(b->p, b->end);
    stk_jpeg_refill(b);
    b->buf <<= at % 8;
    b->n -= (uint32_t)(at % 8);
}

/* Where the next bit is: bits since `data`; UINT64_MAX if zeros after the end were used. */
STK_HD static inline uint64_t stk_jpeg_bits_at(const stk_jpeg_bits *b, const uint8_t *data)
{
    uint32_t n = b->n & 255, bytes;
    const uint8_t *p = b->p;

    if (b->over > n)
        return UINT64_MAX;
    n -= b->over;
    for (bytes = (n + 7) / 8; bytes; bytes--)
        p -= p - data >= 2 && p[-1] == 0 && p[-2] == 0xFF ? 2 : 1;
    return (uint64_t)(p - data) * 8 + (8 - n % 8) % 8;
}

/* The byte after the one in which bit `at` - 1 is: where a marker would be. */
STK_HD static inline uint64_t stk_jpeg_marker_at(const uint8_t *data, uint64_t at)
{
    return (at + 7) / 8 + (at % 8 && data[at / 8] == 0xFF);
}

/* ---- one block ---- */

typedef struct stk_jpeg_lut { /* one Huffman table, ready to decode */
    const uint32_t *fast;
    const stk_jpeg_long *more;
    const uint8_t *vals;
    unsigned bits;
} stk_jpeg_lut;

/* The rest of a symbol whose entry is not whole; *symbol gets run and size.  0 or -1. */
STK_HD static inline int stk_jpeg_rest(stk_jpeg_bits *b, const stk_jpeg_lut *t, uint32_t e,
                                       uint32_t *symbol, int32_t *value)
{
    uint32_t size;

    stk_jpeg_refill(b);
    *symbol = e >> 16;
    if ((e >> 8 & 255) == STK_JPEG_STEP_LONG) {
        int32_t c = stk_jpeg_long_code(t->more, t->vals, b->buf);

        if (c < 0)
            return -1;
        *symbol = (uint32_t)c & 255;
        b->buf <<= c >> 8;
        b->n -= (uint32_t)c >> 8;
    }
    size = *symbol & 15;
    *value = size ? stk_jpeg_extend((uint32_t)(b->buf >> (64 - size)), size) : 0;
    b->buf <<= size;
    b->n -= size;
    return 0;
}

/* The difference of a DC value.  0 or -1. */
STK_HD static inline int stk_jpeg_dc(stk_jpeg_bits *b, const stk_jpeg_lut *t, int32_t *diff)
{
    uint32_t e, symbol;

    stk_jpeg_refill(b);
    e = t->fast[b->buf >> (64 - t->bits)];
    b->buf <<= e & 63;
    b->n -= e & 63;
    if ((e >> 8 & 255) >= 64)
        return stk_jpeg_rest(b, t, e, &symbol, diff);
    *diff = (int16_t)(e >> 16);
    return 0;
}

/* The AC values of a block: block[map[place]] of those that are not zero (NULL: none is kept).
 * Returns the place of the last one, 0..63, or -1 where the data is damaged. */
STK_HD static inline int stk_jpeg_ac(stk_jpeg_bits *b, const stk_jpeg_lut *t, const uint16_t *map,
                                     int16_t *block)
{
    uint32_t k = 0, last = 0;

    while (k < 63) {
        uint32_t e, step, symbol;
        int32_t value;

        stk_jpeg_refill(b);
        e = t->fast[b->buf >> (64 - t->bits)];
        b->buf <<= e & 63;
        b->n -= e & 63;
        step = e >> 8 & 255;
        value = (int16_t)(e >> 16);
        if (step >= 64 && step < STK_JPEG_STEP_EOB) {
            if (stk_jpeg_rest(b, t, e, &symbol, &value))
                return -1;
            step = symbol & 15 || symbol == 0xF0 ? (symbol >> 4) + 1 : STK_JPEG_STEP_EOB;
        }
        if (step == STK_JPEG_STEP_EOB)
            return (int)last;
        k += step;
        if (k > 63)
            return -1;
        last = k;
        if (block)
            block[map[k]] = (int16_t)value;
    }
    return (int)last;
}

/* ---- the inverse DCT ---- */

/* The "islow" transform with 13 fractional bits, in the words that libjpeg-turbo's vector code
 * has: sums of two inputs wrap at 16 bits, results of the first pass saturate there.  Pictures
 * never come near, damaged files do. */
STK_HD static inline int16_t stk_jpeg_sat16(int32_t v)
{
    return (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
}

/* Eight inputs `in[0], in[step], ...`, the results before rounding. */
STK_HD static inline void stk_jpeg_idct8(const int16_t *in, int step, int32_t out[8])
{
    int32_t x0 = in[0], x1 = in[step], x2 = in[2 * step], x3 = in[3 * step], x4 = in[4 * step],
            x5 = in[5 * step], x6 = in[6 * step], x7 = in[7 * step];
    int32_t e0 = (int16_t)(x0 + x4) * 8192, e1 = (int16_t)(x0 - x4) * 8192;
    int32_t e2 = x2 * 4433 - x6 * 10704, e3 = x2 * 10703 + x6 * 4433;
    int32_t s73 = (int16_t)(x7 + x3), s51 = (int16_t)(x5 + x1);
    int32_t z3 = s73 * -6436 + s51 * 9633, z4 = s73 * 9633 + s51 * 6437;
    int32_t o7 = x7 * -4927 - x1 * 7373 + z3, o5 = x5 * -4176 - x3 * 20995 + z4;
    int32_t o3 = x5 * -20995 + x3 * 4177 + z3, o1 = x7 * -7373 + x1 * 4926 + z4;
    int32_t a0 = e0 + e3, a3 = e0 - e3, a1 = e1 + e2, a2 = e1 - e2;

    out[0] = a0 + o1;
    out[7] = a0 - o1;
    out[1] = a1 + o3;
    out[6] = a1 - o3;
    out[2] = a2 + o5;
    out[5] = a2 - o5;
    out[3] = a3 + o7;
    out[4] = a3 - o7;
}

STK_HD static inline uint8_t stk_jpeg_clamp(int32_t v)
{
    return (uint8_t)((v < -128 ? -128 : v > 127 ? 127 : v) + 128);
}

/* Pixels of a block whose row r is at coef + r * pitch; q: quantizers, likewise, pitch 8. */
STK_HD static inline void stk_jpeg_idct(const int16_t *coef, int pitch, const uint16_t *q,
                                        uint8_t *out, size_t stride)
{
    int16_t d[64], mid[64];
    int32_t t[8], below = 0;

    for (int i = 0; i < 64; i++)
        d[i] = (int16_t)((int32_t)coef[i / 8 * pitch + i % 8] * (int32_t)q[i]);
    for (int i = 8; i < 64; i++)
        below |= coef[i / 8 * pitch + i % 8];
    for (int c = 0; c < 8; c++) {
        if (!below) { /* where this overflows, the other way would saturate */
            for (int r = 0; r < 8; r++)
                mid[r * 8 + c] = (int16_t)(uint16_t)((uint16_t)d[c] << 2);
            continue;
        }
        stk_jpeg_idct8(d + c, 8, t);
        for (int r = 0; r < 8; r++)
            mid[r * 8 + c] = stk_jpeg_sat16((t[r] + 1024) >> 11);
    }
    for (int r = 0; r < 8; r++) {
        stk_jpeg_idct8(mid + r * 8, 1, t);
        for (int c = 0; c < 8; c++)
            out[(size_t)r * stride + (size_t)c] = stk_jpeg_clamp(
                stk_jpeg_sat16((t[c] + 131072) >> 18));
    }
}

#endif
