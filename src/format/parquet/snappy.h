/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.h - Snappy, whole or from block to block.
 *
 * Snappy's own compressor works on blocks of 64 KiB: no element goes over a block's end and no copy
 * reaches before its beginning.  That is a habit, not the format, so stk_snappy_scan() checks every
 * element.  Where it holds, a block can be unpacked alone from its first packed byte on. */
#ifndef STOKER_PARQUET_SNAPPY_H
#define STOKER_PARQUET_SNAPPY_H

#include "base/err.h"

#define STK_SNAPPY_BLOCK 65536u

/* The length that `in` says it unpacks to; *head: bytes of that number.  Negative: there is none. */
int stk_snappy_len(stk_bytes in, uint32_t *len, uint32_t *head);
/* All of it: exactly dst[0..len). */
int stk_snappy_unpack(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* Elements from `in` on, without the number before them, until they have made `len` bytes; *used:
 * packed bytes that they took.  Copies stay within dst. */
int stk_snappy_elements(stk_bytes in, uint8_t *dst, size_t len, size_t *used, stk_error *err);
/* Where each block begins in `in`: start[i] for i < ceil(len / 64 KiB), and start[n] the end.
 * STK_END: the rule does not hold, so it is read whole. */
int stk_snappy_scan(stk_bytes in, uint32_t *start, stk_error *err);

#endif
