/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_arrow - any bytes as an Arrow IPC file or stream: values of every column of some rows, or a clean error. */
#include <string.h>

#include "format/arrow.h"
#include "fuzz.h"

#define ROWS 64u

static unsigned sum(stk_bytes v)
{
    unsigned x = 0;

    for (size_t i = 0; i < v.len; i++)
        x += v.data[i]; /* every byte is touched */
    return x;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_arrow_ipc *x = NULL;
    volatile unsigned all = 0;
    stk_error err;

    if (stk_arrow_ipc_open(&x, (stk_bytes){ data, size }, &err) < 0)
        return 0;
    for (uint64_t b = 0; b < x->n && b < ROWS; b++)
        for (uint32_t l = 0; l < x->schema.n && l < ROWS; l++)
            for (uint64_t r = 0; r < x->batch[b].rows && r < ROWS; r++) {
                stk_bytes v;

                if (stk_arrow_value(&x->batch[b], &x->schema.leaf[l], r, &v, &err) == 0)
                    all += sum(v);
            }
    stk_arrow_ipc_close(&x);
    return 0;
}
