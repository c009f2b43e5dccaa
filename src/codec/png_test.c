/* SPDX-License-Identifier: Apache-2.0 */
/* png_test - regions equal the crop of the whole picture for every color type, depth and pass
 * order; one context serves many pictures; truncation, damage and failing allocations are clean
 * errors.  (tests/codec holds the pixels against Pillow.)
 *
 * The PNGs are written here, unpacked deflate blocks and no filter, so that every byte is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"

#define SEED 20250302u
#define MAX_FILE 60000

struct kind {
    int color, depth, channels;
};

static const struct kind kinds[] = {
    { 0, 1, 1 }, { 0, 2, 1 },  { 0, 4, 1 },  { 0, 8, 1 }, { 0, 16, 1 },
    { 2, 8, 3 }, { 2, 16, 3 }, { 3, 1, 1 },  { 3, 2, 1 }, { 3, 4, 1 },
    { 3, 8, 1 }, { 4, 8, 2 },  { 4, 16, 2 }, { 6, 8, 4 }, { 6, 16, 4 },
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

struct file {
    size_t len;
    uint8_t data[MAX_FILE];
};

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;

    for (; n; n--) {
        c ^= *p++;
        for (int i = 0; i < 8; i++)
            c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
    }
    return ~c;
}

static void put_chunk(struct file *f, const char *type, const uint8_t *data, size_t n)
{
    uint8_t *p = f->data + f->len;

    assert_true(f->len + n + 12 <= MAX_FILE);
    put32(p, (uint32_t)n);
    memcpy(p + 4, type, 4);
    if (n)
        memcpy(p + 8, data, n);
    put32(p + 8 + n, crc_of(p + 4, n + 4));
    f->len += n + 12;
}

/* A zlib stream of one stored block, in chunks. */
static void put_pixels(struct file *f, const uint8_t *raw, size_t n)
{
    uint8_t *z = malloc(n + 11);
    uint32_t a = 1, b = 0;

    assert_true(n < 65536);
    memcpy(z, "\x78\x01\x01", 3);
    z[3] = (uint8_t)n, z[4] = (uint8_t)(n >> 8);
    z[5] = (uint8_t)~n, z[6] = (uint8_t)(~n >> 8);
    memcpy(z + 7, raw, n);
    for (size_t i = 0; i < n; i++) {
        a = (a + raw[i]) % 65521;
        b = (b + a) % 65521;
    }
    put32(z + 7 + n, b << 16 | a);
    for (size_t at = 0; at < n + 11; at += 1000)
        put_chunk(f, "IDAT", z + at, n + 11 - at < 1000 ? n + 11 - at : 1000);
    free(z);
}

/* Random rows, in Adam7's seven passes or in one; `f` becomes the whole file. */
static void make(struct file *f, const struct kind *k, uint32_t w, uint32_t h, int lace,
                 stk_rng *rng)
{
    static const uint8_t pass[7][4] = { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 },
                                        { 2, 0, 4, 4 }, { 0, 2, 2, 4 }, { 1, 0, 2, 2 },
                                        { 0, 1, 1, 2 } };
    uint8_t head[13] = { 0 }, plte[768], *raw = malloc(MAX_FILE);
    size_t n = 0;

    f->len = 8;
    memcpy(f->data, "\x89PNG\r\n\x1a\n", 8);
    put32(head, w);
    put32(head + 4, h);
    head[8] = (uint8_t)k->depth, head[9] = (uint8_t)k->color, head[12] = (uint8_t)lace;
    put_chunk(f, "IHDR", head, 13);
    for (size_t i = 0; i < sizeof plte; i++)
        plte[i] = (uint8_t)stk_rng_u32(rng);
    if (k->color == 3)
        put_chunk(f, "PLTE", plte, (size_t)3 << k->depth);
    for (int p = 0; p < (lace ? 7 : 1); p++) {
        uint32_t x0 = lace ? pass[p][0] : 0, y0 = lace ? pass[p][1] : 0;
        uint32_t dx = lace ? pass[p][2] : 1, dy = lace ? pass[p][3] : 1;
        size_t row = x0 < w ? (((w - x0 + dx - 1) / dx) * (size_t)(k->channels * k->depth) + 7) / 8
                            : 0;

        for (uint32_t y = y0; y < h && row; y += dy) {
            raw[n++] = 0;
            for (size_t i = 0; i < row; i++)
                raw[n++] = (uint8_t)stk_rng_u32(rng);
        }
    }
    put_pixels(f, raw, n);
    put_chunk(f, "IEND", NULL, 0);
    free(raw);
}

static int decode(void *ctx, const struct file *f, const stk_rect *need, stk_scratch *scratch,
                  stk_pixels *px)
{
    stk_bytes in = { f->data, f->len };
    stk_media_info info;
    stk_rect all;
    stk_error err;
    int rc = stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx },
                                in, &info, &err);

    if (rc == 0) {
        all = (stk_rect){ 0, 0, info.width, info.height };
        rc = stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx }, in,
                               &(stk_decode_request){ .need = need ? *need : all, .high_byte = 1 },
                               scratch, px, &err);
    }
    if (rc < 0)
        assert_true(err.code == rc && err.message[0] && !strchr(err.message, '\n'));
    return rc;
}

static void check_same(const stk_pixels *whole, const stk_pixels *part)
{
    const stk_rect *a = &part->area;

    for (uint32_t y = 0; y < a->h; y++)
        for (uint32_t x = 0; x < a->w; x++)
            assert_memory_equal(part->data + y * part->stride + x * 4,
                                whole->data + (a->y + y) * whole->stride + (a->x + x) * 4, 3);
}

static void regions(void **state)
{
    struct file *f = malloc(sizeof *f);
    stk_scratch s1 = { 0 }, s2 = { 0 };
    stk_pixels whole, part;
    stk_rng rng;
    void *ctx;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_png.open(&ctx, NULL), 0);
    for (size_t i = 0; i < 2 * N_KINDS; i++) {
        uint32_t w = 1 + stk_rng_below(&rng, 40), h = 1 + stk_rng_below(&rng, 40);

        make(f, &kinds[i / 2], w, h, i % 2, &rng);
        stk_scratch_reset(&s1);
        assert_int_equal(decode(ctx, f, NULL, &s1, &whole), 0);
        for (int k = 0; k < 8; k++) {
            stk_rect r = { stk_rng_below(&rng, w), stk_rng_below(&rng, h), 0, 0 };

            r.w = 1 + stk_rng_below(&rng, w - r.x);
            r.h = 1 + stk_rng_below(&rng, h - r.y);
            stk_scratch_reset(&s2);
            assert_int_equal(decode(ctx, f, &r, &s2, &part), 0);
            assert_memory_equal(&part.area, &r, sizeof r);
            check_same(&whole, &part);
        }
    }
    stk_decoder_png.close(ctx);
    stk_scratch_fini(&s1);
    stk_scratch_fini(&s2);
    free(f);
}

static void known_pixels(void **state)
{
    static const struct kind gray2 = { 0, 2, 1 }, gray16 = { 0, 16, 1 };
    const uint8_t want2[] = { 0, 85, 170, 255 }, want16[] = { 0, 0, 1, 0x80 };
    struct file *f = malloc(sizeof *f);
    uint8_t raw16[] = { 0, 0, 0, 0, 200, 1, 0, 0x80, 7 };
    const uint32_t values[] = { 0, 200, 256, 0x8007 };
    stk_decode_request ask = { .need = { 0, 0, 4, 1 } };
    stk_media_info info;
    stk_error err;
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_rng rng;
    void *ctx;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_png.open(&ctx, NULL), 0);
    make(f, &gray2, 4, 1, 0, &rng);
    f->len = 33;
    put_pixels(f, (const uint8_t *)"\0\x1b", 2);
    assert_int_equal(decode(ctx, f, NULL, &s, &px), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(px.data[4 * i + 1], want2[i]);
    make(f, &gray16, 4, 1, 0, &rng);
    f->len = 33;
    put_pixels(f, raw16, sizeof raw16);
    stk_scratch_reset(&s);
    assert_int_equal(decode(ctx, f, NULL, &s, &px), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(px.data[4 * i + 2], want16[i]);
    assert_int_equal(
        stk_picture_header(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx },
                           (stk_bytes){ f->data, f->len }, &info, NULL),
        0);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx },
                          (stk_bytes){ f->data, f->len }, &ask, &s, &px, &err),
        STK_ECORRUPT);
    assert_non_null(strstr(err.message, "image(mode=gray16)"));
    ask.deep = 1;
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx },
                          (stk_bytes){ f->data, f->len }, &ask, &s, &px, NULL),
        0);
    assert_true(px.deep && !memcmp(px.data, values, sizeof values));
    stk_decoder_png.close(ctx);
    stk_scratch_fini(&s);
    free(f);
}

static void truncated(void **state)
{
    struct file *f = malloc(sizeof *f);
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_rng rng;
    void *ctx;
    size_t len;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_png.open(&ctx, NULL), 0);
    for (int lace = 0; lace < 2; lace++) {
        make(f, &kinds[6], 9, 9, lace, &rng);
        len = f->len;
        for (f->len = 0; f->len < len - 12 - 8; f->len++) { /* up to the data's checksums */
            stk_scratch_reset(&s);
            assert_int_equal(decode(ctx, f, NULL, &s, &px), STK_ECORRUPT);
        }
        f->len = len;
        stk_scratch_reset(&s);
        assert_int_equal(decode(ctx, f, NULL, &s, &px), 0); /* the context is none the worse */
    }
    stk_decoder_png.close(ctx);
    stk_scratch_fini(&s);
    free(f);
}

static void rows_below_are_not_read(void **state)
{
    struct file *f = malloc(sizeof *f);
    stk_rect top = { 0, 0, 30, 3 };
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_rng rng;
    void *ctx;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_png.open(&ctx, NULL), 0);
    make(f, &kinds[5], 30, 300, 0, &rng);
    f->len = f->len / 2;
    assert_int_equal(decode(ctx, f, &top, &s, &px), 0);
    assert_int_equal(decode(ctx, f, NULL, &s, &px), STK_ECORRUPT);
    stk_decoder_png.close(ctx);
    stk_scratch_fini(&s);
    free(f);
}

static void misuse(void **state)
{
    struct file *f = malloc(sizeof *f);
    const stk_rect bad[] = { { 0, 0, 0, 1 }, { 9, 0, 1, 1 }, { 0, 8, 1, 2 }, { 1, 0, 9, 1 } };
    stk_scratch s = { 0 };
    stk_pixels px;
    stk_error err;
    stk_rng rng;
    void *ctx;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    assert_int_equal(stk_decoder_png.open(&ctx, NULL), 0);
    assert_int_equal(
        stk_picture_whole(&(stk_picture_source){ .decoder = &stk_decoder_png, .ctx = ctx },
                          (stk_bytes){ 0 }, &(stk_decode_request){ .need = bad[0] }, &s, &px, &err),
        STK_EINVAL);
    make(f, &kinds[5], 9, 9, 0, &rng);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decode(ctx, f, &bad[i], &s, &px), STK_EINVAL);
    stk_decoder_png.close(ctx);
    stk_scratch_fini(&s);
    free(f);
}

static void failing_allocations(void **state)
{
    struct file *f = malloc(sizeof *f);
    stk_rng rng;
    int rc = -1;

    (void)state;
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    make(f, &kinds[12], 20, 20, 1, &rng);
    for (uint64_t n = 1; rc < 0; n++) {
        stk_scratch s = { 0 };
        stk_pixels px;
        void *ctx = NULL;

        stk_mem_fail_at(n);
        rc = stk_decoder_png.open(&ctx, NULL);
        if (rc == 0)
            rc = decode(ctx, f, NULL, &s, &px);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        assert_true(n < 1000);
        stk_decoder_png.close(ctx);
        stk_scratch_fini(&s);
    }
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions),   cmocka_unit_test(known_pixels),
        cmocka_unit_test(truncated), cmocka_unit_test(rows_below_are_not_read),
        cmocka_unit_test(misuse),    cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
