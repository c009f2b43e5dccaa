/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: the same bytes as without them, in few reads where reads go on, and none past the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "source/read_steps.h"

#define SIZE (48u << 20)
#define SEED 29

static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)(at * 2654435761u >> 13);
}

typedef struct far {       /* what is read */
    uint32_t reads, fails; /* fails: so many reads that come next */
    uint64_t bytes;
} far;

static int fill(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    far *f = cookie;

    assert_true(at <= SIZE && len <= SIZE - at);
    f->reads++;
    f->bytes += len;
    if (f->fails) {
        f->fails--;
        return stk_fail(err, STK_EIO, "no answer");
    }
    for (size_t i = 0; i < len; i++)
        dst[i] = byte_at(at + i);
    return 0;
}

static void look(stk_read_steps *s, uint64_t at, size_t len)
{
    stk_bytes got;

    assert_int_equal(stk_read_steps_read(s, at, len, &got, NULL), 0);
    assert_int_equal(got.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(got.data[i], byte_at(at + i));
}

static void any_reads_are_right(void **state)
{
    far f = { 0 };
    stk_read_steps s = { .fill = fill, .cookie = &f };
    stk_bytes got;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    for (int exact = 0; exact < 2; exact++) {
        s.exact = exact;
        stk_read_steps_begin(&s, SIZE);
        for (uint32_t i = 0, at = 0; i < 200; i++) {
            uint32_t len = stk_rng_below(&rng, i % 9 ? 100 : 20000);

            at = i % 3 ? at + stk_rng_below(&rng, 200000) : stk_rng_below(&rng, SIZE);
            at = at < SIZE - len ? at : SIZE - len;
            f.fails = i % 40 == 7 ? UINT32_MAX : 0; /* what failed is not taken for bytes */
            if (f.fails)
                (void)stk_read_steps_read(&s, at, len, &got, NULL);
            f.fails = 0;
            look(&s, at, len);
        }
        assert_int_equal(stk_read_steps_read(&s, SIZE - 3, 4, &got, NULL), STK_ECORRUPT);
        assert_int_equal(stk_read_steps_read(&s, UINT64_MAX, 4, &got, NULL), STK_ECORRUPT);
        look(&s, SIZE, 0);
    }
    stk_read_steps_fini(&s);
}

static void a_walk_takes_few_reads(void **state)
{
    far f = { 0 };
    stk_read_steps s = { .fill = fill, .cookie = &f };

    (void)state;
    stk_read_steps_begin(&s, SIZE);
    for (uint32_t at = 0; at < SIZE - 64; at += 20000) /* heads of 2,500 blocks */
        look(&s, at, 28);
    assert_in_range(f.reads, 1, 20);
    f = (far){ 0 };
    stk_read_steps_begin(&s, SIZE);
    look(&s, 0, 4096);
    look(&s, 32, 16);
    look(&s, SIZE - 300000, 16); /* tables at the end: all of them */
    look(&s, SIZE - 299984, 299984);
    assert_int_equal(f.reads, 2);
    assert_true(f.bytes <= 300000 + 65536);
    stk_read_steps_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_reads_are_right),
                                        cmocka_unit_test(a_walk_takes_few_reads) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
