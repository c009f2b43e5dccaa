/* SPDX-License-Identifier: Apache-2.0 */
/* tile.cu - the steps of programs: one launch a round, over all pictures of a batch that take part
 * in it; what a pixel becomes is in pic_tile.h and pic_blur.h.  A thread takes four pixels at a
 * time.
 *
 * A block of threads takes pixels of one picture, so all its threads run the same program; rounds
 * are planned in gpu/pic_plan.c.  Figures are
 * gathered in a block first: a warp's sums, or counts in shared memory, then one atomic each. */
#include "cuda/pic_blur.h"
#include "cuda/pic_loss.h"
#include "cuda/pic_run.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xFFFFFFFFu

static_assert(STK_PIC_BLUR_THREADS == THREADS && STK_PIC_BLUR_W * STK_PIC_BLUR_H == 2 * 4 * THREADS,
              "a block makes a rectangle in two rounds");

struct list { /* of one launch */
    const stk_pic_work *work;
    uint32_t n;
};

struct block {
    stk_pic_known known;
    uint32_t count[STK_PIC_FIGURES];
};

struct near_block {
    block b;
    stk_pic_blur_room blur;
};

/* ---- figures ---- */

/* What one thread saw. */
struct seen {
    uint32_t gray; /* at most 255 * STK_PIC_TILE_PIXELS */
    uint32_t dark[3], bright[3];
};

static __device__ __forceinline__ void see(block *b, const stk_pic_stage &g, seen *s, uint32_t px)
{
    switch (g.s.wants) {
    case STK_ACT_CONTRAST: s->gray += (uint32_t)stk_pt_gray(px); break;
    case STK_ACT_PIL_CONTRAST: s->gray += (uint32_t)stk_pil_gray(px); break;
    case STK_ACT_PIL_AUTOCONTRAST:
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

    if (g.s.wants == STK_ACT_CONTRAST || g.s.wants == STK_ACT_PIL_CONTRAST) {
        uint32_t sum = __reduce_add_sync(ALL, s.gray);

        if (lane == 0)
            atomicAdd((unsigned long long *)(void *)g.into, (unsigned long long)sum);
    } else if (g.s.wants == STK_ACT_AUTOCONTRAST || g.s.wants == STK_ACT_PIL_AUTOCONTRAST) {
        for (int c = 0; c < 3; c++) {
            uint32_t dark = __reduce_max_sync(ALL, s.dark[c]);
            uint32_t bright = __reduce_max_sync(ALL, s.bright[c]);

            if (lane == 0) {
                atomicMax(&g.into[c], dark);
                atomicMax(&g.into[3 + c], bright);
            }
        }
    } else if (g.s.wants == STK_ACT_EQUALIZE) {
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
    unsigned head = g.s.head ? g.act[g.s.head - 1].code : 0;
    bool warps = head == STK_ACT_WARP || stk_pic_is_map(head);
    bool counts = g.s.wants == STK_ACT_EQUALIZE;

    if (!g.s.slot && !warps && !counts)
        return;
    __syncthreads();
    for (uint32_t i = threadIdx.x; counts && i < STK_PIC_FIGURES; i += THREADS)
        b->count[i] = 0;
    stk_pic_know_first(&b->known, &g, threadIdx.x);
    __syncthreads();
    stk_pic_know(&b->known, &g, threadIdx.x, THREADS);
    __syncthreads();
}

/* What the step makes of four pixels goes where it belongs. */
template <uint32_t DTYPE, bool LAID>
static __device__ __forceinline__ void finish(const stk_pic_launch &l, block *b,
                                              const stk_pic_stage &g, stk_pic_four *f, seen *s)
{
    stk_pic_acts_on(&g, &b->known, f);
    if (g.last)
        stk_pic_put_out(&l, DTYPE, LAID, &g, f);
    else if (g.s.head | g.s.n) /* else the step only looks */
        stk_pic_put_tile(&g, f);
    if (g.s.wants)
        for (uint32_t j = 0; j < 4; j++)
            if (j < f->n)
                see(b, g, s, f->px[j]);
}

/* A step of a picture, where a block's share of its pixels begins, and ends; 0: there is nothing to
 * do. */
static __device__ __forceinline__ uint32_t find(const stk_pic_launch &l, stk_pic_work work,
                                                stk_pic_stage *g, uint32_t *first)
{
    const stk_pic_job *job = l.job + work.job;
    const stk_pic *rec = (const stk_pic *)(l.slab + job->rec);
    uint32_t k = work.first % STK_PIC_TILE_PIXELS, all;

    *first = work.first - k;
    if (!((const stk_pic_taps *)(l.scratch + job->taps))->ok || k >= rec->prog.n_steps)
        return 0;
    *g = stk_pic_stage_of(&l, job, k);
    all = (uint32_t)g->s.w * g->s.h;
    return *first < all ? min(all, *first + STK_PIC_TILE_PIXELS) : 0;
}

template <uint32_t DTYPE, bool LAID, uint32_t SORT>
static __device__ __forceinline__ void pixels(const stk_pic_launch &l, block *b,
                                              const stk_pic_stage &g, uint32_t from, uint32_t to)
{
    seen s = { 0, { 0, 0, 0 }, { 0, 0, 0 } };

    for (uint32_t i = from + threadIdx.x * 4; i < to; i += THREADS * 4) {
        stk_pic_four f = SORT == STK_PIC_PLAIN ? stk_pic_four_at(&g, i, to)
                         : SORT == STK_PIC_MIX ? stk_pic_four_mixed(&g, i, to)
                                               : stk_pic_four_made(&g, &b->known, i, to);

        finish<DTYPE, LAID>(l, b, g, &f, &s);
    }
    if (g.s.wants)
        gather(b, g, s);
}

/* Steps whose pixels don't see others need fewer registers. */
template <uint32_t DTYPE, bool LAID, uint32_t SORT>
static __global__ void __launch_bounds__(THREADS, SORT == STK_PIC_HEADED ? 3 : 4)
    step_kernel(const stk_pic_launch l, list of)
{
    __shared__ block b;

    for (uint32_t w = blockIdx.x; w < of.n; w += gridDim.x) {
        stk_pic_stage g;
        uint32_t first, to = find(l, of.work[w], &g, &first);

        if (!to || stk_pic_sort_of(&g.s, g.act) != SORT)
            continue;
        begin(&b, g);
        pixels<DTYPE, LAID, SORT>(l, &b, g, first, to);
    }
}

/* ---- blurs: kernels of their own, which leave registers and shared memory to the others ---- */

/* Passes across of those that are two steps. */
static __global__ void __launch_bounds__(THREADS) across_kernel(const stk_pic_launch l, list of)
{
    for (uint32_t w = blockIdx.x; w < of.n; w += gridDim.x) {
        stk_pic_stage g;
        uint32_t first, to = find(l, of.work[w], &g, &first);

        if (!to || stk_pic_sort_of(&g.s, g.act) != STK_PIC_WIDE_ACROSS)
            continue;
        for (uint32_t i = first + threadIdx.x; i < to; i += THREADS)
            ((stk_pic_v2 *)(void *)g.to)[i] = stk_pic_blur_across(&g, g.act + g.s.head - 1, i);
    }
}

/* One rectangle. */
template <uint32_t DTYPE, bool LAID>
static __device__ __forceinline__ void rectangle(const stk_pic_launch &l, near_block *b,
                                                 const stk_pic_stage &g, uint32_t number, seen *s)
{
    stk_pic_blur one = stk_pic_blur_of(&g, number);

    __syncthreads();
    stk_pic_blur_stage(&b->blur, &g, &one, threadIdx.x);
    __syncthreads();
    stk_pic_blur_rows(&b->blur, &one, threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (uint32_t round = 0; round < 2; round++) {
        stk_pic_four f = stk_pic_blurred(&b->blur, &g, &one, threadIdx.x, round);

        if (f.n)
            finish<DTYPE, LAID>(l, &b->b, g, &f, s);
    }
}

/* A block takes as large a share of the rectangles as of the pixels. */
template <uint32_t DTYPE, bool LAID>
static __global__ void __launch_bounds__(THREADS, 4) near_kernel(const stk_pic_launch l, list of)
{
    __shared__ near_block b;

    for (uint32_t w = blockIdx.x; w < of.n; w += gridDim.x) {
        stk_pic_stage g;
        uint32_t first, to = find(l, of.work[w], &g, &first), n, step;
        seen s = { 0, { 0, 0, 0 }, { 0, 0, 0 } };

        if (!to || stk_pic_sort_of(&g.s, g.act) != STK_PIC_NEAR)
            continue;
        begin(&b.b, g);
        n = stk_pic_blur_count(&g);
        step = stk_pic_ceil((uint32_t)g.s.w * g.s.h, STK_PIC_TILE_PIXELS);
        for (uint32_t r = first / STK_PIC_TILE_PIXELS; r < n; r += step)
            rectangle<DTYPE, LAID>(l, &b, g, r, &s);
        if (g.s.wants)
            gather(&b.b, g, s);
    }
}

/* ---- JPEG ---- */

static_assert(STK_PIC_LOSS_THREADS == THREADS, "rounds of a block");

static __global__ void __launch_bounds__(THREADS) loss_kernel(const stk_pic_launch l, list of)
{
    __shared__ stk_pic_loss_room m;

    for (uint32_t w = blockIdx.x; w < of.n; w += gridDim.x) {
        stk_pic_stage g;
        uint32_t first, to = find(l, of.work[w], &g, &first), n, step;

        if (!to || stk_pic_sort_of(&g.s, g.act) != STK_PIC_LOSS)
            continue;
        n = stk_pic_squares(&g);
        step = stk_pic_ceil((uint32_t)g.s.w * g.s.h, STK_PIC_TILE_PIXELS) * STK_PIC_SQUARES;
        for (uint32_t s = first / STK_PIC_TILE_PIXELS * STK_PIC_SQUARES; s < n; s += step) {
            __syncthreads();
            stk_pic_loss_fill(&m, &g, s, threadIdx.x);
            __syncthreads();
            stk_pic_loss_blocks(&m, threadIdx.x);
            __syncthreads();
            stk_pic_loss_put(&m, &g, s, threadIdx.x);
        }
    }
}

/* ---- the launches ---- */

/* The next step of those pictures for which it is of one sort. */
template <uint32_t DTYPE, bool LAID>
static void run_round(const stk_pic_launch *l, uint32_t sort, list of, cudaStream_t stream)
{
    unsigned grid = l->blocks && l->blocks < of.n ? l->blocks : of.n;

    switch (sort) {
    case STK_PIC_PLAIN:
        step_kernel<DTYPE, LAID, STK_PIC_PLAIN><<<grid, THREADS, 0, stream>>>(*l, of);
        break;
    case STK_PIC_HEADED:
        step_kernel<DTYPE, LAID, STK_PIC_HEADED><<<grid, THREADS, 0, stream>>>(*l, of);
        break;
    case STK_PIC_MIX:
        step_kernel<DTYPE, LAID, STK_PIC_MIX><<<grid, THREADS, 0, stream>>>(*l, of);
        break;
    case STK_PIC_NEAR: near_kernel<DTYPE, LAID><<<grid, THREADS, 0, stream>>>(*l, of); break;
    case STK_PIC_WIDE_ACROSS: across_kernel<<<grid, THREADS, 0, stream>>>(*l, of); break;
    default: loss_kernel<<<grid, THREADS, 0, stream>>>(*l, of);
    }
}

template <uint32_t DTYPE, bool LAID>
static void run_as(const stk_pic_launch *l, cudaStream_t stream)
{
    list of = { l->tile, 0 };

    for (uint32_t k = 0; k < l->n_rounds; k++, of.work += of.n) {
        of.n = l->round_n[k];
        run_round<DTYPE, LAID>(l, l->round_sort[k], of, stream);
    }
}

template <uint32_t DTYPE> static void run(const stk_pic_launch *l, cudaStream_t stream)
{
    if (l->laid)
        run_as<DTYPE, true>(l, stream);
    else
        run_as<DTYPE, false>(l, stream);
}

extern "C" int stk_pic_steps_run(const stk_pic_launch *l, cudaStream_t stream)
{
    switch (l->dtype) {
    case STK_PIC_AS_F16: run<STK_PIC_AS_F16>(l, stream); break;
    case STK_PIC_AS_BF16: run<STK_PIC_AS_BF16>(l, stream); break;
    case STK_PIC_AS_F32: run<STK_PIC_AS_F32>(l, stream); break;
    default: run<STK_PIC_AS_U8>(l, stream);
    }
    return (int)cudaPeekAtLastError();
}
