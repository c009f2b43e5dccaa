/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_parts_test - JPEGs of which only some bytes are read: what the points say, which bytes they
 * ask for, and the pixels of those.  Damaged points and parts are noticed, or change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/jpeg_base.h"
#include "tests/codec/jpeg_testing.h"

#define SEED 20261116u

static const jpeg_recipe recipes[] = {
    { 700, 437, 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } }, 80, 0, 0, 60 },
    { 461, 430, 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } }, 90, 5, 1, 90 },
    { 770, 733, 1, { { 1, 1 } }, 60, 0, 1, 30 },
    { 600, 500, 3, { { 2, 1 }, { 1, 1 }, { 1, 1 } }, 85, 25, 0, 40 },
    { 600, 400, 3, { { 1, 2 }, { 1, 1 }, { 1, 1 } }, 75, 19, 0, 80 },
};
#define RECIPES (sizeof recipes / sizeof *recipes)

typedef struct bench {
    void *ctx;
    stk_scratch scratch, kept;
    stk_bytes in, points;
    stk_media_info info;
    stk_pixels whole;
    stk_error err;
    stk_rng rng;
} bench;

/* A picture with its points, and all of its pixels. */
static void bench_open(bench *b, size_t recipe)
{
    stk_media_reader read;

    memset(b, 0, sizeof *b);
    stk_rng_init(&b->rng, SEED, recipe, 0, 0, 0);
    b->in = jpeg_make(&recipes[recipe]);
    read = stk_media_here(&b->in);
    assert_int_equal(stk_decoder_jpeg.open(&b->ctx, &b->err), 0);
    assert_int_equal(stk_decoder_jpeg.points(b->ctx, &read, &b->kept, &b->points, &b->err), 0);
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b->ctx },
                           b->in, &b->info, &b->err),
        0);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b->ctx },
                          b->in,
                          &(stk_decode_request){ .need = { 0, 0, b->info.width, b->info.height } },
                          &b->kept, &b->whole, &b->err),
        0);
}

static void bench_close(bench *b)
{
    stk_decoder_jpeg.close(b->ctx);
    stk_scratch_fini(&b->scratch);
    stk_scratch_fini(&b->kept);
    free((void *)(uintptr_t)b->in.data);
}

static stk_rect any_need(bench *b)
{
    stk_rect r = { stk_rng_below(&b->rng, b->info.width), stk_rng_below(&b->rng, b->info.height), 0,
                   0 };

    r.w = 1 + stk_rng_below(&b->rng, b->info.width - r.x);
    r.h = 1 + stk_rng_below(&b->rng, b->info.height - r.y);
    return r;
}

static void check_pixels(const bench *b, const stk_pixels *px, const stk_rect *need)
{
    for (uint32_t y = 0; y < need->h; y++)
        for (uint32_t x = 0; x < need->w; x++)
            assert_memory_equal(
                px->data + (need->y + y - px->area.y) * px->stride + (need->x + x - px->area.x) * 4,
                b->whole.data + (size_t)(need->y + y) * b->whole.stride + (size_t)(need->x + x) * 4,
                3);
}

/* Pixels from a part that is a heap block of its own, so that ASan sees what is read beside it. */
static int decode_part(bench *b, stk_bytes points, const stk_media_part *part, const stk_rect *need,
                       stk_pixels *px)
{
    stk_scratch_reset(&b->scratch);
    return stk_picture_pixels(&(stk_picture_source){ &stk_decoder_jpeg, b->ctx, points, part, 1 },
                              &(stk_decode_request){ .need = *need }, &b->scratch, px, &b->err);
}

static uint8_t *read_range(const bench *b, const stk_media_range *r, stk_media_part *out)
{
    uint8_t *copy;

    assert_true(r->offset <= b->in.len && r->len <= b->in.len - r->offset);
    copy = malloc((size_t)r->len);
    assert_non_null(copy);
    memcpy(copy, b->in.data + r->offset, (size_t)r->len);
    *out = (stk_media_part){ r->offset, { copy, (size_t)r->len } };
    return copy;
}

static void parts_have_the_pixels_of_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECIPES; i++) {
        uint64_t read = 0;
        bench b;

        bench_open(&b, i);
        for (int k = 0; k < 60; k++) {
            stk_media_range range[STK_MEDIA_RANGES];
            stk_rect need = any_need(&b);
            stk_media_points p = { .head = b.points };
            stk_media_info info;
            stk_media_part part;
            stk_pixels px = { 0 };
            uint32_t n = 0;
            uint8_t *copy;

            assert_int_equal(stk_decoder_jpeg.know(&p, 0, &info, &b.err), 0);
            assert_int_equal(info.width, b.info.width);
            assert_int_equal(info.height, b.info.height);
            assert_int_equal(info.turn, 1);
            assert_int_equal(stk_decoder_jpeg.ranges(&p, &(stk_media_ask){ .need = need },
                                                     UINT64_MAX, range, &n, &b.err),
                             0);
            assert_int_equal(n, 1);
            copy = read_range(&b, range, &part);
            assert_int_equal(decode_part(&b, b.points, &part, &need, &px), 0);
            assert_int_equal(px.lane, STK_LANE_SEEK);
            check_pixels(&b, &px, &need);
            read += part.bytes.len;
            free(copy);
        }
        assert_true(read < 60 * (uint64_t)b.in.len * 9 / 10);
        bench_close(&b);
    }
}

/* Mutated points or parts: refused, or the same pixels.  STOKER_SOAK_POINTS: how many. */
static void damage_is_noticed_or_harmless(void **state)
{
    const char *text = getenv("STOKER_SOAK_POINTS");
    uint32_t n = text ? (uint32_t)strtoul(text, NULL, 10) : 1500, stale = 0;

    (void)state;
    for (size_t i = 0; i < RECIPES; i++) {
        bench b;

        bench_open(&b, i);
        for (uint32_t k = 0; k < n / RECIPES; k++) {
            stk_rect need = any_need(&b);
            uint8_t *head = malloc(b.points.len), *copy;
            stk_media_points p = { .head = { head, b.points.len } };
            stk_media_range range[STK_MEDIA_RANGES];
            stk_media_part part;
            stk_pixels px = { 0 };
            uint32_t found = 0;
            int rc;

            memcpy(head, b.points.data, b.points.len);
            if (k % 3 != 2)
                head[stk_rng_below(&b.rng, (uint32_t)b.points.len)] ^= (uint8_t)(1 + k % 255);
            if (k % 3 == 1)
                p.head.len = stk_rng_below(&b.rng, (uint32_t)b.points.len);
            rc = stk_decoder_jpeg.ranges(&p, &(stk_media_ask){ .need = need }, UINT64_MAX, range,
                                         &found, NULL);
            if (rc == 0 && found && range->offset + range->len <= b.in.len) {
                copy = read_range(&b, range, &part);
                if (k % 3 == 2)
                    copy[stk_rng_below(&b.rng, (uint32_t)part.bytes.len)] ^= (uint8_t)(1 + k % 255);
                rc = decode_part(&b, p.head, &part, &need, &px);
                if (rc == 0)
                    check_pixels(&b, &px, &need);
                free(copy);
            }
            assert_true(rc == 0 || rc == STK_ESTALE || rc == STK_ECORRUPT);
            stale += rc < 0;
            free(head);
        }
        bench_close(&b);
    }
    assert_true(stale > n / 2);
}

/* Points of version 1 are still used where all bytes are read, and ask for all of them. */
static void the_first_version_is_read(void **state)
{
    bench b;
    uint8_t *old;
    stk_media_points p;
    stk_media_range range[STK_MEDIA_RANGES];
    stk_media_info info;
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    uint32_t n = 9;
    size_t tail;

    (void)state;
    bench_open(&b, 0);
    assert_int_equal(stk_jpeg_seek_open(&seek, &head, b.points, &b.err), 0);
    tail = seek.sum.len + 4; /* sums, and the sum of the points */
    old = malloc(b.points.len);
    memcpy(old, b.points.data, 44);
    old[1] = 1;
    memcpy(old + 44, b.points.data + 45, b.points.len - 45 - tail);
    p = (stk_media_points){ .head = { old, b.points.len - 1 - tail } };
    assert_int_equal(stk_decoder_jpeg.know(&p, 0, &info, &b.err), 0);
    assert_int_equal(info.width, b.info.width);
    assert_int_equal(info.turn, 0);
    assert_int_equal(stk_decoder_jpeg.ranges(&p, &(stk_media_ask){ .need = { 0, 0, 9, 9 } },
                                             UINT64_MAX, range, &n, &b.err),
                     0);
    assert_int_equal(n, 0);
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ &stk_decoder_jpeg, b.ctx, p.head, NULL, 0 }, b.in,
                           &info, &b.err),
        0);
    stk_scratch_reset(&b.scratch);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_jpeg, .ctx = b.ctx }, b.in,
                          &(stk_decode_request){ .need = { 40, 50, 200, 100 } }, &b.scratch,
                          &b.whole, &b.err),
        0);
    assert_int_equal(b.whole.lane, STK_LANE_SEEK);
    free(old);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_pixels_of_the_whole),
        cmocka_unit_test(damage_is_noticed_or_harmless),
        cmocka_unit_test(the_first_version_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
