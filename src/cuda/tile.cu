/* SPDX-License-Identifier: Apache-2.0 */
/* tile.cu - the steps of programs: one launch a step, over all pictures of a batch that have one; what a
 * pixel becomes is in pic_tile.h.
 *
 * A block of threads takes pixels of one picture, so all its threads run the same program.  Figures are
 * gathered in a block first: a warp's sums, or counts in shared memory, then one atomic each. */
#include "cuda/pic_run.h"
#include "cuda/pic_tile.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xFFFFFFFFu

struct block {
    stk_pic_known known;
    uint32_t count[STK_PIC_FIGURES];
};

/* ---- figures ---- */

/* What one thread saw. */
struct seen {
    uint32_t gray; /* at most 255 * STK_PIC_TILE_PIXELS */
    uint32_t dark[3], bright[3];
};

static __device__ __forceinline__ void see(block *b, const stk_pic_stage &g, seen *s, uint32_t px)
{
    switch (g.s->wants) {
    case STK_ACT_CONTRAST: s->gray += (uint32_t)stk_pt_gray(px); break;
    case STK_ACT_AUTOCONTRAST:
        for (int c = 0; c < 3; c++) {
            uint32_t v = px >> 8 * c & 255;

            s->dark[c] = max(s->dark[c], 255 - v);
            s->bright[c] = max(s->bright[c], v);
        }
        break;
    case STK_ACT_EQUALIZE:
        for (int c = 0; c < 3; c++)
            atomicAdd(&b->count[c * 256 + (px >> 8 * c & 255)], 1);
        break;
    }
}

/* All threads of the block, after its last pixel. */
static __device__ __forceinline__ void gather(block *b, const stk_pic_stage &g, const seen &s)
{
    uint32_t lane = threadIdx.x % 32;

    if (g.s->wants == STK_ACT_CONTRAST) {
        uint32_t sum = __reduce_add_sync(ALL, s.gray);

        if (lane == 0)
            atomicAdd((unsigned long long *)(void *)g.into, (unsigned long long)sum);
    } else if (g.s->wants == STK_ACT_AUTOCONTRAST) {
        for (int c = 0; c < 3; c++) {
            uint32_t dark = __reduce_max_sync(ALL, s.dark[c]);
            uint32_t bright = __reduce_max_sync(ALL, s.bright[c]);

            if (lane == 0) {
                atomicMax(&g.into[c], dark);
                atomicMax(&g.into[3 + c], bright);
            }
        }
    } else if (g.s->wants == STK_ACT_EQUALIZE) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < STK_PIC_FIGURES; i += THREADS)
            if (b->count[i])
                atomicAdd(&g.into[i], b->count[i]);
    }
}

/* ---- a step ---- */

/* What the block shares; no thread is still at the step before. */
static __device__ __forceinline__ void begin(block *b, const stk_pic_stage &g)
{
    bool warps = g.s->head && g.act[g.s->head - 1].code == STK_ACT_WARP;

    if (!g.s->slot && !warps && g.s->wants != STK_ACT_EQUALIZE)
        return;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < STK_PIC_FIGURES; i += THREADS)
        b->count[i] = 0;
    stk_pic_know_first(&b->known, &g, threadIdx.x);
    __syncthreads();
    stk_pic_know(&b->known, &g, threadIdx.x, THREADS);
    __syncthreads();
}

static __device__ __forceinline__ void across(const stk_pic_stage &g, uint32_t from, uint32_t to)
{
    const stk_action *a = g.act + g.s->head - 1;

    for (uint32_t i = from + threadIdx.x; i < to; i += THREADS)
        ((stk_pic_v2 *)(void *)g.to)[i] = stk_pic_blur_across(&g, a, i);
}

template <uint32_t DTYPE>
static __device__ __forceinline__ void pixels(const stk_pic_launch &l, block *b,
                                              const stk_pic_stage &g, uint8_t *out, uint32_t from,
                                              uint32_t to)
{
    seen s = { 0, { 0, 0, 0 }, { 0, 0, 0 } };
    const uint32_t moves = g.s->head | g.s->n; /* else the step only looks */

    for (uint32_t i = from + threadIdx.x; i < to; i += THREADS) {
        uint32_t px = stk_pic_made(&g, &b->known, i);

        if (g.last)
            stk_pic_put_out(&l, DTYPE, &g, out, i, px);
        else if (moves)
            g.to[i] = px;
        if (g.s->wants)
            see(b, g, &s, px);
    }
    if (g.s->wants)
        gather(b, g, s);
}

template <uint32_t DTYPE>
static __global__ void __launch_bounds__(THREADS) step_kernel(const stk_pic_launch l, uint32_t k)
{
    __shared__ block b;

    for (uint32_t w = blockIdx.x; w < l.n_tile; w += gridDim.x) {
        stk_pic_work work = l.tile[w];
        const stk_pic_job *job = l.job + work.job;
        const stk_pic *rec = (const stk_pic *)(l.slab + job->rec);
        stk_pic_stage g;
        uint32_t all, to;

        if (!((const stk_pic_taps *)(l.scratch + job->taps))->ok || k >= rec->n_steps)
            continue;
        g = stk_pic_stage_of(&l, job, k);
        all = (uint32_t)g.s->w * g.s->h;
        to = min(all, work.first + STK_PIC_TILE_PIXELS);
        if (work.first >= all)
            continue;
        if (g.s->half == STK_PIC_HALF_ACROSS) {
            across(g, work.first, to);
            continue;
        }
        begin(&b, g);
        pixels<DTYPE>(l, &b, g, stk_pic_out(&l, job), work.first, to);
    }
}

/* ---- the launches ---- */

extern "C" int stk_pic_steps_run(const stk_pic_launch *l, cudaStream_t stream)
{
    unsigned grid = l->blocks && l->blocks < l->n_tile ? l->blocks : l->n_tile;

    for (uint32_t k = 0; k < l->n_steps; k++)
        switch (l->dtype) {
        case STK_PIC_AS_F16:
            step_kernel<STK_PIC_AS_F16><<<grid, THREADS, 0, stream>>>(*l, k);
            break;
        case STK_PIC_AS_BF16:
            step_kernel<STK_PIC_AS_BF16><<<grid, THREADS, 0, stream>>>(*l, k);
            break;
        case STK_PIC_AS_F32:
            step_kernel<STK_PIC_AS_F32><<<grid, THREADS, 0, stream>>>(*l, k);
            break;
        default: step_kernel<STK_PIC_AS_U8><<<grid, THREADS, 0, stream>>>(*l, k);
        }
    return (int)cudaPeekAtLastError();
}
