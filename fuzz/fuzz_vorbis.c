/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_vorbis - any bytes as a recording; what must hold is in sound.h. */
#include "sound.h"
#include "sums.h"

FIX_SUMS(fix_ogg)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_sound(&stk_decoder_vorbis, data, size, 1);
}
