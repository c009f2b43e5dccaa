/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_snappy - any bytes as Snappy and LZ4: unpacked within bounds, or an error.
 *
 * Where the scan says that blocks stand alone, each unpacked alone is the same as the whole. */
#include <string.h>

#include "compress/unpack.h"
#include "compress/snappy.h"
#include "fuzz.h"

#define MOST (1u << 20)

static void blocks(stk_bytes in, const uint8_t *whole, uint32_t len)
{
    uint32_t n = (len + STK_SNAPPY_BLOCK - 1) / STK_SNAPPY_BLOCK;
    uint32_t *start = malloc((n + 1) * sizeof *start);
    uint8_t *block = malloc(STK_SNAPPY_BLOCK);
    stk_error err;
    int rc;

    FUZZ_CHECK(start && block);
    rc = stk_snappy_scan(in, start, &err);
    FUZZ_CHECK(rc == 0 || rc == STK_END);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint32_t at = i * STK_SNAPPY_BLOCK, size = len - at;
        stk_bytes part = { in.data + start[i], start[i + 1] - start[i] };
        size_t used;

        size = size < STK_SNAPPY_BLOCK ? size : STK_SNAPPY_BLOCK;
        FUZZ_CHECK(stk_snappy_elements(part, block, size, &used, &err) == 0);
        FUZZ_CHECK(used == part.len && !memcmp(block, whole + at, size));
    }
    free(start);
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    uint32_t len = 0, head;
    uint8_t *dst;
    stk_error err;

    if (stk_snappy_len(in, &len, &head) == 0 && len <= MOST) {
        dst = malloc(len ? len : 1);
        FUZZ_CHECK(dst);
        if (stk_snappy_unpack(in, dst, len, &err) == 0)
            blocks(in, dst, len);
        free(dst);
    }
    len = size ? data[0] * 16u : 0;
    dst = malloc(len ? len : 1);
    FUZZ_CHECK(dst);
    (void)stk_lz4_hadoop_page(in, dst, len, &err);
    free(dst);
    return 0;
}
