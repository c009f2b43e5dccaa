/* SPDX-License-Identifier: Apache-2.0 */
/* pics_gpu_set.c - batches of random views for pics_gpu, and how fast the device makes them. */
#include "pics_gpu.h"

#include <math.h>

/* ---- views ---- */

static double unit(album *a)
{
    return stk_rng_below(&a->rng, 1u << 30) / (double)(1u << 30);
}

static void crop_as_training(album *a, stk_view *v, uint32_t w, uint32_t h)
{
    for (int i = 0; i < 10; i++) {
        double area = (0.08 + 0.92 * unit(a)) * v->src_w * v->src_h;
        double ratio = exp(log(0.75) + unit(a) * log(16.0 / 9));
        uint32_t cw = (uint32_t)(sqrt(area * ratio) + 0.5),
                 ch = (uint32_t)(sqrt(area / ratio) + 0.5);

        if (cw < 1 || ch < 1 || cw > v->src_w || ch > v->src_h)
            continue;
        stk_view_crop(v, (int32_t)stk_rng_below(&a->rng, v->src_w - cw + 1),
                      (int32_t)stk_rng_below(&a->rng, v->src_h - ch + 1), cw, ch);
        break;
    }
    stk_view_resize(v, w, h);
}

static stk_view random_view(album *a, const stk_jpeg_head *head, const set *s, int crops)
{
    uint32_t what = crops ? 0 : stk_rng_below(&a->rng, 3), w = head->width, h = head->height;
    stk_view v;

    stk_view_init(&v, w, h);
    if (what == 0) {
        crop_as_training(a, &v, s->w, s->h);
    } else if (what == 1) {
        stk_view_resize(&v, s->w + stk_rng_below(&a->rng, 99), s->h + stk_rng_below(&a->rng, 99));
        stk_view_crop(&v, (int32_t)stk_rng_below(&a->rng, 60) - 20,
                      (int32_t)stk_rng_below(&a->rng, 60) - 20, s->w, s->h);
    } else {
        stk_view_crop(&v, (int32_t)stk_rng_below(&a->rng, w + 90) - 90,
                      (int32_t)stk_rng_below(&a->rng, h + 90) - 90, s->w, s->h);
    }
    if (stk_rng_below(&a->rng, 2))
        stk_view_mirror(&v);
    v.flip_y = !crops && stk_rng_below(&a->rng, 6) == 0;
    return v;
}

/* ---- a batch ---- */

static void *get(size_t size)
{
    void *p = calloc(1, size);

    if (!p)
        exit(1);
    return p;
}

void set_open(set *s, uint32_t n, uint32_t w, uint32_t h, uint32_t type)
{
    memset(s, 0, sizeof *s);
    s->n = n;
    s->w = w;
    s->h = h;
    s->type = type;
    s->view = get(n * sizeof *s->view);
    s->of = get(n * sizeof *s->of);
    s->item = get(n * sizeof *s->item);
    s->slab_room = (size_t)n << 17;
    CUDA(cudaMallocHost((void **)&s->slab, s->slab_room));
    s->l.dtype = kinds_of[type].as;
    s->l.packed = kinds_of[type].layout != STK_CHW;
    for (int c = 0; c < 3; c++) {
        s->l.mul[c] = kinds_of[type].dtype == STK_U8 ? 1 : 0.0171f + 0.001f * (float)c;
        s->l.add[c] = kinds_of[type].dtype == STK_U8 ? 0 : -2.1f + 0.3f * (float)c;
    }
    s->l.row_bytes = (uint64_t)w * h * 3 * stk_dtype_size(kinds_of[type].dtype);
}

static void make_room(set *s, size_t more)
{
    uint8_t *larger;

    if (s->slab_len + more <= s->slab_room)
        return;
    s->slab_room = 2 * (s->slab_len + more);
    CUDA(cudaMallocHost((void **)&larger, s->slab_room));
    memcpy(larger, s->slab, s->slab_len);
    CUDA(cudaFreeHost(s->slab));
    s->slab = larger;
}

void set_fill(set *s, album *a, int crops)
{
    for (uint32_t i = 0; i < s->n; i++) {
        stk_pic_gather g;
        int rc;

        do { /* views that the GPU does not take are not for here */
            const photo *p = &a->photo[s->of[i] = stk_rng_below(&a->rng, a->n)];
            stk_jpeg_job job = { &p->head, p->in, s->whole ? NULL : &p->seek };

            s->view[i] = random_view(a, &p->head, s, crops);
            stk_scratch_reset(&a->scratch);
            rc = stk_pic_jpeg_size(&g, &job, &s->view[i], &a->scratch, &a->err);
        } while (rc == STK_ENOTSUP);
        if (rc < 0) {
            fprintf(stderr, "gather: %s\n", a->err.message);
            exit(1);
        }
        make_room(s, g.rec.size);
        stk_pic_gather_write(s->slab + s->slab_len, &g);
        s->item[i].share = stk_pic_share_of((const stk_pic *)(const void *)(s->slab + s->slab_len));
        s->item[i].at = s->slab_len;
        s->item[i].row = s->n - 1 - i;
        s->item[i].batch = 0;
        s->slab_len += g.rec.size;
    }
}

void set_plan(set *s)
{
    size_t out = s->n * s->l.row_bytes;

    s->lists_room = stk_pic_lists_bytes(s->item, s->n);
    CUDA(cudaMallocHost((void **)&s->lists, s->lists_room));
    CUDA(cudaMallocHost((void **)&s->out, out));
    CUDA(cudaMallocHost((void **)&s->status, s->n * sizeof *s->status));
    s->plan = (stk_pic_lists){ .memory = s->lists,
                               .room = s->lists_room,
                               .scratch_room = 1ull << 36 };
    if (stk_pic_plan(&s->plan, s->item, s->n) != s->n)
        exit(1);
    CUDA(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&s->d_slab, s->slab_len));
    CUDA(cudaMalloc((void **)&s->d_lists, s->lists_room));
    CUDA(cudaMalloc((void **)&s->l.scratch, s->plan.scratch));
    CUDA(cudaMalloc((void **)&s->l.out[0], out));
    CUDA(cudaMalloc((void **)&s->l.status, s->n * sizeof *s->status));
    stk_pic_launch_lists(&s->l, &s->plan, s->d_lists);
    s->l.slab = s->d_slab;
    s->l.slab_len = s->slab_len;
}

void set_copy(set *s)
{
    CUDA(cudaMemcpyAsync(s->d_slab, s->slab, s->slab_len, cudaMemcpyHostToDevice, s->stream));
    CUDA(cudaMemcpyAsync(s->d_lists, s->lists, s->plan.bytes, cudaMemcpyHostToDevice, s->stream));
}

void set_launch(set *s)
{
    CUDA(cudaMemsetAsync(s->l.status, 0, s->n * sizeof *s->status, s->stream));
    CUDA(stk_pic_run(&s->l, s->stream));
}

void set_fetch(set *s)
{
    CUDA(cudaMemcpyAsync(s->out, s->l.out[0], s->n * s->l.row_bytes, cudaMemcpyDeviceToHost,
                         s->stream));
    CUDA(cudaMemcpyAsync(s->status, s->l.status, s->n * sizeof *s->status, cudaMemcpyDeviceToHost,
                         s->stream));
    CUDA(cudaStreamSynchronize(s->stream));
}

void set_close(set *s)
{
    CUDA(cudaFree(s->d_slab));
    CUDA(cudaFree(s->d_lists));
    CUDA(cudaFree(s->l.scratch));
    CUDA(cudaFree(s->l.out[0]));
    CUDA(cudaFree(s->l.status));
    CUDA(cudaFreeHost(s->slab));
    CUDA(cudaFreeHost(s->lists));
    CUDA(cudaFreeHost(s->out));
    CUDA(cudaFreeHost(s->status));
    CUDA(cudaStreamDestroy(s->stream));
    free(s->view);
    free(s->of);
    free(s->item);
}

/* ---- how fast ---- */

#define SETS 4
#define SECONDS 0.4

/* img/s of `what` over the first n sets, each on its stream, round after round. */
static double rate(set *s, uint32_t n, void (*what)(set *s, int phase), int phase)
{
    uint32_t rounds = 0;
    double t, upto;

    for (uint32_t i = 0; i < n; i++)
        what(&s[i], phase);
    CUDA(cudaDeviceSynchronize());
    t = now();
    do {
        for (int k = 0; k < 8; k++, rounds++)
            for (uint32_t i = 0; i < n; i++)
                what(&s[i], phase);
        CUDA(cudaDeviceSynchronize());
        upto = now();
    } while (upto - t < SECONDS);
    return (double)rounds * n * s->n / (upto - t);
}

static void do_phase(set *s, int phase)
{
    CUDA(stk_pic_phase(&s->l, phase, s->stream));
}

static void do_all(set *s, int copy)
{
    if (copy)
        set_copy(s);
    set_launch(s);
}

static void do_copy(set *s, int phase)
{
    (void)phase;
    set_copy(s);
}

static void bench_gather(album *a, const set *s)
{
    uint8_t *to;
    double t = now(), gather, plan;
    uint64_t n = 0, bytes = 0;

    CUDA(cudaMallocHost((void **)&to, 64 << 20));
    t = now();
    do
        for (uint32_t i = 0; i < s->n; i++, n++) {
            const photo *p = &a->photo[s->of[i]];
            stk_jpeg_job job = { &p->head, p->in, &p->seek };
            stk_pic_gather g;

            stk_scratch_reset(&a->scratch);
            if (stk_pic_jpeg_size(&g, &job, &s->view[i], &a->scratch, NULL) < 0 ||
                g.rec.size > 16 << 20)
                continue;
            stk_pic_gather_write(to + n % 3 * (16 << 20), &g);
            (void)stk_pic_share_of((const stk_pic *)(const void *)(to + n % 3 * (16 << 20)));
            bytes += g.rec.size;
        }
    while (now() - t < SECONDS);
    gather = (now() - t) / (double)n;
    t = now();
    for (int i = 0; i < 100; i++) {
        stk_pic_lists p = s->plan;

        (void)stk_pic_plan(&p, s->item, s->n);
    }
    plan = (now() - t) / 100;
    printf("gather: %.1f us a picture (one thread, records of %.1f KB); plan: %.1f us a batch\n",
           gather * 1e6, (double)bytes / (double)n / 1e3, plan * 1e6);
    CUDA(cudaFreeHost(to));
}

static void bench_open(set *s, album *a, uint32_t batch, int whole)
{
    for (uint32_t i = 0; i < SETS; i++) {
        set_open(&s[i], batch, 224, 224, 0);
        s[i].whole = whole;
        set_fill(&s[i], a, 1);
        set_plan(&s[i]);
        set_copy(&s[i]);
        set_launch(&s[i]);
        set_fetch(&s[i]);
    }
    printf("%s: batches of %u, f16 planes of 224x224;\n    %.1f MB of slab, "
           "%.0f MB "
           "of scratch, %u + %u + %u blocks of threads\n",
           whole ? "without seek points" : "with seek points", batch, (double)s->slab_len / 1e6,
           (double)s->plan.scratch / 1e6, s->plan.n_decode, s->plan.n_across, s->plan.n_down);
}

static void bench_line(set *s, const char *name, void (*what)(set *s, int phase), int phase)
{
    printf("%-26s", name);
    for (uint32_t n = 1; n <= SETS; n++)
        printf(" %8.0f", rate(s, n, what, phase) / 1e3);
    printf("\n");
    fflush(stdout);
}

int bench_all(album *a, uint32_t batch)
{
    static const char *const names[] = { "taps", "sync", "decode", "across", "down" };
    set s[SETS];

    for (int whole = 0; whole < 2; whole++) {
        bench_open(s, a, batch, whole);
        if (!whole)
            bench_gather(a, s);
        printf("k img/s, batches in flight:      1        2        3        4\n");
        for (int phase = 0; phase < STK_PIC_PHASES; phase++)
            if (s->l.n_sync || phase != STK_PIC_SYNC)
                bench_line(s, names[phase], do_phase, phase);
        bench_line(s, "copy to the device", do_copy, 0);
        bench_line(s, "all", do_all, 0);
        bench_line(s, "all, with the copy", do_all, 1);
        for (uint32_t i = 0; i < SETS; i++)
            set_close(&s[i]);
    }
    return 0;
}
