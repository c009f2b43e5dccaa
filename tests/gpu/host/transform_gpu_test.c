/* SPDX-License-Identifier: Apache-2.0 */
/* transform_gpu_test.c - a chain's ops on pictures of a device: the bits of stk_transform_run(),
 * for every layout and type, with many calls in flight on streams that dally; the device is
 * hostgpu.c, so its memory is ours.  Pictures have exactly their bytes: sanitizers see one too
 * many. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/transform.h>

#include "base/mem.h"
#include "cuda/cuda.h"

#define SEED 20261115u
#define MOST 40
#define OUT_ROOM (64u << 10) /* bytes of an output here */

static const stk_cuda *cuda;
static uint32_t random_state = SEED;

static uint32_t below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

enum { PLANES, PIXELS, ODD, PADDED, GRAY, BACKWARDS, LAYOUTS };

typedef struct batch {
    stk_picture on_cpu[MOST], on_gpu[MOST]; /* the same pictures; on_gpu: written by the device */
    uint8_t *memory[MOST];
    uint8_t *near_out, *gpu_out;
    uint32_t n;
} batch;

/* A picture of w x h in a layout; ODD and PADDED: rows that begin at no multiple of 4. */
static stk_picture picture(uint32_t w, uint32_t h, int layout, uint8_t **memory)
{
    uint32_t lead = layout == ODD ? 1 : 0, more = layout == PADDED ? 5 : 0;
    size_t size = ((size_t)w + more) * h * 3 + lead;
    stk_picture p = { .width = w, .height = h, .channels = 3 };
    uint8_t *data = malloc(size);

    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(below(256) & (i / 64 % 3 ? 255 : 31));
    *memory = data;
    p.data = data + lead;
    p.step_x = layout == PIXELS || layout == PADDED ? 3 : 1;
    p.step_c = p.step_x == 3 ? 1 : (int64_t)w * h;
    p.step_y = (int64_t)(w + more) * p.step_x;
    if (layout == GRAY) {
        p.channels = 1;
        p.step_c = 77;
    }
    if (layout == BACKWARDS) { /* upside down and mirrored */
        p.data = data + (size_t)w * h - 1;
        p.step_x = -1;
        p.step_y = -(int64_t)w;
    }
    return p;
}

static uint32_t views; /* of the chain that is tried */

static void batch_open(batch *b, uint32_t n, int layout, uint64_t position)
{
    uint32_t w = 1 + below(90), h = 1 + below(70);

    b->n = n;
    b->near_out = malloc((size_t)n * OUT_ROOM);
    b->gpu_out = malloc((size_t)n * OUT_ROOM);
    assert_non_null(b->near_out);
    assert_non_null(b->gpu_out);
    memset(b->near_out, 0x11, (size_t)n * OUT_ROOM);
    memset(b->gpu_out, 0x11, (size_t)n * OUT_ROOM);
    for (uint32_t i = 0; i < n; i++) {
        if (layout < 0) /* a list: every picture as it likes */
            w = 1 + below(90), h = 1 + below(70);
        b->on_cpu[i] = picture(w, h, layout < 0 ? (int)below(LAYOUTS) : layout, &b->memory[i]);
        b->on_cpu[i].position = position + i;
        b->on_cpu[i].view = views ? i % views : 0;
        b->on_cpu[i].out = b->near_out + (size_t)i * OUT_ROOM;
        b->on_cpu[i].out_size = OUT_ROOM;
        b->on_gpu[i] = b->on_cpu[i];
        b->on_gpu[i].out = b->gpu_out + (size_t)i * OUT_ROOM;
    }
}

static void batch_close(batch *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        free(b->memory[i]);
    free(b->near_out);
    free(b->gpu_out);
}

static void batch_same(const batch *b, const char *chain)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (memcmp(b->on_cpu[i].out, b->on_gpu[i].out, OUT_ROOM))
            fail_msg("%s: picture %u of %u, %ux%u, differs", chain, i, b->n, b->on_cpu[i].width,
                     b->on_cpu[i].height);
}

static stk_transform *opened(const char *chain)
{
    stk_transform_options o = { .size = sizeof o, .num_workers = 1, .seed = 9, .output = 2 };
    stk_transform *t = NULL;
    stk_error err;

    if (stk_transform_open(&t, chain, &o, &err) < 0)
        fail_msg("%s", err.message);
    return t;
}

static int run_gpu(stk_transform *t, uint32_t epoch, const batch *b, void *stream, stk_error *err)
{
    stk_transform_place where = { .size = sizeof where, .gpu = 1, .stream = stream };

    return stk_transform_run_gpu(t, epoch, b->on_gpu, b->n, &where, err);
}

static void *stream_new(void)
{
    void *s;

    assert_int_equal(cuda->stream_open(1, 0, &s), 0);
    return s;
}

static const char *const chains[] = {
    "random_resized_crop(24) | hflip | normalize(imagenet) | to(f16)",
    "random_resized_crop((17, 33)) | hflip | normalize(imagenet) | to(bf16)",
    "random_resized_crop(24, scale=(0.01, 0.1)) | to(f32)",
    "random_resized_crop((20, 31)) | hflip | to(u8)",
    "random_resized_crop(23) | hflip | to(u8, hwc)",
    "random_resized_crop(16) | hflip | normalize(half) | to(f16, channels_last)",
    "center_crop(60) | to(u8)", /* black all around */
    "resize(12) | center_crop(64) | hflip(p=1) | normalize(clip) | to(f32, hwc)",
    "resize((50, 40)) | to(f32, scale=false)",
    "hflip | to(u8)", /* as large as it was */
    "hflip(p=1) | normalize(imagenet) | to(f16, hwc)",
    "random_resized_crop(24, interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, "
    "p=0.8) | "
    "grayscale(p=0.2) | gaussian_blur(9, p=0.5) | solarize(128, p=0.2) | normalize(imagenet) | "
    "to(f16)",
    "hsv | equalize(p=1) | sharpness((0, 2), p=1) | autocontrast(p=1) | random_erasing(p=1) | "
    "to(u8)",
    "rand_augment(2, 9) | random_resized_crop(30) | rotate(20) | hflip | resize((11, 19)) | to(u8)",
    "gaussian_noise(p=1) | contrast(0.5) | normalize(half) | random_erasing(p=1, value=random) | "
    "to(f32, hwc)",
    "jpeg_artifacts((1, 100)) | hflip | to(u8, hwc)", /* of every size */
    "color_jitter(0.2) | views(3) | random_resized_crop(21) | gaussian_blur(5) | hflip | to(f16)",
};
#define CHAINS (sizeof chains / sizeof *chains)

static void as_on_the_host(void **state)
{
    void *streams[] = { NULL, stream_new() };
    stk_error err;

    (void)state;
    for (size_t k = 0; k < CHAINS; k++) {
        stk_transform *t = opened(chains[k]);
        stk_transform_info info = { .size = sizeof info };

        stk_transform_describe(t, &info);
        views = info.views;
        for (int layout = -1; layout < LAYOUTS; layout++)
            for (uint32_t round = 0; round < 4; round++) {
                const uint32_t sizes[] = { 1, 2, 7, MOST };
                void *stream = streams[round & 1];
                batch b;

                batch_open(&b, sizes[round], layout, round * 1000);
                if (stk_transform_run(t, round, b.on_cpu, b.n, &err) < 0 ||
                    run_gpu(t, round, &b, stream, &err) < 0)
                    fail_msg("%s: %s", chains[k], err.message);
                assert_int_equal(cuda->stream_sync(1, stream), 0);
                batch_same(&b, chains[k]);
                batch_close(&b);
            }
        stk_transform_close(&t);
    }
    views = 0;
    cuda->stream_close(1, streams[1]);
}

/* A view that the chain has not. */
static void no_such_view(void **state)
{
    stk_transform *t = opened("views(2) | resize((8, 8)) | to(u8)");
    stk_error err;
    batch b;

    (void)state;
    batch_open(&b, 1, PIXELS, 0);
    b.on_cpu[0].view = b.on_gpu[0].view = 2;
    assert_int_equal(stk_transform_run(t, 0, b.on_cpu, 1, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "picture 0: it has no view 2: the chain makes 2"));
    assert_int_equal(run_gpu(t, 0, &b, NULL, &err), STK_EINVAL);
    batch_close(&b);
    stk_transform_close(&t);
}

/* Dozens of calls on three streams before anything is waited for.  Pictures are made by a copy on
 * the stream before, and overwritten behind: uses must keep their place. */
static void many_in_flight(void **state)
{
    enum { CALLS = 48, STREAMS = 3 };
    static batch b[CALLS];
    stk_transform *t = opened(chains[0]);
    void *streams[STREAMS];
    uint8_t *made[CALLS];
    stk_error err;

    (void)state;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = stream_new();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CALLS; i++) {
            void *stream = streams[below(STREAMS)];
            size_t size;

            batch_open(&b[i], 1 + below(12), PIXELS, (uint64_t)i * 100);
            assert_int_equal(stk_transform_run(t, 3, b[i].on_cpu, b[i].n, &err), 0);
            size = (size_t)b[i].on_gpu[0].step_y * b[i].on_gpu[0].height;
            made[i] = calloc(1, size);
            b[i].on_gpu[0].data = made[i];
            cuda->copy(1, made[i], b[i].on_cpu[0].data, size, STK_COPY_WITHIN, stream);
            if (run_gpu(t, 3, &b[i], stream, &err) < 0)
                fail_msg("%s", err.message);
            cuda->zero(1, made[i], size, stream);
        }
        for (int i = 0; i < STREAMS; i++)
            assert_int_equal(cuda->stream_sync(1, streams[i]), 0);
        for (int i = 0; i < CALLS; i++) {
            batch_same(&b[i], chains[0]);
            batch_close(&b[i]);
            free(made[i]);
        }
    }
    stk_transform_close(&t);
    for (int i = 0; i < STREAMS; i++)
        cuda->stream_close(1, streams[i]);
}

/* A transform may be closed while its work is queued. */
static void closed_in_flight(void **state)
{
    void *stream = stream_new();
    stk_error err;

    (void)state;
    for (int round = 0; round < 20; round++) {
        stk_transform *t = opened(chains[1]);
        batch b;

        batch_open(&b, 5, -1, 0);
        assert_int_equal(stk_transform_run(t, 0, b.on_cpu, b.n, &err), 0);
        assert_int_equal(run_gpu(t, 0, &b, stream, &err), 0);
        stk_transform_close(&t);
        assert_int_equal(cuda->stream_sync(1, stream), 0);
        batch_same(&b, chains[1]);
        batch_close(&b);
    }
    cuda->stream_close(1, stream);
}

/* Pictures that need more scratch memory than one launch may have. */
static void several_launches(void **state)
{
    enum { PICS = 4, W = 4, H = 16000, OUT_W = 1024, OUT_H = 64, BYTES = OUT_W * OUT_H * 3 };
    stk_transform *t = opened("resize((64, 1024)) | to(u8)");
    uint8_t *on_cpu = malloc((size_t)PICS * BYTES), *on_gpu = malloc((size_t)PICS * BYTES);
    stk_transform_place where = { .size = sizeof where };
    stk_picture p[PICS];
    uint8_t *memory[PICS];
    stk_error err;

    (void)state;
    for (int i = 0; i < PICS; i++) {
        p[i] = picture(W, H, i & 1, &memory[i]);
        p[i].out = on_cpu + (size_t)i * BYTES;
        p[i].out_size = BYTES;
    }
    assert_int_equal(stk_transform_run(t, 0, p, PICS, &err), 0);
    for (int i = 0; i < PICS; i++)
        p[i].out = on_gpu + (size_t)i * BYTES;
    assert_int_equal(stk_transform_run_gpu(t, 0, p, PICS, &where, &err), 0);
    assert_memory_equal(on_cpu, on_gpu, (size_t)PICS * BYTES);
    for (int i = 0; i < PICS; i++)
        free(memory[i]);
    free(on_cpu);
    free(on_gpu);
    stk_transform_close(&t);
}

static void said(int rc, int want, const stk_error *err, const char *what)
{
    assert_int_equal(rc, want);
    if (!strstr(err->message, what))
        fail_msg("%s", err->message);
}

static void errors(void **state)
{
    stk_transform_place where = { .size = sizeof where, .gpu = 7 };
    stk_transform *t = opened("resize((8, 8)) | to(f32)"),
                  *wide = opened("resize((8, 1)) | to(u8)");
    stk_error err;
    batch b;

    (void)state;
    batch_open(&b, 3, PIXELS, 0);
    said(stk_transform_run_gpu(t, 0, b.on_gpu, 3, &where, &err), STK_EINVAL, &err, "2 GPUs");
    where.gpu = 1u << 20;
    said(stk_transform_run_gpu(t, 0, b.on_gpu, 3, &where, &err), STK_EINVAL, &err, "GPU 1048576");
    where.gpu = 0;
    assert_int_equal(stk_transform_run_gpu(t, 0, NULL, 0, &where, &err), 0);
    b.on_gpu[1].out_size = 8 * 8 * 3 * 4 - 1;
    said(run_gpu(t, 0, &b, NULL, &err), STK_EINVAL, &err, "picture 1: it takes 768 bytes");
    b.on_gpu[1].out_size = OUT_ROOM;
    b.on_gpu[1].out = (uint8_t *)b.on_gpu[1].out + 2;
    said(run_gpu(t, 0, &b, NULL, &err), STK_EINVAL, &err, "picture 1: its output is not aligned");
    b.on_gpu[1].out = b.on_gpu[0].out;
    b.on_gpu[2].channels = 2;
    said(run_gpu(t, 0, &b, NULL, &err), STK_EINVAL, &err, "picture 2: it is");
    b.on_gpu[2].channels = 3;
    b.on_gpu[2].width = 300;
    said(run_gpu(wide, 0, &b, NULL, &err), STK_ENOTSUP, &err, "at most 256 times smaller");
    b.on_gpu[2].width = 70000;
    said(run_gpu(t, 0, &b, NULL, &err), STK_ENOTSUP, &err, "sides up to 65500");
    for (size_t i = 0; i < (size_t)b.n * OUT_ROOM; i++)
        assert_int_equal(b.gpu_out[i], 0x11);
    batch_close(&b);
    stk_transform_close(&wide);
    stk_transform_close(&t);
}

/* Calls that CUDA refuses: an error, and the next one works. */
static void failing_calls(void **state)
{
    static const struct {
        const char *call;
        int rc;
    } fails[] = { { "alloc", STK_ENOMEM }, { "copy", STK_EIO } };
    void *stream = stream_new();
    stk_error err;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int before = 0; before < 2; before++) {
            stk_transform *t = opened(chains[3]);
            batch a, b;

            batch_open(&a, 1, PLANES, 0);
            batch_open(&b, MOST, PLANES, 0); /* more memory than the first took */
            assert_int_equal(stk_transform_run(t, 0, b.on_cpu, b.n, &err), 0);
            if (before)
                assert_int_equal(run_gpu(t, 0, &a, stream, &err), 0);
            setenv("STK_HOSTGPU_FAIL", fails[i].call, 1);
            assert_int_equal(run_gpu(t, 0, &b, stream, &err), fails[i].rc);
            unsetenv("STK_HOSTGPU_FAIL");
            assert_int_equal(run_gpu(t, 0, &b, stream, &err), 0);
            assert_int_equal(cuda->stream_sync(1, stream), 0);
            batch_same(&b, chains[3]);
            batch_close(&a);
            batch_close(&b);
            stk_transform_close(&t);
        }
    cuda->stream_close(1, stream);
}

/* Memory of the host that is not there: an error, and nothing is lost. */
static void every_allocation_may_fail(void **state)
{
    stk_error err;
    uint64_t n = 1;
    int rc;

    (void)state;
    do {
        stk_transform *t = opened(chains[0]);
        batch b;

        batch_open(&b, 3, PIXELS, 0);
        assert_int_equal(stk_transform_run(t, 0, b.on_cpu, b.n, &err), 0);
        stk_mem_fail_at(n);
        rc = run_gpu(t, 0, &b, NULL, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        assert_int_equal(run_gpu(t, 0, &b, NULL, &err), 0);
        batch_same(&b, chains[0]);
        batch_close(&b);
        stk_transform_close(&t);
    } while (rc < 0 && n++ < 20);
    assert_true(n == 5); /* stk_views, the plan, its records, its launches */
}

static int setup(void **state)
{
    void *lib = dlopen(getenv("STK_CUDA_LIB"), RTLD_NOW);
    stk_cuda_table_fn find;

    (void)state;
    printf("seed %u\n", SEED);
    if (!lib)
        return -1;
    *(void **)&find = dlsym(lib, "stk_cuda_table");
    cuda = find ? find(STK_CUDA_ABI) : NULL;
    return cuda ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_on_the_host),   cmocka_unit_test(no_such_view),
        cmocka_unit_test(many_in_flight),   cmocka_unit_test(closed_in_flight),
        cmocka_unit_test(several_launches), cmocka_unit_test(errors),
        cmocka_unit_test(failing_calls),    cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
