/* SPDX-License-Identifier: Apache-2.0 */
/* device_test.c - batches by way of a device, compared with those that stay here; the device is
 * hostgpu.c, so its memory can be read. */
#include <stdatomic.h>

#include "../../seams/seam.h"
#include "gpu/load.h"

#define N 230

static stk_dataset *ds;
static const stk_output outputs[] = { { "bin", "bytes" },
                                      { "number", "from(cls) | int" },
                                      { "rows", "from(bin) | bytes" },
                                      { "text", "from(txt) | text" } };
static const stk_collation collations[] = {
    { .collate = STK_COLLATE_PAD }, { 0 }, { .collate = STK_COLLATE_LIST }, { 0 }
};

static stk_loader_options options(const char *device, int32_t workers)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .batch_size = 16,
                                 .outputs = outputs,
                                 .collations = collations,
                                 .n_outputs = 4,
                                 .num_workers = workers,
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 7,
                                 .device = device };
}

static void same_tensor(const stk_tensor *a, const stk_tensor *b)
{
    size_t n = stk_dtype_size(a->dtype);

    assert_int_equal(a->gpu, 0);
    assert_int_equal(b->gpu, 2);
    assert_int_equal(a->ndim, b->ndim);
    for (uint32_t i = 0; i < a->ndim; i++) {
        assert_int_equal(a->shape[i], b->shape[i]);
        assert_int_equal(a->strides[i], b->strides[i]);
        n *= (size_t)a->shape[i];
    }
    assert_memory_equal(a->data, b->data, n);
}

static void same_batch(const stk_batch *a, const stk_batch *b)
{
    stk_tensor x, y;

    assert_int_equal(stk_batch_rows(a), stk_batch_rows(b));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(stk_batch_dense(a, i, &x), 0);
        assert_int_equal(stk_batch_dense(b, i, &y), 0);
        same_tensor(&x, &y);
    }
    for (uint32_t r = 0; r < stk_batch_rows(a); r++) {
        assert_int_equal(stk_batch_row(a, 0, r, &x), 0);
        assert_int_equal(stk_batch_row(b, 0, r, &y), 0);
        assert_int_equal(x.shape[0], y.shape[0]);
        assert_memory_equal(x.data, y.data, (size_t)x.shape[0]);
        for (uint32_t i = 2; i < 4; i++) { /* bytes and text stay on the host */
            assert_int_equal(stk_batch_row(a, i, r, &x), 0);
            assert_int_equal(stk_batch_row(b, i, r, &y), 0);
            assert_int_equal(y.gpu, 0);
            assert_int_equal(x.shape[0], y.shape[0]);
            assert_memory_equal(x.data, y.data, (size_t)x.shape[0]);
        }
    }
}

static void as_on_the_host(void **state)
{
    const int32_t workers[] = { STK_NONE, 1, 3 };
    stk_error err;

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        stk_loader_options on_cpu = options(NULL, STK_NONE), on_gpu = options("cuda:1", workers[k]);
        stk_loader *a = seam_loader(&ds, 1, &on_cpu), *b = seam_loader(&ds, 1, &on_gpu);
        stk_stats s = { .size = sizeof s };

        for (int epoch = 0; epoch < 3; epoch++)
            for (;;) {
                stk_batch *x, *y;
                int rc = stk_loader_next(a, &x, -1, &err);

                assert_int_equal(stk_loader_next(b, &y, -1, &err), rc);
                if (rc == STK_END)
                    break;
                seam_ok(rc, &err);
                same_batch(x, y);
                stk_batch_release(&x);
                stk_batch_release(&y);
            }
        stk_loader_stats(b, &s);
        assert_true(s.gpu_bytes > 0 && s.gpu_memory > 0 && s.gpu_memory <= s.gpu_memory_peak);
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

/* The consumer queues a copy of what it got and lets go at once: the copy must still find it. */
static void let_go_before_use(void **state)
{
    stk_loader_options on_gpu = options("cuda", 2);
    stk_loader *l = seam_loader(&ds, 1, &on_gpu);
    stk_error err;
    stk_batch *b;
    stk_tensor t;

    (void)state;
    for (int epoch = 0; epoch < 4; epoch++)
        while (stk_loader_next(l, &b, -1, &err) == 0) {
            assert_int_equal(stk_batch_dense(b, 1, &t), 0);
            stk_buffer_ref(t.buffer);
            stk_batch_release(&b);
            assert_int_equal(t.gpu, 1);
            stk_buffer_used(t.buffer, NULL);
            stk_buffer_unref(t.buffer);
        }
    stk_loader_close(&l);
}

/* Buffers outlive the loader; a loader may be closed in the middle of everything. */
static void closed_early(void **state)
{
    stk_error err;

    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        stk_loader_options on_gpu = options("cuda", 1 + n % 3);
        stk_loader *l = seam_loader(&ds, 1, &on_gpu);
        stk_batch *b = NULL;
        stk_tensor t = { 0 };

        for (uint32_t i = 0; i <= n % 5; i++) {
            stk_batch_release(&b);
            seam_ok(stk_loader_next(l, &b, -1, &err), &err);
        }
        if (n % 2)
            seam_ok(stk_loader_resume(l, 3, n, &err), &err);
        assert_int_equal(stk_batch_dense(b, 1, &t), 0);
        stk_buffer_ref(t.buffer);
        stk_batch_release(&b);
        stk_loader_close(&l);
        assert_true(((const int64_t *)t.data)[0] >= 0);
        stk_buffer_unref(t.buffer);
    }
}

/* pin_memory: batches stay here; a copy that was queued reads what it was queued for, however late
 * it is done, though the batch was let go and others were made meanwhile. */
static void pinned_until_copied(void **state)
{
    enum { LATE = 4, ROWS = 16 };
    stk_loader_options o = options(NULL, 1);
    uint64_t ids[LATE][ROWS];
    uint32_t rows[LATE], n = 0;
    const stk_cuda *cuda;
    void *stream, *there;
    stk_error err;
    stk_loader *l;
    stk_batch *b;
    stk_tensor t;

    (void)state;
    o.pin_memory = STK_YES;
    o.prefetch = 1;
    l = seam_loader(&ds, 1, &o);
    assert_int_equal(stk_cuda_load(&cuda, &err), 0);
    assert_int_equal(cuda->stream_open(0, 0, &stream), 0);
    assert_int_equal(cuda->alloc(0, LATE * ROWS * sizeof(int64_t), &there), 0);
    stk_loader_copies_on(l, stream);
    for (int epoch = 0; epoch < 12; epoch++)
        while (stk_loader_next(l, &b, -1, &err) == 0) {
            rows[n] = stk_batch_rows(b);
            memcpy(ids[n], stk_batch_ids(b), rows[n] * sizeof **ids);
            assert_int_equal(stk_batch_dense(b, 1, &t), 0);
            assert_int_equal(t.gpu, 0);
            cuda->copy(0, (int64_t *)there + n * ROWS, t.data, rows[n] * sizeof(int64_t),
                       STK_COPY_IN, stream);
            stk_batch_release(&b);
            if (++n < LATE)
                continue;
            cuda->stream_sync(0, stream);
            while (n-- > 0)
                for (uint32_t i = 0; i < rows[n]; i++)
                    assert_int_equal(((const int64_t *)there)[n * ROWS + i],
                                     seam_number(ids[n][i]));
            n = 0;
        }
    stk_loader_close(&l);
    cuda->stream_sync(0, stream);
    cuda->stream_close(0, stream);
    cuda->free(0, there);
}

static void failing(const char *what, const char *says)
{
    stk_loader_options on_gpu = options("cuda", 2);
    stk_error err = { 0 };
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc = stk_loader_open(&l, &ds, 1, &on_gpu, &err);

    seam_ok(rc, &err);
    setenv("STK_HOSTGPU_FAIL", what, 1);
    rc = stk_loader_next(l, &b, -1, &err);
    unsetenv("STK_HOSTGPU_FAIL");
    assert_true(rc < 0 && !b);
    if (!strstr(err.message, says))
        fail_msg("%s: %s", what, err.message);
    stk_loader_close(&l);
}

static void failures_have_words(void **state)
{
    const char *const names[] = { "cuda:2", "cuda:x", "cuda:", "gpu", "cuda:1x" };
    stk_error err;
    stk_loader *l;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        stk_loader_options o = options(names[i], 1);

        assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
        assert_non_null(strstr(err.message, names[i]));
    }
    failing("copy", "a copy to it failed: a call was made to fail");
    failing("work", "a batch did not arrive"); /* the device is lost from here on */
}

static void no_memory_there(void **state)
{
    stk_loader_options on_gpu = options("cuda", 2);
    stk_error err;
    stk_loader *l;
    stk_batch *b;

    (void)state;
    l = seam_loader(&ds, 1, &on_gpu);
    setenv("STK_HOSTGPU_FAIL", "alloc", 1);
    /* page-locked memory is asked for first, by the ring */
    assert_true(stk_loader_next(l, &b, -1, &err) < 0);
    unsetenv("STK_HOSTGPU_FAIL");
    stk_loader_close(&l);
}

static int setup(void **state)
{
    (void)state;
    seam_shards("a", 2, N / 2, 0);
    ds = seam_open("", "a-{0..1}.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_on_the_host),  cmocka_unit_test(let_go_before_use),
        cmocka_unit_test(closed_early),    cmocka_unit_test(pinned_until_copied),
        cmocka_unit_test(no_memory_there), cmocka_unit_test(failures_have_words),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
