/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - how samples are in bytes. */
#ifndef STOKER_FORMAT_H
#define STOKER_FORMAT_H

#include "source/source.h"

extern const stk_format stk_format_tar;
extern const stk_format stk_format_folder;
extern const stk_format stk_format_manifest;
extern const stk_format stk_format_tfrecord;
extern const stk_format stk_format_pairs;
extern const stk_format stk_format_frames;

/* Split a member's name into key and field as WebDataset does (formats.md 2a.2); 0: the member
 * is no field.  ext is a range of name, its case as written. */
int stk_wds_split(const char *name, size_t len, size_t *key_len, size_t *ext_start);

/* Members that are never fields: __x__ at the root, anything under __x__/ (formats.md 2a.1). */
int stk_wds_ignored(const char *name, size_t len);

#endif
