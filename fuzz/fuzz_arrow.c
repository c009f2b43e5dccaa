/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_arrow - any bytes as an Arrow IPC file or stream: values of every column of some rows, or a
 * clean error. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/arrow.h"
#include "format/text_list.h"
#include "fuzz.h"
#include "table/arrow_data.h"

#define ROWS 64u
#define ROOM ((uint64_t)1 << 24)

static unsigned sum(stk_bytes v)
{
    unsigned x = 0;

    for (size_t i = 0; i < v.len; i++)
        x += v.data[i]; /* every byte is touched */
    return x;
}

/* Rows that are taken at once are those that are taken one by one. */
static unsigned at_once(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row)
{
    stk_bytes all = { 0 }, one;
    stk_error err;
    uint64_t n = stk_arrow_rows(b, l, row, ROWS, &all);

    for (uint64_t i = 0; i < n; i++) {
        size_t each = all.len / n;

        if (stk_arrow_value(b, l, row + i, &one, &err) < 0 || one.len != each ||
            (each && memcmp(one.data, all.data + i * each, each) != 0))
            abort();
    }
    return sum(all);
}

static unsigned texts(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, size_t len)
{
    stk_text_list t = { stk_alloc(len), len, 0, 0 };
    unsigned all = 0;
    stk_error err;

    if (t.dst && (stk_arrow_texts(b, l, row, &t, &err) < 0 || t.len != len))
        abort();
    if (t.dst)
        all = sum((stk_bytes){ t.dst, len });
    stk_free(t.dst);
    return all;
}

/* A list that has to be made has the length that was said. */
static unsigned made(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, size_t len)
{
    uint64_t from = 0, n = 0;
    unsigned all = 0;
    uint8_t *room;
    stk_error err;

    if (l->texts)
        return len <= ROOM ? texts(b, l, row, len) : 0;
    if (stk_arrow_list(b, l, row, &from, &n, &err) < 0 || n * stk_dtype_size(l->dtype) != len)
        abort();
    room = len <= ROOM ? stk_alloc(len + 1) : NULL;
    if (room && stk_arrow_list_make(b, l, from, n, room, &err) == 0)
        all = sum((stk_bytes){ room, len });
    stk_free(room);
    return all;
}

/* Some rows of a column; of a packed batch its buffers are unpacked first. */
static unsigned column(const stk_arrow_batch *b, const stk_arrow_leaf *l)
{
    stk_arrow_batch open = *b;
    uint8_t *room = NULL;
    unsigned all = 0;
    uint64_t len = 0;
    stk_error err;

    if (b->packed && !b->refused && !l->refused) {
        if (stk_arrow_column_room(b, l, &len, &err) < 0 || len > ROOM ||
            !(room = stk_alloc((size_t)len)))
            return 0;
        if (stk_arrow_column_unpack(b, l, (stk_bytes){ room, (size_t)len }, &err) < 0) {
            stk_free(room);
            return 0;
        }
        stk_arrow_column_open(b, l, (stk_bytes){ room, (size_t)len }, &open);
    }
    for (uint64_t r = 0; r < b->rows && r < ROWS; r++) {
        stk_bytes v;

        int rc = stk_arrow_value(&open, l, r, &v, &err);

        if (rc == STK_ARROW_MADE)
            all += made(&open, l, r, v.len);
        else if (rc == 0)
            all += sum(v) + (l->decimal && stk_arrow_decimal(l, v) > 0);
        if (r % 7 == 0)
            all += at_once(&open, l, r);
    }
    stk_free(room);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_arrow_ipc *x = NULL;
    volatile unsigned all = 0;
    stk_error err;

    if (stk_arrow_ipc_open(&x, (stk_bytes){ data, size }, -1, &err) < 0)
        return 0;
    if (stk_arrow_dictionaries_unpack(x, &err) < 0)
        x->n = 0;
    if (stk_arrow_fill_lists(&x->schema, 1, &err) < 0)
        x->n = 0;
    for (uint64_t b = 0; b < x->n && b < ROWS; b++)
        for (uint32_t l = 0; l < x->schema.n && l < ROWS; l++)
            all += column(&x->batch[b], &x->schema.leaf[l]);
    stk_arrow_ipc_close(&x);
    return 0;
}
