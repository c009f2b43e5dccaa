/* SPDX-License-Identifier: Apache-2.0 */
/* plan_array.h - how rows of arrays become rows of outputs: planned once, read-only then.
 *
 * With tokens(), a sample is a window of a stream: the tokens of all parts, one after the other,
 * and a separator after every document where one is asked for; or a row of documents that are
 * packed side by side. */
#ifndef STOKER_PLAN_ARRAY_H
#define STOKER_PLAN_ARRAY_H

#include "op/tokens.h"
#include "array/arrays.h"
#include "kern/convert.h"

typedef struct stk_array_out { /* one output of one data set */
    const stk_array *array;
    stk_convert_fn convert; /* NULL: as it is stored */
    uint8_t pad[8];         /* with pack: an element that fills rows */
} stk_array_out;

typedef struct stk_token_stream { /* the tokens of one data set */
    uint64_t tokens, windows;
    uint64_t *first; /* with separators: where each part begins, n_parts + 1; NULL: without */
} stk_token_stream;

typedef struct stk_document { /* one, or a piece of one that is longer than a row */
    uint64_t at;              /* its first token in the array */
    uint32_t len;
    uint32_t after; /* tokens of the document that follow the piece */
} stk_document;

typedef struct stk_packed { /* rows of one data set */
    uint64_t rows, tokens;
    uint64_t *first; /* rows + 1: where each row begins in doc; repack: NULL, and a row is one */
    stk_document *doc;
} stk_packed;

typedef struct stk_array_plan {
    uint32_t n_out, n_data;
    stk_array_out *out;       /* [data set * n_out + output] */
    stk_tokens cut;           /* block 0: rows, no windows */
    size_t sample_bytes;      /* that are read for a sample */
    uint64_t span;            /* tokens of a window and its farthest shift */
    stk_token_stream *stream; /* of each data set; NULL: rows */
    stk_packed *packed;       /* of each data set; NULL: documents are not packed */
} stk_array_plan;

#endif
