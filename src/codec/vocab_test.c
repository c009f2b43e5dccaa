/* SPDX-License-Identifier: Apache-2.0 */
/* vocab_test - labels become line numbers; what is wrong with a file is said when the chain is
 * planned, and allocations that fail leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "codec/codec.h"
#include "source/source.h"

#define BYTES(s) ((stk_bytes){ (const uint8_t *)(s), sizeof(s) - 1 })

/* vocab over a file of that text; end with let_go(). */
static int plan(const char *text, size_t len, stk_out_kind from, void **state, stk_error *err)
{
    stk_spec spec = { .kind = STK_KIND_BYTES, .out = from };
    stk_expr *e = NULL;
    stk_args *args = NULL;
    int rc;

    *state = NULL;
    rc = stk_expr_parse(&e, "vocab('mem://names')", err);
    if (rc == 0)
        rc = stk_args_check(&args, &e->call[0], stk_codec_vocab.args, err);
    if (rc == 0)
        rc = stk_memory_put("names", text, len, err);
    if (rc == 0) {
        *state = stk_zalloc(1, stk_codec_vocab.state_size);
        rc = *state ? stk_codec_vocab.plan(*state, args, &spec, err) : STK_ENOMEM;
    }
    if (rc == 0)
        assert_true(spec.kind == STK_KIND_VALUE && spec.dtype == STK_I64 && spec.ndim == 0);
    stk_args_close(&args);
    stk_expr_close(&e);
    return rc;
}

static void let_go(void *state)
{
    if (state)
        stk_codec_vocab.fini(state);
    stk_free(state);
    assert_int_equal(stk_memory_put("names", NULL, 0, NULL), 0);
}

static int64_t number(const void *state, stk_bytes label)
{
    stk_error err;
    int64_t v = -77;

    if (stk_codec_vocab.parse(state, NULL, label, &v, &err) < 0)
        fail_msg("%s", err.message);
    return v;
}

static void labels(void **state)
{
    static const char names[] = "cat\n  golden retriever \r\nd\xc3\xb6gg\xc3\xb6\ncats";
    void *v;
    stk_error err;
    int64_t out = -77;

    (void)state;
    assert_int_equal(plan(names, sizeof names - 1, STK_OUT_BYTES, &v, &err), 0);
    assert_int_equal(number(v, BYTES("cat")), 0);
    assert_int_equal(number(v, BYTES("golden retriever\n")), 1);
    assert_int_equal(number(v, BYTES("\td\xc3\xb6gg\xc3\xb6 ")), 2);
    assert_int_equal(number(v, BYTES("cats\r\n")), 3);
    assert_int_equal(stk_codec_vocab.parse(v, NULL, BYTES("ca"), &out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "vocab: \"ca\" is none of the 4 names in mem://names");
    assert_int_equal(stk_codec_vocab.parse(v, NULL, BYTES(" \n"), &out, &err), STK_ECORRUPT);
    assert_int_equal(stk_codec_vocab.parse(v, NULL, (stk_bytes){ 0 }, &out, &err), STK_ECORRUPT);
    assert_int_equal(out, -77);
    let_go(v);
}

static void many(void **state)
{
    char *text = malloc(200000), name[16];
    size_t len = 0;
    stk_error err;
    void *v;

    (void)state;
    for (int i = 0; i < 20000; i++)
        len += (size_t)sprintf(text + len, "n%d\n", i * 7);
    assert_int_equal(plan(text, len, STK_OUT_TEXT, &v, &err), 0);
    for (int i = 0; i < 20000; i++) {
        int n = sprintf(name, "n%d", i * 7);

        assert_int_equal(number(v, (stk_bytes){ (uint8_t *)name, (size_t)n }), i);
    }
    let_go(v);
    free(text);
}

static void refuses(const char *text, size_t len, const char *says)
{
    stk_error err;
    void *v;

    assert_int_equal(plan(text, len, STK_OUT_BYTES, &v, &err), STK_EINVAL);
    assert_string_equal(err.message, says);
    let_go(v);
}

static void bad_files(void **state)
{
    stk_error err;
    void *v;

    (void)state;
    refuses("a\nb\na\n", 6, "vocab: \"a\" stands twice in mem://names, on lines 1 and 3");
    refuses("a\n\nb\n", 5, "vocab: line 2 of mem://names is empty");
    refuses("", 0, "vocab: mem://names names nothing");
    refuses("\n", 1, "vocab: line 1 of mem://names is empty");
    assert_int_equal(plan("a", 1, STK_OUT_JSON, &v, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "json(...) | text"));
    let_go(v);
}

static void failing_allocations(void **state)
{
    stk_error err;
    void *v;
    int rc = -1;

    (void)state;
    for (uint64_t n = 1; rc < 0; n++) {
        stk_mem_fail_at(n);
        rc = plan("a\nb\n", 4, STK_OUT_BYTES, &v, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        let_go(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(labels), cmocka_unit_test(many),
                                        cmocka_unit_test(bad_files),
                                        cmocka_unit_test(failing_allocations) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
