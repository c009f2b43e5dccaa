/* SPDX-License-Identifier: Apache-2.0 */
/* crop_test - the ops as one writes them: what they plan, what they draw, and what they say when
 * they stand wrong.
 *
 * Expected sizes and offsets were worked out from torchvision's definitions (resize,
 * center_crop, RandomResizedCrop). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "base/mem.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "op/view.h"

#define MAX_OPS 8

struct chain {
    stk_spec spec;
    int n;
    const stk_op *op[MAX_OPS];
    double state[MAX_OPS][64];
    stk_error err;
};

#define STK_CODEC(name) &stk_codec_##name,
static const stk_codec *const codecs[] = {
#include "registry.def"
};
#define STK_OP(name) &stk_op_##name,
static const stk_op *const ops[] = {
#include "registry.def"
};

static int plan_call(struct chain *c, const stk_call *call)
{
    const stk_arg *table = NULL;
    int (*run)(void *, const stk_args *, stk_spec *, stk_error *) = NULL;
    size_t size = 0;
    stk_args *args;
    int rc;

    c->op[c->n] = NULL;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (!strcmp(codecs[i]->name, call->name))
            table = codecs[i]->args, run = codecs[i]->plan, size = codecs[i]->state_size;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i]->name, call->name))
            c->op[c->n] = ops[i], table = ops[i]->args, run = ops[i]->plan,
            size = ops[i]->state_size;
    assert_non_null(run);
    assert_true(size <= sizeof c->state[0]);
    rc = stk_args_check(&args, call, table, &c->err);
    if (rc == 0)
        rc = run(c->state[c->n], args, &c->spec, &c->err);
    stk_args_close(&args);
    c->n++;
    return rc;
}

static int plan(struct chain *c, const char *text)
{
    stk_expr *e = NULL;
    int rc;

    memset(c, 0, sizeof *c);
    c->spec = (stk_spec){ .kind = STK_KIND_BYTES, .out = STK_OUT_BYTES };
    rc = stk_expr_parse(&e, text, &c->err);
    for (uint32_t i = 0; rc == 0 && i < e->n_calls; i++)
        rc = plan_call(c, &e->call[i]);
    stk_expr_close(&e);
    return rc;
}

static void draw(const struct chain *c, uint32_t w, uint32_t h, uint64_t position, stk_view *v)
{
    stk_view_init(v, w, h);
    for (int i = 0; i < c->n; i++) {
        stk_rng rng;

        stk_rng_init(&rng, 5, position, 0, 0, (uint8_t)i);
        if (c->op[i] && c->op[i]->draw)
            c->op[i]->draw(c->state[i], &rng, v);
    }
}

static void good(struct chain *c, const char *text)
{
    if (plan(c, text) < 0)
        fail_msg("%s: %s", text, c->err.message);
}

static void refuses(const char *text, int code, const char *message)
{
    struct chain c;

    assert_int_equal(plan(&c, text), code);
    assert_string_equal(c.err.message, message);
}

static void wrong_order(void **state)
{
    (void)state;
    refuses("hflip", STK_EINVAL, "hflip works on an image: put `image` before it");
    refuses("int | resize(5)", STK_EINVAL, "resize works on an image: put `image` before it");
    refuses("json(a) | image", STK_EINVAL, "image reads a field's bytes: put it first");
    refuses("image | image", STK_EINVAL, "image reads a field's bytes: put it first");
    refuses("image | int", STK_EINVAL,
            "int reads a field's bytes: put it first, or after json(...)");
    refuses("image | to(f32) | hflip", STK_EINVAL,
            "hflip comes after `to`: `to` must be the last of a chain");
    refuses("image | normalize(half) | center_crop(3)", STK_EINVAL,
            "center_crop comes after `normalize`: put it before");
    refuses("image | normalize(half) | normalize(half)", STK_EINVAL,
            "normalize comes twice: leave one");
    refuses("image | to(f32) | normalize(half)", STK_EINVAL,
            "normalize comes after `to`: `to` must be the last of a chain");
    refuses("image | to(u8) | to(f32)", STK_EINVAL, "to comes twice: leave one");
    refuses("bytes | to(f32)", STK_EINVAL, "to works on an image: put `image` before it");
}

static void wrong_arguments(void **state)
{
    (void)state;
    refuses("image | resize(0)", STK_EINVAL, "resize: a side of 0 pixels is not in 1..65535");
    refuses("image | resize((5, 70000))", STK_EINVAL,
            "resize: a side of 70000 pixels is not in 1..65535");
    refuses("image | resize((1, 2, 3))", STK_EINVAL,
            "resize: size is one number or (height, width), not 3 numbers");
    refuses("image | resize(50, max_size=50)", STK_EINVAL,
            "resize: max_size=50 must be larger than size=50, at most 65535");
    refuses("image | resize((5, 6), max_size=50)", STK_EINVAL,
            "resize: max_size goes with one number as size, not with (height, width)");
    refuses("image | hflip(1.5)", STK_EINVAL, "hflip: p=1.5 is not in 0..1");
    refuses("image | random_resized_crop(5, scale=0.5)", STK_EINVAL,
            "random_resized_crop: scale takes (least, most), not 1 numbers");
    refuses("image | random_resized_crop(5, scale=(0.5, 0.2))", STK_EINVAL,
            "random_resized_crop: scale=(0.5, 0.2) must be (least, most), above 0");
    refuses("image | random_resized_crop(5, scale=(0.5, 2))", STK_EINVAL,
            "random_resized_crop: scale=(0.5, 2) is more than the picture");
    refuses("image | random_resized_crop(5, ratio=(0, 2))", STK_EINVAL,
            "random_resized_crop: ratio=(0, 2) must be (least, most), above 0");
    refuses("image | normalize(imagnet)", STK_EINVAL,
            "normalize: `imagnet` is not known: did you mean `imagenet`?");
    refuses("image | normalize((0.5, 0.5, 0.5))", STK_EINVAL,
            "normalize: std is missing: write normalize((r, g, b), (r, g, b))");
    refuses("image | normalize((0.5, 0.5, 0.5), (1, 0, 1))", STK_EINVAL,
            "normalize: std has 0, must be above 0");
    refuses("image | normalize((0.5, 0.5), (1, 1))", STK_EINVAL,
            "normalize: mean is three numbers, one a channel, on the scale 0..1");
    refuses("image | normalize(half) | to(u8)", STK_EINVAL,
            "to(u8) after normalize would lose everything: take f16, bf16 or f32");
    refuses("image | to(f17)", STK_EINVAL, "to: `f17` is not known: did you mean `f16`?");
    refuses("image | to(f16, f32)", STK_EINVAL, "to: `f32` is a second type");
    refuses("json(a..b)", STK_EINVAL, "json: path `a..b` has an empty step: write it as a.b.3.c");
}

static void planned_rows(void **state)
{
    struct chain c;

    (void)state;
    good(&c, "image");
    assert_int_equal(c.spec.out, STK_OUT_LIST);
    assert_int_equal(c.spec.dtype, STK_U8);
    assert_int_equal(c.spec.picture.layout, STK_CHW);
    good(&c, "image | resize(256) | center_crop((224, 192))");
    assert_int_equal(c.spec.out, STK_OUT_DENSE);
    assert_int_equal(c.spec.picture.height, 224);
    assert_int_equal(c.spec.picture.width, 192);
    good(&c, "image | resize(256)");
    assert_int_equal(c.spec.out, STK_OUT_LIST);
    good(&c, "image | center_crop((100, 300)) | resize(50)");
    assert_int_equal(c.spec.picture.width, 150);
    good(&c, "image | normalize(imagenet)");
    assert_int_equal(c.spec.dtype, STK_F32);
    for (int x = 0; x < 256; x++)
        assert_true(fabs((double)x * c.spec.picture.mul[1] + c.spec.picture.add[1] -
                         (x / 255.0 - 0.456) / 0.224) < 1e-6);
    good(&c, "image | to(f16)");
    assert_true(c.spec.picture.mul[0] == 1.0f / 255 && c.spec.dtype == STK_F16);
    good(&c, "image | to(float32, scale=false)");
    assert_true(c.spec.picture.mul[2] == 1 && c.spec.dtype == STK_F32);
    good(&c, "image | to(hwc)");
    assert_true(c.spec.picture.layout == STK_HWC && c.spec.dtype == STK_U8 &&
                c.spec.picture.mul[0] == 1);
    good(&c, "image | to(u8, channels_last)");
    assert_int_equal(c.spec.picture.layout, STK_CHANNELS_LAST);
    good(&c, "image | normalize((0.1, 0.2, 0.3), std=(1, 2, 4)) | to(bf16, layout=hwc)");
    assert_true(c.spec.dtype == STK_BF16 && c.spec.picture.mul[2] == 1.0f / 1020 &&
                c.spec.picture.add[1] == -0.1f);
    good(&c, "json(a.b.3) | text");
    assert_int_equal(c.spec.out, STK_OUT_TEXT);
}

static void resize_sides(void **state)
{
    static const struct {
        const char *chain;
        uint32_t w, h, out_w, out_h;
    } cases[] = {
        { "image | resize(256)", 500, 375, 341, 256 }, /* int(256 * 500 / 375) = int(341.33) */
        { "image | resize(256)", 375, 500, 256, 341 },
        { "image | resize(256)", 256, 256, 256, 256 },
        { "image | resize(7)", 3, 1000, 7, 2333 },
        { "image | resize((30, 40))", 500, 375, 40, 30 },
        { "image | resize(256, max_size=300)", 500, 375, 300,
          225 }, /* int(300 * 256 / 341) = 225 */
        { "image | resize(256, 300)", 300, 300, 256, 256 },
    };
    struct chain c;
    stk_view v;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        good(&c, cases[i].chain);
        draw(&c, cases[i].w, cases[i].h, 0, &v);
        assert_null(v.refused);
        assert_int_equal(v.vis_w, cases[i].out_w);
        assert_int_equal(v.vis_h, cases[i].out_h);
        assert_int_equal(v.clip.w, cases[i].w);
    }
    good(&c, "image | resize(2000)");
    draw(&c, 1, 65535, 0, &v);
    assert_non_null(v.refused);
    good(&c, "image | resize(2, max_size=3)");
    draw(&c, 1, 65535, 0, &v);
    assert_non_null(v.refused);
}

static void center_crop_offsets(void **state)
{
    static const struct {
        uint32_t have, want;
        int32_t at;
    } cases[] = {
        { 10, 4, 3 }, { 9, 4, 2 },  { 11, 4, 4 }, { 7, 4, 2 },
        { 5, 4, 0 },  { 4, 4, 0 }, /* 2.5 to 2, 3.5 to 4, 1.5 to 2 */
        { 4, 5, 0 },  { 4, 6, -1 }, { 4, 7, -1 }, { 1, 9, -4 },
    };
    char text[64];
    struct chain c;
    stk_view v;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "image | resize((50, %u)) | center_crop((20, %u))",
                 cases[i].have, cases[i].want);
        good(&c, text);
        draw(&c, 100, 100, 0, &v);
        assert_null(v.refused);
        assert_int_equal(v.vis_x, cases[i].at);
        assert_int_equal(v.vis_w, cases[i].want);
        assert_int_equal(v.vis_y, 15);
    }
}

/* The rectangle by torchvision's algorithm, written down once more, with the C library's log and
 * exp. */
static stk_rect slow_rrc(uint32_t w, uint32_t h, const double *scale, const double *ratio,
                         stk_rng *rng)
{
    double in = (double)w / h, tw = w, th = h;

    for (int i = 0; i < 10; i++) {
        double area = (double)w * h * (scale[0] + (scale[1] - scale[0]) * stk_rng_unit(rng));
        double aspect = exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * stk_rng_unit(rng));
        double cw = rint(sqrt(area * aspect)), ch = rint(sqrt(area / aspect));

        if (cw > 0 && cw <= w && ch > 0 && ch <= h) {
            uint32_t y = stk_rng_below(rng, h - (uint32_t)ch + 1),
                     x = stk_rng_below(rng, w - (uint32_t)cw + 1);

            return (stk_rect){ x, y, (uint32_t)cw, (uint32_t)ch };
        }
    }
    if (in < ratio[0])
        th = rint(w / ratio[0]);
    else if (in > ratio[1])
        tw = rint(h * ratio[1]);
    return (stk_rect){ (w - (uint32_t)tw) / 2, (h - (uint32_t)th) / 2, (uint32_t)tw, (uint32_t)th };
}

static void random_resized_crop_rectangles(void **state)
{
    static const uint32_t sizes[][2] = { { 500, 375 }, { 375, 500 }, { 224, 224 }, { 2000, 30 },
                                         { 30, 2000 }, { 7, 5 },     { 2, 3 },     { 3000, 2 } };
    static const double scale[] = { 0.08, 1 }, ratio[] = { 0.75, 1.3333333333333333 };
    struct chain c;
    stk_view v;

    (void)state;
    good(&c, "image | random_resized_crop((20, 30))");
    assert_int_equal(c.spec.picture.width, 30);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t p = 0; p < 3000; p++) {
            stk_rng rng;
            stk_rect want;

            draw(&c, sizes[s][0], sizes[s][1], p, &v);
            stk_rng_init(&rng, 5, p, 0, 0, 1);
            want = slow_rrc(sizes[s][0], sizes[s][1], scale, ratio, &rng);
            assert_null(v.refused);
            assert_memory_equal(&v.clip, &want, sizeof want);
            assert_int_equal(v.vis_w, 30);
            assert_int_equal(v.vis_h, 20);
        }
}

/* Distribution on a large picture: area share and log ratio are uniform over their ranges. */
static void random_resized_crop_is_uniform(void **state)
{
    double area = 0, aspect = 0;
    struct chain c;
    stk_view v;
    int n = 20000;

    (void)state;
    good(&c, "image | random_resized_crop(8, scale=(0.1, 0.5), ratio=(0.5, 2))");
    for (int p = 0; p < n; p++) {
        draw(&c, 4000, 4000, (uint64_t)p, &v);
        area += v.clip.w * (double)v.clip.h / 16e6 / n;
        aspect += log(v.clip.w / (double)v.clip.h) / n;
    }
    assert_true(fabs(area - 0.3) < 0.004);
    assert_true(fabs(aspect) < 0.012);
}

static void hflip_share(void **state)
{
    struct chain c;
    stk_view v;
    int flips = 0;

    (void)state;
    good(&c, "image | hflip(0.25)");
    for (uint64_t p = 0; p < 10000; p++) {
        draw(&c, 8, 8, p, &v);
        flips += v.flip_x;
    }
    assert_in_range(flips, 2350, 2650);
    good(&c, "image | hflip(0)");
    draw(&c, 8, 8, 0, &v);
    assert_int_equal(v.flip_x, 0);
    good(&c, "image | hflip(1) | hflip(1) | hflip(1)");
    draw(&c, 8, 8, 0, &v);
    assert_int_equal(v.flip_x, 1);
}

static void every_argument_has_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        assert_int_equal(ops[i]->abi, STK_PLUGIN_ABI);
        assert_non_null(ops[i]->help);
        for (const stk_arg *a = ops[i]->args; a->name; a++)
            assert_non_null(a->help);
    }
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        for (const stk_arg *a = codecs[i]->args; a->name; a++)
            assert_non_null(a->help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_order),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(planned_rows),
        cmocka_unit_test(resize_sides),
        cmocka_unit_test(center_crop_offsets),
        cmocka_unit_test(random_resized_crop_rectangles),
        cmocka_unit_test(random_resized_crop_is_uniform),
        cmocka_unit_test(hflip_share),
        cmocka_unit_test(every_argument_has_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
