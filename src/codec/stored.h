/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - the first step of a chain whose field has a type (a column of a table).  chain.c adds
 * it; users don't write it.
 *
 * The field's bytes are elements as they are stored; a row is a copy of them in the output's
 * type. */
#ifndef STOKER_STORED_H
#define STOKER_STORED_H

#include <stoker/dataset.h>

#include "codec/codec.h"
#include "kern/convert.h"

typedef struct stk_stored {
    stk_field_type type;
    stk_dtype to;
    stk_convert_fn convert; /* NULL: elements are copied */
    size_t count;           /* elements of a row; ragged: of one entry of its first dimension */
    int ragged;             /* true if rows differ in length */
} stk_stored;

extern const stk_codec stk_codec_stored;

/* Before the chain's steps are planned: sets *spec to what the field is. */
int stk_stored_begin(stk_stored *s, const stk_field_type *type, stk_spec *spec, stk_error *err);
/* After them: sets the type of the row.  to 0: as it is stored. */
int stk_stored_settle(stk_stored *s, stk_dtype to, stk_error *err);

#endif
