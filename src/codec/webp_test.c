/* SPDX-License-Identifier: Apache-2.0 */
/* webp_test - regions equal the crop of the whole picture bit for bit, lossy and lossless, with
 * and without alpha; truncation at every length, animations and misuse are clean errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <webp/encode.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"

#define SEED 20250303u

/* Shapes and noise, by libwebp; WebPFree() it. */
static stk_bytes make(uint32_t w, uint32_t h, int lossless, int alpha, stk_rng *rng)
{
    uint8_t *px = malloc((size_t)w * h * 4), *out = NULL;
    uint32_t n;

    for (n = 0; n < w * h; n++) {
        px[4 * n] = (uint8_t)(n % w * 7 + stk_rng_below(rng, 60));
        px[4 * n + 1] = (uint8_t)(n / w * 5 + stk_rng_below(rng, 60));
        px[4 * n + 2] = (uint8_t)stk_rng_u32(rng);
        px[4 * n + 3] = alpha ? (uint8_t)stk_rng_u32(rng) : 255;
    }
    n = (uint32_t)(lossless ? WebPEncodeLosslessRGBA(px, (int)w, (int)h, (int)w * 4, &out)
                            : WebPEncodeRGBA(px, (int)w, (int)h, (int)w * 4, 60, &out));
    assert_true(n > 0);
    free(px);
    return (stk_bytes){ out, n };
}

static int decode(void *ctx, stk_bytes in, const stk_rect *need, stk_scratch *scratch,
                  stk_pixels *px)
{
    stk_media_info info;
    stk_rect all;
    stk_error err;
    int rc = stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_webp, .ctx = ctx },
                                in, &info, &err);

    if (rc == 0) {
        all = (stk_rect){ 0, 0, info.width, info.height };
        rc = stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_webp, .ctx = ctx },
                               in, &(stk_decode_request){ .need = need ? *need : all }, scratch, px,
                               &err);
    }
    if (rc < 0)
        assert_true(err.code == rc && err.message[0] && !strchr(err.message, '\n'));
    return rc;
}

static void check_region(const stk_pixels *whole, const stk_pixels *part, const stk_rect *r)
{
    const stk_rect *a = &part->area;

    assert_true(a->x <= r->x && a->x + a->w >= r->x + r->w);
    assert_true(a->y <= r->y && a->y + a->h >= r->y + r->h);
    for (uint32_t y = r->y; y < r->y + r->h; y++)
        for (uint32_t x = r->x; x < r->x + r->w; x++)
            assert_memory_equal(part->data + (y - a->y) * part->stride + (size_t)(x - a->x) * 4,
                                whole->data + y * whole->stride + (size_t)x * 4, 3);
}

static void regions(void **state)
{
    stk_scratch s1 = { 0 }, s2 = { 0 };
    stk_pixels whole, part;
    stk_rng rng;
    void *ctx;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_webp.open(&ctx, NULL), 0);
    for (int i = 0; i < 16; i++) {
        uint32_t w = 1 + stk_rng_below(&rng, 90), h = 1 + stk_rng_below(&rng, 90);
        stk_bytes in = make(w, h, i & 1, i & 2, &rng);

        stk_scratch_reset(&s1);
        assert_int_equal(decode(ctx, in, NULL, &s1, &whole), 0);
        for (int k = 0; k < 12; k++) {
            stk_rect r = { stk_rng_below(&rng, w), stk_rng_below(&rng, h), 0, 0 };

            r.w = 1 + stk_rng_below(&rng, w - r.x);
            r.h = 1 + stk_rng_below(&rng, h - r.y);
            stk_scratch_reset(&s2);
            assert_int_equal(decode(ctx, in, &r, &s2, &part), 0);
            check_region(&whole, &part, &r);
        }
        WebPFree((void *)in.data);
    }
    stk_decoder_webp.close(ctx);
    stk_scratch_fini(&s1);
    stk_scratch_fini(&s2);
}

static void truncated(void **state)
{
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_rng rng;
    void *ctx;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_webp.open(&ctx, NULL), 0);
    for (int i = 0; i < 4; i++) {
        stk_bytes in = make(20, 20, i & 1, i & 2, &rng), cut = in;

        for (cut.len = 0; cut.len < in.len; cut.len++) {
            stk_scratch_reset(&s);
            assert_int_equal(decode(ctx, cut, NULL, &s, &px), STK_ECORRUPT);
        }
        stk_scratch_reset(&s);
        assert_int_equal(decode(ctx, in, NULL, &s, &px), 0);
        WebPFree((void *)in.data);
    }
    stk_decoder_webp.close(ctx);
    stk_scratch_fini(&s);
}

static void refused(void **state)
{
    /* VP8X with the animation flag, 8x8, and an empty ANIM chunk. */
    static const uint8_t moving[] = "RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\7\0\0\7\0\0"
                                    "ANIM\6\0\0\0\0\0\0\0\0\0";
    const stk_rect bad[] = { { 0, 0, 0, 1 }, { 9, 0, 1, 1 }, { 0, 8, 1, 2 }, { 1, 0, 9, 1 } };
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_error err;
    stk_bytes in;
    stk_rng rng;
    void *ctx;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_webp.open(&ctx, NULL), 0);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_webp, .ctx = ctx },
                          (stk_bytes){ 0 }, &(stk_decode_request){ .need = bad[0] }, &s, &px, &err),
        STK_EINVAL);
    in = (stk_bytes){ moving, sizeof moving - 1 };
    assert_int_equal(decode(ctx, in, NULL, &s, &px), STK_ENOTSUP);
    in = make(9, 9, 0, 0, &rng);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decode(ctx, in, &bad[i], &s, &px), STK_EINVAL);
    stk_mem_fail_at(1); /* the one allocation that is ours */
    assert_int_equal(decode(ctx, in, NULL, &s, &px), STK_ENOMEM);
    stk_mem_fail_at(0);
    WebPFree((void *)in.data);
    stk_decoder_webp.close(ctx);
    stk_scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions),
        cmocka_unit_test(truncated),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
