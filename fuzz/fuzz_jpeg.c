/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jpeg - any bytes as a JPEG; what must hold is in decoder.h. */
#include "decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_decoder(&stk_decoder_jpeg, data, size);
}
