/* SPDX-License-Identifier: Apache-2.0 */
/* shard_list.h - shards that another tool's index lists: shard_list.c. */
#ifndef STOKER_SOURCE_SHARD_LIST_H
#define STOKER_SOURCE_SHARD_LIST_H

#include "source/source.h"

/* The shards that `name` lists, with the samples that it says each has: a wids JSON file, or a
 * folder with Energon's .nv-meta ("folder#train": one of its splits).  STK_END: it is none of
 * them. */
int stk_shard_list_add(const char *name, stk_names *out, stk_error *err);

/* The text of a wids file as names, relative to `from`[0..folder). */
int stk_wids_read(stk_bytes text, const char *from, size_t folder, stk_names *out, stk_error *err);

#endif
