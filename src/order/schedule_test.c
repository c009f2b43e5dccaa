/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_test.c - a schedule on its own, without outputs, data and threads: which samples each
 * rank gets, resumed anywhere, written down before they are used; batches by length and packed
 * rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "order/schedule.h"

#define N 211
#define WORLD 4
#define BATCH 6
#define CAP 512

static const uint64_t lens[3] = { 50, 1, 160 };

static stk_schedule *made(uint32_t rank, uint64_t global, int drop_last)
{
    stk_rank_split split = {
        .global = global, .rank = rank, .world = WORLD, .drop_last = drop_last
    };
    stk_schedule *s = NULL;
    stk_error err;

    assert_int_equal(stk_schedule_open(&s, lens, 3, &split, 7, &err), 0);
    assert_int_equal(stk_order_exact(&s->order, &s->set, 7, 1, &err), 0);
    assert_int_equal(stk_schedule_settle(s, &err), 0);
    assert_int_equal(s->positions, N);
    return s;
}

static uint32_t length_of(uint64_t id)
{
    return (uint32_t)(id * 11 % 37);
}

static void bin(stk_schedule *s, stk_bin_kind kind)
{
    stk_error err;

    s->lengths = stk_zalloc(N, sizeof *s->lengths);
    assert_non_null(s->lengths);
    for (uint64_t i = 0; i < N; i++)
        s->lengths[i] = length_of(i);
    s->binning = (stk_binning){ .kind = kind,
                                .order = &s->order,
                                .length = s->lengths,
                                .start = s->start,
                                .seed = 7,
                                .shuffle = 1,
                                .window = 64,
                                .block = 16,
                                .fit = STK_FIT_BEST,
                                .budget = 80,
                                .rows = kind == STK_BIN_BUDGET ? 80 : WORLD * BATCH,
                                .group = WORLD };
    assert_int_equal(
        stk_schedule_bin(s, kind == STK_BIN_PACK ? STK_TICKET_PIECE : STK_TICKET_LISTED, &err), 0);
}

/* Every position once an epoch, all ranks the same number of steps, and any rank can be asked. */
static void ranks_share_an_epoch(void **state)
{
    stk_schedule *s = made(2, BATCH * WORLD, 0);

    (void)state;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t steps = stk_schedule_steps(s, epoch), ids[CAP];
        uint8_t seen[N] = { 0 };

        assert_int_equal(steps, (N + BATCH * WORLD - 1) / (BATCH * WORLD));
        for (uint64_t step = 0; step <= steps; step++)
            for (uint32_t rank = 0; rank < WORLD; rank++) {
                stk_step_at at = { epoch, 0, step, rank };
                int valid;
                uint32_t n = stk_schedule_ids(s, &at, ids, CAP, &valid);

                assert_int_equal(n == 0, step == steps);
                for (uint32_t i = 0; valid && i < n; i++) {
                    assert_in_range(ids[i], 0, N - 1);
                    assert_int_equal(seen[ids[i]]++, 0);
                }
            }
        for (uint64_t i = 0; i < N; i++)
            assert_int_equal(seen[i], 1);
    }
    stk_schedule_close(&s);
}

typedef struct log {
    uint64_t steps, rows, fail_at;
    uint64_t id[CAP];
} log_of;

static int add(void *cookie, const stk_ledger_row *row, stk_error *err)
{
    log_of *l = cookie;

    if (l->fail_at == l->steps)
        return stk_fail(err, STK_EIO, "the disk is full");
    assert_int_equal(row->step, l->steps);
    memcpy(l->id + l->rows, row->ids, row->rows * sizeof *row->ids);
    l->rows += row->rows;
    l->steps++;
    return 0;
}

/* What is handed out was written down before; what could not be written down is handed out
 * later. */
static void written_down_first(void **state)
{
    stk_schedule *s = made(1, BATCH * WORLD, 0);
    uint64_t ids[CAP], want[CAP], rows = 0;
    uint8_t valid[CAP];
    log_of log = { .fail_at = 3 };
    stk_ledger_hook hook = { add, &log };
    stk_handed out = { .ids = ids, .valid = valid, .cap = CAP };
    stk_cursor c;
    stk_error err;
    int rc, ok;

    (void)state;
    assert_int_equal(stk_schedule_enter(s, 1, 0, &c, &err), 0);
    while ((rc = stk_schedule_hand_out(s, &c, &hook, &out, &err)) != STK_END) {
        stk_step_at at = { 1, 0, log.steps - (rc == 0), 1 };

        assert_int_equal(stk_schedule_ids(s, &at, want, CAP, &ok), out.rows);
        assert_memory_equal(want, ids, out.rows * sizeof *ids);
        if (rc < 0) {
            assert_int_equal(rc, STK_EIO);
            assert_int_equal(c.at, 3);
            log.fail_at = UINT64_MAX;
            continue;
        }
        assert_memory_equal(log.id + rows, ids, out.rows * sizeof *ids);
        rows += out.rows;
    }
    assert_int_equal(rows, log.rows);
    assert_int_equal(log.steps, stk_schedule_steps(s, 1));
    out.cap = 1;
    c.at = 0;
    assert_int_equal(stk_schedule_hand_out(s, &c, &(stk_ledger_hook){ 0 }, &out, &err), STK_ELIMIT);
    assert_int_equal(c.at, 0);
    stk_schedule_close(&s);
}

/* Another number of rows may go on from any position; the rest of the epoch is the same samples. */
static void entered_anywhere(void **state)
{
    stk_schedule *s = made(0, 1, 0);
    uint64_t order[N];
    stk_where where[N];
    uint64_t position[N];
    stk_error err;
    stk_cursor c;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        position[i] = i;
    stk_schedule_at(s, 5, position, N, where);
    for (uint64_t i = 0; i < N; i++)
        order[i] = stk_schedule_id(s, &where[i]);
    stk_schedule_close(&s);
    s = made(0, BATCH * WORLD, 0);
    for (uint64_t from = 0; from <= N; from += 13) {
        uint64_t at = from, ids[CAP];

        assert_int_equal(stk_schedule_enter(s, 5, from, &c, &err), 0);
        for (uint64_t step = 0; step < c.steps; step++)
            for (uint32_t rank = 0; rank < WORLD; rank++) {
                int valid;
                uint32_t n = stk_schedule_ids(s, &(stk_step_at){ 5, from, step, rank }, ids, CAP,
                                              &valid);

                for (uint32_t i = 0; valid && i < n; i++)
                    assert_int_equal(ids[i], order[at++]);
            }
        assert_int_equal(at, N);
    }
    assert_int_equal(stk_schedule_enter(s, 5, N + 1, &c, &err), STK_EINVAL);
    stk_schedule_close(&s);
}

/* Slots go on over the end of an epoch; the tickets that they list are the ids that are
 * answered. */
static void tickets_are_the_ids(void **state)
{
    static const stk_bin_kind kinds[] = { STK_BIN_BUDGET, STK_BIN_LIKE, STK_BIN_PACK };
    uint64_t position[CAP], ids[CAP];
    stk_piece_place place[CAP];
    uint32_t used[CAP], part[CAP];
    stk_ticket_list list = { position, place, used, part };

    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        stk_schedule *s = made(3, kinds[k] == STK_BIN_BUDGET ? WORLD : WORLD * BATCH, 0);
        stk_cursor c = { 0 };
        stk_error err;

        bin(s, kinds[k]);
        assert_int_equal(stk_schedule_enter(s, 0, 0, &c, &err), 0);
        for (unsigned slot = 0; slot < 60; slot++) {
            uint64_t first = c.at == c.steps ? 0 : c.at, epoch = c.epoch + (c.at == c.steps);
            uint32_t n, rows, sum = 0, longest = 1;
            stk_share h;
            int valid;

            stk_schedule_next(s, &c, &h);
            assert_int_equal(h.epoch, epoch);
            n = stk_schedule_tickets(s, &h, &list);
            rows = stk_schedule_ids(s, &(stk_step_at){ epoch, 0, first, 3 }, ids, CAP, &valid);
            assert_int_equal(valid, !h.filler);
            assert_int_equal(rows, kinds[k] == STK_BIN_PACK ? h.rows : n);
            for (uint32_t i = 0; i < n; i++) {
                stk_where where;
                uint64_t id;

                stk_schedule_at(s, epoch, &position[i], 1, &where);
                id = stk_schedule_id(s, &where);
                if (kinds[k] != STK_BIN_PACK || !place[i].number)
                    assert_int_equal(ids[kinds[k] == STK_BIN_PACK ? place[i].row : i], id);
                longest = length_of(id) > longest ? length_of(id) : longest;
                sum += kinds[k] == STK_BIN_PACK ? place[i].len : 0;
            }
            if (kinds[k] == STK_BIN_BUDGET && valid)
                assert_in_range(n * longest, 1, 80);
            for (uint32_t r = 0; kinds[k] == STK_BIN_PACK && r < h.rows; r++) {
                assert_in_range(used[r], 1, 16);
                sum -= used[r];
            }
            assert_int_equal(sum, 0);
        }
        stk_schedule_close(&s);
    }
}

/* The same for the same attempt, another for the next, always one of the epoch; within the
 * budget. */
static void substitutes(void **state)
{
    stk_schedule *s = made(0, WORLD, 0);
    uint64_t together[2] = { 4, 9 };
    unsigned differ = 0;

    (void)state;
    bin(s, STK_BIN_BUDGET);
    for (uint32_t attempt = 1; attempt <= STK_MAX_SUBSTITUTES; attempt++) {
        stk_bad_sample bad = { 2, 17, attempt, 8, together };
        stk_where one, again;

        stk_schedule_substitute(s, &bad, &one);
        stk_schedule_substitute(s, &bad, &again);
        assert_int_equal(stk_schedule_id(s, &one), stk_schedule_id(s, &again));
        assert_in_range(8 * length_of(stk_schedule_id(s, &one)), 0, 80);
        bad.attempt = attempt % STK_MAX_SUBSTITUTES + 1;
        stk_schedule_substitute(s, &bad, &again);
        differ += stk_schedule_id(s, &one) != stk_schedule_id(s, &again);
    }
    assert_true(differ > STK_MAX_SUBSTITUTES / 2);
    stk_schedule_close(&s);
}

static void no_memory_and_no_samples(void **state)
{
    stk_rank_split split = { .global = 1, .world = 1 };
    static const uint64_t none[2] = { 0, 0 };
    stk_schedule *s = NULL;
    stk_error err;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_schedule_open(&s, lens, 3, &split, 0, &err), STK_ENOMEM);
        assert_null(s);
    }
    stk_mem_fail_at(0);
    assert_int_equal(stk_schedule_open(&s, none, 2, &split, 0, &err), 0);
    assert_int_equal(stk_order_exact(&s->order, &s->set, 0, 1, &err), 0);
    assert_int_equal(stk_schedule_settle(s, &err), STK_EINVAL);
    assert_string_equal(err.message, "the data set has no samples");
    stk_schedule_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_an_epoch), cmocka_unit_test(written_down_first),
        cmocka_unit_test(entered_anywhere),     cmocka_unit_test(tickets_are_the_ids),
        cmocka_unit_test(substitutes),          cmocka_unit_test(no_memory_and_no_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
