/* SPDX-License-Identifier: Apache-2.0 */
/* pictures_test.c - pictures by way of a device: the same bits as without one, with and without seek
 * points, also where the device can't decode them: progressive, restart intervals, damage. */
#include "../codec/jpeg_testing.h"
#include "../seams/make_tar.h"
#include "../seams/seam.h"

#define N 60
#define BATCH 7

static stk_dataset *with_points, *without;

static stk_bytes progressive(void)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL, row[90 * 3];
    unsigned long len = 0;
    JSAMPROW rows[1] = { row };

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &len);
    c.image_width = c.image_height = 90;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < 90; y++) {
        for (uint32_t x = 0; x < sizeof row; x++)
            row[x] = jpeg_texture(x / 3, y, (int)(x % 3), 20);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (stk_bytes){ out, len };
}

/* Every sampling factor in turn, odd sizes, gray ones; some progressive, with restarts, or damaged in
 * the middle of the scan. */
static stk_bytes picture(unsigned k)
{
    static const int samp[][2] = { { 1, 1 }, { 2, 1 }, { 2, 2 }, { 1, 2 }, { 4, 1 } };
    const int *s = samp[k % 5];
    jpeg_recipe r = { .w = 40 + k * 7 % 200,
                      .h = 60 + k * 11 % 150,
                      .comps = k % 9 == 8 ? 1 : 3,
                      .samp = { { s[0], s[1] }, { 1, 1 }, { 1, 1 } },
                      .quality = 60 + (int)k % 40,
                      .restart = k % 13 == 12 ? 3 : 0,
                      .optimize = (int)k % 2,
                      .rough = 40 };
    stk_bytes in;

    if (k % 17 == 16)
        return progressive();
    if (r.comps == 1)
        r.samp[0][0] = r.samp[0][1] = 1;
    in = jpeg_make(&r);
    if (k % 11 == 10)
        memset((uint8_t *)(uintptr_t)in.data + in.len / 2, 0x5a, 12);
    return in;
}

static void write_tar(const char *name)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0; k < N; k++) {
        stk_bytes in = picture(k);

        snprintf(member, sizeof member, "%04u.jpg", k);
        tar_member(f, member, in.data, in.len);
        snprintf(member, sizeof member, "%04u.cls", k);
        tar_member(f, member, "7", 1);
        free((void *)(uintptr_t)in.data);
    }
    tar_end(f);
    fclose(f);
}

static stk_dataset *open_tar(const char *name, int points)
{
    stk_dataset_options o = { .size = sizeof o, .jpeg = points ? STK_YES : STK_NO };
    const char *url = seam_path(name);
    stk_dataset *out;
    stk_error err;

    seam_ok(stk_dataset_open(&out, &url, 1, &o, &err), &err);
    return out;
}

static stk_loader *open_loader(stk_dataset *ds, const char *chain, const char *device,
                               const char *decode)
{
    const stk_output outputs[] = { { "image", chain }, { "label", "from(cls) | int" } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = BATCH,
                             .outputs = outputs,
                             .n_outputs = 2,
                             .num_workers = 2,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .seed = 3,
                             .device = device,
                             .decode = decode,
                             .sm_limit = device ? 1 : 0 };

    return seam_loader(&ds, 1, &o);
}

static void same(stk_dataset *ds, const char *chain, const char *decode, stk_stats *s)
{
    stk_loader *a = open_loader(ds, chain, NULL, NULL);
    stk_loader *b = open_loader(ds, chain, "cuda", decode);
    stk_batch *x, *y;
    stk_tensor t, u;
    stk_error err;

    for (int epoch = 0; epoch < 2; epoch++) {
        while (stk_loader_next(a, &x, -1, &err) == 0) {
            size_t bytes;

            seam_ok(stk_loader_next(b, &y, -1, &err), &err);
            assert_int_equal(stk_batch_dense(x, 0, &t), 0);
            assert_int_equal(stk_batch_dense(y, 0, &u), 0);
            assert_int_equal(u.gpu, 1);
            bytes = stk_dtype_size(t.dtype);
            for (uint32_t i = 0; i < t.ndim; i++) {
                assert_int_equal(t.shape[i], u.shape[i]);
                assert_int_equal(t.strides[i], u.strides[i]);
                bytes *= (size_t)t.shape[i];
            }
            for (uint32_t r = 0; r < stk_batch_rows(x); r++)
                if (memcmp((uint8_t *)t.data + r * (bytes / stk_batch_rows(x)),
                           (uint8_t *)u.data + r * (bytes / stk_batch_rows(x)),
                           bytes / stk_batch_rows(x)))
                    fail_msg("%s: sample %u differs", chain, (unsigned)stk_batch_ids(x)[r]);
            stk_batch_release(&x);
            stk_batch_release(&y);
        }
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
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        stk_stats s = { .size = sizeof s };

        same(with_points, chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_mended > 0 && s.jpeg_seek > 0);
        same(without, chains[i], NULL, &s);
        assert_true(s.gpu_jpegs > N / 2 && s.gpu_mended > 0 && s.jpeg_seek == 0);
        same(with_points, chains[i], "cpu", &s);
        assert_true(s.gpu_jpegs == 0 && s.gpu_mended == 0);
    }
}

static int setup(void **state)
{
    (void)state;
    write_tar("p.tar");
    write_tar("q.tar");
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_bits) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
