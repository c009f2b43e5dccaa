/* SPDX-License-Identifier: Apache-2.0 */
/* nal_bits.h - bits of the headers of H.264, HEVC and VP9, most significant first. */
#ifndef STOKER_VIDEO_NAL_BITS_H
#define STOKER_VIDEO_NAL_BITS_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_bits { /* past the end bits are 0 */
    const uint8_t *data;
    size_t len, at; /* bits */
} stk_bits;

static inline uint32_t stk_bits_get(stk_bits *r, uint32_t n)
{
    uint32_t v = 0;

    for (; n; n--, r->at++)
        v = v << 1 | (r->at < r->len ? r->data[r->at / 8] >> (7 - r->at % 8) & 1 : 0);
    return v;
}

static inline uint32_t stk_bits_ue(stk_bits *r)
{
    uint32_t zeros = 0;

    while (r->at < r->len && zeros < 32 && !stk_bits_get(r, 1))
        zeros++;
    return zeros < 32 ? (uint32_t)(((uint64_t)1 << zeros) - 1 + stk_bits_get(r, zeros))
                      : UINT32_MAX;
}

static inline void stk_bits_skip(stk_bits *r, uint32_t n)
{
    r->at += n;
}

static inline int stk_bits_over(const stk_bits *r)
{
    return r->at > r->len;
}

/* A unit without the bytes that only keep start codes apart; at most `room` of them. */
static inline size_t stk_nal_plain(uint8_t *to, size_t room, const uint8_t *nal, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < room; i++)
        if (!(i >= 2 && nal[i] == 3 && !nal[i - 1] && !nal[i - 2]))
            to[n++] = nal[i];
    return n;
}

/* One of H.264's scaling lists. */
static inline void stk_bits_skip_list(stk_bits *r, uint32_t n)
{
    int32_t last = 8, next = 8;

    for (uint32_t i = 0; i < n && next; i++) {
        uint32_t k = stk_bits_ue(r);

        next = (last + (int32_t)(k & 1 ? (k + 1) / 2 : 0 - k / 2)) & 255;
        last = next ? next : last;
    }
}

#endif
