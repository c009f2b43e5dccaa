/* SPDX-License-Identifier: Apache-2.0 */
/* wav_test - WAVE files that are made here: parts are slices of the whole, with and without points;
 * every truncation is a clean error; points that are damaged are noticed or name bytes that are not
 * there. */
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
#include "codec/sound_points.h"

#define SEED 20261117u
#define N 5000
#define CHANNELS 2

static uint8_t file[44 + N * CHANNELS * 2];
static float want[CHANNELS][N];

static void put(uint8_t *p, uint32_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static stk_bytes make(void)
{
    stk_rng rng;

    memcpy(file, "RIFF....WAVEfmt ", 16);
    put(file + 4, sizeof file - 8, 4);
    put(file + 16, 16, 4);
    put(file + 20, 1, 2);
    put(file + 22, CHANNELS, 2);
    put(file + 24, 8000, 4);
    put(file + 28, 8000 * CHANNELS * 2, 4);
    put(file + 32, CHANNELS * 2, 2);
    put(file + 34, 16, 2);
    memcpy(file + 36, "data", 4);
    put(file + 40, N * CHANNELS * 2, 4);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t c = 0; c < CHANNELS; c++) {
            int16_t v = (int16_t)stk_rng_u32(&rng);

            put(file + 44 + (i * CHANNELS + c) * 2, (uint16_t)v, 2);
            want[c][i] = (float)v / 32768.0f;
        }
    return (stk_bytes){ file, sizeof file };
}

static uint64_t heard; /* samples that came */

static int check(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                 stk_error *err)
{
    const stk_media_ask *ask = cookie;

    (void)err;
    assert_true(first == ask->from + heard && first + n <= ask->to);
    for (uint32_t c = 0; c < CHANNELS; c++)
        assert_memory_equal(channel[c], want[c] + first, n * sizeof(float));
    heard += n;
    return 0;
}

static int decode(void *ctx, const stk_media_points *points, const stk_media_part *part,
                  stk_media_ask *ask)
{
    const stk_media_sink sink = { .cookie = ask, .sound = check };
    const stk_media_job job = {
        .points = points, .ask = ask, .part = part, .n_parts = 1, .sink = &sink
    };
    stk_error err;

    heard = 0;
    return stk_decoder_wav.decode(ctx, &job, &err);
}

static void parts_are_slices(void **state)
{
    stk_bytes in = make(), stored;
    const stk_media_reader read = stk_media_here(&in);
    stk_media_points points = { 0 };
    stk_media_part all = { 0, in };
    stk_scratch scratch = { 0 };
    stk_media_info info;
    stk_error err;
    stk_rng rng;
    void *ctx;

    (void)state;
    assert_int_equal(stk_decoder_wav.open(&ctx, &err), 0);
    assert_int_equal(stk_decoder_wav.header(ctx, in, &points, &info, &err), 0);
    assert_true(info.units == N && info.rate == 8000 && info.channels == CHANNELS);
    assert_int_equal(info.duration_us, 625000);
    assert_int_equal(stk_decoder_wav.points(ctx, &read, &scratch, &stored, &err), 0);
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    for (int i = 0; i < 200; i++) {
        stk_media_ask ask = { .from = stk_rng_below(&rng, N) };
        stk_media_range range[STK_MEDIA_RANGES];
        stk_media_part part;
        uint32_t n;

        ask.to = ask.from + 1 + stk_rng_below(&rng, N - (uint32_t)ask.from);
        points.head = (stk_bytes){ 0 };
        assert_int_equal(stk_decoder_wav.header(ctx, in, &points, &info, &err), 0);
        assert_int_equal(decode(ctx, &points, &all, &ask), 0);
        assert_int_equal(heard, ask.to - ask.from);
        points.head = stored;
        assert_int_equal(stk_decoder_wav.ranges(&points, &ask, UINT64_MAX, range, &n, &err), 0);
        assert_int_equal(n, 1);
        assert_int_equal(range[0].len, (ask.to - ask.from) * CHANNELS * 2);
        part = (stk_media_part){ range[0].offset, { file + range[0].offset, range[0].len } };
        assert_int_equal(decode(ctx, &points, &part, &ask), 0);
        assert_int_equal(heard, ask.to - ask.from);
        part.bytes.len--;
        assert_int_equal(decode(ctx, &points, &part, &ask), STK_ESTALE);
    }
    stk_decoder_wav.close(ctx);
    stk_scratch_fini(&scratch);
}

static void truncation_is_an_error(void **state)
{
    stk_bytes in = make();
    const stk_media_points none = { 0 };
    stk_media_info info;
    stk_error err;
    void *ctx;

    (void)state;
    assert_int_equal(stk_decoder_wav.open(&ctx, &err), 0);
    for (in.len = 0; in.len < sizeof file; in.len += in.len < 60 ? 1 : 97) {
        assert_int_equal(stk_decoder_wav.header(ctx, in, &none, &info, &err), STK_ECORRUPT);
        assert_non_null(strstr(err.message, "WAV is truncated"));
    }
    stk_decoder_wav.close(ctx);
}

/* Any byte of the points: what they name may be outside of the field, which the row looks at; no
 * sum runs over. */
static void damaged_points(void **state)
{
    stk_bytes in = make(), stored;
    const stk_media_reader read = stk_media_here(&in);
    stk_scratch scratch = { 0 };
    stk_error err;
    void *ctx;

    (void)state;
    assert_int_equal(stk_decoder_wav.open(&ctx, &err), 0);
    assert_int_equal(stk_decoder_wav.points(ctx, &read, &scratch, &stored, &err), 0);
    for (size_t i = 0; i < stored.len; i++)
        for (int k = 0; k < 8; k++) {
            const stk_media_points points = { .head = stored };
            const stk_media_ask ask = { .from = 100, .to = 200 };
            stk_media_range range[STK_MEDIA_RANGES];
            uint32_t n = 0;

            ((uint8_t *)(uintptr_t)stored.data)[i] ^= (uint8_t)(1 << k);
            if (stk_decoder_wav.ranges(&points, &ask, UINT64_MAX, range, &n, &err) == 0 && n)
                assert_true(range[0].offset <= UINT64_MAX - range[0].len && range[0].len);
            ((uint8_t *)(uintptr_t)stored.data)[i] ^= (uint8_t)(1 << k);
        }
    stk_decoder_wav.close(ctx);
    stk_scratch_fini(&scratch);
}

/* More marks than there is room for: every other one goes, and what stays ascends. */
static void marks_are_thinned(void **state)
{
    stk_sound_points p = {
        .tag = 'F', .rate = 8000, .channels = 1, .units = 1 << 30, .end = 1 << 30
    };
    stk_scratch scratch = { 0 };
    stk_sound_points back;
    stk_sound_marks m;
    stk_bytes out;

    (void)state;
    assert_int_equal(stk_sound_marks_init(&m, p.rate, &scratch, NULL), 0);
    for (uint64_t i = 0; i < 50000; i++)
        stk_sound_marks_add(&m, i * 4096, 100 + i * 1000);
    assert_int_equal(stk_sound_points_make(&p, &m, &scratch, &out, NULL), 0);
    assert_int_equal(stk_sound_points_open(&back, out, NULL), 0);
    assert_true(back.n_marks > 1000 && out.len < 200000);
    for (uint32_t i = 0; i < back.n_marks; i++) {
        stk_sound_mark mark = stk_sound_points_mark(&back, i);

        assert_int_equal(mark.offset, 100 + mark.sample / 4096 * 1000);
        assert_int_equal(stk_sound_points_find(&back, mark.sample), i);
        assert_int_equal(stk_sound_points_at(&back, mark.offset), i);
        if (i)
            assert_true(mark.sample > stk_sound_points_mark(&back, i - 1).sample);
    }
    stk_scratch_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_slices),
        cmocka_unit_test(truncation_is_an_error),
        cmocka_unit_test(damaged_points),
        cmocka_unit_test(marks_are_thinned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
