/* SPDX-License-Identifier: Apache-2.0 */
/* row_test.c - what all rows have in common: outputs in the order of the table, memory that is
 * waited for, the end of a batch, histograms; lengths; documents of rows that are packed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "row/row.h"

#define N 37

static stk_maker maker;
static stk_request request;
static stk_row row;
static stk_row_table table;
static uint32_t made[16], n_made, waits;
static int answers[4];

static int make(stk_row *x, stk_error *err)
{
    made[n_made++] = x->output;
    if (answers[x->output] >= 0)
        return 0;
    x->m->short_room = 100;
    answers[x->output]++; /* so often there is no memory */
    return stk_fail(err, STK_ENOMEM, "no memory for output %u", x->output);
}

static int wait_room(stk_maker *m, uint64_t ticket, size_t room, stk_error *err)
{
    assert_true(ticket == 9 && room == 100);
    (void)m;
    return ++waits <= 3 ? 0 : stk_fail(err, STK_ECLOSED, "the loader is closing");
}

static int finish(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                  stk_error *err)
{
    (void)p;
    (void)b;
    (void)used;
    made[n_made++] = output;
    return output == 2 ? stk_fail(err, STK_ECORRUPT, "output 2") : 0;
}

static const stk_row_work work = { .name = "work", .make = make };
static const stk_row_goal ends = { .name = "ends", .finish = finish }, endless = { "endless" };
static const stk_row_ops outs[4] = {
    { .work = &work, .goal = &ends },
    { .work = &work, .goal = &endless },
    { .work = &work, .goal = &ends },
    { .work = &work, .goal = &ends },
};

static int setup(void **state)
{
    (void)state;
    memset(&maker, 0, sizeof maker);
    memset(&request, 0, sizeof request);
    memset(answers, 0, sizeof answers);
    maker.wait_room = wait_room;
    request.row.ticket = 9;
    table = (stk_row_table){ .n_out = 4, .out = outs };
    row = (stk_row){ .m = &maker, .table = &table, .req = &request };
    n_made = waits = 0;
    return 0;
}

static void in_the_order_of_the_table(void **state)
{
    static const uint32_t order[4] = { 2, 0, 3, 1 };
    stk_error err;

    (void)state;
    assert_int_equal(stk_row_make(&row, &err), 0);
    assert_int_equal(n_made, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(made[i], i);
    table.order = order;
    n_made = 0;
    assert_int_equal(stk_row_make(&row, &err), 0);
    assert_memory_equal(made, order, sizeof order);
}

/* An output without memory waits, and is made again; those before it are not. */
static void made_again_when_there_is_memory(void **state)
{
    static const uint32_t order[] = { 0, 1, 1, 1, 2, 3 };
    stk_error err;

    (void)state;
    answers[1] = -2;
    assert_int_equal(stk_row_make(&row, &err), 0);
    assert_int_equal(waits, 2);
    assert_int_equal(n_made, 6);
    assert_memory_equal(made, order, sizeof order);
    assert_int_equal(row.again, 0);
}

static void a_loader_that_closes_ends_it(void **state)
{
    stk_error err;

    (void)state;
    answers[1] = -100;
    assert_int_equal(stk_row_make(&row, &err), STK_ECLOSED); /* who waits says why */
    assert_string_equal(err.message, "the loader is closing");
    assert_int_equal(n_made, 5); /* 0, 1 and three times more; not 2 */
}

static void a_batch_ends_once_per_output(void **state)
{
    stk_error err;

    (void)state;
    assert_int_equal(stk_row_finish(&table, NULL, NULL, NULL, &err), STK_ECORRUPT);
    assert_int_equal(n_made, 2); /* 0 and 2: 1 has nothing to do, 3 comes after the failure */
    assert_int_equal(made[1], 2);
}

static void histograms(void **state)
{
    static const uint64_t ticks[] = { 0, 1, 2, 3, 4, 1023, 1024, UINT64_MAX };
    static const uint32_t at[] = { 0, 0, 1, 1, 2, 9, 10, STK_TIMES - 1 };

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t before = atomic_load(&maker.count.times[STK_STAGE_VALUE][at[i]]);

        stk_took(&maker, STK_STAGE_VALUE, ticks[i]);
        assert_int_equal(atomic_load(&maker.count.times[STK_STAGE_VALUE][at[i]]), before + 1);
    }
    stk_does(&maker, STK_STAGE_FETCH, 77);
    stk_does_next(&maker, STK_STAGE_DECODE); /* of the same row */
    assert_int_equal(atomic_load(&maker.count.doing), (uint64_t)STK_STAGE_DECODE << 48 | 77);
}

/* What was believed of a field that memory or the GPU had. */
static void what_was_found(void **state)
{
    stk_wanted want[3] = { 0 };

    (void)state;
    request.want = want;
    request.n = 2;
    assert_int_equal(stk_row_was_found(&request), 0);
    want[2].gpu_cached = 1; /* not one of its fields */
    assert_int_equal(stk_row_was_found(&request), 0);
    want[1].gpu_cached = 1;
    assert_int_equal(stk_row_was_found(&request), 1);
}

static stk_schedule *scheduled(void)
{
    static const uint64_t lens[2] = { 30, 7 };
    stk_rank_split split = { .global = 4, .world = 1 };
    stk_schedule *s = NULL;
    stk_error err;

    assert_int_equal(stk_schedule_open(&s, lens, 2, &split, 7, &err), 0);
    assert_int_equal(stk_order_exact(&s->order, &s->set, 7, 1, &err), 0);
    assert_int_equal(stk_schedule_settle(s, &err), 0);
    return s;
}

/* Outputs of one sample: the longest counts.  What stands in for a bad sample does not. */
static void lengths_are_noted(void **state)
{
    uint32_t measured[N] = { 0 };
    stk_plan plan = { .rows.measured = measured };
    stk_schedule *s = scheduled();
    stk_row_out out = { .len = 5 };
    stk_batch_out of = { .row = &out };
    stk_batch b = { .out = &of };

    (void)state;
    row.plan = &plan;
    row.schedule = s;
    row.batch = &b;
    row.where = (stk_where){ .dataset = 1, .sample = 4 };
    assert_int_equal(stk_length_note(&row, 12), 0);
    assert_int_equal(stk_length_note(&row, 3), 0);
    assert_int_equal(measured[34], 12);
    assert_true(out.ndim == 1 && out.shape[0] == 0 && out.len == 0); /* no row is made */
    stk_length_note(&row, (int64_t)1 << 40);
    assert_int_equal(measured[34], UINT32_MAX);
    row.where = (stk_where){ .sample = 3 };
    request.row.attempt = 1;
    stk_length_note(&row, 8);
    assert_int_equal(measured[3], 0);
    stk_schedule_close(&s);
}

/* Every document of an epoch stands in one row, with its own place; memory is used again. */
static void documents_of_packed_rows(void **state)
{
    stk_schedule *s = scheduled();
    stk_document doc[2][30];
    stk_packed packed[2] = { { .doc = doc[0] }, { .doc = doc[1] } };
    stk_row_docs d = { 0 };
    stk_error err;

    (void)state;
    s->lengths = stk_zalloc(N, sizeof *s->lengths);
    assert_non_null(s->lengths);
    for (uint32_t i = 0; i < N; i++) {
        stk_document *at = i < 30 ? &doc[0][i] : &doc[1][i - 30];

        s->lengths[i] = 1 + i % 9;
        *at = (stk_document){ .at = i * 100, .len = s->lengths[i] };
    }
    s->binning = (stk_binning){ .kind = STK_BIN_PACK,
                                .order = &s->order,
                                .length = s->lengths,
                                .start = s->start,
                                .seed = 7,
                                .shuffle = 1,
                                .window = 64,
                                .block = 16,
                                .fit = STK_FIT_BEST };
    assert_int_equal(stk_schedule_bin(s, STK_TICKET_BIN, &err), 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t seen[N] = { 0 };

        for (uint64_t bin = 0; bin < stk_bins_count(s->bins, epoch); bin++) {
            uint32_t used = 0;

            assert_int_equal(stk_row_docs_find(&d, s, packed, epoch, bin, &err), 0);
            assert_true(d.n > 0 && d.n <= d.cap);
            for (uint32_t i = 0; i < d.n; i++) {
                uint64_t id = stk_schedule_id(s, &d.where[i]);

                assert_int_equal(d.doc[i].at, id * 100);
                used += d.doc[i].len;
                seen[id]++;
            }
            assert_true(used <= 16);
        }
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(seen[i], 1);
    }
    stk_row_docs_fini(&d);
    assert_true(!d.doc && !d.cap);
    stk_schedule_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(in_the_order_of_the_table, setup),
        cmocka_unit_test_setup(made_again_when_there_is_memory, setup),
        cmocka_unit_test_setup(a_loader_that_closes_ends_it, setup),
        cmocka_unit_test_setup(a_batch_ends_once_per_output, setup),
        cmocka_unit_test_setup(histograms, setup),
        cmocka_unit_test_setup(what_was_found, setup),
        cmocka_unit_test_setup(lengths_are_noted, setup),
        cmocka_unit_test_setup(documents_of_packed_rows, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
