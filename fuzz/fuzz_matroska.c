/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_matroska - see video.h. */
#include "video.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_container(stk_matroska_read, data, size);
}
