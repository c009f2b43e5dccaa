/* SPDX-License-Identifier: Apache-2.0 */
/* turn_test - all eight orientations of a letter, and regions cut before against regions cut
 * after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kern/turn.h"

#define SEED 20250305u

/* The upright picture is
 *     ab
 *     cd
 *     ef
 * and this is how a camera files it, by EXIF's table of what row 0 and column 0 are. */
static const struct {
    const char *filed;
    uint32_t w, h;
} held[9] = {
    [1] = { "abcdef", 2, 3 }, [2] = { "badcfe", 2, 3 }, [3] = { "fedcba", 2, 3 },
    [4] = { "efcdab", 2, 3 }, [5] = { "acebdf", 3, 2 }, [6] = { "bdface", 3, 2 },
    [7] = { "fdbeca", 3, 2 }, [8] = { "ecafdb", 3, 2 },
};

static void letters(void **state)
{
    (void)state;
    for (unsigned turn = 1; turn <= 8; turn++) {
        stk_image_info filed = { held[turn].w, held[turn].h }, up = stk_turn_size(turn, filed);
        uint8_t data[6 * 4];
        stk_pixels px = { data, (size_t)filed.width * 4, { 0, 0, filed.width, filed.height } };
        stk_scratch s = { 0 };
        stk_rect all = { 0, 0, 2, 3 };

        for (int i = 0; i < 6; i++)
            memset(data + 4 * i, held[turn].filed[i], 4);
        assert_int_equal(up.width, 2);
        assert_int_equal(up.height, 3);
        assert_int_equal(stk_turn_pixels(turn, filed, &all, &s, &px, NULL), 0);
        for (uint32_t i = 0; i < 6; i++)
            if (px.data[i / 2 * px.stride + i % 2 * 4] != "abcdef"[i])
                fail_msg("turn %u: pixel %u is %c", turn, i,
                         px.data[i / 2 * px.stride + i % 2 * 4]);
        stk_scratch_fini(&s);
    }
}

static void regions(void **state)
{
    static uint8_t data[40 * 30 * 4];
    stk_image_info filed = { 40, 30 };
    stk_rng rng;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)stk_rng_u32(&rng);
    for (int k = 0; k < 200; k++) {
        unsigned turn = 1 + stk_rng_below(&rng, 8);
        stk_image_info up = stk_turn_size(turn, filed);
        stk_rect all = { 0, 0, up.width, up.height }, cut;
        stk_rect need = { stk_rng_below(&rng, up.width), stk_rng_below(&rng, up.height), 0, 0 };
        stk_pixels whole = { data, 160, { 0, 0, 40, 30 } }, part = whole;
        stk_scratch s = { 0 };

        need.w = 1 + stk_rng_below(&rng, up.width - need.x);
        need.h = 1 + stk_rng_below(&rng, up.height - need.y);
        cut = stk_turn_rect(turn, filed, &need);
        part.area = cut;
        part.data = data + cut.y * 160 + (size_t)cut.x * 4;
        assert_true(cut.x + cut.w <= 40 && cut.y + cut.h <= 30);
        assert_int_equal(stk_turn_pixels(turn, filed, &all, &s, &whole, NULL), 0);
        assert_int_equal(stk_turn_pixels(turn, filed, &need, &s, &part, NULL), 0);
        for (uint32_t y = 0; y < need.h; y++)
            assert_memory_equal(part.data + y * part.stride,
                                whole.data + (need.y + y) * whole.stride + (size_t)need.x * 4,
                                (size_t)need.w * 4);
        stk_scratch_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(letters), cmocka_unit_test(regions) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
