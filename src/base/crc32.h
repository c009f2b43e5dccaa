/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.h - the CRC-32 of zip, gzip and PNG, also for pieces that are computed apart and joined.
 * Readers and writers of these formats call it. */
#ifndef STOKER_BASE_CRC32_H
#define STOKER_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef struct stk_crc32 { /* lookup tables; constant after init.  Thread: any. */
    uint32_t t[8][256];
} stk_crc32;

void stk_crc32_init(stk_crc32 *c);
/* begin with crc = 0 */
uint32_t stk_crc32_of(const stk_crc32 *c, uint32_t crc, const void *data, size_t len);
/* The CRC of two joined pieces from their own CRCs; the second piece has `len` bytes. */
uint32_t stk_crc32_join(uint32_t first, uint32_t second, uint64_t len);

#endif
