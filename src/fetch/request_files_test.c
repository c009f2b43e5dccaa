/* SPDX-License-Identifier: Apache-2.0 */
/* request_files_test.c - files that lists name: read in rounds, charged, named in errors. */
#include <unistd.h>

#include "fetch/request_testing.h"

#define FILES 20u

static char folder[] = "/tmp/stoker_files_XXXXXX";
static char names[FILES][16];

static size_t size_of(uint32_t i)
{
    return i == 5 ? 0 : 100 + 1000 * (size_t)i;
}

static void write_files(void)
{
    char path[64];

    assert_non_null(mkdtemp(folder));
    for (uint32_t i = 0; i < FILES; i++) {
        FILE *f;

        snprintf(names[i], sizeof names[i], "\"f\\u%04x\"", 'a' + i);
        snprintf(path, sizeof path, "%s/f%c", folder, 'a' + (int)i);
        f = fopen(path, "wb");
        assert_non_null(f);
        for (size_t k = 0; k < size_of(i); k++)
            fputc((int)(i + k) & 255, f);
        fclose(f);
    }
}

static void remove_files(void)
{
    char path[64];

    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/f%c", folder, 'a' + (int)i);
        (void)remove(path);
    }
    assert_int_equal(rmdir(folder), 0);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
}

/* The first stage, and what its value is said to name. */
static int begin_files(stk_error *err)
{
    STK_TRY(stk_request_locate(r, name("a"), err));
    stk_request_expect_files(r);
    STK_TRY(stk_request_plan_parts(r, err));
    assert_int_equal(stk_request_try(r, err), 0);
    assert_int_equal(stk_request_finish(r, err), 0);
    assert_int_equal(stk_request_second(r, err), 0);
    for (uint32_t i = 0; i < FILES; i++)
        assert_int_equal(
            stk_request_add_file(r, folder,
                                 (stk_bytes){ (const uint8_t *)names[i], strlen(names[i]) }, err),
            0);
    return 0;
}

/* How many rounds, or an error. */
static int read_files(stk_error *err)
{
    int rounds = 0, rc;

    while ((rc = stk_request_next_files(r, err)) == 0) {
        assert_true(stk_request_goes_on(r));
        if (stk_request_try(r, err) == STK_PENDING)
            assert_int_equal(stk_request_submit(r, NULL, NULL, err), 0);
        rounds++;
    }
    return rc == STK_END ? rounds : rc;
}

static void check_files(void)
{
    stk_error err;

    assert_int_equal(stk_request_plan_parts(r, &err), 0);
    assert_int_equal(stk_request_try(r, &err), 0);
    check("a");
    for (uint32_t i = 0; i < FILES; i++) {
        stk_bytes b = stk_request_file(r, i);

        assert_int_equal(b.len, size_of(i));
        for (size_t k = 0; k < b.len; k++)
            assert_int_equal(b.data[k], (i + k) & 255);
    }
    stk_request_end(r);
    assert_int_equal(r->reads.stage, STK_REQUEST_WHOLE);
}

static void files_come_in_rounds(void **state)
{
    char path[64];
    stk_error err;

    (void)state;
    act.warm = 1;
    write_files();
    for (int again = 0; again < 2; again++) {
        assert_int_equal(begin_files(&err), 0);
        assert_int_equal(read_files(&err), 3); /* of 8 local ones */
        check_files();
    }
    assert_int_equal(begin_files(&err), 0); /* its row is not wanted any more */
    assert_int_equal(stk_request_next_files(r, &err), 0);
    stk_request_end(r);
    snprintf(path, sizeof path, "%s/fl", folder);
    assert_int_equal(remove(path), 0);
    assert_int_equal(begin_files(&err), 0);
    assert_int_equal(read_files(&err), STK_ENOTFOUND);
    assert_non_null(strstr(err.message, "file 12 of 20 that it names"));
    assert_string_equal(err.shard, path);
    assert_int_equal(r->reads.stage, STK_REQUEST_WHOLE);
    begin("ab"); /* one stage again */
    assert_int_equal(stk_request_try(r, &err), 0);
    check("ab");
    stk_request_end(r);
    assert_int_equal(stk_request_trim(r), 1);
    assert_int_equal(atomic_load(&account.used), 0);
    remove_files();
}

/* No room for the second round: all begins again when there is room for it. */
static void room_for_files(void **state)
{
    uint64_t two = 0;
    stk_error err;

    (void)state;
    act.warm = 1;
    write_files();
    for (uint32_t i = 0; i < 16; i++)
        two += size_of(i);
    account.limit = 1 << 20;
    assert_int_equal(begin_files(&err), 0);
    assert_int_equal(stk_request_next_files(r, &err), 0);
    assert_int_equal(stk_request_try(r, &err), 0);
    assert_int_equal(stk_account_take(&account, account.limit - account.used), 1); /* others */
    assert_int_equal(stk_request_next_files(r, &err), STK_ELIMIT);
    assert_int_equal(r->memory.lacks, two);
    assert_int_equal(r->reads.stage, STK_REQUEST_WHOLE); /* it has ended */
    stk_request_trim(r);
    assert_int_equal(begin_files(&err), STK_ELIMIT); /* before anything is read */
    assert_int_equal(r->memory.lacks, two);
    stk_request_trim(r);
    stk_account_give(&account, account.used);
    assert_int_equal(begin_files(&err), 0);
    assert_int_equal(r->reads.named.lacks, 0);
    assert_int_equal(read_files(&err), 3);
    check_files();
    stk_request_trim(r);
    account.limit = two - 1; /* never: a bad sample */
    assert_int_equal(begin_files(&err), 0);
    assert_int_equal(read_files(&err), STK_ELIMIT);
    assert_int_equal(r->memory.lacks, 0);
    assert_int_equal(r->reads.named.lacks, 0);
    assert_non_null(strstr(err.message, "memory_limit"));
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_in_rounds, fresh, through),
        cmocka_unit_test_setup_teardown(room_for_files, fresh, through),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
