/* SPDX-License-Identifier: Apache-2.0 */
/* array_plan.h - how rows of arrays become rows of outputs: planned once, read-only then.
 *
 * With tokens(), a sample is a window of a stream: the tokens of all parts, one behind the other,
 * and a separator behind every document where one is asked for.  Whoever packs documents in place
 * of cutting windows finds their bounds in stk_piece.docs and brings a plan of his own. */
#ifndef STOKER_ARRAY_PLAN_H
#define STOKER_ARRAY_PLAN_H

#include "codec/tokens.h"
#include "fetch/arrays.h"
#include "kern/convert.h"
#include "order/order.h"

typedef struct stk_array_out { /* one output of one data set */
    const stk_array *array;
    stk_convert_fn convert; /* NULL: as it is stored */
    uint8_t pad[8];         /* with pack: an element that fills rows */
    int kept;               /* cache="device": the array goes to the GPU's memory ... */
    uint64_t at;            /* ... and begins there */
} stk_array_out;

typedef struct stk_stream { /* the tokens of one data set */
    uint64_t tokens, windows;
    uint64_t *first; /* with separators: where each part begins, n_parts + 1; NULL: without */
} stk_stream;

typedef struct stk_document { /* one, or a piece of one that is longer than a row */
    uint64_t at;              /* its first token in the array */
    uint32_t len;
    uint32_t after; /* tokens of the document behind the piece */
} stk_document;

typedef struct stk_packed { /* rows of one data set */
    uint64_t rows, tokens;
    uint64_t *first; /* rows + 1: where each row begins in doc; repack: NULL, and a row is one */
    stk_document *doc;
} stk_packed;

typedef struct stk_array_plan {
    uint32_t n_out, n_data;
    stk_array_out *out;  /* [data set * n_out + output] */
    stk_tokens cut;      /* block 0: rows, no windows */
    size_t sample_bytes; /* that are read for a sample */
    uint64_t span;       /* tokens of a window and its farthest shift */
    stk_stream *stream;  /* of each data set; NULL: rows */
    stk_packed *packed;  /* of each data set; NULL: documents are not packed */
} stk_array_plan;

typedef struct stk_row_docs { /* a worker's: the documents of a row that is packed anew */
    uint32_t n, cap;
    uint64_t *position;
    uint32_t *part;
    stk_where *where;
    stk_document *doc;
} stk_row_docs;

struct stk_engine;
/* Chains are planned (stk_chain_plan_rows); makes the outputs' shapes and the number of samples. */
int stk_array_plan_open(struct stk_engine *e, stk_error *err);
void stk_array_plan_close(stk_array_plan **p);

/* pack_plan.c: documents side by side, in place of windows. */
int stk_pack_plan(struct stk_engine *e, stk_error *err);
int stk_pack_settle(struct stk_engine *e, uint32_t output, stk_error *err); /* its type is known */
void stk_pack_close(stk_array_plan *p);
/* repack: the documents of row `bin` of an epoch. */
int stk_row_docs_find(struct stk_engine *e, stk_row_docs *d, uint64_t epoch, uint64_t bin,
                      stk_error *err);
void stk_row_docs_fini(stk_row_docs *d);

#endif
