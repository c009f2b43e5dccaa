/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - corrects the checksums of FLAC frames and Ogg pages after a mutation.  Otherwise nearly
 * all inputs would be refused by their checksums, before any of it is decoded.  It is only used in
 * builds with libFuzzer (FUZZ_MUTATOR); one input in eight keeps its wrong sums. */
#ifndef STOKER_FUZZ_SUMS_H
#define STOKER_FUZZ_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t sum_of(const uint8_t *p, size_t n, uint32_t poly, int bits)
{
    uint32_t v = 0, top = 1u << (bits - 1), mask = top | (top - 1);

    for (size_t i = 0; i < n; i++) {
        v ^= (uint32_t)p[i] << (bits - 8);
        for (int k = 0; k < 8; k++)
            v = (v & top ? v << 1 ^ poly : v << 1) & mask;
    }
    return v;
}

/* ---- FLAC ---- */

/* Bytes of the frame header at p, its sum included; 0: there is none. */
static inline size_t flac_head_size(const uint8_t *p, size_t n)
{
    size_t number = 1, size;

    if (n < 6 || p[0] != 0xFF || (p[1] & 0xFE) != 0xF8 || !(p[2] >> 4) || (p[2] & 15) == 15 ||
        p[3] >> 4 > 10 || p[3] & 1)
        return 0;
    for (int bit = 0x40; p[4] & 0x80 && p[4] & bit; bit >>= 1)
        number++;
    size = 4 + number + (p[2] >> 4 == 6) + 2 * (p[2] >> 4 == 7);
    size += (p[2] & 15) < 12 ? 0 : (p[2] & 15) == 12 ? 1 : 2;
    return size < n ? size + 1 : 0;
}

static inline size_t flac_first_frame(const uint8_t *p, size_t n)
{
    size_t at = 4;

    if (n < 8 || memcmp(p, "fLaC", 4) != 0)
        return n;
    for (int last = 0; !last && at < n && n - at >= 4;) {
        last = p[at] >> 7;
        at += 4 + ((size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3]);
    }
    return at < n ? at : n;
}

/* A frame of n bytes. */
static inline void fix_frame(uint8_t *p, size_t head, size_t n)
{
    uint32_t v;

    p[head - 1] = (uint8_t)sum_of(p, head - 1, 0x07, 8);
    if (n < head + 2)
        return;
    v = sum_of(p, n - 2, 0x8005, 16);
    p[n - 2] = (uint8_t)(v >> 8);
    p[n - 1] = (uint8_t)v;
}

/* A frame ends where the next one's header is. */
static inline void fix_flac(uint8_t *p, size_t n)
{
    size_t at = flac_first_frame(p, n), head = at < n ? flac_head_size(p + at, n - at) : 0;

    while (head) {
        size_t next = at + head, size = 0;

        while (next < n && (size = flac_head_size(p + next, n - next)) == 0)
            next++;
        fix_frame(p + at, head, next - at);
        at = next;
        head = size;
    }
}

/* ---- Ogg ---- */

static inline void fix_ogg(uint8_t *p, size_t n)
{
    for (size_t at = 0; n - at >= 27; at++) {
        size_t size = 27;
        uint32_t v;

        if (memcmp(p + at, "OggS", 4) != 0 || n - at < 27 + (size_t)p[at + 26])
            continue;
        for (uint32_t i = 0; i < p[at + 26]; i++)
            size += p[at + 27 + i];
        size += p[at + 26];
        if (size > n - at)
            continue;
        memset(p + at + 22, 0, 4);
        v = sum_of(p + at, size, 0x04C11DB7u, 32);
        for (int i = 0; i < 4; i++)
            p[at + 22 + (size_t)i] = (uint8_t)(v >> 8 * i);
        at += size - 1;
    }
}

/* Of FLAC in Ogg, where each page has one frame and its sum is that page's end. */
static inline void fix_flac_ogg(uint8_t *p, size_t n)
{
    for (size_t at = 0; at < n; at++) {
        size_t head = flac_head_size(p + at, n - at), end = at + head;

        while (head && end < n && n - end >= 4 && memcmp(p + end, "OggS", 4) != 0)
            end++;
        if (!head || end - at < head + 2)
            continue;
        if (n - end < 4)
            end = n;
        fix_frame(p + at, head, end - at);
        at = end - 1;
    }
    fix_ogg(p, n);
}

#ifdef FUZZ_MUTATOR
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#define FIX_SUMS(fix)                                                                              \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)     \
    {                                                                                              \
        size = LLVMFuzzerMutate(data, size, max_size);                                             \
        if (seed % 8)                                                                              \
            fix(data, size);                                                                       \
        return size;                                                                               \
    }
#else
#define FIX_SUMS(fix)
#endif

#endif
