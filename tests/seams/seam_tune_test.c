/* SPDX-License-Identifier: Apache-2.0 */
/* seam_tune_test.c - num_workers and prefetch left to the loader: few batches are made ahead while
 * that is enough, more where it helps, workers are parked that are not needed, and batches are the
 * same. */
#include <stdatomic.h>
#include <unistd.h>

#include "seam.h"

#define N 3000
#define ROW 65536 /* values: a ring of such rows is worth saving */

static stk_dataset *ds;
static _Atomic unsigned rows;
static unsigned spike_ms, spike_every;

static int big_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    (void)err;
    spec->kind = STK_KIND_VALUE;
    spec->out = STK_OUT_DENSE;
    spec->dtype = STK_F64;
    spec->ndim = 1;
    spec->shape[0] = ROW;
    return 0;
}

static int big_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                     stk_error *err)
{
    double first = (double)in.len;

    (void)state;
    (void)err;
    memcpy(dst, &first, sizeof first);
    if (spike_every && atomic_fetch_add(&rows, 1) % spike_every == 0)
        seam_sleep_ms(spike_ms);
    return 0;
}

static const stk_codec big = { .abi = STK_PLUGIN_ABI,
                               .size = sizeof big,
                               .name = "big",
                               .help = "a large row",
                               .plan = big_plan,
                               .parse = big_parse };
static const stk_output output = { "x", "from(bin) | big" };

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_shards("t", 1, N, 0);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &big, &err), &err);
    ds = seam_open("", "t-0.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static stk_loader *open_free(int32_t workers, uint32_t prefetch)
{
    stk_loader_options o = seam_options(8, workers);

    o.outputs = &output;
    o.n_outputs = 1;
    o.prefetch = prefetch;
    o.memory_limit = (uint64_t)1 << 30;
    o.shuffle = STK_SHUFFLE_EXACT;
    return seam_loader(&ds, 1, &o);
}

/* n batches, each followed by a step; the sum of ids with their places, and the figures after
 * it. */
static uint64_t take(stk_loader *l, unsigned n, unsigned step_ms, stk_stats *st)
{
    uint64_t sum = 0;
    stk_batch *b = NULL;
    stk_error err;

    for (unsigned i = 0; i < n; i++) {
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        for (uint32_t k = 0; k < stk_batch_rows(b); k++)
            sum = sum * 31 + stk_batch_ids(b)[k];
        stk_batch_release(&b);
        if (step_ms)
            seam_sleep_ms(step_ms);
    }
    st->size = sizeof *st;
    stk_loader_stats(l, st);
    return sum;
}

static void a_slow_consumer_needs_little(void **state)
{
    stk_loader *l = open_free(0, 0), *same = open_free(3, 7);
    stk_stats st, other;
    uint32_t first;

    (void)state;
    spike_every = 0;
    assert_true(take(l, 1, 0, &st) == take(same, 1, 0, &other));
    first = st.workers;
    assert_int_equal(st.ring_ahead, 2);
    assert_true(st.slots > 2);
    assert_int_equal(other.ring_ahead, 7); /* what was asked for stays */
    assert_true(take(l, 150, 10, &st) == take(same, 150, 0, &other));
    assert_int_equal(other.ring_ahead, 7);
    assert_int_equal(other.workers, 3);
    print_message("%u workers became %u, %u batches ahead\n", first, st.workers, st.ring_ahead);
    /* others had the cores */
    assert_true(st.workers == 1 || st.wait_ns - st.first_wait_ns > 20000000);
    assert_true(st.memory_peak < other.memory_peak);
    stk_loader_close(&l);
    stk_loader_close(&same);
}

static void the_ring_grows_where_that_helps(void **state)
{
    stk_loader *l = open_free(8, 0);
    stk_stats st;

    (void)state;
    spike_every = 64; /* a batch in eight takes long: the others must be made meanwhile */
    spike_ms = 40;
    /* it may shrink again when the machine is busy */
    for (uint32_t i = 0, most = 0; i < 40 && most <= 2; i++) {
        take(l, 20, 5, &st);
        most = st.ring_ahead;
    }
    print_message("%u batches ahead of %u\n", st.ring_ahead, st.slots);
    assert_true(st.ring_ahead > 2);
    assert_int_equal(st.workers, 8); /* what was asked for */
    stk_loader_close(&l);
    spike_every = 0;
}

static void a_number_that_is_set_stays(void **state)
{
    stk_loader *l = open_free(0, 0);
    stk_stats st;
    stk_error err;

    (void)state;
    seam_ok(stk_loader_set_ahead(l, 5, &err), &err);
    seam_ok(stk_loader_set_workers(l, 3, &err), &err);
    take(l, 100, 3, &st);
    assert_int_equal(st.ring_ahead, 5);
    assert_int_equal(st.workers, 3);
    stk_loader_close(&l);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_consumer_needs_little),
        cmocka_unit_test(the_ring_grows_where_that_helps),
        cmocka_unit_test(a_number_that_is_set_stays),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
