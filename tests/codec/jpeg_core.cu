/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_core.cu - the proof that jpeg_core.h compiles for a GPU: a thread decodes some blocks. */
#include "codec/jpeg_core.h"

extern "C" __global__ void jpeg_core_row(const uint8_t *scan, size_t len, uint64_t at,
                                         const stk_jpeg_huff *huff, const uint16_t *quant,
                                         uint32_t blocks, uint8_t *out, int *rc)
{
    __shared__ uint32_t dc_fast[1 << 9], ac_fast[1 << 10];
    __shared__ stk_jpeg_long more[2];
    const uint8_t natural[64] = STK_JPEG_ZIGZAG;
    stk_jpeg_lut dc = { dc_fast, &more[0], huff[0].vals, 9 };
    stk_jpeg_lut ac = { ac_fast, &more[1], huff[1].vals, 10 };
    uint16_t map[64];
    stk_jpeg_bits b;
    int32_t pred = 0, diff;

    *rc = stk_jpeg_long_build(&more[0], &huff[0], 1) | stk_jpeg_long_build(&more[1], &huff[1], 0);
    if (*rc)
        return;
    stk_jpeg_fast_build(dc_fast, 9, &huff[0], 1);
    stk_jpeg_fast_build(ac_fast, 10, &huff[1], 0);
    for (int i = 0; i < 64; i++)
        map[i] = natural[i];
    stk_jpeg_bits_init(&b, scan, len, at);
    for (uint32_t i = 0; i < blocks; i++) {
        int16_t block[64] = { 0 };

        if (stk_jpeg_dc(&b, &dc, &diff) || stk_jpeg_ac(&b, &ac, map, block) < 0) {
            *rc = -1;
            return;
        }
        pred += diff;
        block[0] = (int16_t)pred;
        stk_jpeg_idct(block, 8, quant, out + (size_t)i * 64, 8);
    }
    *rc = stk_jpeg_bits_at(&b, scan) == UINT64_MAX ? -1 : 0;
}
