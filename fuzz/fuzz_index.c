/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index - any bytes as an index: everything that can be asked for is a clean answer or a
 * clean error.
 *
 * Also with all checksums put right, which chance would never do.  What can be walked is carried
 * over, shard by shard, into a new index, which must tell the same story. */
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "fuzz.h"
#include "index/layout.h"

#define MAX_SAMPLES 4000u /* shards of a hostile index may share one segment */
#define MAX_FIELDS 64u

static int hear_sample(const stk_index *ix, uint64_t id, uint64_t *hash, stk_error *err)
{
    stk_entry e;
    stk_field f;

    STK_TRY(stk_index_entry(ix, id, &e, err));
    FUZZ_CHECK(e.shard < stk_index_shards(ix) && e.schema < stk_index_schemas(ix));
    *hash = stk_hash64(*hash ^ e.offset, e.key.data, e.key.len);
    for (uint32_t k = 0; k < e.n_fields && k < MAX_FIELDS; k++) {
        STK_TRY(stk_index_field(ix, &e, k, &f, err));
        FUZZ_CHECK(f.offset <= UINT64_MAX - f.size);
        FUZZ_CHECK(stk_index_schema_find(ix, e.schema, f.name) >= 0);
        *hash = stk_hash64(*hash ^ f.offset ^ f.size << 20, f.name, f.name_len);
    }
    FUZZ_CHECK(stk_index_field(ix, &e, e.n_fields, &f, NULL) < 0);
    return 0;
}

/* The same for any order of columns: a copy has them by name. */
static uint64_t hear_chunk(const char *name, uint64_t shard, const stk_chunk *c)
{
    uint64_t hash = stk_hash64(shard, name, strlen(name)) ^ c->rec.type;
    uint64_t n = c->rows < MAX_SAMPLES ? c->rows : MAX_SAMPLES;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t row = c->rows - 1 - i;
        stk_bytes t = stk_chunk_text(c, row);
        double d = 0;
        int64_t v = 0;

        if (c->rec.type == STK_CHUNK_I64)
            stk_chunk_i64(c, row, 1, &v);
        if (c->rec.type == STK_CHUNK_F64)
            stk_chunk_f64(c, row, 1, &d);
        FUZZ_CHECK(stk_chunk_valid(c, row) || (!t.data && !v));
        hash = stk_mix64(hash ^ (uint64_t)v ^ stk_hash64((uint64_t)(d == d), &d, sizeof d));
        hash = t.len ? stk_hash64(hash, t.data, t.len) : hash;
    }
    return hash;
}

static int hear_columns(const stk_index *ix, uint64_t *hash, stk_error *err)
{
    stk_chunk c, text;

    for (uint32_t k = 0; k < stk_index_columns(ix); k++) {
        const char *name = stk_index_column(ix, k);
        int known = 1;

        FUZZ_CHECK(stk_index_column_find(ix, name) == (int)k);
        for (uint64_t i = 0; i < stk_index_shards(ix); i++) {
            STK_TRY(stk_index_chunk(ix, k, i, &c, err));
            FUZZ_CHECK((stk_chunk_type)c.rec.type <= stk_index_column_type(ix, k));
            known &= c.rec.type != STK_CHUNK_UNKNOWN;
            if (c.rec.type == STK_CHUNK_UNKNOWN)
                continue;
            *hash ^= hear_chunk(name, i, &c);
            if (c.rec.type < STK_CHUNK_TEXT && c.rows <= MAX_SAMPLES) {
                FUZZ_CHECK(stk_chunk_to_text(&c, &text, NULL) == 0);
                stk_chunk_fini(&text);
            }
        }
        FUZZ_CHECK(stk_index_column_known(ix, k) == known);
    }
    FUZZ_CHECK(!stk_index_column(ix, stk_index_columns(ix)));
    return 0;
}

static int hear(const stk_index *ix, uint64_t *hash, stk_error *err)
{
    uint64_t n = stk_index_samples(ix);
    stk_shard_info s;
    stk_entry e;

    *hash = n;
    for (uint64_t i = 0; i < stk_index_shards(ix); i++) {
        STK_TRY(stk_index_shard(ix, i, &s, err));
        *hash = stk_hash64(*hash ^ s.size, s.name, strlen(s.name));
        *hash = stk_hash64(*hash ^ s.first ^ s.samples << 20, s.etag, strlen(s.etag));
    }
    for (uint32_t i = 0; i < stk_index_names(ix); i++)
        FUZZ_CHECK(strlen(stk_index_name(ix, i)) < UINT32_MAX);
    FUZZ_CHECK(!stk_index_name(ix, stk_index_names(ix)));
    FUZZ_CHECK(stk_index_entry(ix, n, &e, NULL) < 0);
    for (uint64_t i = 0; i < n && i < MAX_SAMPLES; i++) {
        stk_index_prefetch(ix, n - 1 - i);
        STK_TRY(hear_sample(ix, i, hash, err));
    }
    return hear_columns(ix, hash, err);
}

static void carry_over(const stk_index *ix, uint64_t want)
{
    stk_index_writer *w = NULL;
    stk_index *copy = NULL;
    stk_shard_info s;
    uint64_t hash = 0;
    int rc = 0;

    FUZZ_CHECK(stk_index_writer_open(&w, NULL, "tar", stk_index_shards(ix), NULL) == 0);
    for (uint64_t i = stk_index_shards(ix); rc == 0 && i-- > 0;) {
        FUZZ_CHECK(stk_index_shard(ix, i, &s, NULL) == 0);
        rc = stk_index_writer_reuse(w, i, &s, ix, i, NULL);
    }
    if (rc == 0) {
        FUZZ_CHECK(stk_index_writer_commit(w, NULL) == 0);
        FUZZ_CHECK(stk_index_open_fd(&copy, stk_index_writer_fd(w), "copy", NULL) == 0);
        FUZZ_CHECK(hear(copy, &hash, NULL) == 0 && hash == want);
    }
    stk_index_close(&copy);
    stk_index_writer_close(&w);
}

static void once(const uint8_t *data, size_t size)
{
    stk_index *ix = NULL;
    stk_error err;
    uint64_t hash;
    int rc;

    memset(&err, 0, sizeof err);
    rc = stk_index_open_mem(&ix, data, size, &err);
    FUZZ_CHECK((rc == 0) == (ix != NULL));
    if (rc == 0)
        rc = hear(ix, &hash, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    if (rc == 0 && stk_index_shards(ix) <= 64)
        carry_over(ix, hash);
    stk_index_close(&ix);
}

/* Put every checksum right, and the size. */
static void seal(uint8_t *data, size_t size)
{
    idx_section seg = { 0 }, s;
    uint64_t total = size;
    uint32_t n, crc;

    if (size < IDX_HEAD)
        return;
    memcpy(data, IDX_MAGIC, 8);
    memcpy(data + 16, &total, 8);
    n = idx_u32(data + 12, 0);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n && i < IDX_MAX_SECTIONS; i++) {
            memcpy(&s, data + IDX_SECTIONS_AT + i * sizeof s, sizeof s);
            if (s.offset > size || s.len > size - s.offset || s.offset < IDX_HEAD)
                continue;
            if (s.id == SEC_SEGMENTS)
                seg = s;
            for (uint64_t b = 0;
                 pass && s.id == SEC_BLOCKS && b * IDX_BLOCK < seg.len && b < s.len / 4; b++) {
                uint64_t left = seg.len - b * IDX_BLOCK;

                crc = stk_crc32c(0, data + seg.offset + b * IDX_BLOCK,
                                 left < IDX_BLOCK ? left : IDX_BLOCK);
                memcpy(data + s.offset + b * 4, &crc, 4);
            }
            s.crc = stk_crc32c(0, data + s.offset, s.len);
            memcpy(data + IDX_SECTIONS_AT + i * sizeof s, &s, sizeof s);
        }
    crc = stk_crc32c(0, data, IDX_HEAD - 4);
    memcpy(data + IDX_HEAD - 4, &crc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    FUZZ_CHECK(copy);
    once(data, size);
    if (size)
        memcpy(copy, data, size);
    seal(copy, size);
    once(copy, size);
    free(copy);
    return 0;
}
