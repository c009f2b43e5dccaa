/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_dump - what Stoker sees in a Parquet file, for comparing with other readers.
 *
 *   parquet_dump FILE
 *
 * One JSON line for each column: {"name", "dtype", "width", "unit", "list", "refused", "rows": [HEX
 * or null, ...]}.  With -t nothing is printed and the file is cut at every byte, alone and with its
 * footer kept, and must be an error where rows are missing.  An error is one line on stderr and
 * exit code 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/parquet/parquet.h"

static int quiet;

static int print_row(const stk_pq_vector *v, const stk_pq_vector *dict, uint64_t r, int first,
                     stk_error *err)
{
    stk_bytes x;
    uint64_t n;
    int rc = stk_pq_row(v, dict, r, &x, &n, err);

    if (rc < 0 && rc != STK_ENOTFOUND)
        return rc;
    if (quiet)
        return 0;
    printf(first ? "" : ", ");
    if (rc == STK_ENOTFOUND) {
        printf("null");
        return 0;
    }
    printf("\"");
    for (size_t i = 0; i < x.len; i++)
        printf("%02x", x.data[i]);
    printf("\"");
    return 0;
}

static int dump_chunk(stk_bytes file, const stk_pq_leaf *l, const stk_pq_chunk *c, uint64_t rows,
                      int *first, stk_error *err)
{
    stk_pq_vector dict = { 0 }, v = { 0 };
    stk_pq_decode d = { l, c->codec, NULL, (uint64_t)1 << 30 };
    stk_bytes in = { file.data + c->start, (size_t)c->len };
    stk_pq_page page;
    int rc = in.len ? stk_pq_page_read(in, &page, err) : STK_END;

    if (rc == 0 && page.kind == STK_PQ_DICTIONARY) {
        rc = stk_pq_decode_dictionary(&d, in, &dict, err);
        d.dictionary = &dict;
        if (rc == 0) /* the page is there, or decoding had failed */
            in = (stk_bytes){ in.data + page.head + page.packed, in.len - page.head - page.packed };
    }
    if (rc == STK_PENDING)
        rc = stk_fail(err, STK_ECORRUPT, "a header that ends too early");
    if (rc == 0)
        rc = stk_pq_decode_pages(&d, in, &v, err);
    if (rc == STK_END)
        rc = 0;
    if (rc == 0 && v.rows != rows)
        rc = stk_fail(err, STK_ECORRUPT, "%" PRIu64 " rows where the group has %" PRIu64, v.rows,
                      rows);
    for (uint64_t r = 0; rc == 0 && r < v.rows; r++, *first = 0)
        rc = print_row(&v, &dict, r, *first, err);
    stk_pq_vector_fini(&dict);
    stk_pq_vector_fini(&v);
    return rc;
}

static int dump_leaf(stk_bytes file, const stk_pq_file *f, uint32_t i, stk_error *err)
{
    const stk_pq_leaf *l = &f->leaf[i];
    /* python/tests/test_text_lists.py has these */
    const char *refused = !l->refused && stk_pq_is_texts(l) ? "lists of texts" : l->refused;
    int first = 1;

    if (!quiet)
        printf(
            "{\"name\": \"%s\", \"dtype\": \"%s\", \"width\": %u, \"unit\": \"%s\", \"list\": %d, "
            "\"refused\": \"%s\", \"rows\": [",
            l->name, l->dtype ? stk_dtype_name(l->dtype) : "", l->width, l->unit, l->max_rep,
            refused ? refused : "");
    for (uint32_t g = 0; g < f->n_groups && !refused; g++) {
        const stk_pq_chunk *c = &f->chunk[(size_t)g * f->n_leaves + i];

        if (c->refused)
            return stk_fail(err, STK_ENOTSUP, "column %s: %s", l->name, c->refused);
        if (f->group[g].rows)
            STK_TRY(dump_chunk(file, l, c, f->group[g].rows, &first, err));
    }
    if (!quiet)
        printf("]}\n");
    return 0;
}

static int dump(stk_bytes file, stk_error *err)
{
    stk_pq_file *f = NULL;
    uint32_t footer;
    int rc;

    if (file.len < 12)
        return stk_fail(err, STK_ECORRUPT, "%zu bytes are no Parquet file", file.len);
    STK_TRY(stk_pq_tail(file.data + file.len - 8, file.len, &footer, err));
    rc = stk_pq_file_open(&f, (stk_bytes){ file.data + file.len - 8 - footer, footer }, file.len,
                          err);
    for (uint32_t i = 0; rc == 0 && i < f->n_leaves; i++)
        rc = dump_leaf(file, f, i, err);
    stk_pq_file_close(&f);
    return rc;
}

/* The file cut at every byte.  The number of cuts that went unnoticed. */
static int cut_everywhere(const uint8_t *data, size_t size)
{
    uint8_t *part = malloc(size ? size : 1);
    size_t tail = size < 12 ? size : 8 + (data[size - 8] | (size_t)data[size - 7] << 8);
    int unnoticed = 0;
    stk_error err;

    for (size_t n = 0; part && n < size; n++) {
        memcpy(part, data, n);
        unnoticed += dump((stk_bytes){ part, n }, &err) == 0;
        if (n + tail >= size)
            continue;
        memcpy(part + n, data + size - tail, tail); /* offsets in the footer are wrong now */
        unnoticed += dump((stk_bytes){ part, n + tail }, &err) == 0;
    }
    free(part);
    return unnoticed;
}

int main(int argc, char **argv)
{
    stk_error err = { 0 };
    char line[1024];
    uint8_t *data;
    long size;
    FILE *in;
    int rc;

    quiet = argc == 3 && !strcmp(argv[1], "-t");
    in = argc == 2 + quiet ? fopen(argv[argc - 1], "rb") : NULL;
    if (!in) {
        fprintf(stderr, "usage: parquet_dump [-t] FILE\n");
        return 2;
    }
    fseek(in, 0, SEEK_END);
    size = ftell(in);
    rewind(in);
    data = malloc(size ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, in) != (size_t)size)
        return 2;
    fclose(in);
    rc = dump((stk_bytes){ data, (size_t)size }, &err);
    if (rc == 0 && quiet && cut_everywhere(data, (size_t)size))
        rc = stk_fail(&err, STK_ECORRUPT, "a cut went unnoticed");
    free(data);
    if (rc == 0)
        return 0;
    stk_error_format(&err, line, sizeof line);
    fprintf(stderr, "%s %s\n", stk_code_name(rc), line);
    return 1;
}
