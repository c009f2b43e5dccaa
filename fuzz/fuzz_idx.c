/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_idx - any bytes as a Megatron index: documents and sequences that are in the .bin, or a
 * clean error.  The .bin's size is what the last sequence says it should be, so that good ones are
 * found. */
#include <string.h>

#include "format/megatron.h"
#include "fuzz.h"

static uint64_t size_of_bin(const uint8_t *data, size_t size)
{
    static const uint8_t bytes[] = { 0, 1, 1, 2, 4, 8, 8, 4, 2 };
    uint64_t n, at;
    int32_t len;

    if (size < STK_MEGATRON_HEAD || data[17] > 8)
        return 0;
    memcpy(&n, data + 18, sizeof n);
    if (!n || n > (size - STK_MEGATRON_HEAD) / 12)
        return 0;
    memcpy(&len, data + STK_MEGATRON_HEAD + 4 * (n - 1), sizeof len);
    memcpy(&at, data + STK_MEGATRON_HEAD + 4 * n + 8 * (n - 1), sizeof at);
    return at + (uint64_t)len * bytes[data[17]];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    stk_megatron m;
    stk_error err;
    int rc = stk_megatron_read(in, size_of_bin(data, size), &m, &err);
    uint64_t before = 0;

    if (rc < 0) {
        FUZZ_CHECK(err.code == rc && err.message[0] && !strchr(err.message, '\n'));
        FUZZ_CHECK((rc == STK_ECORRUPT || rc == STK_ENOTSUP) && err.offset <= size);
        return 0;
    }
    for (uint64_t d = 0; d <= m.documents; d++) {
        uint64_t at = stk_megatron_document(&m, d);

        FUZZ_CHECK(at >= before && at <= m.tokens);
        before = at;
    }
    FUZZ_CHECK(before == m.tokens);
    FUZZ_CHECK(stk_megatron_check(&m, &err) == 0);
    before = 0;
    for (uint64_t s = 0; s < m.sequences; s++) {
        uint64_t at, n = stk_megatron_sequence(&m, s, &at);

        FUZZ_CHECK(at == before && n <= m.tokens - at);
        before += n;
    }
    return 0;
}
