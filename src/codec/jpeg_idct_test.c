/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct_test - the pixel loops of our JPEG decoder give the same bits at every CPU level: tame
 * and wild coefficients, every width up to four vectors and a bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/jpeg_idct.h"

#define SEED 20240712u
#define WIDTH 67
#define ROOM 256

static const stk_cpu levels[] = { STK_CPU_AVX2, STK_CPU_AVX512 };
#define LEVELS (sizeof levels / sizeof *levels)

/* Coefficients of a group by how much of it is used and how large they are. */
static void random_group(stk_rng *rng, int16_t *group, uint8_t last[4])
{
    static const uint8_t natural[64] = STK_JPEG_ZIGZAG;
    static const uint32_t sizes[] = { 3, 40, 1024, 65536 };
    uint32_t most = stk_rng_below(rng, 3) ? 1 + stk_rng_below(rng, 64) : 1;

    memset(group, 0, STK_JPEG_GROUP * sizeof *group);
    for (int b = 0; b < 4; b++) {
        uint32_t n = 1 + stk_rng_below(rng, most), size = sizes[stk_rng_below(rng, 4)];

        last[b] = (uint8_t)(n - 1);
        for (uint32_t k = 0; k < n; k++)
            if (stk_rng_below(rng, 2))
                group[natural[k] / 8 * 32 + b * 8 + natural[k] % 8] = (int16_t)(stk_rng_below(
                                                                                    rng, size) -
                                                                                size / 2);
    }
}

static void groups_are_the_same(void **state)
{
    _Alignas(64) int16_t group[STK_JPEG_GROUP];
    uint8_t want[8 * 64], got[8 * 64], last[4];
    uint16_t q[64];
    stk_rng rng;

    (void)state;
    print_message("seed %u\n", SEED);
    stk_rng_init(&rng, SEED, 0, 0, 0, 0);
    for (int round = 0; round < 20000; round++) {
        uint32_t most = round % 3 ? 40 : 65536;

        random_group(&rng, group, last);
        for (int i = 0; i < 64; i++)
            q[i] = (uint16_t)stk_rng_below(&rng, most);
        memset(want, 0xA5, sizeof want);
        stk_jpeg_kern_c.idct(want + 16, 64, group, q, last);
        for (size_t i = 0; i < LEVELS; i++) {
            if (levels[i] > stk_cpu_level())
                continue;
            memset(got, 0xA5, sizeof got);
            stk_jpeg_kern_table(levels[i])->idct(got + 16, 64, group, q, last);
            if (memcmp(want, got, sizeof got))
                fail_msg("round %d: %s differs", round, stk_jpeg_kern_table(levels[i])->name);
        }
    }
}

typedef struct rows {
    uint8_t src[3][ROOM], dst[4 * ROOM];
} rows;

static void run(const stk_jpeg_kern *k, int which, rows *r, size_t n)
{
    const uint8_t *const src[3] = { r->src[0] + 32, r->src[1] + 32, r->src[2] + 32 };

    memset(r->dst, 0, sizeof r->dst);
    switch (which) {
    case 0: k->up_h2(r->dst, src[0], n); break;
    case 1: k->up_h2v2(r->dst, src[0], src[1], n); break;
    case 2: k->up_v2(r->dst, src[0], src[1], n, 1); break;
    case 3: k->up_v2(r->dst, src[0], src[1], n, 2); break;
    default: k->pack_rgb(r->dst, src, n); break;
    }
}

static void rows_are_the_same(void **state)
{
    static const size_t made[] = { 2, 2, 1, 1, 4 };
    static rows a, b;
    stk_rng rng;

    (void)state;
    stk_rng_init(&rng, SEED, 1, 0, 0, 0);
    for (int round = 0; round < 40; round++)
        for (size_t n = 0; n <= WIDTH; n++) {
            for (size_t i = 0; i < sizeof a.src; i++)
                ((uint8_t *)a.src)[i] = (uint8_t)(round % 4 ? stk_rng_u32(&rng)
                                                            : 0u - (stk_rng_u32(&rng) & 1));
            memcpy(b.src, a.src, sizeof a.src);
            for (int which = 0; which < 5; which++) {
                run(&stk_jpeg_kern_c, which, &a, n);
                for (size_t i = 0; i < LEVELS; i++) {
                    if (levels[i] > stk_cpu_level())
                        continue;
                    run(stk_jpeg_kern_table(levels[i]), which, &b, n);
                    assert_memory_equal(a.dst, b.dst, n * made[which]);
                }
            }
        }
}

/* Every triple of values that a color can have. */
static void colors_are_the_same(void **state)
{
    static uint8_t src[3][256], want[1024], got[1024];
    const uint8_t *const three[3] = { src[0], src[1], src[2] };

    (void)state;
    for (int i = 0; i < 256; i++)
        src[0][i] = (uint8_t)i;
    for (int cb = 0; cb < 256; cb++)
        for (int cr = 0; cr < 256; cr += 5) {
            memset(src[1], cb, 256);
            memset(src[2], cr, 256);
            stk_jpeg_kern_c.pack_rgb(want, three, 256);
            stk_jpeg_kern_table(stk_cpu_level())->pack_rgb(got, three, 256);
            assert_memory_equal(want, got, sizeof got);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_the_same),
        cmocka_unit_test(rows_are_the_same),
        cmocka_unit_test(colors_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
