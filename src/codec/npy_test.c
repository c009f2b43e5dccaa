/* SPDX-License-Identifier: Apache-2.0 */
/* npy_test - headers as NumPy writes them and as others might, byte order, Fortran's order, what
 * a chain asks for, and every way to be refused.  (tests/codec holds it against NumPy.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/expr.h"
#include "codec/codec.h"

struct file {
    size_t len;
    uint8_t data[512];
};

static void make(struct file *f, int version, const char *header, const void *data, size_t len)
{
    size_t n = strlen(header), at = version == 1 ? 10 : 12;

    memset(f, 0, sizeof *f);
    memcpy(f->data, "\x93NUMPY", 6);
    f->data[6] = (uint8_t)version;
    f->data[8] = (uint8_t)n, f->data[9] = (uint8_t)(n >> 8);
    memcpy(f->data + at, header, n);
    memcpy(f->data + at + n, data, len);
    f->len = at + n + len;
}

/* The chain's first call, planned; stk_free() it. */
static int plan(const char *text, void **state, stk_spec *spec, stk_error *err)
{
    stk_expr *e = NULL;
    stk_args *args = NULL;
    int rc = stk_expr_parse(&e, text, err);

    *state = stk_zalloc(1, stk_codec_npy.state_size);
    *spec = (stk_spec){ .kind = STK_KIND_BYTES, .out = STK_OUT_BYTES };
    if (rc == 0)
        rc = stk_args_check(&args, &e->call[0], stk_codec_npy.args, err);
    if (rc == 0)
        rc = stk_codec_npy.plan(*state, args, spec, err);
    stk_args_close(&args);
    stk_expr_close(&e);
    return rc;
}

static int read(const char *chain, const struct file *f, stk_spec *row, void *dst, stk_error *err)
{
    stk_bytes in = { f->data, f->len };
    void *state;
    stk_spec spec;
    int rc;

    assert_int_equal(plan(chain, &state, &spec, err), 0);
    assert_int_equal(spec.kind, STK_KIND_VALUE);
    memset(row, 0, sizeof *row);
    rc = stk_codec_npy.shape(state, in, row, err);
    if (rc == 0)
        rc = stk_codec_npy.parse(state, NULL, in, dst, err);
    else
        assert_int_equal(stk_codec_npy.parse(state, NULL, in, dst, err), rc);
    stk_free(state);
    return rc;
}

static void headers(void **state)
{
    static const char *const text[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }           \n",
        "{ \"shape\":(2L,3L),'fortran_order' :False , 'descr':\"=i2\"}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3,)}\n",
    };
    const int16_t data[] = { 1, 2, 3, -4, 5, 600 };
    struct file f;
    int16_t out[6];
    stk_error err;
    stk_spec row;

    (void)state;
    for (int version = 1; version <= 3; version++)
        for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
            make(&f, version, text[i], data, sizeof data);
            f.len += 3; /* what follows the array does not count */
            assert_int_equal(read("npy", &f, &row, out, &err), 0);
            assert_int_equal(row.dtype, STK_I16);
            assert_int_equal(row.ndim, 2);
            assert_int_equal(row.shape[0], 2);
            assert_int_equal(row.shape[1], 3);
            assert_memory_equal(out, data, sizeof data);
        }
    make(&f, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", "\1", 1);
    assert_int_equal(read("npy", &f, &row, out, &err), 0);
    assert_true(row.dtype == STK_U8 && row.ndim == 0);
    make(&f, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }\n", "", 0);
    assert_int_equal(read("npy", &f, &row, out, &err), 0);
    assert_true(row.shape[0] == 0 && row.shape[1] == 4);
}

static void orders(void **state)
{
    struct file f;
    uint8_t small[6];
    uint16_t out[3];
    stk_error err;
    stk_spec row;

    (void)state;
    make(&f, 1, "{'descr': '>u2', 'fortran_order': False, 'shape': (3,), }", "\1\2\3\4\5\6", 6);
    assert_int_equal(read("npy", &f, &row, out, &err), 0);
    assert_true(out[0] == 0x0102 && out[1] == 0x0304 && out[2] == 0x0506);
    make(&f, 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "adbecf", 6);
    assert_int_equal(read("npy", &f, &row, small, &err), 0);
    assert_memory_equal(small, "abcdef", 6);
}

static void what_the_chain_says(void **state)
{
    static const char *const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
    const float data[] = { 1.5f, 2.5f };
    struct file f;
    float out[2];
    void *planned;
    stk_error err;
    stk_spec row;

    (void)state;
    make(&f, 1, header, data, sizeof data);
    assert_int_equal(read("npy(shape=(2, 1), dtype=f32)", &f, &row, out, &err), 0);
    assert_memory_equal(out, data, sizeof data);
    assert_int_equal(read("npy(dtype=f32)", &f, &row, out, &err), 0);
    assert_int_equal(read("npy(shape=(1, 2), dtype=f32)", &f, &row, out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "npy: the array has shape (2, 1), the chain says (1, 2)");
    assert_int_equal(read("npy(2, f32)", &f, &row, out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "npy: the array has shape (2, 1), the chain says (2)");
    assert_int_equal(read("npy(dtype=f64)", &f, &row, out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "npy: the array has type f32, the chain says f64");

    static const char *const bad[] = { "npy(shape=(2, 1))",
                                       "npy(dtype=f99)",
                                       "npy(dtype=bf16)",
                                       "npy(shape=(0, 1), dtype=f32)",
                                       "npy(shape=(1,1,1,1,1,1,1,1), dtype=f32)",
                                       "npy(shape=(4000000000, 4000000000), dtype=u8)" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(plan(bad[i], &planned, &row, &err), STK_EINVAL);
        assert_true(!strncmp(err.message, "npy: ", 5));
        stk_free(planned);
    }
}

static void refused(void **state)
{
    static const struct {
        int rc;
        const char *header;
    } bad[] = {
        { STK_ENOTSUP, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" },
        { STK_ENOTSUP, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }" },
        { STK_ENOTSUP, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }" },
        { STK_ENOTSUP, "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }" },
        { STK_ENOTSUP, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1), }" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" },
        { STK_ECORRUPT,
          "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}" },
        { STK_ECORRUPT,
          "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999, 9999999999)}" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,), }" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, 'shape': (1 2), }" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, }" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}" },
        { STK_ECORRUPT, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)" },
        { STK_ECORRUPT, "['descr']" },
        { STK_ECORRUPT, "" },
    };
    struct file f;
    uint8_t out[64];
    stk_error err;
    stk_spec row;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make(&f, 1, bad[i].header, "12345678", 8);
        if (read("npy", &f, &row, out, &err) != bad[i].rc)
            fail_msg("%s: not refused as it should be", bad[i].header);
        assert_true(!strncmp(err.message, "npy: ", 5) && !strchr(err.message, '\n'));
    }
    make(&f, 9, "", "", 0);
    assert_int_equal(read("npy", &f, &row, out, &err), STK_ENOTSUP);
    make(&f, 2, "", "", 0);
    f.data[10] = 5;
    assert_int_equal(read("npy", &f, &row, out, &err), STK_ELIMIT);
}

static void truncated(void **state)
{
    struct file f;
    uint8_t out[64];
    stk_error err;
    stk_spec row;
    size_t len;

    (void)state;
    make(&f, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", "12345678", 8);
    len = f.len;
    for (f.len = 0; f.len < len; f.len++)
        assert_int_equal(read("npy", &f, &row, out, &err), STK_ECORRUPT);
    assert_int_equal(read("npy", &f, &row, out, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),
        cmocka_unit_test(orders),
        cmocka_unit_test(what_the_chain_says),
        cmocka_unit_test(refused),
        cmocka_unit_test(truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
