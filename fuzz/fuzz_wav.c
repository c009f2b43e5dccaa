/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wav - any bytes as a recording; what must hold is in sound.h. */
#include "sound.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_sound(&stk_decoder_wav, data, size, 1);
}
