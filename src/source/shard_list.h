/* SPDX-License-Identifier: Apache-2.0 */
/* shard_list.h - shards that the index of another tool lists.  stk_urls_expand() calls it. */
#ifndef STOKER_SOURCE_SHARD_LIST_H
#define STOKER_SOURCE_SHARD_LIST_H

#include "source/source.h"

/* Adds the shards that `name` lists, with the number of samples that it promises for each: a wids
 * JSON file, or a folder with Energon's .nv-meta ("folder#train": one of its splits).  STK_END: it
 * is neither. */
int stk_shard_list_add(const char *name, stk_names *out, stk_error *err);

/* Adds the names in the text of a wids file, which are relative to `from`[0..folder). */
int stk_wids_read(stk_bytes text, const char *from, size_t folder, stk_names *out, stk_error *err);

#endif
