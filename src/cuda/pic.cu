/* SPDX-License-Identifier: Apache-2.0 */
/* pic.cu - the kernels over all pictures of a batch; the arithmetic is in src/cuda/pic_*.h.
 *
 * Every kernel takes its work list with a grid stride, so that a cap on blocks (a share of the
 * chip) is a smaller grid and nothing else.  The first one, taps, checks each record and notes it;
 * the others touch nothing of a record that was not found sound.  Built with -fmad=false: weights
 * are the host's, bit for bit. */
#include "cuda/pic_run.h"
#include "cuda/pic_frame.h"
#include "cuda/pic_sync.cuh"
#include "cuda/pic_tile.h"
#include "cuda/pic_unit.h"

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xFFFFFFFFu

static_assert(STK_PIC_UNITS == THREADS, "a thread a unit");
static_assert(STK_PIC_ACROSS_ROWS == 2 * WARPS, "a warp takes two rows");

/* A picture, as kernels find it; NULL taps: there is nothing to do for it. */
struct picture {
    const stk_pic_job *job;
    const stk_pic *rec;
    const stk_pic_taps *taps;
};

static __device__ __forceinline__ picture picture_of(const stk_pic_launch &l, uint32_t job)
{
    picture p;

    p.job = l.job + job;
    p.rec = (const stk_pic *)(l.slab + p.job->rec);
    p.taps = (const stk_pic_taps *)(l.scratch + p.job->taps);
    if (!p.taps->ok)
        p.taps = NULL;
    return p;
}

/* ---- taps ---- */

static __global__ void __launch_bounds__(THREADS) taps_kernel(const stk_pic_launch l)
{
    __shared__ stk_pic_taps head;

    for (uint32_t i = blockIdx.x; i < l.n_jobs; i += gridDim.x) {
        const stk_pic_job *j = l.job + i;
        const stk_pic *r = (const stk_pic *)(l.slab + j->rec);
        uint8_t *to = l.scratch + j->taps;

        if (threadIdx.x == 0) {
            head.ok = (uint32_t)stk_pic_open(&l, j, &head);
            if (!head.ok)
                atomicOr(l.status + i, (uint32_t)STK_PIC_BAD_RECORD);
            if (j->units - j->taps >= sizeof head)
                *(stk_pic_taps *)to = head;
        }
        __syncthreads();
        if (head.ok && stk_pic_is_viewed(r)) {
            uint32_t n = head.x.n + head.y.n;

            for (uint32_t k = threadIdx.x; k < n; k += THREADS)
                if (k < head.x.n)
                    stk_pic_taps_one(to, &head.x, &r->x, k);
                else
                    stk_pic_taps_one(to, &head.y, &r->y, k - head.x.n);
            stk_pic_keep(&l, j, threadIdx.x, THREADS);
        }
        for (uint32_t k = threadIdx.x; head.ok && k < r->prog.n_slots * STK_PIC_FIGURES;
             k += THREADS)
            ((uint32_t *)(l.scratch + j->tile))[k] = 0;
        __syncthreads();
    }
}

/* ---- decode ---- */

struct decode_block {
    stk_pic_tables tables;
    stk_pic_shape shape;
    alignas(16) uint8_t slot[THREADS * STK_PIC_SLOT];
};

/* The tables of a picture; 0: they are none. */
static __device__ __forceinline__ int make_tables(decode_block *b, const stk_pic *r,
                                                  const stk_pic_plane *plane)
{
    int bad = 0;

    stk_pic_tables_begin(&b->tables, r, threadIdx.x, THREADS);
    if (threadIdx.x == 32)
        stk_pic_shape_init(&b->shape, r, plane);
    __syncthreads();
    if (threadIdx.x < 2 * STK_PIC_TABLES)
        bad = stk_pic_tables_codes(&b->tables, r, threadIdx.x);
    if (__syncthreads_or(bad))
        return 0;
    stk_pic_tables_fill(&b->tables, r, threadIdx.x, THREADS);
    __syncthreads();
    return 1;
}

/* A warp's units, block by block: all decode one, then all transform it. */
static __device__ __forceinline__ void decode_units(decode_block *b, stk_pic_thread *t,
                                                    uint8_t *planes)
{
    uint8_t *slot = b->slot + threadIdx.x * STK_PIC_SLOT;
    uint32_t blocks = b->shape.n_blocks;

    while (__any_sync(ALL, t->left)) {
        for (uint32_t k = 0; k < blocks; k++) {
            const stk_pic_place *place = &b->shape.block[k];
            int active = t->left != 0, store;
            uint32_t most;

            if (active)
                stk_pic_unit_block(t, place, &b->tables, slot);
            store = active && !t->bad && stk_pic_unit_seen(t, &b->shape);
            most = __reduce_max_sync(ALL, store ? t->last : 0);
            if (store)
                stk_pic_unit_store(t, &b->shape, place, most ? stk_pic_pairs(most) : 0, slot,
                                   planes);
            if (active)
                stk_pic_clear(slot);
        }
        stk_pic_unit_next(t, &b->shape);
    }
}

/* The units from `first` on of a picture, a thread each.  STK_PIC_BAD_*. */
static __device__ __forceinline__ uint32_t decode_picture(decode_block *b, const picture &p,
                                                          const stk_pic_launch &l, uint32_t first)
{
    const uint8_t *rec = (const uint8_t *)p.rec;
    const stk_pic_unit *units = (const stk_pic_unit *)(p.rec->kind == STK_PIC_WHOLE
                                                           ? l.scratch + p.job->units
                                                           : rec + p.rec->units_at);
    uint32_t i = first + threadIdx.x, n = p.job->n_units, len = p.rec->data_len;
    stk_pic_unit u = { 0 };
    stk_pic_thread t;

    if (i < n)
        u = stk_pic_unit_read(units, i);
    if (!__syncthreads_or(u.count)) /* also: the tables before these are no longer read */
        return 0;
    if (!make_tables(b, p.rec, p.taps->plane))
        return STK_PIC_BAD_RECORD;
    stk_pic_unit_begin(&t, &b->shape, &u, stk_pic_data(&l, p.job, p.rec), len);
    decode_units(b, &t, l.scratch + p.job->planes);
    return i < n ? stk_pic_unit_end(&t, &b->shape, units, i, n, len) : 0;
}

static __global__ void __launch_bounds__(THREADS, 5) decode_kernel(const stk_pic_launch l)
{
    __shared__ decode_block b;

    stk_pic_clear(b.slot + threadIdx.x * STK_PIC_SLOT);
    for (uint32_t w = blockIdx.x; w < l.n_decode; w += gridDim.x) {
        stk_pic_work work = l.decode[w];
        picture p = picture_of(l, work.job);
        uint32_t bad;

        if (!p.taps || !p.rec->need[2])
            continue;
        bad = decode_picture(&b, p, l, work.first);
        if (bad)
            atomicOr(l.status + work.job, bad);
    }
}

/* ---- across ---- */

enum sort { DECODED, ON_GPU, FRAMES }; /* of a launch's pictures */

/* n pixels of row y of the picture from x (a multiple of 4) on: of planes, or where they are. */
template <sort SORT>
static __device__ __forceinline__ void stage(const stk_pic_launch &l, const picture &p, uint32_t y,
                                             uint32_t x, uint32_t n, uint32_t *line)
{
    const uint32_t lane = threadIdx.x % 32, comps = p.rec->n_comps;

    if (SORT == FRAMES) {
        const uint8_t *base;
        const stk_pic_yuv *f = stk_pic_frame_of(&l, p.job, p.rec, &base);
        stk_pic_frame_row r = stk_pic_frame_row_of(f, base, y);

        for (uint32_t i = lane * 4; i < n; i += 128)
            *(stk_pic_v4 *)(line + i) = stk_pic_frame4(&r, x + i);
    } else if (SORT == ON_GPU) {
        stk_pic_reach reach = stk_pic_reach_of(l.source + p.job->source, y);

        for (uint32_t i = lane * 4; i < n; i += 128)
            *(stk_pic_v4 *)(line + i) = stk_pic_reach4(&reach, x + i);
    } else {
        stk_pic_line lines[3];

        for (uint32_t c = 0; c < 3; c++)
            if (c < comps)
                lines[c] = stk_pic_line_of(&p.taps->plane[c], l.scratch + p.job->planes, y);
        for (uint32_t i = lane * 4; i < n; i += 128)
            *(stk_pic_v4 *)(line + i) = stk_pic_pixels4(lines, comps, x + i);
    }
}

/* Two rows by one warp: staged in shared memory as pixels, then filtered. */
template <sort SORT>
static __device__ __forceinline__ void across_rows(const stk_pic_launch &l, const picture &p,
                                                   uint32_t row, uint32_t *to,
                                                   uint32_t line[2][STK_PIC_LINE])
{
    const uint8_t *taps = (const uint8_t *)p.taps;
    const stk_pic_side s = p.taps->x;
    const uint32_t lane = threadIdx.x % 32, pitch = stk_pic_row_pixels(s.n);
    const uint32_t two = row + 1 < p.rec->need[3];
    uint32_t lo, hi, n;

    to += (uint64_t)row * pitch;
    for (uint32_t k = lane; k < s.n; k += 32)
        if (k < s.begin || k >= s.end) {
            to[k] = p.rec->fill;
            to[two * pitch + k] = p.rec->fill;
        }
    for (uint32_t k = s.begin; k < s.end; k += n) {
        uint32_t x, base;

        n = stk_pic_tile(taps, &s, k, &lo, &hi);
        x = p.rec->need[0] + lo;
        base = x & 3;
        for (uint32_t y = 0; y < 1 + two; y++)
            stage<SORT>(l, p, p.rec->need[1] + row + y, x & ~3u, base + hi - lo, line[y]);
        __syncwarp();
        for (uint32_t i = k + lane; i < k + n; i += 32) {
            stk_pic_v2 v = stk_pic_across2(taps, &s, i, line[0] + base, STK_PIC_LINE, lo);

            to[i] = v.x;
            if (two)
                to[pitch + i] = v.y;
        }
        __syncwarp();
    }
}

template <sort SORT>
static __global__ void __launch_bounds__(THREADS, 6) across_kernel(const stk_pic_launch l)
{
    __shared__ alignas(16) uint32_t line[WARPS][2][STK_PIC_LINE];
    const uint32_t warp = threadIdx.x / 32;

    for (uint32_t w = blockIdx.x; w < l.n_across; w += gridDim.x) {
        stk_pic_work work = l.across[w];
        picture p = picture_of(l, work.job);
        uint32_t row = work.first + 2 * warp;

        if (p.taps && p.rec->need[2] && row < p.rec->need[3])
            across_rows<SORT>(l, p, row, (uint32_t *)(l.scratch + p.job->rows), line[warp]);
    }
}

/* ---- down ---- */

/* Rows y.. of a picture whose pixels the host made. */
template <uint32_t DTYPE, bool LAID>
static __device__ __forceinline__ void plain_rows(const stk_pic_launch &l, const picture &p,
                                                  uint32_t y, uint32_t rows)
{
    const uint8_t *data = l.slab + p.job->rec + p.rec->data_at;
    uint8_t *out = p.job->out;
    uint32_t w = p.rec->x.n, h = p.rec->y.n;
    stk_pic_target t = stk_pic_target_of(&l, p.job, w, h, LAID);

    if (p.rec->kind == STK_PIC_READY && (!LAID || !p.job->lay.w)) {
        uint64_t from = p.job->out_bytes * y / h, to = p.job->out_bytes * (y + rows) / h;

        for (uint64_t i = from + threadIdx.x; i < to; i += THREADS)
            out[i] = data[i];
        return;
    }
    for (uint32_t i = threadIdx.x; i < rows * w; i += THREADS) {
        if (p.rec->kind == STK_PIC_READY) {
            stk_pic_move1(&t, DTYPE, p.rec, y * w + i);
            continue;
        }
        stk_pic_dst d = stk_pic_dst_at(&t, i % w, y + i / w, DTYPE);

        stk_pic_color1(&l, DTYPE, data + ((uint64_t)y * w + i) * 3, &d);
    }
}

/* Rows y.. of a picture that has a program, into its tile. */
static __device__ __forceinline__ void tile_rows(const stk_pic_launch &l, const picture &p,
                                                 uint32_t y, uint32_t rows)
{
    uint32_t *tile = stk_pic_tile_at(&l, p.job, p.rec), w = p.rec->x.n;

    if (!stk_pic_is_viewed(p.rec)) {
        const uint8_t *data = l.slab + p.job->rec + p.rec->data_at;

        for (uint32_t i = threadIdx.x; i < rows * w; i += THREADS)
            stk_pic_tile1(data, (uint64_t)y * w + i, tile);
        return;
    }
    stk_pic_pass pass = stk_pic_pass_of(&l, p.job, STK_PIC_AS_U8, p.rec->fill);
    uint32_t groups = stk_pic_row_pixels(w) / 4;

    for (uint32_t i = threadIdx.x; i < rows * groups; i += THREADS)
        stk_pic_tile4(&pass, y + i / groups, i % groups * 4, tile);
}

template <uint32_t DTYPE, bool LAID>
static __global__ void __launch_bounds__(THREADS) down_kernel(const stk_pic_launch l)
{
    for (uint32_t w = blockIdx.x; w < l.n_down; w += gridDim.x) {
        stk_pic_work work = l.down[w];
        picture p = picture_of(l, work.job);
        uint32_t rows, groups;

        if (!p.taps || work.first >= p.rec->y.n)
            continue;
        rows = min(p.rec->y.n - work.first, STK_PIC_DOWN_ROWS);
        if (p.rec->prog.n_steps) {
            tile_rows(l, p, work.first, rows);
            continue;
        }
        if (!stk_pic_is_viewed(p.rec)) {
            plain_rows<DTYPE, LAID>(l, p, work.first, rows);
            continue;
        }
        stk_pic_pass pass = stk_pic_pass_of(&l, p.job, DTYPE, p.rec->fill);

        stk_pic_target t = stk_pic_target_of(&l, p.job, p.rec->x.n, p.rec->y.n, LAID);

        groups = stk_pic_row_pixels(p.rec->x.n) / 4;
        for (uint32_t i = threadIdx.x; i < rows * groups; i += THREADS)
            stk_pic_finish4(&pass, work.first + i / groups, i % groups * 4, &t);
    }
}

/* ---- the launch ---- */

static unsigned grid(const stk_pic_launch *l, uint32_t work)
{
    return l->blocks && l->blocks < work ? l->blocks : work;
}

/* All pictures of a launch are of one sort: taps finds others unsound. */
static void across(const stk_pic_launch *l, cudaStream_t stream)
{
    if (l->frames)
        across_kernel<FRAMES><<<grid(l, l->n_across), THREADS, 0, stream>>>(*l);
    else if (l->source)
        across_kernel<ON_GPU><<<grid(l, l->n_across), THREADS, 0, stream>>>(*l);
    else
        across_kernel<DECODED><<<grid(l, l->n_across), THREADS, 0, stream>>>(*l);
}

template <uint32_t DTYPE> static void down_as(const stk_pic_launch *l, cudaStream_t stream)
{
    if (l->laid)
        down_kernel<DTYPE, true><<<grid(l, l->n_down), THREADS, 0, stream>>>(*l);
    else
        down_kernel<DTYPE, false><<<grid(l, l->n_down), THREADS, 0, stream>>>(*l);
}

static void down(const stk_pic_launch *l, cudaStream_t stream)
{
    switch (l->dtype) {
    case STK_PIC_AS_F16: down_as<STK_PIC_AS_F16>(l, stream); break;
    case STK_PIC_AS_BF16: down_as<STK_PIC_AS_BF16>(l, stream); break;
    case STK_PIC_AS_F32: down_as<STK_PIC_AS_F32>(l, stream); break;
    default: down_as<STK_PIC_AS_U8>(l, stream);
    }
}

extern "C" int stk_pic_phase(const stk_pic_launch *l, int phase, cudaStream_t stream)
{
    int rc = 0;

    if (phase == STK_PIC_TAPS && l->n_jobs)
        taps_kernel<<<grid(l, l->n_jobs), THREADS, 0, stream>>>(*l);
    else if (phase == STK_PIC_SYNC && l->n_sync)
        rc = (int)stk_pic_sync_run(l, stream);
    else if (phase == STK_PIC_DECODE && l->n_decode)
        decode_kernel<<<grid(l, l->n_decode), THREADS, 0, stream>>>(*l);
    else if (phase == STK_PIC_ACROSS && l->n_across)
        across(l, stream);
    else if (phase == STK_PIC_DOWN && l->n_down)
        down(l, stream);
    else if (phase == STK_PIC_STEPS && l->n_tile)
        rc = stk_pic_steps_run(l, stream);
    return rc ? rc : (int)cudaPeekAtLastError();
}

extern "C" int stk_pic_run(const stk_pic_launch *l, cudaStream_t stream)
{
    int rc = 0;

    for (int phase = 0; phase < STK_PIC_PHASES && !rc; phase++)
        rc = stk_pic_phase(l, phase, stream);
    return rc;
}
