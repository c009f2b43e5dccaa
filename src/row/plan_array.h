/* SPDX-License-Identifier: Apache-2.0 */
/* plan_array.h - how rows of arrays become rows of outputs.  loader/plan_array.c makes it once;
 * rows (row_array.c) read it.
 *
 * With tokens(), a sample is a window of a stream: the tokens of all parts, one after the other. If
 * a separator is asked for, one follows every document.  With tokens(pack=...), a sample is a row
 * of documents that are packed side by side. */
#ifndef STOKER_PLAN_ARRAY_H
#define STOKER_PLAN_ARRAY_H

#include "op/tokens.h"
#include "array/arrays.h"
#include "kern/convert.h"

typedef struct stk_array_out { /* one output of one data set */
    const stk_array *array;
    stk_convert_fn convert; /* NULL: values are copied as they are stored */
    uint8_t pad[8];         /* packed rows: the element that fills what is left of a row */
} stk_array_out;

typedef struct stk_token_stream { /* the tokens of one data set */
    uint64_t tokens, windows;     /* how many there are of each */
    /* with separators: the token at which each part begins, n_parts + 1 entries; NULL: without */
    uint64_t *first;
} stk_token_stream;

typedef struct stk_document { /* a document, or a piece of one that is longer than a row */
    uint64_t at;              /* its first token in the array */
    uint32_t len;
    uint32_t after; /* tokens of the document that follow the piece */
} stk_document;

typedef struct stk_packed { /* the packed rows of one data set */
    uint64_t rows, tokens;
    /* index in `doc` of each row's first document, rows + 1 entries; NULL with repack, where a
     * "row" is one document and is packed later */
    uint64_t *first;
    stk_document *doc;
} stk_packed;

typedef struct stk_array_plan {
    uint32_t n_out, n_data;
    stk_array_out *out;       /* [data set * n_out + output] */
    stk_tokens cut;           /* how tokens are cut; block 0: samples are rows of arrays */
    size_t sample_bytes;      /* bytes that are read for a sample */
    uint64_t span;            /* tokens from a window's first to the last one of its shift */
    stk_token_stream *stream; /* by data set; NULL: samples are no windows */
    stk_packed *packed;       /* by data set; NULL: documents are not packed */
} stk_array_plan;

#endif
