/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - all allocation: 64-byte aligned, overflow-checked, and made to fail on purpose in
 * tests. */
#ifndef STOKER_BASE_MEM_H
#define STOKER_BASE_MEM_H

#include <stoker/plugin.h> /* stk_alloc, stk_free, stk_scratch_get */

void *stk_zalloc(size_t count, size_t size); /* zeroed; NULL on overflow too */
void *stk_grow(void *p, size_t old_bytes,
               size_t new_bytes); /* contents kept; p lives on when NULL */
/* Whole pages straight from the system, huge ones where they fit: for what is large, lives long
 * and should leave no holes. Free with the same size. */
void *stk_pages_alloc(size_t size);
/* Address space whose memory comes when it is first written to; what is read before is zero. */
void *stk_pages_reserve(size_t size);
void stk_pages_free(void *p, size_t size);
char *stk_strdup(const char *s);
char *stk_strndup(const char *s, size_t len);
#define STK_NEW(type) ((type *)stk_zalloc(1, sizeof(type)))

/* Make the n-th allocation from now on (1 = the next) and all after it fail; 0: never.  Tests
 * only. */
void stk_mem_fail_at(uint64_t n);
uint64_t stk_mem_count(void); /* allocations so far */

/* What is large and goes back to the system when it is freed: pages of its own, where the heap
 * would keep them.  Small sizes are the heap's.  Free with the same size. */
void *stk_large_alloc(size_t size);
void stk_large_free(void *p, size_t size);

#include "base/scratch.h"

#endif
