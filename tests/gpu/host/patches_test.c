/* SPDX-License-Identifier: Apache-2.0 */
/* patches_test.c - pictures of any size by way of a device: cut into patches, padded, joined, in
 * buckets.  The bits, shapes and grids are those without a device. */
#include "pictures_testing.h"

#define BATCH 7
#define CHAIN_STEP (TEST_TSAN ? 4 : 1)

static stk_dataset *with_points, *without;

typedef struct want { /* how a loader is opened */
    const char *chain;
    stk_collate collate;
    double pad;
    uint64_t multiple, max_tokens, bucket;
    const char *schedule, *decode, *cache;
    int skip;
    uint64_t device_memory, memory;
} want;

static stk_loader *open_loader(stk_dataset *ds, const want *w, const char *device)
{
    const stk_output outputs[] = { { "image", w->chain }, { "label", "from(cls) | int" } };
    const stk_collation how[] = { { w->collate, w->pad, (uint32_t)w->multiple },
                                  { STK_COLLATE_STACK, 0, 0 } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = w->max_tokens ? 0
                                           : w->memory   ? 1
                                                         : BATCH,
                             .outputs = outputs,
                             .n_outputs = 2,
                             .num_workers = 2,
                             .prefetch = 2,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 3,
                             .collations = how,
                             .max_tokens = w->max_tokens,
                             .bucket = w->bucket,
                             .schedule = w->schedule,
                             .on_error = w->skip ? STK_ON_ERROR_SKIP : STK_ON_ERROR_RAISE,
                             .cache = device ? w->cache : NULL,
                             .device = device,
                             .memory_limit = device ? w->memory : 0,
                             .device_memory_limit = device ? w->device_memory : 0,
                             .decode = device ? w->decode : NULL };

    return seam_loader(&ds, 1, &o);
}

static void same_tensor(const char *chain, const stk_tensor *t, const stk_tensor *u)
{
    size_t bytes = stk_dtype_size(t->dtype);

    assert_int_equal(u->gpu, 1);
    assert_int_equal(t->ndim, u->ndim);
    assert_int_equal(t->dtype, u->dtype);
    for (uint32_t i = 0; i < t->ndim; i++) {
        assert_int_equal(t->shape[i], u->shape[i]);
        assert_int_equal(t->strides[i], u->strides[i]);
        bytes *= (size_t)t->shape[i];
    }
    for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)t->data)[i] != ((uint8_t *)u->data)[i])
            fail_msg("%s: byte %zu of %zu differs", chain, i, bytes);
}

/* Of rows that have several. */
static void same_pictures(const stk_batch *x, const stk_batch *y, uint32_t row)
{
    uint32_t n, m, first = stk_batch_pictures(x, 0, row, &n);

    assert_int_equal(stk_batch_pictures(y, 0, row, &m), first);
    assert_int_equal(n, m);
    for (uint32_t i = first; i < first + n; i++) {
        int64_t a[3] = { 0 }, b[3] = { 0 };

        assert_int_equal(stk_batch_picture_grid(x, 0, i, a), stk_batch_picture_grid(y, 0, i, b));
        assert_memory_equal(a, b, sizeof a);
    }
}

static void same_batch(const want *w, const stk_batch *x, const stk_batch *y)
{
    stk_tensor t, u;

    assert_int_equal(stk_batch_rows(x), stk_batch_rows(y));
    assert_memory_equal(stk_batch_ids(x), stk_batch_ids(y), stk_batch_rows(x) * sizeof(uint64_t));
    assert_memory_equal(stk_batch_valid(x), stk_batch_valid(y), stk_batch_rows(x));
    if (w->collate != STK_COLLATE_LIST) {
        assert_int_equal(stk_batch_dense(x, 0, &t), 0);
        assert_int_equal(stk_batch_dense(y, 0, &u), 0);
        same_tensor(w->chain, &t, &u);
    }
    for (uint32_t r = 0; r < stk_batch_rows(x); r++) {
        int64_t a[3], b[3];
        uint32_t block = stk_batch_grid(x, 0, r, a);

        assert_int_equal(stk_batch_grid(y, 0, r, b), block);
        if (block)
            assert_memory_equal(a, b, sizeof a);
        assert_int_equal(stk_batch_row(x, 0, r, &t), 0);
        assert_int_equal(stk_batch_row(y, 0, r, &u), 0);
        if (stk_batch_several(x, 0))
            same_pictures(x, y, r);
        if (w->collate != STK_COLLATE_PAD) /* else a window, with other strides */
            same_tensor(w->chain, &t, &u);
    }
}

static stk_stats same(stk_dataset *ds, const want *w, int epochs)
{
    stk_loader *a = open_loader(ds, w, NULL), *b = open_loader(ds, w, "cuda");
    stk_stats s = { .size = sizeof s };
    stk_batch *x, *y;
    stk_error err;

    for (int epoch = 0; epoch < epochs; epoch++) {
        int rc;

        while ((rc = stk_loader_next(a, &x, -1, &err)) == 0) {
            seam_ok(stk_loader_next(b, &y, -1, &err), &err);
            same_batch(w, x, y);
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
        if (rc != STK_END)
            fail_msg("%s: %s", w->chain, err.message);
        assert_int_equal(stk_loader_next(b, &y, -1, &err), STK_END);
    }
    stk_loader_stats(b, &s);
    stk_loader_close(&a);
    stk_loader_close(&b);
    return s;
}

#define FIT(most) "from(jpg) | image | resize_to_patches(16, max_patches=" #most ") | hflip | "

static const char *const cut[] = {
    FIT(20) "normalize(imagenet) | patches(16) | to(f16)",
    FIT(24) "patches(16, channels=first) | to(u8)",
    "from(jpg) | image | resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=12544) | "
    "normalize(clip) | patches(14, order=blocks, frames=2, channels=first) | to(bf16)",
    FIT(30) "normalize(half) | patches(4, order=blocks, block=4) | to(f32)",
    "from(jpg) | image | random_resized_crop_to_patches(8, max_patches=30) | hflip | "
    "normalize(half) | patches(8, frames=2) | to(f16)",
    /* exactly Pillow's, and torch's */
    "from(jpg) | image | resize_to_patches(naflex, max_patches=20) | hflip | normalize(imagenet) | "
    "patches(16) | to(f16)",
    "from(jpg) | image | random_resized_crop_to_patches(naflex, max_patches=30, "
    "interpolation=random, ratio=(0.3, 3)) | hflip | patches(16) | to(u8)",
    "from(jpg) | image | resize_to_patches(qwen2_vl, max_pixels=12544) | normalize(clip) | "
    "patches(qwen2_vl) | to(bf16)",
    /* down, then across */
    "from(jpg) | image | resize((16, 48), interpolation=bicubic, exact=pillow) | hflip | "
    "patches(16) | to(u8)",
    "from(jpg) | image | resize((16, 96), exact=pillow) | color_jitter(0.4) | normalize(half) | "
    "patches(8) | to(f16)",
    /* ops on pixels, and in the row */
    FIT(20) "color_jitter(0.4, 0.4, 0.2, 0.1) | gaussian_blur(5, p=0.5) | normalize(imagenet) | "
            "random_erasing(p=0.5) | patches(16) | to(f16)",
    "from(jpg) | image | resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=12544) | "
    "equalize(p=0.5) | sharpness(2, p=0.5) | normalize(clip) | "
    "random_erasing(p=0.5, value=random) | patches(14, order=blocks, frames=2, channels=first) | "
    "to(f32)",
    /* one size: a tensor as it is */
    "from(jpg) | image | random_resized_crop((32, 48)) | normalize(half) | patches(16) | to(f32)",
    FIT(16) "solarize(100, p=0.5) | patches(2) | to(u8)",
    FIT(20) "timm_augmix(6) | normalize(half) | patches(16) | to(f16)",
    /* no device code for its op: made by workers, cut there */
    FIT(20) "darker | normalize(half) | patches(16) | to(f16)",
};

static void of_patches(void **state)
{
    static const stk_collate how[] = { STK_COLLATE_PACK, STK_COLLATE_PAD, STK_COLLATE_LIST };

    (void)state;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i += CHAIN_STEP) {
        want w = { .chain = cut[i], .collate = how[i % 3] };
        int here = strstr(cut[i], "darker") != NULL;
        stk_stats s = same(with_points, &w, 1);

        if (strstr(cut[i], "crop((32") && w.collate == STK_COLLATE_LIST)
            fail_msg("rows of one size are no list");
        assert_true(here ? s.gpu_jpegs == 0 : s.gpu_jpegs > PICTURES / 2);
        w.collate = how[(i + 1) % 3];
        s = same(without, &w, 1);
        assert_true(here || (s.gpu_jpegs > PICTURES / 2 && s.gpu_redecoded > 0));
        w.decode = "cpu";
        w.collate = how[(i + 2) % 3];
        s = same(with_points, &w, 1);
        assert_true(s.gpu_jpegs == 0);
    }
}

/* To a multiple, with a value of its own behind, by a budget, by a schedule of lengths and
 * sides. */
static void in_batches(void **state)
{
    static const want all[] = {
        { .chain = FIT(20) "patches(16) | to(f16)", .collate = STK_COLLATE_PAD, .multiple = 20 },
        { .chain = FIT(20) "patches(16) | to(u8)", .collate = STK_COLLATE_PAD, .pad = 114 },
        { .chain = FIT(20) "patches(16) | to(f32)", .collate = STK_COLLATE_PAD, .pad = -1.5 },
        { .chain = FIT(20) "normalize(half) | patches(16) | to(bf16)",
          .collate = STK_COLLATE_PACK,
          .max_tokens = 90 },
        { .chain = FIT(20) "normalize(half) | patches(16) | to(f16)",
          .collate = STK_COLLATE_PAD,
          .max_tokens = 128,
          .schedule = "16:20,8:64" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i += CHAIN_STEP) {
        stk_stats s = same(i % 2 ? without : with_points, &all[i], 1);

        assert_true(s.gpu_jpegs > PICTURES / 2 && s.gpu_redecoded > 0);
    }
}

/* Pictures themselves: padded to the largest, and such that come in one size. */
static void of_pictures(void **state)
{
    static const want all[] = {
        { .chain = "from(jpg) | image | hflip | to(u8)", .collate = STK_COLLATE_PAD },
        { .chain = "from(jpg) | image | resize(30) | normalize(imagenet) | to(f16)",
          .collate = STK_COLLATE_PAD,
          .multiple = 32,
          .pad = 0.25 },
        { .chain = "from(jpg) | image | resize(25) | color_jitter(0.4) | gaussian_blur(5) | "
                   "to(f32, hwc)",
          .collate = STK_COLLATE_PAD },
        { .chain = "from(jpg) | image | resize(36) | normalize(half) | random_erasing(p=0.5) | "
                   "to(bf16, channels_last)",
          .collate = STK_COLLATE_PAD },
        { .chain = "from(jpg) | image | resize(20) | timm_augmix(6) | normalize(half) | "
                   "random_erasing(p=0.5) | to(f16)",
          .collate = STK_COLLATE_PAD },
        { .chain = "from(jpg) | image | resize(20) | darker | normalize(half) | "
                   "random_erasing(p=0.5) | to(f16)",
          .collate = STK_COLLATE_PAD },
        { .chain = "from(jpg) | image | resize_to_bucket(area=4096, step=16, least=32, most=128) | "
                   "normalize(half) | to(f16)",
          .bucket = 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        stk_stats s = same(i % 2 ? without : with_points, &all[i], 1);

        if (!strstr(all[i].chain, "darker"))
            assert_true(s.gpu_jpegs > PICTURES / 2 && s.gpu_redecoded > 0);
    }
}

/* A stand-in for a picture that no one can make has another size: the whole tensor changes. */
static void stand_ins(void **state)
{
    static const want all[] = {
        { .chain = FIT(20) "patches(16) | to(f16)", .collate = STK_COLLATE_PAD, .skip = 1 },
        { .chain = FIT(20) "patches(16) | to(f32)", .collate = STK_COLLATE_PACK, .skip = 1 },
        { .chain = "from(jpg) | image | resize(30) | to(u8)",
          .collate = STK_COLLATE_PAD,
          .skip = 1 },
        { .chain = "from(jpg) | image | resize(30) | to(f16, hwc)",
          .collate = STK_COLLATE_PAD,
          .skip = 1 },
    };
    stk_dataset *ds;

    (void)state;
    write_cut_off("c.tar");
    ds = open_tar("c.tar", 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        stk_stats s = same(ds, &all[i], 1);

        assert_true(s.gpu_redecoded > 0 && s.skipped > 0);
    }
    stk_dataset_unref(&ds);
}

/* What the host pads or joins beside pictures is that of the stand-in, too. */
static void stand_ins_beside(void **state)
{
    static const stk_collation how[][2] = {
        { { STK_COLLATE_STACK, 0, 0 }, { STK_COLLATE_PAD, 3, 0 } },
        { { STK_COLLATE_STACK, 0, 0 }, { STK_COLLATE_PACK, 0, 0 } }
    };
    static const stk_output outputs[] = {
        { "image", "from(jpg) | image | resize((16, 16)) | to(u8)" },
        { "text", "from(txt) | bytes" },
    };
    stk_dataset *ds;

    (void)state;
    write_cut_off("b.tar");
    ds = open_tar("b.tar", 0);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        stk_loader_options o = { .size = sizeof o,
                                 .batch_size = BATCH,
                                 .outputs = outputs,
                                 .n_outputs = 2,
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 3,
                                 .collations = how[i],
                                 .on_error = STK_ON_ERROR_SKIP };
        stk_loader *a = seam_loader(&ds, 1, &o), *b;
        stk_batch *x, *y;
        stk_tensor t, u;
        stk_error err;

        o.device = "cuda";
        b = seam_loader(&ds, 1, &o);
        while (stk_loader_next(a, &x, -1, &err) == 0) {
            seam_ok(stk_loader_next(b, &y, -1, &err), &err);
            for (uint32_t r = 0; r < stk_batch_rows(x); r++)
                assert_int_equal(stk_batch_ids(x)[r], stk_batch_ids(y)[r]);
            assert_int_equal(stk_batch_dense(x, 1, &t), 0);
            assert_int_equal(stk_batch_dense(y, 1, &u), 0);
            same_tensor(outputs[1].chain, &t, &u);
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
        stk_loader_close(&a);
        stk_loader_close(&b);
    }
    stk_dataset_unref(&ds);
}

/* The scans stay there; rows of any size are made of them again. */
static void kept(void **state)
{
    want w = { .chain = "from(jpg) | image | random_resized_crop_to_patches(8, max_patches=30) | "
                        "hflip | patches(8) | to(f16)",
               .collate = STK_COLLATE_PACK,
               .cache = "device" };
    stk_dataset *ds;
    stk_stats s;

    (void)state;
    write_tar("l.tar", 400);
    ds = open_tar("l.tar", 1);
    s = same(ds, &w, 3);
    assert_true(s.gpu_cache_hits > PICTURES / 2);
    stk_dataset_unref(&ds);
}

/* Patches, a padded picture and one of a fixed size share a decode, also where rows are made
 * again. */
static void one_decode(void **state)
{
    static const stk_output outputs[] = {
        { "patches", FIT(20) "patches(16) | to(f16)" },
        { "small", "from(jpg) | image | resize((24, 24)) | to(u8)" },
        { "whole", "from(jpg) | image | resize(30) | color_jitter(0.4) | to(f32)" },
    };
    static const stk_collation how[] = { { STK_COLLATE_PACK, 0, 0 },
                                         { STK_COLLATE_STACK, 0, 0 },
                                         { STK_COLLATE_PAD, 0.5, 0 } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .n_outputs = 3,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 5,
                             .prefetch = 2,
                             .collations = how,
                             .on_error = STK_ON_ERROR_SKIP };
    stk_stats s = { .size = sizeof s };
    stk_dataset *ds;
    stk_loader *a, *b;
    stk_batch *x, *y;
    stk_error err;

    (void)state;
    write_cut_off("o.tar");
    ds = open_tar("o.tar", 0);
    a = seam_loader(&ds, 1, &o);
    o.device = "cuda";
    b = seam_loader(&ds, 1, &o);
    while (stk_loader_next(a, &x, -1, &err) == 0) {
        seam_ok(stk_loader_next(b, &y, -1, &err), &err);
        for (uint32_t i = 0; i < 3; i++) {
            stk_tensor t, u;

            assert_int_equal(stk_batch_dense(x, i, &t), 0);
            assert_int_equal(stk_batch_dense(y, i, &u), 0);
            same_tensor(outputs[i].chain, &t, &u);
        }
        stk_batch_release(&x);
        stk_batch_release(&y);
    }
    stk_loader_stats(b, &s);
    assert_in_range(s.gpu_jpegs, PICTURES / 2, 2 * PICTURES); /* with what is made ahead */
    assert_true(s.gpu_redecoded > 0 && s.skipped > 0);
    stk_loader_close(&a);
    stk_loader_close(&b);
    stk_dataset_unref(&ds);
}

/* ---- several pictures per sample ---- */

#define ALL(most) "from(jpg) | pictures | resize_to_patches(16, max_patches=" #most ") | hflip | "

static const want several[] = {
    { .chain = ALL(20) "normalize(imagenet) | patches(16) | to(f16)", .collate = STK_COLLATE_PACK },
    { .chain = ALL(20) "patches(16, channels=first) | to(u8)",
      .collate = STK_COLLATE_PAD,
      .pad = 7 },
    { .chain = "from(jpg) | pictures(same=true) | random_resized_crop_to_patches(8, "
               "max_patches=30) | color_jitter(0.4, 0.4, 0.2, 0.1) | normalize(half) | "
               "random_erasing(p=0.5) | patches(8, order=blocks, block=1, frames=2) | to(f32)",
      .collate = STK_COLLATE_LIST },
    { .chain = "from(jpg) | pictures | resize_to_patches(14, merge=2, min_pixels=3136, "
               "max_pixels=12544) | normalize(clip) | patches(14, order=blocks, frames=2, "
               "channels=first) | to(bf16)",
      .collate = STK_COLLATE_PACK,
      .max_tokens = 400 },
    { .chain = "from(jpg) | pictures | resize((24, 32)) | hflip | normalize(half) | to(f16)",
      .collate = STK_COLLATE_PAD },
    { .chain = "from(jpg) | pictures | random_resized_crop((31, 20)) | gaussian_blur(5) | "
               "to(u8, hwc)",
      .collate = STK_COLLATE_LIST },
    { .chain = ALL(20) "timm_augmix(6) | normalize(half) | patches(16) | to(f16)",
      .collate = STK_COLLATE_PACK },
    { .chain = ALL(20) "darker | normalize(half) | patches(16) | to(f16)",
      .collate = STK_COLLATE_PACK },
    { .chain = ALL(20) "normalize(half) | patches(16) | to(f32)",
      .collate = STK_COLLATE_PACK,
      .decode = "cpu" },
    { .chain = ALL(20) "patches(16) | to(u8)", /* a picture after the other has the memory */
      .collate = STK_COLLATE_PACK,
      .device_memory = 2 << 20 },
};

static void of_several(void **state)
{
    stk_dataset *ds;

    (void)state;
    write_several("s.tar", 0);
    ds = open_tar("s.tar", 0);
    for (size_t i = 0; i < sizeof several / sizeof *several; i += TEST_TSAN ? 3 : 1) {
        stk_stats s = same(ds, &several[i], 1);

        if (several[i].decode || strstr(several[i].chain, "darker"))
            assert_true(s.gpu_jpegs == 0);
        else
            assert_true(s.gpu_jpegs > PICTURES / 2 && s.gpu_redecoded > 0);
    }
    stk_dataset_unref(&ds);
}

/* A stand-in has another number of pictures. */
static void stand_ins_of_several(void **state)
{
    stk_dataset *ds;

    (void)state;
    write_several("t.tar", 5);
    ds = open_tar("t.tar", 0);
    for (size_t i = 0; i < 3; i++) {
        want w = several[i];
        stk_stats s;

        w.skip = 1;
        s = same(ds, &w, 1);
        assert_true(s.gpu_redecoded > 0 && s.skipped > 0);
    }
    stk_dataset_unref(&ds);
}

/* Records of several pictures are put together beside the row, and memory_limit counts them there:
 * a row of 3 pictures is 7.2 MB, and its records are as many. */
static void records_are_counted(void **state)
{
    want w = { .chain = "from(jpg) | pictures | resize((896, 896)) | to(u8)",
               .collate = STK_COLLATE_LIST,
               .decode = "cpu",
               .memory = 16 << 20 };
    stk_batch *b = NULL;
    stk_dataset *ds;
    stk_loader *l;
    stk_error err;
    int rc;

    (void)state;
    write_several("u.tar", 0);
    ds = open_tar("u.tar", 0);
    l = open_loader(ds, &w, "cuda");
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0)
        stk_batch_release(&b);
    assert_true(rc == STK_ENOMEM || rc == STK_ELIMIT);
    assert_non_null(strstr(err.message, "memory_limit"));
    stk_loader_close(&l);
    w.memory = 128 << 20;
    same(ds, &w, 1);
    stk_dataset_unref(&ds);
}

static int setup(void **state)
{
    (void)state;
    add_darker();
    write_tar("p.tar", 0);
    write_tar("q.tar", 0);
    with_points = open_tar("p.tar", 1);
    without = open_tar("q.tar", 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&with_points);
    stk_dataset_unref(&without);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_patches),           cmocka_unit_test(in_batches),
        cmocka_unit_test(of_pictures),          cmocka_unit_test(stand_ins),
        cmocka_unit_test(stand_ins_beside),     cmocka_unit_test(kept),
        cmocka_unit_test(of_several),           cmocka_unit_test(one_decode),
        cmocka_unit_test(stand_ins_of_several), cmocka_unit_test(records_are_counted),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
