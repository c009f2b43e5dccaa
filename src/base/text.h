/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - a growing buffer of bytes, always with a NUL after them.  Thread: one. */
#ifndef STOKER_SOURCE_TEXT_H
#define STOKER_SOURCE_TEXT_H

#include "base/err.h"

typedef struct stk_text { /* init with zeros, end with stk_free(s) */
    char *s;              /* NULL until the first put */
    size_t len, cap;
} stk_text;

int stk_text_put(stk_text *t, const void *s, size_t len, stk_error *err);

#endif
