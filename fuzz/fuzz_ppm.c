/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ppm - any bytes for the PPM decoder. */
#include "decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_decoder(&stk_decoder_ppm, data, size);
}
