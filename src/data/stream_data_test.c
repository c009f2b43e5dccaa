/* SPDX-License-Identifier: Apache-2.0 */
/* stream_data_test.c - blocks of streams under many rows: all samples in their order, in whichever
 * order rows ask for them, and places. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "data/stream.h"
#include "format/tar_write.h"
#include "index/index_model.h"

enum { SHARDS = 5, THREADS = 4, ROWS = 6000 };

static char dir[512];
static uint32_t samples[SHARDS];

static void shard_write(uint32_t s, uint32_t first)
{
    stk_tar_writer *w = NULL;
    char path[600], name[64], text[16];
    stk_error err;

    snprintf(path, sizeof path, "%s/%u.tar", dir, s);
    assert_int_equal(stk_tar_writer_open(&w, path, NULL, 1, &err), 0);
    for (uint32_t i = 0; i < samples[s]; i++) {
        size_t n = (size_t)snprintf(name, sizeof name, "%06u.n", first + i);
        size_t len = (size_t)snprintf(text, sizeof text, "%u", first + i);

        assert_int_equal(stk_tar_writer_add(w, (stk_bytes){ (const uint8_t *)name, n },
                                            (stk_bytes){ (const uint8_t *)text, len }, 0, &err),
                         0);
    }
    assert_int_equal(stk_tar_writer_finish(w, NULL, &err), 0);
    assert_int_equal(stk_tar_writer_publish(w, &err), 0);
    stk_tar_writer_close(&w);
}

static stk_dataset *open_all(uint32_t streams, uint64_t window, uint32_t batch)
{
    stk_stream_options o = { .size = sizeof o,
                             .streams = streams,
                             .window = window,
                             .batch = batch,
                             .shuffle = window ? STK_YES : STK_NO,
                             .seed = 3 };
    char pattern[600];
    const char *url = pattern;
    stk_dataset *ds = NULL;
    stk_error err = { 0 };
    int rc;

    snprintf(pattern, sizeof pattern, "%s/*.tar", dir);
    rc = stk_stream_open(&ds, &url, 1, &o, &err);
    if (rc < 0)
        fail_msg("%s", err.message);
    return ds;
}

/* What sample `i` says. */
static uint32_t number(stk_dataset *ds, uint64_t i)
{
    stk_error err = { 0 };
    stk_field f = { 0 };
    stk_place p = { 0 };
    stk_entry e;
    stk_file *file;
    char text[16] = { 0 };

    assert_int_equal(ds->ops->entry(ds, i, &e, &err), 0);
    if (ds->ops->acquire(ds, e.shard, &file, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(ds->ops->field(ds, &e, 0, &f, &err), 0);
    assert_int_equal(ds->ops->locate(ds, &e, &f, 0, &p, &err), 0);
    assert_true(p.here.data && p.here.len < sizeof text);
    memcpy(text, p.here.data, p.here.len);
    ds->ops->release(ds, e.shard);
    return (uint32_t)atoi(text);
}

typedef struct rows {
    stk_dataset *ds;
    _Atomic uint64_t next;
    uint32_t *got;
} rows;

static void *take_rows(void *arg)
{
    rows *r = arg;
    uint64_t i;

    while ((i = atomic_fetch_add(&r->next, 1)) < ROWS)
        r->got[i] = number(r->ds, i);
    return NULL;
}

static void all_rows(uint32_t streams, uint64_t window, uint32_t *got)
{
    rows r = { .ds = open_all(streams, window, 4), .got = got };
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_rows, &r), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    stk_dataset_unref(&r.ds);
}

static void many_rows_see_one_order(void **state)
{
    static uint32_t got[ROWS], again[ROWS];
    uint32_t all = 0, at = 0;

    (void)state;
    for (int s = 0; s < SHARDS; s++)
        all += samples[s];
    all_rows(1, 0, got);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(got[i], at = i % all);
    assert_true(at > 0);
    all_rows(3, 100, got);
    all_rows(3, 100, again);
    assert_memory_equal(got, again, sizeof got);
}

/* Forward, back and far: each row is what it was. */
static void any_order_of_asking(void **state)
{
    static uint32_t got[ROWS];
    stk_dataset *ds = open_all(3, 100, 4);
    uint64_t h = 1;

    (void)state;
    all_rows(3, 100, got);
    for (int i = 0; i < 200; i++) {
        h = h * 6364136223846793005u + 1442695040888963407u;
        assert_int_equal(number(ds, (h >> 33) % ROWS), got[(h >> 33) % ROWS]);
    }
    stk_dataset_unref(&ds);
}

static void places(void **state)
{
    static uint32_t got[ROWS];
    stk_dataset *ds = open_all(3, 100, 4), *other;
    stk_stream_place at[256];
    stk_error err = { 0 };
    uint64_t block = 0;

    (void)state;
    for (uint64_t i = 0; i < ROWS; i++)
        got[i] = number(ds, i);
    for (uint64_t from = 0; from < ROWS; from += 731) {
        assert_int_equal(stk_stream_tell(ds, from, &block, at, &err), 0);
        assert_true(block * 300 <= from && (from < 700 || block));
        other = open_all(3, 100, 4);
        assert_int_equal(stk_stream_seek(other, block, at, 3, &err), 0);
        for (uint64_t i = from; i < from + 50 && i < ROWS; i++)
            assert_int_equal(number(other, i), got[i]);
        assert_int_equal(stk_stream_seek(other, block, at, 2, &err), STK_EINVAL);
        stk_dataset_unref(&other);
    }
    stk_dataset_unref(&ds);
}

/* What is kept stays below the limit, but for a sample of each lane; a block alone that is larger
 * is an error. */
static void a_limit_of_memory(void **state)
{
    static uint32_t got[ROWS];
    stk_dataset *ds = open_all(3, 100, 4);
    stk_stream *s = (stk_stream *)ds;
    stk_error err = { 0 };
    stk_file *file;
    stk_entry e;
    uint64_t limit = 300 * 600, most = 0;

    (void)state;
    all_rows(3, 100, got);
    stk_stream_limit(ds, limit); /* more than one block, less than two; samples are all as long */
    for (uint64_t i = 0; i < ROWS; i++) {
        stk_stream_run *r;

        assert_int_equal(number(ds, i), got[i]);
        r = atomic_load(&s->run);
        stk_mutex_lock(&r->lock);
        most = r->len > most ? r->len : most;
        stk_mutex_unlock(&r->lock);
    }
    assert_true(most > 300 * 500 && most <= limit + 3 * 1100);
    stk_dataset_unref(&ds);
    ds = open_all(3, 400, 4);
    stk_stream_limit(ds, 300 * 400);
    assert_int_equal(ds->ops->entry(ds, 0, &e, &err), 0);
    while (ds->ops->acquire(ds, e.shard, &file, &err) == 0) /* until the block is as large */
        ds->ops->release(ds, e.shard);
    assert_int_equal(err.code, STK_ENOMEM);
    assert_non_null(strstr(err.message, "lower window (400)"));
    stk_dataset_unref(&ds);
}

static int setup(void **state)
{
    uint32_t first = 0;

    (void)state;
    test_folder(dir, sizeof dir);
    for (uint32_t s = 0; s < SHARDS; s++) {
        samples[s] = 150 + 37 * s;
        shard_write(s, first);
        first += samples[s];
    }
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_rows_see_one_order),
                                        cmocka_unit_test(any_order_of_asking),
                                        cmocka_unit_test(places),
                                        cmocka_unit_test(a_limit_of_memory) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
