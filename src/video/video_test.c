/* SPDX-License-Identifier: Apache-2.0 */
/* video_test - tables of frames, their points and clips, without a decoder: tables are made in
 * memory, honest ones and such that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "video/clip.h"
#include "video/vdec.h"
#include "video/video.h"

#define SEED 20261117u

/* ---- boxes ---- */

static uint8_t file[1 << 16];
static size_t len;

static void be(uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        file[len++] = i < 8 ? (uint8_t)(v >> (8 * i)) : 0;
}

static size_t box(const char *type)
{
    size_t at = len;

    be(0, 4);
    memcpy(file + len, type, 4);
    len += 4;
    return at;
}

static void end(size_t at)
{
    size_t now = len;

    len = at;
    be(now - at, 4);
    len = now;
}

static void full(const char *type, uint32_t version, const uint32_t *v, size_t n)
{
    size_t at = box(type);

    be(version << 24, 4);
    for (size_t i = 0; i < n; i++)
        be(v[i], 4);
    end(at);
}

typedef struct recipe { /* of a moov; frames of 10 bytes, one chunk at byte 1000 */
    uint32_t n, size;   /* size 0: a table of sizes */
    uint32_t claimed;   /* that stsz says; 0: n */
    int wide;           /* version 1, co64 */
    int64_t edit;       /* media time of an edit; -2: none */
    uint32_t edit_len;
    uint32_t key;  /* every so many-th; 0: no stss */
    uint32_t turn; /* 90 degrees clockwise */
    uint32_t stts; /* frames that stts counts; 0: n */
} recipe;

static void add_heads(const recipe *r)
{
    static const uint32_t identity[9] = { 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000 };
    static const uint32_t right[9] = { 0, 0x10000, 0, (uint32_t)-0x10000, 0, 0, 0, 0, 0x40000000 };
    size_t at = box("tkhd");

    be(r->wide ? 1 << 24 : 0, 4);
    be(0, r->wide ? 16 : 8);
    be(7, 4);
    be(0, r->wide ? 12 : 8);
    be(0, 8), be(0, 8);
    for (int i = 0; i < 9; i++)
        be(r->turn ? right[i] : identity[i], 4);
    end(at);
    if (r->edit != -2) {
        size_t edts = box("edts");
        uint32_t v[4] = { 1, r->edit_len, (uint32_t)r->edit, 0x10000 };

        full("elst", 0, v, 4);
        end(edts);
    }
}

static void add_stbl(const recipe *r)
{
    size_t at = box("stsd"), entry;

    be(0, 4), be(1, 4);
    entry = box("vp09");
    be(0, 8), be(0, 8), be(0, 8);
    be(64, 2), be(48, 2);
    for (int i = 0; i < 50; i++)
        be(0, 1);
    end(entry);
    end(at);
    full("stts", 0, (uint32_t[]){ 1, r->stts ? r->stts : r->n, 512 }, 3);
    full("stsc", 0, (uint32_t[]){ 1, 1, r->n, 1 }, 4);
    at = box("stsz");
    be(0, 4), be(r->size, 4), be(r->claimed ? r->claimed : r->n, 4);
    for (uint32_t i = 0; !r->size && i < r->n; i++)
        be(10, 4);
    end(at);
    if (r->wide) {
        at = box("co64");
        be(0, 4), be(1, 4), be((uint64_t)5 << 32, 8);
        end(at);
    } else {
        full("stco", 0, (uint32_t[]){ 1, 1000 }, 2);
    }
    if (r->key) {
        at = box("stss");
        be(0, 4), be((r->n + r->key - 1) / r->key, 4);
        for (uint32_t i = 0; i < r->n; i += r->key)
            be(i + 1, 4);
        end(at);
    }
}

static stk_bytes mp4(const recipe *r)
{
    size_t moov, trak, mdia, minf, stbl, at;

    len = 0;
    at = box("ftyp");
    be(0, 8);
    end(at);
    moov = box("moov");
    full("mvhd", 0, (uint32_t[]){ 0, 0, 1000, 0 }, 4);
    trak = box("trak");
    add_heads(r);
    mdia = box("mdia");
    at = box("mdhd");
    be(r->wide ? 1 << 24 : 0, 4), be(0, r->wide ? 16 : 8), be(15360, 4), be(0, 8);
    end(at);
    full("hdlr", 0, (uint32_t[]){ 0, 0x76696465, 0, 0, 0, 0 }, 6);
    minf = box("minf");
    stbl = box("stbl");
    add_stbl(r);
    end(stbl), end(minf), end(mdia), end(trak), end(moov);
    return (stk_bytes){ file, len };
}

static int read_mp4(stk_video_track *t, const recipe *r, stk_error *err)
{
    stk_bytes in = mp4(r);
    const stk_media_reader read = stk_media_here(&in);

    return stk_mp4_read(t, &read, err);
}

static void tables_are_read(void **state)
{
    stk_video_track t = { 0 };
    stk_error err = { 0 };

    (void)state;
    assert_int_equal(read_mp4(&t, &(recipe){ .n = 20, .edit = -2, .key = 5, .turn = 1 }, &err), 0);
    assert_int_equal(t.n, 20);
    assert_int_equal(t.number, 7);
    assert_int_equal(t.turn, 6);
    assert_int_equal(t.width, 64);
    assert_int_equal(t.frame[3].at, 1030);
    assert_int_equal(t.frame[3].time, 3 * 512);
    assert_int_equal(t.frame[5].flags, STK_FRAME_KEY);
    assert_int_equal(t.frame[6].flags, 0);
    assert_int_equal(read_mp4(&t, &(recipe){ .n = 20, .edit = -2, .wide = 1 }, &err), 0);
    assert_true(t.frame[2].at == ((uint64_t)5 << 32) + 20);
    assert_int_equal(t.frame[2].flags, STK_FRAME_KEY);
    stk_video_track_fini(&t);
}

static void edits_hide_and_move(void **state)
{
    stk_video_track t = { 0 };
    stk_error err = { 0 };

    (void)state; /* 0.2 s from frame 4 on: frames 4 to 9 */
    assert_int_equal(
        read_mp4(&t, &(recipe){ .n = 20, .edit = 4 * 512, .edit_len = 200, .key = 5 }, &err), 0);
    assert_int_equal(t.shown, 6);
    assert_int_equal(t.show[0], 4);
    assert_int_equal(t.frame[4].time, 0);
    assert_int_equal(t.frame[9].time, 5 * 512);
    assert_true(t.frame[3].flags & STK_FRAME_HIDDEN && t.frame[10].flags & STK_FRAME_HIDDEN);
    stk_video_track_fini(&t);
}

/* A table that claims more than its bytes can hold takes no memory for it. */
static void lies_are_refused(void **state)
{
    static const recipe wrong[] = {
        { .n = 20, .claimed = 1000000000, .edit = -2 },             /* no such table */
        { .n = 20, .size = 1, .claimed = 1000000000, .edit = -2 },  /* no such bytes */
        { .n = 20, .size = 10, .claimed = 0xffffffff, .edit = -2 }, /* likewise */
        { .n = 20, .stts = 3, .edit = -2 },
        { .n = 20, .claimed = 2, .key = 5, .edit = -2 }, /* keyframes that there are not */
    };
    stk_video_track t = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stk_error err = { 0 };
        int rc = read_mp4(&t, &wrong[i], &err);

        assert_true(rc == STK_ECORRUPT || rc == STK_ELIMIT);
        assert_true(err.message[0]);
        assert_true(t.cap <= 4096);
    }
    stk_video_track_fini(&t);
}

/* ---- points ---- */

typedef struct made { /* a track, its points, and the table that they must give */
    stk_video_track t;
    uint8_t *points;
    size_t size;
} made;

/* Groups of pictures of random lengths with B-frames; open ones have frames that are shown before
 * their keyframe; some frames are hidden, times vary, packets have gaps. */
static void make_track(made *m, stk_rng *rng, uint32_t n, int open)
{
    int64_t time = 1000;
    uint64_t at = 48;
    stk_error err;

    stk_video_track_begin(&m->t);
    m->t.field = (uint64_t)1 << 40;
    m->t.codec = STK_VIDEO_VP9;
    m->t.width = 64, m->t.height = 48, m->t.number = 1, m->t.den = 15360, m->t.tracks = 1;
    m->t.last_len = 512;
    for (uint32_t i = 0, left = 0; i < n; i++) {
        stk_video_frame f = { .at = at, .size = 1 + stk_rng_below(rng, 9000) };

        if (!left) {
            left = 1 + stk_rng_below(rng, 40);
            f.flags = STK_FRAME_KEY;
        }
        left--;
        /* P, then two that are shown before it */
        f.time = time + (!open ? 0 : i % 3 ? -512 : 1024);
        time += 512 + (stk_rng_below(rng, 10) ? 0 : stk_rng_below(rng, 700));
        if (!stk_rng_below(rng, 50))
            f.flags |= STK_FRAME_HIDDEN;
        at += f.size + (stk_rng_below(rng, 4) ? 0 : stk_rng_below(rng, 300));
        assert_int_equal(stk_video_track_add(&m->t, &f, &err), 0);
    }
    assert_int_equal(stk_video_track_end(&m->t, &err), 0);
    m->size = stk_video_points_pack(&m->t, 'V', NULL);
    m->points = stk_alloc(m->size);
    assert_int_equal(stk_video_points_pack(&m->t, 'V', m->points), m->size);
}

static void made_free(made *m)
{
    stk_free(m->points);
    stk_video_track_fini(&m->t);
}

static void points_say_what_the_table_says(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    for (uint32_t k = 0; k < 30; k++) {
        uint32_t n = 1 + stk_rng_below(&rng, k < 20 ? 300 : 5000), shown = 0;
        stk_scratch s = { 0 };
        stk_video_unit u;
        stk_video_head h;
        stk_error err;
        made m = { 0 };

        make_track(&m, &rng, n, k & 1);
        const stk_media_points p = { .head = { m.points, m.size } };
        assert_int_equal(stk_video_points_open(&h, &p, &err), 0);
        assert_int_equal(h.n, n);
        assert_int_equal(h.shown, m.t.shown);
        assert_true(n < 200 || m.size <= 8 * (size_t)n); /* the promise */
        for (uint32_t i = 0; i < h.units; i++) {
            stk_scratch_reset(&s);
            assert_int_equal(stk_video_unit_read(&h, i, &s, &u, &err), 0);
            assert_int_equal(u.show, shown);
            for (uint32_t f = 0; f < u.n; f++)
                assert_memory_equal(&u.frame[f], &m.t.frame[u.decode + f], sizeof *u.frame);
            for (uint32_t f = 0; f < u.shown; f++)
                assert_int_equal(u.decode + u.shows[f], m.t.show[shown++]);
        }
        assert_int_equal(shown, h.shown);
        stk_scratch_fini(&s);
        made_free(&m);
    }
}

/* Every run begins at a keyframe that is shown no later than the frames that are wanted of it, has
 * all packets up to them, and ends with a wanted one; ranges hold all packets. */
static void check_clip(const made *m, const stk_video_head *h, const uint64_t *frame, uint32_t n)
{
    const stk_media_ask ask = { .frame = frame, .n_frames = n };
    stk_media_range range[STK_MEDIA_RANGES];
    uint32_t given = 0, ranges;
    stk_scratch s = { 0 };
    int64_t key = 0;
    stk_error err;
    stk_clip c;

    assert_int_equal(stk_clip_plan(h, &ask, 0, &s, &c, &err), 0);
    assert_int_equal(stk_clip_ranges(&c, h, range, &ranges, &err), 0);
    assert_in_range(ranges, 1, STK_MEDIA_RANGES);
    for (uint32_t i = 0; i < c.n; i++) {
        const stk_clip_packet *k = &c.packet[i];
        const stk_video_frame *f = &m->t.frame[k->decode];
        uint32_t inside = 0;

        assert_true(k->at == f->at && k->size == f->size);
        assert_true(k->begins || k->decode == k[-1].decode + 1);
        if (k->begins) {
            assert_true(f->flags & STK_FRAME_KEY || !k->decode);
            assert_true(!i || k[-1].want != STK_NOT_WANTED);
            key = f->time;
        }
        if (k->want != STK_NOT_WANTED) {
            assert_int_equal(m->t.show[frame[k->want]], k->decode);
            assert_true(f->time >= key || c.want[0].start == 0);
            given++;
        }
        for (uint32_t r = 0; r < ranges; r++)
            inside |= k->at >= range[r].offset && k->at + k->size <= range[r].offset + range[r].len;
        assert_true(inside);
    }
    assert_int_equal(given, n);
    stk_scratch_fini(&s);
}

static void clips_have_what_they_need(void **state)
{
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 2, 0, 0, 0);
    for (uint32_t k = 0; k < 20; k++) {
        stk_video_head h;
        stk_error err;
        made m = { 0 };

        make_track(&m, &rng, 50 + stk_rng_below(&rng, 2000), k & 1);
        const stk_media_points p = { .head = { m.points, m.size } };
        assert_int_equal(stk_video_points_open(&h, &p, &err), 0);
        for (uint32_t i = 0; i < 50; i++) {
            uint64_t frame[16], at = stk_rng_below(&rng, h.shown);
            uint32_t n = 0, stride = 1 + stk_rng_below(&rng, i & 1 ? 200 : 3);

            for (; n < 16 && at < h.shown; at += stride)
                frame[n++] = at;
            check_clip(&m, &h, frame, n);
        }
        made_free(&m);
    }
}

static void times_find_frames(void **state)
{
    stk_rng rng;
    made m = { 0 };
    stk_error err;
    stk_video_head h;
    stk_scratch s = { 0 };

    (void)state;
    stk_rng_init(&rng, SEED, 3, 0, 0, 0);
    make_track(&m, &rng, 3000, 1);
    const stk_media_points p = { .head = { m.points, m.size } };
    assert_int_equal(stk_video_points_open(&h, &p, &err), 0);
    for (uint32_t i = 0; i < 500; i++) {
        int64_t time = h.first - 100 + stk_rng_below(&rng, (uint32_t)(h.end - h.first)), exact;
        uint32_t show, want = 0;

        stk_scratch_reset(&s);
        assert_int_equal(stk_video_show_at(&h, time, &s, &show, &exact, &err), 0);
        for (uint32_t k = 0; k < m.t.shown; k++)
            if (m.t.frame[m.t.show[k]].time <= time)
                want = k;
        assert_int_equal(m.t.frame[m.t.show[show]].time, m.t.frame[m.t.show[want]].time);
    }
    stk_scratch_fini(&s);
    made_free(&m);
}

/* Any byte may be another: an error, or some table; never more memory than the points have. */
static void damaged_points_are_harmless(void **state)
{
    stk_rng rng;
    made m = { 0 };

    (void)state;
    stk_rng_init(&rng, SEED, 4, 0, 0, 0);
    make_track(&m, &rng, 400, 1);
    for (uint32_t i = 0; i < 3000; i++) {
        uint8_t *copy = malloc(m.size);
        size_t cut = stk_rng_below(&rng, 4) ? m.size : stk_rng_below(&rng, (uint32_t)m.size);
        stk_media_range range[STK_MEDIA_RANGES];
        uint64_t frame[4];
        stk_media_ask ask = { .frame = frame, .n_frames = 4 };
        stk_media_points p = { .head = { copy, cut } };
        stk_media_info info;
        uint32_t n;

        memcpy(copy, m.points, m.size);
        for (uint32_t k = stk_rng_below(&rng, 4); k; k--)
            copy[stk_rng_below(&rng, stk_rng_below(&rng, 2) ? 200 : (uint32_t)m.size)] = (uint8_t)
                stk_rng_u32(&rng);
        frame[0] = stk_rng_below(&rng, 390);
        for (int k = 1; k < 4; k++)
            frame[k] = frame[k - 1] + 1 + stk_rng_below(&rng, 9);
        (void)stk_decoder_mp4.know(&p, 0, &info, NULL);
        (void)stk_decoder_mp4.ranges(&p, &ask, UINT64_MAX, range, &n, NULL);
        free(copy);
    }
    made_free(&m);
}

/* ---- packets ---- */

static void packets_say_what_they_are(void **state)
{
    static const uint8_t avcc[] = { 1, 66, 0, 10, 0xff, 0xe0, 0 };
    static const uint8_t spare[] = { 0, 0, 0, 2, 0x01, 0x9a }, ref[] = { 0, 0, 0, 2, 0x41, 0x9a };
    static const uint8_t idr[] = { 0, 0, 0, 2, 0x65, 0x88 };
    static const uint8_t both[] = { 0, 0, 0, 2, 0x01, 0x9a, 0, 0, 0, 2, 0x41, 0x9a };
    static const uint8_t torn[] = { 0, 0, 9, 2, 0x01, 0x9a };
    /* a recovery point of 0 frames, then a slice: I, first macroblock 0, type 7 */
    static const uint8_t open_key[] = { 0, 0, 0, 5, 6, 6, 1, 0xc4, 0x80, 0, 0, 0, 2, 0x41, 0x88 };
    static const uint8_t refresh[] = { 0, 0, 0, 5, 6, 6, 1, 0x24, 0x80, 0, 0, 0, 2, 0x41, 0x88 };
    const stk_bytes setup = { avcc, sizeof avcc };
#define IS(what, packet)                                                                           \
    stk_packet_is_##what(STK_VIDEO_H264, setup, (stk_bytes){ packet, sizeof packet })

    (void)state;
    assert_true(IS(spare, spare) && !IS(spare, ref) && !IS(spare, both) && !IS(spare, torn));
    assert_true(IS(start, idr) && !IS(start, ref) && IS(start, open_key) && !IS(start, refresh));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_read),
        cmocka_unit_test(edits_hide_and_move),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(points_say_what_the_table_says),
        cmocka_unit_test(clips_have_what_they_need),
        cmocka_unit_test(times_find_frames),
        cmocka_unit_test(damaged_points_are_harmless),
        cmocka_unit_test(packets_say_what_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
