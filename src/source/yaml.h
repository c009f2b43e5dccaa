/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.h - the part of YAML that a YOLO data set's data.yaml has: keys of the top level with a
 * value, a list or numbered values. */
#ifndef STOKER_SOURCE_YAML_H
#define STOKER_SOURCE_YAML_H

#include "base/text.h"
#include "source/source.h"

/* Adds the values of a top-level key, in order: one value, a list ([a, b] or lines "- a"), or
 * values numbered from 0 ({0: a, 1: b} or lines "0: a").  STK_END: the text has no such key. */
int stk_yaml_values(stk_bytes text, const char *key, stk_names *out, stk_error *err);
/* Reads the file as text; larger ones than 4 MiB are refused. */
int stk_yaml_read(const char *path, stk_text *out, stk_error *err);

#endif
