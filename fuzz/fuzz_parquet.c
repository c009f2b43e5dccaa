/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parquet - any bytes as a Parquet file: rows of every column, or a clean error.
 *
 * Every row of what was decoded is looked at, so that nothing in it points outside. */
#include <string.h>

#include "codec/unpack.h"
#include "format/parquet/parquet.h"
#include "fuzz.h"

static void check(int rc, const stk_error *err)
{
    FUZZ_CHECK(rc == 0 || (rc < 0 && err->code == rc && err->message[0]));
    FUZZ_CHECK(rc == 0 || !strchr(err->message, '\n'));
}

static uint32_t look(const stk_pq_vector *v, const stk_pq_vector *dict)
{
    uint32_t sum = 0;

    for (uint64_t r = 0; r < v->rows; r++) {
        stk_error err;
        stk_bytes x;
        uint64_t n;

        if (stk_pq_row(v, dict, r, &x, &n, &err) < 0)
            continue;
        FUZZ_CHECK(!v->leaf->width || x.len == n * v->leaf->width);
        for (size_t i = 0; i < x.len; i++)
            sum += x.data[i];
    }
    return sum;
}

static uint32_t chunk(stk_bytes file, const stk_pq_leaf *l, const stk_pq_chunk *c)
{
    stk_pq_vector dict = { 0 }, v = { 0 };
    stk_pq_decode d = { l, c->codec, stk_unpack_page, NULL, 1 << 22 };
    stk_bytes in = { file.data + c->start, (size_t)c->len };
    stk_pq_page page;
    stk_error err;
    uint32_t sum = 0;
    uint64_t rows;
    int whole, rc = stk_pq_page_read(in, &page, &err);

    if (rc == 0 && page.kind == STK_PQ_DICTIONARY) {
        rc = stk_pq_decode_dictionary(&d, in, &dict, &err);
        check(rc, &err);
        d.dictionary = &dict;
        if (rc == 0) {
            in.data += page.head + page.packed;
            in.len -= page.head + page.packed;
        }
    }
    if (rc == 0) {
        check(stk_pq_count_rows(&d, in, &rows, &whole, &err), &err);
        rc = stk_pq_decode_pages(&d, in, &v, &err);
        check(rc, &err);
        FUZZ_CHECK(v.bytes <= d.max_bytes);
        sum = rc == 0 ? look(&v, &dict) : 0;
    }
    stk_pq_vector_fini(&dict);
    stk_pq_vector_fini(&v);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint32_t sink;
    stk_bytes file = { data, size };
    stk_pq_file *f = NULL;
    uint32_t footer;
    stk_error err;
    int rc;

    if (size < 12 || stk_pq_tail(data + size - 8, size, &footer, &err) < 0)
        return 0;
    rc = stk_pq_file_open(&f, (stk_bytes){ data + size - 8 - footer, footer }, size, &err);
    check(rc, &err);
    for (uint32_t g = 0; rc == 0 && g < f->n_groups && g < 4; g++)
        for (uint32_t i = 0; i < f->n_leaves && i < 64; i++) {
            const stk_pq_chunk *c = &f->chunk[(size_t)g * f->n_leaves + i];

            if (!f->leaf[i].refused && !c->refused)
                sink += chunk(file, &f->leaf[i], c);
        }
    stk_pq_file_close(&f);
    return 0;
}
