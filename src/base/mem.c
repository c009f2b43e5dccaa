/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c - the one way to the heap.
 *
 * Every block is aligned to a cache line, so that vector code and per-worker structs need not
 * ask.  The failure counter is a relaxed atomic: tests arm it before they start threads. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define LARGE ((size_t)256 << 10) /* one call of the system is little beside filling it */

static _Atomic uint64_t allocations, fail_at;

void stk_mem_fail_at(uint64_t n)
{
    uint64_t now = atomic_load_explicit(&allocations, memory_order_relaxed);

    atomic_store_explicit(&fail_at, n ? now + n : 0, memory_order_relaxed);
}

uint64_t stk_mem_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

/* Counts the allocation; 0: it is to fail. */
static int may_alloc(size_t size)
{
    uint64_t k = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    uint64_t f = atomic_load_explicit(&fail_at, memory_order_relaxed);

    return (!f || k < f) && size <= SIZE_MAX / 2;
}

void *stk_alloc(size_t size)
{
    void *p = NULL;

    if (!may_alloc(size))
        return NULL;
    return posix_memalign(&p, 64, size ? size : 1) ? NULL : p;
}

void stk_free(void *p)
{
    free(p);
}

/* From a huge page's beginning on where that makes one more of them: the kernel then hands out 2
 * MiB at a time, where filling it would otherwise take hundreds of page faults. */
static void *map_aligned(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (size + page - 1) & ~(page - 1), before;
    uint8_t *p = mmap(NULL, used + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)p & (HUGE_PAGE - 1);
    if (before)
        munmap(p, before);
    if (before < HUGE_PAGE)
        munmap(p + before + used, HUGE_PAGE - before);
    madvise(p + before, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    return p + before;
}

void *stk_pages_alloc(size_t size)
{
    void *p;

    if (!may_alloc(size))
        return NULL;
    if (size >= HUGE_PAGE && size <= SIZE_MAX / 2)
        return map_aligned(size);
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *stk_pages_reserve(size_t size)
{
    void *p;

    if (!may_alloc(size))
        return NULL;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    return p == MAP_FAILED ? NULL : p;
}

void stk_pages_free(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}

void *stk_large_alloc(size_t size)
{
    return size < LARGE ? stk_alloc(size) : stk_pages_alloc(size);
}

void stk_large_free(void *p, size_t size)
{
    if (size < LARGE)
        stk_free(p);
    else
        stk_pages_free(p, size);
}

void *stk_zalloc(size_t count, size_t size)
{
    void *p;

    if (size && count > SIZE_MAX / 2 / size)
        return NULL;
    p = stk_alloc(count * size);
    if (p)
        memset(p, 0, count * size);
    return p;
}

void *stk_grow(void *p, size_t old_bytes, size_t new_bytes)
{
    void *q = stk_alloc(new_bytes);

    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    stk_free(p);
    return q;
}

char *stk_strndup(const char *s, size_t len)
{
    char *p = stk_alloc(len + 1);

    if (!p)
        return NULL;
    memcpy(p, s, len);
    p[len] = 0;
    return p;
}

char *stk_strdup(const char *s)
{
    return stk_strndup(s, strlen(s));
}
