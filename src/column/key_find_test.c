/* SPDX-License-Identifier: Apache-2.0 */
/* key_find_test.c - samples by their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "index/dataset_model.h"

typedef struct hits {
    uint64_t key[64], sample[64];
    unsigned n, most;
} hits;

static int note(void *cookie, uint64_t key, uint64_t sample)
{
    hits *h = cookie;

    if (h->n == h->most)
        return 1;
    h->key[h->n] = key;
    h->sample[h->n++] = sample;
    return 0;
}

static void finds(void **state)
{
    static const char *const text[] = { "2-000003", "0-000000", "nobody", "2-000003", "" };
    stk_dataset *ds = NULL;
    hits h = { .most = 64 }, few = { .most = 1 };
    stk_key keys[5];
    stk_error err;
    set d;

    (void)state;
    set_make(&d, "keys", 3, 7);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    for (int i = 0; i < 5; i++)
        keys[i] = (stk_key){ text[i], strlen(text[i]) };
    assert_int_equal(stk_dataset_find_keys(ds, keys, 5, note, &h, &err), 0);
    assert_int_equal(h.n, 3);
    assert_int_equal(h.key[0], 1);
    assert_int_equal(h.sample[0], 0);
    assert_int_equal(h.key[1] + h.key[2], 3); /* asked for twice */
    assert_int_equal(h.sample[1], 17);
    assert_int_equal(h.sample[2], 17);
    assert_int_equal(stk_dataset_find_keys(ds, keys, 5, note, &few, &err), STK_ECLOSED);
    h.n = 0;
    assert_int_equal(stk_dataset_find_keys(ds, keys, 0, note, &h, &err), 0);
    assert_int_equal(h.n, 0);
    stk_mem_fail_at(1);
    assert_int_equal(stk_dataset_find_keys(ds, keys, 5, note, &h, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
    stk_dataset_unref(&ds);
}

/* Every key of the data at once. */
static void finds_all(void **state)
{
    static char text[21][32];
    stk_dataset *ds = NULL;
    hits h = { .most = 64 };
    stk_key keys[21];
    set d;

    (void)state;
    set_make(&d, "all", 3, 7);
    assert_int_equal(set_open(&d, &ds, NULL), 0);
    for (unsigned i = 0; i < 21; i++)
        keys[i] = (stk_key){ text[i], (size_t)snprintf(text[i], 32, "%u-%06u", i % 3, i / 3) };
    assert_int_equal(stk_dataset_find_keys(ds, keys, 21, note, &h, NULL), 0);
    assert_int_equal(h.n, 21);
    for (unsigned i = 0; i < 21; i++) {
        assert_int_equal(h.sample[i], i);
        assert_int_equal(h.key[i] % 3 * 7 + h.key[i] / 3, i);
    }
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds),
        cmocka_unit_test(finds_all),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
