/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze_test - frames of every way to pack a shard are unpacked to what went in, whatever its
 * length and content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "compress/squeeze.h"
#include "compress/unpack.h"

#define LARGE ((size_t)5 << 20) /* more than one block of LZ4 */

typedef struct stream {
    stk_text in, out;
    size_t at;
} stream;

static int take(void *cookie, void *dst, size_t room, size_t *got, stk_error *err)
{
    stream *s = cookie;

    (void)err;
    *got = s->in.len - s->at < room ? s->in.len - s->at : room;
    memcpy(dst, s->in.s + s->at, *got);
    s->at += *got;
    return 0;
}

static int give(void *cookie, const void *data, size_t len, stk_error *err)
{
    return len ? stk_text_put(&((stream *)cookie)->out, data, len, err) : 0;
}

static int unpack(const char *name, stream *s, stk_error *err)
{
    stk_unpack_io io = { take, give, s };

    return name[0] == 'g'   ? stk_gunzip_all(&io, err)
           : name[0] == 'z' ? stk_unzstd_all(&io, err)
                            : stk_unlz4_all(&io, err);
}

/* Content of four kinds: equal bytes, few different ones, runs that come again, noise. */
static void fill(uint8_t *p, size_t len, uint64_t seed)
{
    uint32_t v = (uint32_t)seed + 1;

    for (size_t i = 0; i < len; i++) {
        v = v * 1664525u + 1013904223u;

        p[i] = (uint8_t)(seed % 4 == 0                               ? 7
                         : seed % 4 == 1                             ? (v >> 16) % 3
                         : seed % 4 == 2 && i > 40 && (v >> 16) % 50 ? p[i - 37]
                                                                     : v >> 20);
    }
}

static void frames_come_back(void **state)
{
    static const char *const names[] = { "gz", "zstd", "lz4" };
    static const size_t sizes[] = { 1, 4, 5, 12, 13, 14, 17, 64, 268, 512, 4096, 70001, LARGE };
    uint8_t *data = stk_alloc(LARGE);

    (void)state;
    for (int k = 0; k < 3; k++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            stk_framer *f = NULL;
            stream s = { 0 };
            stk_text want = { 0 };
            stk_error err;

            if (stk_squeeze_open(&f, names[k], &err) == STK_ENOTSUP)
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                fill(data, sizes[i], seed);
                assert_int_equal(f->frame(f, (stk_bytes){ data, sizes[i] }, &s.in, &err), 0);
                assert_int_equal(stk_text_put(&want, data, sizes[i], &err), 0);
            }
            assert_int_equal(f->end ? f->end(f, &s.in, &err) : 0, 0);
            f->close(f);
            if (seed < 3)
                assert_true(s.in.len < want.len);
            assert_int_equal(unpack(names[k], &s, &err), 0);
            assert_int_equal(s.out.len, want.len);
            assert_memory_equal(s.out.s, want.s, want.len);
            stk_free(s.in.s);
            stk_free(s.out.s);
            stk_free(want.s);
        }
    stk_free(data);
}

/* One frame of noise, which is stored as it is: cut short anywhere, or with one byte changed. */
static void damage_is_seen(void **state)
{
    static const char *const names[] = { "gz", "zstd", "lz4" };
    uint8_t data[300];

    (void)state;
    fill(data, sizeof data, 3);
    for (int k = 0; k < 3; k++) {
        stk_framer *f = NULL;
        stream s = { 0 };
        stk_error err;
        size_t len;

        if (stk_squeeze_open(&f, names[k], &err) == STK_ENOTSUP)
            continue;
        assert_int_equal(f->frame(f, (stk_bytes){ data, sizeof data }, &s.in, &err), 0);
        f->close(f);
        len = s.in.len;
        for (s.in.len = 0; s.in.len < len; s.in.len++) {
            s.at = s.out.len = 0;
            assert_int_equal(unpack(names[k], &s, &err), STK_ECORRUPT);
            assert_non_null(strstr(err.message, "truncated"));
        }
        for (size_t i = len - 200; i < len - 100; i++) { /* within the bytes that are stored */
            s.at = s.out.len = 0;
            s.in.s[i] ^= 16;
            assert_int_equal(unpack(names[k], &s, &err), STK_ECORRUPT);
            s.in.s[i] ^= 16;
        }
        stk_free(s.in.s);
        stk_free(s.out.s);
    }
}

static void names_say_how(void **state)
{
    stk_framer *f = NULL;
    stk_error err;

    (void)state;
    assert_string_equal(stk_squeeze_of("a/b.tar.gz"), "gz");
    assert_string_equal(stk_squeeze_of("b.tgz"), "gz");
    assert_string_equal(stk_squeeze_of("b.tar.zst"), "zstd");
    assert_string_equal(stk_squeeze_of("b.tar.lz4"), "lz4");
    assert_null(stk_squeeze_of("b.tar"));
    assert_null(stk_squeeze_suffix("xz"));
    assert_int_equal(stk_squeeze_open(&f, "xz", &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "gz, zstd or lz4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(frames_come_back),
                                        cmocka_unit_test(damage_is_seen),
                                        cmocka_unit_test(names_say_how) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
