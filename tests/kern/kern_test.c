/* SPDX-License-Identifier: Apache-2.0 */
/* kern_test.c - every kernel at every level against the reference; with --bench, how fast.
 *
 * Sources end at a page that can't be read, so a read too far is a crash in any build;
 * destinations have random guard bytes around, compared too.  Exit status 77: this machine has
 * no level but the reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kern/sample.h"
#include "kern/taps.h"

#define MAX_WIDTH 67 /* every tail length of every vector width */
#define GUARD 64
#define ROOM (1u << 20) /* a source area, before its unreadable page */
#define OUT_BYTES (GUARD + MAX_WIDTH * 3 * 4 + 7 * 4 * 2 + GUARD)

static const uint32_t tap_counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 17 };
#define TAP_COUNTS (sizeof tap_counts / sizeof *tap_counts)

static const stk_dtype dtypes[] = { STK_U8, STK_F16, STK_BF16, STK_F32 };

struct harness {
    const stk_kern *c, *k;
    stk_rng rng;
    uint8_t *room; /* ROOM readable bytes */
    uint8_t ref[OUT_BYTES], got[OUT_BYTES];
    uint64_t checks;
};

/* `bytes` random bytes that end where reading ends. */
static uint8_t *source(struct harness *h, size_t bytes)
{
    uint8_t *p = h->room + ROOM - bytes;

    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)stk_rng_u32(&h->rng);
    return p;
}

static void fill_outputs(struct harness *h)
{
    for (size_t i = 0; i < OUT_BYTES; i++)
        h->ref[i] = h->got[i] = (uint8_t)stk_rng_u32(&h->rng);
}

static void compare(struct harness *h, const char *what, uint32_t width, uint32_t detail)
{
    h->checks++;
    if (!memcmp(h->ref, h->got, OUT_BYTES))
        return;
    for (size_t i = 0; i < OUT_BYTES; i++)
        if (h->ref[i] != h->got[i]) {
            fprintf(stderr, "%s: %s differs at width %u (%u), byte %ld: %u, reference %u\n",
                    h->k->name, what, width, detail, (long)i - GUARD, h->got[i], h->ref[i]);
            exit(1);
        }
}

/* Random weights that sum to 1 << shift. */
static void random_weights(struct harness *h, int16_t *w, uint32_t taps, uint32_t shift)
{
    uint32_t left = 1u << shift;

    for (uint32_t k = 0; k + 1 < taps; k++) {
        w[k] = (int16_t)stk_rng_below(&h->rng, left / (taps - k) + 1);
        left -= (uint32_t)w[k];
    }
    w[taps - 1] = (int16_t)left;
}

static void check_across(struct harness *h, uint32_t n, uint32_t taps)
{
    uint32_t first[MAX_WIDTH], count[MAX_WIDTH], span;
    int16_t weight[MAX_WIDTH * 20] = { 0 };
    stk_taps t = { .n = n,
                   .stride = taps == 1 ? 1 : (taps + 1) & ~1u,
                   .shift = 14,
                   .first = first,
                   .count = count,
                   .weight = weight };
    const uint8_t *src;

    span = t.hi = t.stride + stk_rng_below(&h->rng, 90);
    for (uint32_t i = 0; i < n; i++) {
        first[i] = stk_rng_below(&h->rng, span - t.stride + 1);
        count[i] = stk_rng_below(&h->rng, 9) ? taps : 0;
        if (count[i])
            random_weights(h, weight + i * t.stride, taps, t.shift);
    }
    if (n)
        first[n - 1] = span - t.stride; /* the last window ends where reading ends */
    src = source(h, (size_t)span * 4);
    fill_outputs(h);
    h->c->hresample(h->ref + GUARD, src, &t);
    h->k->hresample(h->got + GUARD, src, &t);
    compare(h, "hresample", n, taps);
}

static void check_down(struct harness *h, uint32_t bytes, uint32_t taps)
{
    const uint8_t *rows[17], *all = source(h, (size_t)bytes * taps);
    uint32_t shift = 14 + stk_rng_below(&h->rng, taps > 2 ? 2 : 1);
    int16_t weight[17];

    for (uint32_t k = 0; k < taps; k++)
        rows[taps - 1 - k] = all + (size_t)k * bytes;
    do
        random_weights(h, weight, taps, shift);
    while (weight[taps - 1] < 0); /* over 16 bits */
    fill_outputs(h);
    h->c->vresample(h->ref + GUARD, rows, weight, taps, shift, bytes);
    h->k->vresample(h->got + GUARD, rows, weight, taps, shift, bytes);
    compare(h, "vresample", bytes, taps);
}

/* A weight of 22 bits, a bit beyond 1 and below 0 as bicubic's are. */
static int32_t fine_weight(struct harness *h, uint32_t taps)
{
    uint32_t most = (5u << 20) / taps;

    return (int32_t)stk_rng_below(&h->rng, most + most / 4) - (int32_t)(most / 4);
}

static void check_fine_across(struct harness *h, uint32_t n, uint32_t taps)
{
    uint32_t first[MAX_WIDTH], count[MAX_WIDTH], stride = (taps + 3) & ~3u, span;
    int32_t weight[MAX_WIDTH * 20] = { 0 }, packed[(MAX_WIDTH + 3) * 20];
    stk_taps t = { .n = n,
                   .stride = stride,
                   .shift = 22,
                   .first = first,
                   .count = count,
                   .fine = weight,
                   .packed = packed };
    const uint8_t *src;

    span = t.hi = stride + stk_rng_below(&h->rng, 90);
    for (uint32_t i = 0; i < n; i++) {
        first[i] = stk_rng_below(&h->rng, span - stride + 1);
        count[i] = stk_rng_below(&h->rng, 9) ? taps : 0;
        for (uint32_t k = 0; k < count[i]; k++)
            weight[i * stride + k] = fine_weight(h, taps);
    }
    if (n)
        first[n - 1] = span - stride;
    src = source(h, (size_t)span * 4);
    fill_outputs(h);
    h->c->pack_fine(&t);
    h->c->hresample_fine(h->ref + GUARD, src, &t);
    h->k->pack_fine(&t);
    h->k->hresample_fine(h->got + GUARD, src, &t);
    compare(h, "hresample_fine", n, taps);
}

static void check_fine_down(struct harness *h, uint32_t bytes, uint32_t taps)
{
    const uint8_t *rows[17], *all = source(h, (size_t)bytes * taps);
    int32_t weight[17];

    for (uint32_t k = 0; k < taps; k++) {
        rows[taps - 1 - k] = all + (size_t)k * bytes;
        weight[k] = fine_weight(h, taps);
    }
    fill_outputs(h);
    h->c->vresample_fine(h->ref + GUARD, rows, weight, taps, bytes);
    h->k->vresample_fine(h->got + GUARD, rows, weight, taps, bytes);
    compare(h, "vresample_fine", bytes, taps);
}

static stk_color random_color(struct harness *h, stk_dtype dtype, uint32_t kind)
{
    static const float scale[] = { 1, 1 / 255.f, 0.0171f, 300, 1e-7f, 1e38f, 0.5f };
    stk_color c = { .dtype = dtype };

    for (int i = 0; i < 3; i++) {
        c.mul[i] = kind ? scale[kind] * (float)(stk_rng_unit(&h->rng) * 4 - 2) : 1;
        c.add[i] = kind ? (float)(stk_rng_unit(&h->rng) * 6 - 3) * (kind == 4 ? 1e-5f : 1) : 0;
    }
    if (kind == 6) /* ties */
        for (int i = 0; i < 3; i++)
            c.mul[i] = c.add[i] = 0.5f;
    return c;
}

static void check_store(struct harness *h, uint32_t n, stk_dtype dtype, uint32_t kind)
{
    stk_color color = random_color(h, dtype, kind);
    const uint8_t *src = source(h, (size_t)n * 4);

    fill_outputs(h);
    h->c->store_planar(h->ref + GUARD, n + 7, src, n, &color);
    h->k->store_planar(h->got + GUARD, n + 7, src, n, &color);
    compare(h, "store_planar", n, dtype);
    h->c->store_packed(h->ref + GUARD, src, n, &color);
    h->k->store_packed(h->got + GUARD, src, n, &color);
    compare(h, "store_packed", n, dtype);
}

/* The C loops are plain enough to be the reference; an error in both would show in what a transform
 * makes. */
static void check_load(struct harness *h, uint32_t n)
{
    const uint8_t *src = source(h, (size_t)n * 3);

    fill_outputs(h);
    h->c->load_packed(h->ref + GUARD, src, n);
    h->k->load_packed(h->got + GUARD, src, n);
    compare(h, "load_packed", n, 0);
    h->c->load_planar(h->ref + GUARD, src, n, n);
    h->k->load_planar(h->got + GUARD, src, n, n);
    compare(h, "load_planar", n, 0);
}

static void check_all(struct harness *h)
{
    for (uint32_t w = 0; w <= MAX_WIDTH; w++)
        for (int round = 0; round < 5; round++) {
            check_load(h, w);
            for (size_t t = 0; t < TAP_COUNTS; t++) {
                check_across(h, w, tap_counts[t]);
                check_down(h, w, tap_counts[t]);
                check_down(h, w * 4, tap_counts[t]);
                check_fine_across(h, w, tap_counts[t]);
                check_fine_down(h, w, tap_counts[t]);
                check_fine_down(h, w * 4, tap_counts[t]);
            }
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                for (uint32_t kind = 0; kind < 7; kind++)
                    check_store(h, w, dtypes[d], kind);
        }
}

/* ---- bench: a photo's crop to 224x224 ---- */

#define ROUNDS 301
#define CROP_W 330
#define CROP_H 260
#define SIDE 224

struct bench {
    const stk_kern *kern;
    stk_view view;
    stk_pixels pixels;
    stk_sample_job job;
    stk_scratch scratch;
    uint8_t filter; /* of bench_views() */
    stk_taps x, y;
    uint8_t *rows; /* CROP_H rows of SIDE pixels */
    uint8_t *line;
};

static void bench_across(struct bench *b)
{
    for (size_t y = 0; y < CROP_H; y++)
        b->kern->hresample(b->rows + y * SIDE * 4, b->pixels.data + y * b->pixels.stride, &b->x);
}

static void bench_down(struct bench *b)
{
    const uint8_t *rows[8];

    for (uint32_t y = 0; y < SIDE; y++) {
        for (uint32_t k = 0; k < b->y.count[y]; k++)
            rows[k] = b->rows + (size_t)(b->y.first[y] + k) * SIDE * 4;
        b->kern->vresample(b->line, rows, b->y.weight + (size_t)y * b->y.stride, b->y.count[y],
                           b->y.shift, SIDE * 4);
    }
}

static void bench_store(struct bench *b)
{
    stk_color color = { .mul = { 0.017f, 0.0175f, 0.0174f },
                        .add = { -2.1f, -2.0f, -1.8f },
                        .dtype = b->job.dtype };

    for (size_t y = 0; y < SIDE; y++)
        if (b->job.layout == STK_CHW)
            b->kern->store_planar((uint8_t *)b->job.dst + y * SIDE * stk_dtype_size(color.dtype),
                                  SIDE * SIDE, b->rows + y * SIDE * 4, SIDE, &color);
        else
            b->kern->store_packed((uint8_t *)b->job.dst +
                                      y * SIDE * 3 * stk_dtype_size(color.dtype),
                                  b->rows + y * SIDE * 4, SIDE, &color);
}

static void bench_taps(struct bench *b)
{
    stk_axis x = { CROP_W, SIDE, 0, SIDE, 0 }, y = { CROP_H, SIDE, 0, SIDE, 0 };

    stk_taps_make(&b->x, &x, b->x.weight);
    stk_taps_slide(&b->x);
    stk_taps_make(&b->y, &y, b->y.weight);
}

static void bench_sample(struct bench *b)
{
    stk_scratch_reset(&b->scratch);
    if (stk_sample_run(b->kern, &b->job, &b->scratch, NULL) < 0)
        exit(1);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* bytes: read and written by one call. */
static void report(struct bench *b, const char *what, void (*once)(struct bench *), size_t bytes)
{
    uint64_t ns[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = stk_now_ns();

        once(b);
        ns[i] = stk_now_ns() - start;
    }
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    printf("{\"what\": \"%s\", \"level\": \"%s\", \"best_ns\": %llu, \"median_ns\": %llu, "
           "\"bytes_per_s\": %.4g}\n",
           what, b->kern->name, (unsigned long long)ns[0], (unsigned long long)ns[ROUNDS / 2],
           (double)bytes * 1e9 / (double)(ns[0] ? ns[0] : 1));
}

static void bench_types(struct bench *b)
{
    static const stk_layout layouts[] = { STK_CHW, STK_HWC };
    char name[64];

    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t l = 0; l < 2; l++) {
            b->job.dtype = dtypes[d];
            b->job.layout = layouts[l];
            snprintf(name, sizeof name, "store %s %s", l ? "hwc" : "chw",
                     stk_dtype_name(dtypes[d]));
            report(b, name, bench_store, (size_t)SIDE * SIDE * (4 + 3 * stk_dtype_size(dtypes[d])));
        }
    b->job.dtype = STK_F32;
    b->job.layout = STK_CHW;
}

static const char *filter_name(uint8_t filter)
{
    return filter & STK_FILTER_PILLOW  ? ", bicubic as Pillow"
           : filter & STK_FILTER_TORCH ? ", bicubic as torch"
           : filter                    ? ", bicubic"
                                       : "";
}

static void bench_views(struct bench *b)
{
    static const uint32_t crops[][2] = {
        { CROP_W, CROP_H }, { 160, 120 }, { SIDE, SIDE }, { 500, 400 }, { 1000, 1000 }
    };
    char name[64];

    for (size_t i = 0; i < sizeof crops / sizeof *crops; i++)
        for (int flip = 0; flip < 2; flip++) {
            b->view = (stk_view){ .filter = b->filter,
                                  .src_w = 1000,
                                  .src_h = 1000,
                                  .clip = { 0, 0, crops[i][0], crops[i][1] },
                                  .res_w = SIDE,
                                  .res_h = SIDE,
                                  .vis_w = SIDE,
                                  .vis_h = SIDE,
                                  .flip_x = (uint8_t)flip };
            snprintf(name, sizeof name, "sample %ux%u%s to 224x224 chw f32%s", crops[i][0],
                     crops[i][1], flip ? " mirrored" : "", filter_name(b->filter));
            report(b, name, bench_sample,
                   (size_t)crops[i][0] * crops[i][1] * 4 + (size_t)SIDE * SIDE * 12);
        }
}

static void bench_level(struct harness *h, const stk_kern *kern)
{
    static const stk_axis axis = { CROP_W, SIDE, 0, SIDE, 0 };
    static const uint8_t filters[] = { STK_BILINEAR, STK_BICUBIC, STK_BICUBIC | STK_FILTER_PILLOW,
                                       STK_BICUBIC | STK_FILTER_TORCH };
    struct bench b = { .kern = kern, .pixels = { .stride = 4000, .area = { 0, 0, 1000, 1000 } } };

    b.pixels.data = stk_alloc(4000 * 1000);
    b.rows = stk_alloc(CROP_H * SIDE * 4);
    b.line = stk_alloc(SIDE * 4);
    b.x.weight = stk_alloc(stk_taps_bytes(&axis));
    b.y.weight = stk_alloc(stk_taps_bytes(&axis));
    b.job = (stk_sample_job){ .view = &b.view,
                              .pixels = &b.pixels,
                              .dtype = STK_F32,
                              .layout = STK_CHW,
                              .mul = { 0.017f, 0.0175f, 0.0174f },
                              .add = { -2.1f, -2.0f, -1.8f },
                              .dst = stk_alloc(SIDE * SIDE * 12) };
    if (!b.pixels.data || !b.rows || !b.line || !b.x.weight || !b.y.weight || !b.job.dst)
        exit(1);
    for (size_t i = 0; i < 4000 * 1000; i++)
        b.pixels.data[i] = (uint8_t)stk_rng_u32(&h->rng);
    report(&b, "taps of both axes", bench_taps, 0);
    report(&b, "hresample 330x260 to 224x260", bench_across, CROP_H * (CROP_W + SIDE) * 4);
    report(&b, "vresample 224x260 to 224x224", bench_down, (CROP_H + SIDE) * SIDE * 4);
    bench_types(&b);
    for (size_t i = 0; i < sizeof filters; i++) {
        b.filter = filters[i];
        bench_views(&b);
    }
    stk_free(b.pixels.data);
    stk_free(b.rows);
    stk_free(b.line);
    stk_free(b.x.weight);
    stk_free(b.y.weight);
    stk_free(b.job.dst);
    stk_scratch_fini(&b.scratch);
}

int main(int argc, char **argv)
{
    static struct harness h;
    stk_cpu best = stk_cpu_level();
    uint8_t *room = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);

    if (room == MAP_FAILED || mprotect(room + ROOM, 4096, PROT_NONE))
        return 1;
    h.room = room;
    h.c = stk_kern_table(STK_CPU_NONE);
    stk_rng_init(&h.rng, 1, 0, 0, 0, 0);
    if (argc == 2 && !strcmp(argv[1], "--bench")) {
        for (int level = STK_CPU_NONE; level <= (int)best; level++)
            bench_level(&h, stk_kern_table((stk_cpu)level));
        return 0;
    }
    for (int level = STK_CPU_NONE + 1; level <= (int)best; level++) {
        h.k = stk_kern_table((stk_cpu)level);
        h.checks = 0;
        check_all(&h);
        printf("%s: %llu comparisons with %s, seed 1\n", h.k->name, (unsigned long long)h.checks,
               h.c->name);
    }
    return best == STK_CPU_NONE ? 77 : 0;
}
