/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - the block function of the random generator Philox4x32-10 (Salmon et al., SC'11), for C
 * and CUDA.  rng.h and the kernels for noise call it. */
#ifndef STOKER_BASE_PHILOX_H
#define STOKER_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define STK_PHILOX static __host__ __device__ inline
#else
#define STK_PHILOX static inline
#endif

STK_PHILOX void stk_philox_block(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The numbers of one address by the wide rule (rng.h), for code that computes any block by itself,
 * such as one thread per pixel.  A block is four numbers. */
typedef struct stk_rng_stream {
    uint32_t key[2], at[3];
} stk_rng_stream;

STK_PHILOX void stk_rng_stream_block(const stk_rng_stream *s, uint32_t block, uint32_t out[4])
{
    const uint32_t ctr[4] = { s->at[0], s->at[1], s->at[2], block };

    stk_philox_block(ctr, s->key, out);
}

#endif
