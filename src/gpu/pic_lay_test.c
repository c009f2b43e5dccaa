/* SPDX-License-Identifier: Apache-2.0 */
/* pic_lay_test.c - pictures that lie otherwise than line after line: cut into patches, or part of
 * larger ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gpu/pic.h"
#include "gpu/pic_host_test.h"

/* One record of 12 x 8 pixels whose job says that it lies like this; its status. */
static uint32_t lay_out(stk_pic_kind kind, stk_pic_lay lay, uint64_t bytes, uint8_t *out)
{
    enum { W = 12, H = 8, LEN = W * H * 3 };
    _Alignas(64) static uint8_t slab[4096];
    uint8_t lists[1024], scratch[1024], *px = stk_pic_plain_write(slab, kind, W, H, LEN);
    uint32_t status = 0;
    stk_pic_item item = { .share = stk_pic_share_of((const stk_pic *)(void *)slab),
                          .out = out,
                          .out_bytes = bytes,
                          .lay = lay };
    stk_pic_lists p = { .memory = lists, .room = sizeof lists, .scratch_room = sizeof scratch };
    stk_pic_launch l = { .slab = slab,
                         .slab_len = sizeof slab,
                         .scratch = scratch,
                         .status = &status,
                         .packed = 1,
                         .laid = 1,
                         .mul = { 1, 1, 1 } };

    for (uint32_t k = 0; k < LEN; k++)
        px[k] = (uint8_t)(k % 251 + 1);
    assert_int_equal(stk_pic_plan(&p, &item, 1), 1);
    stk_pic_launch_lists(&l, &p, lists);
    host_run(&l);
    return status;
}

/* What does not fit its place is bad, and nothing of it is written. */
static void lays(void **state)
{
    enum { LEN = 12 * 8 * 3, ROOM = 2 * 16 * 10 * 3 };
    static const struct {
        stk_pic_lay lay;
        uint64_t bytes;
        int bad;
    } all[] = {
        { { { 4, 1, 1, 0 }, 0, 0 }, LEN, 0 }, { { { 4, 1, 2, 1 }, 0, 0 }, 2 * LEN, 0 },
        { { { 2, 2, 1, 1 }, 0, 0 }, LEN, 0 }, { { { 0 }, 16, 10 }, LEN, 0 },
        { { { 5, 1, 1, 0 }, 0, 0 }, LEN, 1 }, { { { 4, 2, 1, 0 }, 0, 0 }, LEN, 1 },
        { { { 4, 0, 1, 0 }, 0, 0 }, LEN, 1 }, { { { 4, 1, 2, 0 }, 0, 0 }, LEN, 1 },
        { { { 0 }, 11, 10 }, LEN, 1 },        { { { 0 }, 16, 7 }, LEN, 1 },
        { { { 0 }, 16, 10 }, LEN - 3, 1 },
    };
    uint8_t out[ROOM];

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t written = 0, status;

        memset(out, 0, sizeof out);
        status = lay_out(STK_PIC_U8, all[i].lay, all[i].bytes, out);
        for (uint32_t k = 0; k < ROOM; k++)
            written += out[k] != 0;
        assert_int_equal(status, all[i].bad ? STK_PIC_BAD_RECORD : 0);
        assert_int_equal(written, all[i].bad ? 0 : all[i].bytes);
    }
    memset(out, 0, sizeof out); /* lines of pixels as they must be, in wider ones */
    assert_int_equal(lay_out(STK_PIC_READY, (stk_pic_lay){ .w = 16, .h = 10 }, LEN, out), 0);
    for (uint32_t y = 0; y < 10; y++)
        for (uint32_t x = 0; x < 48; x++)
            assert_int_equal(out[y * 48 + x], y < 8 && x < 36 ? (y * 36 + x) % 251 + 1 : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lays) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
