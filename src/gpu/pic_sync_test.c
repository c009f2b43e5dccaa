/* SPDX-License-Identifier: Apache-2.0 */
/* pic_sync_test - the units that many threads find are where one that goes through the scan from
 * its begin finds MCUs; the block of threads is a loop here, its threads in several orders.
 * Damaged scans and hostile records end with a status, inside of their memory.
 *
 * With PHOTOS=FOLDER it prints what the files there take: rounds, and cells walked over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>

static unsigned order; /* of the threads */
#define STK_SYNC_ORDER(i) ((i) ^ (order & 255))

#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "cuda/pic_points.h"
#include "tests/codec/jpeg_testing.h"
#include "tests/gpu/host/pic_testing.h"

#define SEED 20250611u

static const struct {
    int comps, samp[3][2];
} kinds[] = {
    { 1, { { 1, 1 } } },
    { 3, { { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 1, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 4, 1 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 1, 4 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 4, 2 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 2 }, { 2, 1 }, { 1, 2 } } },
    { 3, { { 1, 1 }, { 2, 2 }, { 1, 1 } } },
    { 3, { { 3, 1 }, { 1, 1 }, { 3, 1 } } },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static jpeg_recipe recipe(size_t kind, uint32_t w, uint32_t h)
{
    jpeg_recipe r = { .w = w, .h = h, .comps = kinds[kind].comps, .quality = 85, .rough = 60 };

    memcpy(r.samp, kinds[kind].samp, sizeof r.samp);
    return r;
}

/* ---- a picture as a worker would leave it ---- */

typedef struct picture {
    stk_jpeg_head head;
    uint8_t *slab; /* one record; memory ends where it must not be read */
    uint64_t len;
    stk_pic *pic;
    stk_pic_unit *unit;
    stk_pic_job job;
    uint32_t status;
} picture;

static void picture_open(picture *t, stk_bytes in)
{
    void *mem = NULL;

    memset(t, 0, sizeof *t);
    assert_int_equal(stk_jpeg_parse(&t->head, in, NULL), 0);
    t->len = pic_whole_size(&t->head, in);
    assert_int_equal(posix_memalign(&mem, STK_PIC_ALIGN, t->len), 0);
    t->slab = mem;
    t->pic = mem;
    assert_int_equal(pic_put_whole(t->slab, &t->head, in), 0);
    memset(t->slab + t->len - 16, 0xA5, 16);
    t->job.n_units = (t->pic->data_len * 8 + STK_PIC_SUBSEQ - 1) / STK_PIC_SUBSEQ;
    t->unit = malloc((t->job.n_units + 1) * sizeof *t->unit);
    assert_non_null(t->unit);
}

static void picture_close(picture *t)
{
    free(t->slab);
    free(t->unit);
}

static const stk_sync *run(picture *t, int whole)
{
    static stk_sync s;
    stk_sync_task k = { .slab = t->slab,
                        .slab_len = t->len,
                        .scratch = (uint8_t *)t->unit,
                        .job = &t->job,
                        .status = &t->status,
                        .whole = (uint32_t)whole };

    t->status = 0;
    memset(&s, 0xEE, sizeof s);
    memset(t->unit, 0xEE, (t->job.n_units + 1) * sizeof *t->unit);
    stk_sync_picture(&s, &k);
    return &s;
}

/* ---- one decoder from the begin ---- */

typedef struct truth {
    uint64_t *at; /* of every MCU, and of the end */
    int32_t (*dc)[3];
    uint32_t n; /* MCUs that are whole */
    int ok;     /* all are, and the end marker follows */
} truth;

typedef struct luts {
    uint32_t dc_fast[3][1 << 9], ac_fast[3][1 << 10];
    stk_jpeg_long more[2][3];
    stk_jpeg_lut dc[3], ac[3];
} luts;

static int build_luts(luts *k, const picture *t)
{
    for (unsigned c = 0; c < t->pic->n_comps; c++) {
        const stk_jpeg_huff *dc = stk_sync_huff(t->pic, 0, t->pic->tables.dc[c]);
        const stk_jpeg_huff *ac = stk_sync_huff(t->pic, 1, t->pic->tables.ac[c]);

        if (stk_jpeg_long_build(&k->more[0][c], dc, 1) ||
            stk_jpeg_long_build(&k->more[1][c], ac, 0))
            return -1;
        stk_jpeg_fast_build(k->dc_fast[c], 9, dc, 1);
        stk_jpeg_fast_build(k->ac_fast[c], 10, ac, 0);
        k->dc[c] = (stk_jpeg_lut){ k->dc_fast[c], &k->more[0][c], dc->vals, 9 };
        k->ac[c] = (stk_jpeg_lut){ k->ac_fast[c], &k->more[1][c], ac->vals, 10 };
    }
    return 0;
}

static int one_mcu(const picture *t, const luts *k, stk_jpeg_bits *b, int32_t dc[3])
{
    for (unsigned c = 0; c < t->pic->n_comps; c++)
        for (int i = 0; i < t->pic->h[c] * t->pic->v[c]; i++) {
            int32_t diff = 0;

            if (stk_jpeg_dc(b, &k->dc[c], &diff) || stk_jpeg_ac(b, &k->ac[c], NULL, NULL) < 0)
                return -1;
            dc[c] += diff;
        }
    return 0;
}

static void truth_open(truth *u, const picture *t)
{
    const uint8_t *d = t->slab + t->pic->data_at;
    uint32_t n = t->pic->cols * t->pic->rows, len = t->pic->data_len;
    int32_t dc[3] = { 0 };
    static luts k;
    stk_jpeg_bits b;
    uint64_t at;

    *u = (truth){ malloc((n + 1) * sizeof *u->at), malloc((n + 1) * sizeof *u->dc), 0, 0 };
    assert_int_equal(build_luts(&k, t), 0);
    stk_jpeg_bits_init(&b, d, len, 0);
    for (u->n = 0;; u->n++) {
        at = stk_jpeg_bits_at(&b, d);
        if (at == UINT64_MAX) {
            u->n--;
            return;
        }
        u->at[u->n] = at;
        memcpy(u->dc[u->n], dc, sizeof dc);
        if (u->n == n)
            break;
        if (one_mcu(t, &k, &b, dc) < 0)
            return;
    }
    at = stk_jpeg_marker_at(d, at);
    u->ok = len >= 2 && at <= len - 2 && d[at] == 0xFF && d[at + 1] == 0xD9;
}

static void truth_close(truth *u)
{
    free(u->at);
    free(u->dc);
}

/* Whether the view x0, y0, x1, y1 sees any of these MCUs. */
static int seen(const picture *t, const uint32_t *view, uint32_t first, uint32_t count)
{
    uint32_t cols = t->pic->cols;

    for (uint32_t m = first; m < first + count; m++)
        if (m % cols >= view[0] && m % cols < view[2] && m / cols >= view[1] && m / cols < view[3])
            return 1;
    return 0;
}

/* Are units what they must be for a view? */
static void check_units(const picture *t, const truth *u, const uint32_t *view)
{
    uint32_t cols = t->pic->cols, m = 0, total = cols * t->pic->rows, kept = 0;

    for (uint32_t i = 0; i < t->job.n_units; i++) {
        const stk_pic_unit *k = &t->unit[kept];
        uint32_t first = m, count;

        while (m < total && m <= u->n && u->at[m] < (uint64_t)(i + 1) * STK_PIC_SUBSEQ)
            m++;
        count = m - first;
        if (!seen(t, view, first, count) && (count <= cols || k->mcu != first))
            continue; /* of units of several rows some may be left that no one sees */
        kept++;
        assert_int_equal(k->count, count);
        assert_int_equal(k->at, u->at[first]);
        assert_int_equal(k->mcu, first);
        assert_int_equal(k->bits, 0);
        for (unsigned c = 0; c < t->pic->n_comps; c++)
            assert_int_equal(k->dc[c], (int16_t)u->dc[first][c]);
    }
    for (; kept < t->job.n_units; kept++)
        assert_int_equal(t->unit[kept].count, 0);
    assert_int_equal(t->unit[t->job.n_units].at, 0xEEEEEEEE);
}

static void draw_view(picture *t, stk_rng *rng)
{
    stk_pic *p = t->pic;

    p->x0 = stk_rng_below(rng, p->cols);
    p->y0 = stk_rng_below(rng, p->rows);
    p->x1 = p->x0 + 1 + stk_rng_below(rng, p->cols - p->x0);
    p->y1 = p->y0 + 1 + stk_rng_below(rng, p->rows - p->y0);
}

/* All of it, and some views. */
static void check_picture(picture *t, stk_rng *rng)
{
    uint32_t all[4] = { 0, 0, t->pic->cols, t->pic->rows };
    truth u;

    truth_open(&u, t);
    assert_true(u.ok);
    for (int i = 0; i < 4; i++) {
        if (i)
            draw_view(t, rng);
        order = stk_rng_u32(rng);
        run(t, 0);
        if (t->status)
            fail_msg("status %u: %ux%u, %u comps, rows %u to %u of %u", t->status, t->pic->width,
                     t->pic->height, t->pic->n_comps, t->pic->y0, t->pic->y1, t->pic->rows);
        check_units(t, &u, (uint32_t[]){ t->pic->x0, t->pic->y0, t->pic->x1, t->pic->y1 });
        run(t, 1);
        assert_int_equal(t->status, 0);
        check_units(t, &u, all);
    }
    truth_close(&u);
}

static void check_recipe(const jpeg_recipe *r, stk_rng *rng)
{
    stk_bytes in = jpeg_make(r);
    picture t;

    picture_open(&t, in);
    check_picture(&t, rng);
    picture_close(&t);
    free((void *)in.data);
}

/* ---- tests ---- */

static void every_factor_and_size(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 },   { 8, 8 },   { 17, 3 },   { 9, 40 },
                                         { 64, 64 }, { 5, 200 }, { 131, 35 }, { 397, 211 } };
    stk_rng rng;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            jpeg_recipe r = recipe(k, sizes[i][0], sizes[i][1]);

            r.optimize = (int)(i + k) & 1;
            r.rough = (int)(i % 3) * 100;
            check_recipe(&r, &rng);
        }
}

static void every_quality(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 2, 0, 0, 0);
    for (int q = 1; q <= 100; q += 3) {
        jpeg_recipe r = recipe((size_t)q % KINDS, 150 + (uint32_t)q, 141);

        r.quality = q;
        r.optimize = q % 2;
        r.rough = q % 4 * 80;
        check_recipe(&r, &rng);
    }
}

/* More cells than a tile has. */
static void several_tiles(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 3, 0, 0, 0);
    for (size_t k = 0; k < 4; k++) {
        jpeg_recipe r = recipe(k, 1000, 800);

        r.quality = 92;
        r.optimize = (int)k & 1;
        r.rough = 90;
        check_recipe(&r, &rng);
    }
}

/* Blocks without an end of their own give nothing to fall into step with: another lane's. */
static void noise_is_refused(void **state)
{
    jpeg_recipe r = recipe(1, 700, 600);
    stk_bytes in;
    picture t;

    (void)state;
    r.quality = 97;
    r.rough = 200;
    r.optimize = 1;
    in = jpeg_make(&r);
    picture_open(&t, in);
    run(&t, 0);
    assert_int_equal(t.status, STK_PIC_BAD_SYNC);
    for (uint32_t i = 0; i < t.job.n_units; i++)
        assert_int_equal(t.unit[i].count, 0);
    picture_close(&t);
    free((void *)in.data);
}

/* One color: blocks of a few bits, the same again and again. */
static void flat_pictures(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 4, 0, 0, 0);
    for (size_t k = 0; k < KINDS; k++) {
        jpeg_recipe r = recipe(k, 500, 400);

        r.quality = 1;
        r.rough = 0;
        r.optimize = (int)k & 1;
        check_recipe(&r, &rng);
    }
}

/* Whatever comes after the end marker, and whatever the padding bits are. */
static void bytes_behind_the_end(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 5, 0, 0, 0);
    for (uint32_t i = 0; i < 60; i++) {
        jpeg_recipe r = recipe(i % KINDS, 60 + i, 70);
        stk_bytes in = jpeg_make(&r);
        uint32_t more = stk_rng_below(&rng, 5) * stk_rng_below(&rng, 900);
        uint8_t *longer = malloc(in.len + more);
        picture t;

        memcpy(longer, in.data, in.len);
        for (uint32_t k = 0; k < more; k++)
            longer[in.len + k] = i & 1 ? (uint8_t)stk_rng_u32(&rng) : 0xFF * (k & 1);
        if (i % 3 == 0 && longer[in.len - 4] != 0xFF)
            longer[in.len - 3] &= (uint8_t)~0 << stk_rng_below(&rng, 2);
        picture_open(&t, (stk_bytes){ longer, in.len + more });
        check_picture(&t, &rng);
        picture_close(&t);
        free(longer);
        free((void *)in.data);
    }
}

/* ---- damage ---- */

/* What sync says must be so; what it can't say must be damaged. */
static int check_damaged(picture *t, stk_rng *rng)
{
    uint32_t rows = t->pic->rows;
    const stk_sync *s;
    truth u;

    truth_open(&u, t);
    order = stk_rng_u32(rng);
    draw_view(t, rng);
    s = run(t, 0);
    if (!t->status) {
        assert_true(u.n >= t->pic->y1 * t->pic->cols);
        assert_true(u.ok || t->pic->y1 < rows);
        check_units(t, &u, (uint32_t[]){ t->pic->x0, t->pic->y0, t->pic->x1, t->pic->y1 });
    } else if (u.ok) {
        assert_true(t->status == STK_PIC_BAD_SYNC && s->rounds > STK_SYNC_ROUNDS);
    }
    truth_close(&u);
    return t->status != 0;
}

static void damaged_scans(void **state)
{
    int refused = 0, taken = 0;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 6, 0, 0, 0);
    for (uint32_t i = 0; i < 3000; i++) {
        static stk_bytes in[KINDS];
        size_t kind = i % KINDS;
        jpeg_recipe r = recipe(kind, 90, 75);
        picture t;

        r.optimize = (int)kind & 1;
        if (!in[kind].data)
            in[kind] = jpeg_make(&r);
        picture_open(&t, in[kind]);
        for (uint32_t k = 0; k < 1 + i % 3; k++) {
            uint8_t *d = t.slab + t.pic->data_at + stk_rng_below(&rng, t.pic->data_len);

            *d = i % 5 ? *d ^ (uint8_t)(1u << stk_rng_below(&rng, 8)) : (uint8_t)(i % 2 * 255);
        }
        if (check_damaged(&t, &rng))
            refused++;
        else
            taken++;
        picture_close(&t);
        if (i + KINDS >= 3000)
            free((void *)in[kind].data);
    }
    print_message("%d refused, %d taken\n", refused, taken);
    assert_true(refused > 300 && taken > 300);
}

static void cut_scans(void **state)
{
    jpeg_recipe r = recipe(3, 60, 50);
    stk_bytes in = jpeg_make(&r);
    stk_jpeg_head h;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 7, 0, 0, 0);
    assert_int_equal(stk_jpeg_parse(&h, in, NULL), 0);
    for (size_t len = h.scan; len < in.len; len++) {
        picture t;

        picture_open(&t, (stk_bytes){ in.data, len });
        (void)check_damaged(&t, &rng);
        run(&t, 1);
        assert_true(t.status == STK_PIC_BAD_SYNC || t.status == STK_PIC_BAD_CODE);
        picture_close(&t);
    }
    free((void *)in.data);
}

/* Scans of one byte or of nothing but noise. */
static void hostile_scans(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 8, 0, 0, 0);
    for (uint32_t i = 0; i < 150; i++) {
        jpeg_recipe r = recipe(i % KINDS, 400, 300);
        static stk_bytes in[KINDS];
        picture t;

        if (!in[i % KINDS].data)
            in[i % KINDS] = jpeg_make(&r);
        picture_open(&t, in[i % KINDS]);
        for (uint32_t k = 0; k < t.pic->data_len; k++)
            t.slab[t.pic->data_at + k] = i < 75 ? (k & 1 ? 0 : (uint8_t)(i * 37))
                                                : (uint8_t)stk_rng_u32(&rng);
        for (uint32_t k = 0; i >= 75 && k < t.pic->data_len; k++)
            if (k && t.slab[t.pic->data_at + k - 1] == 0xFF)
                t.slab[t.pic->data_at + k] = 0;
        (void)check_damaged(&t, &rng);
        picture_close(&t);
        if (i + KINDS >= 150)
            free((void *)in[i % KINDS].data);
    }
}

static void hostile_records(void **state)
{
    uint32_t refused = 0;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 9, 0, 0, 0);
    for (uint32_t i = 0; i < 1500; i++) {
        static stk_bytes in;
        jpeg_recipe r = recipe(3, 90, 75);
        picture t;

        if (!in.data)
            in = jpeg_make(&r);
        picture_open(&t, in);
        for (uint32_t k = 0; k < 1 + i % 4; k++) {
            uint32_t room = (uint32_t)sizeof(stk_pic), v = stk_rng_u32(&rng);

            room += i & 1 ? 0 : 4 * (uint32_t)sizeof(stk_pic_huff);
            t.slab[stk_rng_below(&rng, room)] = (uint8_t)(i % 3 ? v : v & 7);
        }
        run(&t, (int)i & 1);
        refused += t.status != 0;
        picture_close(&t);
        if (i + 1 == 2000)
            free((void *)in.data);
    }
    print_message("%u refused\n", refused);
    assert_true(refused > 200 && refused < 1800);
}

/* ---- seek points ---- */

_Static_assert(sizeof(stk_pic_point) == sizeof(stk_jpeg_point) &&
                   offsetof(stk_pic_point, dc) == offsetof(stk_jpeg_point, dc),
               "the host packs what the device found");

/* Units and points of a picture, in memory that has room for the points and no more. */
static uint8_t *find_points(picture *t, uint32_t chunk, uint32_t room)
{
    size_t units = (t->job.n_units + 1) * sizeof *t->unit, at = (units + 15) & ~(size_t)15;
    uint8_t *scratch = malloc(at + sizeof(stk_pic_found) + room * sizeof(stk_pic_point));
    stk_pic_points where = { .at = at, .chunk = chunk, .room = room };
    stk_sync_task k = { t->slab, t->len, scratch, &t->job, &t->status, 0 };
    static stk_sync s;

    assert_non_null(scratch);
    t->status = 0;
    memset(scratch, 0xEE, at);
    stk_sync_indexed(&s, &k, &where);
    memcpy(t->unit, scratch, units);
    memmove(scratch, scratch + at, sizeof(stk_pic_found) + room * sizeof(stk_pic_point));
    return scratch;
}

/* Units that no one sees have no MCUs, the others are as without points. */
static void check_thinned(picture *t, const stk_pic_unit *all)
{
    uint32_t n = 0;

    run(t, 0);
    for (uint32_t i = 0; i < t->job.n_units; i++)
        if (all[i].count)
            assert_memory_equal(&all[i], &t->unit[n++], sizeof *all);
    assert_true(n == t->job.n_units || !t->unit[n].count);
}

static void check_points(const jpeg_recipe *r, stk_jpeg *j, stk_rng *rng)
{
    stk_bytes in = jpeg_make(r), want;
    stk_scratch scratch = { 0 };
    stk_pic_found *f;
    stk_pic_unit *all;
    uint8_t *found, *packed;
    uint32_t chunk, n;
    picture t;

    picture_open(&t, in);
    draw_view(&t, rng);
    order = stk_rng_u32(rng);
    chunk = stk_jpeg_chunk(&t.head);
    n = stk_jpeg_ceil(t.pic->cols, chunk) * t.pic->rows;
    found = find_points(&t, chunk, n);
    f = (stk_pic_found *)(void *)found;
    assert_int_equal(t.status, 0);
    assert_int_equal(f->n, n);
    packed = malloc(stk_jpeg_seek_room(&t.head));
    n = (uint32_t)stk_jpeg_seek_pack(packed, &t.head, in, t.head.scan + f->scan_len,
                                     (const stk_jpeg_point *)(const void *)(f + 1));
    assert_int_equal(stk_jpeg_seek_build(j, &t.head, in, &scratch, &want, NULL), 0);
    assert_int_equal(n, want.len);
    assert_memory_equal(packed, want.data, n);
    all = malloc(t.job.n_units * sizeof *all);
    memcpy(all, t.unit, t.job.n_units * sizeof *all);
    check_thinned(&t, all);
    free(found);
    n = stk_jpeg_ceil(t.pic->cols, chunk) * t.pic->rows - 1;
    found = find_points(&t, chunk, n); /* no room: no points, but units */
    assert_int_equal(t.status, 0);
    assert_int_equal(((stk_pic_found *)(void *)found)->scan_len, 0);
    free(found);
    free(all);
    free(packed);
    free((void *)in.data);
    stk_scratch_fini(&scratch);
    picture_close(&t);
}

static void points_are_the_builders(void **state)
{
    stk_jpeg *j = NULL;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 10, 0, 0, 0);
    assert_int_equal(stk_jpeg_open(&j, STK_CPU_NONE, NULL), 0);
    for (uint32_t i = 0; i < 6 * KINDS; i++) {
        jpeg_recipe r = recipe(i % KINDS, 20 + i * 5, 1 + i * 3);

        r.optimize = (int)(i / KINDS) & 1;
        r.quality = 50 + (int)i % 45;
        check_points(&r, j, &rng);
    }
    stk_jpeg_close(&j);
}

/* ---- what photos take ---- */

static stk_bytes read_file(const char *folder, const char *name)
{
    char path[4096];
    uint8_t *data;
    FILE *f;
    long len;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (!f)
        return (stk_bytes){ NULL, 0 };
    fseek(f, 0, SEEK_END);
    len = ftell(f);
    rewind(f);
    data = malloc(len > 0 ? (size_t)len : 1);
    if (len <= 0 || fread(data, 1, (size_t)len, f) != (size_t)len)
        len = 0;
    fclose(f);
    return (stk_bytes){ data, (size_t)len };
}

static int measure(const char *folder)
{
    uint64_t cells = 0, walked = 0, rounds = 0, n = 0, refused = 0, tiles = 0;
    uint32_t most = 0;
    DIR *dir = opendir(folder);

    if (!dir)
        return 1;
    for (struct dirent *e; (e = readdir(dir));) {
        stk_bytes in = read_file(folder, e->d_name);
        stk_jpeg_head head;
        const stk_sync *s;
        picture t;

        if (in.len && !stk_jpeg_parse(&head, in, NULL) && !head.restart) {
            picture_open(&t, in);
            s = run(&t, 0);
            if (t.status || s->rounds > 20)
                printf("%s: status %u, %u rounds, %u cells, %ux%u\n", e->d_name, t.status,
                       s->rounds, s->cells, head.width, head.height);
            n++;
            refused += t.status != 0;
            cells += s->cells;
            walked += s->walked;
            rounds += s->rounds;
            tiles += (s->cells + STK_SYNC_TILE - 1) / STK_SYNC_TILE;
            most = s->rounds > most ? s->rounds : most;
            picture_close(&t);
        }
        free((void *)in.data);
    }
    closedir(dir);
    printf("%lu pictures, %lu refused; %.0f cells; walked over %.2f times; rounds a tile: %.1f, "
           "most of a picture %u\n",
           (unsigned long)n, (unsigned long)refused, (double)cells / (double)(n ? n : 1),
           (double)walked / (double)(cells ? cells : 1),
           (double)rounds / (double)(tiles ? tiles : 1), most);
    return 0;
}

int main(void)
{
    if (getenv("PHOTOS"))
        return measure(getenv("PHOTOS"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_factor_and_size),   cmocka_unit_test(every_quality),
        cmocka_unit_test(several_tiles),           cmocka_unit_test(noise_is_refused),
        cmocka_unit_test(flat_pictures),           cmocka_unit_test(bytes_behind_the_end),
        cmocka_unit_test(damaged_scans),           cmocka_unit_test(cut_scans),
        cmocka_unit_test(hostile_scans),           cmocka_unit_test(hostile_records),
        cmocka_unit_test(points_are_the_builders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
