/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - errors inside the library: fill one in, add the address, pass it on. */
#ifndef STOKER_BASE_ERR_H
#define STOKER_BASE_ERR_H

#include <inttypes.h>
#include <stoker/plugin.h>

/* Returns a failure to the caller.  Use it only while the function owns nothing. */
#define STK_TRY(expr)                                                                              \
    do {                                                                                           \
        int try_rc_ = (expr);                                                                      \
        if (try_rc_ < 0)                                                                           \
            return try_rc_;                                                                        \
    } while (0)

void stk_error_clear(stk_error *err);

/* Adds the address to an error that has none.  NULL, STK_NO_OFFSET and an empty key leave that part
 * alone.  Of a shard's name that is too long, the end is stored, where names differ. */
void stk_error_at(stk_error *err, const char *shard, uint64_t offset, stk_bytes key);

int stk_fail_nomem(stk_error *err, size_t size);

/* The candidate most like `word`, if it is so like that it may be meant; else NULL. */
const char *stk_nearest(const char *word, const char *const *candidates, size_t n);

#endif
