/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - the arguments of the step `tokens` and of the steps that pack documents into rows.
 * The plan reads them; the windows are cut by the order, not by an op. */
#ifndef STOKER_CODEC_TOKENS_H
#define STOKER_CODEC_TOKENS_H

#include <stdint.h>
#include <stoker/base.h>

typedef enum stk_give { /* what a row of packed documents is asked for */
                        STK_GIVE_TOKENS,
                        /* in the document, or in its piece; padding counts too */
                        STK_GIVE_POSITIONS,
                        STK_GIVE_DOCUMENTS, /* 1, 2, ... in the row; padding: 0 */
                        STK_GIVE_MASK /* 1 where `shift` after it the document goes on, else 0 */
} stk_give;

typedef struct stk_tokens { /* of one chain; all of a loader agree but in shift, give and pad */
    uint64_t block, stride;
    uint64_t shift;
    int random, share;
    int parted; /* `separator` stands after every document */
    int64_t separator;
    int pack; /* rows are whole documents: stk_fit; 0: windows */
    stk_give give;
    int64_t pad;     /* what fills packed rows */
    int repack;      /* again every epoch */
    uint32_t window; /* of positions that are packed together, where an epoch's order is packed */
} stk_tokens;

#define STK_PACK_WINDOW ((int64_t)1 << 24) /* the most */

struct stk_args;
/* Arguments that all steps that pack have: give, pad, window, and the fit under the name `fit`; the
 * block and the shift stand.  `step`: for messages. */
int stk_tokens_packing(stk_tokens *t, const char *step, const char *fit,
                       const struct stk_args *args, stk_error *err);

#endif
