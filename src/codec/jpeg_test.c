/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_test - a region equals the crop of a full decode by plain libjpeg, bit for bit, over
 * sampling factors, scan kinds, restart intervals, sizes and places; truncation, hostile headers
 * and failing allocations are clean errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "tests/support/sanitized.h"

#define SEED 20240611u

struct recipe {
    uint32_t w, h;
    int comps;      /* 1, 3, 4 */
    int samp[4][2]; /* h, v of each component */
    int progressive, restart, arith;
};

static uint8_t noise(uint32_t x, uint32_t y, int c)
{
    uint32_t v = (x * 2654435761u) ^ (y * 2246822519u) ^ ((uint32_t)c * 3266489917u);

    v ^= v >> 15;
    return (uint8_t)((x * 5 + y * 3 + (uint32_t)c * 60 + (v % 90)) & 255);
}

/* A JPEG by libjpeg; free() it. */
static stk_bytes make(const struct recipe *r)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL;
    unsigned long len = 0;
    uint8_t *row = malloc((size_t)r->w * 4);
    JSAMPROW rows[1] = { row };

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &len);
    c.image_width = r->w;
    c.image_height = r->h;
    c.input_components = r->comps;
    c.in_color_space = r->comps == 1 ? JCS_GRAYSCALE : r->comps == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 80, TRUE);
    for (int i = 0; i < c.num_components; i++) {
        c.comp_info[i].h_samp_factor = r->samp[i][0];
        c.comp_info[i].v_samp_factor = r->samp[i][1];
    }
    if (r->progressive)
        jpeg_simple_progression(&c);
    c.arith_code = r->arith ? TRUE : FALSE;
    c.restart_interval = (unsigned)r->restart;
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < r->h; y++) {
        for (uint32_t x = 0; x < r->w; x++)
            for (int k = 0; k < r->comps; k++)
                row[x * (uint32_t)r->comps + (uint32_t)k] = noise(x, y, k);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return (stk_bytes){ out, len };
}

/* The whole picture by libjpeg as it comes, RGB; free() it. */
static uint8_t *full_decode(stk_bytes in, uint32_t w, uint32_t h)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr e;
    uint8_t *out = malloc((size_t)w * h * 3), *row = malloc((size_t)w * 4);

    d.err = jpeg_std_error(&e);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, in.data, in.len);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = d.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&d);
    for (uint32_t y = 0; y < h; y++) {
        uint8_t *to = out + (size_t)y * w * 3;
        JSAMPROW rows[1] = { d.num_components == 4 ? row : to };

        jpeg_read_scanlines(&d, rows, 1);
        for (uint32_t x = 0; d.num_components == 4 && x < w; x++)
            for (int k = 0; k < 3; k++) { /* Pillow's rounding of a * b / 255 */
                int a = (255 - row[x * 4 + (uint32_t)k]) * row[x * 4 + 3] + 128;

                to[x * 3 + (uint32_t)k] = (uint8_t)(row[x * 4 + 3] - (((a >> 8) + a) >> 8));
            }
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    free(row);
    return out;
}

struct bench { /* a decoder with its scratch */
    void *ctx;
    stk_scratch scratch;
    stk_error err;
    stk_pixels px;
};

static void bench_open(struct bench *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(stk_decoder_jpeg.open(&b->ctx, &b->err), 0);
}

static void bench_close(struct bench *b)
{
    stk_decoder_jpeg.close(b->ctx);
    stk_scratch_fini(&b->scratch);
}

static int bench_decode(struct bench *b, stk_bytes in, const stk_rect *need)
{
    stk_media_info info;
    int rc = stk_picture_header(
        &(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b->ctx }, in, &info, &b->err);

    stk_scratch_reset(&b->scratch);
    return rc < 0 ? rc
                  : stk_picture_whole(
                        &(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b->ctx }, in,
                        &(stk_decode_request){ .need = *need }, &b->scratch, &b->px, &b->err);
}

static int same(const stk_pixels *px, const stk_rect *need, const uint8_t *ref, uint32_t ref_w)
{
    for (uint32_t y = 0; y < need->h; y++)
        for (uint32_t x = 0; x < need->w; x++) {
            uint32_t sx = need->x + x, sy = need->y + y;
            const uint8_t *a = px->data + (size_t)(sy - px->area.y) * px->stride +
                               (size_t)(sx - px->area.x) * 4;

            if (memcmp(a, ref + ((size_t)sy * ref_w + sx) * 3, 3))
                return 0;
        }
    return 1;
}

static int covers(const stk_rect *a, const stk_rect *n)
{
    return a->x <= n->x && a->y <= n->y && a->x + a->w >= n->x + n->w && a->y + a->h >= n->y + n->h;
}

static void check_region(struct bench *b, stk_bytes in, const struct recipe *r, stk_rect need,
                         const uint8_t *ref)
{
    int rc = bench_decode(b, in, &need);

    if (rc < 0)
        fail_msg("%s", b->err.message);
    assert_true(covers(&b->px.area, &need));
    if (!same(&b->px, &need, ref, r->w))
        fail_msg(
            "%ux%u comps %d luma %dx%d/%dx%d prog %d restart %d: region %ux%u at (%u, %u) differs",
            r->w, r->h, r->comps, r->samp[0][0], r->samp[0][1], r->samp[1][0], r->samp[1][1],
            r->progressive, r->restart, need.w, need.h, need.x, need.y);
}

/* Every row as a start with every short height, every column likewise, and random rectangles.  A
 * sanitizer build takes the heights, and the widths, in turn. */
static void check_recipe(struct bench *b, const struct recipe *r, stk_rng *rng)
{
    stk_bytes in = make(r);
    uint8_t *ref = full_decode(in, r->w, r->h);
    static const uint32_t lens[3] = { 1, 7, 1000 };

    check_region(b, in, r, (stk_rect){ 0, 0, r->w, r->h }, ref);
    for (uint32_t y = 0; y < r->h; y++)
        for (size_t i = TEST_SHARE(0, y % 3); i < 3; i += TEST_SHARE(1, 3))
            check_region(
                b, in, r,
                (stk_rect){ y % r->w, y, r->w - y % r->w, lens[i] < r->h - y ? lens[i] : r->h - y },
                ref);
    for (uint32_t x = 0; x < r->w; x++)
        for (size_t i = TEST_SHARE(0, x % 3); i < 3; i += TEST_SHARE(1, 3))
            check_region(
                b, in, r,
                (stk_rect){ x, x % r->h, lens[i] < r->w - x ? lens[i] : r->w - x, r->h - x % r->h },
                ref);
    for (int i = 0; i < TEST_SHARE(60, 20); i++) {
        stk_rect n = { stk_rng_below(rng, r->w), stk_rng_below(rng, r->h), 0, 0 };

        n.w = 1 + stk_rng_below(rng, r->w - n.x);
        n.h = 1 + stk_rng_below(rng, r->h - n.y);
        check_region(b, in, r, n, ref);
    }
    free(ref);
    free((void *)in.data);
}

static const struct {
    int comps, samp[4][2];
} kinds[] = {
    { 1, { { 1, 1 } } },                               /* gray */
    { 1, { { 2, 2 } } },                               /* gray with factors that mean nothing */
    { 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } } },           /* 4:4:4 */
    { 3, { { 2, 1 }, { 1, 1 }, { 1, 1 } } },           /* 4:2:2 */
    { 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } } },           /* 4:2:0 */
    { 3, { { 1, 2 }, { 1, 1 }, { 1, 1 } } },           /* 4:4:0 */
    { 3, { { 4, 1 }, { 1, 1 }, { 1, 1 } } },           /* 4:1:1 */
    { 3, { { 4, 2 }, { 1, 1 }, { 1, 1 } } },           /* 4:1:0 */
    { 3, { { 2, 2 }, { 2, 1 }, { 1, 2 } } },           /* each component its own way */
    { 4, { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } }, /* CMYK */
    { 4, { { 2, 2 }, { 1, 1 }, { 1, 1 }, { 2, 2 } } },
};

static void regions_equal_the_crop_of_a_full_decode(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 },   { 17, 3 },  { 8, 40 },
                                         { 67, 50 }, { 64, 48 }, { 131, 35 } };
    struct bench b;
    stk_rng rng;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    bench_open(&b);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int mode = 0; mode < 5; mode++) {
                struct recipe r = { .w = sizes[s][0],
                                    .h = sizes[s][1],
                                    .comps = kinds[k].comps,
                                    .progressive = mode == 2 || mode == 3,
                                    .restart = mode == 1   ? 3
                                               : mode == 3 ? 1
                                                           : 0,
                                    .arith = mode == 4 };

                memcpy(r.samp, kinds[k].samp, sizeof r.samp);
                check_recipe(&b, &r, &rng);
            }
    bench_close(&b);
}

static const struct recipe plain = {
    .w = 90, .h = 70, .comps = 3, .samp = { { 2, 2 }, { 1, 1 }, { 1, 1 } }
};

static void one_header_serves_several_regions(void **state)
{
    stk_bytes in = make(&plain);
    uint8_t *ref = full_decode(in, plain.w, plain.h);
    stk_media_info info;
    struct bench b;

    (void)state;
    bench_open(&b);
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, in,
                           &info, &b.err),
        0);
    assert_int_equal(info.width, plain.w);
    assert_int_equal(info.height, plain.h);
    for (uint32_t i = 0; i < 3; i++) {
        stk_rect need = { i * 20, i * 15, 30, 30 };

        assert_int_equal(
            stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx },
                              in, &(stk_decode_request){ .need = need }, &b.scratch, &b.px, &b.err),
            0);
        assert_true(same(&b.px, &need, ref, plain.w));
    }
    bench_close(&b);
    free(ref);
    free((void *)in.data);
}

static void regions_outside_are_refused(void **state)
{
    static const stk_rect bad[] = { { 0, 0, 91, 1 },         { 0, 0, 1, 71 },
                                    { 90, 0, 1, 1 },         { 0, 70, 1, 1 },
                                    { 0, 0, 0, 1 },          { 0, 0, 1, 0 },
                                    { UINT32_MAX, 0, 2, 1 }, { 1, 1, UINT32_MAX, UINT32_MAX } };
    stk_bytes in = make(&plain);
    struct bench b;

    (void)state;
    bench_open(&b);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bench_decode(&b, in, &bad[i]), STK_EINVAL);
    bench_close(&b);
    free((void *)in.data);
}

/* Cut anywhere, the whole picture is an error; the rows above the cut are not. */
static void truncated_is_an_error(void **state)
{
    struct recipe r = plain;
    stk_rect all = { 0, 0, r.w, r.h }, top = { 0, 0, r.w, 8 };
    struct bench b;

    (void)state;
    bench_open(&b);
    for (r.progressive = 0; r.progressive < 2; r.progressive++) {
        stk_bytes in = make(&r), cut = in;

        for (cut.len = 0; cut.len < in.len - 2; cut.len++) {
            uint8_t *copy = malloc(cut.len ? cut.len
                                           : 1); /* a block of its own: ASan sees reads past it */
            int rc;

            memcpy(copy, in.data, cut.len);
            rc = bench_decode(&b, (stk_bytes){ copy, cut.len }, &all);
            if (cut.len < in.len - 12)
                assert_int_equal(rc, STK_ECORRUPT);
            free(copy);
        }
        cut.len = in.len * 3 / 4;
        assert_int_equal(bench_decode(&b, cut, &top), r.progressive ? STK_ECORRUPT : 0);
        if (r.progressive)
            assert_non_null(strstr(b.err.message, "truncated"));
        assert_int_equal(bench_decode(&b, in, &all), 0); /* and the context is as good as new */
        free((void *)in.data);
    }
    bench_close(&b);
}

/* The offset after the first marker `m`, or 0. */
static size_t find_marker(stk_bytes in, uint8_t m)
{
    for (size_t i = 0; i + 1 < in.len; i++)
        if (in.data[i] == 0xFF && in.data[i + 1] == m)
            return i + 2;
    return 0;
}

static void no_table_comes_from_the_image_before(void **state)
{
    stk_bytes in = make(&plain), bare = in;
    uint8_t *copy = malloc(in.len);
    stk_rect need = { 0, 0, 9, 9 };
    size_t at;
    struct bench b;

    (void)state;
    memcpy(copy, in.data, in.len);
    bare.data = copy;
    while ((at = find_marker(bare, 0xDB)))
        copy[at - 1] = 0xFE; /* quantization tables become comments */
    bench_open(&b);
    assert_int_equal(bench_decode(&b, in, &need), 0);
    assert_int_equal(bench_decode(&b, bare, &need), STK_ECORRUPT);
    bench_close(&b);
    free(copy);
    free((void *)in.data);
}

static void huge_headers_cost_nothing(void **state)
{
    struct recipe r = plain;
    stk_rect need = { 0, 0, 65535, 65535 };
    stk_media_info info;
    struct bench b;
    size_t at;

    (void)state;
    r.progressive = 1;
    bench_open(&b);
    for (r.progressive = 0; r.progressive < 2; r.progressive++) {
        stk_bytes in = make(&r);
        uint8_t *data = (uint8_t *)in.data;

        at = find_marker(in, r.progressive ? 0xC2 : 0xC0);
        memset(data + at + 3, 0xFF, 4);
        assert_int_equal(
            stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx },
                               in, &info, &b.err),
            0);
        assert_int_equal(info.width, 65535);
        assert_int_equal(info.height, 65535);
        assert_int_equal(b.scratch.total, 0);
        assert_int_equal(
            stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx },
                              in, &(stk_decode_request){ .need = need }, &b.scratch, &b.px, &b.err),
            STK_ELIMIT);
        if (r.progressive) { /* within libjpeg's limit, not within ours */
            data[at + 3] = data[at + 5] = 0x80;
            assert_int_equal(bench_decode(&b, in, &(stk_rect){ 0, 0, 1, 1 }), STK_ELIMIT);
            assert_non_null(strstr(b.err.message, "scans"));
        }
        assert_int_equal(b.scratch.total, 0);
        free(data);
    }
    bench_close(&b);
}

/* A progressive file whose last scan is repeated without limit. */
static void scan_bombs_are_refused(void **state)
{
    struct recipe r = { .w = 8, .h = 8, .comps = 1, .samp = { { 1, 1 } }, .progressive = 1 };
    stk_bytes in = make(&r);
    stk_rect need = { 0, 0, 8, 8 };
    size_t first = find_marker(in, 0xDA) - 2, len = in.len - 2 - first, n = 700;
    uint8_t *bomb = malloc(first + len * n);
    struct bench b;

    (void)state;
    memcpy(bomb, in.data, first);
    for (size_t i = 0; i < n; i++)
        memcpy(bomb + first + i * len, in.data + first, len);
    bench_open(&b);
    assert_int_equal(bench_decode(&b, (stk_bytes){ bomb, first + len * n }, &need), STK_ELIMIT);
    assert_non_null(strstr(b.err.message, "scans"));
    bench_close(&b);
    free(bomb);
    free((void *)in.data);
}

static void every_allocation_may_fail(void **state)
{
    struct recipe r = plain;
    stk_rect need = { 10, 10, 50, 50 };

    (void)state;
    for (r.progressive = 0; r.progressive < 2; r.progressive++) {
        stk_bytes in = make(&r);
        int rc = STK_ENOMEM, n;

        for (n = 1; rc != 0 && n < 1000; n++) {
            struct bench b = { 0 };

            stk_mem_fail_at((uint64_t)n);
            rc = stk_decoder_jpeg.open(&b.ctx, &b.err);
            if (rc == 0)
                rc = bench_decode(&b, in, &need);
            stk_mem_fail_at(0);
            if (rc != 0)
                assert_int_equal(rc, STK_ENOMEM);
            if (b.ctx && rc != 0) /* the context survives it */
                assert_int_equal(bench_decode(&b, in, &need), 0);
            bench_close(&b);
        }
        assert_int_equal(rc, 0);
        assert_true(n > 3);
        free((void *)in.data);
    }
}

static void nothing_is_allocated_for_the_second_image(void **state)
{
    stk_bytes in = make(&plain);
    stk_rect need = { 10, 10, 50, 50 };
    uint64_t before;
    struct bench b;

    (void)state;
    bench_open(&b);
    assert_int_equal(bench_decode(&b, in, &need), 0);
    before = stk_mem_count();
    assert_int_equal(bench_decode(&b, in, &need), 0);
    assert_int_equal(stk_mem_count(), before);
    bench_close(&b);
    free((void *)in.data);
}

/* Damage never crashes; what is damaged inside a scan may decode, as in Pillow. */
static void garbage_is_survived(void **state)
{
    stk_rect need = { 5, 5, 60, 60 };
    struct recipe r = plain;
    struct bench b;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    bench_open(&b);
    for (int round = 0; round < 1500; round++) {
        stk_bytes in;
        uint8_t *data;
        int rc;

        r.progressive = round & 1;
        r.restart = round & 2;
        in = make(&r);
        data = (uint8_t *)in.data;
        for (int i = 0; i < 4; i++)
            data[stk_rng_below(&rng, (uint32_t)in.len)] = (uint8_t)stk_rng_u32(&rng);
        rc = bench_decode(&b, in, &need);
        if (rc < 0)
            assert_true(b.err.message[0] && !strchr(b.err.message, '\n'));
        free(data);
    }
    bench_close(&b);
}

static void probe_looks_at_three_bytes(void **state)
{
    static const uint8_t yes[] = { 0xFF, 0xD8, 0xFF, 0xE0 }, no[] = { 0x89, 'P', 'N', 'G' };

    (void)state;
    assert_int_equal(stk_decoder_jpeg.probe((stk_bytes){ yes, 4 }), 1);
    assert_int_equal(stk_decoder_jpeg.probe((stk_bytes){ yes, 2 }), 0);
    assert_int_equal(stk_decoder_jpeg.probe((stk_bytes){ no, 4 }), 0);
    assert_int_equal(stk_decoder_jpeg.probe((stk_bytes){ NULL, 0 }), 0);
}

/* Ours begins with it, finds bytes that do not belong there, and libjpeg-turbo makes the pixels:
 * they are the ones that count. */
static void libjpeg_turbo_takes_what_ours_gave_up(void **state)
{
    const struct recipe r = { 50, 40, 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } }, 0, 0, 0 };
    const stk_decode_request ask = { .need = { 0, 0, 50, 40 } };
    stk_bytes in = make(&r), odd = { malloc(in.len + 3), in.len + 3 };
    uint8_t *want = full_decode(in, r.w, r.h);
    stk_media_info info;
    struct bench b;

    (void)state;
    memcpy((void *)odd.data, in.data, in.len - 2);
    memcpy((void *)(odd.data + in.len - 2), "odd\xFF\xD9", 5);
    bench_open(&b);
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, odd,
                           &info, &b.err),
        0);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, odd,
                          &ask, &b.scratch, &b.px, &b.err),
        0);
    assert_int_equal(b.px.lane, STK_LANE_FALLBACK);
    for (uint32_t y = 0; y < r.h; y++)
        for (uint32_t x = 0; x < r.w; x++)
            assert_memory_equal(b.px.data + y * b.px.stride + (size_t)x * 4,
                                want + ((size_t)y * r.w + x) * 3, 3);
    odd.len = in.len / 2; /* counted where that one fails too */
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, odd,
                           &info, &b.err),
        0);
    b.px.lane = STK_LANE_PLAIN;
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, odd,
                          &ask, &b.scratch, &b.px, &b.err),
        STK_ECORRUPT);
    assert_int_equal(b.px.lane, STK_LANE_FALLBACK);
    bench_close(&b);
    free(want);
    free((void *)odd.data);
    free((void *)in.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_equal_the_crop_of_a_full_decode),
        cmocka_unit_test(one_header_serves_several_regions),
        cmocka_unit_test(regions_outside_are_refused),
        cmocka_unit_test(truncated_is_an_error),
        cmocka_unit_test(no_table_comes_from_the_image_before),
        cmocka_unit_test(huge_headers_cost_nothing),
        cmocka_unit_test(scan_bombs_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(nothing_is_allocated_for_the_second_image),
        cmocka_unit_test(libjpeg_turbo_takes_what_ours_gave_up),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(probe_looks_at_three_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
