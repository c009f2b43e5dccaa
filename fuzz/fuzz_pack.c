/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pack - any bytes as the note that a pack keeps of itself: a wrong one is no note, and only
 * shards that there are get a size. */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "tools/pack_stamp.h"

#define SHARDS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t sizes[SHARDS + 2] = { 0 };
    char *failed[SHARDS] = { 0 };
    stk_stamp s = { .size = sizes + 1, .failed = failed, .n = SHARDS };
    char *text = stk_strndup((const char *)(size ? data : (const uint8_t *)""), size);

    FUZZ_CHECK(text);
    stk_stamp_parse(&s, text, 0xab);
    FUZZ_CHECK(!sizes[0] && !sizes[SHARDS + 1]);
    for (int i = 1; i <= SHARDS && !s.found; i++)
        FUZZ_CHECK(!sizes[i]);
    for (int i = 0; i < SHARDS; i++) {
        FUZZ_CHECK(stk_stamp_failed(&s, (uint64_t)i) <= size);
        stk_free(failed[i]);
    }
    stk_free(text);
    return 0;
}
