/* SPDX-License-Identifier: Apache-2.0 */
/* options_test.c - the table is complete, its defaults are the zeros of the struct, text is
 * checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "options.h"

/* Every byte of the struct belongs to a row of options.def, or is padding before a wider field. */
static void every_field_has_a_row(void **state)
{
    enum { SIZE = sizeof(stk_loader_options) };
    uint8_t covered[SIZE];
    size_t gap = 0, padding = 0;

    memset(covered, 0, SIZE);
#define MARK(name)                                                                                 \
    memset(covered + offsetof(stk_loader_options, name), 1,                                        \
           sizeof(((stk_loader_options *)0)->name));
#define STK_OPTION(name, type, values, fallback, python, help, python_help) MARK(name)
#define STK_FIELD(name, help) MARK(name)
#define STK_ARGUMENT(name, python, help)
#include "loader/options.def"
    for (size_t i = 0; i < SIZE; i++) {
        gap = covered[i] ? 0 : gap + 1;
        padding += !covered[i];
        assert_true(gap <= 4);
        if (!covered[i] && (i + 1 == SIZE || covered[i + 1]))
            assert_int_equal((i + 1) % 8, 0);
    }
    /* After on_error, collate, n_stages, learn_jpeg and pin_memory (LP64).  A field that took such
     * a place needs a row too. */
    if (sizeof(void *) == 8)
        assert_int_equal(padding, 20);
}

static void defaults_are_zeros(void **state)
{
    stk_loader_options zero, set;
    stk_option_info info;
    stk_error err;

    memset(&zero, 0, sizeof zero);
    for (size_t i = 0; stk_option_list(i, &info) == 0; i++) {
        memset(&set, 0, sizeof set);
        assert_int_equal(stk_option_set(&set, info.name, info.fallback, &err), 0);
        if (!strcmp(info.fallback, "1")) /* batch_size, world_size: 0 and 1 say the same */
            continue;
        if (!strcmp(info.name, "drop_last") || !strcmp(info.name, "learn_jpeg") ||
            !strcmp(info.name, "pin_memory")) {
            assert_int_equal(set.drop_last + set.learn_jpeg + set.pin_memory, STK_NO);
            continue;
        }
        if (!strcmp(info.name, "replacement")) {
            assert_int_equal(set.replacement, STK_YES);
            continue;
        }
        assert_memory_equal(&set, &zero, sizeof set);
    }
}

static void text_becomes_values(void **state)
{
    stk_loader_options o = { .size = sizeof o };

    assert_int_equal(stk_option_set(&o, "batch_size", "256", NULL), 0);
    assert_int_equal(o.batch_size, 256);
    assert_int_equal(stk_option_set(&o, "num_workers", "0", NULL), 0);
    assert_int_equal(o.num_workers, STK_NONE);
    assert_int_equal(stk_option_set(&o, "num_workers", "8", NULL), 0);
    assert_int_equal(o.num_workers, 8);
    assert_int_equal(stk_option_set(&o, "seed", "18446744073709551615", NULL), 0);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(stk_option_set(&o, "memory_limit", "4G", NULL), 0);
    assert_true(o.memory_limit == 4000000000);
    assert_int_equal(stk_option_set(&o, "memory_limit", "512MiB", NULL), 0);
    assert_true(o.memory_limit == (uint64_t)512 << 20);
    assert_int_equal(stk_option_set(&o, "memory_limit", "4GB", NULL), 0); /* as in Python */
    assert_true(o.memory_limit == 4000000000);
    assert_int_equal(stk_option_set(&o, "shuffle", "true", NULL), 0);
    assert_int_equal(o.shuffle, STK_SHUFFLE_EXACT);
    assert_int_equal(stk_option_set(&o, "drop_last", "yes", NULL), 0);
    assert_int_equal(o.drop_last, STK_YES);
    assert_int_equal(stk_option_set(&o, "on_error", "skip", NULL), 0);
    assert_int_equal(o.on_error, STK_ON_ERROR_SKIP);
    assert_int_equal(stk_option_set(&o, "collate", "list", NULL), 0);
    assert_int_equal(o.collate, STK_COLLATE_LIST);
    assert_int_equal(stk_option_set(&o, "collate", "pad", NULL), 0);
    assert_int_equal(o.collate, STK_COLLATE_PAD);
}

static void wrong_text_is_refused(void **state)
{
    static const char *const bad[][2] = {
        { "batch_size", "0" },       { "batch_size", "auto" },  { "batch_size", "-1" },
        { "batch_size", "1048577" }, { "batch_size", "" },      { "batch_size", "12x" },
        { "num_workers", "257" },    { "seed", "1e3" },         { "seed", "18446744073709551616" },
        { "memory_limit", "4Q" },    { "memory_limit", "9EB" }, { "memory_limit", "0" },
        { "shuffle", "maybe" },      { "on_error", "true" },    { "prefetch", " 4" },
    };
    stk_loader_options o = { .size = sizeof o };
    stk_error err;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(stk_option_set(&o, bad[i][0], bad[i][1], &err), STK_EINVAL);
        assert_non_null(strstr(err.message, bad[i][0]));
    }
    assert_int_equal(stk_option_set(&o, "batchsize", "1", &err), STK_EINVAL);
    assert_string_equal(err.message, "a loader has no option batchsize; did you mean batch_size");
    assert_int_equal(stk_option_set(&o, "shuffle", "maybe", &err), STK_EINVAL);
    assert_string_equal(err.message, "shuffle is one of: none exact block megatron, not \"maybe\"");
    assert_int_equal(stk_option_set(&o, "prefetch", "0", &err), STK_EINVAL);
    assert_string_equal(err.message, "prefetch is 1..256 or auto, not \"0\"");
}

/* A struct that a program filled is held to the same ranges as text. */
static void a_struct_is_checked(void **state)
{
    static const struct {
        stk_loader_options o;
        const char *says;
    } bad[] = {
        { { .io_threads = 1025 }, "io_threads is 1..1024 or auto, not \"1025\"" },
        { { .batch_size = 1048577 }, "batch_size is 1..1048576, not \"1048577\"" },
        { { .num_workers = 257 }, "num_workers is 0..256 or auto, not \"257\"" },
        { { .num_workers = -2 }, "num_workers is 0..256 or auto, not \"-2\"" },
        { { .prefetch = 257 }, "prefetch is 1..256 or auto, not \"257\"" },
        { { .in_flight = 9 }, "in_flight is 1..8 or auto, not \"9\"" },
        { { .memory_limit = UINT64_MAX },
          "memory_limit is 1..8EB or auto, not \"18446744073709551615\"" },
        { { .shuffle = (stk_shuffle)4 },
          "shuffle is one of: none exact block megatron, not \"4\"" },
        { { .drop_last = (stk_tri)3 }, "drop_last is one of: no yes, not \"3\"" },
    };
    stk_loader_options good = { .num_workers = STK_NONE,
                                .io_threads = 1024,
                                .batch_size = 1 << 20,
                                .seed = UINT64_MAX,
                                .collate = STK_COLLATE_PAD,
                                .drop_last = STK_YES };
    stk_error err;

    assert_int_equal(stk_options_check(&good, &err), 0);
    assert_int_equal(stk_options_check(&(stk_loader_options){ 0 }, &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(stk_options_check(&bad[i].o, &err), STK_EINVAL);
        assert_string_equal(err.message, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_is_checked),   cmocka_unit_test(every_field_has_a_row),
        cmocka_unit_test(defaults_are_zeros),    cmocka_unit_test(text_becomes_values),
        cmocka_unit_test(wrong_text_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
