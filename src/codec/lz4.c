/* SPDX-License-Identifier: Apache-2.0 */
/* lz4 - pages of tables packed with LZ4: one block as it is, or blocks in Hadoop's frames.
 *
 * The block format is a dozen lines, so no library is asked for.  A block is literals and copies in
 * turn and ends in literals.  A frame of Hadoop's is two numbers, most significant byte first, how
 * much it unpacks to and how many packed bytes follow. */
#include <string.h>

#include "codec/unpack.h"

static int damaged(size_t len, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "lz4: a page does not unpack to %zu bytes", len);
}

/* A length of 15 goes on in the bytes that follow. */
static int more(const uint8_t **p, const uint8_t *end, size_t *len)
{
    uint8_t b;

    if (*len != 15)
        return 1;
    do {
        if (*p == end)
            return 0;
        b = *(*p)++;
        *len += b;
    } while (b == 255);
    return 1;
}

/* n bytes from `back` before, which may overlap: whole words where there is room after them. */
static void copy(uint8_t *to, size_t back, size_t n, size_t room)
{
    const uint8_t *from = to - back;

    if (back < 16 || n + 16 > room) {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    for (size_t i = 0; i < n; i += 16)
        memcpy(to + i, from + i, 16);
}

size_t stk_lz4_block(stk_bytes in, uint8_t *dst, size_t history, size_t len)
{
    const uint8_t *p = in.data, *end = in.data + in.len;
    size_t at = 0;

    while (p < end) {
        uint8_t token = *p++;
        size_t n = token >> 4, back;

        if (!more(&p, end, &n) || n > (size_t)(end - p) || n > len - at)
            return SIZE_MAX;
        memcpy(dst + at, p, n);
        p += n;
        at += n;
        if (p == end)
            break;
        if (end - p < 2)
            return SIZE_MAX;
        back = p[0] | (size_t)p[1] << 8;
        p += 2;
        n = token & 15;
        if (!more(&p, end, &n) || !back || back > at + history || n + 4 > len - at)
            return SIZE_MAX;
        copy(dst + at, back, n + 4, len - at);
        at += n + 4;
    }
    return at;
}

/* One block.  0: it is damaged, or does not make exactly len bytes. */
static int block(stk_bytes in, uint8_t *dst, size_t len)
{
    return stk_lz4_block(in, dst, 0, len) == len;
}

int stk_lz4_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    return (in.len && block(in, dst, len)) || !len ? 0 : damaged(len, err);
}

static size_t big_endian(const uint8_t *p)
{
    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

/* 0: these are no frames that make exactly len bytes. */
static int frames(stk_bytes in, uint8_t *dst, size_t len)
{
    size_t at = 0;

    while (in.len >= 8) {
        size_t makes = big_endian(in.data), packed = big_endian(in.data + 4);

        if (packed > in.len - 8 || makes > len - at ||
            !block((stk_bytes){ in.data + 8, packed }, dst + at, makes))
            return 0;
        at += makes;
        in = (stk_bytes){ in.data + 8 + packed, in.len - 8 - packed };
    }
    return !in.len && at == len;
}

int stk_lz4_hadoop_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    return frames(in, dst, len) ? 0 : stk_lz4_page(in, dst, len, err);
}
