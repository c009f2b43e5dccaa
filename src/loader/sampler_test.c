/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_test.c - samples of data that is read elsewhere: all once, whatever the ranks; resumed at
 * any position; what needs data is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stoker/sampler.h>

#define N 211
#define CAP 64

static const uint64_t lens[2] = { 200, 11 };

static stk_sampler *opened(const stk_loader_options *o)
{
    stk_sampler *s = NULL;
    stk_error err = { 0 };

    assert_int_equal(stk_sampler_open(&s, lens, 2, o, &err), 0);
    return s;
}

/* Count the valid rows of all steps of a rank that enters an epoch at `from`. */
static void count_rows(const stk_sampler *s, uint64_t from, uint32_t *seen)
{
    uint64_t ids[CAP], positions[CAP];
    stk_error err = { 0 };

    for (uint64_t i = 0; i < stk_sampler_steps(s, from); i++) {
        stk_sampler_step step = { .ids = ids, .positions = positions, .cap = CAP };

        assert_int_equal(stk_sampler_at(s, 3, from, i, &step, &err), 0);
        for (uint32_t r = 0; step.valid && r < step.rows; r++) {
            assert_true(positions[r] >= from && positions[r] < N && ids[r] < N);
            seen[ids[r]]++;
        }
    }
}

static void all_samples_once_for_any_ranks(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 5; world++) {
        uint32_t seen[N] = { 0 };

        for (uint32_t rank = 0; rank < world; rank++) {
            stk_loader_options o = { .size = sizeof o,
                                     .batch_size = 7,
                                     .rank = rank,
                                     .world_size = world,
                                     .seed = 5,
                                     .shuffle = STK_SHUFFLE_EXACT };
            stk_sampler *s = opened(&o);

            count_rows(s, 0, seen);
            stk_sampler_close(&s);
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void resumed_by_other_ranks(void **state)
{
    stk_loader_options one = { .size = sizeof one, .batch_size = 10, .shuffle = STK_SHUFFLE_EXACT };
    stk_loader_options two = {
        .size = sizeof two, .batch_size = 3, .world_size = 2, .shuffle = STK_SHUFFLE_EXACT
    };
    uint64_t ids[CAP], positions[CAP];
    uint32_t seen[N] = { 0 };
    stk_sampler_step step = { .ids = ids, .positions = positions, .cap = CAP };
    stk_sampler *s = opened(&one);
    stk_error err = { 0 };

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(stk_sampler_at(s, 3, 0, i, &step, &err), 0);
        for (uint32_t r = 0; r < step.rows; r++)
            seen[ids[r]]++;
    }
    stk_sampler_close(&s);
    for (two.rank = 0; two.rank < 2; two.rank++) {
        s = opened(&two);
        count_rows(s, 40, seen);
        stk_sampler_close(&s);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
}

static void what_needs_data_is_refused(void **state)
{
    stk_loader_options cases[] = {
        { .size = sizeof cases[0], .exclude = "x.jsonl" },
        { .size = sizeof cases[0], .max_tokens = 100 },
        { .size = sizeof cases[0], .bucket = 100 },
        { .size = sizeof cases[0], .shuffle = STK_SHUFFLE_BLOCK },
        { .size = sizeof cases[0], .rank = 3, .world_size = 2 },
        { .size = sizeof cases[0], .batch_size = 300, .drop_last = STK_YES },
    };
    stk_sampler *s = NULL;
    stk_error err = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(stk_sampler_open(&s, lens, 2, &cases[i], &err) < 0);
        assert_null(s);
        assert_true(err.message[0]);
    }
    assert_true(stk_sampler_open(&s, lens, 0, NULL, &err) < 0);
}

static void past_the_end_is_an_error(void **state)
{
    uint64_t ids[CAP], positions[CAP];
    stk_sampler_step step = { .ids = ids, .positions = positions, .cap = CAP };
    stk_loader_options o = { .size = sizeof o, .batch_size = 32 };
    stk_sampler *s = opened(&o);
    stk_error err = { 0 };

    (void)state;
    assert_int_equal(stk_sampler_steps(s, 0), 7);
    assert_int_equal(stk_sampler_steps(s, 1000), 0);
    assert_true(stk_sampler_at(s, 0, 0, 7, &step, &err) < 0);
    step.cap = 31;
    assert_true(stk_sampler_at(s, 0, 0, 0, &step, &err) < 0);
    assert_true(stk_sampler_substitute(s, 0, 5, 1) < N);
    assert_true(stk_sampler_substitute(s, 0, 5, 0) < N);
    stk_sampler_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_samples_once_for_any_ranks),
        cmocka_unit_test(resumed_by_other_ranks),
        cmocka_unit_test(what_needs_data_is_refused),
        cmocka_unit_test(past_the_end_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
