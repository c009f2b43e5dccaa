/* SPDX-License-Identifier: Apache-2.0 */
/* szip - HDF5 chunks packed by szip, as NASA's files are; the only file that knows libaec's header.
 *
 * A chunk is its length and one stream.  The library divides by what it is told, so that is checked
 * first: lines are at least a block long, or it would ask for many times the chunk. */
#include <config.h>

#include "codec/unpack.h"
#include "codec/unpack_chunk.h"

#if STK_HAVE_SZIP

#include <szlib.h>

int stk_unszip(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    size_t made = len;
    SZ_com_t how;

    if (f->n < 4 || in.len < 4 || len > UINT32_MAX || f->value[1] < 2 ||
        f->value[1] > SZ_MAX_PIXELS_PER_BLOCK || f->value[1] & 1 || !f->value[2] ||
        (f->value[2] > 32 && f->value[2] != 64) || f->value[3] < f->value[1] ||
        f->value[3] > f->value[1] * SZ_MAX_BLOCKS_PER_SCANLINE)
        return stk_fail(err, STK_ECORRUPT, "szip: a chunk or its values are damaged");
    if (((uint32_t)in.data[0] | (uint32_t)in.data[1] << 8 | (uint32_t)in.data[2] << 16 |
         (uint32_t)in.data[3] << 24) != len)
        return stk_fail(err, STK_ECORRUPT,
                        "szip: a chunk is of another size than its data set says");
    how = (SZ_com_t){ (int)f->value[0], (int)f->value[2], (int)f->value[1], (int)f->value[3] };
    if (SZ_BufftoBuffDecompress(dst, &made, in.data + 4, in.len - 4, &how) != SZ_OK || made != len)
        return stk_fail(err, STK_ECORRUPT, "szip: a chunk does not unpack to %zu bytes", len);
    STK_WRITTEN(dst, len);
    return 0;
}

#else

int stk_unszip(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)f, (void)in, (void)dst, (void)len;
    return stk_fail(err, STK_ENOTSUP,
                    "szip: this build has no libaec: install its headers and build again");
}

#endif
