/* SPDX-License-Identifier: Apache-2.0 */
/* field_cache.h - small fields of samples whose large ones need no reading any more: labels,
 * captions, kept in memory as they were read, so that such a sample costs no read at all.
 *
 * What was put stays where it is until the end: a caller that finds it may borrow it.  A lookup
 * takes no lock. */
#ifndef STOKER_SMALL_H
#define STOKER_SMALL_H

#include "base/account.h"
#include "base/err.h"

#define STK_SMALL_BYTES 512 /* of all fields of a sample: more is not kept */

typedef struct stk_field_cache stk_field_cache; /* Thread: any. */

/* Memory is taken from `account`, and at most an eighth of it. */
int stk_field_cache_open(stk_field_cache **out, uint64_t samples, stk_account *account,
                         stk_error *err);
void stk_field_cache_close(stk_field_cache **s);

/* The fields of a sample, as they were put; 0: it was not. */
int stk_field_cache_find(const stk_field_cache *s, uint64_t sample, stk_bytes *field, uint32_t n);
/* Keep n fields; data NULL: not this one.  A sample is put once, with the same n for all. */
void stk_field_cache_put(stk_field_cache *s, uint64_t sample, const stk_bytes *field, uint32_t n);

#endif
