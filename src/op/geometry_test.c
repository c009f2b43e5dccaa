/* SPDX-License-Identifier: Apache-2.0 */
/* geometry_test - random sequences of crops, a resize and mirrors, against a slow reference that
 * moves every pixel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "op/view.h"

#define SIDE 80
#define SEED 20240612u

struct canvas { /* each pixel is the number of a source pixel; 0 is black */
    int w, h;
    int px[SIDE * SIDE];
};

static struct canvas now, next;

static void slow_crop(int x, int y, int w, int h)
{
    next.w = w;
    next.h = h;
    for (int j = 0; j < h; j++)
        for (int i = 0; i < w; i++) {
            int inside = x + i >= 0 && x + i < now.w && y + j >= 0 && y + j < now.h;

            next.px[j * w + i] = inside ? now.px[(y + j) * now.w + x + i] : 0;
        }
    now = next;
}

static void slow_mirror(void)
{
    next = now;
    for (int j = 0; j < now.h; j++)
        for (int i = 0; i < now.w; i++)
            next.px[j * now.w + i] = now.px[j * now.w + now.w - 1 - i];
    now = next;
}

static void slow_double(void)
{
    next.w = 2 * now.w;
    next.h = 2 * now.h;
    for (int j = 0; j < next.h; j++)
        for (int i = 0; i < next.w; i++)
            next.px[j * next.w + i] = now.px[j / 2 * now.w + i / 2];
    now = next;
}

/* What the view says of output pixel (i, j), for a resize by `scale` to the nearest. */
static int view_pixel(const stk_view *v, int scale, int i, int j)
{
    int x = (v->flip_x ? (int)v->vis_w - 1 - i : i) + v->vis_x, y = j + v->vis_y;

    if (x < 0 || y < 0 || x >= (int)v->res_w || y >= (int)v->res_h)
        return 0;
    return (int)((v->clip.y + (uint32_t)(y / scale)) * v->src_w + v->clip.x +
                 (uint32_t)(x / scale)) +
           1;
}

static void compare(const stk_view *v, int scale, int round)
{
    assert_int_equal(v->vis_w, now.w);
    assert_int_equal(v->vis_h, now.h);
    assert_true(v->clip.w && v->clip.h && v->clip.x + v->clip.w <= v->src_w &&
                v->clip.y + v->clip.h <= v->src_h);
    for (int j = 0; j < now.h; j++)
        for (int i = 0; i < now.w; i++)
            if (view_pixel(v, scale, i, j) != now.px[j * now.w + i])
                fail_msg("round %d: pixel (%d, %d)", round, i, j);
}

/* Whether black and picture are in the canvas so that a resize, or a crop wider than it, can't
 * be drawn. */
static int has_black(void)
{
    for (int i = 0; i < now.w * now.h; i++)
        if (!now.px[i])
            return 1;
    return 0;
}

static int random_ops(stk_rng *rng, stk_view *v, int round)
{
    int scale = 1, beyond = 0;

    for (int k = 0; k < 6; k++) {
        switch (stk_rng_below(rng, 4)) {
        case 0:
            stk_view_mirror(v);
            slow_mirror();
            break;
        case 1:
            if (scale == 2 || now.w > SIDE / 2 || now.h > SIDE / 2)
                break;
            stk_view_resize(v, v->vis_w * 2, v->vis_h * 2);
            if (v->refused) {
                assert_true(has_black());
                return 1;
            }
            slow_double();
            scale = 2;
            break;
        default: {
            int x = (int)stk_rng_below(rng, 30) - 10, y = (int)stk_rng_below(rng, 30) - 10;
            int w = 1 + (int)stk_rng_below(rng, 40), h = 1 + (int)stk_rng_below(rng, 40);

            if (stk_rng_below(rng, 2)) { /* a crop that stays inside */
                x = (int)stk_rng_below(rng, (uint32_t)now.w);
                y = (int)stk_rng_below(rng, (uint32_t)now.h);
                w = 1 + (int)stk_rng_below(rng, (uint32_t)(now.w - x));
                h = 1 + (int)stk_rng_below(rng, (uint32_t)(now.h - y));
            }
            beyond = x < 0 || y < 0 || x + w > now.w || y + h > now.h;
            stk_view_crop(v, x, y, (uint32_t)w, (uint32_t)h);
            if (v->refused) {
                assert_true(beyond);
                return 1;
            }
            slow_crop(x, y, w, h);
        }
        }
        compare(v, scale, round);
    }
    return 0;
}

static void against_the_slow_reference(void **state)
{
    int refused = 0;

    (void)state;
    print_message("seed %u\n", SEED);
    for (int round = 0; round < 20000; round++) {
        stk_view v;
        stk_rng rng;

        stk_rng_init(&rng, SEED, (uint64_t)round, 0, 0, 0);
        now.w = 1 + (int)stk_rng_below(&rng, 30);
        now.h = 1 + (int)stk_rng_below(&rng, 30);
        for (int i = 0; i < now.w * now.h; i++)
            now.px[i] = i + 1;
        stk_view_init(&v, (uint32_t)now.w, (uint32_t)now.h);
        refused += random_ops(&rng, &v, round);
    }
    print_message("%d of 20000 refused\n", refused);
    assert_in_range(refused, 1, 12000);
}

/* Crops that only cut are never refused, whatever comes between. */
static void inner_crops_always_work(void **state)
{
    (void)state;
    for (int round = 0; round < 5000; round++) {
        stk_view v;
        stk_rng rng;

        stk_rng_init(&rng, SEED, (uint64_t)round, 1, 0, 0);
        stk_view_init(&v, 40, 30);
        for (int k = 0; k < 5; k++) {
            uint32_t x = stk_rng_below(&rng, v.vis_w), y = stk_rng_below(&rng, v.vis_h);

            stk_view_crop(&v, (int32_t)x, (int32_t)y, 1 + stk_rng_below(&rng, v.vis_w - x),
                          1 + stk_rng_below(&rng, v.vis_h - y));
            if (stk_rng_below(&rng, 2))
                stk_view_mirror(&v);
            if (k == 2)
                stk_view_resize(&v, 64, 48);
            assert_null(v.refused);
        }
    }
}

static void refusals_say_why(void **state)
{
    stk_view v;

    (void)state;
    stk_view_init(&v, 10, 10);
    stk_view_resize(&v, 20, 20);
    stk_view_resize(&v, 20, 20);
    assert_string_equal(v.refused, "one resize a chain");
    stk_view_init(&v, 10, 10);
    stk_view_crop(&v, -1, 0, 12, 10);
    stk_view_resize(&v, 20, 20);
    assert_string_equal(v.refused, "a resize after a crop larger than the picture: resize first");
    stk_view_init(&v, 10, 10);
    stk_view_crop(&v, INT32_MAX, INT32_MIN, UINT32_MAX, 1);
    assert_non_null(v.refused);
    stk_view_init(&v, 10, 10);
    stk_view_crop(&v, INT32_MAX, INT32_MIN, 1, 1);
    assert_non_null(v.refused);
    stk_view_init(&v, 10, 10);
    stk_view_crop(&v, 0, 0, 0, 1);
    assert_non_null(v.refused);
    stk_view_init(&v, 10, 10);
    stk_view_resize(&v, 0, 1);
    assert_non_null(v.refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_slow_reference),
        cmocka_unit_test(inner_crops_always_work),
        cmocka_unit_test(refusals_say_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
