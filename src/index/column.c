/* SPDX-License-Identifier: Apache-2.0 */
/* column.c - the optional section of typed columns: names, and where each shard's chunk is.
 *
 * The chunks themselves are among the segments, so that the CRCs of blocks cover them and nothing
 * is read before it is asked for. */
#include "index/layout.h"

static void record(const stk_index *ix, uint32_t c, uint64_t shard, idx_chunk *out)
{
    memcpy(out, ix->columns.chunks + ((uint64_t)c * ix->n_shards + shard) * sizeof *out,
           sizeof *out);
}

static uint64_t rows_of(const stk_index *ix, uint64_t shard)
{
    return idx_u64(ix->firsts, shard + 1) - idx_u64(ix->firsts, shard);
}

static int chunk_check(const stk_index *ix, uint32_t c, uint64_t shard, stk_error *err)
{
    uint64_t bytes;
    idx_chunk r;

    record(ix, c, shard, &r);
    bytes = idx_chunk_bytes(&r, rows_of(ix, shard));
    if (bytes == UINT64_MAX || r.nulls > rows_of(ix, shard))
        return idx_damaged(ix, err, "type of a column");
    if (bytes && (r.at > ix->segments_len || bytes > ix->segments_len - r.at))
        return idx_damaged(ix, err, "column past the end");
    return 0;
}

int idx_columns_load(stk_index *ix, const uint8_t *p, uint64_t len, stk_error *err)
{
    uint64_t at;

    if (!len)
        return 0;
    ix->columns.n = len < 8 ? UINT32_MAX : idx_u32(p, 0);
    at = 8 + (((uint64_t)ix->columns.n * 4 + 7) & ~(uint64_t)7);
    if (ix->columns.n > IDX_MAX_COLUMNS || at > len ||
        (ix->columns.n && (len - at) / sizeof(idx_chunk) / ix->columns.n < ix->n_shards))
        return idx_damaged(ix, err, "columns past their section");
    ix->columns.names = p + 8;
    ix->columns.chunks = p + at;
    for (uint32_t c = 0; c < ix->columns.n; c++)
        if (idx_u32(ix->columns.names, c) >= ix->strings_len)
            return idx_damaged(ix, err, "column's name past the strings");
    for (uint32_t c = 0; c < ix->columns.n; c++) {
        if (stk_index_column_find(ix, stk_index_column(ix, c)) != (int)c)
            return idx_damaged(ix, err, "two columns of one name");
        for (uint64_t i = 0; i < ix->n_shards; i++)
            STK_TRY(chunk_check(ix, c, i, err));
    }
    return 0;
}

uint32_t stk_index_columns(const stk_index *ix)
{
    return ix->columns.n;
}

const char *stk_index_column(const stk_index *ix, uint32_t c)
{
    return c < ix->columns.n ? ix->strings + idx_u32(ix->columns.names, c) : NULL;
}

int stk_index_column_find(const stk_index *ix, const char *name)
{
    for (uint32_t c = 0; c < ix->columns.n; c++)
        if (!strcmp(stk_index_column(ix, c), name))
            return (int)c;
    return -1;
}

int stk_index_column_known(const stk_index *ix, uint32_t c)
{
    idx_chunk r;

    for (uint64_t i = 0; i < ix->n_shards; i++) {
        record(ix, c, i, &r);
        if (r.type == STK_CHUNK_UNKNOWN)
            return 0;
    }
    return 1;
}

stk_chunk_type stk_index_column_type(const stk_index *ix, uint32_t c)
{
    stk_chunk_type type = STK_CHUNK_UNKNOWN;
    idx_chunk r;

    for (uint64_t i = 0; i < ix->n_shards; i++) {
        record(ix, c, i, &r);
        type = r.type > type ? (stk_chunk_type)r.type : type;
    }
    return type;
}

int stk_index_chunk(const stk_index *ix, uint32_t c, uint64_t shard, stk_chunk *out, stk_error *err)
{
    uint64_t bytes;

    memset(out, 0, sizeof *out);
    if (c >= ix->columns.n || shard >= ix->n_shards)
        return stk_fail(err, STK_EINVAL, "column %u of %u, shard %" PRIu64 " of %" PRIu64, c,
                        ix->columns.n, shard, ix->n_shards);
    record(ix, c, shard, &out->rec);
    out->rows = rows_of(ix, shard);
    bytes = idx_chunk_bytes(&out->rec, out->rows);
    if (!bytes)
        return 0;
    STK_TRY(idx_check(ix, out->rec.at, bytes, err));
    out->data = ix->segments + out->rec.at;
    return stk_chunk_sound(out) ? 0 : idx_damaged(ix, err, "values of a column");
}
