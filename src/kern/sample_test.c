/* SPDX-License-Identifier: Apache-2.0 */
/* sample_test.c - the sampling pass: against a naive one in doubles, mirrored, black, layouts,
 * bounds, no memory.
 *
 * Pixels are given in a block of exactly the needed size, so that a read beyond it is the
 * sanitizer's to find. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kern/sample.h"

struct picture {
    uint32_t w, h;
    uint8_t *px; /* RGBX */
};

static struct picture picture_new(uint32_t w, uint32_t h, uint64_t seed)
{
    struct picture p = { w, h, stk_alloc((size_t)w * h * 4) };
    stk_rng rng;

    stk_rng_init(&rng, seed, 0, 0, 0, 0);
    for (size_t i = 0; i < (size_t)w * h * 4; i++)
        p.px[i] = (uint8_t)stk_rng_u32(&rng);
    return p;
}

static stk_view view_of(uint32_t w, uint32_t h, stk_rect clip, uint32_t res_w, uint32_t res_h)
{
    return (stk_view){ .src_w = w,
                       .src_h = h,
                       .clip = clip,
                       .res_w = res_w,
                       .res_h = res_h,
                       .vis_w = res_w,
                       .vis_h = res_h,
                       .resized = 1 };
}

static size_t out_elements(const stk_view *v)
{
    return (size_t)3 * v->vis_w * v->vis_h;
}

/* Run with pixels that are `margin` wider than needed where the picture allows. */
static void run(const struct picture *p, stk_sample_job *job, uint32_t margin, const stk_kern *kern)
{
    stk_scratch scratch = { 0 };
    stk_pixels px = { 0 };
    stk_rect n;
    stk_error err;

    stk_sample_need(job->view, &n);
    if (n.w) {
        uint32_t x1 = n.x + n.w + margin, y1 = n.y + n.h + margin;

        assert_true(n.x + n.w <= p->w && n.y + n.h <= p->h);
        px.area.x = n.x > margin ? n.x - margin : 0;
        px.area.y = n.y > margin ? n.y - margin : 0;
        px.area.w = (x1 < p->w ? x1 : p->w) - px.area.x;
        px.area.h = (y1 < p->h ? y1 : p->h) - px.area.y;
        px.stride = (size_t)px.area.w * 4;
        px.data = malloc(px.stride * px.area.h);
        for (uint32_t y = 0; y < px.area.h; y++)
            memcpy(px.data + y * px.stride,
                   p->px + ((size_t)(px.area.y + y) * p->w + px.area.x) * 4, px.stride);
    }
    job->pixels = &px;
    assert_int_equal(stk_sample_run(kern, job, &scratch, &err), 0);
    assert_true(scratch.next <= 4);
    stk_scratch_fini(&scratch);
    free(px.data);
}

static uint8_t *run_u8(const struct picture *p, const stk_view *v, stk_layout layout,
                       const stk_kern *kern)
{
    stk_sample_job job = { .view = v, .dtype = STK_U8, .layout = layout, .mul = { 1, 1, 1 } };

    job.dst = malloc(out_elements(v) + 1);
    run(p, &job, 0, kern);
    return job.dst;
}

/* One axis of the filter on doubles: value(x) over `in`, output i of `res`. */
struct axis_sum {
    double weight, value;
};

static double tap_weight(uint32_t in, uint32_t res, int64_t i, int64_t x)
{
    double scale = (double)in / res, s = scale < 1 ? 1 : scale,
           d = ((double)x + 0.5 - ((double)i + 0.5) * scale) / s;

    d = d < 0 ? 1 + d : 1 - d;
    return d > 0 ? d : 0;
}

static double naive(const struct picture *p, const stk_view *v, int64_t x, int64_t y, int c)
{
    struct axis_sum down = { 0 };

    x += v->vis_x;
    y += v->vis_y;
    if (x < 0 || y < 0 || x >= v->res_w || y >= v->res_h)
        return 0;
    for (uint32_t sy = 0; sy < v->clip.h; sy++) {
        double wy = tap_weight(v->clip.h, v->res_h, y, sy);
        struct axis_sum across = { 0 };

        if (wy <= 0)
            continue;
        for (uint32_t sx = 0; sx < v->clip.w; sx++) {
            double wx = tap_weight(v->clip.w, v->res_w, x, sx);

            across.weight += wx;
            across
                .value += wx *
                          p->px[((size_t)(v->clip.y + sy) * p->w + v->clip.x + sx) * 4 + (size_t)c];
        }
        down.weight += wy;
        down.value += wy * (across.value / across.weight);
    }
    return down.value / down.weight;
}

static void check_naive(const struct picture *p, const stk_view *v)
{
    uint8_t *got = run_u8(p, v, STK_CHW, stk_kern_table(stk_cpu_level()));

    for (uint32_t y = 0; y < v->vis_h; y++)
        for (uint32_t x = 0; x < v->vis_w; x++)
            for (int c = 0; c < 3; c++) {
                double d = naive(p, v, v->flip_x ? v->vis_w - 1 - x : x,
                                 v->flip_y ? v->vis_h - 1 - y : y, c) -
                           got[((size_t)c * v->vis_h + y) * v->vis_w + x];

                assert_true(d < 1.1 && d > -1.1); /* two roundings of a half, and 14 bits */
            }
    free(got);
}

static void random_view(stk_rng *rng, stk_view *v)
{
    uint32_t w = 1 + stk_rng_below(rng, 60), h = 1 + stk_rng_below(rng, 60);
    stk_rect clip = { .x = stk_rng_below(rng, w), .y = stk_rng_below(rng, h) };

    clip.w = 1 + stk_rng_below(rng, w - clip.x);
    clip.h = 1 + stk_rng_below(rng, h - clip.y);
    *v = view_of(w, h, clip, 1 + stk_rng_below(rng, 50), 1 + stk_rng_below(rng, 50));
    if (stk_rng_below(rng, 4) == 0)
        v->res_w = clip.w;
    if (stk_rng_below(rng, 4) == 0)
        v->res_h = clip.h;
    v->vis_x = (int32_t)stk_rng_below(rng, v->res_w + 10) - 5;
    v->vis_y = (int32_t)stk_rng_below(rng, v->res_h + 10) - 5;
    v->vis_w = 1 + stk_rng_below(rng, 50);
    v->vis_h = 1 + stk_rng_below(rng, 50);
    v->flip_x = (uint8_t)stk_rng_below(rng, 2);
    v->flip_y = (uint8_t)stk_rng_below(rng, 2);
}

static void test_random_views(void **state)
{
    stk_rng rng;

    stk_rng_init(&rng, 20, 0, 0, 0, 0);
    for (int i = 0; i < 150; i++) {
        stk_view v;
        struct picture p;

        random_view(&rng, &v);
        p = picture_new(v.src_w, v.src_h, (uint64_t)i);
        check_naive(&p, &v);
        stk_free(p.px);
    }
    (void)state;
}

/* All levels, types and layouts, and pixels wider than needed: the same values. */
static void test_same_bits(void **state)
{
    static const stk_dtype types[] = { STK_U8, STK_F16, STK_BF16, STK_F32 };
    stk_rng rng;

    stk_rng_init(&rng, 21, 0, 0, 0, 0);
    for (int i = 0; i < 200; i++) {
        stk_sample_job job = { .dtype = types[i % 4],
                               .layout = i & 4 ? STK_CHW : STK_HWC,
                               .mul = { 0.017f, 0.0174f, 0.0171f },
                               .add = { -2.1f, -2.03f, -1.8f } };
        struct picture p;
        stk_view v;
        size_t bytes;
        void *a, *b;

        random_view(&rng, &v);
        p = picture_new(v.src_w, v.src_h, (uint64_t)i);
        bytes = out_elements(&v) * stk_dtype_size(job.dtype);
        job.view = &v;
        job.dst = a = malloc(bytes);
        run(&p, &job, 0, stk_kern_table(STK_CPU_NONE));
        job.dst = b = malloc(bytes);
        run(&p, &job, 1 + (uint32_t)i % 7, stk_kern_table(stk_cpu_level()));
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
        stk_free(p.px);
    }
    (void)state;
}

/* Mirrored views give the mirrored picture, bit for bit; packed is planar with its axes turned. */
static void test_mirror_and_layout(void **state)
{
    const stk_kern *kern = stk_kern_table(stk_cpu_level());
    struct picture p = picture_new(71, 53, 3);
    stk_view v = view_of(71, 53, (stk_rect){ 5, 6, 60, 40 }, 45, 37), f = v;
    uint8_t *plain, *turned, *hwc;

    f.flip_x = f.flip_y = 1;
    plain = run_u8(&p, &v, STK_CHW, kern);
    turned = run_u8(&p, &f, STK_CHW, kern);
    hwc = run_u8(&p, &v, STK_CHANNELS_LAST, kern);
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < 37; y++)
            for (size_t x = 0; x < 45; x++) {
                uint8_t value = plain[(c * 37 + y) * 45 + x];

                assert_int_equal(value, turned[(c * 37 + 36 - y) * 45 + 44 - x]);
                assert_int_equal(value, hwc[(y * 45 + x) * 3 + c]);
            }
    free(plain);
    free(turned);
    free(hwc);
    stk_free(p.px);
    (void)state;
}

/* A view that keeps its size is a copy; one that sees nothing is black and needs nothing. */
static void test_copy_and_black(void **state)
{
    const stk_kern *kern = stk_kern_table(stk_cpu_level());
    struct picture p = picture_new(33, 9, 4);
    stk_view v = view_of(33, 9, (stk_rect){ 1, 2, 30, 5 }, 30, 5);
    stk_rect need;
    uint8_t *got = run_u8(&p, &v, STK_HWC, kern);

    for (uint32_t y = 0; y < 5; y++)
        for (uint32_t x = 0; x < 30; x++)
            assert_memory_equal(got + (y * 30 + x) * 3, p.px + ((y + 2) * 33 + x + 1) * 4, 3);
    free(got);
    v.vis_x = 30;
    stk_sample_need(&v, &need);
    assert_int_equal(need.w, 0);
    assert_int_equal(need.h, 0);
    got = run_u8(&p, &v, STK_HWC, kern);
    for (size_t i = 0; i < out_elements(&v); i++)
        assert_int_equal(got[i], 0);
    free(got);
    stk_free(p.px);
    (void)state;
}

/* Extreme sizes: a flat picture stays flat whatever the filter. */
/* Nearest: some columns are outside, and the others see just as many source columns as there are
 * columns. */
static void test_span_of_the_width(void **state)
{
    struct picture p = picture_new(24, 4, 9);
    stk_view v = view_of(24, 4, (stk_rect){ 0, 0, 24, 4 }, 8, 4);
    uint8_t out[24 * 4 * 3];
    stk_sample_job job = {
        .view = &v, .dtype = STK_U8, .layout = STK_HWC, .mul = { 1, 1, 1 }, .dst = out
    };

    (void)state;
    v.filter = STK_NEAREST;
    v.vis_x = -5;
    v.vis_w = 22; /* source columns 1 to 22 are seen: the middles of 8 */
    v.fill[0] = v.fill[1] = v.fill[2] = 7;
    run(&p, &job, 0, &stk_kern_c);
    for (uint32_t x = 0; x < 22; x++) {
        int inside = x >= 5 && x < 13;

        for (int c = 0; c < 3; c++)
            assert_int_equal(out[3 * x + (uint32_t)c],
                             inside ? p.px[4 * (3 * (x - 5) + 1) + (uint32_t)c] : 7);
    }
    stk_free(p.px);
}

static void test_extremes(void **state)
{
    static const uint32_t size[][4] = { { 1, 1, 300, 200 },   { 1, 1, 1, 1 },
                                        { 3000, 2, 1, 5 },    { 2, 3000, 5, 1 },
                                        { 1500, 1400, 3, 2 }, { 2, 3, 900, 700 },
                                        { 65535, 1, 2, 3 },   { 1, 65535, 9, 1 },
                                        { 3, 3, 1, 1 },       { 5, 5, 1, 9 } };

    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        stk_view v = view_of(size[i][0], size[i][1], (stk_rect){ 0, 0, size[i][0], size[i][1] },
                             size[i][2], size[i][3]);
        struct picture p = { v.src_w, v.src_h, stk_alloc((size_t)v.src_w * v.src_h * 4) };
        uint8_t *got;

        for (size_t k = 0; k < (size_t)p.w * p.h; k++)
            memcpy(p.px + 4 * k, "\xff\x01\x80", 4);
        got = run_u8(&p, &v, STK_HWC, stk_kern_table(stk_cpu_level()));
        for (size_t k = 0; k < out_elements(&v); k += 3)
            assert_memory_equal(got + k, "\xff\x01\x80", 3);
        free(got);
        stk_free(p.px);
    }
    (void)state;
}

static void test_color(void **state)
{
    struct picture p = { 1, 1, stk_alloc(4) };
    stk_view v = view_of(1, 1, (stk_rect){ 0, 0, 1, 1 }, 1, 1);
    stk_sample_job job = { .view = &v,
                           .dtype = STK_F32,
                           .layout = STK_CHW,
                           .mul = { 0.5f, 2, 1 },
                           .add = { 1, -300, 0.25f } };
    float f[3];
    uint8_t u[3];

    memcpy(p.px, (uint8_t[]){ 1, 255, 7, 9 }, 4);
    job.dst = f;
    run(&p, &job, 0, stk_kern_table(stk_cpu_level()));
    assert_true(f[0] == 1.5f && f[1] == 210 && f[2] == 7.25f);
    job.dtype = STK_U8;
    job.dst = u;
    run(&p, &job, 0, stk_kern_table(stk_cpu_level()));
    assert_memory_equal(u, ((uint8_t[]){ 2, 210, 7 }), 3); /* 1.5 rounds to even */
    stk_free(p.px);
    (void)state;
}

/* Rows from..upto of what is needed, in memory that is used again after the call. */
static void one_band(const struct picture *p, const stk_rect *n, uint32_t from, uint32_t upto,
                     stk_resampler *s)
{
    stk_pixels px = { .stride = (size_t)n->w * 4, .area = *n };

    px.area.y += from;
    px.area.h = upto - from;
    px.data = malloc(px.stride * px.area.h);
    for (uint32_t y = 0; y < px.area.h; y++)
        memcpy(px.data + y * px.stride, p->px + ((size_t)(px.area.y + y) * p->w + n->x) * 4,
               px.stride);
    stk_sample_band(s, &px);
    memset(px.data, 0xEE, px.stride * px.area.h);
    free(px.data);
}

static void run_bands(const struct picture *p, const stk_sample_job *job, stk_rng *rng)
{
    stk_scratch scratch = { 0 };
    stk_resampler *s;
    stk_error err;
    stk_rect n;
    uint32_t again = stk_rng_below(rng, 3);

    stk_sample_need(job->view, &n);
    assert_int_equal(stk_sample_open(&s, stk_kern_table(stk_cpu_level()), job, &scratch, &err), 0);
    for (uint32_t y = 0, upto; y < n.h; y = upto) {
        upto = y + 1 + stk_rng_below(rng, 9);
        upto = upto < n.h ? upto : n.h;
        one_band(p, &n, y, upto, s);
        if (again && upto == n.h) /* the picture was damaged: another decoder begins at its top */
            upto = 0, again--;
    }
    stk_scratch_fini(&scratch);
}

/* In bands of any height as in one piece. */
static void test_bands(void **state)
{
    static const uint8_t filters[] = { STK_BILINEAR, STK_NEAREST, STK_BICUBIC, STK_LANCZOS };
    stk_rng rng;
    int seen = 0;

    stk_rng_init(&rng, 25, 0, 0, 0, 0);
    for (int i = 0; i < 400; i++) {
        stk_sample_job job = { .dtype = STK_U8,
                               .layout = i & 4 ? STK_CHW : STK_HWC,
                               .mul = { 1, 1, 1 } };
        struct picture p;
        stk_view v;
        stk_rect n;
        void *a, *b;

        random_view(&rng, &v);
        v.filter = filters[i % 4];
        v.fill[1] = i % 3 ? 0 : 77;
        stk_sample_need(&v, &n);
        if (!n.w)
            continue;
        seen++;
        p = picture_new(v.src_w, v.src_h, (uint64_t)i);
        job.view = &v;
        job.dst = a = malloc(out_elements(&v));
        run(&p, &job, 0, stk_kern_table(STK_CPU_NONE));
        job.dst = b = malloc(out_elements(&v));
        run_bands(&p, &job, &rng);
        assert_memory_equal(a, b, out_elements(&v));
        free(a);
        free(b);
        stk_free(p.px);
    }
    assert_true(seen > 200);
    (void)state;
}

static void test_no_memory(void **state)
{
    struct picture p = picture_new(20, 20, 5);
    stk_view v = view_of(20, 20, (stk_rect){ 0, 0, 20, 20 }, 10, 10);
    stk_pixels px = { .data = p.px, .stride = 80, .area = { 0, 0, 20, 20 } };
    stk_sample_job job = {
        .view = &v, .pixels = &px, .dtype = STK_U8, .layout = STK_CHW, .mul = { 1, 1, 1 }
    };
    uint8_t out[300];

    job.dst = out;
    for (uint64_t n = 1;; n++) {
        stk_scratch scratch = { 0 };
        stk_error err;
        int rc;

        stk_mem_fail_at(n);
        rc = stk_sample_run(stk_kern_table(STK_CPU_NONE), &job, &scratch, &err);
        stk_mem_fail_at(0);
        stk_scratch_fini(&scratch);
        if (rc == 0) {
            assert_true(n > 1);
            break;
        }
        assert_int_equal(rc, STK_ENOMEM);
        assert_int_equal(err.code, STK_ENOMEM);
    }
    stk_free(p.px);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_views),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_mirror_and_layout),
        cmocka_unit_test(test_copy_and_black),
        cmocka_unit_test(test_span_of_the_width),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_color),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
