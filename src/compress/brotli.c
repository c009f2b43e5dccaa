/* SPDX-License-Identifier: Apache-2.0 */
/* brotli - pages of tables packed with Brotli, by libbrotlidec; the only file that knows its
 * header. */
#include <config.h>

#include "compress/unpack.h"

#if STK_HAVE_BROTLI

#include <brotli/decode.h>

int stk_brotli_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    uint8_t none;
    size_t made = len;

    if (BrotliDecoderDecompress(in.len, in.data, &made, len ? dst : &none) !=
            BROTLI_DECODER_RESULT_SUCCESS ||
        made != len)
        return stk_fail(err, STK_ECORRUPT, "brotli: a page does not unpack to %zu bytes", len);
    STK_WRITTEN(dst, len);
    return 0;
}

#else

int stk_brotli_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return stk_no_library("brotli", "libbrotlidec", "libbrotli-dev", err);
}

#endif
