/* SPDX-License-Identifier: Apache-2.0 */
/* xxh64.c - see xxh64.h.  After the public specification (xxhash.com), with seed 0. */
#include "base/xxh64.h"

#include <string.h>

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

static uint64_t turn(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static uint64_t word(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t round_of(uint64_t lane, uint64_t v)
{
    return turn(lane + v * P2, 31) * P1;
}

void stk_xxh64_init(stk_xxh64 *x)
{
    *x = (stk_xxh64){ { P1 + P2, P2, 0, 0 - P1 }, 0 };
}

void stk_xxh64_add(stk_xxh64 *x, const uint8_t *p, size_t stripes)
{
    for (size_t i = 0; i < stripes; i++, p += 32)
        for (int k = 0; k < 4; k++)
            x->lane[k] = round_of(x->lane[k], word(p + 8 * k));
    x->seen += 32 * (uint64_t)stripes;
}

uint64_t stk_xxh64_end(stk_xxh64 *x, const uint8_t *p, size_t len)
{
    uint64_t h = P5;

    if (x->seen) {
        h = turn(x->lane[0], 1) + turn(x->lane[1], 7) + turn(x->lane[2], 12) + turn(x->lane[3], 18);
        for (int k = 0; k < 4; k++)
            h = (h ^ round_of(0, x->lane[k])) * P1 + P4;
    }
    h += x->seen + len;
    for (; len >= 8; p += 8, len -= 8)
        h = turn(h ^ round_of(0, word(p)), 27) * P1 + P4;
    if (len >= 4) {
        uint32_t v;

        memcpy(&v, p, sizeof v);
        h = turn(h ^ v * P1, 23) * P2 + P3;
        p += 4;
        len -= 4;
    }
    for (; len; p++, len--)
        h = turn(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}
