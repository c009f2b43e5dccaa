/* SPDX-License-Identifier: Apache-2.0 */
/* sample_set_test.c - every question to a sample set against a plain list of the samples that take
 * part: small data sets, empty ones too, with all of exclude, select, skip, limit and repeat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "order/order.h"

#define ALL 7 /* samples */

static const uint64_t lens[] = { 2, 0, 4, 1, 0 };
static const uint32_t data_of[ALL] = { 0, 0, 2, 2, 2, 2, 3 };
static const uint64_t sample_of[ALL] = { 0, 1, 0, 1, 2, 3, 0 };

/* The samples that take part, once. */
static uint64_t list_of(const stk_sample_set *r, uint64_t *id)
{
    uint64_t named[2 * ALL], n = 0, all = 0;

    for (uint64_t i = 0; i < (r->select ? r->n_select : ALL); i++) {
        int out = 0;

        for (uint64_t k = 0; k < r->exclude.n; k++)
            out |= r->exclude.id[k] == i;
        if (!out)
            named[all++] = r->select ? r->select[i] : i;
    }
    for (uint64_t i = r->skip; i < all && (!r->limit || n < r->limit); i++)
        id[n++] = named[i];
    return n;
}

static void places_are_the_lists(const stk_sample_set *r, const uint64_t *id, uint64_t n)
{
    uint64_t len = stk_sample_set_len(r);
    stk_where at;

    assert_int_equal(len, n * (r->repeat ? r->repeat : 1));
    for (uint64_t i = 0; i < len; i++) {
        uint64_t want = id[i % n];

        assert_int_equal(stk_sample_set_id(r, i), want);
        stk_sample_set_at(r, i, &at);
        assert_int_equal(at.dataset, data_of[want]);
        assert_int_equal(at.sample, sample_of[want]);
    }
}

/* Runs end with a data set, before a gap and with a repeat, and are never too short. */
static void runs_are_the_lists(const stk_sample_set *r, const uint64_t *id, uint64_t n)
{
    uint64_t len = stk_sample_set_len(r);

    for (uint64_t i = 0; i < len; i++)
        for (uint32_t most = 1; most <= len - i; most++) {
            uint32_t run = 1;

            while (run < most && i % n + run < n && id[i % n + run] == id[i % n] + run &&
                   data_of[id[i % n + run]] == data_of[id[i % n]])
                run++;
            assert_int_equal(stk_sample_set_run(r, i, most), run);
        }
}

static void samples_are_found(const stk_sample_set *r, const uint64_t *id, uint64_t n)
{
    for (uint64_t k = 0; k < ALL; k++) {
        const stk_where at = { .dataset = data_of[k], .sample = sample_of[k] };
        uint64_t want = 0;

        while (want < n && id[want] != k)
            want++;
        assert_true(stk_sample_set_find(r, &at) == (want < n ? want : UINT64_MAX));
    }
}

static void counts_are_the_lists(const stk_sample_set *r, const uint64_t *id, uint64_t n)
{
    for (uint64_t k = 0; k <= ALL && !r->select; k++) {
        uint64_t want = 0;

        while (want < n && id[want] < k)
            want++;
        assert_int_equal(stk_sample_set_below(r, k), want);
    }
}

static void check(const stk_sample_set *r)
{
    uint64_t id[2 * ALL], n = list_of(r, id);

    places_are_the_lists(r, id, n);
    runs_are_the_lists(r, id, n);
    samples_are_found(r, id, n);
    counts_are_the_lists(r, id, n);
}

/* With every skip, limit and some repeats. */
static void check_cuts(stk_sample_set *r)
{
    for (r->repeat = 0; r->repeat <= 3; r->repeat++)
        for (r->skip = 0; r->skip <= ALL + 1; r->skip++)
            for (r->limit = 0; r->limit <= ALL + 1; r->limit++)
                check(r);
}

static void every_subset(void **state)
{
    stk_sample_set r;
    stk_error err;

    (void)state;
    for (unsigned out = 0; out < 1u << ALL; out++) {
        uint64_t id[ALL];

        assert_int_equal(stk_sample_set_init(&r, lens, 5, &err), 0);
        r.exclude.id = id;
        for (unsigned i = 0; i < ALL; i++)
            if (out >> i & 1)
                id[r.exclude.n++] = i;
        check_cuts(&r);
    }
}

/* Samples may be named in any order, and more than once. */
static void selected(void **state)
{
    static uint64_t lists[][2 * ALL] = { { 6, 5, 4, 3, 2, 1, 0 },
                                         { 2, 3, 4, 5, 0, 1 },
                                         { 5, 6, 5, 6, 0, 1, 2, 0 },
                                         { 3, 3, 3 },
                                         { 4 } };
    const uint64_t n[] = { 7, 6, 8, 3, 1 };
    stk_sample_set r;
    stk_error err;

    (void)state;
    for (size_t k = 0; k < 5; k++) {
        assert_int_equal(stk_sample_set_init(&r, lens, 5, &err), 0);
        r.select = lists[k];
        r.n_select = n[k];
        check_cuts(&r);
    }
}

static void what_is_not_there(void **state)
{
    const stk_where none[] = { { .dataset = 5 },
                               { .dataset = 1 },
                               { .dataset = 0, .sample = 2 },
                               { .dataset = 2, .sample = UINT64_MAX } };
    stk_sample_set r;
    stk_error err;

    (void)state;
    assert_int_equal(stk_sample_set_init(&r, lens, 5, &err), 0);
    for (size_t i = 0; i < 4; i++)
        assert_true(stk_sample_set_find(&r, &none[i]) == UINT64_MAX);
}

static void fingerprints(void **state)
{
    uint64_t some[] = { 1, 4 }, others[] = { 1, 5 }, print[7];
    stk_sample_set r;
    stk_error err;

    (void)state;
    for (int k = 0; k < 7; k++) {
        assert_int_equal(stk_sample_set_init(&r, lens, 5, &err), 0);
        r.skip = k == 1 ? 2 : 0;
        r.limit = k == 2 ? 2 : 0;
        r.repeat = k == 3 ? 2 : 0;
        r.exclude = k == 4 ? (stk_exclude){ some, 2 } : (stk_exclude){ NULL, 0 };
        r.select = k == 5 ? some : k == 6 ? others : NULL;
        r.n_select = r.select ? 2 : 0;
        print[k] = stk_sample_set_print(&r);
        for (int i = 0; i < k; i++)
            if (k != 5 || i != 4) /* all but some, or some alone: the same ids */
                assert_true(print[i] != print[k]);
    }
}

static void limits(void **state)
{
    static const uint64_t empty[STK_MAX_DATASETS + 1];
    const uint64_t most[] = { ((uint64_t)1 << 48) - 1, 1 };
    stk_sample_set r;
    stk_error err;

    (void)state;
    assert_int_equal(stk_sample_set_init(&r, empty, STK_MAX_DATASETS, &err), 0);
    assert_int_equal(stk_sample_set_len(&r), 0);
    assert_int_equal(stk_sample_set_init(&r, empty, STK_MAX_DATASETS + 1, &err), STK_ELIMIT);
    assert_non_null(strstr(err.message, "at most 1024 data sets, not 1025"));
    assert_int_equal(stk_sample_set_init(&r, most, 1, &err), 0);
    assert_int_equal(stk_sample_set_init(&r, most, 2, &err), STK_ELIMIT);
    assert_non_null(strstr(err.message, "at most 2^48 samples, not 281474976710656"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subset),
        cmocka_unit_test(selected),
        cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
