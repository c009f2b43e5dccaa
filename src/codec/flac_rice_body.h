/* SPDX-License-Identifier: Apache-2.0 */
/* flac_rice_body.h - the loop of flac_bits.h over residuals.  The files that compile it for a CPU
 * define STK_RICE, the name of the function, and include it. */
#include "codec/flac_bits.h"

/* Takes one residual from the cache; runs `otherwise` if the cache does not hold all of it. */
#define NEXT(otherwise)                                                                            \
    z = (uint32_t)__builtin_clzll(cache | 1);                                                      \
    if (z + 1 + k > have)                                                                          \
        otherwise;                                                                                 \
    out[i++] = unfold(z << k | (uint32_t)(cache << z << 1 >> 1 >> (63 - k)));                      \
    cache <<= z + 1 + k;                                                                           \
    have -= z + 1 + k;

/* The state of the bits is in variables, which stay in
 * registers.  The cache is filled before every three of them, without asking how full it is: a
 * branch on that would be guessed wrong each third time. */
void STK_RICE(bits *b, int32_t *out, uint32_t n, uint32_t k)
{
    uint64_t cache = b->cache, v;
    uint32_t have = b->n, i = 0, z;
    const uint8_t *p = b->p;

    while (i < n && b->end - p >= 8) {
        memcpy(&v, p, 8);
        cache |= __builtin_bswap64(v) >> have;
        p += (63 - have) >> 3;
        have |= 56;
        NEXT(goto long_one)
        if (n - i < 2)
            continue;
        NEXT(continue)
        NEXT(continue)
        continue;
long_one:
        *b = (bits){ p, b->end, cache, have, b->over };
        rice_slow(b, out + i++, 1, k);
        if (b->over)
            return;
        cache = b->cache;
        have = b->n;
        p = b->p;
    }
    *b = (bits){ p, b->end, cache, have, b->over };
    rice_slow(b, out + i, n - i, k);
}
