/* SPDX-License-Identifier: Apache-2.0 */
/* braces.h - brace patterns (a-{000..999}.tar) as numbered lists of names: parsed once, then any
 * name is found by its number.  stk_urls_expand() calls it. */
#ifndef STOKER_SOURCE_BRACES_H
#define STOKER_SOURCE_BRACES_H

#include "base/err.h"

typedef struct stk_braces stk_braces; /* Thread: one. */

/* Parse pattern[0..len).  Unbalanced braces are STK_EINVAL and name the pattern. */
int stk_braces_open(stk_braces **out, const char *pattern, size_t len, stk_error *err);
void stk_braces_close(stk_braces **b); /* NULL-safe, nulls */

uint64_t stk_braces_count(const stk_braces *b); /* at least 1; UINT64_MAX: that many or more */

/* Name number i < count, not terminated; borrowed until the next call. */
int stk_braces_at(stk_braces *b, uint64_t i, stk_bytes *out, stk_error *err);

#endif
