/* SPDX-License-Identifier: Apache-2.0 */
/* What ops draw has the distribution that torchvision's get_params() has: Kolmogorov and Smirnov's
 * distance to it, over 100,000 draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain/chain.h"
#include "kern/tile.h"

#define DRAWS 100000
#define SURE 2.3 /* over sqrt(n): once in 20,000 */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Uniform from lo to hi. */
static void check_uniform(double *v, size_t n, double lo, double hi)
{
    double most = 0;

    assert_true(n > 1000);
    qsort(v, n, sizeof *v, by_size);
    for (size_t i = 0; i < n; i++) {
        double at = (v[i] - lo) / (hi - lo);

        assert_true(at > -1e-4 && at < 1 + 1e-4); /* a hue has 16 bits of a fraction */
        most = fmax(most,
                    fmax(fabs(at - (double)i / (double)n), fabs(at - (double)(i + 1) / (double)n)));
    }
    assert_true(most < SURE / sqrt((double)n));
}

static void draw(const stk_chain *c, uint32_t i, stk_draws *d)
{
    stk_chain_draw(c, &(stk_address){ .seed = 5, .position = i, .epoch = i % 3 },
                   (uint32_t[2]){ 100, 80 }, d, NULL);
}

static double number(const stk_action *a)
{
    int32_t turn = (int32_t)a->v.u[0];

    if (a->code == STK_ACT_hue)
        return (turn > 3 * 65536 ? turn - 6 * 65536 : turn) / (6 * 65536.0);
    return a->code == STK_ACT_BLUR ? a->v.f[2] : a->v.f[0];
}

static void one_number(const char *text, double lo, double hi)
{
    static double v[DRAWS];
    stk_error err;
    stk_chain c;
    stk_draws d;

    assert_int_equal(stk_chain_plan(&c, NULL, "image", text, &err), 0);
    for (uint32_t i = 0; i < DRAWS; i++) {
        draw(&c, i, &d);
        assert_int_equal(d.n_actions, 1);
        v[i] = number(d.action);
    }
    check_uniform(v, DRAWS, lo, hi);
    stk_chain_fini(&c);
}

static void single_ops(void **state)
{
    (void)state;
    one_number("image | brightness(0.4)", 0.6, 1.4);
    one_number("image | contrast(1.5)", 0, 2.5);
    one_number("image | saturation((0.25, 0.5))", 0.25, 0.5);
    one_number("image | hue(0.3)", -0.3, 0.3);
    one_number("image | gaussian_blur(9)", 0.1, 2);
    one_number("image | sharpness((0, 3), p=1)", 0, 3);
}

/* Each of the four is uniform, and all 24 orders come equally often. */
static void jitter(void **state)
{
    static double v[4][DRAWS];
    static const uint16_t codes[4] = { STK_ACT_BRIGHTNESS, STK_ACT_CONTRAST, STK_ACT_saturation,
                                       STK_ACT_hue };
    uint32_t orders[256] = { 0 };
    double chi = 0;
    stk_error err;
    stk_chain c;
    stk_draws d;

    (void)state;
    assert_int_equal(
        stk_chain_plan(&c, NULL, "image", "image | color_jitter(0.4, 0.3, 0.2, 0.1)", &err), 0);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t order = 0;

        draw(&c, i, &d);
        assert_int_equal(d.n_actions, 4);
        for (uint32_t k = 0; k < 4; k++)
            for (uint32_t j = 0; j < 4; j++)
                if (d.action[k].code == codes[j]) {
                    v[j][i] = number(&d.action[k]);
                    order = order << 2 | j;
                }
        orders[order & 255]++;
    }
    check_uniform(v[0], DRAWS, 0.6, 1.4);
    check_uniform(v[1], DRAWS, 0.7, 1.3);
    check_uniform(v[2], DRAWS, 0.8, 1.2);
    check_uniform(v[3], DRAWS, -0.1, 0.1);
    for (uint32_t k = 0; k < 256; k++)
        if (orders[k])
            chi += pow(orders[k] - DRAWS / 24.0, 2) / (DRAWS / 24.0);
    assert_true(chi < 70); /* 23 degrees: once in a million */
    stk_chain_fini(&c);
}

/* What is inside of a step has numbers of its own, equal to none of its neighbours'. */
static void nested(void **state)
{
    static double v[DRAWS];
    stk_error err;
    stk_chain c;
    stk_draws d;
    size_t n = 0;

    (void)state;
    assert_int_equal(stk_chain_plan(&c, NULL, "image",
                                    "image | random_apply(brightness(0.5) | brightness(0.5), p=0.4)"
                                    " | one_of(brightness(0.5), brightness(0.5) | brightness(0.5))",
                                    &err),
                     0);
    for (uint32_t i = 0; i < DRAWS / 5; i++) {
        draw(&c, i, &d);
        assert_true(d.n_actions >= 1 && d.n_actions <= 4);
        for (uint32_t k = 1; k < d.n_actions; k++)
            assert_true(d.action[k].v.f[0] != d.action[k - 1].v.f[0]);
        if (d.n_actions > 2)
            v[n++] = d.action[0].v.f[0];
    }
    assert_true(fabs((double)n / (DRAWS / 5) - 0.4) < 0.02);
    check_uniform(v, n, 0.5, 1.5);
    stk_chain_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ops),
        cmocka_unit_test(jitter),
        cmocka_unit_test(nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
