/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - all allocation of the library: aligned to 64 bytes, checked for overflow, and made to
 * fail on purpose in tests.  Functions return NULL if there is no memory.  Thread: any. */
#ifndef STOKER_BASE_MEM_H
#define STOKER_BASE_MEM_H

#include <stoker/plugin.h> /* stk_alloc, stk_free, stk_scratch_get */

void *stk_zalloc(size_t count, size_t size); /* zeroed; NULL on overflow too */
/* Returns memory of new_bytes with the content of `p`, and frees p.  NULL: p stays valid. */
void *stk_grow(void *p, size_t old_bytes, size_t new_bytes);
/* Whole pages straight from the system, huge ones where they fit: for large memory that lives long.
 * Free with the same size. */
void *stk_pages_alloc(size_t size);
/* Address space that gets memory when it is first written to; before that it reads as zeros. */
void *stk_pages_reserve(size_t size);
void stk_pages_free(void *p, size_t size);
char *stk_strdup(const char *s);
char *stk_strndup(const char *s, size_t len);
#define STK_NEW(type) ((type *)stk_zalloc(1, sizeof(type)))

/* Tests only: makes the n-th allocation from now on (1: the next) and all after it fail; 0:
 * none. */
void stk_mem_fail_at(uint64_t n);
uint64_t stk_mem_count(void); /* allocations so far */

/* Memory that goes back to the system when it is freed: large sizes get pages, because the heap
 * would not return them; small sizes come from the heap.  Free with the same size. */
void *stk_large_alloc(size_t size);
void stk_large_free(void *p, size_t size);

#include "base/scratch.h"

#endif
