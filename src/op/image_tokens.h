/* SPDX-License-Identifier: Apache-2.0 */
/* image_tokens.h - token rows with a placeholder for each picture: how many tokens each becomes,
 * and where every token is, by the rules of Qwen-VL.  Rows call it (row/row_pictures.c), which know
 * the pictures of their sample. */
#ifndef STOKER_OP_IMAGE_TOKENS_H
#define STOKER_OP_IMAGE_TOKENS_H

#include "op/spec.h"

typedef enum stk_token_give { STK_GIVE_IDS, STK_GIVE_LABELS, STK_GIVE_MROPE } stk_token_give;

/* How far positions go on after a grid: they differ for clips that are longer than they are
 * large. */
typedef enum stk_mrope_rule {
    STK_MROPE_TRANSFORMERS, /* by the larger side */
    STK_MROPE_TORCHTITAN    /* by the largest of time and sides */
} stk_mrope_rule;

typedef struct stk_image_tokens { /* the arguments of the step */
    char pictures[128];           /* the output that has them ... */
    uint32_t output;              /* ... which is this one; the loader finds it */
    int64_t token, ignore;
    uint32_t merge;
    stk_token_give give;
    stk_mrope_rule rule;
} stk_image_tokens;

typedef struct stk_grids { /* of the pictures of a sample */
    uint32_t n;
    const uint32_t (*at)[2]; /* patches down and across */
    /* which of the ids are placeholders, ascending; NULL: those that are `token` */
    const uint32_t *place;
} stk_grids;

/* How many placeholders a row has; the numbers of the first `most` of them. */
uint32_t stk_image_tokens_places(const stk_image_tokens *t, const int64_t *ids, size_t n,
                                 uint32_t *out, uint32_t most);

/* n ids -> *out tokens.  STK_ECORRUPT: there are not as many placeholders as pictures, or a picture
 * is not whole merged patches. */
int stk_image_tokens_count(const stk_image_tokens *t, const int64_t *ids, size_t n,
                           const stk_grids *g, uint64_t *out, stk_error *err);
/* After stk_image_tokens_count(): that many tokens, of MROPE three numbers each. */
void stk_image_tokens_put(const stk_image_tokens *t, const int64_t *ids, size_t n,
                          const stk_grids *g, int64_t *out);

/* The positions of a grid of (frames, down, across) merged patches that begins at *p, which goes on
 * after it; three numbers each. */
int64_t *stk_mrope_grid(stk_mrope_rule rule, const uint32_t grid[3], int64_t *p, int64_t *out);

#endif
