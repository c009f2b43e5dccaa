/* SPDX-License-Identifier: Apache-2.0 */
/* pic_on_gpu_test - records of pictures that are on the GPU: whatever they say, the kernels'
 * functions read no pixel that there is not and write nowhere else (run with sanitizers); what
 * does not fit the launch is found.  Sound ones: tests/gpu/host/transform_gpu_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "gpu/pic_program.h"
#include "gpu/pic_host_test.h"

#define SEED 20261115u
#define N 8

#define EACH 16384 /* bytes for a record */
#define MORE 1024  /* bytes after the records: another kind is larger */

typedef struct bench {
    stk_rng rng;
    stk_pic_item item[N];
    stk_pic_source source[N];
    uint8_t *slab;
    stk_pic_lists lists;
    stk_pic_launch l;
    uint32_t status[N];
} bench;

static uint32_t below(bench *b, uint32_t n)
{
    return stk_rng_below(&b->rng, n);
}

static stk_pic *record(const bench *b, uint32_t i)
{
    return (stk_pic *)(void *)(b->slab + b->item[i].at);
}

static stk_view random_view(bench *b, uint32_t w, uint32_t h)
{
    stk_view v;

    stk_view_init(&v, w, h);
    if (below(b, 2))
        stk_view_resize(&v, 1 + below(b, 40), 1 + below(b, 40));
    stk_view_crop(&v, (int32_t)below(b, 40) - 20, (int32_t)below(b, 40) - 20, 1 + below(b, 30),
                  1 + below(b, 30));
    if (below(b, 2))
        stk_view_mirror(&v);
    v.filter = (uint8_t)below(b, 4);
    v.filter |= v.filter == STK_NEAREST || below(b, 2) ? 0 : STK_FILTER_PILLOW;
    v.fill[0] = (uint8_t)below(b, 256);
    return v;
}

/* Actions of every code that device code knows, with numbers that fit. */
static void random_actions(bench *b, stk_draws *d)
{
    static const uint16_t codes[] = {
        STK_ACT_BRIGHTNESS,    STK_ACT_solarize,     STK_ACT_CONTRAST,
        STK_ACT_AUTOCONTRAST,  STK_ACT_EQUALIZE,     STK_ACT_NOISE,
        STK_ACT_BLUR,          STK_ACT_SHARPNESS,    STK_ACT_ERASE,
        STK_ACT_WARP,          STK_ACT_JPEG,         STK_ACT_PIL_BRIGHTNESS,
        STK_ACT_SOLARIZE_ADD,  STK_ACT_PIL_CONTRAST, STK_ACT_PIL_AUTOCONTRAST,
        STK_ACT_PIL_SHARPNESS, STK_ACT_PIL_BOX,      STK_ACT_PIL_WARP,
        STK_ACT_MIX_BEGIN,     STK_ACT_MIX_WARP,     STK_ACT_MIX_ADD,
        STK_ACT_MIX_END,
#define STK_PIXEL(name) STK_ACT_##name,
#include "op/pixels.def"
    };

    d->n_actions = below(b, 6);
    for (uint32_t i = 0; i < d->n_actions; i++) {
        stk_action *a = &d->action[i];

        *a = (stk_action){ .code = codes[below(b, sizeof codes / sizeof *codes)] };
        for (int k = 0; k < 10; k++)
            a->v.u[k] = below(b, 40);
        for (int k = 0; k < 8 && a->code == STK_ACT_WARP; k++)
            a->v.f[k] = k < 6 ? (float)below(b, 40) / 16 - 1 : (float)below(b, 3) / 100;
        if (a->code == STK_ACT_BLUR || a->code == STK_ACT_hsv)
            a->v.f[2] = 1.5f;
        if (a->code == STK_ACT_PIL_WARP || a->code == STK_ACT_MIX_WARP) {
            stk_pil_number v = { .d = (double)below(b, 64) / 32 - 1 };

            memcpy(a->v.u, v.u, sizeof v.u);
            memcpy(a->v.u + 2, v.u, sizeof v.u);
            a->v.u[4] = below(b, 5);
            a->v.u[8] = below(b, 3);
        } else if (a->code == STK_ACT_PIL_BOX) {
            a->v.u[1] = below(b, 1 << 22);
            a->v.u[3] = below(b, 2);
        } else if (a->code != STK_ACT_BLUR && a->code != STK_ACT_WARP && below(b, 2))
            a->v.f[0] = 0.7f;
        if (a->code == STK_ACT_JPEG)
            a->v.u[0] = 1 + below(b, 100);
        if (a->code == STK_ACT_hue || a->code == STK_ACT_hsv)
            a->v.u[0] = below(b, 6 << 16);
    }
}

/* A record of a view and a program, and room for what it makes. */
static void random_record(bench *b, uint32_t i, const stk_view *v, uint32_t w, uint32_t h)
{
    stk_pic_program program;
    stk_draws d = { .n_passes = 1, .view = { *v } };
    size_t at = b->item[i].at;
    stk_error err;
    stk_pic head;

    random_actions(b, &d);
    if (below(b, 3) == 0) {
        d.view[1] = random_view(b, v->vis_w, v->vis_h);
        d.from[1] = d.n_actions / 2;
        d.n_passes = 2;
    }
    b->item[i].out_bytes = (uint64_t)stk_draws_last(&d)->vis_w * stk_draws_last(&d)->vis_h * 3;
    b->item[i].out = malloc(b->item[i].out_bytes);
    assert_int_equal(stk_pic_program_make(&program, &d, &err), 0);
    stk_pic_on_gpu_head(&head, v, w, h);
    stk_pic_program_add(&program, &head);
    assert_true(head.size <= EACH);
    memset(b->slab + at, 0, head.size);
    memcpy(b->slab + at, &head, sizeof head);
    stk_pic_program_write(&program, b->slab + at);
}

static void bench_open(bench *b, uint32_t round)
{
    size_t rec = EACH;
    stk_error err;

    memset(b, 0, sizeof *b);
    stk_rng_init(&b->rng, SEED, round, 0, 0, 0);
    b->slab = aligned_alloc(64, N * rec + MORE);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t w = 1 + below(b, 60), h = 1 + below(b, 50);
        stk_view v = random_view(b, w, h);

        b->item[i] = (stk_pic_item){ .at = i * rec, .source = N - 1 - i };
        b->source[N - 1 - i] = (stk_pic_source){ .data = malloc((size_t)w * h * 3),
                                                 .step_x = 3,
                                                 .step_y = 3 * (int64_t)w,
                                                 .step_c = 1,
                                                 .width = w,
                                                 .height = h };
        assert_int_equal(stk_pic_on_gpu_takes(&v, w, h, &err), 0);
        random_record(b, i, &v, w, h);
        memset((void *)(uintptr_t)b->source[N - 1 - i].data, 7, (size_t)w * h * 3);
        b->item[i].share = stk_pic_share_of(record(b, i));
    }
    b->l = (stk_pic_launch){ .slab = b->slab,
                             .slab_len = N * rec + MORE,
                             .source = b->source,
                             .n_sources = N,
                             .status = b->status,
                             .mul = { 1, 1, 1 } };
}

/* Exactly as much memory as the plan says. */
static void bench_plan(bench *b)
{
    b->lists.room = stk_pic_lists_bytes(b->item, N);
    b->lists.memory = aligned_alloc(64, (b->lists.room + 63) & ~(size_t)63);
    b->lists.scratch_room = UINT64_MAX;
    assert_int_equal(stk_pic_plan(&b->lists, b->item, N), N);
    stk_pic_launch_lists(&b->l, &b->lists, b->lists.memory);
    b->l.scratch = aligned_alloc(64, b->lists.scratch + 64);
    memset(b->l.scratch, 0x5A, b->lists.scratch + 64);
}

static void bench_close(bench *b)
{
    for (uint32_t i = 0; i < N; i++) {
        free((void *)(uintptr_t)b->source[i].data);
        free(b->item[i].out);
    }
    free(b->slab);
    free(b->lists.memory);
    free(b->l.scratch);
}

static void hostile_records(void **state)
{
    uint32_t found = 0;
    bench b;

    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        bench_open(&b, round);
        if (round & 1) /* bits change after the plan's back, or before it */
            bench_plan(&b);
        for (uint32_t i = 0; i < N; i++) {
            stk_pic *r = record(&b, i);

            for (uint32_t k = below(&b, 4); k < 4; k++)
                ((uint8_t *)r)[below(&b, k & 1 && r->size <= EACH && r->prog.n_steps
                                             ? r->size
                                             : sizeof *r)] ^= (uint8_t)(1u << below(&b, 8));
            if (!(round & 1)) {
                r->size = r->size > b.l.slab_len - b.item[i].at ? 0 : r->size;
                b.item[i].share = stk_pic_share_of(r);
                if (stk_pic_share_scratch(&b.item[i].share) > 1 << 24)
                    b.item[i].share = (stk_pic_share){ 0 };
            }
        }
        if (!(round & 1))
            bench_plan(&b);
        host_run(&b.l);
        for (uint32_t i = 0; i < N; i++)
            found += b.status[i] != 0;
        bench_close(&b);
    }
    print_message("%u hostile records found\n", found);
    assert_true(found > 5000);
}

static uint32_t bad(const bench *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N; i++)
        n += b->status[i] == STK_PIC_BAD_RECORD;
    return n;
}

static void other_launches(void **state)
{
    bench b;

    (void)state;
    for (uint32_t round = 0; round < 6; round++) {
        bench_open(&b, round);
        switch (round) {
        case 1: b.l.source = NULL; break;
        case 2: b.l.n_sources = N / 2; break;
        case 3: b.l.dtype = STK_PIC_AS_F16; break;
        case 4: b.source[3].width++; break;
        case 5: b.item[5].out_bytes--; break;
        }
        bench_plan(&b);
        host_run(&b.l);
        assert_int_equal(bad(&b), ((const uint32_t[]){ 0, N, N / 2, N, 1, 1 })[round]);
        bench_close(&b);
    }
}

/* A record that stands alone has no place in a launch of pictures that are there. */
static void another_kind(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 1);
    assert_true(stk_pic_plain_size(3) <= MORE);
    (void)stk_pic_plain_write(record(&b, N - 1), STK_PIC_READY, 1, 1, 3);
    b.item[N - 1].share = stk_pic_share_of(record(&b, N - 1));
    b.item[N - 1].out_bytes = 3;
    bench_plan(&b);
    host_run(&b.l);
    assert_int_equal(bad(&b), 1);
    assert_int_equal(b.status[N - 1], STK_PIC_BAD_RECORD);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_records),
        cmocka_unit_test(other_launches),
        cmocka_unit_test(another_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
