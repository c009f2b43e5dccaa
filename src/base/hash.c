/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - CRC-32C by table or by the SSE4.2 instruction; same values. */
#include "base/hash.h"

#include <string.h>

static uint32_t crc_bytes(uint32_t crc, const uint8_t *p, size_t len)
{
    /* One nibble at a time: a table small enough to be constant; only machines without SSE4.2
     * come here. */
    static const uint32_t table[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                        0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

    while (len--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p,
                                                            size_t len)
{
    uint64_t c = crc, word;

    for (; len >= 8; len -= 8, p += 8) {
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; len; len--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

uint32_t stk_crc32c(uint32_t crc, const void *data, size_t len)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(~crc, data, len);
#endif
    return ~crc_bytes(~crc, data, len);
}

uint64_t stk_hash64(uint64_t seed, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = stk_mix64(seed ^ len * 0x9E3779B97F4A7C15u), word;

    for (; len >= 8; len -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = stk_mix64(h ^ word) + 0x9E3779B97F4A7C15u;
    }
    word = 0;
    if (len)
        memcpy(&word, p, len);
    return stk_mix64(h ^ word);
}
