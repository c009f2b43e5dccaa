/* SPDX-License-Identifier: Apache-2.0 */
/* small.h - small fields of samples whose large ones need no reading any more: labels, captions, kept
 * in memory as they were read, so that such a sample costs no read at all.
 *
 * What was put stays where it is until the end: whoever finds it may borrow it.  A lookup takes no
 * lock. */
#ifndef STOKER_SMALL_H
#define STOKER_SMALL_H

#include "base/account.h"
#include "base/err.h"

#define STK_SMALL_BYTES 512 /* of all fields of a sample: more is not kept */

typedef struct stk_small stk_small; /* Thread: any. */

/* Memory is taken from `account`, and at most an eighth of it. */
int stk_small_open(stk_small **out, uint64_t samples, stk_account *account, stk_error *err);
void stk_small_close(stk_small **s);

/* The fields of a sample, as they were put; 0: it was not. */
int stk_small_find(const stk_small *s, uint64_t sample, stk_bytes *field, uint32_t n);
/* Keep n fields; data NULL: not this one.  A sample is put once, with the same n for all. */
void stk_small_put(stk_small *s, uint64_t sample, const stk_bytes *field, uint32_t n);

#endif
