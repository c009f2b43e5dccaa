/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_unlz4 - any bytes as LZ4 frames: unpacked within bounds, or an error. */
#include "compress/unpack.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size }, out = { 0 };
    stk_scratch scratch = { 0 };
    uint32_t sum = 0;
    stk_error err;

    if (size < 1u << 20 && stk_unlz4_bytes(in, &scratch, &out, &err) == 0)
        for (size_t i = 0; i < out.len; i++) /* all of it is there */
            sum += out.data[i];
    FUZZ_CHECK(out.len <= STK_UNPACK_MAX && (out.len || !sum));
    stk_scratch_fini(&scratch);
    return 0;
}
