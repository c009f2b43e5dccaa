/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npz - any bytes as an .npz: arrays whose rows can be read, or a clean error. */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "source/source.h"
#include <stoker/dataset.h>

#define MOST_ROWS 64

static void look(stk_dataset *ds)
{
    uint64_t n = stk_dataset_len(ds);

    for (uint64_t i = 0; i < n && i < MOST_ROWS; i++) {
        stk_sample *s = NULL;
        const void *data;
        size_t len;
        stk_error err;

        FUZZ_CHECK(stk_dataset_read(ds, i * (n - 1) / (n > 1 ? MOST_ROWS : 1), &s, &err) == 0);
        for (uint32_t k = 0; k < stk_sample_fields(s); k++) {
            volatile uint8_t sum = 0;

            FUZZ_CHECK(stk_sample_field(s, k, &data, &len) && len);
            for (size_t b = 0; b < len; b += 61)
                sum = (uint8_t)(sum + ((const uint8_t *)data)[b]);
        }
        stk_sample_close(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *url = "mem://fuzz.npz";
    stk_dataset *ds = NULL;
    stk_error err = { 0 };
    int rc;

    if (stk_memory_put("fuzz.npz", size ? data : (const uint8_t *)"", size, &err) < 0)
        return 0;
    rc = stk_dataset_open(&ds, &url, 1, NULL, &err);
    if (rc == 0)
        look(ds);
    else
        FUZZ_CHECK(err.code == rc && err.message[0] && !strchr(err.message, '\n'));
    stk_dataset_unref(&ds);
    (void)!stk_memory_put("fuzz.npz", NULL, 0, &err);
    return 0;
}
