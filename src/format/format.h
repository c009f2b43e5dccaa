/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - declares the formats of shards that registry.def lists, and the rules by which names
 * of members become keys and fields. */
#ifndef STOKER_FORMAT_H
#define STOKER_FORMAT_H

#include "source/source.h"

extern const stk_format stk_format_tar;
extern const stk_format stk_format_folder;
extern const stk_format stk_format_manifest;
extern const stk_format stk_format_tfrecord;
extern const stk_format stk_format_pairs;
extern const stk_format stk_format_frames;

/* Splits a member's name into key and field as WebDataset does: the key is name[0..*key_len), the
 * field begins at *ext_start, in the case as written.  0: the member is no field. */
int stk_wds_split(const char *name, size_t len, size_t *key_len, size_t *ext_start);

/* 1: the member is never a field: __x__ at the root, or anything under __x__/. */
int stk_wds_ignored(const char *name, size_t len);

#endif
