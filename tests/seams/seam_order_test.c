/* SPDX-License-Identifier: Apache-2.0 */
/* seam_order_test.c - orders from a table, with repeats and over two data sets; and two data
 * sets without one. */
#include "seam.h"

#define A 60
#define B 40

typedef struct table {
    stk_where *at;
    uint64_t n;
} table;

static uint64_t table_len(const void *state)
{
    return ((const table *)state)->n;
}

/* Every epoch begins one further on. */
static void table_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                     stk_where *out)
{
    const table *t = state;

    for (uint32_t i = 0; i < n; i++)
        out[i] = t->at[(position[i] + epoch) % t->n];
}

static stk_dataset *ds[2];

static int open_both(void **state)
{
    (void)state;
    seam_shards("a", 3, A / 3, 0);
    seam_shards("b", 2, B / 2, A);
    ds[0] = seam_open("", "a-{0..2}.tar", NULL);
    ds[1] = seam_open("", "b-{0..1}.tar", NULL);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    stk_dataset_unref(&ds[0]);
    stk_dataset_unref(&ds[1]);
    return 0;
}

static void repeats_and_two_data_sets(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 4 };
    stk_where at[151];
    table t = { at, 151 };
    stk_order order = { .abi = STK_PLUGIN_ABI,
                        .size = sizeof(stk_order),
                        .name = "table",
                        .state = &t,
                        .len = table_len,
                        .at = table_at };

    (void)state;
    for (uint64_t i = 0; i < t.n; i++) {
        at[i].dataset = i % 3 == 1;
        at[i].sample = at[i].dataset ? i * 7 % B : i / 2 * 5 % A;
    }
    for (int w = 0; w < 3; w++) {
        stk_loader_options o = seam_options(8, workers[w]);
        stk_loader *l;
        stk_batch *b = NULL;
        stk_error err;
        int rc = 0;

        o.order = &order;
        l = seam_loader(ds, 2, &o);
        assert_int_equal(stk_loader_samples(l), 151);
        assert_int_equal(stk_loader_steps(l), 19);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t p = 0;

            while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
                for (uint32_t i = 0; i < stk_batch_rows(b); i++, p++) {
                    stk_where want = at[(p + epoch) % t.n];
                    uint64_t id = want.sample + (want.dataset ? A : 0), found;

                    seam_check_row(b, i, id, id);
                    assert_int_equal(stk_loader_find(l, epoch, id, &found, &err), 0);
                    assert_true(found <= p); /* a sample may come more than once */
                    assert_int_equal(at[(found + epoch) % t.n].dataset, want.dataset);
                    assert_int_equal(at[(found + epoch) % t.n].sample, want.sample);
                }
                stk_batch_release(&b);
            }
            assert_int_equal(rc, STK_END);
            assert_int_equal(p, 151);
        }
        assert_int_equal(stk_loader_find(l, 0, A + B, &(uint64_t){ 0 }, &err), STK_ENOTFOUND);
        stk_loader_close(&l);
    }
}

/* An order that lies about what there is: one line, no crash. */
static void an_order_that_lies(void **state)
{
    stk_where at[2] = { { 0, 1 }, { 7, 0 } };
    table t = { at, 2 };
    stk_order order = { .abi = STK_PLUGIN_ABI,
                        .size = sizeof(stk_order),
                        .name = "liar",
                        .state = &t,
                        .len = table_len,
                        .at = table_at };
    stk_loader_options o = seam_options(1, 2);
    stk_batch *b = NULL;
    stk_error err;
    stk_loader *l = NULL;

    (void)state;
    o.order = &order;
    l = seam_loader(ds, 2, &o);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    stk_batch_release(&b);
    assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_EINVAL);
    assert_string_equal(err.message, "order liar asks for data set 7, there are 2");
    stk_loader_close(&l);
    at[1] = (stk_where){ 1, B };
    l = seam_loader(ds, 2, &o);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    stk_batch_release(&b);
    assert_true(stk_loader_next(l, &b, 60000, &err) < 0);
    stk_loader_close(&l);
    order.abi = 99;
    assert_int_equal(stk_loader_open(&l, ds, 2, &o, &err), STK_EINVAL);
    assert_string_equal(err.message, "order liar was built for ABI 99, this is 4: rebuild it");
    order.abi = STK_PLUGIN_ABI;
    t.n = 0;
    assert_int_equal(stk_loader_open(&l, ds, 2, &o, &err), STK_EINVAL);
}

static void two_data_sets(void **state)
{
    uint64_t ids[A + B], again[A + B];
    uint8_t seen[A + B] = { 0 };
    stk_loader_options o = seam_options(9, 3);
    stk_loader *l = seam_loader(ds, 2, &o);

    (void)state;
    seam_epoch(l, A + B, ids);
    for (uint64_t i = 0; i < A + B; i++)
        assert_int_equal(ids[i], i);
    stk_loader_close(&l);
    o.shuffle = STK_SHUFFLE_EXACT;
    l = seam_loader(ds, 2, &o);
    seam_epoch(l, A + B, ids);
    for (uint64_t i = 0; i < A + B; i++)
        assert_int_equal(seen[ids[i]]++, 0);
    seam_epoch(l, A + B, again);
    assert_memory_not_equal(ids, again, sizeof ids); /* epochs differ */
    stk_loader_close(&l);
    o.num_workers = STK_NONE;
    l = seam_loader(ds, 2, &o);
    seam_epoch(l, A + B, again);
    assert_memory_equal(ids, again, sizeof ids);
    stk_loader_close(&l);
}

/* Ranks together see every sample once, in as many steps each. */
static void ranks(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 7; world++) {
        uint8_t seen[A + B] = { 0 };
        uint64_t steps = 0;

        for (uint32_t rank = 0; rank < world; rank++) {
            stk_loader_options o = seam_options(6, 2);
            stk_batch *b = NULL;
            uint64_t taken = 0;
            stk_error err;
            stk_loader *l;

            o.shuffle = STK_SHUFFLE_EXACT;
            o.rank = rank;
            o.world_size = world;
            l = seam_loader(ds, 2, &o);
            for (; stk_loader_next(l, &b, 60000, &err) == 0; taken++) {
                for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
                    uint64_t id = stk_batch_ids(b)[i];

                    seam_check_row(b, i, id, id);
                    seen[id] += stk_batch_valid(b)[i];
                }
                stk_batch_release(&b);
            }
            assert_true(rank == 0 || taken == steps);
            steps = taken;
            stk_loader_close(&l);
        }
        for (int i = 0; i < A + B; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void bad_options(void **state)
{
    stk_loader_options o = seam_options(4, 1), x;
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
#define REFUSED(field, value)                                                                      \
    x = o;                                                                                         \
    x.field = value;                                                                               \
    assert_int_equal(stk_loader_open(&l, ds, 2, &x, &err), STK_EINVAL);                            \
    assert_null(l)
    REFUSED(rank, 5);
    REFUSED(n_outputs, 0);
    REFUSED(num_workers, -2);
    REFUSED(num_workers, 100000);
    REFUSED(prefetch, 100000);
    REFUSED(io_threads, UINT32_MAX);
    REFUSED(batch_size, UINT32_MAX);
    REFUSED(n_stages, 1000);
    x = o;
    x.drop_last = STK_YES;
    x.batch_size = 101;
    assert_int_equal(stk_loader_open(&l, ds, 2, &x, &err), STK_EINVAL);
    assert_int_equal(stk_loader_open(&l, ds, 0, &o, &err), STK_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_and_two_data_sets),
        cmocka_unit_test(an_order_that_lies),
        cmocka_unit_test(two_data_sets),
        cmocka_unit_test(ranks),
        cmocka_unit_test(bad_options),
    };

    return cmocka_run_group_tests(tests, open_both, close_both);
}
