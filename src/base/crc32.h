/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.h - the CRC-32 of zip, gzip and PNG, eight bytes at a time, and of pieces put together. */
#ifndef STOKER_BASE_CRC32_H
#define STOKER_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_crc32 { /* its tables; read-only once made.  Thread: any. */
    uint32_t t[8][256];
} stk_crc32;

void stk_crc32_init(stk_crc32 *c);
uint32_t stk_crc32_of(const stk_crc32 *c, uint32_t crc, const void *data, size_t len); /* from 0 */
/* The sum of two pieces, the second `len` bytes long, from theirs. */
uint32_t stk_crc32_join(uint32_t first, uint32_t second, uint64_t len);

#endif
