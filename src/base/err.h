/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - the error object inside the library: fill it, add the address, pass it on. */
#ifndef STOKER_BASE_ERR_H
#define STOKER_BASE_ERR_H

#include <inttypes.h>
#include <stoker/plugin.h>

/* Return a failure to the caller.  Only while the function owns nothing. */
#define STK_TRY(expr)                                                                              \
    do {                                                                                           \
        int try_rc_ = (expr);                                                                      \
        if (try_rc_ < 0)                                                                           \
            return try_rc_;                                                                        \
    } while (0)

void stk_error_clear(stk_error *err);

/* Add the address to an error that has none yet; NULL, STK_NO_OFFSET and an empty key leave that
 * part alone. A shard name that is too long keeps its tail, where names differ. */
void stk_error_at(stk_error *err, const char *shard, uint64_t offset, stk_bytes key);

int stk_fail_nomem(stk_error *err, size_t size);

/* The candidate nearest to `word` by edit distance, if near enough to be meant; else NULL. */
const char *stk_nearest(const char *word, const char *const *candidates, size_t n);

#endif
