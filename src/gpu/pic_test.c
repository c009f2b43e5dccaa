/* SPDX-License-Identifier: Apache-2.0 */
/* pic_test - pictures as the GPU makes them, on the host: the kernels' own functions give what
 * stk_jpeg_decode() and stk_sample_run() give, bit for bit, and no record makes them read or write
 * where they must not (run with sanitizers). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "gpu/pic.h"
#include "gpu/pic_host_test.h"
#include "kern/sample.h"
#include "tests/codec/jpeg_testing.h"

#define SEED 20260611u
#define VIEWS 12

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
    { 3, { { 2, 4 }, { 1, 1 }, { 1, 1 } } },
    { 3, { { 2, 2 }, { 2, 1 }, { 1, 2 } } },
    { 3, { { 2, 2 }, { 1, 2 }, { 2, 1 } } },
    { 3, { { 1, 1 }, { 2, 2 }, { 1, 1 } } }, /* luma is the small one */
    { 3, { { 1, 2 }, { 2, 1 }, { 1, 1 } } },
    { 3, { { 3, 1 }, { 1, 1 }, { 3, 1 } } },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const struct {
    stk_dtype dtype;
    stk_pic_dtype as;
    stk_layout layout;
} types[] = {
    { STK_F16, STK_PIC_AS_F16, STK_CHW },   { STK_F16, STK_PIC_AS_F16, STK_HWC },
    { STK_BF16, STK_PIC_AS_BF16, STK_CHW }, { STK_BF16, STK_PIC_AS_BF16, STK_HWC },
    { STK_F32, STK_PIC_AS_F32, STK_CHW },   { STK_F32, STK_PIC_AS_F32, STK_HWC },
    { STK_U8, STK_PIC_AS_U8, STK_CHW },     { STK_U8, STK_PIC_AS_U8, STK_HWC },
};
#define TYPES (sizeof types / sizeof *types)

typedef struct bench {
    stk_jpeg *j;
    stk_scratch scratch, kept;
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    stk_bytes in;
    stk_error err;
    stk_rng rng;
    uint64_t compared;
    int whole;                           /* pictures go without their seek points */
    int in_part;                         /* only the rows that a view sees were read */
    enum { PARTS, TO_KEEP, CACHED } lie; /* ... or with their whole scan, or without a byte of it */
} bench;

/* A batch: what a slab, its lists and the device's memory are. */
typedef struct batch {
    stk_view view[VIEWS];
    stk_pic_item item[VIEWS];
    uint32_t n, w, h;
    uint8_t *out;  /* of all views ... */
    uint64_t each; /* ... so many bytes of one */
    uint8_t *slab;
    size_t slab_len;
    stk_pic_lists lists;
    stk_pic_launch l;
    uint32_t status[VIEWS];
} batch;

static uint32_t scan_bytes(const bench *b)
{
    return b->seek.scan_len + 2;
}

static uint64_t place_of(const bench *b, uint32_t i) /* of view i's data in the arena */
{
    return 64 + i * stk_pic_up64(scan_bytes(b) + STK_PIC_KEEP_MORE);
}

static void bench_open(bench *b, uint64_t stream)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(stk_jpeg_open(&b->j, stk_cpu_level(), &b->err), 0);
    stk_rng_init(&b->rng, SEED, stream, 0, 0, 0);
}

static void bench_close(bench *b)
{
    print_message("%llu outputs compared\n", (unsigned long long)b->compared);
    stk_jpeg_close(&b->j);
    stk_scratch_fini(&b->scratch);
    stk_scratch_fini(&b->kept);
}

static jpeg_recipe recipe(size_t kind, uint32_t w, uint32_t h)
{
    jpeg_recipe r = { .w = w, .h = h, .comps = kinds[kind].comps, .quality = 90, .rough = 90 };

    memcpy(r.samp, kinds[kind].samp, sizeof r.samp);
    return r;
}

static void open_picture(bench *b, const jpeg_recipe *r)
{
    stk_jpeg_head head;
    stk_bytes packed;

    b->in = jpeg_make(r);
    assert_int_equal(stk_jpeg_parse(&head, b->in, &b->err), 0);
    stk_scratch_reset(&b->kept);
    assert_int_equal(stk_jpeg_seek_build(b->j, &head, b->in, &b->kept, &packed, &b->err), 0);
    assert_int_equal(stk_jpeg_seek_open(&b->seek, &b->head, packed, &b->err), 0);
}

static void close_picture(bench *b)
{
    free((void *)b->in.data);
}

/* ---- views ---- */

static uint32_t below(bench *b, uint32_t n)
{
    return stk_rng_below(&b->rng, n);
}

/* A view of `w` x `h`: a part resized as random_resized_crop does it, all of it resized and cut, or
 * a window that hangs over the edge; mirrored at times. */
static stk_view random_view(bench *b, uint32_t w, uint32_t h)
{
    stk_view v;
    uint32_t cw = 1 + below(b, b->head.width), ch = 1 + below(b, b->head.height);

    stk_view_init(&v, b->head.width, b->head.height);
    switch (below(b, 4)) {
    case 0:
    case 1:
        stk_view_crop(&v, (int32_t)below(b, b->head.width - cw + 1),
                      (int32_t)below(b, b->head.height - ch + 1), cw, ch);
        stk_view_resize(&v, w, h);
        break;
    case 2:
        stk_view_resize(&v, w + below(b, 40), h + below(b, 40));
        stk_view_crop(&v, (int32_t)below(b, 40) - 20, (int32_t)below(b, 40) - 20, w, h);
        break;
    default:
        stk_view_crop(&v, (int32_t)below(b, b->head.width + 60) - 60,
                      (int32_t)below(b, b->head.height + 60) - 60, w, h);
    }
    if (below(b, 2))
        stk_view_mirror(&v);
    v.flip_y = below(b, 5) == 0;
    if (below(b, 2) && v.clip.w / v.res_w < 80 && v.clip.h / v.res_h < 80) { /* what a GPU takes */
        v.filter = (uint8_t)below(b, 4);
        if ((v.filter == STK_BILINEAR || v.filter == STK_BICUBIC) && below(b, 2))
            v.filter |= STK_FILTER_SHARP;
        else if (v.filter != STK_NEAREST && below(b, 2))
            v.filter |= v.filter == STK_LANCZOS || below(b, 2) ? STK_FILTER_PILLOW
                                                               : STK_FILTER_TORCH;
        if (stk_sample_down_first(&v)) /* that takes a program: tests/gpu/host */
            v.filter &= (uint8_t)~STK_FILTER_PILLOW;
        for (int c = 0; c < 3; c++)
            v.fill[c] = (uint8_t)below(b, 256);
    }
    return v;
}

/* ---- a batch ---- */

/* An arena as large as need be, so that sanitizers see one byte beyond. */
static void arena_open(bench *b, batch *t)
{
    if (b->lie == PARTS)
        return;
    t->l.arena_len = place_of(b, t->n);
    t->l.arena = aligned_alloc(64, t->l.arena_len);
    memset(t->l.arena, 0x5A, t->l.arena_len);
    for (uint32_t i = 0; i < t->n && b->lie == CACHED; i++)
        memcpy(t->l.arena + place_of(b, i), b->in.data + b->head.scan, scan_bytes(b));
}

static int size_of(bench *b, stk_pic_gather *g, const stk_jpeg_job *job, batch *t, uint32_t i)
{
    stk_pic_ask ask = { .view = &t->view[i],
                        .all = b->lie == TO_KEEP,
                        .gpu_cached = b->lie == CACHED ? place_of(b, i) : 0 };

    if (b->lie == TO_KEEP)
        t->item[i].keep = place_of(b, i);
    return stk_pic_jpeg_ask(g, job, &ask, &b->scratch, &b->err);
}

/* The bytes of the rows that a view sees, as a store sends them: sanitizers see one byte beyond.
 * What sees nothing has the file. */
static uint8_t *take_part(const bench *b, const stk_view *v, stk_jpeg_job *job)
{
    uint64_t from, to;
    uint32_t y0, y1;
    stk_rect need;
    uint8_t *part;

    stk_sample_need(v, &need);
    if (!need.w || !need.h)
        return NULL;
    stk_jpeg_rows(&b->head, &need, &y0, &y1);
    stk_jpeg_seek_bytes(&b->seek, y0, y1, &from, &to);
    part = malloc((size_t)(to - from));
    memcpy(part, b->in.data + b->head.scan + from, (size_t)(to - from));
    job->in = (stk_bytes){ part, (size_t)(to - from) };
    job->at = b->head.scan + (uint32_t)from;
    return part;
}

static void batch_open(bench *b, batch *t, uint32_t w, uint32_t h, size_t type)
{
    stk_pic_gather g;
    size_t room = 1 << 16;

    memset(t, 0, sizeof *t);
    t->w = w;
    t->h = h;
    t->n = VIEWS;
    t->slab = aligned_alloc(64, room);
    arena_open(b, t);
    for (uint32_t i = 0; i < t->n; i++) {
        stk_jpeg_job job = { .head = &b->head, .in = b->in };
        uint8_t *part;

        job.seek = b->whole && b->lie == PARTS ? NULL : &b->seek;
        t->view[i] = random_view(b, w, h);
        part = b->in_part ? take_part(b, &t->view[i], &job) : NULL;
        stk_scratch_reset(&b->scratch);
        if (size_of(b, &g, &job, t, i) < 0)
            fail_msg("%s", b->err.message);
        if (t->slab_len + g.rec.size > room) {
            uint8_t *old = t->slab;

            room = 2 * (t->slab_len + g.rec.size);
            t->slab = aligned_alloc(64, (room + 63) & ~(size_t)63);
            memcpy(t->slab, old, t->slab_len);
            free(old);
        }
        stk_pic_gather_write(t->slab + t->slab_len, &g);
        free(part);
        t->item[i].share = stk_pic_share_of((const stk_pic *)(void *)(t->slab + t->slab_len));
        t->item[i].at = t->slab_len;
        t->slab_len += g.rec.size;
    }
    t->l.dtype = types[type].as;
    t->l.packed = types[type].layout != STK_CHW;
    for (int c = 0; c < 3; c++) {
        t->l.mul[c] = type == 6 ? 1 : 0.0171f + 0.001f * (float)c;
        t->l.add[c] = type == 6 ? 0 : -2.1f + 0.3f * (float)c;
        if (type == 7)
            t->l.mul[c] = 0.5f, t->l.add[c] = 100;
    }
    t->each = (uint64_t)w * h * 3 * stk_dtype_size(types[type].dtype);
}

/* Exactly as much memory as the plan says, so that sanitizers see one byte beyond. */
static void batch_plan(batch *t)
{
    t->out = aligned_alloc(64, (t->n * t->each + 63) & ~(size_t)63);
    for (uint32_t i = 0; i < t->n; i++) { /* in another order than the records */
        t->item[i].out = t->out + (t->n - 1 - i) * t->each;
        t->item[i].out_bytes = t->each;
    }
    t->lists.room = stk_pic_lists_bytes(t->item, t->n);
    t->lists.memory = aligned_alloc(64, (t->lists.room + 63) & ~(size_t)63);
    t->lists.scratch_room = UINT64_MAX;
    assert_int_equal(stk_pic_plan(&t->lists, t->item, t->n), t->n);
    assert_int_equal(t->lists.bytes, t->lists.room);
    stk_pic_launch_lists(&t->l, &t->lists, t->lists.memory);
    t->l.slab = t->slab;
    t->l.slab_len = t->slab_len;
    t->l.scratch = aligned_alloc(64, t->lists.scratch + 64);
    memset(t->l.scratch, 0x5A, t->lists.scratch + 64);
    t->l.status = t->status;
    memset(t->status, 0, sizeof t->status);
}

static void batch_close(batch *t)
{
    free(t->slab);
    free(t->lists.memory);
    free(t->l.scratch);
    free(t->out);
    free(t->l.arena);
}

/* Equal to what the host makes.  0: the host refused, which a damaged file may make it do. */
static int check_view(bench *b, const batch *t, uint32_t i, size_t type)
{
    const uint8_t *got = t->item[i].out;
    stk_pixels px = { 0 };
    stk_jpeg_job job = { .head = &b->head, .in = b->in, .seek = &b->seek };
    stk_sample_job s = { .view = &t->view[i], .pixels = &px };
    stk_rect need;

    s.dtype = types[type].dtype;
    s.layout = types[type].layout;
    memcpy(s.mul, t->l.mul, sizeof s.mul);
    memcpy(s.add, t->l.add, sizeof s.add);
    stk_scratch_reset(&b->scratch);
    stk_sample_need(&t->view[i], &need);
    if (need.w && stk_jpeg_decode(b->j, &job, &(stk_decode_request){ .need = need }, &b->scratch,
                                  &px, &b->err) < 0)
        return 0;
    s.dst = stk_scratch_get(&b->scratch, (size_t)t->each);
    assert_int_equal(stk_sample_run(&stk_kern_c, &s, &b->scratch, &b->err), 0);
    if (t->status[i])
        fail_msg("view %u has status %u", i, t->status[i]);
    for (size_t k = 0; k < t->each; k++)
        if (got[k] != ((const uint8_t *)s.dst)[k])
            fail_msg("view %u of %ux%u from (%u, %u) %ux%u type %zu differs at byte %zu: "
                     "%u, not %u",
                     i, t->w, t->h, need.x, need.y, need.w, need.h, type, k, got[k],
                     ((const uint8_t *)s.dst)[k]);
    b->compared++;
    return 1;
}

static void check_batch(bench *b, uint32_t w, uint32_t h, size_t type)
{
    batch t;

    batch_open(b, &t, w, h, type);
    batch_plan(&t);
    host_run(&t.l);
    for (uint32_t i = 0; i < t.n; i++)
        assert_true(check_view(b, &t, i, type));
    batch_close(&t);
}

/* ---- tests ---- */

static void every_kind_and_size(void **state)
{
    static const uint32_t sizes[][2] = { { 1, 1 },   { 2, 2 },   { 3, 5 },  { 17, 3 },  { 9, 40 },
                                         { 33, 31 }, { 64, 64 }, { 5, 64 }, { 131, 35 } };
    bench b;

    (void)state;
    print_message("seed %u\n", SEED);
    bench_open(&b, 1);
    for (size_t k = 0; k < KINDS; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            jpeg_recipe r = recipe(k, sizes[s][0], sizes[s][1]);

            r.optimize = s & 1;
            open_picture(&b, &r);
            check_batch(&b, 1 + below(&b, 40), 1 + below(&b, 40), (k + s) % TYPES);
            close_picture(&b);
        }
    bench_close(&b);
}

/* Files large for their size: seek points are many. */
static void every_type(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 2);
    for (size_t k = 0; k < 5; k++)
        for (size_t type = 0; type < TYPES; type++) {
            jpeg_recipe r = recipe(k, 397, 211);

            r.quality = 97 - (int)type;
            r.rough = 255;
            r.optimize = type & 1;
            open_picture(&b, &r);
            check_batch(&b, type & 2 ? 64 : 61, 48, type);
            close_picture(&b);
        }
    bench_close(&b);
}

static void without_points(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 9);
    b.whole = 1;
    for (size_t k = 0; k < KINDS; k++)
        for (uint32_t i = 0; i < 3; i++) {
            jpeg_recipe r = recipe(k, 1 + below(&b, 300), 1 + below(&b, 200));

            r.optimize = i & 1;
            r.rough = (int)(i * 100);
            open_picture(&b, &r);
            check_batch(&b, 1 + below(&b, 60), 1 + below(&b, 60), (k + i) % TYPES);
            close_picture(&b);
        }
    bench_close(&b);
}

/* Rows that were read by themselves are as good as the file, wherever they end. */
static void of_parts(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 10);
    b.in_part = 1;
    for (size_t k = 0; k < KINDS; k++)
        for (uint32_t i = 0; i < 3; i++) {
            jpeg_recipe r = recipe(k, 1 + below(&b, 300), 1 + below(&b, 400));

            r.optimize = i & 1;
            r.rough = (int)(i * 100);
            open_picture(&b, &r);
            check_batch(&b, 1 + below(&b, 60), 1 + below(&b, 60), (k + i) % TYPES);
            close_picture(&b);
        }
    bench_close(&b);
}

/* Flat ones, where all that is between seek points is one row; wide ones, made in several tiles. */
static void flat_and_wide(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 3);
    for (size_t k = 0; k < 5; k++) {
        jpeg_recipe r = recipe(k, 1900, 40);

        r.rough = k & 1 ? 0 : 40;
        r.quality = 60;
        open_picture(&b, &r);
        check_batch(&b, 30, 30, k);
        check_batch(&b, 1500, 11, k + 1);
        check_batch(&b, 8, 4, k + 2);
        close_picture(&b);
    }
    bench_close(&b);
}

/* With the whole scan, which stays there; and then without a byte of the file. */
static void cached_there(void **state)
{
    bench b;

    (void)state;
    bench_open(&b, 9);
    for (size_t k = 0; k < KINDS; k++) {
        jpeg_recipe r = recipe(k, 40 + below(&b, 200), 30 + below(&b, 120));
        batch t;

        r.rough = k & 1 ? 200 : 20;
        open_picture(&b, &r);
        b.lie = TO_KEEP;
        batch_open(&b, &t, 30, 21, k % TYPES);
        batch_plan(&t);
        host_run(&t.l);
        for (uint32_t i = 0; i < t.n; i++) {
            const stk_pic *rec = (const stk_pic *)(void *)(t.slab + t.item[i].at);

            assert_true(check_view(&b, &t, i, k % TYPES));
            if (rec->need[2])
                assert_memory_equal(t.l.arena + place_of(&b, i), b.in.data + b.head.scan,
                                    scan_bytes(&b));
        }
        batch_close(&t);
        b.lie = CACHED;
        check_batch(&b, 30, 21, (k + 1) % TYPES);
        close_picture(&b);
    }
    bench_close(&b);
}

static void plain_records(void **state)
{
    enum { W = 13, H = 37, LEN = W * H * 3 };
    _Alignas(64) static uint8_t slab[8192];
    stk_pic_item item[2];
    uint32_t status[2] = { 0, 0 };
    uint8_t lists[1024], scratch[1024], out[2 * LEN], *px[2];
    stk_pic_lists p = { .memory = lists, .room = sizeof lists, .scratch_room = sizeof scratch };
    stk_pic_launch l = {
        .slab = slab, .scratch = scratch, .status = status, .packed = 1, .mul = { 1, 1, 1 }
    };

    (void)state;
    l.slab_len = 2 * stk_pic_plain_size(LEN);
    assert_true(l.slab_len <= sizeof slab);
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *to = slab + i * stk_pic_plain_size(LEN);

        px[i] = stk_pic_plain_write(to, i ? STK_PIC_READY : STK_PIC_U8, W, H, LEN);
        for (size_t k = 0; k < LEN; k++)
            px[i][k] = (uint8_t)(k * 7 + i);
        item[i] = (stk_pic_item){ .share = stk_pic_share_of((const stk_pic *)(void *)to),
                                  .at = (uint64_t)(to - slab),
                                  .out = out + i * LEN,
                                  .out_bytes = LEN };
    }
    assert_int_equal(stk_pic_plan(&p, item, 2), 2);
    stk_pic_launch_lists(&l, &p, lists);
    host_run(&l);
    assert_int_equal(status[0] | status[1], 0);
    assert_memory_equal(out, px[0], LEN);
    assert_memory_equal(out + LEN, px[1], LEN);
}

/* A program's sorts of steps, as letters, in an item that takes `blocks` of threads a step. */
static stk_pic_item stepped(const char *sorts, uint32_t blocks)
{
    stk_pic_item i = { .share = { .work = { 0, 0, 0, 0, blocks } } };

    for (; *sorts; sorts++, i.share.n_steps++)
        i.share.sorts[strchr("phnfl", *sorts) - "phnfl"] |= UINT64_C(1) << i.share.n_steps;
    return i;
}

/* Every step of every program is in some round, after the steps before it; how many rounds. */
static uint32_t check_rounds(stk_pic_item *item, uint32_t n)
{
    uint32_t done[16] = { 0 };
    stk_pic_lists p = { .room = stk_pic_lists_bytes(item, n), .scratch_room = 4096 };
    const stk_pic_work *w;

    p.memory = aligned_alloc(64, (p.room + 63) & ~(size_t)63);
    assert_int_equal(stk_pic_plan(&p, item, n), n);
    assert_int_equal(p.bytes, p.room);
    w = (const stk_pic_work *)(const void *)((uint8_t *)p.memory + p.tile_at);
    for (uint32_t k = 0; k < p.n_rounds; k++)
        for (uint32_t e = 0, block = 0; e < p.round_n[k]; e++, w++) {
            const stk_pic_share *s = &item[w->job].share;

            assert_int_equal(w->first, block * STK_PIC_TILE_PIXELS + done[w->job]);
            assert_true(s->sorts[p.round_sort[k]] >> done[w->job] & 1);
            block = block + 1 < s->work[4] ? block + 1 : 0;
            done[w->job] += !block;
        }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(done[i], item[i].share.n_steps);
    free(p.memory);
    return p.n_rounds;
}

/* A launch has blocks of threads for those pictures only that have something to do in it; short
 * programs share launches with long ones. */
static void rounds(void **state)
{
    char longest[STK_PIC_MAX_STEPS + 1];
    stk_pic_item item[16] = { stepped("pp", 3), stepped("ppn", 3), stepped("", 0),
                              stepped("n", 3),  stepped("pn", 2),  stepped("p", 1),
                              stepped("ppn", 3) };
    bench b;

    (void)state;
    assert_int_equal(check_rounds(item, 7), 3);
    bench_open(&b, 9);
    for (int turn = 0; turn < 200; turn++) {
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t n = below(&b, turn % 10 ? 5 : STK_PIC_MAX_STEPS + 1), k;

            for (k = 0; k < n; k++)
                longest[k] = "phnfl"[below(&b, 5)];
            longest[k] = 0;
            item[i] = stepped(longest, n ? 1 + below(&b, 3) : 0);
        }
        assert_true(check_rounds(item, 16) <= STK_PIC_MAX_ROUNDS);
    }
    bench_close(&b);
}

/* A plan takes what fits, and the rest can follow. */
static void plans_split(void **state)
{
    jpeg_recipe r = recipe(1, 200, 150);
    uint64_t two;
    bench b;
    batch t;

    (void)state;
    bench_open(&b, 4);
    open_picture(&b, &r);
    batch_open(&b, &t, 32, 32, 0);
    batch_plan(&t);
    two = stk_pic_share_scratch(&t.item[0].share) + stk_pic_share_scratch(&t.item[1].share);
    t.lists.scratch_room = two;
    assert_int_equal(stk_pic_plan(&t.lists, t.item, t.n), 2);
    assert_int_equal(t.lists.scratch, two);
    t.lists.scratch_room = 64;
    assert_int_equal(stk_pic_plan(&t.lists, t.item, t.n), 0);
    t.lists.scratch_room = UINT64_MAX;
    t.lists.room = stk_pic_lists_bytes(t.item, 3);
    assert_int_equal(stk_pic_plan(&t.lists, t.item, t.n), 3);
    batch_close(&t);
    close_picture(&b);
    bench_close(&b);
}

static void refused(void **state)
{
    jpeg_recipe r = recipe(1, 600, 20);
    stk_jpeg_job job;
    stk_pic_gather g;
    stk_view v;
    bench b;

    (void)state;
    bench_open(&b, 5);
    open_picture(&b, &r);
    job = (stk_jpeg_job){ &b.head, b.in, &b.seek };
    stk_view_init(&v, 600, 20);
    stk_view_resize(&v, 2, 2);
    assert_int_equal(stk_pic_jpeg_size(&g, &job, &v, &b.scratch, &b.err), STK_ENOTSUP);
    stk_view_init(&v, 700, 20);
    assert_int_equal(stk_pic_jpeg_size(&g, &job, &v, &b.scratch, &b.err), STK_EINVAL);
    close_picture(&b);
    r.restart = 3;
    open_picture(&b, &r);
    job.in = b.in;
    stk_view_init(&v, 600, 20);
    assert_int_equal(stk_pic_jpeg_size(&g, &job, &v, &b.scratch, &b.err), STK_ENOTSUP);
    close_picture(&b);
    bench_close(&b);
}

/* ---- hostile ---- */

/* Flip bits of the picture's bytes: damage is found, or the host makes the same of it.  What only
 * the host finds is a chunk that ends wrong inside of a unit that ends right. */
static void damaged_scans(void **state)
{
    uint32_t found = 0, missed = 0;
    bench b;

    (void)state;
    bench_open(&b, 6);
    for (int round = 0; round < 120; round++) {
        jpeg_recipe r = recipe(1 + (size_t)round % 4, 150, 90);
        batch t;

        r.rough = 200;
        open_picture(&b, &r);
        for (int i = 0; i < 6; i++) {
            size_t at = b.head.scan + below(&b, (uint32_t)(b.in.len - b.head.scan - 2));

            ((uint8_t *)b.in.data)[at] ^= (uint8_t)(1u << below(&b, 8));
        }
        batch_open(&b, &t, 24, 24, (size_t)round % TYPES);
        batch_plan(&t);
        host_run(&t.l);
        for (uint32_t i = 0; i < t.n; i++) {
            found += t.status[i] != 0;
            missed += !t.status[i] && !check_view(&b, &t, i, (size_t)round % TYPES);
        }
        batch_close(&t);
        close_picture(&b);
    }
    print_message("%u damaged views found, %u only by the host\n", found, missed);
    assert_true(found > 300 && missed * 20 < found);
    bench_close(&b);
}

/* Flip bits of records after the plan's back, and before it. */
static void hostile_records(void **state)
{
    uint32_t found = 0;
    bench b;

    (void)state;
    bench_open(&b, 7);
    for (int round = 0; round < 600; round++) {
        jpeg_recipe r = recipe((size_t)round % KINDS, 1 + below(&b, 120), 1 + below(&b, 90));
        batch t;

        open_picture(&b, &r);
        b.whole = round % 4 > 1;
        b.lie = round / 4 % 3;
        batch_open(&b, &t, 1 + below(&b, 24), 1 + below(&b, 24), (size_t)round % TYPES);
        if (round & 1)
            batch_plan(&t);
        for (uint32_t i = 0; i < t.n; i++) {
            stk_pic *rec = (stk_pic *)(void *)(t.slab + t.item[i].at);
            uint32_t head = below(&b, 2) ? sizeof *rec : rec->data_at;

            for (uint32_t k = below(&b, 4); k < 4; k++)
                t.slab[t.item[i].at + below(&b, head)] ^= (uint8_t)(1u << below(&b, 8));
            if (!(round & 1)) {
                rec->size = rec->size > t.slab_len - t.item[i].at ? 0 : rec->size;
                t.item[i].share = stk_pic_share_of(rec);
                if (stk_pic_share_scratch(&t.item[i].share) > 1 << 24)
                    t.item[i].share = (stk_pic_share){ 0 };
            }
        }
        if (!(round & 1))
            batch_plan(&t);
        host_run(&t.l);
        for (uint32_t i = 0; i < t.n; i++)
            found += t.status[i] != 0;
        batch_close(&t);
        close_picture(&b);
    }
    print_message("%u hostile records found\n", found);
    assert_true(found > 1000);
    bench_close(&b);
}

/* Hostile seek points: an error, or a record that is whole. */
static void hostile_points(void **state)
{
    bench b;
    uint32_t taken = 0;

    (void)state;
    bench_open(&b, 8);
    for (int round = 0; round < 400; round++) {
        jpeg_recipe r = recipe((size_t)round % 5, 150, 90);
        stk_jpeg_head head;
        stk_bytes packed;
        stk_pic_gather g;
        stk_view v;
        uint8_t *to;

        open_picture(&b, &r);
        stk_scratch_reset(&b.kept);
        assert_int_equal(stk_jpeg_parse(&head, b.in, &b.err), 0);
        assert_int_equal(stk_jpeg_seek_build(b.j, &head, b.in, &b.kept, &packed, &b.err), 0);
        for (int i = 0; i < 3; i++)
            ((uint8_t *)packed.data)[below(&b, (uint32_t)packed.len)] ^= (uint8_t)(1u
                                                                                   << below(&b, 8));
        v = random_view(&b, 20, 20);
        if (stk_jpeg_seek_open(&b.seek, &head, packed, &b.err) == 0) {
            stk_jpeg_job job = { &head, b.in, &b.seek };

            stk_scratch_reset(&b.scratch);
            if (stk_pic_jpeg_size(&g, &job, &v, &b.scratch, &b.err) == 0) {
                assert_true(g.rec.size < b.in.len + 8192 + g.rec.n_units * sizeof(stk_pic_unit));
                to = aligned_alloc(64, g.rec.size);
                stk_pic_gather_write(to, &g);
                assert_true(stk_pic_sound((const stk_pic *)(void *)to, g.rec.size));
                free(to);
                taken++;
            }
        }
        close_picture(&b);
    }
    print_message("%u of 400 taken\n", taken);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_size),
        cmocka_unit_test(every_type),
        cmocka_unit_test(without_points),
        cmocka_unit_test(of_parts),
        cmocka_unit_test(flat_and_wide),
        cmocka_unit_test(cached_there),
        cmocka_unit_test(plain_records),
        cmocka_unit_test(plans_split),
        cmocka_unit_test(rounds),
        cmocka_unit_test(refused),
        cmocka_unit_test(damaged_scans),
        cmocka_unit_test(hostile_records),
        cmocka_unit_test(hostile_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
