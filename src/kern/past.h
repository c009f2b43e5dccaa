/* SPDX-License-Identifier: Apache-2.0 */
/* past.h - copies that bypass the CPU's caches, for memory that a GPU reads next.  Rows of arrays
 * use it.
 *
 * An ordinary store first reads the line that it will overwrite; these do not, which leaves a third
 * more of the memory's bandwidth to the copy and the device. */
#ifndef STOKER_KERN_PAST_H
#define STOKER_KERN_PAST_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* As memcpy(); what it wrote is seen by others when the caller next takes or releases a lock, or
 * counts an atomic down. */
static inline void stk_copy_past(void *dst, const void *src, size_t n)
{
#if defined(__x86_64__)
    size_t head = (64 - ((uintptr_t)dst & 63)) & 63, i;
    uint8_t *to = (uint8_t *)dst + head;
    const uint8_t *from = (const uint8_t *)src + head;

    if (n < head + 64) {
        memcpy(dst, src, n);
        return;
    }
    memcpy(dst, src, head);
    n -= head;
    for (i = 0; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i + k)));
    memcpy(to + i, from + i, n - i);
    _mm_sfence(); /* such stores are ordered by nothing else */
#else
    memcpy(dst, src, n);
#endif
}

#endif
