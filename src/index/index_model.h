/* SPDX-License-Identifier: Apache-2.0 */
/* index_model.h - tests only: made-up shards, of which any sample can be computed without storing
 * it.
 *
 * Everything of sample `row` of shard `shard` is a function of (seed, shard, row), so an index
 * of a million samples is checked against arithmetic. */
#ifndef STOKER_INDEX_MODEL_H
#define STOKER_INDEX_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "index/layout.h"

typedef struct model {
    uint64_t seed, shards;
    uint64_t per_shard; /* most samples of a shard; with `even`, exactly as many */
    int even;           /* all samples have two small fields and keys of 9 bytes */
} model;

typedef struct model_sample {
    char key[64];
    size_t key_len;
    uint64_t offset;
    uint32_t n;
    stk_field f[5];
    char names[5][16];
} model_sample;

static inline uint64_t model_draw(const model *m, uint64_t shard, uint64_t row, uint64_t what)
{
    return stk_mix64(stk_mix64(stk_mix64(m->seed + 1) ^ (shard << 40 | row)) ^
                     what * 0x9E3779B97F4A7C15u);
}

static inline uint64_t model_samples(const model *m, uint64_t shard)
{
    return m->even ? m->per_shard : model_draw(m, shard, UINT32_MAX, 0) % (m->per_shard + 1);
}

static inline void model_sample_get(const model *m, uint64_t shard, uint64_t row, model_sample *out)
{
    static const char *const names[] = { "jpg", "cls", "json", "txt", "seg.png" };
    uint64_t r = model_draw(m, shard, row, 1);

    if (m->even) {
        out->key_len = (size_t)snprintf(out->key, sizeof out->key, "%09u", (unsigned)row);
        out->offset = row * 10240;
        out->n = 2;
    } else {
        out->key_len = (size_t)snprintf(out->key, r % 50 + 1, "k%u-%016llx-%016llx", (unsigned)row,
                                        (unsigned long long)r, (unsigned long long)~r);
        out->key_len = out->key_len < r % 50 ? out->key_len : r % 50;
        out->offset = row * ((uint64_t)1 << 34) + r % 1000; /* shards of more than 4 GiB */
        out->n = (uint32_t)(r >> 20) % 5;
    }
    for (uint32_t k = 0; k < out->n; k++) {
        uint64_t d = model_draw(m, shard, row, 2 + k);

        out->f[k].name = names[m->even ? k : (k + (r >> 30)) % 5];
        out->f[k].name_len = strlen(out->f[k].name);
        out->f[k].offset = out->offset + 512 + k * 4096;
        out->f[k].size = d % 4000;
        if (!m->even && d >> 60 == 1)
            out->f[k].size = ((uint64_t)5 << 30) + d % 1000; /* wide by size */
        if (!m->even && d >> 60 == 2)
            out->f[k].offset = out->offset + ((uint64_t)6 << 30); /* by distance */
        if (!m->even && d >> 60 == 3 && out->offset > 5000)
            out->f[k].offset = out->offset - 5000; /* by being before its sample */
    }
}

static inline void model_info(uint64_t shard, stk_shard_info *out, char name[32])
{
    snprintf(name, 32, "part/%06u.tar", (unsigned)shard);
    *out = (stk_shard_info){ .name = name,
                             .size = shard * 7 + 1,
                             .mtime_ns = (int64_t)shard * 11 - 5,
                             .etag = shard % 3 ? "" : "\"tag\"",
                             .print = stk_mix64(shard) };
}

static inline stk_index_part *model_part(const model *m, uint64_t shard)
{
    stk_index_part *p = NULL;
    stk_error err;
    model_sample s;

    assert_int_equal(stk_index_part_open(&p, &err), 0);
    for (uint64_t row = 0; row < model_samples(m, shard); row++) {
        model_sample_get(m, shard, row, &s);
        assert_int_equal(stk_index_part_scan(p)->sample(stk_index_part_scan(p),
                                                        (stk_bytes){ (uint8_t *)s.key, s.key_len },
                                                        s.offset, s.f, s.n, &err),
                         0);
    }
    return p;
}

static inline void model_add(const model *m, stk_index_writer *w, uint64_t shard)
{
    stk_index_part *p = model_part(m, shard);
    stk_shard_info info;
    stk_error err;
    char name[32];

    model_info(shard, &info, name);
    assert_int_equal(stk_index_writer_add(w, shard, &info, p, &err), 0);
    stk_index_part_close(&p);
}

static inline void model_write(const model *m, const char *path)
{
    stk_index_writer *w = NULL;
    stk_error err;

    assert_int_equal(stk_index_writer_open(&w, path, "tar", m->shards, &err), 0);
    for (uint64_t i = 0; i < m->shards; i++)
        model_add(m, w, m->shards - 1 - i); /* any order will do */
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    stk_index_writer_close(&w);
}

static inline void model_check_sample(const model *m, const stk_index *ix, uint64_t id,
                                      uint64_t shard, uint64_t row)
{
    model_sample s;
    stk_entry e;
    stk_field f;
    stk_error err;

    model_sample_get(m, shard, row, &s);
    stk_index_prefetch(ix, id);
    assert_int_equal(stk_index_entry(ix, id, &e, &err), 0);
    assert_int_equal(e.shard, shard);
    assert_int_equal(e.row, row);
    assert_int_equal(e.offset, s.offset);
    assert_int_equal(e.n_fields, s.n);
    assert_int_equal(e.key.len, s.key_len);
    assert_memory_equal(e.key.data, s.key, s.key_len);
    for (uint32_t k = 0; k < s.n; k++) {
        assert_int_equal(stk_index_field(ix, &e, k, &f, &err), 0);
        assert_string_equal(f.name, s.f[k].name);
        assert_int_equal(f.name_len, s.f[k].name_len);
        assert_int_equal(f.offset, s.f[k].offset);
        assert_int_equal(f.size, s.f[k].size);
        assert_int_equal(stk_index_schema_find(ix, e.schema, f.name), (int)k);
    }
    assert_int_equal(stk_index_schema_find(ix, e.schema, "absent"), -1);
}

static inline void model_check(const model *m, const stk_index *ix)
{
    stk_shard_info want, got;
    uint64_t id = 0;
    char name[32];

    assert_int_equal(stk_index_shards(ix), m->shards);
    assert_string_equal(stk_index_format(ix), "tar");
    for (uint64_t s = 0; s < m->shards; s++) {
        model_info(s, &want, name);
        assert_int_equal(stk_index_shard(ix, s, &got, NULL), 0);
        assert_string_equal(got.name, want.name);
        assert_string_equal(got.etag, want.etag);
        assert_int_equal(got.size, want.size);
        assert_int_equal(got.mtime_ns, want.mtime_ns);
        assert_int_equal(got.print, want.print);
        assert_int_equal(got.first, id);
        assert_int_equal(got.samples, model_samples(m, s));
        for (uint64_t row = 0; row < got.samples; row++)
            model_check_sample(m, ix, id++, s, row);
    }
    assert_int_equal(stk_index_samples(ix), id);
}

/* Calls every function of an index for every sample; returns the first error. */
static inline int index_walk(const stk_index *ix, stk_error *err)
{
    stk_shard_info s;
    stk_entry e;
    stk_field f;
    uint64_t sink = 0;

    for (uint64_t i = 0; i < stk_index_shards(ix); i++) {
        STK_TRY(stk_index_shard(ix, i, &s, err));
        sink += strlen(s.name) + strlen(s.etag);
    }
    for (uint32_t i = 0; i < stk_index_names(ix); i++)
        sink += strlen(stk_index_name(ix, i)) + (uint64_t)stk_index_schema_find(ix, i, "cls");
    for (uint64_t i = 0; i < stk_index_samples(ix); i++) {
        stk_index_prefetch(ix, i);
        STK_TRY(stk_index_entry(ix, i, &e, err));
        for (size_t k = 0; k < e.key.len; k++)
            sink += e.key.data[k];
        for (uint32_t k = 0; k < e.n_fields; k++) {
            STK_TRY(stk_index_field(ix, &e, k, &f, err));
            sink += f.offset + f.size + strlen(f.name);
        }
    }
    return sink == 1 ? STK_END : 0; /* keeps the reads */
}

/* Sets `path` to a folder for this test alone, below the current one. */
static inline void test_folder(char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(path, size, "%s/stoker-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
}

static inline void test_remove(const char *folder)
{
    char cmd[2048];

    snprintf(cmd, sizeof cmd, "chmod -Rf u+rwx '%s'; rm -rf '%s'", folder, folder);
    assert_int_equal(system(cmd), 0);
}

static inline uint8_t *test_slurp(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    uint8_t *p;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    p = malloc(*len + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *len, f), *len);
    fclose(f);
    return p;
}

static inline void test_spill(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* How many names in the folder contain `part`. */
static inline int test_count(const char *folder, const char *part)
{
    char cmd[2048];
    FILE *p;
    int n = -1;

    snprintf(cmd, sizeof cmd, "ls -a '%s' 2>/dev/null | grep -c -- '%s'", folder, part);
    p = popen(cmd, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

#endif
