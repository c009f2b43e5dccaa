/* SPDX-License-Identifier: Apache-2.0 */
/* expr_test.c - the grammar of chains: what it reads, every complaint with its column, and
 * hostile text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "base/mem.h"

static stk_expr *parse(const char *text)
{
    stk_expr *e = NULL;
    stk_error err;

    if (stk_expr_parse(&e, text, &err) < 0)
        fail_msg("%s", err.message);
    return e;
}

/* The complaint about `text` ends with "column COL: SAYS". */
static void refuses(const char *text, int column, const char *says)
{
    stk_expr *e = NULL;
    stk_error err;
    char want[200];
    size_t len, n;

    assert_int_equal(stk_expr_parse(&e, text, &err), STK_EINVAL);
    assert_null(e);
    snprintf(want, sizeof want, "column %d: %s", column, says);
    len = strlen(err.message);
    n = strlen(want);
    if (len < n || strcmp(err.message + len - n, want))
        fail_msg("`%s`: wanted \"...%s\", got \"%s\"", text, want, err.message);
}

static void same_text(const char *text, const char *want)
{
    stk_expr *e = parse(text), *again;
    char got[512], twice[512];

    assert_int_equal(stk_expr_text(e, got, sizeof got), strlen(want));
    assert_string_equal(got, want);
    again = parse(got);
    stk_expr_text(again, twice, sizeof twice);
    assert_string_equal(got, twice);
    assert_int_equal(stk_expr_text(e, got, 4), strlen(want)); /* cut short, still terminated */
    assert_int_equal(strlen(got), strlen(want) < 3 ? strlen(want) : 3);
    stk_expr_close(&e);
    stk_expr_close(&again);
}

static void chains_inside(void **state)
{
    stk_expr *e = parse("image | random_apply(color_jitter(0.4) | hflip, p=0.8) | "
                        "one_of(a(), [b(1), c | d], x)");
    const stk_call *c = e->call;

    (void)state;
    assert_int_equal(e->n_calls, 3);
    assert_int_equal(c[1].n_args, 2);
    assert_int_equal(c[1].arg[0].value[0].type, STK_V_CHAIN);
    assert_int_equal(c[1].arg[0].value[0].chain->n_calls, 2);
    assert_true(c[1].arg[0].value[0].chain->call[0].arg[0].value[0].number == 0.4);
    assert_string_equal(c[1].arg[0].value[0].chain->call[1].name, "hflip");
    assert_int_equal(c[1].arg[0].value[0].chain->call[1].at, 42);
    assert_string_equal(c[1].arg[1].name, "p");
    assert_int_equal(c[2].arg[1].n, 2);
    assert_int_equal(c[2].arg[1].value[1].chain->n_calls, 2);
    assert_int_equal(c[2].arg[2].value[0].type, STK_V_NAME);
    stk_expr_close(&e);
    same_text("image", "image");
    same_text("a( b() , c=[1,2.5,'x y'] )|d", "a(b(), c=(1, 2.5, \"x y\")) | d");
    same_text("a(b|c(1e3), true, \"true\", 'q\"', 2.0, -7)",
              "a(b | c(1000.0), true, \"true\", 'q\"', 2.0, -7)");
    same_text("a(b(c(d(e(f(g(h(1))))))))", "a(b(c(d(e(f(g(h(1))))))))");
    refuses("a(b(c(d(e(f(g(h(i(1)))))))))", 17,
            "more than 7 chains stand inside each other: write fewer levels");
    refuses("a(b(1", 6, "`,` or `)` is missing here");
    refuses("a(b | )", 7, "the name of a step is missing here");
    refuses("a(b(1) c)", 8, "`|` or the end is missing here");
    refuses("a([b(1), c(2)", 14, "`,` or the end of the tuple is missing here");
}

static void inside_memory_fails(void **state)
{
    int done = 0;

    (void)state;
    for (uint64_t n = 1; !done; n++) {
        stk_expr *e = NULL;
        stk_error err;
        int rc;

        stk_mem_fail_at(n);
        rc = stk_expr_parse(&e, "a(b(c | d(1)), [e(), f(2)], p=g | h)", &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        done = rc == 0;
        stk_expr_close(&e);
    }
}

static void reads_a_chain(void **state)
{
    stk_expr *e = parse(
        " from(jpg, png)|image | resize( (256,320) , filter = bilinear )| to(f16,layout=hwc,) ");
    const stk_expr_arg *a;

    (void)state;
    assert_int_equal(e->n_calls, 4);
    assert_string_equal(e->call[0].name, "from");
    assert_int_equal(e->call[0].at, 2);
    assert_int_equal(e->call[0].n_args, 2);
    assert_string_equal(e->call[0].arg[1].value[0].text, "png");
    assert_int_equal(e->call[0].arg[1].at, 12);
    assert_int_equal(e->call[1].n_args, 0);
    a = e->call[2].arg;
    assert_int_equal(a[0].tuple, 1);
    assert_int_equal(a[0].n, 2);
    assert_true(a[0].value[1].number == 320 && a[0].value[1].integral);
    assert_string_equal(a[1].name, "filter");
    assert_string_equal(a[1].value[0].text, "bilinear");
    assert_int_equal(e->call[3].n_args, 2); /* a comma may follow the last */
    stk_expr_close(&e);
    assert_null(e);
    stk_expr_close(&e);
}

static void reads_values(void **state)
{
    stk_expr *e = parse(
        "f(1, -2, +3, 0.5, .5, 5., 1e3, -1.5E-2, true, False, a.b-c_9, \"two words\", 'it', \"\")");
    static const struct {
        double number;
        int integral;
    } want[] = { { 1, 1 },   { -2, 1 }, { 3, 1 },    { 0.5, 0 },
                 { 0.5, 0 }, { 5, 0 },  { 1000, 0 }, { -0.015, 0 } };
    const stk_expr_arg *a = e->call[0].arg;

    (void)state;
    assert_int_equal(e->call[0].n_args, 14);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(a[i].value[0].type, STK_V_NUMBER);
        assert_true(fabs(a[i].value[0].number - want[i].number) < 1e-12);
        assert_int_equal(a[i].value[0].integral != 0, want[i].integral);
    }
    assert_true(a[8].value[0].type == STK_V_BOOL && a[8].value[0].number == 1);
    assert_true(a[9].value[0].type == STK_V_BOOL && a[9].value[0].number == 0);
    assert_string_equal(a[10].value[0].text, "a.b-c_9");
    assert_string_equal(a[11].value[0].text, "two words");
    assert_string_equal(a[12].value[0].text, "it");
    assert_string_equal(a[13].value[0].text, "");
    stk_expr_close(&e);
}

static void reads_tuples(void **state)
{
    stk_expr *e = parse("f((1,2,3,), [0.5, x], x=(1,2,3,4,5,6,7,8), ())");
    const stk_expr_arg *a = e->call[0].arg;

    (void)state;
    assert_int_equal(a[0].n, 3);
    assert_int_equal(a[1].n, 2);
    assert_int_equal(a[1].tuple, 1);
    assert_int_equal(a[2].n, 8);
    assert_int_equal(a[3].n, 0);
    stk_expr_close(&e);
}

static void complains_at_the_column(void **state)
{
    (void)state;
    refuses("", 1, "the chain is empty");
    refuses("   ", 4, "the chain is empty");
    refuses("| image", 1, "the name of a step is missing here");
    refuses("image |", 8, "the name of a step is missing here");
    refuses("image || hflip", 8, "the name of a step is missing here");
    refuses("image hflip", 7, "`|` or the end is missing here");
    refuses("image)", 6, "`|` or the end is missing here");
    refuses("9lives", 1, "the name of a step is missing here");
    refuses("f(", 3, "a number, a name or a string is missing here");
    refuses("f(,)", 3, "a number, a name or a string is missing here");
    refuses("f(x=)", 5, "a number, a name or a string is missing here");
    refuses("f(1 2)", 5, "`,` or `)` is missing here");
    refuses("f(a b)", 5, "`,` or `)` is missing here");
    refuses("f(1", 4, "`,` or `)` is missing here");
    refuses("f((1 2))", 6, "`,` or the end of the tuple is missing here");
    refuses("f((1]", 5, "`,` or the end of the tuple is missing here");
    refuses("f((1", 5, "`,` or the end of the tuple is missing here");
    refuses("f((1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8))", 36, "a tuple has at most 16 values");
    refuses("f(((1)))", 4, "a number, a name or a string is missing here");
    refuses("f(\"abc)", 8, "this string is not closed");
    refuses("f('abc\")", 9, "this string is not closed");
    refuses("f(1.2.3)", 3, "this is not a number");
    refuses("f(+-1)", 3, "this is not a number");
    refuses("f(1e)", 3, "this is not a number");
    refuses("f(-)", 3, "this is not a number");
    refuses("f(12px)", 3, "this is not a number");
    refuses("f(0x10)", 3, "this is not a number");
}

static void has_bounds(void **state)
{
    static char text[STK_EXPR_TEXT + 2];
    stk_expr *e = NULL;
    stk_error err;
    int n = 0;

    (void)state;
    for (int i = 0; i < 32; i++)
        n += sprintf(text + n, "%sf", i ? "|" : "");
    e = parse(text);
    assert_int_equal(e->n_calls, 32);
    stk_expr_close(&e);
    strcpy(text + n, "|g");
    refuses(text, n + 2, "a chain has at most 32 steps");
    memset(text, 'a', STK_EXPR_TEXT);
    text[STK_EXPR_TEXT] = 0;
    e = parse(text);
    stk_expr_close(&e);
    strcat(text, "b");
    assert_int_equal(stk_expr_parse(&e, text, &err), STK_EINVAL);
    assert_string_equal(err.message, "a chain has at most 4096 characters, this one has 4097");
    snprintf(text, sizeof text, "f(%.*s)", 70,
             "1111111111111111111111111111111111111111111111111111111111111111111111");
    refuses(text, 3, "this is not a number");
}

/* As many arguments as the text can hold: what is allocated before parsing is enough. */
static void dense_text(void **state)
{
    static char text[STK_EXPR_TEXT + 1];
    stk_expr *e;

    (void)state;
    strcpy(text, "f(");
    for (size_t i = 2; i < STK_EXPR_TEXT - 2; i += 2)
        memcpy(text + i, "a,", 2);
    strcpy(text + STK_EXPR_TEXT - 2, ")");
    e = parse(text);
    assert_int_equal(e->call[0].n_args, (STK_EXPR_TEXT - 4) / 2);
    stk_expr_close(&e);
    for (size_t i = 2; i < STK_EXPR_TEXT - 4; i += 3)
        memcpy(text + i, "'',", 3);
    strcpy(text + 2 + (STK_EXPR_TEXT - 6) / 3 * 3, ")");
    e = parse(text);
    stk_expr_close(&e);
}

/* Random text over the grammar's own characters: an answer or one line, never a crash. */
static void hostile_text(void **state)
{
    static const char letters[] = "ab(),|=[]\"' 0.1e-+_\t\n\xff";
    uint32_t x = 20240607;
    int good = 0;

    (void)state;
    print_message("seed %u\n", x);
    for (int round = 0; round < 200000; round++) {
        char text[40];
        stk_expr *e = NULL;
        stk_error err = { 0 };
        size_t len;
        int rc;

        x = x * 1664525 + 1013904223;
        len = x >> 27;
        for (size_t i = 0; i < len; i++) {
            x = x * 1664525 + 1013904223;
            text[i] = letters[(x >> 16) % (sizeof letters - 1)];
        }
        text[len] = 0;
        rc = stk_expr_parse(&e, text, &err);
        good += rc == 0;
        assert_true(rc == 0 ? e != NULL : rc == STK_EINVAL && !e && err.message[0]);
        stk_expr_close(&e);
    }
    assert_true(good > 100);
}

static void no_memory(void **state)
{
    stk_expr *e = NULL;
    stk_error err;
    int rc = STK_ENOMEM;

    (void)state;
    for (uint64_t n = 1; rc < 0; n++) {
        stk_mem_fail_at(n);
        rc = stk_expr_parse(&e, "a(1)|b(x=2)", &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || (rc == STK_ENOMEM && !e));
    }
    stk_expr_close(&e);
}

static void nearest_names(void **state)
{
    const char *const names[] = { "hflip", "resize", "center_crop", "random_resized_crop", "to" };

    (void)state;
    assert_string_equal(stk_nearest("hfilp", names, 5), "hflip");
    assert_string_equal(stk_nearest("resise", names, 5), "resize");
    assert_string_equal(stk_nearest("centercrop", names, 5), "center_crop");
    assert_string_equal(stk_nearest("random_resize_crop", names, 5), "random_resized_crop");
    assert_null(stk_nearest("blur", names, 5));
    assert_null(stk_nearest("", names, 5));
    assert_null(stk_nearest("a_name_of_more_than_thirty_two_letters", names, 5));
    assert_null(stk_nearest("hflip", names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_chain),       cmocka_unit_test(chains_inside),
        cmocka_unit_test(inside_memory_fails), cmocka_unit_test(reads_values),
        cmocka_unit_test(reads_tuples),        cmocka_unit_test(complains_at_the_column),
        cmocka_unit_test(has_bounds),          cmocka_unit_test(dense_text),
        cmocka_unit_test(hostile_text),        cmocka_unit_test(no_memory),
        cmocka_unit_test(nearest_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
