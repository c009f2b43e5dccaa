/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - what the step `tokens` leaves for the pipe, which cuts the windows. */
#ifndef STOKER_CODEC_TOKENS_H
#define STOKER_CODEC_TOKENS_H

#include <stdint.h>

typedef enum stk_give { /* what a row of packed documents is asked for */
                        STK_GIVE_TOKENS,
                        STK_GIVE_POSITIONS, /* in the document, or in its piece; padding counts too */
                        STK_GIVE_DOCUMENTS, /* 1, 2, ... in the row; padding: 0 */
                        STK_GIVE_MASK /* 1 where `shift` behind it the document goes on, else 0 */
} stk_give;

typedef struct stk_tokens { /* of one chain; all of a loader agree but in shift, give and pad */
    uint64_t block, stride;
    uint64_t shift;
    int random, share;
    int parted; /* `separator` stands behind every document */
    int64_t separator;
    int pack; /* rows are whole documents: stk_fit; 0: windows */
    stk_give give;
    int64_t pad; /* what fills packed rows */
} stk_tokens;

#endif
