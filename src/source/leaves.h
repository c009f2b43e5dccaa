/* SPDX-License-Identifier: Apache-2.0 */
/* leaves.h - reads the values of a small document of two levels, in JSON or in the YAML that
 * programs write.  Readers of other tools' indexes call it (shard_list.c). */
#ifndef STOKER_SOURCE_LEAVES_H
#define STOKER_SOURCE_LEAVES_H

#include "base/err.h"

/* Called for each value below the key `top`, or below `top` and `sub` ("": none), without quotes.
 * For an empty list it is called once, with value NULL. */
typedef int (*stk_leaf_fn)(void *cookie, const char *top, const char *sub, const char *value,
                           stk_error *err);

int stk_leaves_json(stk_bytes text, stk_leaf_fn fn, void *cookie, stk_error *err);
/* Reads maps, lists with dashes, [] and {}, plain and quoted values.  Anything else is STK_ENOTSUP,
 * with its line. */
int stk_leaves_yaml(stk_bytes text, stk_leaf_fn fn, void *cookie, stk_error *err);

#endif
