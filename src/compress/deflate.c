/* SPDX-License-Identifier: Apache-2.0 */
/* deflate - pages and chunks that are unpacked whole, by libdeflate where there is one: about twice
 * as fast as zlib; the only file that knows its header. */
#include <config.h>

#include "compress/unpack.h"

#if STK_HAVE_LIBDEFLATE

#include <libdeflate.h>

int stk_inflate_quick(stk_bytes in, uint8_t *dst, size_t len)
{
    struct libdeflate_decompressor *d = len ? libdeflate_alloc_decompressor() : NULL;
    enum libdeflate_result rc = LIBDEFLATE_BAD_DATA;

    if (d && in.len > 1 && in.data[0] == 0x1F && in.data[1] == 0x8B)
        rc = libdeflate_gzip_decompress(d, in.data, in.len, dst, len, NULL);
    else if (d && in.len)
        rc = libdeflate_zlib_decompress(d, in.data, in.len, dst, len, NULL);
    if (d)
        libdeflate_free_decompressor(d);
    if (rc == LIBDEFLATE_SUCCESS)
        STK_WRITTEN(dst, len);
    return rc == LIBDEFLATE_SUCCESS ? 0 : STK_END;
}

#else

int stk_inflate_quick(stk_bytes in, uint8_t *dst, size_t len)
{
    (void)in, (void)dst, (void)len;
    return STK_END;
}

#endif
