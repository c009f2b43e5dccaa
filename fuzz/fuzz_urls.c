/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_urls - any text as a brace pattern: names or a clean error, without touching the file
 * system. */
#include <string.h>

#include "fuzz.h"
#include "source/braces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_braces *b = NULL;
    stk_bytes name;
    stk_error err;
    uint64_t n, i;
    int rc = stk_braces_open(&b, (const char *)data, size, &err);

    FUZZ_CHECK(rc == 0 ? b != NULL : rc < 0 && err.code == rc && err.message[0]);
    n = rc == 0 ? stk_braces_count(b) : 0;
    FUZZ_CHECK(rc < 0 || n > 0);
    for (i = 0; n != UINT64_MAX && i < n && i < 50; i++) {
        FUZZ_CHECK(stk_braces_at(b, i, &name, &err) == 0);
        FUZZ_CHECK(stk_braces_at(b, n - 1 - i, &name, &err) == 0);
    }
    stk_braces_close(&b);
    FUZZ_CHECK(b == NULL);
    return 0;
}
