/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_damage_test - our JPEG decoder on what is not as it should be: files that belong to another
 * decoder, cut or flipped ones (an error, or libjpeg-turbo's pixels), seek points that lie, regions
 * outside, allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "tests/codec/jpeg_testing.h"

#define SEED 20240713u

static const jpeg_recipe recipes[] = {
    { 50, 37, 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } }, 80, 0, 0, 60 },
    { 61, 30, 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } }, 90, 5, 1, 90 },
    { 70, 33, 1, { { 1, 1 } }, 60, 0, 1, 30 },
};
#define RECIPES (sizeof recipes / sizeof *recipes)

typedef struct bench {
    stk_jpeg *j[2];
    stk_scratch scratch, kept;
    stk_jpeg_head head;
    stk_error err;
    stk_pixels px;
    stk_rng rng;
} bench;

static void bench_open(bench *b, uint64_t stream)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(stk_jpeg_open(&b->j[0], STK_CPU_NONE, &b->err), 0);
    assert_int_equal(stk_jpeg_open(&b->j[1], stk_cpu_level(), &b->err), 0);
    stk_rng_init(&b->rng, SEED, stream, 0, 0, 0);
}

static void bench_close(bench *b)
{
    stk_jpeg_close(&b->j[0]);
    stk_jpeg_close(&b->j[1]);
    stk_scratch_fini(&b->scratch);
    stk_scratch_fini(&b->kept);
}

/* A copy that ends where the heap block ends: ASan sees reads after it. */
static uint8_t *copy_of(stk_bytes in, size_t len)
{
    uint8_t *p = malloc(len ? len : 1);

    assert_non_null(p);
    memcpy(p, in.data, len);
    return p;
}

static int decode(bench *b, int which, const stk_jpeg_job *job, const stk_rect *need)
{
    stk_scratch_reset(&b->scratch);
    return stk_jpeg_decode(b->j[which], job, &(stk_decode_request){ .need = *need }, &b->scratch,
                           &b->px, &b->err);
}

/* The whole picture: an error that says so, or what libjpeg-turbo gives.  0: it decoded. */
static int error_or_same(bench *b, stk_bytes in)
{
    stk_jpeg_job job = { .head = &b->head, .in = in };
    int rc = stk_jpeg_parse(&b->head, in, &b->err), again;
    long warnings = 0;
    stk_rect all = { 0, 0, b->head.width, b->head.height };
    uint8_t *ref;

    if (rc == 0 && (uint64_t)all.w * all.h > 1 << 20)
        return 0; /* a flipped size: too slow to look at */
    if (rc == 0) {
        again = decode(b, 0, &job, &all);
        rc = decode(b, 1, &job, &all);
        assert_int_equal(rc, again);
    }
    if (rc < 0) {
        assert_true(rc == STK_ECORRUPT || rc == STK_ENOTSUP);
        assert_true(b->err.message[0] && !strchr(b->err.message, '\n'));
        return rc;
    }
    ref = jpeg_reference(in, &warnings);
    assert_non_null(ref);
    for (uint32_t y = 0; y < all.h; y++)
        assert_memory_equal(b->px.data + y * b->px.stride, ref + (size_t)y * all.w * 4,
                            (size_t)all.w * 4);
    free(ref);
    return 0;
}

static void cut_anywhere_is_an_error(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 0);
    for (size_t i = 0; i < RECIPES; i++) {
        stk_bytes in = jpeg_make(&recipes[i]);
        stk_rect top = { 3, 0, 20, 6 };

        for (size_t len = 0; len < in.len; len++) {
            uint8_t *cut = copy_of(in, len);
            stk_jpeg_job job = { .head = &b.head, .in = { cut, len } };

            assert_true(error_or_same(&b, job.in) < 0);
            if (stk_jpeg_parse(&b.head, job.in, &b.err) == 0) /* rows above the cut are there */
                (void)decode(&b, 1, &job, &top);
            free(cut);
        }
        assert_int_equal(error_or_same(&b, in), 0);
        free((void *)in.data);
    }
    bench_close(&b);
}

static void flipped_bits_are_an_error_or_the_same(void **state)
{
    int decoded = 0, refused = 0;
    bench b;

    (void)state;
    print_message("seed %u\n", SEED);
    bench_open(&b, 1);
    for (size_t i = 0; i < RECIPES; i++) {
        stk_bytes in = jpeg_make(&recipes[i]);

        for (size_t at = 0; at < in.len; at++) {
            uint8_t *bad = copy_of(in, in.len);

            bad[at] ^= (uint8_t)(1u << stk_rng_below(&b.rng, 8));
            if (at % 7 == 3)
                bad[stk_rng_below(&b.rng, (uint32_t)in.len)] = (uint8_t)stk_rng_u32(&b.rng);
            if (error_or_same(&b, (stk_bytes){ bad, in.len }) < 0)
                refused++;
            else
                decoded++;
            free(bad);
        }
        free((void *)in.data);
    }
    print_message("%d decoded, %d refused\n", decoded, refused);
    assert_true(decoded > 100 && refused > 100);
    bench_close(&b);
}

static stk_bytes points_of(bench *b, stk_bytes in)
{
    stk_bytes packed;

    assert_int_equal(stk_jpeg_parse(&b->head, in, &b->err), 0);
    stk_scratch_reset(&b->kept);
    assert_int_equal(stk_jpeg_seek_build(b->j[1], &b->head, in, &b->kept, &packed, &b->err), 0);
    return packed;
}

/* As one would who wants them to be believed. */
static void sign_points(uint8_t *packed, size_t len)
{
    uint32_t crc = len < 4 ? 0 : stk_crc32c(0, packed, len - 4);

    for (size_t i = 0; i < 4 && len >= 4; i++, crc >>= 8)
        packed[len - 4 + i] = (uint8_t)crc;
}

/* Points that lie are refused, or found out, or their lie does not matter. */
static void lying_points(void **state)
{
    int refused = 0, stale = 0, fit = 0;
    bench b;

    (void)state;
    bench_open(&b, 2);
    for (size_t i = 0; i < RECIPES; i++) {
        stk_bytes in = jpeg_make(&recipes[i]), packed = points_of(&b, in);

        for (int round = 0; round < 4000; round++) {
            size_t len = round % 5 ? packed.len : stk_rng_below(&b.rng, (uint32_t)packed.len);
            uint8_t *bad = copy_of(packed, len);
            stk_jpeg_seek seek;
            stk_jpeg_head head;
            stk_jpeg_job job = { &head, in, &seek };
            int rc;

            for (int k = 0; k < 1 + round % 3 && len; k++)
                bad[stk_rng_below(&b.rng, (uint32_t)len)] = (uint8_t)stk_rng_u32(&b.rng);
            if (round % 7)
                sign_points(bad, len);
            rc = stk_jpeg_seek_open(&seek, &head, (stk_bytes){ bad, len }, &b.err);
            if (rc < 0) {
                assert_int_equal(rc, STK_ECORRUPT);
                refused++;
            } else if ((uint64_t)head.width * head.height <= 1 << 20) {
                stk_rect need = { stk_rng_below(&b.rng, head.width),
                                  stk_rng_below(&b.rng, head.height), 1, 1 };

                need.w = 1 + stk_rng_below(&b.rng, head.width - need.x);
                need.h = 1 + stk_rng_below(&b.rng, head.height - need.y);
                rc = decode(&b, round & 1, &job, &need);
                assert_true(rc == 0 || rc == STK_ESTALE);
                *(rc ? &stale : &fit) += 1;
            }
            free(bad);
        }
        free((void *)in.data);
    }
    print_message("%d refused, %d stale, %d fit\n", refused, stale, fit);
    assert_true(refused > 100 && stale > 100 && fit > 100);
    bench_close(&b);
}

/* Points of one file with the bytes of another. */
static void points_of_another_file(void **state)
{
    jpeg_recipe r = recipes[0];
    stk_bytes in = jpeg_make(&r), other, packed;
    stk_jpeg_seek seek;
    stk_jpeg_head head;
    bench b;

    (void)state;
    bench_open(&b, 3);
    packed = points_of(&b, in);
    assert_int_equal(stk_jpeg_seek_open(&seek, &head, packed, &b.err), 0);
    assert_int_equal(stk_jpeg_seek_check(&seek, &head, in, &b.err), 0);
    r.rough = 61;
    other = jpeg_make(&r);
    for (int i = 0; i < 2; i++) {
        stk_jpeg_job job = { &head, other, &seek };
        stk_rect all = { 0, 0, r.w, r.h };

        assert_int_equal(decode(&b, i, &job, &all), STK_ESTALE);
        assert_int_equal(stk_jpeg_seek_check(&seek, &head, other, &b.err), STK_ESTALE);
    }
    free((void *)in.data);
    free((void *)other.data);
    bench_close(&b);
}

/* A head from seek points says what the file's says. */
static void same_head(const stk_jpeg_head *a, const stk_jpeg_head *b)
{
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->restart, b->restart);
    assert_int_equal(a->scan, b->scan);
    assert_int_equal(a->n_comps, b->n_comps);
    assert_memory_equal(a->comp, b->comp, a->n_comps * sizeof *a->comp);
    for (unsigned c = 0; c < a->n_comps; c++) {
        const stk_jpeg_comp *k = &a->comp[c];

        assert_memory_equal(a->quant[k->quant], b->quant[k->quant], sizeof a->quant[0]);
        assert_memory_equal(&a->dc[k->dc], &b->dc[k->dc], sizeof a->dc[0]);
        assert_memory_equal(&a->ac[k->ac], &b->ac[k->ac], sizeof a->ac[0]);
    }
}

static void heads_survive_packing(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 4);
    for (int i = 0; i < 24; i++) {
        jpeg_recipe r = recipes[i % 3];
        stk_jpeg_seek seek;
        stk_jpeg_head head;
        stk_bytes in;

        r.quality = i < 12 ? 1 : 90; /* 1: 16-bit quantizers */
        r.optimize = i & 1;
        r.restart = i % 5;
        in = jpeg_make(&r);
        assert_int_equal(stk_jpeg_seek_open(&seek, &head, points_of(&b, in), &b.err), 0);
        same_head(&b.head, &head);
        free((void *)in.data);
    }
    bench_close(&b);
}

/* Points thin out with the file, down to rows only, and are not kept where even those are too much;
 * whatever is left decodes to the same pixels. */
static void points_keep_to_their_share(void **state)
{
    int kept = 0, rows_only = 0, refused = 0;
    bench b;

    (void)state;
    bench_open(&b, 6);
    for (int i = 0; i < 24; i++) {
        jpeg_recipe r = { 1600, 480, 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } }, 1, 0, i & 1, i };
        stk_jpeg_seek seek;
        stk_jpeg_head head;
        stk_bytes in, packed;
        stk_rect need = { 300, 200, 200, 200 };
        stk_jpeg_job job = { .head = &head, .seek = &seek };

        r.w = i < 4 ? 32 : r.w; /* small ones: the headers alone are too much */
        r.quality = 1 + i * i / 6;
        need = i < 4 ? (stk_rect){ 8, 300, 20, 100 } : need;
        job.in = in = jpeg_make(&r);
        packed = points_of(&b, in);
        assert_int_equal(stk_jpeg_seek_open(&seek, &head, packed, &b.err), 0);
        assert_int_equal(decode(&b, 0, &job, &need), 0);
        kept += stk_jpeg_seek_pays(packed, in);
        refused += !stk_jpeg_seek_pays(packed, in);
        rows_only += stk_jpeg_seek_pays(packed, in) && seek.rows_only;
        assert_true(!stk_jpeg_seek_pays(packed, in) || packed.len * 1000 <= in.len * 25);
        free((void *)in.data);
    }
    bench_close(&b);
    print_message("%d kept, %d of them rows only, %d not\n", kept, rows_only, refused);
    assert_true(kept > rows_only && rows_only > 0 && refused >= 4);
}

/* A chunk too long for 16 bits: rows are all that is kept, and enough. */
static void long_chunks_have_row_points(void **state)
{
    jpeg_recipe r = recipes[0];
    stk_bytes in = jpeg_make(&r), packed;
    static stk_jpeg_point points[64];
    static uint8_t room[16384];
    stk_jpeg_seek seek;
    stk_jpeg_head head;
    uint32_t rows, chunks;
    bench b;

    (void)state;
    bench_open(&b, 5);
    packed = points_of(&b, in);
    assert_int_equal(stk_jpeg_seek_open(&seek, &head, packed, &b.err), 0);
    rows = seek.rows;
    chunks = seek.chunks;
    assert_true(rows * chunks <= 64 && chunks > 0);
    for (uint32_t y = 0; y < rows; y++) {
        int32_t dc[3];

        stk_jpeg_seek_dc(&seek, y, 0, dc);
        for (uint32_t x = 0; x < chunks; x++)
            points[y * chunks + x] = (stk_jpeg_point){ stk_jpeg_seek_row(&seek, y) + x * 70000,
                                                       { (int16_t)dc[0], (int16_t)dc[1],
                                                         (int16_t)dc[2] } };
    }
    assert_true(stk_jpeg_seek_room(&head) <= sizeof room);
    packed = (stk_bytes){ room, stk_jpeg_seek_pack(room, &b.head, in,
                                                   (size_t)head.scan + seek.scan_len, points) };
    assert_int_equal(stk_jpeg_seek_open(&seek, &head, packed, &b.err), 0);
    assert_int_equal(seek.rows_only, chunks > 1);
    for (uint32_t x = 0; x < r.w; x += 3) {
        stk_jpeg_job job = { &head, in, &seek };
        stk_rect need = { x, x % r.h, r.w - x, r.h - x % r.h };

        assert_int_equal(decode(&b, (int)x & 1, &job, &need), 0);
    }
    free((void *)in.data);
    bench_close(&b);
}

static void files_of_other_decoders(void **state)
{
    static const struct {
        uint8_t from, to;
        size_t at; /* after the marker `from` */
        uint8_t value;
        int rc;
    } edits[] = {
        { 0xC0, 0xC2, 0, 0, STK_ENOTSUP },     /* progressive */
        { 0xC0, 0xC9, 0, 0, STK_ENOTSUP },     /* arithmetic */
        { 0xC0, 0xC0, 2, 12, STK_ENOTSUP },    /* 12 bits */
        { 0xC0, 0xC0, 9, 0x32, STK_ENOTSUP },  /* luma 3x2 over chroma 1x1: 8 blocks; see below */
        { 0xC0, 0xC0, 9, 0x51, STK_ECORRUPT }, /* a factor of 5 */
        { 0xC0, 0xC0, 12, 0x32, STK_ENOTSUP }, /* 3 does not divide by 2 */
        { 0xDA, 0xDA, 3, 7, STK_ENOTSUP },     /* another component's name */
        { 0xDA, 0xDA, 9, 1, STK_ENOTSUP },     /* a spectral band */
        { 0xDB, 0xFE, 0, 0, STK_ECORRUPT },    /* no quantizers */
        { 0xC4, 0xFE, 0, 0, STK_ECORRUPT },    /* no Huffman table */
        { 0xD8, 0xD7, 0, 0, STK_ECORRUPT },    /* no start */
        { 0xC0, 0xDC, 0, 0, STK_ECORRUPT },    /* a marker out of place */
    };
    stk_bytes in = jpeg_make(&recipes[0]);
    stk_jpeg_head h;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        uint8_t *p = copy_of(in, in.len);
        int rc;

        for (size_t k = 0; k + 1 < in.len; k++)
            if (p[k] == 0xFF && p[k + 1] == edits[i].from) {
                p[k + 1] = edits[i].to;
                if (edits[i].at)
                    p[k + 2 + edits[i].at] = edits[i].value;
            }
        rc = stk_jpeg_parse(&h, (stk_bytes){ p, in.len }, &err);
        if (i == 3) /* such a file would be ours */
            assert_int_equal(rc, 0);
        else if (rc != edits[i].rc)
            fail_msg("edit %zu: %d, %s", i, rc, rc ? err.message : "accepted");
        free(p);
    }
    free((void *)in.data);
}

static void regions_outside_are_refused(void **state)
{
    static const stk_rect bad[] = { { 0, 0, 51, 1 },         { 0, 0, 1, 38 },
                                    { 50, 0, 1, 1 },         { 0, 37, 1, 1 },
                                    { 0, 0, 0, 1 },          { 0, 0, 1, 0 },
                                    { UINT32_MAX, 0, 2, 1 }, { 1, 1, UINT32_MAX, UINT32_MAX } };
    stk_bytes in = jpeg_make(&recipes[0]);
    bench b;
    stk_jpeg_job job = { .head = &b.head, .in = in };

    (void)state;
    bench_open(&b, 6);
    assert_int_equal(stk_jpeg_parse(&b.head, in, &b.err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decode(&b, 0, &job, &bad[i]), STK_EINVAL);
    bench_close(&b);
    free((void *)in.data);
}

static void every_allocation_may_fail(void **state)
{
    stk_bytes in = jpeg_make(&recipes[1]), packed;
    stk_jpeg_head head;
    stk_rect need = { 9, 9, 20, 20 };
    stk_jpeg_job job = { .head = &head, .in = in };
    int rc = STK_ENOMEM, n;

    (void)state;
    assert_int_equal(stk_jpeg_parse(&head, in, NULL), 0);
    for (n = 1; rc != 0 && n < 100; n++) {
        stk_scratch s = { 0 };
        stk_jpeg *j = NULL;
        stk_pixels px;

        stk_mem_fail_at((uint64_t)n);
        rc = stk_jpeg_open(&j, stk_cpu_level(), NULL);
        rc = rc ? rc : stk_jpeg_seek_build(j, &head, in, &s, &packed, NULL);
        rc = rc ? rc
                : stk_jpeg_decode(j, &job, &(stk_decode_request){ .need = need }, &s, &px, NULL);
        stk_mem_fail_at(0);
        if (rc)
            assert_int_equal(rc, STK_ENOMEM);
        stk_jpeg_close(&j);
        stk_scratch_fini(&s);
    }
    assert_int_equal(rc, 0);
    assert_true(n > 5);
    free((void *)in.data);
}

static void nothing_is_allocated_for_the_second_image(void **state)
{
    stk_bytes in = jpeg_make(&recipes[1]);
    stk_rect need = { 9, 9, 20, 20 };
    uint64_t before;
    bench b;
    stk_jpeg_job job = { .head = &b.head, .in = in };

    (void)state;
    bench_open(&b, 7);
    assert_int_equal(stk_jpeg_parse(&b.head, in, &b.err), 0);
    assert_int_equal(decode(&b, 1, &job, &need), 0);
    before = stk_mem_count();
    assert_int_equal(decode(&b, 1, &job, &need), 0);
    assert_int_equal(stk_mem_count(), before);
    bench_close(&b);
    free((void *)in.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere_is_an_error),
        cmocka_unit_test(flipped_bits_are_an_error_or_the_same),
        cmocka_unit_test(lying_points),
        cmocka_unit_test(points_of_another_file),
        cmocka_unit_test(heads_survive_packing),
        cmocka_unit_test(points_keep_to_their_share),
        cmocka_unit_test(long_chunks_have_row_points),
        cmocka_unit_test(files_of_other_decoders),
        cmocka_unit_test(regions_outside_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(nothing_is_allocated_for_the_second_image),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
