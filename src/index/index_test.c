/* SPDX-License-Identifier: Apache-2.0 */
/* index_test.c - reading: what was written comes back, fast and small; what is damaged is an
 * error. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "index/index_model.h"

static char dir[512];

static void at(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
}

static void round_trip(void **state)
{
    char path[600];

    for (uint64_t seed = 1; seed <= 20; seed++) {
        model m = { .seed = seed, .shards = 1 + seed * seed % 37, .per_shard = seed * 17 % 211 };
        stk_index *ix = NULL;
        stk_error err;

        print_message("seed %u\n", (unsigned)seed);
        at(path, sizeof path, "round.idx");
        model_write(&m, path);
        assert_int_equal(stk_index_open(&ix, path, &err), 0);
        model_check(&m, ix);
        stk_index_close(&ix);
    }
    assert_int_equal(test_count(dir, "tmp"), 0);
}

static void unaligned_memory(void **state)
{
    model m = { .seed = 5, .shards = 3, .per_shard = 50 };
    char path[600];
    uint8_t *data, *odd;
    stk_index *ix = NULL;
    stk_error err;
    size_t len;

    at(path, sizeof path, "mem.idx");
    model_write(&m, path);
    data = test_slurp(path, &len);
    odd = malloc(len + 3);
    memcpy(odd + 3, data, len);
    assert_int_equal(stk_index_open_mem(&ix, odd + 3, len, &err), 0);
    model_check(&m, ix);
    stk_index_close(&ix);
    free(odd);
    free(data);
}

static void edges(void **state)
{
    model m = { .seed = 1, .shards = 2, .per_shard = 0 };
    char path[600];
    stk_index *ix = NULL;
    stk_entry e;
    stk_shard_info s;
    stk_error err;

    at(path, sizeof path, "empty.idx");
    model_write(&m, path);
    assert_int_equal(stk_index_open(&ix, path, &err), 0);
    model_check(&m, ix); /* zero samples is a valid index */
    stk_index_prefetch(ix, 0);
    assert_int_equal(stk_index_entry(ix, 0, &e, &err), STK_EINVAL);
    assert_int_equal(stk_index_shard(ix, 2, &s, &err), STK_EINVAL);
    assert_null(stk_index_name(ix, 0));
    stk_index_close(&ix);
    stk_index_close(&ix);
    assert_int_equal(stk_index_open(&ix, "/nonexistent/x.idx", &err), STK_ENOTFOUND);
    assert_int_equal(stk_index_open(&ix, dir, &err), STK_EINVAL);
}

/* The promise: two fields and keys of nine bytes cost at most 48 bytes a sample; opening takes
 * well under 10 ms. */
static void million(void **state)
{
    model m = { .seed = 3, .shards = 1000, .per_shard = 1000, .even = 1 };
    uint64_t t, best = UINT64_MAX, sum = 0, n = 1000000;
    char path[600];
    stk_index *ix = NULL;
    stk_error err;
    stk_entry e;
    stk_field f;

    at(path, sizeof path, "million.idx");
    model_write(&m, path);
    for (int i = 0; i < 5; i++) {
        stk_index_close(&ix);
        t = stk_now_ns();
        assert_int_equal(stk_index_open(&ix, path, &err), 0);
        t = stk_now_ns() - t;
        best = t < best ? t : best;
    }
    print_message("1,000,000 samples: %.2f bytes a sample, open %.3f ms\n",
                  (double)stk_index_bytes(ix) / 1e6, (double)best / 1e6);
    assert_true(stk_index_bytes(ix) <= 48 * n);
    assert_true(best < 10000000);
    for (int round = 0; round < 2; round++) { /* the first one checks blocks */
        t = stk_now_ns();
        for (uint64_t i = 0; i < n; i++) {
            uint64_t id = stk_mix64(i) % n;

            stk_index_prefetch(ix, stk_mix64(i + 8) % n);
            if (stk_index_entry(ix, id, &e, &err) || stk_index_field(ix, &e, 1, &f, &err))
                fail();
            sum += f.offset + f.size + e.key.data[0];
        }
        t = stk_now_ns() - t;
        print_message("1,000,000 random entry() + field(): %.1f ns each\n", (double)t / (double)n);
    }
    assert_true(sum != 0);
    for (uint64_t i = 0; i < 1000; i++)
        model_check_sample(&m, ix, i * 997, i * 997 / 1000, i * 997 % 1000);
    stk_index_close(&ix);
}

/* Any changed byte is found: at open in head and tables, at first touch in the segments. */
static void damage(void **state)
{
    model m = { .seed = 9, .shards = 5, .per_shard = 400 };
    char path[600];
    uint8_t *data;
    size_t len;
    uint64_t walked = 0, refused = 0, pads = 0;

    at(path, sizeof path, "damage.idx");
    model_write(&m, path);
    data = test_slurp(path, &len);
    for (size_t i = 0; i < len; i += 1 + stk_mix64(i) % 23) {
        stk_index *ix = NULL;
        stk_error err;
        int rc;

        data[i] ^= 1 << i % 8;
        rc = stk_index_open_mem(&ix, data, len, &err);
        if (rc == 0) {
            rc = index_walk(ix, &err);
            walked++;
            if (rc == 0) { /* the few bytes between sections do not count */
                model_check(&m, ix);
                pads++;
            }
        } else {
            refused++;
        }
        assert_true(rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == 0);
        if (rc == STK_ECORRUPT)
            assert_non_null(strstr(err.message, "stoker index --force"));
        stk_index_close(&ix);
        data[i] ^= 1 << i % 8;
    }
    print_message("%u refused at open, %u at first touch, %u in padding\n", (unsigned)refused,
                  (unsigned)(walked - pads), (unsigned)pads);
    assert_true(refused > 100 && walked > 100 && pads < 16);
    free(data);
}

static void truncated(void **state)
{
    model m = { .seed = 10, .shards = 5, .per_shard = 2000 };
    char path[600], cut[600];
    stk_index *ix = NULL;
    stk_error err;
    uint8_t *data;
    size_t len;

    at(path, sizeof path, "whole.idx");
    at(cut, sizeof cut, "cut.idx");
    model_write(&m, path);
    data = test_slurp(path, &len);
    for (size_t n = 0; n < len; n += 4096) {
        test_spill(cut, data, n);
        assert_int_equal(stk_index_open(&ix, cut, &err), STK_ECORRUPT);
        assert_non_null(strstr(err.message, "cut.idx"));
        assert_null(ix);
    }
    test_spill(cut, data, len - 1);
    assert_int_equal(stk_index_open(&ix, cut, &err), STK_ECORRUPT);
    /* Cut while it is open: blocks that were not touched before are an error, not a signal. */
    test_spill(cut, data, len);
    assert_int_equal(stk_index_open(&ix, cut, &err), 0);
    assert_int_equal(truncate(cut, 4096), 0);
    assert_int_equal(index_walk(ix, &err), STK_EIO);
    assert_non_null(strstr(err.message, "cut.idx"));
    assert_non_null(strstr(err.message, "has 4096 now"));
    stk_index_close(&ix);
    /* What was touched before stays. */
    test_spill(cut, data, len);
    assert_int_equal(stk_index_open(&ix, cut, &err), 0);
    assert_int_equal(index_walk(ix, &err), 0);
    assert_int_equal(truncate(cut, 0), 0);
    assert_int_equal(index_walk(ix, &err), 0);
    stk_index_close(&ix);
    free(data);
}

/* A block that a thread of the parent was reading when it forked is read by the child. */
static void read_in_a_child(void **state)
{
    model m = { .seed = 3, .shards = 2, .per_shard = 40 };
    stk_index *ix = NULL;
    char path[600];
    stk_error err;

    (void)state;
    at(path, sizeof path, "child.idx");
    model_write(&m, path);
    assert_int_equal(stk_index_open(&ix, path, &err), 0);
    atomic_store(&ix->seen[0], (uint32_t)(IDX_READING + getpid() + 1));
    assert_int_equal(index_walk(ix, &err), 0);
    stk_index_close(&ix);
}

static void set_crcs(uint8_t *data)
{
    uint32_t n = idx_u32(data + 12, 0), crc;

    for (uint32_t i = 0; i < n; i++) {
        idx_section s;

        memcpy(&s, data + IDX_SECTIONS_AT + i * sizeof s, sizeof s);
        if (s.id == SEC_SEGMENTS || s.id > SEC_STRINGS)
            continue;
        s.crc = stk_crc32c(0, data + s.offset, s.len);
        memcpy(data + IDX_SECTIONS_AT + i * sizeof s, &s, sizeof s);
    }
    crc = stk_crc32c(0, data, IDX_HEAD - 4);
    memcpy(data + IDX_HEAD - 4, &crc, 4);
}

static void set_block_crcs(uint8_t *data)
{
    idx_section seg, blocks;

    memcpy(&seg, data + IDX_SECTIONS_AT, sizeof seg);
    memcpy(&blocks, data + IDX_SECTIONS_AT + sizeof seg, sizeof blocks);
    for (uint64_t b = 0; b * IDX_BLOCK < seg.len; b++) {
        uint64_t left = seg.len - b * IDX_BLOCK;
        uint32_t crc = stk_crc32c(0, data + seg.offset + b * IDX_BLOCK,
                                  left < IDX_BLOCK ? left : IDX_BLOCK);

        memcpy(data + blocks.offset + b * 4, &crc, 4);
    }
}

/* An index whose checksums are right and whose numbers lie. */
static void hostile(void **state)
{
    model m = { .seed = 11, .shards = 4, .per_shard = 60 };
    char path[600];
    uint8_t *data, *bad;
    uint64_t refused = 0;
    size_t len;

    at(path, sizeof path, "hostile.idx");
    model_write(&m, path);
    data = test_slurp(path, &len);
    bad = malloc(len);
    for (uint64_t i = 0; i < 20000; i++) {
        stk_index *ix = NULL;
        stk_error err;
        size_t where = stk_mix64(i) % (len - IDX_HEAD) + IDX_HEAD - (i % 4 ? 0 : IDX_HEAD - 16);

        memcpy(bad, data, len);
        if (where >= len - 8)
            continue;
        memset(bad + where, i % 3 ? 0xFF : (int)(i >> 4), 1 + i % 8);
        memcpy(bad + IDX_SECTIONS_AT, data + IDX_SECTIONS_AT, 6 * sizeof(idx_section));
        set_block_crcs(bad);
        set_crcs(bad);
        if (stk_index_open_mem(&ix, bad, len, &err) < 0 || index_walk(ix, &err) < 0)
            refused++;
        stk_index_close(&ix);
    }
    print_message("%u of 20000 refused\n", (unsigned)refused);
    assert_true(refused > 1000);
    free(bad);
    free(data);
}

static void unknown_section_is_ignored(void **state)
{
    model m = { .seed = 12, .shards = 2, .per_shard = 30 };
    idx_section s = { 4711, 0, UINT64_MAX, 12 };
    char path[600];
    stk_index *ix = NULL;
    stk_error err;
    uint8_t *data;
    uint32_t n;
    size_t len;

    at(path, sizeof path, "unknown.idx");
    model_write(&m, path);
    data = test_slurp(path, &len);
    n = idx_u32(data + 12, 0);
    memcpy(data + IDX_SECTIONS_AT + n * sizeof s, &s, sizeof s);
    n++;
    memcpy(data + 12, &n, 4);
    set_crcs(data);
    assert_int_equal(stk_index_open_mem(&ix, data, len, &err), 0);
    model_check(&m, ix);
    stk_index_close(&ix);
    free(data);
}

static int setup(void **state)
{
    test_folder(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    test_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(unaligned_memory),
        cmocka_unit_test(edges),           cmocka_unit_test(million),
        cmocka_unit_test(damage),          cmocka_unit_test(truncated),
        cmocka_unit_test(hostile),         cmocka_unit_test(unknown_section_is_ignored),
        cmocka_unit_test(read_in_a_child),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
