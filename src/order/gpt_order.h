/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_order.h - the samples of Megatron-LM's GPTDataset in its own order, bit for bit.
 * loader/plan_megatron.c makes the order; rows read their tokens with a cursor (row/row_array.c).
 *
 * Its "documents" are the sequences of the .idx.  An epoch makes as many passes over them as its
 * samples need.  All these documents are shuffled and cut into samples of `length` tokens (and
 * `extra` tokens of the next one).  The samples are shuffled again.  Both shuffles use
 * numpy.random.RandomState(seed).  If less than four fifths of the last pass is needed, that pass
 * is shuffled by itself.  So order and cut come from the same table, which differs in every
 * epoch. */
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
/* Sample numbers are below this: the passes may have a few more samples than are asked for. */
uint64_t stk_gpt_numbers(const stk_order *order);

/* Reads the tokens of a sample as runs, each of one document. */
typedef struct stk_gpt_cursor {
    const void *state;
    uint64_t epoch, document, offset;
    const uint32_t *documents;
} stk_gpt_cursor;

typedef struct stk_gpt_run {
    uint32_t part;
    uint64_t at, n; /* tokens [at, at + n) of that part */
} stk_gpt_run;

/* Sets *c to `skip` tokens after the beginning of a sample.  Holds the epoch's table until
 * leave(). */
void stk_gpt_enter(const stk_order *order, uint64_t epoch, uint64_t sample, uint64_t skip,
                   stk_gpt_cursor *c);
/* The next run, of at most `want` tokens.  out->n 0: the stream has ended, because the index was
 * written to. */
void stk_gpt_next(stk_gpt_cursor *c, uint64_t want, stk_gpt_run *out);
void stk_gpt_leave(stk_gpt_cursor *c);

#endif
