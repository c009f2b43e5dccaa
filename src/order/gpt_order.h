/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_order.h - the samples of Megatron-LM's GPTDataset in its own order, bit for bit.
 *
 * Its "documents" are the sequences of the .idx.  So many passes over them as the samples need are
 * shuffled, cut into samples of `length` tokens (and `extra` of the next one), and those are
 * shuffled again, both by numpy.random.RandomState(seed).  A last pass of which less than four
 * fifths is needed is shuffled by itself.  A sample is so a window of a stream that is another one
 * every epoch: order and cut come from the same table. */
#ifndef STOKER_GPT_ORDER_H
#define STOKER_GPT_ORDER_H

#include <stoker/plugin.h>

#include "format/megatron.h"

typedef struct stk_gpt_plan {
    const stk_megatron *const *part; /* the indexes of all shards; they stay the caller's */
    uint32_t n_parts;
    uint32_t extra;   /* 0 or 1: inputs and labels are in length + 1 tokens */
    uint32_t seed;    /* of epoch 0; epoch e has seed + e */
    uint64_t length;  /* tokens from a sample to the next */
    uint64_t samples; /* of an epoch; 0: as many as one pass over the documents has */
} stk_gpt_plan;

int stk_order_gpt(stk_order *order, const stk_gpt_plan *plan, stk_error *err);
/* What sample numbers stay below: its passes may have a few more than are asked for. */
uint64_t stk_gpt_numbers(const stk_order *order);

/* A sample's tokens, a run of one document after the other. */
typedef struct stk_gpt_cursor {
    const void *state;
    uint64_t epoch, document, offset;
    const uint32_t *documents;
} stk_gpt_cursor;

typedef struct stk_gpt_run {
    uint32_t part;
    uint64_t at, n; /* tokens of that part */
} stk_gpt_run;

/* Stand `skip` tokens after the begin of a sample; the epoch's table stays until leave(). */
void stk_gpt_enter(const stk_order *order, uint64_t epoch, uint64_t sample, uint64_t skip,
                   stk_gpt_cursor *c);
/* The next tokens, at most `want`; none: the stream has ended, so the index was written to. */
void stk_gpt_next(stk_gpt_cursor *c, uint64_t want, stk_gpt_run *out);
void stk_gpt_leave(stk_gpt_cursor *c);

#endif
