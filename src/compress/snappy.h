/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.h - unpacks Snappy, as a whole or single blocks of it.  Parquet's pages and row seek
 * points use it (format/parquet/).
 *
 * Snappy's own compressor works on blocks of 64 KiB: no element goes over a block's end, and no
 * copy reaches before its beginning.  The format does not require that, so stk_snappy_scan() checks
 * every element.  If the rule holds, a block can be unpacked alone, from its first packed byte
 * on. */
#ifndef STOKER_SNAPPY_H
#define STOKER_SNAPPY_H

#include "base/err.h"

#define STK_SNAPPY_BLOCK 65536u

/* Sets *len to the length that `in` unpacks to, and *head to the bytes that this number takes.
 * Negative: there is no such number. */
int stk_snappy_len(stk_bytes in, uint32_t *len, uint32_t *head);
/* Unpacks all of it: exactly dst[0..len). */
int stk_snappy_unpack(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* Unpacks elements, without the number before them, until they have made `len` bytes; sets *used to
 * the packed bytes that they took.  Copies stay within dst. */
int stk_snappy_elements(stk_bytes in, uint8_t *dst, size_t len, size_t *used, stk_error *err);
/* Sets start[i] to the beginning of block i in `in`, for i < ceil(len / 64 KiB), and start[n] to
 * the end.  STK_END: the rule does not hold, so blocks can't be unpacked alone. */
int stk_snappy_scan(stk_bytes in, uint32_t *start, stk_error *err);

/* Unpacks part of a block to exactly dst[0..len): `in` begins with `left` bytes of a literal, and
 * elements follow.  Bytes after dst[len] stay as they are.  Copies must not reach before dst. */
int stk_snappy_part(stk_bytes in, uint32_t left, uint8_t *dst, size_t len, stk_error *err);

/* Finds the unpacked bytes [at, at + len) in `in`, for stk_snappy_part(): packed bytes [from, to),
 * of which the first `left` are of a literal.  start: from stk_snappy_scan().  STK_END: they begin
 * within a copy, or a copy in them reaches before them. */
typedef struct stk_snappy_cut {
    uint32_t from, left, to;
} stk_snappy_cut;
int stk_snappy_find(stk_bytes in, const uint32_t *start, uint32_t at, uint32_t len,
                    stk_snappy_cut *out, stk_error *err);

#endif
