/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_regions - any bytes as masks of annotations: for the decoder, and for the codec, whose
 * planes are 0 and 1 and fill what it asked for. */
#include "decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { data, size };
    stk_spec row = { 0 };
    stk_error err;

    memset(&err, 0, sizeof err);
    if (stk_decoder_regions.probe(in))
        fuzz_decoder(&stk_decoder_regions, data, size);
    if (stk_codec_masks.shape(NULL, in, &row, &err) == 0 &&
        row.shape[0] * row.shape[1] * row.shape[2] <= (int64_t)MAX_PIXELS) {
        size_t n = (size_t)(row.shape[0] * row.shape[1] * row.shape[2]);
        uint8_t *dst = malloc(n ? n : 1);
        int rc;

        FUZZ_CHECK(dst != NULL);
        rc = stk_codec_masks.parse(NULL, NULL, in, dst, &err);
        FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && err.message[0]));
        for (size_t i = 0; i < n; i++)
            FUZZ_CHECK(dst[i] <= 1);
        free(dst);
    }
    return 0;
}
