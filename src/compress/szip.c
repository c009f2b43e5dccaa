/* SPDX-License-Identifier: Apache-2.0 */
/* szip - HDF5 chunks packed by szip, as NASA's files are; the only file that knows libaec's header.
 *
 * A chunk is its length and one stream.  The library divides by what it is told, so that is checked
 * first: lines are at least a block long, or it would ask for many times the chunk. */
#include <config.h>

#include "compress/unpack.h"

#if STK_HAVE_SZIP

#include <szlib.h>

int stk_unszip(const uint32_t *value, uint32_t n, stk_bytes in, stk_bytes dst, stk_error *err)
{
    size_t made = dst.len;
    SZ_com_t how;

    if (n < 4 || in.len < 4 || dst.len > UINT32_MAX || value[1] < 2 ||
        value[1] > SZ_MAX_PIXELS_PER_BLOCK || value[1] & 1 || !value[2] ||
        (value[2] > 32 && value[2] != 64) || value[3] < value[1] ||
        value[3] > value[1] * SZ_MAX_BLOCKS_PER_SCANLINE)
        return stk_fail(err, STK_ECORRUPT, "szip: a chunk or its values are damaged");
    if (((uint32_t)in.data[0] | (uint32_t)in.data[1] << 8 | (uint32_t)in.data[2] << 16 |
         (uint32_t)in.data[3] << 24) != dst.len)
        return stk_fail(err, STK_ECORRUPT,
                        "szip: a chunk is of another size than its data set says");
    how = (SZ_com_t){ (int)value[0], (int)value[2], (int)value[1], (int)value[3] };
    if (SZ_BufftoBuffDecompress((uint8_t *)(uintptr_t)dst.data, &made, in.data + 4, in.len - 4,
                                &how) != SZ_OK ||
        made != dst.len)
        return stk_fail(err, STK_ECORRUPT, "szip: a chunk does not unpack to %zu bytes", dst.len);
    STK_WRITTEN(dst.data, dst.len);
    return 0;
}

#else

int stk_unszip(const uint32_t *value, uint32_t n, stk_bytes in, stk_bytes dst, stk_error *err)
{
    (void)value, (void)n, (void)in, (void)dst;
    return stk_no_library("szip", "libaec", "libaec-dev", err);
}

#endif
