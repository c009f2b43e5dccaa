/* SPDX-License-Identifier: Apache-2.0 */
/* pack_side.h - the small files of JSON that a pack keeps beside its shards, read and written in
 * one way: its note (pack_stamp.c, pack_remote.c), how the shards were made (pack_made.c), its plan
 * (pack_plan_file.c), and the list of what failed.  They are in a folder or in a bucket. */
#ifndef STOKER_PACK_SIDE_H
#define STOKER_PACK_SIDE_H

#include <stoker/store.h>

#include "base/text.h"

#define STK_SIDE_MAX ((size_t)256 << 20) /* bytes; larger ones are not read */

/* All of it, appended; STK_ENOTFOUND: there is none. */
int stk_side_read(const char *path, const stk_store *store, stk_text *out, stk_error *err);
/* As a whole, in place of what is there. */
int stk_side_write(const char *path, const stk_store *store, const stk_text *text, stk_error *err);

/* A number of the object `doc`, or one in quotes, which is in hex.  0: there is none. */
int stk_side_number(stk_bytes doc, const char *name, uint64_t *out);

int stk_side_put(stk_text *t, const char *text, stk_error *err);
int stk_side_quote(stk_text *t, const char *text, stk_error *err);

#endif
