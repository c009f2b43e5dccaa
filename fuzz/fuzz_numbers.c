/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_numbers - any text as a list of numbers: as many values as were counted, or a clean error. */
#include <string.h>

#include "base/mem.h"
#include "codec/codec.h"
#include "fuzz.h"

static void look(const stk_codec *codec, stk_bytes in)
{
    stk_spec row = { .dtype = codec == &stk_codec_ints ? STK_I64 : STK_F32 };
    size_t bytes;
    stk_error err;
    int rc = codec->shape(NULL, in, &row, &err);

    if (rc == 0) {
        uint8_t *dst;

        FUZZ_CHECK(row.ndim == 1 && row.shape[0] >= 0 && (uint64_t)row.shape[0] <= in.len + 1);
        bytes = (size_t)row.shape[0] * stk_dtype_size(row.dtype);
        dst = malloc(bytes ? bytes : 1);
        FUZZ_CHECK(dst);
        rc = codec->parse(NULL, in, dst, &err);
        free(dst);
    }
    FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && err.message[0] && !strchr(err.message, '\n')));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };

    look(&stk_codec_ints, in);
    look(&stk_codec_floats, in);
    return 0;
}
