/* SPDX-License-Identifier: Apache-2.0 */
/* bzip2 - shards packed with bzip2, by libbz2; the only file that knows its header. */
#include <config.h>

#include "compress/unpack.h"

#if STK_HAVE_BZIP2

#include <bzlib.h>

int stk_bunzip2_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    char none = 0;
    unsigned made = (unsigned)len;

    if (in.len > UINT32_MAX || len > UINT32_MAX ||
        BZ2_bzBuffToBuffDecompress(len ? (char *)dst : &none, &made, (char *)(uintptr_t)in.data,
                                   (unsigned)in.len, 0, 0) != BZ_OK ||
        made != len)
        return stk_fail(err, STK_ECORRUPT, "bzip2: a shard does not unpack to %zu bytes", len);
    STK_WRITTEN(dst, len);
    return 0;
}

#else

int stk_bunzip2_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return stk_no_library("bzip2", "libbz2", "libbz2-dev", err);
}

#endif
