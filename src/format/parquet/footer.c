/* SPDX-License-Identifier: Apache-2.0 */
/* footer.c - a Parquet file's footer: schema, row groups, where the chunks of columns are.
 *
 * Everything is checked here once: a chunk's range is in the file, rows of groups add up to the
 * file's, every group has a chunk for each leaf, in the schema's order.  Readers trust it from then
 * on. */
#include "format/parquet/schema.h"

#include <string.h>

#include "base/mem.h"
#include "format/column_names.h"
#include "format/list_null.h"

#define SLACK 100u /* as other readers allow: a dictionary's header */

int stk_pq_tail(const uint8_t tail[STK_PQ_TAIL], uint64_t file_size, uint32_t *footer,
                stk_error *err)
{
    uint32_t n = (uint32_t)tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 |
                 (uint32_t)tail[3] << 24;

    if (!memcmp(tail + 4, "PARE", 4))
        return stk_fail(err, STK_ENOTSUP, "the file is encrypted: decrypt it first");
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return stk_fail(err, STK_ECORRUPT,
                        "no Parquet file, or cut short: it does not end in PAR1");
    if (file_size < 12 || n > file_size - 12)
        return stk_fail(err, STK_ECORRUPT, "its footer would have %u bytes, the file has %" PRIu64,
                        n, file_size);
    *footer = n;
    return 0;
}

/* ---- chunks ---- */

/* Fields of structs in parquet.thrift. */
enum { FILE_SCHEMA = 2, FILE_ROWS, FILE_GROUPS, FILE_PAIRS, FILE_WRITER };
enum { PAIR_KEY = 1, PAIR_VALUE };
enum { GROUP_COLUMNS = 1, GROUP_ROWS = 3 };
enum { CHUNK_FILE = 1, CHUNK_META = 3, CHUNK_CRYPTO = 8, CHUNK_ENCRYPTED };
enum { META_TYPE = 1, META_CODEC = 4, META_VALUES, META_UNPACKED, META_PACKED };
enum { META_DATA = 9, META_DICTIONARY = 11, META_STATISTICS };
enum { STATISTICS_NULLS = 3 };

typedef struct column { /* what a ColumnChunk says */
    int64_t codec, values, unpacked, packed, data_at, dictionary_at, nulls;
    int physical, seen, foreign, encrypted;
} column;

static void read_statistics(stk_thrift *t, column *c)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f))
        if (f.id == STATISTICS_NULLS)
            c->nulls = stk_thrift_int(t, &f);
        else
            stk_thrift_skip(t, &f);
}

static void column_meta(stk_thrift *t, column *c)
{
    stk_thrift_field f = { 0 };

    c->seen = 1;
    while (stk_thrift_next(t, &f))
        switch (f.id) {
        case META_TYPE: c->physical = (int)stk_thrift_int(t, &f); break;
        case META_CODEC: c->codec = stk_thrift_int(t, &f); break;
        case META_VALUES: c->values = stk_thrift_int(t, &f); break;
        case META_UNPACKED: c->unpacked = stk_thrift_int(t, &f); break;
        case META_PACKED: c->packed = stk_thrift_int(t, &f); break;
        case META_DATA: c->data_at = stk_thrift_int(t, &f); break;
        case META_DICTIONARY: c->dictionary_at = stk_thrift_int(t, &f); break;
        case META_STATISTICS:
            if (stk_thrift_struct(t, &f))
                read_statistics(t, c);
            break;
        default: stk_thrift_skip(t, &f);
        }
}

static void column_chunk(stk_thrift *t, column *c)
{
    stk_thrift_field f = { 0 };

    *c = (column){ .physical = -1, .nulls = -1 };
    while (stk_thrift_next(t, &f))
        if (f.id == CHUNK_FILE)
            c->foreign = stk_thrift_binary(t, &f).len > 0;
        else if (f.id == CHUNK_META && stk_thrift_struct(t, &f))
            column_meta(t, c);
        else {
            c->encrypted |= f.id == CHUNK_CRYPTO || f.id == CHUNK_ENCRYPTED;
            stk_thrift_skip(t, &f);
        }
}

static const char *why_not(const column *c)
{
    if (c->encrypted)
        return "it is encrypted";
    if (c->foreign)
        return "its pages are in another file";
    if (c->codec == STK_PQ_LZO)
        return "it is packed with LZO, for which there is no reader";
    return NULL;
}

/* Check what the file says of one chunk and keep it. */
static int keep(stk_pq_chunk *out, const column *c, const stk_pq_leaf *leaf, uint64_t size,
                stk_error *err)
{
    int64_t start = c->dictionary_at > 0 && c->dictionary_at < c->data_at ? c->dictionary_at
                                                                          : c->data_at;
    uint64_t left;

    out->refused = why_not(c);
    if (out->refused)
        return 0;
    if (!c->seen || c->physical != leaf->physical || c->codec < 0 || c->codec >= STK_PQ_CODECS)
        return stk_fail(err, STK_ECORRUPT, "column %s: a row group says something else of it",
                        leaf->name);
    if (c->values < 0 || c->unpacked < 0 || c->packed < 0 || start < 0 || (uint64_t)start > size ||
        (uint64_t)c->packed > size - (uint64_t)start)
        return stk_fail(err, STK_ECORRUPT,
                        "column %s: %" PRId64 " bytes at %" PRId64 " are not in the file",
                        leaf->name, c->packed, start);
    left = size - (uint64_t)start - (uint64_t)c->packed;
    *out = (stk_pq_chunk){ .start = (uint64_t)start,
                           .len = (uint64_t)c->packed,
                           .values = (uint64_t)c->values,
                           .nulls = c->nulls,
                           .unpacked = (uint64_t)c->unpacked,
                           .slack = (uint8_t)(left < SLACK ? left : SLACK),
                           .codec = (uint8_t)c->codec,
                           .dictionary = start != c->data_at };
    return 0;
}

/* ---- groups ---- */

static int read_group(stk_thrift *t, stk_pq_file *f, uint32_t g, uint64_t size, stk_error *err)
{
    stk_thrift_field x = { 0 };
    int64_t rows = -1;
    uint32_t n = 0;
    column c;

    while (stk_thrift_next(t, &x)) {
        if (x.id == GROUP_COLUMNS) {
            n = stk_thrift_list(t, &x, STK_THRIFT_STRUCT);
            if (n != f->n_leaves && !t->bad)
                return stk_fail(err, STK_ECORRUPT, "row group %u has %u columns, the schema %u", g,
                                n, f->n_leaves);
            for (uint32_t i = 0; i < n && !t->bad; i++) {
                column_chunk(t, &c);
                if (!t->bad)
                    STK_TRY(
                        keep(&f->chunk[(size_t)g * f->n_leaves + i], &c, &f->leaf[i], size, err));
                if (!t->bad && !f->leaf[i].refused) /* some of its rows can't be read: so none is */
                    f->leaf[i].refused = f->chunk[(size_t)g * f->n_leaves + i].refused;
            }
        } else if (x.id == GROUP_ROWS)
            rows = stk_thrift_int(t, &x);
        else
            stk_thrift_skip(t, &x);
    }
    if (t->bad)
        return 0; /* the caller says so */
    if (rows < 0 || n != f->n_leaves || (uint64_t)rows > UINT64_MAX / 4 - f->rows)
        return stk_fail(err, STK_ECORRUPT, "row group %u says nothing of its rows or columns", g);
    f->group[g] = (stk_pq_group){ f->rows, (uint64_t)rows };
    f->rows += (uint64_t)rows;
    return 0;
}

static int read_groups(stk_thrift *t, stk_pq_file *f, uint32_t n, uint64_t size, stk_error *err)
{
    if (!f->leaf && !t->bad)
        return stk_fail(err, STK_ECORRUPT, "the footer has row groups before a schema");
    if (f->group)
        return stk_fail(err, STK_ECORRUPT, "the footer has row groups twice");
    f->group = stk_zalloc(n ? n : 1, sizeof *f->group);
    f->chunk = stk_zalloc(n ? n : 1, (size_t)f->n_leaves * sizeof *f->chunk);
    if (!f->group || (!f->chunk && f->n_leaves))
        return stk_fail_nomem(err, (size_t)n * f->n_leaves * sizeof *f->chunk);
    f->n_groups = n;
    for (uint32_t g = 0; g < n && !t->bad; g++)
        STK_TRY(read_group(t, f, g, size, err));
    return 0;
}

/* Of the file's own notes, n keys with values: Arrow's schema. */
static stk_bytes find_arrow(stk_thrift *t, uint32_t n)
{
    stk_bytes found = { 0 };

    for (uint32_t i = 0; i < n && !t->bad; i++) {
        stk_thrift_field x = { 0 };
        stk_bytes key = { 0 }, value = { 0 };

        while (stk_thrift_next(t, &x)) {
            if (x.id == PAIR_KEY)
                key = stk_thrift_binary(t, &x);
            else if (x.id == PAIR_VALUE)
                value = stk_thrift_binary(t, &x);
            else
                stk_thrift_skip(t, &x);
        }
        if (!t->bad && key.len == 12 && !memcmp(key.data, "ARROW:schema", 12))
            found = value;
    }
    return found;
}

static int number_names(stk_pq_file *f, stk_error *err)
{
    char ***name = stk_alloc((f->n_leaves + 1u) * sizeof *name);
    int rc;

    if (!name)
        return stk_fail_nomem(err, f->n_leaves * sizeof *name);
    for (uint32_t i = 0; i < f->n_leaves; i++)
        name[i] = &f->leaf[i].name;
    rc = stk_column_names(name, f->n_leaves, err);
    stk_free(name);
    return rc;
}

/* "parquet-cpp version 1.5.1", "parquet-cpp-arrow version 2.0.0": before 3.0.0 their version 2
 * pages are packed and say that they are not (ARROW-10353, ARROW-17100). */
static int packs_always(stk_bytes writer)
{
    static const char arrow[] = "parquet-cpp-arrow version ", cpp[] = "parquet-cpp version ";
    size_t n = sizeof arrow - 1;

    if (writer.len >= sizeof cpp - 1 && !memcmp(writer.data, cpp, sizeof cpp - 1))
        return 1;
    return writer.len > n + 1 && !memcmp(writer.data, arrow, n) && writer.data[n] >= '0' &&
           writer.data[n] <= '2' && writer.data[n + 1] == '.';
}

static int read_footer(stk_thrift *t, stk_pq_file *f, uint64_t size, stk_error *err)
{
    stk_thrift_field x = { 0 };
    stk_bytes arrow = { 0 }, writer = { 0 };
    int64_t rows = -1;

    while (stk_thrift_next(t, &x)) {
        if (x.id == FILE_SCHEMA)
            STK_TRY(stk_pq_schema_read(t, &x, f, err));
        else if (x.id == FILE_ROWS)
            rows = stk_thrift_int(t, &x);
        else if (x.id == FILE_GROUPS)
            STK_TRY(read_groups(t, f, stk_thrift_list(t, &x, STK_THRIFT_STRUCT), size, err));
        else if (x.id == FILE_PAIRS)
            arrow = find_arrow(t, stk_thrift_list(t, &x, STK_THRIFT_STRUCT));
        else if (x.id == FILE_WRITER)
            writer = stk_thrift_binary(t, &x);
        else
            stk_thrift_skip(t, &x);
    }
    if (t->bad)
        return stk_fail(err, STK_ECORRUPT, "the footer is damaged: %s", t->bad);
    if (!f->leaf)
        return stk_fail(err, STK_ECORRUPT, "the footer has no schema");
    if (rows < 0 || (uint64_t)rows != f->rows)
        return stk_fail(err, STK_ECORRUPT,
                        "the file says %" PRId64 " rows, its row groups have %" PRIu64, rows,
                        f->rows);
    for (uint32_t i = 0; i < f->n_leaves && packs_always(writer); i++)
        f->leaf[i].v2_packed = 1;
    STK_TRY(number_names(f, err));
    return stk_pq_arrow_hint(f, arrow, err);
}

int stk_pq_file_open(stk_pq_file **out, stk_bytes footer, uint64_t file_size, stk_error *err)
{
    stk_thrift t = { footer.data, footer.data + footer.len, NULL };
    stk_pq_file *f = STK_NEW(stk_pq_file);
    int rc;

    *out = NULL;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    rc = read_footer(&t, f, file_size, err);
    if (rc < 0)
        stk_pq_file_close(&f);
    *out = f;
    return rc;
}

void stk_pq_file_close(stk_pq_file **f)
{
    stk_pq_file *x = *f;

    *f = NULL;
    if (!x)
        return;
    for (uint32_t i = 0; i < x->n_leaves; i++)
        stk_free(x->leaf[i].name);
    stk_free(x->leaf);
    stk_free(x->group);
    stk_free(x->chunk);
    stk_free(x);
}

int stk_pq_fill_lists(stk_pq_file *f, int64_t value, stk_error *err)
{
    for (uint32_t i = 0; i < f->n_leaves; i++) {
        stk_pq_leaf *l = &f->leaf[i];

        if (!l->max_rep || !stk_list_null_is_whole(l->dtype) || l->refused)
            continue;
        STK_TRY(stk_list_null_check(value, l->dtype, l->name, err));
        l->fills = 1;
        l->fill = value;
    }
    return 0;
}

uint32_t stk_pq_group_of(const stk_pq_file *f, uint64_t row)
{
    uint32_t lo = 0, hi = f->n_groups;

    while (hi - lo > 1) { /* first[lo] <= row */
        uint32_t mid = lo + (hi - lo) / 2;

        if (f->group[mid].first <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}
