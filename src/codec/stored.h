/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - a field that has a type: the head of its chain, which no one writes.
 *
 * Its bytes are elements as they are stored; a row is a copy of them, in the output's type. */
#ifndef STOKER_STORED_H
#define STOKER_STORED_H

#include <stoker/dataset.h>

#include "codec/codec.h"
#include "kern/convert.h"

typedef struct stk_stored {
    stk_field_type type;
    stk_dtype to;
    stk_convert_fn convert; /* NULL: as it is stored */
    size_t count;           /* elements of a row; of one that differs: of one of its parts */
    int ragged;
} stk_stored;

extern const stk_codec stk_codec_stored;

/* What the field is, before the chain's steps. */
int stk_stored_begin(stk_stored *s, const stk_field_type *type, stk_spec *spec, stk_error *err);
/* What the row is, after them; dtype 0: as it is stored. */
int stk_stored_settle(stk_stored *s, stk_dtype to, stk_error *err);

#endif
