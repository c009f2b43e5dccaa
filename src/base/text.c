/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - growth by doubling, so that putting byte by byte stays linear. */
#include "base/text.h"

#include <string.h>

#include "base/mem.h"

int stk_text_put(stk_text *t, const void *s, size_t len, stk_error *err)
{
    size_t cap = t->cap ? t->cap : 256;
    char *grown;

    while (cap < t->len + len + 1)
        cap *= 2;
    if (cap > t->cap) {
        grown = stk_grow(t->s, t->len, cap);
        if (!grown)
            return stk_fail_nomem(err, cap);
        t->s = grown;
        t->cap = cap;
    }
    memcpy(t->s + t->len, s, len);
    t->len += len;
    t->s[t->len] = 0;
    return 0;
}
