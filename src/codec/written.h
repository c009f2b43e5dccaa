/* SPDX-License-Identifier: Apache-2.0 */
/* written.h - writes a value that has a type as the bytes that a chain's first codec reads.  The
 * plan of chains sets it up (loader/plan_chains.c), and rows call it.
 *
 * A loader may take one field from shards, where it is bytes (an .npy, a number as text), and from
 * arrays or tables, where it has a type.  Its chain is then one for bytes, and what has a type
 * becomes bytes first. */
#ifndef STOKER_WRITTEN_H
#define STOKER_WRITTEN_H

#include <stoker/dataset.h>

#include "codec/codec.h"

typedef struct stk_written {
    stk_field_type type;
    int text; /* 1: numbers become text; 0: they become an .npy */
    /* bytes of a value; if lengths differ: of one entry of its first dimension */
    size_t part;
} stk_written;

/* reads: the first codec of the chain; NULL: it has none. */
int stk_written_plan(stk_written *w, const stk_field_type *type, const stk_codec *reads,
                     stk_error *err);

/* A codec whose extract() has a stk_written as its state. */
extern const stk_codec stk_codec_written;

#endif
