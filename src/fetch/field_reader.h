/* SPDX-License-Identifier: Apache-2.0 */
/* field_reader.h - one field of a sample outside an engine, read in the parts that are asked for.
 *
 * For tools that make points: of a field that is a range of a file only the parts are read that a
 * decoder's points() looks at, of a file on a store in large steps.  Other fields (in a block, or
 * compressed) are read whole, once. */
#ifndef STOKER_FETCH_FIELD_READER_H
#define STOKER_FETCH_FIELD_READER_H

#include <stoker/plugin_decoder.h>

#include "data/data.h"

typedef struct stk_field_reader stk_field_reader; /* Thread: one. */

int stk_field_reader_open(stk_field_reader **out, stk_dataset *ds, stk_error *err);
void stk_field_reader_close(stk_field_reader **f); /* NULL is fine */
/* Field `number` of `e`, which stays the caller's, until the next take(). */
int stk_field_reader_take(stk_field_reader *f, const stk_entry *e, uint32_t number,
                          stk_media_reader *out, stk_error *err);

#endif
