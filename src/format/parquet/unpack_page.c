/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_page.c - which of the unpackers a page of a table needs. */
#include "compress/snappy.h"
#include "compress/unpack.h"
#include "format/parquet/parquet.h"

int stk_unpack_page(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    switch (codec) {
    case STK_PQ_SNAPPY: return stk_snappy_unpack(in, dst, len, err);
    case STK_PQ_GZIP: return stk_inflate_page(in, dst, len, err);
    case STK_PQ_ZSTD: return stk_unzstd_page(in, dst, len, err);
    case STK_PQ_BROTLI: return stk_brotli_page(in, dst, len, err);
    case STK_PQ_BZIP2: return stk_bunzip2_page(in, dst, len, err);
    case STK_PQ_LZ4_RAW: return stk_lz4_page(in, dst, len, err);
    case STK_PQ_LZ4_HADOOP: return stk_lz4_hadoop_page(in, dst, len, err);
    default: return stk_fail(err, STK_ENOTSUP, "pages packed by codec %d are not supported", codec);
    }
}
