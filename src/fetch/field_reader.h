/* SPDX-License-Identifier: Apache-2.0 */
/* field_reader.h - reads one field of a sample outside an engine, in the parts that are asked for.
 * Code that makes seek points or lists frames of videos calls it (indexer/, tools/video_info.c).
 *
 * If the field is a range of a file, only the parts are read that a decoder's points() looks at; a
 * file on a store is read in large steps.  Other fields (in a block, or compressed) are read whole,
 * once. */
#ifndef STOKER_FETCH_FIELD_READER_H
#define STOKER_FETCH_FIELD_READER_H

#include <stoker/plugin_decoder.h>

#include "data/data.h"

typedef struct stk_field_reader stk_field_reader; /* Thread: one. */

int stk_field_reader_open(stk_field_reader **out, stk_dataset *ds, stk_error *err);
void stk_field_reader_close(stk_field_reader **f); /* NULL is fine */
/* Sets *out to read field `number` of `e`, until the next take().  `e` must stay valid as long. */
int stk_field_reader_take(stk_field_reader *f, const stk_entry *e, uint32_t number,
                          stk_media_reader *out, stk_error *err);

#endif
