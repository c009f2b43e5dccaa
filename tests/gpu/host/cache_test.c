/* SPDX-License-Identifier: Apache-2.0 */
/* cache_test.c - cache="device": pictures that stay on the device make the same batches as without,
 * over epochs, where only some fit, where what is kept goes bad, after a seek; and their files are
 * not read again. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PICTURES 60 /* with fewer, those that are read again are too large a share */
#include "pictures_testing.h"

#define BATCH 7
#define ROOMY (64u << 20)
#define MORE 110 /* pixels: seek points pay */

static stk_dataset *data, *other;

static const stk_output outputs[] = {
    { "image",
      "from(jpg) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f16)" },
    { "small", "from(jpg) | image | resize((12, 12)) | center_crop(14) | to(u8)" },
    { "label", "from(cls) | int" }
};

static stk_loader_options options(const char *cache, uint64_t limit)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .batch_size = BATCH,
                                 .outputs = outputs,
                                 .n_outputs = 3,
                                 .num_workers = 2,
                                 .prefetch = 4, /* not the whole epoch before anything is kept */
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 5,
                                 .device = cache ? "cuda" : NULL,
                                 .cache = cache,
                                 .device_cache_limit = limit };
}

static size_t bytes_of(const stk_tensor *t)
{
    size_t n = stk_dtype_size(t->dtype);

    for (uint32_t i = 0; i < t->ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

static void same_batch(const stk_batch *x, const stk_batch *y)
{
    uint32_t rows = stk_batch_rows(x);
    stk_tensor t, u;

    assert_int_equal(rows, stk_batch_rows(y));
    assert_memory_equal(stk_batch_ids(x), stk_batch_ids(y), rows * sizeof(uint64_t));
    assert_memory_equal(stk_batch_valid(x), stk_batch_valid(y), rows);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(stk_batch_dense(x, i, &t), 0);
        assert_int_equal(stk_batch_dense(y, i, &u), 0);
        assert_int_equal(bytes_of(&t), bytes_of(&u));
        assert_memory_equal(t.data, u.data, bytes_of(&t));
    }
}

/* Both to the end of the epoch; how many batches. */
static uint32_t follow(stk_loader *a, stk_loader *b)
{
    stk_batch *x, *y;
    stk_error err;
    uint32_t n = 0;
    int rc;

    for (;; n++) {
        rc = stk_loader_next(a, &x, -1, &err);
        assert_int_equal(stk_loader_next(b, &y, -1, &err), rc);
        if (rc == STK_END)
            return n;
        seam_ok(rc, &err);
        same_batch(x, y);
        stk_batch_release(&x);
        stk_batch_release(&y);
    }
}

static stk_stats stats_of(const stk_loader *l)
{
    stk_stats s = { .size = sizeof s };

    stk_loader_stats(l, &s);
    return s;
}

static void several_epochs(void **state)
{
    const int32_t workers[] = { STK_NONE, 3 };

    (void)state;
    for (size_t k = TEST_SHARE(0, 1); k < 2; k++) {
        stk_loader_options on_cpu = options(NULL, 0), on_gpu = options("device", ROOMY);
        stk_loader *a = seam_loader(&data, 1, &on_cpu), *b;
        stk_stats s, t, u;

        on_gpu.num_workers = workers[k];
        b = seam_loader(&data, 1, &on_gpu);
        follow(a, b);
        s = stats_of(b);
        assert_true(s.gpu_cache_entries > PICTURES / 2 && s.gpu_cache_bytes > 0);
        follow(a, b);
        u = stats_of(b); /* now also what a batch of this epoch, made ahead, was first to claim */
        follow(a, b);
        t = stats_of(b);
        assert_true(t.gpu_cache_hits > 2 * PICTURES && t.gpu_cache_bytes <= t.gpu_cache_limit);
        assert_true(t.gpu_cache_hits + t.gpu_cache_misses >= 3 * 2 * PICTURES);
        assert_int_equal(t.gpu_cache_entries, u.gpu_cache_entries);
        assert_in_range(u.gpu_cache_entries, s.gpu_cache_entries, PICTURES);
        assert_true(t.bytes - s.bytes < s.bytes / 2); /* few files were read again */
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

/* Views of a picture that is kept, of one output and of two that share it; what goes bad is made by
 * the CPU. */
static void views_are_cached(void **state)
{
    static const stk_output many[][3] = {
        { { "image", "from(jpg) | image | views(3) | random_resized_crop(31) | hflip | "
                     "normalize(half) | to(f16)" },
          { "one", "from(jpg) | image | random_resized_crop(20) | hue(0.2) | to(u8)" },
          { "label", "from(cls) | int" } },
        { { "small", "from(jpg) | image | views(4) | random_resized_crop(19, scale=(0.05, 0.3)) | "
                     "hflip | to(u8)" },
          { "global",
            "from(jpg) | image | color_jitter(0.4) | views(2) | random_resized_crop(37) | "
            "gaussian_blur(5) | rotate(9) | to(f32)" },
          { "label", "from(cls) | int" } },
    };

    (void)state;
    for (size_t k = TEST_SHARE(0, 1); k < TEST_SHARE(4, 3); k++) { /* 1 and 2: each kind */
        stk_loader_options on_cpu = options(NULL, 0), on_gpu = options("device", ROOMY);
        stk_loader *a, *b;
        stk_stats s, t;

        on_cpu.outputs = on_gpu.outputs = many[k % 2];
        on_gpu.num_workers = k % 2 ? 3 : STK_NONE;
        a = seam_loader(&data, 1, &on_cpu);
        b = seam_loader(&data, 1, &on_gpu);
        if (k > 1)
            setenv("STK_HOSTGPU_SPOIL", "1", 1);
        follow(a, b);
        s = stats_of(b);
        assert_true(s.gpu_cache_entries > PICTURES / 2);
        follow(a, b);
        follow(a, b);
        t = stats_of(b);
        assert_true(t.gpu_cache_entries <= PICTURES);
        /* a picture and output each */
        assert_true(t.gpu_cache_hits + t.gpu_cache_misses >= 3 * 2 * PICTURES);
        if (k < 2) {
            assert_true(t.gpu_cache_hits > 2 * PICTURES);
            assert_true(t.bytes - s.bytes < s.bytes / 2);
        } else {
            assert_true(t.gpu_redecoded > s.gpu_redecoded);
        }
        unsetenv("STK_HOSTGPU_SPOIL");
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

static void only_some_fit(void **state)
{
    const uint64_t limit[] = { 64, 1000, 500000 };

    (void)state;
    for (size_t k = TEST_SHARE(0, 1); k < 3; k++) { /* nothing fits in 64 nor in 1000 */
        stk_loader_options on_cpu = options(NULL, 0), on_gpu = options("device", limit[k]);
        stk_loader *a = seam_loader(&data, 1, &on_cpu), *b = seam_loader(&data, 1, &on_gpu);
        stk_stats s;

        for (int epoch = 0; epoch < 2; epoch++)
            follow(a, b);
        s = stats_of(b);
        assert_int_equal(s.gpu_cache_limit, limit[k]);
        assert_true(s.gpu_cache_bytes <= limit[k] && s.gpu_cache_entries < PICTURES / 2);
        assert_int_equal(s.gpu_cache_hits > 0, k > 1);
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

/* What is kept goes bad on the device: the CPU makes those rows, and they are not kept again. */
static void gone_bad(void **state)
{
    stk_loader_options on_cpu = options(NULL, 0), on_gpu = options("device", ROOMY);
    stk_loader *a = seam_loader(&data, 1, &on_cpu), *b = seam_loader(&data, 1, &on_gpu);
    stk_stats s, t;

    (void)state;
    setenv("STK_HOSTGPU_SPOIL", "1", 1);
    for (int epoch = 0; epoch < 2; epoch++)
        follow(a, b);
    s = stats_of(b);
    follow(a, b);
    t = stats_of(b);
    assert_true(s.gpu_redecoded > 6 && t.gpu_cache_entries <= s.gpu_cache_entries);
    follow(a, b);
    s = stats_of(b);
    assert_true(s.gpu_cache_entries > 0 && s.gpu_cache_entries <= t.gpu_cache_entries);
    assert_true(s.gpu_redecoded - t.gpu_redecoded <=
                2 * PICTURES / 11); /* those that never were any good */
    unsetenv("STK_HOSTGPU_SPOIL");
    stk_loader_close(&a);
    stk_loader_close(&b);
}

/* The shard is overwritten after the loader's back: what is kept needs it no more. */
static void files_are_not_read(void **state)
{
    const char *url = seam_path("z.tar");
    stk_loader_options o = options(NULL, 0);
    uint8_t *want = NULL, zeros[4096] = { 0 };
    size_t each = 0, n = 0;
    uint64_t valid = 0;
    struct stat st;
    stk_dataset *ds;
    stk_batch *b;
    stk_tensor t;
    stk_error err;
    int fd;

    (void)state;
    write_tar("z.tar", MORE);
    ds = open_tar("z.tar", 1);
    for (int device = 0; device < 2; device++) {
        stk_loader *l;
        stk_stats s;

        if (device) {
            o.device = "cuda";
            o.cache = "device";
            o.on_error = STK_ON_ERROR_SKIP;
        }
        l = seam_loader(&ds, 1, &o);
        for (int epoch = 0; epoch < 2; epoch++) {
            for (n = 0; stk_loader_next(l, &b, -1, &err) == 0; n++) {
                assert_int_equal(stk_batch_dense(b, 0, &t), 0);
                each = bytes_of(&t) / stk_batch_rows(b);
                want = want ? want : calloc(PICTURES, each);
                for (uint32_t r = 0; r < stk_batch_rows(b) && epoch; r++) {
                    uint8_t *at = want + (n * BATCH + r) * each;

                    if (!device)
                        memcpy(at, (uint8_t *)t.data + r * each, each);
                    else if (stk_batch_valid(b)[r]) /* else it was not kept */
                        assert_memory_equal(at, (uint8_t *)t.data + r * each, each);
                    valid += device && stk_batch_valid(b)[r];
                }
                stk_batch_release(&b);
            }
            if (!device || epoch)
                continue;
            seam_ok(stk_loader_seek(l, 5, 0, &err), &err);
            seam_ok(stk_loader_seek(l, 1, 0, &err), &err); /* nothing is on its way */
            s = stats_of(l);
            assert_true(s.gpu_cache_entries > PICTURES / 2);
            fd = open(url, O_WRONLY);
            assert_true(fd >= 0 && fstat(fd, &st) == 0);
            for (off_t at = 0; at < st.st_size; at += (off_t)sizeof zeros)
                assert_true(pwrite(fd, zeros, sizeof zeros, at) > 0);
            /* damage, not another version: a new size or time would end the epoch */
            assert_int_equal(ftruncate(fd, st.st_size), 0);
            assert_int_equal(futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim }), 0);
            close(fd);
        }
        s = stats_of(l);
        if (device)
            assert_true(s.skipped > 0 && s.gpu_cache_hits > PICTURES &&
                        valid >= s.gpu_cache_entries);
        stk_loader_close(&l);
    }
    free(want);
    stk_dataset_unref(&ds);
}

/* Two data sets, one of them with members that are no pictures; samples drawn by weight come
 * several times, also in one batch. */
static void skipped_and_drawn(void **state)
{
    stk_dataset *both[] = { data, other };
    double weights[2 * PICTURES];

    (void)state;
    for (uint32_t i = 0; i < 2 * PICTURES; i++)
        weights[i] = i % 10 ? 0.1 : 5;
    for (int drawn = 0; drawn < 2; drawn++) {
        stk_loader_options on_cpu = options(NULL, 0), on_gpu = options("device", 1500000);
        stk_loader *a, *b;
        stk_stats s;

        on_cpu.on_error = on_gpu.on_error = STK_ON_ERROR_SKIP;
        if (drawn) {
            on_cpu.shuffle = on_gpu.shuffle = STK_SHUFFLE_NONE;
            on_cpu.weights = on_gpu.weights = weights;
            on_cpu.n_weights = on_gpu.n_weights = 2 * PICTURES;
        }
        a = seam_loader(both, 2, &on_cpu);
        b = seam_loader(both, 2, &on_gpu);
        for (int epoch = 0; epoch < 2; epoch++)
            follow(a, b);
        s = stats_of(b);
        assert_true(s.gpu_cache_hits > 0);
        assert_true(drawn || s.skipped > 0);
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

static void resumed_and_closed(void **state)
{
    stk_error err;

    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        stk_loader_options on_cpu = options(NULL, 0),
                           on_gpu = options("device", n % 2 ? ROOMY : 500000);
        stk_loader *a = seam_loader(&data, 1, &on_cpu), *b;
        stk_batch *x;

        on_gpu.num_workers = 1 + (int32_t)(n % 3);
        b = seam_loader(&data, 1, &on_gpu);
        for (uint32_t i = 0; i <= n % 5; i++) {
            seam_ok(stk_loader_next(b, &x, -1, &err), &err);
            stk_batch_release(&x);
        }
        if (n) {
            seam_ok(stk_loader_resume(a, 2, 3 * n, &err), &err);
            seam_ok(stk_loader_resume(b, 2, 3 * n, &err), &err);
            follow(a, b);
            follow(a, b);
        }
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
}

static void refused(stk_loader_options o, const char *says)
{
    stk_error err = { 0 };
    stk_loader *l;

    assert_true(stk_loader_open(&l, &data, 1, &o, &err) < 0);
    if (!strstr(err.message, says))
        fail_msg("%s", err.message);
}

static void what_it_needs(void **state)
{
    stk_loader_options o = options("device", 0);

    (void)state;
    o.device = NULL;
    refused(o, "is for device");
    refused(options("disk", 0), "none device");
    o = options("none", 1 << 20);
    refused(o, "ask for that too");
    o = options("device", 0);
    o.decode = "cpu";
    refused(o, "no output has such");
    setenv("STK_HOSTGPU_FAIL", "alloc", 1);
    refused(options("device", 0), "lower device_cache_limit");
    unsetenv("STK_HOSTGPU_FAIL");
}

static void write_odd_tar(const char *name)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0; k < PICTURES; k++) {
        stk_bytes in = picture(k + 100, MORE);

        snprintf(member, sizeof member, "%04u.jpg", k);
        tar_member(f, member, k % 8 == 3 ? (const void *)"no picture" : in.data,
                   k % 8 == 3 ? 10 : in.len);
        snprintf(member, sizeof member, "%04u.cls", k);
        tar_member(f, member, "8", 1);
        free((void *)(uintptr_t)in.data);
    }
    tar_end(f);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    write_tar("p.tar", MORE);
    write_odd_tar("o.tar");
    data = open_tar("p.tar", 1);
    other = open_tar("o.tar", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&data);
    stk_dataset_unref(&other);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_epochs),    cmocka_unit_test(only_some_fit),
        cmocka_unit_test(gone_bad),          cmocka_unit_test(files_are_not_read),
        cmocka_unit_test(skipped_and_drawn), cmocka_unit_test(resumed_and_closed),
        cmocka_unit_test(what_it_needs),     cmocka_unit_test(views_are_cached),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
