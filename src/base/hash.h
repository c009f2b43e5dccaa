/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - CRC-32C for data on disk, and 64-bit hashes for names and permutations.  They do not
 * protect against deliberate collisions. */
#ifndef STOKER_BASE_HASH_H
#define STOKER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint32_t stk_crc32c(uint32_t crc, const void *data, size_t len); /* start with 0 */
uint64_t stk_hash64(uint64_t seed, const void *data, size_t len);

/* A bijection of 64-bit words that spreads every bit (xor-shift-multiply). */
static inline uint64_t stk_mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

#endif
