/* SPDX-License-Identifier: Apache-2.0 */
/* xxh64_test.c - known hashes of every kind of length, whole and in pieces (xxhash 3.5 of Python
 * gave them). */
#include "base/xxh64.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
    size_t len;
    uint64_t hash;
} known[] = { { 0, 0xef46db3751d8e999 },   { 1, 0xe934a84adb052768 },   { 5, 0x8ad58ce18a6fd093 },
              { 8, 0x87116b3365b924eb },   { 31, 0x0f187c62b1e722b7 },  { 32, 0x91b0cb0931a8c629 },
              { 33, 0x931b043cf8d65b94 },  { 63, 0x219110bf13e2fa26 },  { 64, 0xbf3052e3445775d0 },
              { 100, 0x8e2272c08247d5db }, { 1000, 0x25275608a9cfc168 } };

static void lengths(void **state)
{
    uint8_t in[1000];

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t stripes = known[i].len / 32, first = stripes / 2;
        stk_xxh64 x;

        stk_xxh64_init(&x);
        stk_xxh64_add(&x, in, first);
        stk_xxh64_add(&x, in + 32 * first, stripes - first);
        assert_true(stk_xxh64_end(&x, in + 32 * stripes, known[i].len % 32) == known[i].hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lengths) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
