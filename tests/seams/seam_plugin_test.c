/* SPDX-License-Identifier: Apache-2.0 */
/* seam_plugin_test.c - a codec and an op of one's own in a chain; what the registry refuses; the
 * skip policy by a codec that fails. */
#include "seam.h"

#define N 50

/* backwards: bytes last to first, in scratch. */
static int back_extract(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
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

/* Names that were replaced in 0.3: they work, and compilers warn. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static const stk_codec back = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_codec),
                                .name = "backwards",
                                .help = "last byte first",
                                .plan = back_plan,
                                .narrow = back_extract };

static void old_names(void **state)
{
    stk_spec spec = { .most = 3, .typed = 1 };
    stk_stats stats = { .gpu_redecoded = 4, .resample_call_ns = 5 };

    (void)state;
    assert_true(back.extract == back_extract);
    assert_int_equal(spec.max_len, 3);
    assert_int_equal(spec.dtype_fixed, 1);
    assert_int_equal(stats.gpu_mended, 4);
    assert_int_equal(stats.sample_call_ns, 5);
    assert_int_equal(STK_STAGE_SAMPLE, STK_STAGE_RESAMPLE);
}
#pragma GCC diagnostic pop

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

static int sum_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                     stk_error *err)
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

/* A codec with a context: the rows that its worker made before, in scratch memory on the way. */
static _Atomic int opened, closed;

static int count_open(const void *state, void **ctx, stk_error *err)
{
    (void)state;
    *ctx = calloc(1, sizeof(uint64_t));
    if (!*ctx)
        return stk_fail(err, STK_ENOMEM, "no memory for a context");
    opened++;
    return 0;
}

static void count_close(void *ctx)
{
    closed++;
    free(ctx);
}

static int count_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                       stk_error *err)
{
    uint64_t *n = stk_scratch_get(work->scratch, sizeof *n);
    double out;

    if (!n)
        return stk_fail(err, STK_ENOMEM, "no memory for a number");
    *n = ++*(uint64_t *)work->ctx;
    out = (double)*n;
    memcpy(dst, &out, sizeof out);
    return 0;
}

static const stk_codec count_codec = { .abi = STK_PLUGIN_ABI,
                                       .size = sizeof(stk_codec),
                                       .name = "count",
                                       .help = "rows of a worker",
                                       .args = sum_args,
                                       .state_size = sizeof(sum),
                                       .plan = sum_plan,
                                       .parse = count_parse,
                                       .open = count_open,
                                       .close = count_close };

/* An op that is random: the number is replaced by one that is drawn. */
static int dice_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    return spec->dtype == STK_F64 ? 0 : stk_fail(err, STK_EINVAL, "dice takes numbers of f64");
}

static int dice_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                      stk_error *err)
{
    double *out = stk_scratch_get(scratch, sizeof *out);

    if (!out)
        return stk_fail(err, STK_ENOMEM, "no memory for a number");
    *out = stk_rng_unit(rng);
    row->data = out;
    return 0;
}

static const stk_op dice = { .abi = STK_PLUGIN_ABI,
                             .size = sizeof(stk_op),
                             .name = "dice",
                             .help = "a random number",
                             .plan = dice_plan,
                             .value = dice_value };

/* An op whose rows are not what its plan says: another type, too many dimensions, a length below
 * zero, and one that no memory holds. */
static int odd_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                     stk_error *err)
{
    (void)rng;
    (void)scratch;
    (void)err;
    switch (*(const int *)state) {
    case 0: row->dtype = STK_F32; return 0;
    case 1: row->ndim = STK_MAX_DIMS + 1; return 0;
    case 2:
        row->ndim = 1;
        row->shape[0] = -1;
        return 0;
    default:
        row->ndim = 2;
        row->shape[0] = row->shape[1] = INT64_MAX;
        return 0;
    }
}

static int odd_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)spec;
    (void)err;
    *(int *)state = (int)stk_args_i64(args, "way");
    return 0;
}

static const stk_arg odd_args[] = { { "way", STK_ARG_INT, "0", "how it is wrong" }, { 0 } };

static const stk_op odd = { .abi = STK_PLUGIN_ABI,
                            .size = sizeof(stk_op),
                            .name = "odd",
                            .help = "rows that were not planned",
                            .args = odd_args,
                            .state_size = sizeof(int),
                            .plan = odd_plan,
                            .value = odd_value };

static stk_dataset *ds;

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_shards("a", 1, N, 0);
    ds = seam_open("", "a-0.tar", NULL);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &back, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &sum_codec, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_CODEC, &count_codec, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_OP, &dice, &err), &err);
    seam_ok(stk_plugin_add(STK_PLUGIN_OP, &odd, &err), &err);
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

static void rows_that_were_not_planned(void **state)
{
    static const struct {
        const char *chain, *says;
    } odds[] = { { "from(bin) | sum | odd(way=0)",
                   "its steps gave 4 bytes, and their plan says 8" },
                 { "from(bin) | sum | odd(way=1)", "9 dimensions (at most 8)" },
                 { "from(bin) | sum | odd(way=2)", "a length of -1" },
                 { "from(bin) | sum | odd(way=3)", "a length of 9223372036854775807" } };

    (void)state;
    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
        stk_output out = { "a", odds[i].chain };
        stk_loader_options o = {
            .size = sizeof o, .outputs = &out, .n_outputs = 1, .batch_size = 8, .num_workers = 1
        };
        stk_loader *l = seam_loader(&ds, 1, &o);
        stk_batch *b = NULL;
        stk_error err;

        assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_EINVAL);
        if (!strstr(err.message, odds[i].says))
            fail_msg("%s: %s", odds[i].chain, err.message);
        stk_loader_close(&l);
    }
}

/* The numbers of outputs `a` and `b`, by sample. */
static void drawn(uint64_t seed, int32_t workers, double (*to)[2])
{
    static const stk_output out[] = { { "a", "from(bin) | sum | dice" },
                                      { "b", "from(bin) | sum | dice | dice" } };
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = 2,
                             .batch_size = 8,
                             .num_workers = workers,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = seed };
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_batch *b = NULL;
    stk_error err;
    stk_tensor t;

    while (stk_loader_next(l, &b, 60000, &err) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++)
            for (uint32_t k = 0; k < 2; k++) {
                assert_int_equal(stk_batch_row(b, k, i, &t), 0);
                memcpy(&to[stk_batch_ids(b)[i]][k], t.data, sizeof **to);
            }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
}

/* An op on numbers draws by address: the same with any number of workers, another number for each
 * sample, output, step and seed. */
static void numbers_are_addressed(void **state)
{
    static double first[N][2], again[N][2], other[N][2];

    (void)state;
    drawn(3, 1, first);
    drawn(3, 3, again);
    drawn(4, 2, other);
    assert_memory_equal(first, again, sizeof first);
    for (int i = 0; i < N; i++) {
        assert_true(first[i][0] != first[i][1]);
        assert_true(first[i][0] != other[i][0]);
        assert_true(i == 0 || first[i][0] != first[i - 1][0]);
    }
}

/* A codec's context is made once for each worker that needs it, and ends with the loader. */
static void contexts_of_workers(void **state)
{
    static const stk_output out[] = { { "s", "from(bin) | sum" }, { "n", "from(bin) | count" } };
    stk_loader_options o = {
        .size = sizeof o, .outputs = out, .n_outputs = 2, .batch_size = 8, .num_workers = 1
    };
    stk_loader *l = seam_loader(&ds, 1, &o);
    uint64_t rows = 0;
    stk_batch *b = NULL;
    double last = 0;
    int rc;
    stk_error err;
    stk_tensor t;

    (void)state;
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, rows++) {
            assert_int_equal(stk_batch_row(b, 1, i, &t), 0);
            memcpy(&last, t.data, sizeof last);
            assert_true(last == (double)(rows + 1));
        }
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        fail_msg("%s", err.message);
    assert_int_equal(rows, N);
    stk_loader_close(&l);
    assert_int_equal(opened, 1);
    assert_int_equal(closed, 1);
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
    assert_string_equal(err.message, "codec old was built for ABI 5, this is 4: rebuild it");
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
        cmocka_unit_test(old_names),
        cmocka_unit_test(used_in_chains),
        cmocka_unit_test(rows_that_were_not_planned),
        cmocka_unit_test(numbers_are_addressed),
        cmocka_unit_test(contexts_of_workers),
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
