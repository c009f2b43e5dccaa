/* SPDX-License-Identifier: Apache-2.0 */
/* image_tokens.h - rows of tokens with a placeholder for each picture: how many tokens each
 * placeholder becomes, and the position of every token, by the rules of Qwen-VL.  Rows call it,
 * when the sizes of their pictures are known (row/row_image_tokens.c). */
#ifndef STOKER_OP_IMAGE_TOKENS_H
#define STOKER_OP_IMAGE_TOKENS_H

#include "op/spec.h"

typedef enum stk_token_give { STK_GIVE_IDS, STK_GIVE_LABELS, STK_GIVE_MROPE } stk_token_give;

/* By how much positions grow after a grid of tokens.  The rules differ for clips with more frames
 * than patches on a side. */
typedef enum stk_mrope_rule {
    STK_MROPE_TRANSFORMERS, /* by the larger of height and width */
    STK_MROPE_TORCHTITAN    /* by the largest of frames, height and width */
} stk_mrope_rule;

typedef struct stk_image_tokens { /* the arguments of the step */
    char pictures[128];           /* name of the output that has the pictures */
    uint32_t output;              /* index of that output, which the loader sets */
    int64_t token, ignore;        /* id of the placeholder; label of tokens of pictures */
    uint32_t merge;               /* merge x merge patches are one token */
    stk_token_give give;          /* what the row gets: ids, labels or positions */
    stk_mrope_rule rule;
} stk_image_tokens;

typedef struct stk_grids { /* the pictures of a sample */
    uint32_t n;
    const uint32_t (*at)[2]; /* patches down and across of each */
    /* index of each placeholder in the row, ascending; NULL: every id that is `token` is one */
    const uint32_t *place;
} stk_grids;

/* Returns how many placeholders a row has.  Stores the indices of the first `most` in out. */
uint32_t stk_image_tokens_places(const stk_image_tokens *t, const int64_t *ids, size_t n,
                                 uint32_t *out, uint32_t most);

/* Sets *out to the number of tokens that n ids become.  STK_ECORRUPT: the numbers of placeholders
 * and pictures differ, or a picture is not a whole number of merged patches. */
int stk_image_tokens_count(const stk_image_tokens *t, const int64_t *ids, size_t n,
                           const stk_grids *g, uint64_t *out, stk_error *err);
/* Writes as many tokens as stk_image_tokens_count() said; with STK_GIVE_MROPE three numbers
 * each. */
void stk_image_tokens_put(const stk_image_tokens *t, const int64_t *ids, size_t n,
                          const stk_grids *g, int64_t *out);

/* Writes the positions of a grid of (frames, down, across) merged patches, three numbers each, and
 * returns the end of what was written.  The grid begins at position *p, which is moved past it. */
int64_t *stk_mrope_grid(stk_mrope_rule rule, const uint32_t grid[3], int64_t *p, int64_t *out);

#endif
