/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_numbers - any text as a list of numbers: as many values as were counted, or a clean
 * error. */
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "base/mem.h"
#include "codec/codec.h"
#include "fuzz.h"

/* `call`: the codec with its arguments. */
static void look(const stk_codec *codec, const char *call, stk_bytes in)
{
    void *state = calloc(1, codec->state_size);
    stk_spec spec = { .kind = STK_KIND_BYTES };
    stk_args *args = NULL;
    stk_expr *e = NULL;
    stk_spec row = { .dtype = codec == &stk_codec_ints ? STK_I64 : STK_F32 };
    size_t bytes;
    stk_error err;
    int rc = state ? stk_expr_parse(&e, call, &err) : STK_ENOMEM;

    FUZZ_CHECK(rc == 0 && stk_args_check(&args, &e->call[0], codec->args, &err) == 0);
    FUZZ_CHECK(codec->plan(state, args, &spec, &err) == 0);
    rc = codec->shape(state, in, &row, &err);
    if (rc == 0) {
        uint8_t *dst;

        FUZZ_CHECK(row.ndim == spec.ndim && row.shape[0] >= 0 &&
                   (row.ndim < 2 || row.shape[1] >= 0));
        /* no numbers: (2, 0) */
        bytes = (size_t)row.shape[0] * (row.ndim > 1 ? (size_t)row.shape[1] : 1);
        FUZZ_CHECK(bytes <= in.len + 1);
        bytes *= stk_dtype_size(row.dtype);
        dst = malloc(bytes ? bytes : 1);
        FUZZ_CHECK(dst);
        rc = codec->parse(state, NULL, in, dst, &err);
        free(dst);
    }
    FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && err.message[0] && !strchr(err.message, '\n')));
    stk_args_close(&args);
    stk_expr_close(&e);
    free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };

    look(&stk_codec_ints, "ints", in);
    look(&stk_codec_floats, "floats", in);
    look(&stk_codec_ints, "ints(shape=(-1, 2))", in);
    look(&stk_codec_floats, "floats(shape=(2, -1))", in);
    return 0;
}
