/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_block_test.c - single samples of a format with blocks: kept, short of memory, from
 * several threads and in forked children. */
#include <pthread.h>
#include <sys/wait.h>

#include "index/dataset_model.h"
#include "fetch/cache.h"
#include "tests/support/sanitized.h"

/* ---- a format whose fields are no ranges: blocks of 16 bytes, every byte one too high ---- */

static uint64_t rot_shift; /* what locate() adds: wrong, unless 0 */

static int rot_probe(const char *name, stk_bytes head)
{
    return head.len >= 3 && !memcmp(head.data, "ROT", 3) ? 100 : 0;
}

static int rot_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    for (uint64_t i = 0; 16 + i * 16 < size; i++) {
        stk_field field[3] = { { "a", 1, i, 0 }, { "b", 1, i, 8 }, { "raw", 3, i, 0 } };

        STK_TRY(scan->sample(scan, (stk_bytes){ (const uint8_t *)"key", 3 }, 16 + i * 16, field, 3,
                             err));
    }
    return 0;
}

static int rot_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    *out = (stk_place){ .offset = e->offset + rot_shift,
                        .len = 16,
                        .block = field->offset,
                        .shared = field->name[0] != 'r',
                        .unpacked = field->name[0] != 'r' ? 16 : 0 };
    return 0;
}

static _Atomic unsigned rot_unpacks;

static int rot_unpack(stk_bytes raw, void *dst, size_t *len, stk_error *err)
{
    char *p = dst;

    (void)err;
    rot_unpacks++;
    for (size_t i = 0; i < raw.len; i++)
        p[i] = (char)(raw.data[i] - 1);
    *len = raw.len;
    return 0;
}

static int rot_pick(stk_bytes block, const stk_entry *e, const stk_field *field, stk_bytes *out,
                    stk_error *err)
{
    *out = (stk_bytes){ block.data + field->size, 8 };
    return 0;
}

static const stk_format rot = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_format),
                                .name = "rot",
                                .help = "a test",
                                .suffixes = ".rot",
                                .probe = rot_probe,
                                .index = rot_index,
                                .locate = rot_locate,
                                .unpack = rot_unpack,
                                .pick = rot_pick };

/* Blocks are kept, and samples do without them. */
static void check_kept(stk_dataset *ds)
{
    static const uint64_t order[] = { 0, 0, 0, 1, 1, 0 };
    stk_sample *x[6];
    stk_error err;

    rot_unpacks = 0;
    for (int i = 0; i < 6; i++)
        assert_int_equal(stk_dataset_read(ds, order[i], &x[i], &err), 0);
    assert_int_equal(rot_unpacks, 2);
    for (int i = 0; i < 6; i++) {
        const void *data;
        size_t len;

        assert_string_equal(stk_sample_field(x[i], 1, &data, &len), "b");
        assert_memory_equal(data, "abcdefgh", 8);
        stk_sample_close(&x[i]);
    }
}

static void located_fields(void **state)
{
    char path[600];
    const char *urls[] = { path };
    stk_dataset_options o = { .size = sizeof o, .format = "roto" };
    stk_dataset *ds = NULL;
    stk_sample *x = NULL;
    const void *data;
    size_t len;
    stk_error err;

    assert_int_equal(stk_plugin_add(STK_PLUGIN_FORMAT, &rot, &err), 0);
    snprintf(path, sizeof path, "%s/x.rot", dir);
    test_spill(path, "ROT.............IBM9:;<=bcdefghiBCDEFGHIbcdefghi", 48);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, &o, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "did you mean rot?"));
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    assert_int_equal(stk_dataset_len(ds), 2);
    assert_int_equal(stk_dataset_read(ds, 1, &x, &err), 0);
    assert_string_equal(stk_sample_field(x, 0, &data, &len), "a");
    assert_int_equal(len, 8);
    assert_memory_equal(data, "ABCDEFGH", 8);
    assert_string_equal(stk_sample_field(x, 1, &data, &len), "b");
    assert_memory_equal(data, "abcdefgh", 8);
    assert_string_equal(stk_sample_field(x, 2, &data, &len), "raw");
    assert_memory_equal(data, "BCDEFGHIbcdefghi", 16);
    stk_sample_close(&x);
    for (uint64_t n = 1; n < 9; n++) {
        stk_dataset_unref(&ds); /* and its blocks */
        assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
        stk_mem_fail_at(n);
        assert_int_equal(stk_dataset_read(ds, 1, &x, &err), STK_ENOMEM);
        stk_mem_fail_at(0);
    }
    stk_dataset_unref(&ds);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    check_kept(ds);
    stk_dataset_unref(&ds);
}

static _Atomic int rot_stop;

static int rot_read(stk_dataset *ds, uint64_t i)
{
    stk_sample *x = NULL;
    const void *data = NULL;
    size_t len = 0;
    int wrong = stk_dataset_read(ds, i, &x, NULL) != 0;

    wrong = wrong || !stk_sample_field(x, 1, &data, &len) || len != 8 ||
            memcmp(data, "abcdefgh", 8);
    stk_sample_close(&x);
    return wrong;
}

/* Blocks are dropped now and then, so that they are also read and unpacked while others want
 * them. */
static void *rot_thread(void *arg)
{
    for (uint64_t i = 0; !rot_stop; i++) {
        if (rot_read(arg, i % 2))
            return arg;
        if (i % 16 == 0)
            stk_cache_trim(((stk_dataset *)arg)->blocks);
    }
    return NULL;
}

/* A child has none of the threads that hold locks of blocks, or read and unpack some. */
static void blocks_in_children(void **state)
{
    char path[600];
    const char *urls[] = { path };
    stk_dataset *ds = NULL;
    pthread_t t[3];
    stk_error err;

    snprintf(path, sizeof path, "%s/x.rot", dir);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    assert_int_equal(rot_read(ds, 0), 0);
    fflush(NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, rot_thread, ds), 0);
    for (int i = 0; i < 40 * TEST_FORKS_BESIDE_THREADS; i++) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            alarm(100);
            for (uint64_t k = 0; k < 6; k++)
                if (rot_read(ds, k % 2))
                    _exit(1);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
    }
    rot_stop = 1;
    for (int i = 0; i < 3; i++) {
        void *wrong = NULL;

        pthread_join(t[i], &wrong);
        assert_null(wrong);
    }
    stk_dataset_unref(&ds);
}

/* Nothing is allocated or read for a range that the shard cannot have. */
static void places_past_the_end(void **state)
{
    char path[600];
    const char *urls[] = { path };
    stk_dataset *ds = NULL;
    stk_sample *x = NULL;
    stk_error err;

    snprintf(path, sizeof path, "%s/x.rot", dir);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    for (int i = 0; i < 2; i++) {
        rot_shift = i ? 17 : (uint64_t)1 << 40;
        assert_int_equal(stk_dataset_read(ds, 0, &x, &err), STK_ECORRUPT);
        assert_null(x);
        assert_string_equal(err.message, "field a has 16 bytes and ends past the shard's 48; "
                                         "run: stoker index --force ...");
        assert_int_equal(err.offset, 16 + rot_shift);
        assert_int_equal(err.sample, 0);
        assert_string_equal(err.key, "key");
        assert_non_null(strstr(err.shard, "x.rot"));
    }
    rot_shift = 0;
    assert_int_equal(rot_read(ds, 0), 0);
    stk_dataset_unref(&ds);
}

/* ---- a sample with more fields than a loader can number, in an order that no file has ---- */

#define MANY 70000u

static uint64_t many_at(uint32_t k)
{
    return 4 + (uint64_t)(MANY - 1 - k) * 7 % 251;
}

static int many_probe(const char *name, stk_bytes head)
{
    return head.len >= 4 && !memcmp(head.data, "MANY", 4) ? 100 : 0;
}

static int many_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    stk_field *field = calloc(MANY, sizeof *field);
    char(*name)[8] = calloc(MANY, sizeof *name);
    int rc;

    for (uint32_t k = 0; k < MANY; k++) {
        snprintf(name[k], sizeof name[k], "f%05u", k);
        field[k] = (stk_field){ name[k], 6, many_at(k), 1 };
    }
    rc = scan->sample(scan, (stk_bytes){ (const uint8_t *)"key", 3 }, 4, field, MANY, err);
    free(field);
    free(name);
    return rc;
}

static void many_fields(void **state)
{
    static const stk_format many = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_format),
                                     .name = "many",
                                     .help = "a test",
                                     .suffixes = ".many",
                                     .probe = many_probe,
                                     .index = many_index };
    char path[600], bytes[256] = "MANY";
    const char *urls[] = { path };
    stk_dataset *ds = NULL;
    stk_sample *x = NULL;
    stk_error err;

    for (int i = 4; i < 256; i++)
        bytes[i] = (char)i;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_FORMAT, &many, &err), 0);
    snprintf(path, sizeof path, "%s/x.many", dir);
    test_spill(path, bytes, sizeof bytes);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    assert_int_equal(stk_dataset_read(ds, 0, &x, &err), 0);
    assert_int_equal(stk_sample_fields(x), MANY);
    for (uint32_t k = 0; k < MANY; k++) {
        const void *data;
        size_t len;

        assert_non_null(stk_sample_field(x, k, &data, &len));
        assert_int_equal(len, 1);
        assert_int_equal(*(const uint8_t *)data, many_at(k));
    }
    stk_sample_close(&x);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(located_fields),
        cmocka_unit_test(blocks_in_children),
        cmocka_unit_test(places_past_the_end),
        cmocka_unit_test(many_fields),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
