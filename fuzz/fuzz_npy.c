/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy - any bytes as an .npy file: an array that is in the bytes, or a clean error. */
#include <string.h>

#include "base/mem.h"
#include "codec/codec.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    void *any = stk_zalloc(1, stk_codec_npy.state_size); /* npy without arguments */
    stk_spec row = { 0 };
    stk_error err;
    uint8_t *dst;
    size_t bytes;
    int rc = stk_codec_npy.shape(any, in, &row, &err);

    if (rc < 0) {
        FUZZ_CHECK(err.code == rc && err.message[0] && !strchr(err.message, '\n'));
        FUZZ_CHECK(rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == STK_ELIMIT);
    } else {
        bytes = stk_dtype_size(row.dtype);
        FUZZ_CHECK(bytes && row.ndim < STK_MAX_DIMS);
        for (uint32_t i = 0; i < row.ndim; i++)
            bytes *= (size_t)row.shape[i];
        FUZZ_CHECK(bytes < size);
        dst = malloc(bytes ? bytes : 1);
        FUZZ_CHECK(dst && stk_codec_npy.parse(any, NULL, in, dst, &err) == 0);
        free(dst);
    }
    stk_free(any);
    return 0;
}
