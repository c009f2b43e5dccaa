/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.c - CRC-32 with the reflected polynomial 0xEDB88320.
 *
 * Tables belong to the caller, since the library keeps no global that is written.  Sums of pieces
 * are joined by multiplying the first by x^(8 len) modulo the polynomial, so that threads can each
 * take a piece. */
#include "base/crc32.h"

#include <string.h>

#define POLY 0xEDB88320u

void stk_crc32_init(stk_crc32 *c)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;

        for (int k = 0; k < 8; k++)
            v = v >> 1 ^ (v & 1 ? POLY : 0);
        c->t[0][i] = v;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            c->t[k][i] = c->t[k - 1][i] >> 8 ^ c->t[0][c->t[k - 1][i] & 255];
}

uint32_t stk_crc32_of(const stk_crc32 *c, uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    crc = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t w;

        memcpy(&w, p, 8); /* little-endian, as all hosts of this library */
        w ^= crc;
        crc = c->t[7][w & 255] ^ c->t[6][w >> 8 & 255] ^ c->t[5][w >> 16 & 255] ^
              c->t[4][w >> 24 & 255] ^ c->t[3][w >> 32 & 255] ^ c->t[2][w >> 40 & 255] ^
              c->t[1][w >> 48 & 255] ^ c->t[0][w >> 56];
    }
    for (; len; len--)
        crc = crc >> 8 ^ c->t[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* a * b modulo the polynomial; the highest bit is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t m = 1u << 31; m; m >>= 1) {
        product ^= a & m ? b : 0;
        b = b >> 1 ^ (b & 1 ? POLY : 0);
    }
    return product;
}

uint32_t stk_crc32_join(uint32_t first, uint32_t second, uint64_t len)
{
    uint32_t power = 1u << 31, square = 1u << 23; /* x^0, x^8 */

    for (; len; len >>= 1) {
        if (len & 1)
            power = multiply(square, power);
        square = multiply(square, square);
    }
    return multiply(power, first) ^ second;
}
