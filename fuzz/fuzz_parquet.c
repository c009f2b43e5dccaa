/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parquet - any bytes as a Parquet file: rows of every column, or a clean error.
 *
 * Every row of what was decoded is looked at, so that nothing in it points outside.  Where a column
 * gets row seek points, every row by its points has the bytes that decoding gives. */
#include <string.h>

#include "format/parquet/parquet.h"
#include "format/parquet/points.h"
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

/* Row r by its points is what decoding gave. */
static void same_row(stk_bytes file, const stk_pq_points *p, const stk_pq_vector *v,
                     const stk_pq_vector *dict, uint64_t r)
{
    stk_pq_range at;
    stk_bytes want = { 0 };
    stk_error err;
    uint64_t n;
    uint8_t *dst;
    int rc = stk_pq_row(v, dict, r, &want, &n, &err);

    FUZZ_CHECK((rc == STK_ENOTFOUND) == !stk_pq_points_range(p, r, &at));
    if (rc < 0)
        return;
    FUZZ_CHECK(at.len == want.len && at.offset <= file.len && at.read <= file.len - at.offset);
    if (!at.packed) {
        FUZZ_CHECK(!at.len || !memcmp(file.data + at.offset, want.data, at.len));
        return;
    }
    dst = malloc(at.len ? at.len : 1);
    FUZZ_CHECK(dst);
    FUZZ_CHECK(
        stk_pq_points_unpack(p, r, (stk_bytes){ file.data + at.offset, at.read }, dst, &err) == 0);
    FUZZ_CHECK(!memcmp(dst, want.data, at.len));
    free(dst);
}

static void points(stk_bytes file, const stk_pq_decode *d, const stk_pq_chunk *c,
                   const stk_pq_vector *v, const stk_pq_vector *dict, int cuts)
{
    stk_pq_points_build b = { .decode = *d, .cuts = cuts };
    uint64_t at = c->start, end = c->start + c->len;
    stk_error err;
    int rc = 0;

    b.decode.dictionary = NULL;
    while (rc == 0 && at < end) {
        stk_pq_page page;

        rc = stk_pq_page_read((stk_bytes){ file.data + at, (size_t)(end - at) }, &page, &err);
        if (rc == 0)
            rc = stk_pq_points_page(&b, (stk_bytes){ file.data + at, (size_t)(end - at) }, at,
                                    &err);
        at += rc == 0 ? (uint64_t)page.head + page.packed : 0;
    }
    if (rc == 0 && v) {
        FUZZ_CHECK(b.points.n_rows == v->rows);
        FUZZ_CHECK(stk_pq_points_check(&b.points, v->rows, file.len, &err) == 0);
        for (uint64_t r = 0; r < v->rows; r++)
            same_row(file, &b.points, v, dict, r);
    }
    stk_pq_points_build_fini(&b);
}

/* Which rows have a value, by their levels, is what decoding gave. */
static void presence(const stk_pq_decode *d, stk_bytes in, const stk_pq_vector *v)
{
    static uint8_t row[1 << 16];
    stk_pq_presence seen = { row, 0, sizeof row };
    stk_error err;
    int rc = stk_pq_present(d, in, d->leaf->max_def, &seen, &err);

    check(rc, &err);
    FUZZ_CHECK(seen.n <= sizeof row);
    if (rc < 0 || !v || d->leaf->max_rep)
        return;
    FUZZ_CHECK(seen.n == v->rows);
    for (uint64_t r = 0; r < v->rows; r++)
        FUZZ_CHECK(row[r] == !(v->null && v->null[r]));
}

/* Lists of texts are made, in no more bytes than were counted. */
static int texts(const stk_pq_decode *d, stk_bytes in, stk_pq_vector *v)
{
    uint64_t room = 0, len = 0;
    int rc = 0, counted = 0;
    stk_pq_page page;
    stk_error err;

    while (rc == 0 && in.len) {
        uint64_t more = 0;

        rc = stk_pq_page_read(in, &page, &err);
        if (rc == 0 && (page.kind == STK_PQ_DATA || page.kind == STK_PQ_DATA2))
            rc = stk_pq_texts_room(d, in, &more, &err);
        room += more;
        counted = rc == 0;
        if (rc == 0) {
            in.data += page.head + page.packed;
            in.len -= page.head + page.packed;
        }
    }
    rc = stk_pq_texts(d, v, &err);
    check(rc, &err);
    for (uint64_t r = 0; rc == 0 && r < v->rows; r++)
        len += v->ref[r].len + sizeof *v->ref + 1;
    FUZZ_CHECK(rc < 0 || !counted || len <= room);
    return rc;
}

static uint32_t chunk(stk_bytes file, const stk_pq_leaf *l, const stk_pq_chunk *c)
{
    stk_pq_vector dict = { 0 }, v = { 0 };
    stk_pq_decode d = { l, c->codec, NULL, 1 << 22 };
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
        if (rc == 0 && stk_pq_is_texts(l))
            rc = texts(&d, in, &v);
        sum = rc == 0 ? look(&v, &dict) : 0;
        presence(&d, in, rc == 0 ? &v : NULL);
    }
    if (l->physical == STK_PQ_BYTES && !l->dtype && !l->max_rep && c->codec <= STK_PQ_SNAPPY)
        for (int cuts = 0; cuts < 2; cuts++)
            points(file, &d, c, rc == 0 ? &v : NULL, &dict, cuts);
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
    if (rc == 0 && size % 2)
        check(stk_pq_fill_lists(f, 7, &err), &err);
    for (uint32_t g = 0; rc == 0 && g < f->n_groups && g < 4; g++)
        for (uint32_t i = 0; i < f->n_leaves && i < 64; i++) {
            const stk_pq_chunk *c = &f->chunk[(size_t)g * f->n_leaves + i];

            if (!f->leaf[i].refused && !c->refused)
                sink += chunk(file, &f->leaf[i], c);
        }
    stk_pq_file_close(&f);
    return 0;
}
