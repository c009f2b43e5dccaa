/* SPDX-License-Identifier: Apache-2.0 */
/* group_bins_test - every position comes once, bins of a group are alike, rests are what was asked
 * for; an epoch that was begun on another number of ranks; memory that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/schedule.h"

#define MOST 2000
#define SEED 20261119u

static uint32_t class_of[MOST];

static uint64_t random_of(uint64_t i, uint64_t k)
{
    uint64_t at[2] = { i, k };

    return stk_hash64(SEED, at, sizeof at);
}

typedef struct made {
    stk_schedule *s;
    uint64_t n;
} made;

static made make(uint64_t round, stk_bin_kind kind, stk_bin_rest rest, uint32_t world)
{
    made m = { .n = 1 + random_of(round, 0) % (MOST - 1) };
    stk_rank_split split = { .world = world, .global = world };
    stk_binning *h;
    stk_error err;

    assert_int_equal(stk_schedule_open(&m.s, &m.n, 1, &split, SEED + round, &err), 0);
    assert_int_equal(stk_order_exact(&m.s->order, &m.s->set, SEED, (int)(round & 1), &err), 0);
    assert_int_equal(stk_schedule_settle(m.s, &err), 0);
    h = &m.s->binning;
    *h = (stk_binning){ .kind = kind,
                        .order = &m.s->order,
                        .start = m.s->start,
                        .length = class_of,
                        .seed = SEED,
                        .shuffle = (int)(round >> 1 & 1),
                        .rest = rest,
                        .group = world,
                        .classes = 1 + (uint32_t)(random_of(round, 1) % 9),
                        .rows = 1 + (uint32_t)(random_of(round, 2) % 7),
                        .n_steps = 3,
                        .steps = { { 3, { 576, 0 } }, { 1, { 1024, 0 } }, { 8, { 128, 32 } } } };
    for (uint64_t i = 0; i < m.n; i++) /* some classes are empty, some have hardly any */
        class_of[i] = (uint32_t)(random_of(round, i + 9) % (1 + random_of(round, i) % h->classes));
    if (kind == STK_BIN_STEPS)
        h->rows = 8;
    assert_int_equal(stk_schedule_bin(m.s, STK_TICKET_LISTED, &err), 0);
    return m;
}

static uint32_t class_at(const made *m, uint64_t epoch, uint64_t position)
{
    stk_where w;

    m->s->order.at(m->s->order.state, epoch, &position, 1, &w);
    return class_of[w.sample];
}

typedef struct seen {
    uint32_t times[MOST], in_class[MOST], positions, short_steps;
} seen;

/* One step of all ranks; `least` rows of a group that is full. */
static void check_step(const made *m, uint64_t epoch, uint64_t step, seen *out)
{
    const stk_binning *h = &m->s->binning;
    uint64_t position[MOST];
    uint32_t world = h->group, rows = 0, kind = 0, most = h->rows;

    for (uint32_t r = 0; r < world; r++) {
        uint64_t bin = step * world + r;
        int stand_in;
        const stk_bin_step *entry = stk_bins_step(m->s->bins, epoch, bin, &stand_in);
        uint32_t n = stk_bins_size(m->s->bins, epoch, bin);

        most = entry ? entry->rows : most;
        assert_in_range(n, 1, most);
        stk_bins_at(m->s->bins, epoch, bin, 0, n, position);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t c = h->kind == STK_BIN_CLASS ? class_at(m, epoch, position[i])
                                                  : entry->limit.patches;

            assert_true(position[i] < m->n);
            assert_true((!r && !i) || c == kind); /* the same for all of the step */
            kind = c;
            out->times[position[i]] += !stand_in;
        }
        rows += stand_in ? 0 : n;
        assert_true(!stand_in || n == 1);
        assert_true(!stand_in || h->rest == STK_REST_SMALLER);
    }
    out->positions += rows;
    if (rows < most * world) {
        assert_int_equal(h->rest, STK_REST_SMALLER);
        out->short_steps++;
    }
}

static void check_epoch(const made *m, uint64_t epoch)
{
    static seen s;
    const stk_binning *h = &m->s->binning;
    uint64_t bins = stk_bins_count(m->s->bins, epoch);
    uint32_t missed = 0, twice = 0, limit;

    memset(&s, 0, sizeof s);
    assert_int_equal(bins % h->group, 0);
    for (uint64_t step = 0; step < bins / h->group; step++)
        check_step(m, epoch, step, &s);
    for (uint64_t i = 0; i < m->n; i++) {
        missed += !s.times[i];
        twice += s.times[i] > 1;
    }
    limit = (h->kind == STK_BIN_CLASS ? h->classes : 1) * h->rows * h->group;
    assert_true(h->rest == STK_REST_DROP ? missed < limit : !missed);
    assert_true(h->rest == STK_REST_WRAP ? s.positions - m->n < limit : !twice);
    assert_true(s.short_steps <= (h->kind == STK_BIN_CLASS ? h->classes : 1));
}

static void test_every_position_once(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 240; round++) {
        made m = make(round, round & 4 ? STK_BIN_CLASS : STK_BIN_STEPS,
                      (stk_bin_rest)(round / 8 % 3), 1 + (uint32_t)(round / 24 % 5));

        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_epoch(&m, epoch);
        stk_schedule_close(&m.s);
    }
}

static uint64_t print_of(const made *m, uint64_t epoch)
{
    uint64_t position[MOST], h = 0, bins = stk_bins_count(m->s->bins, epoch);

    for (uint64_t bin = 0; bin < bins; bin++) {
        uint32_t n = stk_bins_size(m->s->bins, epoch, bin);

        stk_bins_at(m->s->bins, epoch, bin, 0, n, position);
        h = stk_hash64(h, position, n * sizeof *position);
    }
    return h;
}

/* Batches of an epoch that four ranks began, read by three. */
static void test_an_epoch_of_other_ranks(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 16; round++) {
        stk_bin_kind kind = round & 4 ? STK_BIN_CLASS : STK_BIN_STEPS;
        made four = make(round, kind, STK_REST_SMALLER, 4);
        uint64_t first = print_of(&four, 0), second = print_of(&four, 1), own;
        made three = make(round, kind, STK_REST_SMALLER, 3);
        stk_error err;

        own = print_of(&three, 0);
        three.s->binning.before.group = 4;
        three.s->binning.before.epoch = 1;
        assert_int_equal(stk_schedule_bin(three.s, STK_TICKET_LISTED, &err), 0);
        assert_int_equal(print_of(&three, 1), second);
        assert_int_equal(print_of(&three, 0), own); /* the others are its own */
        assert_true(own != first || four.n < 9);
        stk_schedule_close(&three.s);
        stk_schedule_close(&four.s);
    }
}

static void test_ranks_without_a_row_are_marked(void **state)
{
    uint64_t n = 5, id[MOST];
    stk_rank_split split = { .world = 4, .global = 4 };
    stk_schedule *s;
    stk_error err;
    int valid;

    (void)state;
    memset(class_of, 0, sizeof class_of);
    class_of[4] = 1; /* alone */
    assert_int_equal(stk_schedule_open(&s, &n, 1, &split, SEED, &err), 0);
    assert_int_equal(stk_order_exact(&s->order, &s->set, SEED, 0, &err), 0);
    assert_int_equal(stk_schedule_settle(s, &err), 0);
    s->binning = (stk_binning){ .kind = STK_BIN_CLASS,
                                .order = &s->order,
                                .start = s->start,
                                .length = class_of,
                                .rows = 1,
                                .group = 4,
                                .classes = 2 };
    assert_int_equal(stk_schedule_bin(s, STK_TICKET_LISTED, &err), 0);
    assert_int_equal(stk_schedule_steps(s, 0), 2);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(stk_schedule_ids(s, &(stk_step_at){ 0, 0, 0, rank }, id, 8, &valid), 1);
        assert_true(valid && id[0] == rank);
        assert_int_equal(stk_schedule_ids(s, &(stk_step_at){ 0, 0, 1, rank }, id, 8, &valid), 1);
        assert_int_equal(id[0], 4); /* of the step's class, also where it stands for nothing */
        assert_int_equal(valid, rank == 0);
    }
    stk_schedule_close(&s);
}

static void test_memory_that_fails(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        made m = make(5, i ? STK_BIN_CLASS : STK_BIN_STEPS, STK_REST_SMALLER, 2);
        stk_bins *b = NULL;
        stk_error err;

        for (uint64_t k = 1;; k++) {
            int rc;

            stk_mem_fail_at(k);
            rc = stk_bins_open(&b, &m.s->binning, &err);
            stk_mem_fail_at(0);
            if (rc == 0)
                break;
            assert_int_equal(rc, STK_ENOMEM);
            assert_null(b);
        }
        stk_bins_close(&b);
        stk_schedule_close(&m.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_position_once),
        cmocka_unit_test(test_an_epoch_of_other_ranks),
        cmocka_unit_test(test_ranks_without_a_row_are_marked),
        cmocka_unit_test(test_memory_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
