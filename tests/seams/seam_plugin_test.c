/* SPDX-License-Identifier: Apache-2.0 */
/* seam_plugin_test.c - a codec and an op of one's own in a chain; what the registry refuses; the
 * skip policy by a codec that fails. */
#include "seam.h"

#define N 50

/* backwards: bytes last to first, in scratch. */
static int back_narrow(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err)
{
    uint8_t *p = stk_scratch_get(scratch, in.len + 1);

    (void)state;
    if (!p)
        return stk_fail(err, STK_ENOMEM, "no memory");
    for (size_t i = 0; i < in.len; i++)
        p[i] = in.data[in.len - 1 - i];
    *out = (stk_bytes){ p, in.len };
    return 0;
}

static int back_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    (void)err;
    spec->out = STK_OUT_BYTES;
    return 0;
}

static const stk_codec back = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_codec),
                                .name = "backwards",
                                .help = "last byte first",
                                .plan = back_plan,
                                .narrow = back_narrow };

/* sum(weight): one f64, the bytes' sum; refuses sums that a test says are bad. */
typedef struct sum {
    double weight;
    int64_t refuse;
} sum;

static int sum_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    sum *s = state;

    (void)err;
    s->weight = stk_args_f64(args, "weight");
    s->refuse = stk_args_i64(args, "refuse");
    spec->kind = STK_KIND_VALUE;
    spec->out = STK_OUT_DENSE;
    spec->dtype = STK_F64;
    spec->ndim = 0;
    return 0;
}

static int sum_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
{
    const sum *s = state;
    double n = 0;

    for (size_t i = 0; i < in.len; i++)
        n += in.data[i];
    if (s->refuse && in.len && in.len % (size_t)s->refuse == 0)
        return stk_fail(err, STK_ECORRUPT, "%zu bytes are refused", in.len);
    n *= s->weight;
    memcpy(dst, &n, sizeof n);
    return 0;
}

static const stk_arg sum_args[] = { { "weight", STK_ARG_FLOAT, "1", "factor" },
                                    { "refuse", STK_ARG_INT, "0", "lengths that fail" },
                                    { 0 } };
static const stk_codec sum_codec = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_codec),
                                     .name = "sum",
                                     .help = "sum of bytes",
                                     .args = sum_args,
                                     .state_size = sizeof(sum),
                                     .plan = sum_plan,
                                     .parse = sum_parse };

static stk_dataset *ds;

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_shards("a", 1, N, 0);
    ds = seam_open("", "a-0.tar", NULL);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &back, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &sum_codec, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static double model(uint64_t k)
{
    double n = 0;

    for (size_t i = 0; i < seam_bin_len(k); i++)
        n += seam_bin_at(k, i);
    return n;
}

static void used_in_chains(void **state)
{
    static const stk_output out[] = { { "bin", "backwards" },
                                      { "s", "from(bin) | backwards | sum(weight=0.5)" } };
    stk_loader_options o = {
        .size = sizeof o, .outputs = out, .n_outputs = 2, .batch_size = 8, .num_workers = 3
    };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    stk_error err;
    stk_tensor t;

    (void)state;
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
            uint64_t k = stk_batch_ids(b)[i];
            double n;

            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            for (int64_t j = 0; j < t.shape[0]; j++)
                assert_int_equal(((uint8_t *)t.data)[j],
                                 seam_bin_at(k, (size_t)(t.shape[0] - 1 - j)));
            assert_int_equal(stk_batch_row(b, 1, i, &t), 0);
            memcpy(&n, t.data, sizeof n);
            assert_true(n == model(k) / 2);
        }
        assert_int_equal(stk_batch_dense(b, 1, &t), 0);
        assert_int_equal(t.ndim, 1);
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
}

static void refused(void **state)
{
    static stk_codec old = { .abi = STK_PLUGIN_ABI + 1, .size = sizeof(stk_codec), .name = "old" },
                     twin = { .abi = STK_PLUGIN_ABI, .size = sizeof(stk_codec), .name = "image" };
    static stk_codec nameless = { .abi = STK_PLUGIN_ABI, .size = sizeof(stk_codec) };
    stk_plugin_info info;
    stk_error err;
    int found = 0;

    (void)state;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_CODEC, &old, &err), STK_EINVAL);
    assert_string_equal(err.message, "codec old was built for ABI 4, this is 3: rebuild it");
    assert_int_equal(stk_plugin_add(STK_PLUGIN_CODEC, &twin, &err), STK_EINVAL);
    assert_string_equal(err.message, "a plug-in called image is there already");
    assert_int_equal(stk_plugin_add(STK_PLUGIN_CODEC, &sum_codec, &err), STK_EINVAL);
    assert_int_equal(stk_plugin_add(STK_PLUGIN_CODEC, &nameless, &err), STK_EINVAL);
    assert_int_equal(stk_plugin_add(STK_PLUGIN_CODEC, NULL, &err), STK_EINVAL);
    assert_int_equal(stk_plugin_add((stk_plugin_kind)77, &old, &err), STK_EINVAL);
    for (size_t i = 0; stk_plugin_list(STK_PLUGIN_CODEC, i, &info) == 0; i++)
        found += !strcmp(info.name, "sum") && info.args == sum_args;
    assert_int_equal(found, 1);
    assert_int_equal(stk_plugin_list((stk_plugin_kind)0, 0, &info), STK_END);
    assert_int_equal(stk_plugin_list((stk_plugin_kind)77, 0, &info), STK_END);
}

/* A loader's own registry: its chains know what is in it, others do not; it outlives its owner's
 * handle. */
static void a_registry_of_its_own(void **state)
{
    static const stk_output out[] = { { "s", "from(bin) | twice_0 | twice_99" } };
    stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 1, .batch_size = 8 };
    char names[100][16];
    stk_registry *r = NULL;
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    stk_error err;

    (void)state;
    seam_ok(stk_registry_open(&r, NULL, &err), &err);
    for (int i = 0; i < 100; i++) {
        stk_codec codec = back;

        snprintf(names[i], sizeof names[i], "twice_%d", i);
        codec.name = names[i];
        seam_ok(stk_registry_add(r, STK_PLUGIN_CODEC, &codec, &err), &err);
    }
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "no step is called `twice_0`"));
    o.registry = r;
    seam_ok(stk_loader_open(&l, &ds, 1, &o, &err), &err);
    assert_int_equal(stk_registry_add(r, STK_PLUGIN_CODEC, &back, &err), STK_EINVAL);
    assert_string_equal(err.message,
                        "a chain was planned with this registry: add backwards before that");
    stk_registry_close(&r);
    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
            uint64_t k = stk_batch_ids(b)[i];
            stk_tensor t;

            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            assert_int_equal(t.shape[0], seam_bin_len(k));
            for (int64_t j = 0; j < t.shape[0]; j++) /* twice backwards */
                assert_int_equal(((uint8_t *)t.data)[j], seam_bin_at(k, (size_t)j));
        }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
}

/* A codec that says that it unpacks is used where from() finds its suffix, as gunzip is. */
static void unpacks_by_suffix(void **state)
{
    static const stk_output out[] = { { "x", "from(bi) | bytes" },
                                      { "whole", "from(bin) | bytes" } };
    stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 2, .batch_size = N };
    stk_codec codec = back;
    stk_loader *l;
    stk_batch *b = NULL;
    stk_error err;

    (void)state;
    seam_ok(stk_registry_open(&o.registry, NULL, &err), &err);
    codec.name = "unback";
    codec.can = STK_CODEC_UNPACKS;
    codec.suffix = "n";
    seam_ok(stk_registry_add(o.registry, STK_PLUGIN_CODEC, &codec, &err), &err);
    l = seam_loader(&ds, 1, &o);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
        stk_tensor x, whole;

        assert_int_equal(stk_batch_row(b, 0, i, &x), 0);
        assert_int_equal(stk_batch_row(b, 1, i, &whole), 0);
        assert_int_equal(x.shape[0], whole.shape[0]);
        for (int64_t j = 0; j < x.shape[0]; j++)
            assert_int_equal(((uint8_t *)x.data)[j], ((uint8_t *)whole.data)[x.shape[0] - 1 - j]);
    }
    stk_batch_release(&b);
    stk_loader_close(&l);
    stk_registry_close(&o.registry);
}

static void chains_that_are_wrong(void **state)
{
    static const struct {
        const char *chain, *says;
    } bad[] = {
        { "from(bin) | backward", "no step is called `backward`: did you mean `backwards`?" },
        { "from(bin) | sum(wieght=2)", "did you mean `weight`?" },
        { "from(bim) | bytes", "no sample has a field bim: the fields are bin, cls, txt" },
        { "from(bin)", "the chain says where from" },
        { "from(names=bin) | qqqqq", "no step is called `qqqqq`" },
        { "bytes | from(bin)", "from() stands at the beginning" },
        { "from(bin) | sum | sum", "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stk_output out = { "x", bad[i].chain };
        stk_loader_options o = { .size = sizeof o, .outputs = &out, .n_outputs = 1 };
        stk_loader *l = NULL;
        stk_error err = { 0 };
        int rc = stk_loader_open(&l, &ds, 1, &o, &err);

        if (bad[i].says[0]) {
            assert_int_equal(rc, STK_EINVAL);
            if (!strstr(err.message, bad[i].says))
                fail_msg("`%s`: %s", bad[i].chain, err.message);
        }
        stk_loader_close(&l);
    }
}

/* Which samples stand in is a pure function: the same for any number of workers and any
 * prefetch. */
static void skipped_alike(void **state)
{
    static const stk_output out[] = { { "bin", "bytes" }, { "s", "from(bin) | sum(refuse=3)" } };
    static const int32_t workers[] = { STK_NONE, 1, 8 };
    uint64_t first[N] = { 0 };

    (void)state;
    for (int w = 0; w < 6; w++) {
        stk_loader_options o = { .size = sizeof o,
                                 .outputs = out,
                                 .n_outputs = 2,
                                 .batch_size = 8,
                                 .num_workers = workers[w % 3],
                                 .on_error = STK_ON_ERROR_SKIP,
                                 .prefetch = w < 3 ? 1 : 4,
                                 .shuffle = STK_SHUFFLE_EXACT };
        stk_loader *l = seam_loader(&ds, 1, &o);
        uint64_t ids[N], at = 0, marked = 0;
        stk_stats st = { .size = sizeof st };
        stk_batch *b = NULL;
        stk_error err;
        int rc;

        while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
            for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
                uint64_t k = stk_batch_ids(b)[i];

                assert_true(!seam_bin_len(k) || seam_bin_len(k) % 3);
                marked += !stk_batch_valid(b)[i];
                ids[at++] = k;
            }
            stk_batch_release(&b);
        }
        assert_int_equal(rc, STK_END);
        assert_int_equal(at, N);
        if (w)
            assert_memory_equal(ids, first, sizeof ids);
        memcpy(first, ids, sizeof ids);
        stk_loader_stats(l, &st);
        assert_true(marked > 5 && st.skipped >= marked);
        assert_int_equal(stk_loader_skipped(l, 0, &err), 0);
        assert_true(err.sample < N && strstr(err.message, "bytes are refused"));
        assert_int_equal(stk_loader_skipped(l, 1000, &err), STK_END);
        stk_loader_close(&l);
    }
}

static void budget(void **state)
{
    static const stk_output out[] = { { "s", "from(bin) | sum(refuse=3)" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 1,
                             .batch_size = 1,
                             .num_workers = STK_NONE,
                             .on_error = STK_ON_ERROR_SKIP,
                             .skip_budget = 4,
                             .prefetch = 1 };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    stk_error err;
    int rc, steps = 0;

    (void)state;
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        stk_batch_release(&b);
        steps++;
    }
    assert_int_equal(rc, STK_ECORRUPT);
    assert_true(steps > 3);
    assert_non_null(strstr(err.message, "more than 4 bad samples in this epoch"));
    assert_non_null(strstr(err.shard, "a-0.tar"));
    assert_true(err.key[0]);
    seam_ok(stk_loader_seek(l, 1, 0, &err), &err); /* another epoch, another budget */
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    stk_batch_release(&b);
    seam_ok(stk_loader_seek(l, 1 + 256, 5, &err), &err); /* and 256 epochs on, in the middle, too */
    for (int i = 0; i < 3; i++) {
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
}

/* Looking back and forth counts no sample twice against the budget. */
static void budget_and_seeks(void **state)
{
    static const stk_output out[] = { { "s", "from(bin) | sum(refuse=3)" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 1,
                             .batch_size = 10,
                             .num_workers = STK_NONE,
                             .on_error = STK_ON_ERROR_SKIP,
                             .skip_budget = 17,
                             .prefetch = 4 };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    stk_error err;

    (void)state;
    for (int i = 0; i < 20; i++) {
        seam_ok(stk_loader_seek(l, 0, 1 + (uint64_t)i % 2 * 2, &err), &err);
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used_in_chains),
        cmocka_unit_test(refused),
        cmocka_unit_test(a_registry_of_its_own),
        cmocka_unit_test(unpacks_by_suffix),
        cmocka_unit_test(chains_that_are_wrong),
        cmocka_unit_test(skipped_alike),
        cmocka_unit_test(budget),
        cmocka_unit_test(budget_and_seeks),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
