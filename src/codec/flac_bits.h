/* SPDX-License-Identifier: Apache-2.0 */
/* flac_bits.h - reads the bits of a FLAC frame, and has the loop that takes most of the time: it
 * reads residuals of one Rice parameter.  The loop is compiled twice, for any machine and for
 * BMI2.  flac_frame.c calls it. */
#ifndef STOKER_CODEC_FLAC_BITS_H
#define STOKER_CODEC_FLAC_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct stk_flac_bits { /* most significant first; the next one is the top of `cache` */
    const uint8_t *p, *end;
    uint64_t cache;
    uint32_t n; /* valid bits of the cache */
    int over;   /* true after a read past the end */
};
typedef struct stk_flac_bits bits;

static inline void refill(bits *b)
{
    if (b->end - b->p >= 8) {
        uint64_t v;

        memcpy(&v, b->p, 8);
        b->cache |= __builtin_bswap64(v) >> b->n;
        b->p += (63 - b->n) >> 3;
        b->n |= 56;
        return;
    }
    while (b->n <= 56 && b->p < b->end) {
        b->cache |= (uint64_t)*b->p++ << (56 - b->n);
        b->n += 8;
    }
}

static inline uint32_t take(bits *b, uint32_t k) /* at most 32 */
{
    uint32_t v;

    if (b->n < k)
        refill(b);
    if (b->n < k || !k) {
        b->over |= k != 0;
        return 0;
    }
    v = (uint32_t)(b->cache >> (64 - k));
    b->cache <<= k;
    b->n -= k;
    return v;
}

static inline uint32_t take_unary(bits *b) /* zeros before a one */
{
    uint32_t q = 0;

    for (;;) {
        uint32_t z = b->cache ? (uint32_t)__builtin_clzll(b->cache) : 64;

        if (z < b->n) {
            b->cache = b->cache << z << 1;
            b->n -= z + 1;
            return q + z;
        }
        q += b->n;
        b->cache = 0;
        b->n = 0;
        refill(b);
        if (!b->n || q > 1u << 30) {
            b->over = 1;
            return 0;
        }
    }
}

static inline int32_t unfold(uint32_t u)
{
    return (int32_t)((u >> 1) ^ (0 - (u & 1)));
}

static inline void rice_slow(bits *b, int32_t *out, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n && !b->over; i++) {
        uint32_t q = take_unary(b);

        out[i] = unfold(q << k | take(b, k));
    }
}

/* Reads n residuals of Rice parameter k, at most 30. */
typedef void stk_flac_rice_fn(bits *b, int32_t *out, uint32_t n, uint32_t k);
stk_flac_rice_fn stk_flac_rice_c, stk_flac_rice_bmi2;

#endif
