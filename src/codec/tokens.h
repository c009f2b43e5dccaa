/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h - what the step `tokens` leaves for the pipe, which cuts the windows. */
#ifndef STOKER_CODEC_TOKENS_H
#define STOKER_CODEC_TOKENS_H

#include <stdint.h>

typedef struct stk_tokens { /* of one chain; all of a loader agree but in `shift` */
    uint64_t block, stride;
    uint64_t shift;
    int random, share;
    int parted; /* `separator` stands behind every document */
    int64_t separator;
} stk_tokens;

#endif
