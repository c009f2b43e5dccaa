/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_base_test - our JPEG decoder gives libjpeg-turbo's coefficients and pixels, bit for bit:
 * whole pictures and random regions, with and without seek points, at every CPU level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "tests/codec/jpeg_testing.h"
#include "tests/support/sanitized.h"

#define SEED 20240711u

static const struct {
    int comps, samp[3][2];
} kinds[] = {
    { 1, { { 1, 1 } } },
    { 1, { { 2, 2 } } }, /* factors that mean nothing */
    { 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 1, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 4, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 1, 4 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 4, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 4 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 2 }, { 2, 1 }, { 1, 2 } } },
    { 3, { { 2, 2 }, { 1, 2 }, { 2, 1 } } },
    { 3, { { 1, 1 }, { 2, 2 }, { 1, 1 } } }, /* luma is the small one */
    { 3, { { 1, 2 }, { 2, 1 }, { 1, 1 } } },
    { 3, { { 3, 1 }, { 1, 1 }, { 3, 1 } } },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const stk_cpu levels[] = { STK_CPU_NONE, STK_CPU_AVX2, STK_CPU_AVX512 };
#define LEVELS (sizeof levels / sizeof *levels)

typedef struct bench {
    stk_jpeg *j[LEVELS];
    stk_scratch scratch, kept;
    stk_jpeg_head head, head2;
    stk_jpeg_seek seek;
    stk_error err;
    stk_rng rng;
} bench;

static void bench_open(bench *b, uint64_t stream)
{
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < LEVELS; i++)
        if (levels[i] <= stk_cpu_level())
            assert_int_equal(stk_jpeg_open(&b->j[i], levels[i], &b->err), 0);
    stk_rng_init(&b->rng, SEED, stream, 0, 0, 0);
}

static void bench_close(bench *b)
{
    for (size_t i = 0; i < LEVELS; i++)
        stk_jpeg_close(&b->j[i]);
    stk_scratch_fini(&b->scratch);
    stk_scratch_fini(&b->kept);
}

static jpeg_recipe recipe(size_t kind, uint32_t w, uint32_t h)
{
    jpeg_recipe r = { .w = w, .h = h, .comps = kinds[kind].comps, .quality = 85, .rough = 60 };

    memcpy(r.samp, kinds[kind].samp, sizeof r.samp);
    return r;
}

static void describe(const jpeg_recipe *r, const char *what)
{
    fail_msg("%s: %ux%u comps %d factors %dx%d %dx%d %dx%d quality %d restart %d optimize %d", what,
             r->w, r->h, r->comps, r->samp[0][0], r->samp[0][1], r->samp[1][0], r->samp[1][1],
             r->samp[2][0], r->samp[2][1], r->quality, r->restart, r->optimize);
}

/* ---- coefficients ---- */

static int same_coefs(const stk_jpeg_head *h, const int16_t *got, stk_bytes in)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr *all;
    int same = 1;

    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, in.data, in.len);
    jpeg_read_header(&d, TRUE);
    all = jpeg_read_coefficients(&d);
    for (int c = 0; c < d.num_components; c++) {
        jpeg_component_info *k = &d.comp_info[c];
        uint32_t across = stk_jpeg_mcus_x(h) * h->comp[c].h,
                 down = stk_jpeg_mcus_y(h) * h->comp[c].v;

        for (uint32_t y = 0; y < k->height_in_blocks; y++) {
            JBLOCKARRAY row = d.mem->access_virt_barray((j_common_ptr)&d, all[c], y, 1, FALSE);

            for (uint32_t x = 0; x < k->width_in_blocks; x++)
                same &= !memcmp(row[0][x], got + ((size_t)y * across + x) * 64, 128);
        }
        got += (size_t)across * down * 64;
    }
    jpeg_destroy_decompress(&d);
    return same;
}

/* ---- pixels ---- */

static int same_pixels(const stk_pixels *px, const uint8_t *ref, uint32_t w)
{
    const stk_rect *a = &px->area;

    for (uint32_t y = 0; y < a->h; y++)
        for (uint32_t x = 0; x < a->w; x++) {
            const uint8_t *got = px->data + y * px->stride + (size_t)x * 4;
            const uint8_t *want = ref + ((size_t)(a->y + y) * w + a->x + x) * 4;

            if (memcmp(got, want, 3) || got[3] != 255)
                return 0;
        }
    return 1;
}

typedef struct subject { /* a JPEG with all that is known about it */
    const jpeg_recipe *r;
    stk_bytes in;
    uint8_t *rgb;
} subject;

typedef struct band_check {
    const subject *t;
    stk_rect need;
    uint32_t next; /* row that must come */
    int wrong;
} band_check;

static void take_band(void *cookie, const stk_pixels *px)
{
    band_check *c = cookie;

    c->wrong |= px->area.y != c->next || px->area.x != c->need.x || px->area.w != c->need.w ||
                !same_pixels(px, c->t->rgb, c->t->r->w);
    c->next += px->area.h;
    memset(px->data, 0xEE, px->stride * px->area.h);
}

/* The same pixels in bands, in order, without a gap. */
static void check_bands(bench *b, const subject *t, stk_rect need)
{
    for (size_t i = 0; i < LEVELS; i++) {
        band_check c = { t, need, need.y, 0 };
        stk_decode_request ask = { .need = need, .band = take_band, .cookie = &c };
        stk_jpeg_job job = { .head = &b->head, .in = t->in };
        stk_pixels px;

        if (!b->j[i])
            continue;
        stk_scratch_reset(&b->scratch);
        if (stk_jpeg_decode(b->j[i], &job, &ask, &b->scratch, &px, &b->err) < 0)
            describe(t->r, b->err.message);
        if (c.wrong || c.next != need.y + need.h)
            describe(t->r, "bands differ");
        assert_null(px.data);
        assert_memory_equal(&px.area, &need, sizeof need);
    }
}

static void check_region(bench *b, const subject *t, stk_rect need)
{
    check_bands(b, t, need);
    for (size_t i = 0; i < LEVELS; i++)
        for (int way = 0; b->j[i] && way < 2; way++) {
            stk_jpeg_job job = { .head = way & 1 ? &b->head2 : &b->head,
                                 .in = t->in,
                                 .seek = way & 1 ? &b->seek : NULL };
            stk_pixels px;
            int rc;

            stk_scratch_reset(&b->scratch);
            rc = stk_jpeg_decode(b->j[i], &job, &(stk_decode_request){ .need = need }, &b->scratch,
                                 &px, &b->err);
            if (rc < 0)
                describe(t->r, b->err.message);
            if (!same_pixels(&px, t->rgb, t->r->w)) {
                print_error("level %d way %d region %ux%u at (%u, %u)\n", (int)levels[i], way,
                            need.w, need.h, need.x, need.y);
                describe(t->r, "pixels differ");
            }
        }
}

static stk_rect random_rect(stk_rng *rng, uint32_t w, uint32_t h)
{
    stk_rect n = { stk_rng_below(rng, w), stk_rng_below(rng, h), 0, 0 };

    n.w = 1 + stk_rng_below(rng, w - n.x);
    n.h = 1 + stk_rng_below(rng, h - n.y);
    return n;
}

static void open_subject(bench *b, subject *t, const jpeg_recipe *r)
{
    long warnings;
    stk_bytes packed;

    *t = (subject){ .r = r, .in = jpeg_make(r) };
    t->rgb = jpeg_reference(t->in, &warnings);
    assert_non_null(t->rgb);
    if (stk_jpeg_parse(&b->head, t->in, &b->err) < 0)
        describe(r, b->err.message);
    stk_scratch_reset(&b->kept);
    assert_int_equal(stk_jpeg_seek_build(b->j[0], &b->head, t->in, &b->kept, &packed, &b->err), 0);
    if (stk_jpeg_seek_open(&b->seek, &b->head2, packed, &b->err) < 0)
        describe(r, b->err.message);
    assert_int_equal(stk_jpeg_seek_check(&b->seek, &b->head2, t->in, &b->err), 0);
}

static void close_subject(subject *t)
{
    free(t->rgb);
    free((void *)t->in.data);
}

static void check_recipe(bench *b, const jpeg_recipe *r, int crops)
{
    subject t;

    open_subject(b, &t, r);
    for (size_t i = 0; i < LEVELS; i++)
        for (int way = 0; b->j[i] && way < 2; way++) {
            stk_jpeg_job job = { &b->head, t.in, way ? &b->seek : NULL };
            int16_t *coefs;

            stk_scratch_reset(&b->scratch);
            if (stk_jpeg_coefs(b->j[i], &job, &b->scratch, &coefs, &b->err) < 0)
                describe(r, b->err.message);
            if (!same_coefs(&b->head, coefs, t.in))
                describe(r, "coefficients differ");
        }
    check_region(b, &t, (stk_rect){ 0, 0, r->w, r->h });
    for (int i = 0; i < crops; i++)
        check_region(b, &t, random_rect(&b->rng, r->w, r->h));
    close_subject(&t);
}

/* ---- tests ---- */

static void every_factor_and_size(void **state)
{
    static const uint32_t sizes[][2] = {
        { 1, 1 },  { 2, 2 },   { 3, 5 },   { 8, 8 },  { 17, 3 },
        { 9, 40 }, { 33, 31 }, { 64, 64 }, { 5, 64 }, { 131, 35 }
    };
    bench b;

    (void)state;
    print_message("seed %u\n", SEED);
    bench_open(&b, 1);
    for (size_t k = 0; k < KINDS; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            jpeg_recipe r = recipe(k, sizes[s][0], sizes[s][1]);

            r.optimize = s & 1;
            r.restart = s % 3 ? 0 : (int)s % 5 + 1;
            check_recipe(&b, &r, 12);
        }
    bench_close(&b);
}

static void random_sizes(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 2);
    for (int i = 0; i < 250; i++) {
        jpeg_recipe r = recipe(stk_rng_below(&b.rng, KINDS), 1 + stk_rng_below(&b.rng, 64),
                               1 + stk_rng_below(&b.rng, 64));

        r.quality = 1 + (int)stk_rng_below(&b.rng, 100);
        r.restart = (int)stk_rng_below(&b.rng, 2) * (int)stk_rng_below(&b.rng, 9);
        r.optimize = (int)stk_rng_below(&b.rng, 2);
        r.rough = (int)stk_rng_below(&b.rng, 3) * 120;
        check_recipe(&b, &r, 4);
    }
    bench_close(&b);
}

static void every_quality(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 3);
    for (int q = 1; q <= 100; q++) {
        jpeg_recipe r = recipe(q % 2 ? 2 : 4, 50, 41);

        r.quality = q;
        r.optimize = q % 3 == 0;
        r.rough = q % 4 * 80;
        check_recipe(&b, &r, 3);
    }
    bench_close(&b);
}

static void every_restart_interval(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 4);
    for (int n = 1; n <= 40; n++)
        for (size_t k = 0; k < 5; k += 2) {
            jpeg_recipe r = recipe(k, 150, 70);

            r.restart = n;
            check_recipe(&b, &r, 5);
        }
    bench_close(&b);
}

static void thousands_of_crops(void **state)
{
    static const size_t some[] = { 0, 2, 3, 4, 5 };
    bench b;

    (void)state;
    bench_open(&b, 5);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        jpeg_recipe r = recipe(some[i], 397, 211);

        r.optimize = 1;
        check_recipe(&b, &r, TEST_SHARE(250, 80));
    }
    bench_close(&b);
}

/* ---- what the header gives to a GPU ---- */

typedef struct core {
    uint32_t dc_fast[3][1 << 9], ac_fast[3][1 << 10];
    stk_jpeg_long more[2][3];
    stk_jpeg_lut dc[3], ac[3];
    uint16_t map[64];
} core;

static void core_init(core *k, const stk_jpeg_head *h)
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;

    for (int i = 0; i < 64; i++)
        k->map[i] = natural[i];
    for (unsigned c = 0; c < h->n_comps; c++) {
        const stk_jpeg_huff *dc = &h->dc[h->comp[c].dc], *ac = &h->ac[h->comp[c].ac];

        assert_int_equal(stk_jpeg_long_build(&k->more[0][c], dc, 1), 0);
        assert_int_equal(stk_jpeg_long_build(&k->more[1][c], ac, 0), 0);
        stk_jpeg_fast_build(k->dc_fast[c], 9, dc, 1);
        stk_jpeg_fast_build(k->ac_fast[c], 10, ac, 0);
        k->dc[c] = (stk_jpeg_lut){ k->dc_fast[c], &k->more[0][c], dc->vals, 9 };
        k->ac[c] = (stk_jpeg_lut){ k->ac_fast[c], &k->more[1][c], ac->vals, 10 };
    }
}

/* A chunk from its seek point on; the bit after it. */
static uint64_t core_chunk(const bench *b, core *k, const subject *t, uint32_t row, uint32_t chunk,
                           const int16_t *want)
{
    const stk_jpeg_head *h = &b->head;
    const uint8_t *scan = t->in.data + h->scan;
    uint64_t at = stk_jpeg_seek_row(&b->seek, row);
    uint32_t first = chunk * b->seek.chunk, cols = b->seek.cols;
    uint32_t end = first + b->seek.chunk < cols ? first + b->seek.chunk : cols;
    int32_t pred[3], diff = 0;
    stk_jpeg_bits bits;

    for (uint32_t i = 0; i < chunk; i++)
        at += stk_jpeg_seek_len(&b->seek, row, i);
    stk_jpeg_seek_dc(&b->seek, row, chunk / b->seek.dc_step, pred);
    stk_jpeg_bits_init(&bits, scan, t->in.len - h->scan, at);
    for (uint32_t m = first; m < end; m++) {
        const int16_t *plane = want;

        for (unsigned c = 0; c < h->n_comps; c++) {
            uint32_t across = cols * h->comp[c].h;

            for (uint32_t y = 0; y < h->comp[c].v; y++)
                for (uint32_t x = 0; x < h->comp[c].h; x++) {
                    size_t i = (size_t)(row * h->comp[c].v + y) * across + m * h->comp[c].h + x;
                    int16_t block[64] = { 0 };

                    assert_int_equal(stk_jpeg_dc(&bits, &k->dc[c], &diff), 0);
                    assert_true(stk_jpeg_ac(&bits, &k->ac[c], k->map, block) >= 0);
                    pred[c] += diff;
                    block[0] = (int16_t)pred[c];
                    assert_memory_equal(block, plane + i * 64, sizeof block);
                }
            plane += (size_t)across * b->seek.rows * h->comp[c].v * 64;
        }
    }
    return stk_jpeg_bits_at(&bits, scan);
}

static void chunks_stand_alone(void **state)
{
    static core k;
    bench b;

    (void)state;
    bench_open(&b, 6);
    for (size_t kind = 0; kind < KINDS; kind++) {
        jpeg_recipe r = recipe(kind, 160, 50);
        stk_jpeg_job job;
        int16_t *coefs;
        subject t;

        r.optimize = kind & 1;
        r.rough = 200;
        open_subject(&b, &t, &r);
        job = (stk_jpeg_job){ &b.head, t.in, NULL };
        assert_int_equal(stk_jpeg_coefs(b.j[0], &job, &b.scratch, &coefs, &b.err), 0);
        core_init(&k, &b.head);
        for (uint32_t y = 0; y < b.seek.rows; y++)
            for (uint32_t x = 0; x < b.seek.chunks; x += b.seek.dc_step) {
                uint64_t end = core_chunk(&b, &k, &t, y, x, coefs);

                if (x + 1 == b.seek.chunks && y + 1 < b.seek.rows)
                    assert_int_equal(end, stk_jpeg_seek_row(&b.seek, y + 1));
            }
        close_subject(&t);
        stk_scratch_reset(&b.scratch);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_factor_and_size), cmocka_unit_test(random_sizes),
        cmocka_unit_test(every_quality),         cmocka_unit_test(every_restart_interval),
        cmocka_unit_test(thousands_of_crops),    cmocka_unit_test(chunks_stand_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
