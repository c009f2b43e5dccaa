/* SPDX-License-Identifier: Apache-2.0 */
/* pack_side.h - reads and writes the small JSON files that a pack stores beside its shards, in a
 * folder or in a bucket: its note (pack_stamp.c, pack_remote.c), how the shards were made
 * (pack_made.c), its plan (pack_plan_file.c), and the list of samples that failed. */
#ifndef STOKER_PACK_SIDE_H
#define STOKER_PACK_SIDE_H

#include <stoker/store.h>

#include "base/text.h"

#define STK_SIDE_MAX ((size_t)256 << 20) /* most bytes of such a file */

/* Appends the whole file to *out.  STK_ENOTFOUND: it does not exist. */
int stk_side_read(const char *path, const stk_store *store, stk_text *out, stk_error *err);
/* Writes the whole file; replaces an existing one. */
int stk_side_write(const char *path, const stk_store *store, const stk_text *text, stk_error *err);

/* Sets *out to a number of the object `doc`; a number in quotes is hexadecimal.  0: there is
 * none. */
int stk_side_number(stk_bytes doc, const char *name, uint64_t *out);

int stk_side_put(stk_text *t, const char *text, stk_error *err);
int stk_side_quote(stk_text *t, const char *text, stk_error *err);

#endif
