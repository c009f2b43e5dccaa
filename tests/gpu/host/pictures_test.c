/* SPDX-License-Identifier: Apache-2.0 */
/* pictures_test.c - pictures by way of a device: the same bits as without one, with and without
 * seek points, also where the device can't decode them: progressive, restart intervals, damage. */
#include "codec/encode.h"
#include "pictures_testing.h"

#define N PICTURES
#define BATCH 7

/* Threads do the same whatever the chain is, and TSan makes kernels 20 times as slow: it runs one
 * chain of four.  The other builds compare the pixels of all. */
#define CHAIN_STEP (TEST_TSAN ? 4 : 1)

static stk_dataset *with_points, *without;

static const char *batch_ops; /* of loaders that are opened; NULL: none */
static int epochs = 2;        /* that are compared */
static uint32_t shown = N;    /* pictures of an epoch: the first ones */

/* A function of the program's: the left half, inverted; `mean` makes three numbers of a picture. */
static int find(void *cookie, const char *function, uint32_t which, uint32_t *number,
                stk_error *err)
{
    (void)cookie, (void)which, (void)err;
    *number = !strcmp(function, "mean");
    return 0;
}

static int call(void *cookie, const stk_call_at *at, stk_value_row *row, stk_scratch *scratch,
                stk_error *err)
{
    int64_t h = row->shape[0], w = row->shape[1], half = (w + 1) / 2;
    const uint8_t *in = row->data;
    uint8_t *out = stk_scratch_get(scratch, (size_t)(h * half * 3) + 64);
    float mean[3] = { 0 };

    (void)cookie;
    if (!out)
        return stk_fail(err, STK_ENOMEM, "no memory");
    for (int64_t y = 0; y < h; y++)
        for (int64_t i = 0; i < half * 3; i++) {
            out[y * half * 3 + i] = (uint8_t)~in[y * w * 3 + i];
            mean[i % 3] += (float)in[y * w * 3 + i];
        }
    row->data = out;
    row->shape[1] = half;
    if (at->number) {
        memcpy(out, mean, sizeof mean);
        *row = (stk_value_row){ .dtype = STK_F32, .ndim = 1, .shape = { 3 }, .data = out };
    }
    return 0;
}

static const stk_caller caller = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_caller), .name = "test", .find = find, .call = call
};

static stk_collate collate; /* of loaders that are opened now; 0: as they choose */

static stk_loader *open_loader(stk_dataset *ds, const char *chain, const char *device,
                               const char *decode)
{
    const stk_output outputs[] = { { "image", chain },
                                   { "label", batch_ops ? "from(cls) | int | one_hot(9)"
                                                        : "from(cls) | int" } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .n_outputs = 2,
                             .num_workers = 2,
                             .prefetch = 2, /* little is made for an epoch that never comes */
                             .shuffle = STK_SHUFFLE_EXACT,
                             .limit = shown,
                             .seed = 3,
                             .batch_ops = batch_ops,
                             .caller = &caller,
                             .collate = collate,
                             .device = device,
                             .decode = decode,
                             .sm_limit = device ? 1 : 0 };

    return seam_loader(&ds, 1, &o);
}

static void same_output(const char *chain, const stk_batch *x, const stk_batch *y, uint32_t output)
{
    stk_tensor t, u;
    size_t bytes;

    assert_int_equal(stk_batch_dense(x, output, &t), 0);
    assert_int_equal(stk_batch_dense(y, output, &u), 0);
    assert_int_equal(u.gpu, 1);
    bytes = stk_dtype_size(t.dtype);
    for (uint32_t i = 0; i < t.ndim; i++) {
        assert_int_equal(t.shape[i], u.shape[i]);
        assert_int_equal(t.strides[i], u.strides[i]);
        bytes *= (size_t)t.shape[i];
    }
    for (uint32_t r = 0; r < stk_batch_rows(x); r++)
        if (memcmp((uint8_t *)t.data + r * (bytes / stk_batch_rows(x)),
                   (uint8_t *)u.data + r * (bytes / stk_batch_rows(x)), bytes / stk_batch_rows(x)))
            fail_msg("%s: output %u of sample %u differs", chain, output,
                     (unsigned)stk_batch_ids(x)[r]);
}

/* Rows that are tensors of their own. */
static void same_rows(const char *chain, const stk_batch *x, const stk_batch *y, uint32_t output)
{
    for (uint32_t r = 0; r < stk_batch_rows(x); r++) {
        stk_tensor t, u;
        size_t bytes;

        assert_int_equal(stk_batch_row(x, output, r, &t), 0);
        assert_int_equal(stk_batch_row(y, output, r, &u), 0);
        assert_int_equal(u.gpu, 1);
        assert_int_equal(t.ndim, u.ndim);
        bytes = stk_dtype_size(t.dtype);
        for (uint32_t i = 0; i < t.ndim; i++) {
            assert_int_equal(t.shape[i], u.shape[i]);
            assert_int_equal(t.strides[i], u.strides[i]);
            bytes *= (size_t)t.shape[i];
        }
        if (memcmp(t.data, u.data, bytes))
            fail_msg("%s: output %u of sample %u differs", chain, output,
                     (unsigned)stk_batch_ids(x)[r]);
    }
}

static void same(stk_dataset *ds, const char *chain, const char *decode, stk_stats *s)
{
    stk_loader *a = open_loader(ds, chain, NULL, NULL);
    stk_loader *b = open_loader(ds, chain, "cuda", decode);
    stk_batch *x, *y;
    stk_error err;

    for (int epoch = 0; epoch < epochs; epoch++) {
        int rc;

        while ((rc = stk_loader_next(a, &x, -1, &err)) == 0) {
            seam_ok(stk_loader_next(b, &y, -1, &err), &err);
            for (uint32_t i = 0; i < 2; i++)
                (collate == STK_COLLATE_LIST ? same_rows : same_output)(chain, x, y, i);
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
        if (rc != STK_END)
            fail_msg("%s: %s", chain, err.message);
        assert_int_equal(stk_loader_next(b, &y, -1, &err), STK_END);
    }
    stk_loader_stats(b, s);
    stk_loader_close(&a);
    stk_loader_close(&b);
}

static const char *const chains[] = {
    "from(jpg) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f16)",
    "from(jpg) | image | random_resized_crop(48) | to(u8)",
    "from(jpg) | image | resize((40, 24)) | center_crop(56) | to(f32)",
    "from(jpg) | image(exact=true) | center_crop(64) | normalize(imagenet) | to(bf16)",
    "from(jpg) | image | resize((8, 8)) | to(f32, layout=channels_last)",
};

static void the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i += CHAIN_STEP) {
        stk_stats s = { .size = sizeof s };

        same(with_points, chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_redecoded > 0 && s.jpeg_seek > 0);
        assert_true(s.repair_ns > 0 && s.next_ns >= s.repair_ns + s.wait_ns);
        same(without, chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_redecoded > 0 && s.jpeg_seek == 0);
        same(with_points, chains[i], "cpu", &s);
        assert_true(s.gpu_jpegs == 0 && s.gpu_redecoded == 0);
    }
}

/* Chains that change pixels: the GPU does all of it, for the pictures that it decodes. */
#define CROP "from(jpg) | image | random_resized_crop(37) | hflip | "

static const char *const pixel_chains[] = {
    "from(jpg) | image | random_resized_crop(40, interpolation=bicubic) | hflip | "
    "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | grayscale(p=0.2) | gaussian_blur(9, sigma=(0.1, 2), "
    "p=0.5) | solarize(128, p=0.2) | normalize(imagenet) | to(f16)",
    CROP "brightness(0.5) | contrast(0.5) | to(u8)",
    CROP "saturation(0.6) | hue(0.3) | invert(p=0.3) | to(u8, hwc)",
    CROP "hsv(0.1, 0.5, 0.5) | posterize((2, 6), p=1) | channel_shuffle | to(f32)",
    CROP
    "autocontrast(p=0.7) | equalize(p=0.7) | contrast(0.9) | equalize(p=0.5) | normalize(half) | "
    "to(bf16)",
    CROP "sharpness((0, 3), p=0.8) | gaussian_blur((31, 5)) | sharpness(2, p=0.5) | "
         "gaussian_blur(127, sigma=20) | to(u8)",
    CROP "gaussian_noise(0.1, sigma=(0, 0.2), p=0.7) | random_erasing(p=0.6) | "
         "random_erasing(p=0.6, value=random) | to(u8)",
    CROP "contrast(0.3) | normalize(imagenet) | random_erasing(p=0.6, value=random) | "
         "random_erasing(p=0.6) | to(f16, channels_last)",
    CROP "normalize(imagenet) | random_erasing(p=0.5) | to(f32)",
    CROP "random_apply(color_jitter(0.4, 0.4, 0.4, 0.1) | gaussian_blur(5), p=0.5) | "
         "one_of(solarize(100, p=1), equalize(p=1), invert(p=1) | sharpness(2, p=1)) | to(f16)",
    CROP "rand_augment(3, 15) | normalize(imagenet) | random_erasing(p=0.25) | to(f16)",
    CROP "trivial_augment(interpolation=bilinear) | auto_augment | to(u8)",
    CROP "timm_rand_augment(9, n=4, p=0.9, mstd=0.5, increasing=true, fill=(124, 116, 104)) | "
         "normalize(imagenet) | random_erasing(0.9, value=color, count=4) | to(f16)",
    CROP "timm_auto_augment(v0, mstd=200) | timm_rand_augment(6, n=3, p=1, transforms=weights, "
         "interpolation=bicubic) | to(u8)",
    CROP "timm_augmix(6) | normalize(half) | to(f16)",
    CROP "contrast(0.5) | timm_augmix(9, width=2, depth=4, mstd=0, fill=(124, 116, 104)) | "
         "equalize(p=0.5) | timm_augmix(3, width=4, depth=2) | hflip | to(u8, hwc)",
    CROP "rotate(30, fill=(9, 8, 7)) | affine(20, translate=(0.1, 0.2), scale=(0.5, 1.5), shear=9, "
         "interpolation=bilinear) | perspective(0.6, p=0.8) | to(u8)",
    /* geometry after a change of pixels: mirrored, cut, padded, resized */
    CROP "color_jitter(0.4, 0.4, 0.4, 0.1) | hflip | vflip | to(f16)",
    CROP "contrast(0.5) | random_crop(29, padding=4, fill=(1, 2, 3)) | sharpness(2, p=1) | "
         "center_crop(51) | equalize(p=1) | to(u8)",
    CROP "gaussian_blur(5) | random_crop(37, padding=5, padding_mode=reflect) | invert(p=0.5) | "
         "random_resized_crop(44, interpolation=bicubic) | vflip | solarize(99, p=1) | "
         "resize((20, 31), interpolation=lanczos) | to(f32)",
    CROP "hue(0.1) | resize((21, 60), interpolation=nearest) | rotate(10) | resize((33, 33), "
         "antialias=false) | to(u8, hwc)",
    /* exactly Pillow's: down first where the height shrinks more, of the file and of the tile */
    CROP "contrast(0.5) | resize((8, 36), interpolation=bicubic, exact=pillow) | hflip | "
         "sharpness(2, p=1) | resize((30, 30), interpolation=lanczos, exact=pillow) | to(u8)",
    "from(jpg) | image | resize((9, 60), interpolation=bicubic, exact=pillow) | vflip | "
    "equalize(p=0.5) | center_crop((12, 70)) | to(f32)",
    "from(jpg) | image | views(2) | random_resized_crop((20, 90), ratio=(0.2, 1), "
    "interpolation=random, exact=pillow) | hflip | contrast(0.5) | to(u8)",
    CROP "contrast(0.5) | resize((20, 90), interpolation=bicubic, exact=torchvision) | to(u8)",
    "from(jpg) | image | views(3) | random_resized_crop(31, interpolation=bicubic) | hflip | "
    "normalize(half) | "
    "to(f16)",
    "from(jpg) | image | views(2) | random_resized_crop(40) | color_jitter(0.4, 0.4, 0.2, 0.1, "
    "p=0.8) | "
    "gaussian_blur(9, p=0.5) | solarize(128, p=0.2) | normalize(half) | random_erasing(p=0.5) | "
    "to(f32)",
    "from(jpg) | image | resize((40, 50)) | ten_crop(24) | to(u8, hwc)",
    "from(jpg) | image | resize((1, 1)) | autocontrast(p=1) | gaussian_blur(5) | sharpness(2, p=1) "
    "| "
    "equalize(p=1) | contrast(0.5) | to(f32)",
    "from(jpg) | image | resize((2, 67)) | gaussian_blur(15) | sharpness(0, p=1) | to(u8)",
    CROP "jpeg_artifacts((1, 100), p=0.8) | normalize(imagenet) | to(f16)",
    CROP "hue(0.2) | jpeg_artifacts(30) | gaussian_blur(5) | jpeg_artifacts((50, 90)) | "
         "equalize(p=0.5) | "
         "normalize(half) | random_erasing(p=0.5) | to(f32)",
    "from(jpg) | image | views(2) | random_resized_crop((66, 35)) | jpeg_artifacts((10, 50)) | "
    "to(u8, hwc)",
    "from(jpg) | image | resize((3, 4)) | jpeg_artifacts(10) | resize((70, 5)) | "
    "jpeg_artifacts(60) | "
    "resize((1, 1)) | jpeg_artifacts(20) | to(u8)",
    /* blurs over several rectangles, with taps that weigh nothing, and at the limit of one step */
    "from(jpg) | image | resize((131, 70)) | gaussian_blur((23, 9), sigma=(0.1, 2)) | "
    "equalize(p=0.5) | "
    "gaussian_blur(25, sigma=(3, 9)) | hue(0.1) | gaussian_blur((3, 27), sigma=(0.1, 3)) | "
    "contrast(0.5) | normalize(half) | to(f16)",
    "from(jpg) | image | resize((65, 97)) | gaussian_blur((5, 25), sigma=8) | to(u8, hwc)",
};

/* What an op does to pixels is the same for each kind of picture, so that fewer are shown. */
static void changed_pixels(void **state)
{
    uint64_t redecoded = 0;

    (void)state;
    epochs = 1;
    shown = TEST_SHARE(26, 13);
    for (size_t i = 0; i < sizeof pixel_chains / sizeof *pixel_chains; i += CHAIN_STEP) {
        stk_stats s = { .size = sizeof s };

        same(with_points, pixel_chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > shown / 2 && s.jpeg_seek > 0);
        assert_true(s.gpu_redecoded > 0 || TEST_SANITIZED); /* a crop of few may miss the damage */
        redecoded += s.gpu_redecoded;
        if (i % 3 == 0) { /* decoded here, changed there */
            same(with_points, pixel_chains[i], "cpu", &s);
            assert_true(s.gpu_jpegs == 0);
        }
        if (i % 8)
            continue;
        same(without, pixel_chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > shown / 2);
        assert_true(s.jpeg_seek == 0);
    }
    assert_true(redecoded > 0);
    shown = N;
}

/* ---- outputs that read one picture ---- */

#define SHARED_OUTPUTS 4

static stk_stats same_shared(stk_dataset *ds, const stk_output outputs[SHARED_OUTPUTS],
                             const char *decode, uint64_t device_memory)
{
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .n_outputs = SHARED_OUTPUTS,
                             .num_workers = 2,
                             .prefetch = 2,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 4 };
    stk_stats s = { .size = sizeof s };
    stk_loader *a = seam_loader(&ds, 1, &o), *b;
    stk_batch *x, *y;
    stk_error err;
    int rc;

    o.device = "cuda";
    o.decode = decode;
    o.device_memory_limit = device_memory;
    b = seam_loader(&ds, 1, &o);
    while ((rc = stk_loader_next(a, &x, -1, &err)) == 0) {
        seam_ok(stk_loader_next(b, &y, -1, &err), &err);
        for (uint32_t i = 0; i < SHARED_OUTPUTS; i++)
            same_output(outputs[0].chain, x, y, i);
        stk_batch_release(&x);
        stk_batch_release(&y);
    }
    if (rc != STK_END)
        fail_msg("%s", err.message);
    stk_loader_stats(b, &s);
    stk_loader_close(&a);
    stk_loader_close(&b);
    return s;
}

/* Pictures that a device decodes: the others are progressive, or have restart intervals. */
static uint64_t decodable(void)
{
    uint64_t n = 0;

    for (unsigned k = 0; k < N; k++)
        n += k % 17 != 16 && k % 13 != 12;
    return n;
}

/* Of one epoch, and of the few batches after it that are made ahead. */
static void decoded_once(const stk_stats *s)
{
    assert_in_range(s->gpu_jpegs, decodable(), 2 * decodable() - 1);
}

/* Each picture goes over and is decoded once, however many views and outputs see it; damage that
 * any of them sees makes the row's pixels those of the CPU for all. */
static void one_decode(void **state)
{
    static const stk_output many[SHARED_OUTPUTS] = {
        { "small", "from(jpg) | image | views(4) | random_resized_crop(19, scale=(0.05, 0.3)) | "
                   "hflip | to(u8)" },
        { "label", "from(cls) | int" },
        { "global",
          "from(jpg) | image | views(2) | random_resized_crop(37, interpolation=bicubic) | "
          "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | gaussian_blur(9, p=0.5) | normalize(half) | "
          "to(f16)" },
        { "plain", "from(jpg) | image | resize((20, 31)) | to(f32, channels_last)" },
    };
    static const stk_output one[SHARED_OUTPUTS] = {
        { "image",
          "from(jpg) | image | random_resized_crop(19, scale=(0.05, 0.3)) | hflip | to(u8)" },
        { "label", "from(cls) | int" },
        { "again", "from(cls) | int" },
        { "more", "from(cls) | float" },
    };
    stk_stats s, t;

    (void)state;
    s = same_shared(with_points, many, NULL, 0);
    decoded_once(&s);
    assert_true(s.gpu_redecoded > 0 && s.jpeg_seek > 0);
    t = same_shared(without, one, NULL, 0);
    s = same_shared(without, many, NULL, 0);
    decoded_once(&s);
    /* whole files go over: once, and then what each view is; with those that are made ahead */
    assert_true(s.gpu_bytes < 3 * t.gpu_bytes);
    s = same_shared(with_points, many, "cpu", 0);
    assert_int_equal(s.gpu_jpegs, 0);
}

/* What one of them can't leave to the device is made here, and the others are not held up by it. */
static void one_decode_in_part(void **state)
{
    static const stk_output first[SHARED_OUTPUTS] = {
        { "edge",
          "from(jpg) | image | random_crop(41, padding=20, padding_mode=reflect) | to(u8)" },
        { "label", "from(cls) | int" },
        { "crop", "from(jpg) | image | random_resized_crop(24) | to(f32)" },
        { "two", "from(jpg) | image | views(2) | random_resized_crop(20) | hue(0.2) | to(u8)" },
    };
    static const stk_output last[SHARED_OUTPUTS] = {
        { "crop", "from(jpg) | image | random_resized_crop(24) | to(f32)" },
        { "gray", "from(jpg) | image(mode=gray) | random_resized_crop(24) | to(u8)" },
        { "two", "from(jpg) | image | views(2) | random_resized_crop(20) | hue(0.2) | to(u8)" },
        { "edge",
          "from(jpg) | image | random_crop(41, padding=20, padding_mode=reflect) | to(u8)" },
    };
    stk_stats s;

    (void)state;
    same_shared(with_points, first, NULL, 0);
    s = same_shared(with_points, last, NULL, 0);
    assert_true(s.gpu_jpegs >= decodable());
    same_shared(with_points, last, NULL, 2 << 20); /* several launches */
}

/* ---- one channel ---- */

/* A PNG of 16 bits, of the size that write_masked() has. */
static void write_deep(FILE *f, unsigned k)
{
    uint32_t w = 50 + k * 7 % 90, h = 40 + k * 11 % 70;
    stk_encode_in in = {
        .tensor = { .dtype = STK_U16, .ndim = 3, .shape = { h, w, 1 }, .strides = { w, 1, 1 } }
    };
    uint16_t *values = malloc(sizeof *values * w * h);
    stk_encoding e = { .encoder = &stk_encode_png, .quality = 6 };
    stk_text out = { 0 };
    char member[32];

    for (uint32_t i = 0; i < w * h; i++)
        values[i] = (uint16_t)(i * 40503u + k);
    in.tensor.data = values;
    assert_int_equal(stk_encode(&e, &in, &out, NULL), 0);
    snprintf(member, sizeof member, "%04u.deep", k);
    tar_member(f, member, out.s, out.len);
    stk_free(out.s);
    free(values);
}

/* Pictures, and beside each a gray one of its size as a mask: values are indices. */
static void write_masked(const char *name)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0; k < N / 2; k++)
        for (int mask = 0; mask < 3; mask++) {
            jpeg_recipe r = { .w = 50 + k * 7 % 90,
                              .h = 40 + k * 11 % 70,
                              .comps = mask ? 1 : 3,
                              .samp = { { 1, 1 }, { 1, 1 }, { 1, 1 } },
                              .quality = 80,
                              .rough = 60 };
            stk_bytes in = jpeg_make(&r);

            snprintf(member, sizeof member, "%04u.%s", k,
                     mask == 0   ? "jpg"
                     : mask == 1 ? "mask"
                                 : "cls");
            tar_member(f, member, mask == 2 ? (const void *)"7" : in.data, mask == 2 ? 1 : in.len);
            free((void *)(uintptr_t)in.data);
            if (mask == 2 && strstr(stk_build_info(), "libspng none") == NULL)
                write_deep(f, k);
        }
    tar_end(f);
    fclose(f);
}

/* Masks are made by workers and follow what the device makes, view by view. */
static void masks_beside_pictures(void **state)
{
    static const stk_output one[SHARED_OUTPUTS] = {
        { "image", "from(jpg) | image | random_resized_crop(33) | hflip | color_jitter(0.4, 0.4, "
                   "0.4) | to(f16)" },
        { "index", "from(mask) | image(mode=index) | like(image) | to(i64)" },
        { "gray", "from(jpg) | image(mode=gray) | like(image) | to(f32)" },
        { "label", "from(cls) | int" },
    };
    static const stk_output two[SHARED_OUTPUTS] = {
        { "index", "from(mask) | image(mode=index) | like(image, fill=255) | to(u8)" },
        { "image", "from(jpg) | image | views(2) | random_resized_crop(33) | rotate(20) | hue(0.2) "
                   "| to(u8, hwc)" },
        { "own", "from(jpg) | image(mode=gray) | views(2) | random_resized_crop(20) | to(u8)" },
        { "alone",
          "from(mask) | image(mode=index) | resize((20, 31), interpolation=nearest) | to(i32)" },
    };
    static const stk_output deep[SHARED_OUTPUTS] = {
        { "image", "from(jpg) | image | random_resized_crop(33, interpolation=bicubic) | "
                   "rotate(20, fill=(9, 80, 200)) | hue(0.2) | to(f16)" },
        { "same", "from(jpg) | image | like(image) | normalize(half) | to(f16)" },
        { "depth", "from(deep) | image(mode=gray16) | like(image) | to(f32)" },
        { "high", "from(deep) | image(bits=8) | like(image) | to(u8)" },
    };
    stk_dataset *ds;
    stk_stats s;

    (void)state;
    write_masked("m.tar");
    ds = open_tar("m.tar", 1);
    if (!strstr(stk_build_info(), "libspng none"))
        same_shared(ds, deep, NULL, 0);
    s = same_shared(ds, one, NULL, 0);
    assert_in_range(s.gpu_jpegs, N / 2, N - 1);
    s = same_shared(ds, two, NULL, 0);
    assert_in_range(s.gpu_jpegs, N / 2, N - 1);
    same_shared(ds, two, "cpu", 0);
    stk_dataset_unref(&ds);
}

/* Pictures of any size, decoded there; one that is made again may have another size. */
static void of_any_size(void **state)
{
    static const char *const any[] = {
        "from(jpg) | image | to(u8)",
        "from(jpg) | image | resize(30) | hflip | normalize(imagenet) | to(f16)",
        "from(jpg) | image | resize(41, interpolation=bicubic) | color_jitter(0.4, 0.4, 0.2, 0.1) "
        "| "
        "normalize(half) | random_erasing(p=0.5) | to(f32)",
        "from(jpg) | image | resize(25) | gaussian_blur(5) | vflip | to(bf16, channels_last)",
        "from(jpg) | image | hflip | to(u8, hwc)",
    };

    (void)state;
    collate = STK_COLLATE_LIST;
    for (size_t i = 0; i < sizeof any / sizeof *any; i += CHAIN_STEP) {
        stk_stats s = { .size = sizeof s };

        same(with_points, any[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_redecoded > 0);
        same(without, any[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2);
    }
    collate = 0;
}

/* What has no device code is made by workers, for the same bits there. */
static void made_by_workers(void **state)
{
    static const char *const made[] = {
        "from(jpg) | image(mode=gray) | random_resized_crop(33) | hflip | to(u8)",
        "from(jpg) | image(mode=gray) | resize((20, 31)) | to(f32)",
        "from(jpg) | image | random_resized_crop(33) | darker | normalize(half) | to(f16)",
    };

    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        stk_stats s = { .size = sizeof s };

        same(with_points, made[i], NULL, &s);
        assert_true(s.gpu_jpegs == 0);
    }
}

/* Rows mixed with each other on the GPU, also where one of them had to be made again here. */
static void mixed(void **state)
{
    static const char *const ops[] = {
        "mixup_cutmix(image, label)",
        "mixup(image, label, mode=pair) | label_smoothing(label, 0.1)",
        "cutmix(image, label, mode=elem) | mixup(image, label, p=0.5, mode=elem)",
    };
    static const char *const into[] = { "to(f16)", "to(bf16, channels_last)", "to(f32)" };
    stk_stats s = { .size = sizeof s };
    char chain[160];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        batch_ops = ops[i];
        snprintf(chain, sizeof chain, CROP "hue(0.1) | normalize(imagenet) | %s", into[i]);
        same(with_points, chain, NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_redecoded > 0);
    }
    batch_ops = "cutmix(image, label)";
    same(without, CROP "to(u8, hwc)", NULL, &s);
    batch_ops = NULL;
}

/* Functions run on the host, and what comes after them there too. */
static void functions_between(void **state)
{
    static const char *const called[] = {
        CROP "call(half) | resize((24, 20)) | color_jitter(0.4) | normalize(imagenet) | to(f16)",
        "from(jpg) | image | call(half) | random_resized_crop(31) | call(half) | resize((9, 8)) | "
        "to(u8)",
        CROP
        "call(half) | resize((12, 12)) | normalize(imagenet) | random_erasing(p=0.6) | to(f32)",
        CROP "call(mean, dtype=f32, shape=3)",
    };

    (void)state;
    for (size_t i = 0; i < sizeof called / sizeof *called; i++) {
        stk_stats s = { .size = sizeof s };

        same(with_points, called[i], NULL, &s);
        assert_true(s.gpu_jpegs == 0);
    }
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
        cmocka_unit_test(the_same_bits),        cmocka_unit_test(of_any_size),
        cmocka_unit_test(functions_between),    cmocka_unit_test(changed_pixels),
        cmocka_unit_test(made_by_workers),      cmocka_unit_test(mixed),
        cmocka_unit_test(one_decode),           cmocka_unit_test(one_decode_in_part),
        cmocka_unit_test(masks_beside_pictures)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
