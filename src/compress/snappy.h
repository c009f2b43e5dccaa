/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.h - Snappy, whole or from block to block.
 *
 * Snappy's own compressor works on blocks of 64 KiB: no element goes over a block's end and no copy
 * reaches before its beginning.  That is a habit, not the format, so stk_snappy_scan() checks every
 * element.  Where it holds, a block can be unpacked alone from its first packed byte on. */
#ifndef STOKER_SNAPPY_H
#define STOKER_SNAPPY_H

#include "base/err.h"

#define STK_SNAPPY_BLOCK 65536u

/* The length that `in` says it unpacks to; *head: bytes of that number.  Negative: there is
 * none. */
int stk_snappy_len(stk_bytes in, uint32_t *len, uint32_t *head);
/* All of it: exactly dst[0..len). */
int stk_snappy_unpack(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* Elements from `in` on, without the number before them, until they have made `len` bytes; *used:
 * packed bytes that they took.  Copies stay within dst. */
int stk_snappy_elements(stk_bytes in, uint8_t *dst, size_t len, size_t *used, stk_error *err);
/* Where each block begins in `in`: start[i] for i < ceil(len / 64 KiB), and start[n] the end.
 * STK_END: the rule does not hold, so it is read whole. */
int stk_snappy_scan(stk_bytes in, uint32_t *start, stk_error *err);

/* Part of a block: `in` begins with `left` bytes of a literal, elements follow.  Exactly
 * dst[0..len); what comes after is left alone.  Copies must not reach before dst. */
int stk_snappy_part(stk_bytes in, uint32_t left, uint8_t *dst, size_t len, stk_error *err);

/* Where the bytes [at, at + len) of what `in` unpacks to are, for stk_snappy_part(): packed bytes
 * [from, to), of which the first `left` are of a literal.  `start` is of stk_snappy_scan().
 * STK_END: they begin within a copy, or a copy in them reaches before them. */
typedef struct stk_snappy_cut {
    uint32_t from, left, to;
} stk_snappy_cut;
int stk_snappy_find(stk_bytes in, const uint32_t *start, uint32_t at, uint32_t len,
                    stk_snappy_cut *out, stk_error *err);

#endif
