/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - the arguments of the step `tokens` and of the steps that pack documents into rows.
 * The plan reads them; the windows are cut by the order, not by an op. */
#ifndef STOKER_CODEC_TOKENS_H
#define STOKER_CODEC_TOKENS_H

#include <stdint.h>
#include <stoker/base.h>

typedef enum stk_give { /* what a row of packed documents is asked for */
                        STK_GIVE_TOKENS,
                        /* position in the document, or in its piece; padding is counted, too */
                        STK_GIVE_POSITIONS,
                        /* number of the document in the row, from 1; padding: 0 */
                        STK_GIVE_DOCUMENTS,
                        /* 1 if the token `shift` later is of the same document, else 0 */
                        STK_GIVE_MASK
} stk_give;

/* The arguments for one chain.  Chains of a loader differ only in shift, give and pad. */
typedef struct stk_tokens {
    uint64_t block, stride; /* tokens of a row; tokens from one window's start to the next */
    uint64_t shift;         /* tokens by which a row begins later */
    int random, share;      /* windows begin at random places; outputs are parts of one buffer */
    int parted;             /* `separator` comes after every document */
    int64_t separator;
    int pack; /* rows are whole documents: a stk_fit; 0: rows are windows */
    stk_give give;
    int64_t pad;     /* value that fills packed rows */
    int repack;      /* documents are packed again in every epoch */
    uint32_t window; /* positions that are packed together, if the order of an epoch is packed */
} stk_tokens;

#define STK_PACK_WINDOW ((int64_t)1 << 24) /* largest window */

struct stk_args;
/* Reads the arguments of all steps that pack: give, pad, window, and the fit, whose argument is
 * called `fit`.  block and shift must be set.  step: name for messages. */
int stk_tokens_packing(stk_tokens *t, const char *step, const char *fit,
                       const struct stk_args *args, stk_error *err);

#endif
