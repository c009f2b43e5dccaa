/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_gather.h - copies rows out of arrays that are on a GPU: the arguments of a launch, and what
 * it does to one element.  gpu/device.c launches it; tests run it on the host.
 *
 * Types are only converted if no value can be lost, so nothing can fail on the GPU. */
#ifndef STOKER_GPU_GATHER_H
#define STOKER_GPU_GATHER_H

#include <stdint.h>

#if defined(__CUDACC__)
#define STK_GATHER_FN static __host__ __device__ __forceinline__
#else
#define STK_GATHER_FN static inline
#endif

typedef struct stk_gpu_gather { /* all pointers are the device's */
    const uint8_t *arena;
    uint64_t arena_len;
    const uint64_t *at; /* by row: offset of its first byte in the arena */
    uint8_t *out;
    uint64_t count;    /* elements of a row */
    uint32_t rows;     /* at most 65535 */
    uint32_t in, made; /* bytes of an element before and after; both 16: rows are only moved */
    uint32_t sign;     /* with made > in: true if elements are integers with a sign */
} stk_gpu_gather;

/* The element of a row that is only moved. */
typedef struct stk_gather_16 {
    uint64_t v[2];
} stk_gather_16;

STK_GATHER_FN int stk_gather_inside(const stk_gpu_gather *g, uint64_t at)
{
    return at <= g->arena_len && g->count * g->in <= g->arena_len - at && at % g->in == 0;
}

STK_GATHER_FN uint64_t stk_gather_load(const uint8_t *p, uint32_t size, uint32_t sign)
{
    switch (size) {
    case 1: return sign ? (uint64_t)(int64_t) * (const int8_t *)p : *p;
    case 2:
        return sign ? (uint64_t)(int64_t) * (const int16_t *)(const void *)p
                    : *(const uint16_t *)(const void *)p;
    case 4:
        return sign ? (uint64_t)(int64_t) * (const int32_t *)(const void *)p
                    : *(const uint32_t *)(const void *)p;
    default: return *(const uint64_t *)(const void *)p;
    }
}

/* Element i of a row that begins at `at`, which is inside. */
STK_GATHER_FN void stk_gather_one(const stk_gpu_gather *g, uint64_t at, uint32_t row, uint64_t i)
{
    const uint8_t *from = g->arena + at + i * g->in;
    uint8_t *to = g->out + ((uint64_t)row * g->count + i) * g->made;
    uint64_t v;

    if (g->made == 16) {
        *(stk_gather_16 *)(void *)to = *(const stk_gather_16 *)(const void *)from;
        return;
    }
    v = stk_gather_load(from, g->in, g->sign);
    switch (g->made) {
    case 1: *to = (uint8_t)v; break;
    case 2: *(uint16_t *)(void *)to = (uint16_t)v; break;
    case 4: *(uint32_t *)(void *)to = (uint32_t)v; break;
    default: *(uint64_t *)(void *)to = v;
    }
}

#endif
