/* SPDX-License-Identifier: Apache-2.0 */
/* args_test.c - a call's arguments against a table: positions, names, types, fallbacks,
 * refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "base/mem.h"

static const stk_arg table[] = {
    { "size", STK_ARG_INTS, NULL, "height and width" },
    { "scale", STK_ARG_FLOATS, "(0.08, 1)", "area" },
    { "p", STK_ARG_FLOAT, "0.5", "probability" },
    { "count", STK_ARG_INT, "", "how many" },
    { "flip", STK_ARG_BOOL, "true", "turn it" },
    { "filter", STK_ARG_NAME, "bilinear", "how to" },
    { "mean", STK_ARG_ANY, "imagenet", "name or numbers" },
    { 0 },
};
static const stk_arg names[] = {
    { "names", STK_ARG_NAMES, NULL, "fields" },
    { "depth", STK_ARG_INT, "1", "how deep" },
    { 0 },
};

static stk_expr *expr;
static stk_args *args;

static int check(const char *text, const stk_arg *t, stk_error *err)
{
    assert_int_equal(stk_expr_parse(&expr, text, err), 0);
    return stk_args_check(&args, &expr->call[0], t, err);
}

static void done(void)
{
    stk_args_close(&args);
    stk_expr_close(&expr);
}

static void refuses(const char *text, const stk_arg *t, const char *says)
{
    stk_error err;

    assert_int_equal(check(text, t, &err), STK_EINVAL);
    assert_string_equal(err.message, says);
    assert_null(args);
    done();
}

static void fallbacks(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(check("f(224)", table, &err), 0);
    assert_int_equal(stk_args_count(args, "size"), 1);
    assert_int_equal(stk_args_i64(args, "size"), 224);
    assert_int_equal(stk_args_count(args, "scale"), 2);
    assert_true(stk_args_f64_at(args, "scale", 0) == 0.08);
    assert_true(stk_args_f64_at(args, "scale", 1) == 1);
    assert_true(stk_args_f64_at(args, "scale", 2) == 0);
    assert_true(stk_args_f64(args, "p") == 0.5);
    assert_int_equal(stk_args_has(args, "count"), 0);
    assert_int_equal(stk_args_i64(args, "count"), 0);
    assert_int_equal(stk_args_bool(args, "flip"), 1);
    assert_string_equal(stk_args_str(args, "filter"), "bilinear");
    assert_string_equal(stk_args_str(args, "mean"), "imagenet");
    assert_null(stk_args_str(args, "p"));
    assert_int_equal(stk_args_has(args, "nothing"), 0);
    assert_int_equal(stk_args_count(args, "nothing"), 0);
    done();
}

static void by_place_and_by_name(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(
        check("f((224, 320), (0.5, 1), count=7, flip=false, mean=(0.5, 0.25), filter='box')", table,
              &err),
        0);
    assert_int_equal(stk_args_count(args, "size"), 2);
    assert_true(stk_args_f64_at(args, "size", 1) == 320);
    assert_true(stk_args_f64_at(args, "scale", 0) == 0.5);
    assert_int_equal(stk_args_i64(args, "count"), 7);
    assert_int_equal(stk_args_bool(args, "flip"), 0);
    assert_string_equal(stk_args_str(args, "filter"), "box");
    assert_null(stk_args_str(args, "mean"));
    assert_true(stk_args_f64_at(args, "mean", 1) == 0.25);
    done();
}

static const stk_arg apply_table[] = { { "steps", STK_ARG_CHAIN, NULL, "what is done" },
                                       { "p", STK_ARG_FLOAT, "0.5", "how often" },
                                       { 0 } };
static const stk_arg choose_table[] = { { "chains", STK_ARG_CHAINS, NULL, "one of these" },
                                        { "p", STK_ARG_FLOAT, "0.5", "how often" },
                                        { 0 } };

static uint64_t hash_of(const char *text, const stk_arg *t)
{
    stk_error err;
    uint64_t h;

    if (check(text, t, &err))
        fail_msg("%s", err.message);
    h = stk_args_hash(args, 7);
    done();
    return h;
}

static void chains(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(check("f(a(1) | b, p=0.25)", apply_table, &err), 0);
    assert_int_equal(stk_args_count(args, "steps"), 1);
    assert_int_equal(stk_args_chain(args, "steps", 0)->n_calls, 2);
    assert_null(stk_args_chain(args, "steps", 1));
    assert_true(stk_args_f64(args, "p") == 0.25);
    done();
    assert_int_equal(check("f(a, b(2), c | d, p=1)", choose_table, &err), 0);
    assert_int_equal(stk_args_count(args, "chains"), 3);
    assert_string_equal(stk_args_chain(args, "chains", 0)->call[0].name, "a");
    assert_int_equal(stk_args_chain(args, "chains", 1)->call[0].n_args, 1);
    assert_int_equal(stk_args_chain(args, "chains", 2)->n_calls, 2);
    done();
    assert_int_equal(check("f([a, b(1)])", apply_table, &err), 0);
    assert_string_equal(stk_args_chain(args, "steps", 0)->call[0].name, "a");
    assert_string_equal(stk_args_chain(args, "steps", 1)->call[0].name, "b");
    done();
    assert_int_equal(hash_of("f(a)", apply_table), hash_of("f(a(), 0.5)", apply_table));
    assert_int_not_equal(hash_of("f(a)", apply_table), hash_of("f(a(1))", apply_table));
    assert_int_not_equal(hash_of("f(a(1))", apply_table), hash_of("f(a(2))", apply_table));
    assert_int_not_equal(hash_of("f(a, b)", choose_table), hash_of("f(a | b)", choose_table));
    refuses("f(3)", apply_table, "f: `steps` must be a chain of steps, as hflip | resize(8)");
    refuses("f('a(1)')", apply_table, "f: 'a(1)' is a string: write the chain without quotes");
    refuses("f(1, p=a(1))", table, "f: `p` must be a number");
    refuses("f(1, mean=a(1))", table, "f: `mean` must be a value: a name or numbers");
    refuses("f(a(1))", table, "f: `size` must be a whole number or a tuple of them");
}

static void refusals(void **state)
{
    (void)state;
    refuses("f", table, "f: `size` must be given (height and width)");
    refuses("f(1, scael=2)", table, "f: no argument is called `scael`: did you mean `scale`?");
    refuses("f(1, zzz=2)", table, "f: no argument is called `zzz`: see `stoker ops`");
    refuses("f(1, size=2)", table, "f: `size` is given twice");
    refuses("f(1, p=1, p=1)", table, "f: `p` is given twice");
    refuses("f(1.5)", table, "f: `size` must be a whole number or a tuple of them");
    refuses("f((1, 2.5))", table, "f: `size` must be a whole number or a tuple of them");
    refuses("f(())", table, "f: `size` must be a whole number or a tuple of them");
    refuses("f(big)", table, "f: `size` must be a whole number or a tuple of them");
    refuses("f(1, (a, b))", table, "f: `scale` must be a number or a tuple of them");
    refuses("f(1, p=(1, 2))", table, "f: `p` must be a number");
    refuses("f(1, p=true)", table, "f: `p` must be a number");
    refuses("f(1, count=1.0)", table, "f: `count` must be a whole number");
    refuses("f(1, flip=1)", table, "f: `flip` must be true or false");
    refuses("f(1, filter=3)", table, "f: `filter` must be a name");
    refuses("f(1, (1, 1), 1, 1, true, box, imagenet, 8)", table,
            "f takes fewer arguments: see `stoker ops`");
    refuses("f(1)", NULL, "f takes no argument: see `stoker ops`");
}

static void lists_of_names(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(check("from(jpg, \"with space\", png, depth=2)", names, &err), 0);
    assert_int_equal(stk_args_count(args, "names"), 3);
    assert_string_equal(stk_args_str_at(args, "names", 1), "with space");
    assert_string_equal(stk_args_str_at(args, "names", 2), "png");
    assert_null(stk_args_str_at(args, "names", 3));
    assert_int_equal(stk_args_i64(args, "depth"), 2);
    done();
    refuses("from(jpg, 3)", names, "from: `names` must be names");
    refuses("from()", names, "from: `names` must be given (fields)");
}

/* Other ways to write names: by keyword, and with another argument between them. */
static void names_by_keyword(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(check("from(names=jpg)", names, &err), 0);
    assert_int_equal(stk_args_count(args, "names"), 1);
    assert_string_equal(stk_args_str_at(args, "names", 0), "jpg");
    done();
    assert_int_equal(check("from(depth=2, jpg, png)", names, &err), 0);
    assert_int_equal(stk_args_count(args, "names"), 2);
    assert_string_equal(stk_args_str_at(args, "names", 1), "png");
    done();
    refuses("from(jpg, depth=2, png)", names, "from: `names` must stand side by side");
}

static void huge_numbers(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(
        check("f(99999999999999999999999999, count=-99999999999999999999)", table, &err), 0);
    assert_int_equal(stk_args_i64(args, "count"), INT64_MIN);
    assert_int_equal(stk_args_i64(args, "size"), INT64_MAX);
    done();
}

static void no_memory(void **state)
{
    stk_error err;
    int rc = STK_ENOMEM;

    (void)state;
    assert_int_equal(stk_expr_parse(&expr, "f(1)", &err), 0);
    for (uint64_t n = 1; rc < 0; n++) {
        stk_mem_fail_at(n);
        rc = stk_args_check(&args, &expr->call[0], table, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || (rc == STK_ENOMEM && !args));
    }
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fallbacks),      cmocka_unit_test(by_place_and_by_name),
        cmocka_unit_test(chains),         cmocka_unit_test(refusals),
        cmocka_unit_test(lists_of_names), cmocka_unit_test(names_by_keyword),
        cmocka_unit_test(huge_numbers),   cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
