/* SPDX-License-Identifier: Apache-2.0 */
/* slots_test.c - slots on their way: opened in order over the end of an epoch, done by their last
 * row, stages that finish later, the lowest row's failure, a drain in the middle; and bad samples,
 * which others stand in for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "pipe/claim.h"

#define SAMPLES 22
#define ROWS 4
#define SLOTS 8

static stk_engine e;
static stk_plan plan;
static stk_account reads;
static stk_row_table table = { .replaceable = 1 };
static uint32_t stage_calls;
static int stage_answer;

static int stage(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    (void)t;
    stage_calls++;
    return stage_answer < 0 ? stk_fail(err, stage_answer, "stage of step %d", (int)b->step)
                            : stage_answer;
}

/* Everything that a ring needs is real, but its rows have no outputs. */
static int setup(void **state)
{
    stk_rank_split split = { .global = ROWS, .world = 1 };
    uint64_t samples = SAMPLES;
    stk_error err;

    (void)state;
    memset(&e, 0, sizeof e);
    memset(&plan, 0, sizeof plan);
    stage_calls = 0;
    stage_answer = 0;
    stk_account_init(&reads, 1 << 20);
    assert_int_equal(stk_schedule_open(&plan.schedule, &samples, 1, &split, 7, &err), 0);
    assert_int_equal(stk_order_exact(&plan.schedule->order, &plan.schedule->set, 7, 1, &err), 0);
    assert_int_equal(stk_schedule_settle(plan.schedule, &err), 0);
    assert_int_equal(stk_batch_plan_open(&plan.outputs.common, 0, NULL, 0, &err), 0);
    assert_int_equal(stk_pool_open(&plan.outputs.common->pool, NULL, 1 << 20, &err), 0);
    plan.outputs.common->batch = ROWS;
    plan.memory.reads = &reads;
    plan.batching.rows = plan.batching.tickets = ROWS;
    plan.batching.stage[0].run = stage;
    plan.batching.n_stages = 1;
    plan.rows.usual = &table;
    e.plan = &plan;
    e.schedule = plan.schedule;
    e.tickets = ROWS;
    e.n_slots = SLOTS;
    atomic_store(&e.figures.ahead, SLOTS);
    assert_int_equal(stk_mutex_init(&e.lock), 0);
    assert_int_equal(pthread_cond_init(&e.work, NULL), 0);
    assert_int_equal(pthread_cond_init(&e.ready, NULL), 0);
    assert_int_equal(stk_schedule_enter(e.schedule, 0, 0, &e.ahead, &err), 0);
    e.bad.list = stk_zalloc(STK_LISTED_SKIPS, sizeof *e.bad.list);
    return e.bad.list ? 0 : -1;
}

static void open_all(void)
{
    stk_error err;

    stk_mutex_lock(&e.lock);
    assert_int_equal(stk_ring_open_locked(&e, &err), 0);
    stk_mutex_unlock(&e.lock);
}

/* All rows are some worker's: the test says when they are done. */
static void open_and_claim_all(void)
{
    uint64_t first;

    open_all();
    for (uint32_t i = 0; i < SLOTS; i++)
        while (atomic_load(&e.claim) < (i + 1) * ROWS)
            assert_true(stk_claim(&e, ROWS, &first) > 0);
}

/* What the test left to be done is done before the ring is drained. */
static int teardown(void **state)
{
    uint64_t next = atomic_load(&e.claim) & (((uint64_t)1 << STK_TICKET_BITS) - 1);

    (void)state;
    stage_answer = 0;
    for (uint64_t seq = stk_tail(&e); seq < stk_head(&e) && seq * ROWS < next; seq++)
        stk_ring_done(&e, &e.slot[seq], atomic_load(&e.slot[seq].left));
    stk_ring_drain(&e);
    stk_batch_plan_unref(&plan.outputs.common);
    stk_schedule_close(&plan.schedule);
    stk_free(e.bad.list);
    return 0;
}

static uint32_t ready(void)
{
    return atomic_load(&e.figures.ready);
}

/* 22 samples are 6 batches, the last of 2 rows; the ring goes on with the next epoch. */
static void opened_in_order(void **state)
{
    (void)state;
    open_all();
    assert_int_equal(stk_open_slots(&e), SLOTS);
    assert_int_equal(atomic_load(&e.limit), SLOTS * ROWS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const stk_slot *s = &e.slot[i];

        assert_int_equal(s->state, STK_SLOT_FILLING);
        assert_int_equal(s->epoch, i / 6);
        assert_int_equal(s->step, i % 6);
        assert_int_equal(s->batch->rows, i == 5 ? 2 : ROWS);
        assert_int_equal(atomic_load(&s->left), ROWS); /* the others are done by being claimed */
    }
    open_all(); /* all are open */
    assert_int_equal(stk_head(&e), SLOTS);
}

static void as_many_as_may_be_ahead(void **state)
{
    (void)state;
    atomic_store(&e.figures.ahead, 3);
    open_all();
    assert_int_equal(stk_open_slots(&e), 3);
    plan.memory.open_slots = 4; /* of 8: half of those that may be open must be free */
    atomic_store(&e.figures.ahead, 4);
    open_all();
    assert_int_equal(stk_open_slots(&e), 3);
    atomic_store(&e.figures.ahead, 5);
    open_all();
    assert_int_equal(stk_open_slots(&e), 5);
}

static void the_last_row_runs_the_stages(void **state)
{
    (void)state;
    open_and_claim_all();
    assert_int_equal(stk_ring_done(&e, &e.slot[0], 0), 0); /* no row is no last row */
    assert_int_equal(stk_ring_done(&e, &e.slot[0], 3), 0);
    assert_int_equal(stage_calls, 0);
    assert_int_equal(e.slot[0].state, STK_SLOT_FILLING);
    assert_int_equal(stk_ring_done(&e, &e.slot[0], 1), 1);
    assert_int_equal(stage_calls, 1);
    assert_int_equal(e.slot[0].state, STK_SLOT_READY);
    assert_int_equal(ready(), 1);
}

static void a_stage_that_finishes_later(void **state)
{
    stk_slot *s = &e.slot[1];

    (void)state;
    plan.batching.stage[1] = plan.batching.stage[0];
    plan.batching.n_stages = 2;
    stage_answer = STK_PENDING;
    open_and_claim_all();
    assert_int_equal(stk_ring_done(&e, s, ROWS), 1);
    assert_int_equal(s->state, STK_SLOT_STAGES);
    assert_int_equal(stage_calls, 1);
    stage_answer = 0;
    stk_ticket_done(&s->ticket.ticket, 0, NULL); /* then the next one runs */
    assert_int_equal(stage_calls, 2);
    assert_int_equal(s->state, STK_SLOT_READY);
    stage_answer = STK_PENDING;
    assert_int_equal(stk_ring_done(&e, &e.slot[2], ROWS), 1);
    stk_ticket_done(&e.slot[2].ticket.ticket, STK_EIO, NULL); /* and not after a failure */
    assert_int_equal(stage_calls, 3);
    assert_int_equal(e.slot[2].rc, STK_EIO);
    assert_int_equal(e.slot[2].state, STK_SLOT_READY);
}

/* Whatever order workers come in. */
static void the_lowest_row_speaks(void **state)
{
    stk_slot *s = &e.slot[0];
    stk_error err;

    (void)state;
    open_and_claim_all();
    for (uint32_t i = 0; i < 3; i++) {
        static const uint32_t row[] = { 2, 1, 3 };

        stk_ring_fail(&e, s, row[i], stk_fail(&err, STK_ECORRUPT, "row %u", row[i]), &err);
    }
    assert_int_equal(s->rc, STK_ECORRUPT);
    assert_int_equal(s->err_row, 1);
    assert_string_equal(s->err.message, "row 1");
    assert_int_equal(stk_ring_done(&e, s, ROWS), 1);
    assert_int_equal(stage_calls, 0); /* rows are missing */
    assert_int_equal(s->state, STK_SLOT_READY);
    stage_answer = STK_EIO;
    assert_int_equal(stk_ring_done(&e, &e.slot[3], ROWS), 1);
    assert_int_equal(e.slot[3].rc, STK_EIO);
    assert_string_equal(e.slot[3].err.message, "stage of step 3");
}

static void drained_in_the_middle(void **state)
{
    uint64_t first, seeks;

    (void)state;
    open_all();
    assert_int_equal(stk_claim(&e, ROWS, &first), ROWS);
    assert_int_equal(stk_ring_done(&e, &e.slot[0], ROWS), 1);
    assert_int_equal(stk_claim(&e, 3, &first), 3);         /* a worker is at these ... */
    assert_int_equal(stk_ring_done(&e, &e.slot[1], 3), 0); /* ... and has done them */
    seeks = atomic_load(&e.claim) >> STK_TICKET_BITS;
    stk_ring_drain(&e);
    assert_int_equal(atomic_load(&e.claim) >> STK_TICKET_BITS, seeks + 1);
    assert_int_equal(stk_claim(&e, ROWS, &first), 0);
    assert_int_equal(stk_open_slots(&e), 0);
    assert_int_equal(ready(), 0);
    assert_int_equal(stage_calls, 1); /* what is thrown away is not made */
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_true(e.slot[i].state == STK_SLOT_FREE && !e.slot[i].batch);
    assert_int_equal(stk_pool_out(plan.outputs.common->pool), 0);
    open_all(); /* and on */
    assert_int_equal(stk_claim(&e, ROWS, &first), ROWS);
    assert_int_equal(first, 0);
}

/* ---- bad samples ---- */

static int bad(stk_worker *w, stk_request *r, uint64_t sample, int *rc, stk_error *err)
{
    stk_error_clear(err);
    *rc = stk_fail(err, *rc, "it is bad");
    err->sample = sample;
    return stk_bad_stand_in(w, r, &e.slot[0], rc, err);
}

static void others_stand_in(void **state)
{
    stk_worker w = { .engine = &e };
    stk_request r = { .row.ticket = 2, .row.position = 2 };
    int rc = STK_ECORRUPT;
    stk_error err;

    (void)state;
    open_all();
    r.where.sample = 5;
    assert_int_equal(bad(&w, &r, 5, &rc, &err), 1);
    assert_true(r.row.attempt == 1 && r.where.sample < SAMPLES && r.where.sample != 5);
    assert_int_equal(e.slot[0].batch->valid[2], 0);
    assert_int_equal(atomic_load(&e.slot[0].skipped), 1);
    rc = STK_EIO; /* a disk that fails is no bad sample */
    assert_int_equal(bad(&w, &r, 5, &rc, &err), 0);
    rc = STK_ECORRUPT;
    r.index_failed = 1; /* nor is an index */
    assert_int_equal(bad(&w, &r, 5, &rc, &err), 0);
    assert_int_equal(atomic_load(&e.slot[0].skipped), 1);
    r.index_failed = 0;
    assert_int_equal(bad(&w, &r, 5, &rc, &err), 1);
    assert_int_equal(bad(&w, &r, 6, &rc, &err), 1);
    assert_int_equal(atomic_load(&e.bad.n), 2); /* each sample is listed once */
    assert_true(e.bad.list[0].sample == 5 && e.bad.list[1].sample == 6);
}

static void not_for_ever(void **state)
{
    stk_worker w = { .engine = &e };
    stk_request r = { .row.position = 1 };
    int rc = STK_ECORRUPT;
    stk_error err;

    (void)state;
    open_all();
    for (uint32_t i = 0; i < STK_MAX_SUBSTITUTES; i++)
        assert_int_equal(bad(&w, &r, i, &rc, &err), 1);
    assert_int_equal(bad(&w, &r, 1, &rc, &err), 0);
    assert_non_null(strstr(err.message, "100 samples in a row"));
    plan.policy.skip_budget = STK_MAX_SUBSTITUTES + 2;
    r.row.attempt = 0;
    assert_int_equal(bad(&w, &r, 1, &rc, &err), 1);
    assert_int_equal(bad(&w, &r, 1, &rc, &err), 0);
    assert_non_null(strstr(err.message, "the skip budget is spent"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opened_in_order),
        TEST(as_many_as_may_be_ahead),
        TEST(the_last_row_runs_the_stages),
        TEST(a_stage_that_finishes_later),
        TEST(the_lowest_row_speaks),
        TEST(drained_in_the_middle),
        TEST(others_stand_in),
        TEST(not_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
