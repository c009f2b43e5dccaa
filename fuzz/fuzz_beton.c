/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_beton - any bytes as a .beton file: fields and what rows say of them, inside the file, or a
 * clean error. */
#include <string.h>

#include "format/beton.h"
#include "fuzz.h"

#define ROWS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_beton b;
    stk_error err;
    int rc = stk_beton_read(&b, (stk_bytes){ data, size }, size, &err);

    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0] && !b.field));
    if (rc < 0)
        return 0;
    FUZZ_CHECK(b.rows_at + b.samples * b.row_bytes <= size &&
               b.table_at + b.n_table * STK_BETON_ALLOC <= size);
    for (uint64_t i = 0; i < b.samples && i < ROWS; i++)
        for (uint32_t k = 0; k < b.n; k++) {
            const uint8_t *row = data + b.rows_at + i * b.row_bytes;
            stk_beton_value v;

            if (b.field[k].refused || stk_beton_value_of(&b.field[k], row, &v, &err) < 0)
                continue;
            FUZZ_CHECK(!v.here.data ||
                       (v.here.data >= row && v.here.data + v.here.len <= row + b.row_bytes));
            FUZZ_CHECK(!v.width || v.len == (uint64_t)v.width * v.height * 3);
        }
    stk_beton_fini(&b);
    return 0;
}
