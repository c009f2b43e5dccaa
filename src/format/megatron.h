/* SPDX-License-Identifier: Apache-2.0 */
/* megatron.h - reads the .idx beside a Megatron .bin: type of the tokens, sequences, documents.
 * Arrays of tokens (array/) and Megatron's order (order/gpt_order.c) call it.
 *
 * A file is: "MMIDIDX" and two NULs, u64 version 1, u8 type, u64 S, u64 D, then i32 length[S], i64
 * byte offset[S] in the .bin, i64 document[D]: the number of each document's first sequence, the
 * last of them S.  Little-endian, and unaligned, since 34 bytes come first. */
#ifndef STOKER_FORMAT_MEGATRON_H
#define STOKER_FORMAT_MEGATRON_H

#include "base/err.h"
#include "base/mem.h"

#define STK_MEGATRON_HEAD 34

typedef struct stk_megatron {
    stk_dtype dtype;
    uint64_t sequences, documents;
    uint64_t tokens;                  /* tokens of the .bin */
    const uint8_t *length, *at, *doc; /* the three arrays, borrowed */
} stk_megatron;

int stk_megatron_probe(stk_bytes head); /* 0 or 1 */

/* Reads an index for a .bin of `size` bytes.  Errors have the offset in the .idx.  Sequences must
 * follow each other without a gap, so that the .bin is their concatenation.  If there are more than
 * STK_MEGATRON_CHECKED, only the first and the last are checked. */
#define STK_MEGATRON_CHECKED ((uint64_t)16 << 20)
int stk_megatron_read(stk_bytes idx, uint64_t size, stk_megatron *out, stk_error *err);

/* Checks all sequences: each begins where the one before it ends, and the last one ends the
 * .bin. */
int stk_megatron_check(const stk_megatron *m, stk_error *err);

/* How many tokens sequence s has; the second also sets *at to its first token.  s is below
 * `sequences`, and the index was checked. */
uint64_t stk_megatron_length(const stk_megatron *m, uint64_t s);
uint64_t stk_megatron_sequence(const stk_megatron *m, uint64_t s, uint64_t *at);

/* The first token of document d; for d == documents the end.  Never past the last token. */
uint64_t stk_megatron_document(const stk_megatron *m, uint64_t d);

#endif
