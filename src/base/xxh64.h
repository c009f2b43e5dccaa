/* SPDX-License-Identifier: Apache-2.0 */
/* xxh64.h - the hash XXH64, which other programs write beside their files.  Not for adversaries. */
#ifndef STOKER_BASE_XXH64_H
#define STOKER_BASE_XXH64_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_xxh64 { /* Thread: one. */
    uint64_t lane[4], seen;
} stk_xxh64;

void stk_xxh64_init(stk_xxh64 *x);
void stk_xxh64_add(stk_xxh64 *x, const uint8_t *p, size_t stripes); /* of 32 bytes each */
/* The hash, with the last `len` bytes, below 32. */
uint64_t stk_xxh64_end(stk_xxh64 *x, const uint8_t *p, size_t len);

#endif
