/* SPDX-License-Identifier: Apache-2.0 */
/* seam_lengths_test.c - batches by length and packed rows with several workers: the same batches
 * for any number of them, every sample once, after seeks and with workers added; orders of one's
 * own are refused.  Run under TSan, like all seams. */
#include "make_tar.h"
#include "seam.h"

#define N 400
#define BLOCK 32

static stk_dataset *ds;

static unsigned length_of(unsigned k)
{
    return k * 37 % 50;
}

static int setup(void **state)
{
    FILE *f = fopen(seam_path("ints.tar"), "wb");

    (void)state;
    for (unsigned k = 0; k < N; k++) {
        char text[1024] = "", name[32];
        int at = 0;

        for (unsigned i = 0; i < length_of(k); i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%u ", k * 100 + i);
        snprintf(name, sizeof name, "%06u.ids", k);
        tar_member(f, name, text, (size_t)at);
    }
    tar_end(f);
    fclose(f);
    ds = seam_open("", "ints.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static const stk_output plain = { "ids", "ints" };
static const stk_output packed[2] = {
    { "x", "from(ids) | ints | pack(block=32, window=100, pad=-1)" },
    { "y", "from(ids) | ints | pack(block=32, window=100, shift=1)" },
};

static stk_loader *open_one(int kind, int32_t workers)
{
    stk_loader_options o = { .size = sizeof o,
                             .num_workers = workers,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .collate = STK_COLLATE_PAD,
                             .outputs = &plain,
                             .n_outputs = 1,
                             .seed = 9 };

    if (kind == 0) {
        o.max_tokens = 300;
        o.bucket = 128;
    } else {
        o.batch_size = 6;
        o.bucket = kind == 1 ? 90 : 0;
    }
    if (kind == 2) {
        o.outputs = packed;
        o.n_outputs = 2;
    }
    return seam_loader(&ds, 1, &o);
}

typedef struct sums { /* of an epoch */
    uint64_t steps, values, print;
    uint32_t seen[N];
} sums;

/* Every value, in its row; of packed rows -1 is what fills them. */
static void add(sums *s, const stk_batch *b)
{
    const int64_t *v;
    stk_tensor t;

    assert_int_equal(stk_batch_dense(b, 0, &t), 0);
    assert_int_equal(t.dtype, STK_I64);
    v = t.data;
    for (int64_t i = 0; i < t.shape[0] * t.shape[1]; i++) {
        s->print = s->print * 31 + (uint64_t)v[i];
        if (v[i] < 1)
            continue;
        s->values++;
        s->seen[v[i] / 100]++;
    }
    s->steps++;
}

static void epoch(stk_loader *l, sums *s)
{
    stk_batch *b = NULL;
    stk_error err = { 0 };
    int rc;

    memset(s, 0, sizeof *s);
    while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
        add(s, b);
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        fail_msg("%s", err.message);
}

static void check(const sums *s)
{
    uint64_t values = 0;

    for (unsigned k = 0; k < N; k++) {
        unsigned n = length_of(k) - (k == 0 && length_of(k)); /* its first value is 0 */

        assert_int_equal(s->seen[k], n);
        values += n;
    }
    assert_int_equal(s->values, values);
}

static void same_for_any_number_of_workers(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        sums want[3], got;

        for (int32_t workers = STK_NONE; workers < 6; workers += 2) {
            stk_loader *l = open_one(kind, workers);

            for (int e = 0; e < 3; e++) {
                uint64_t steps = stk_loader_steps(l);

                epoch(l, &got);
                check(&got);
                assert_int_equal(got.steps, steps);
                if (workers == STK_NONE)
                    want[e] = got;
                assert_int_equal(got.print, want[e].print);
            }
            assert_int_not_equal(want[0].print, want[1].print);
            stk_loader_close(&l);
        }
    }
}

/* A loader that is moved about gives what one gives that was never moved. */
static void seeks_and_more_workers(void **state)
{
    stk_error err;

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        stk_loader *l = open_one(kind, 2);
        stk_batch *b = NULL;
        sums want, got;

        epoch(l, &want);
        for (uint32_t i = 0; i < 12; i++) {
            seam_ok(stk_loader_seek(l, i % 3, i % 5, &err), &err);
            seam_ok(stk_loader_next(l, &b, -1, &err), &err);
            assert_int_equal(stk_batch_step(b), i % 5);
            stk_batch_release(&b);
            if (i == 5)
                seam_ok(stk_loader_set_workers(l, 6, &err), &err);
        }
        seam_ok(stk_loader_seek(l, 0, 0, &err), &err);
        epoch(l, &got);
        assert_int_equal(got.print, want.print);
        stk_loader_close(&l);
    }
}

static uint64_t own_len(const void *state)
{
    (void)state;
    return N;
}

static void own_at(const void *state, uint64_t e, const uint64_t *position, uint32_t n,
                   stk_where *out)
{
    (void)state;
    (void)e;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (stk_where){ .dataset = 7, .sample = position[i] };
}

static void own_orders_are_refused(void **state)
{
    static const stk_order own = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_order),
                                   .name = "own",
                                   .len = own_len,
                                   .at = own_at };
    stk_loader_options o = {
        .size = sizeof o, .outputs = packed, .n_outputs = 2, .batch_size = 4, .order = &own
    };
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_ENOTSUP);
    assert_non_null(strstr(err.message, "orders that ship"));
    assert_null(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_number_of_workers),
        cmocka_unit_test(seeks_and_more_workers),
        cmocka_unit_test(own_orders_are_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
