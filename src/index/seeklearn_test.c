/* SPDX-License-Identifier: Apache-2.0 */
/* seeklearn_test.c - what several threads find is there at once, for all of them; files join what
 * is there with what was found; memory is bounded. */
#include "index/seeklearn.h"

#include <pthread.h>
#include <stdatomic.h>

#include "index/index_model.h"

#define THREADS 4
#define SHARDS 3
#define ROWS 1500

static char dir[512];

typedef struct hands {
    stk_learn *l;
    uint64_t seed, step;
    _Atomic uint64_t kept;
} hands;

static size_t record(const stk_learn_place *p, uint8_t *out)
{
    uint64_t r = stk_mix64(p->shard << 40 ^ p->row << 3 ^ p->field);
    size_t n = r % 5 ? (size_t)(r >> 8) % 60 + 1 : 0;

    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(r >> i % 7);
    return n;
}

static void same(stk_bytes got, const stk_learn_place *p)
{
    uint8_t bytes[64];

    assert_int_equal(got.len, record(p, bytes));
    if (got.len)
        assert_memory_equal(got.data, bytes, got.len);
}

/* Every step-th row of all shards, from a place of the thread's own; others are at it too. */
static void *find_some(void *cookie)
{
    hands *h = cookie;
    uint64_t from = stk_mix64((uint64_t)(uintptr_t)&from), tried_in_vain = 0;

    for (uint64_t i = 0; i < SHARDS * ROWS; i++) {
        uint64_t at = (i + from) % (SHARDS * ROWS);
        stk_learn_place p = { at / ROWS, at % ROWS, (uint32_t)(at % 7 == 0) };
        uint8_t bytes[64];
        stk_bytes got;
        int tried;

        if (at % h->step != h->seed)
            continue;
        got = stk_learn_get(h->l, &p, &tried);
        if (tried)
            same(got, &p);
        else
            h->kept += (uint64_t)stk_learn_put(h->l, &p, (stk_bytes){ bytes, record(&p, bytes) },
                                               1000);
        got = stk_learn_get(h->l, &p, &tried);
        assert_true(tried);
        same(got, &p);
        tried_in_vain += !got.len;
    }
    assert_true(tried_in_vain > 0);
    return NULL;
}

static void find_all(stk_learn *l, uint64_t seed, uint64_t step)
{
    hands h = { .l = l, .seed = seed, .step = step };
    pthread_t thread[THREADS];
    uint64_t want = 0;

    for (uint64_t at = 0; at < SHARDS * ROWS; at++)
        want += at % step == seed;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, find_some, &h), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(h.kept, want); /* each once, however many were at it */
}

static stk_index *open_index(char *path, size_t size)
{
    model m = { .seed = 3, .shards = SHARDS, .per_shard = ROWS, .even = 1 };
    stk_index *ix = NULL;

    snprintf(path, size, "%s/a.idx", dir);
    model_write(&m, path);
    assert_int_equal(stk_index_open(&ix, path, NULL), 0);
    return ix;
}

/* Rows of the classes below `n` of `step` are there, others not. */
static void check(const char *path, const stk_index *ix, uint64_t n, uint64_t step)
{
    stk_seek_room room = { 0 };
    stk_seekfile *s = NULL;
    uint64_t fields, others, bytes, want = 0;

    assert_int_equal(stk_seekfile_open(&s, path, ix, NULL), 0);
    for (uint64_t at = 0; at < SHARDS * ROWS; at++) {
        stk_learn_place p = { at / ROWS, at % ROWS, (uint32_t)(at % 7 == 0) };
        stk_bytes got = stk_seekfile_get(s, &p, &room);

        if (at % step < n)
            same(got, &p);
        else
            assert_null(got.data);
        want += got.len != 0;
    }
    stk_seekfile_counts(s, &fields, &others, &bytes);
    assert_int_equal(fields, want);
    assert_int_equal(bytes, 1000 * want);
    assert_false(stk_seekfile_whole(s)); /* somebody has to look at the others */
    stk_seekfile_close(&s);
    stk_seek_room_fini(&room);
}

static void joined(void **state)
{
    char index[600], path[600];
    stk_index *ix = open_index(index, sizeof index);
    stk_learn *a = NULL, *b = NULL;
    uint8_t *before, *after;
    stk_lock_file lock;
    size_t len, n;

    (void)state;
    snprintf(path, sizeof path, "%s/a.seek", dir);
    assert_int_equal(stk_learn_open(&a, ix, index, path, 1 << 30, NULL), 0);
    assert_int_equal(stk_learn_open(&b, ix, index, path, 1 << 30, NULL), 0);
    assert_int_equal(stk_learn_write(a, NULL), 0); /* nothing to write */
    assert_int_equal(test_count(dir, "seek"), 0);
    find_all(a, 0, 3);
    assert_int_equal(stk_seek_lock(index, &lock), 0);
    assert_int_equal(stk_learn_write(a, NULL), STK_END); /* somebody else is at it */
    stk_lock_drop(&lock);
    assert_int_equal(stk_learn_write(a, NULL), 0);
    check(path, ix, 1, 3);
    find_all(b, 1, 3); /* of another process, that knows nothing of the first */
    assert_int_equal(stk_learn_write(b, NULL), 0);
    check(path, ix, 2, 3);
    before = test_slurp(path, &len);
    assert_int_equal(stk_learn_write(a, NULL), 0); /* nothing new */
    after = test_slurp(path, &n);
    assert_int_equal(n, len);
    assert_memory_equal(before, after, len);
    find_all(a, 2, 3);
    assert_int_equal(stk_learn_write(a, NULL), 0);
    check(path, ix, 3, 3);
    free(before);
    free(after);
    stk_learn_close(&a);
    stk_learn_close(&b);
    stk_index_close(&ix);
}

static void bounded(void **state)
{
    char index[600];
    stk_index *ix = open_index(index, sizeof index);
    stk_learn *l = NULL;
    stk_learn_place p = { 0 };
    uint8_t bytes[1000] = { 0 };
    uint64_t kept = 0;

    (void)state;
    assert_int_equal(stk_learn_open(&l, ix, index, "", 100000, NULL), 0);
    for (p.row = 0; p.row < 1000; p.row++)
        kept += (uint64_t)stk_learn_put(l, &p, (stk_bytes){ bytes, sizeof bytes }, 1);
    assert_true(stk_learn_full(l) && kept > 50 && kept < 100);
    assert_int_equal(stk_learn_count(l), kept);
    p.shard = SHARDS;
    assert_int_equal(stk_learn_put(l, &p, (stk_bytes){ bytes, 1 }, 1), 0);
    p = (stk_learn_place){ .row = 1 << 20 };
    assert_int_equal(stk_learn_put(l, &p, (stk_bytes){ bytes, 1 }, 1), 0);
    assert_int_equal(stk_learn_write(l, NULL), 0); /* nowhere to write */
    stk_learn_close(&l);
    stk_index_close(&ix);
}

static int setup(void **state)
{
    (void)state;
    test_folder(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(joined), cmocka_unit_test(bounded) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
