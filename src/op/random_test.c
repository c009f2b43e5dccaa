/* SPDX-License-Identifier: Apache-2.0 */
/* random_test - what random ops share: arguments that are read and refused, and numbers that are
 * the same on every machine, against libm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "base/rng.h"
#include "op/random.h"

static const stk_arg table[] = {
    STK_ARG_P("0.5"),
    { "fill", STK_ARG_FLOATS, "0", "a color" },
    { "v", STK_ARG_FLOATS, "0", "a number or a range" },
    { 0 },
};

typedef struct parsed {
    stk_expr *e;
    stk_args *args;
    stk_error err;
} parsed;

static void parse(parsed *p, const char *text)
{
    memset(p, 0, sizeof *p);
    assert_int_equal(stk_expr_parse(&p->e, text, &p->err), 0);
    assert_int_equal(stk_args_check(&p->args, &p->e->call[0], table, &p->err), 0);
}

static void done(parsed *p)
{
    stk_args_close(&p->args);
    stk_expr_close(&p->e);
}

/* ---- arguments ---- */

static void how_often(void **state)
{
    static const struct {
        const char *text;
        double p; /* below 0: refused */
    } cases[] = { { "op()", 0.5 },
                  { "op(p=0)", 0 },
                  { "op(p=1)", 1 },
                  { "op(p=1.01)", -1 },
                  { "op(p=-0.01)", -1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = -1;
        parsed p;
        int rc;

        parse(&p, cases[i].text);
        rc = stk_arg_p(p.args, "op", &got, &p.err);
        assert_int_equal(rc, cases[i].p < 0 ? STK_EINVAL : 0);
        if (cases[i].p >= 0)
            assert_true(got == cases[i].p);
        else
            assert_non_null(strstr(p.err.message, "op: p="));
        done(&p);
    }
}

static void fill_is_one_color(void **state)
{
    static const struct {
        const char *text;
        uint32_t fill;
        const char *why; /* NULL: it is taken */
    } cases[] = { { "op()", 0, NULL },
                  { "op(fill=128)", 0x808080, NULL },
                  { "op(fill=(1, 2, 3))", 0x030201, NULL },
                  { "op(fill=(255, 0, 254.9))", 0xFE00FF, NULL },
                  { "op(fill=(1, 2))", 0, "one number or three, not 2" },
                  { "op(fill=256)", 0, "fill=256 is not in 0..255" },
                  { "op(fill=(0, 0, -1))", 0, "fill=-1 is not in 0..255" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t got = UINT32_MAX; /* what was there is not kept */
        parsed p;
        int rc;

        parse(&p, cases[i].text);
        rc = stk_arg_fill(p.args, "op", &got, &p.err);
        assert_int_equal(rc, cases[i].why ? STK_EINVAL : 0);
        if (cases[i].why)
            assert_non_null(strstr(p.err.message, cases[i].why));
        else
            assert_int_equal(got, cases[i].fill);
        done(&p);
    }
}

typedef int (*range_fn)(const stk_args *args, const char *op, const char *name, stk_range *out,
                        stk_error *err);

static int plain_range(const stk_args *args, const char *op, const char *name, stk_range *out,
                       stk_error *err)
{
    return stk_arg_range(args, op, name, (stk_range){ -1, 4 }, out, err);
}

static void ranges(void **state)
{
    static const struct {
        range_fn read;
        const char *text;
        int rc;
        double lo, hi;
    } cases[] = {
        { plain_range, "op(v=2)", 0, 2, 2 },
        { plain_range, "op(v=(-1, 4))", 0, -1, 4 },
        { plain_range, "op(v=(-1.1, 4))", STK_EINVAL, 0, 0 },
        { plain_range, "op(v=(3, 2))", STK_EINVAL, 0, 0 },
        { plain_range, "op(v=(1, 2, 3))", STK_EINVAL, 0, 0 },
        { stk_arg_factor, "op(v=0.25)", 0, 0.75, 1.25 },
        { stk_arg_factor, "op(v=3)", 0, 0, 4 }, /* cut off at 0 */
        { stk_arg_factor, "op(v=(0.5, 2))", 0, 0.5, 2 },
        { stk_arg_factor, "op(v=-0.1)", STK_EINVAL, 0, 0 },
        { stk_arg_factor, "op(v=(-0.1, 2))", STK_EINVAL, 0, 0 },
        { stk_arg_turn, "op(v=0.5)", 0, -0.5, 0.5 },
        { stk_arg_turn, "op(v=(-0.125, 0.25))", 0, -0.125, 0.25 },
        { stk_arg_turn, "op(v=0.6)", STK_EINVAL, 0, 0 },
        { stk_arg_turn, "op(v=(0, 0.6))", STK_EINVAL, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_range got = { 9, 9 };
        parsed p;

        parse(&p, cases[i].text);
        assert_int_equal(cases[i].read(p.args, "op", "v", &got, &p.err), cases[i].rc);
        if (cases[i].rc)
            assert_non_null(strstr(p.err.message, "op: v"));
        else
            assert_true(got.lo == cases[i].lo && got.hi == cases[i].hi);
        done(&p);
    }
}

/* ---- numbers ---- */

static stk_rng rng_of(uint64_t position)
{
    stk_rng rng;

    stk_rng_init(&rng, 7, position, 0, 0, 0);
    return rng;
}

static void draws_are_in_their_range(void **state)
{
    const stk_range one = { 3, 3 }, wide = { -2, 6 };
    uint32_t hits = 0, n = 4000;
    double sum = 0;

    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        stk_rng rng = rng_of(i);
        double v = stk_between(&rng, &wide);

        assert_true(v >= -2 && v < 6);
        sum += v;
        hits += (uint32_t)stk_hits(&rng, 0.25);
        assert_true(stk_between(&rng, &one) == 3);
        assert_true(stk_hits(&rng, 1) && !stk_hits(&rng, 0));
    }
    /* five standard errors: 8 / sqrt(12 n), sqrt(3 / 16 n) */
    assert_true(fabs(sum / n - 2) < 5 * 8 / sqrt(12. * n));
    assert_true(fabs((double)hits / n - 0.25) < 5 * sqrt(3. / 16 / n));
}

static void streams_differ_by_position(void **state)
{
    uint32_t a[5], b[5], c[5];
    stk_rng x = rng_of(1), y = rng_of(1), z = rng_of(2);

    (void)state;
    stk_op_stream(&x, a);
    stk_op_stream(&y, b);
    stk_op_stream(&z, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

static void as_libm(void **state)
{
    (void)state;
    for (double x = 1e-6; x <= 1e6; x *= 1.37)
        assert_true(fabs(stk_log(x) - log(x)) <= 1e-12 * (1 + fabs(log(x))));
    for (double d = -720; d <= 720; d += 7.25) {
        double s, c, r = d * 3.14159265358979323846 / 180;

        stk_sincos(d, &s, &c);
        assert_true(fabs(s - sin(r)) < 1e-12 && fabs(c - cos(r)) < 1e-12);
    }
}

static void quarters_are_exact(void **state)
{
    static const double sine[4] = { 0, 1, 0, -1 };

    (void)state;
    for (int k = -8; k <= 8; k++) {
        double s, c;

        stk_sincos(90.0 * k, &s, &c);
        assert_true(s == sine[(k + 8) % 4] && c == sine[(k + 9) % 4]);
    }
}

static void hues_go_round(void **state)
{
    (void)state;
    assert_int_equal(stk_hue_sixths(0), 0);
    assert_int_equal(stk_hue_sixths(0.5), 3 * 65536);
    assert_int_equal(stk_hue_sixths(-0.5), 3 * 65536); /* the opposite color either way */
    assert_int_equal(stk_hue_sixths(1. / 6), 65536);
    assert_int_equal(stk_hue_sixths(-1. / 6), 5 * 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_often),
        cmocka_unit_test(fill_is_one_color),
        cmocka_unit_test(ranges),
        cmocka_unit_test(draws_are_in_their_range),
        cmocka_unit_test(streams_differ_by_position),
        cmocka_unit_test(as_libm),
        cmocka_unit_test(quarters_are_exact),
        cmocka_unit_test(hues_go_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
