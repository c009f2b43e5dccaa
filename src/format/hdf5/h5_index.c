/* SPDX-License-Identifier: Apache-2.0 */
/* h5_index.c - chunks as layouts 4 and 5 index them. */
#include "format/hdf5/h5_parts.h"

int h5_index_read(stk_h5_chunks *out, const stk_h5_file *f, const stk_h5_set *s, uint64_t chunks, stk_error *err)
{
    (void)out, (void)f, (void)s, (void)chunks;
    return stk_fail(err, STK_ENOTSUP, "its chunks are indexed as newer versions of HDF5 do, which is not supported: repack the file (h5repack)");
}
