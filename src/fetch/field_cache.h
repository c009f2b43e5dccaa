/* SPDX-License-Identifier: Apache-2.0 */
/* field_cache.h - host cache of small fields (labels, captions) of samples whose large fields are
 * cached on the GPU, so that such a sample needs no read.  Rows that go to a GPU use it
 * (row/row_gpu.c).
 *
 * Entries never move or go before the end, so a caller may borrow what it finds.  A lookup takes no
 * lock. */
#ifndef STOKER_SMALL_H
#define STOKER_SMALL_H

#include "base/account.h"
#include "base/err.h"

#define STK_SMALL_BYTES 512 /* most bytes of all fields of a sample; larger ones are not cached */

typedef struct stk_field_cache stk_field_cache; /* Thread: any. */

/* Takes memory from `account`, at most an eighth of it. */
int stk_field_cache_open(stk_field_cache **out, uint64_t samples, stk_account *account,
                         stk_error *err);
void stk_field_cache_close(stk_field_cache **s);

/* Sets field[0..n) to what put() stored for the sample.  0: it is not in the cache. */
int stk_field_cache_find(const stk_field_cache *s, uint64_t sample, stk_bytes *field, uint32_t n);
/* Stores n fields; those with data NULL are not stored.  Each sample is put once, all with the same
 * n. */
void stk_field_cache_put(stk_field_cache *s, uint64_t sample, const stk_bytes *field, uint32_t n);

#endif
