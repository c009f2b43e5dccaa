/* SPDX-License-Identifier: Apache-2.0 */
/* local_test.c - files of this machine, and bytes in memory, through the same table. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "source/source.h"

static char folder[64], path[128];
static uint8_t content[100000];

static int setup(void **state)
{
    FILE *f;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/stoker-local-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * 31 + i / 251);
    f = fopen(path, "wb");
    if (!f || fwrite(content, 1, sizeof content, f) != sizeof content)
        return -1;
    return fclose(f);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path) | rmdir(folder);
}

static void check_reads(stk_file *f)
{
    static uint8_t got[sizeof content];
    stk_io io = { .offset = 1234, .len = 5000, .dst = got, .file = f };
    stk_file_info info;
    stk_error err;

    assert_int_equal(stk_file_stat(f, &info, &err), 0);
    assert_int_equal(info.size, sizeof content);
    assert_int_equal(f->source->read(f, &io), 0);
    assert_int_equal(io.got, 5000);
    assert_memory_equal(got, content + 1234, 5000);
    io.offset = sizeof content - 10;
    assert_int_equal(f->source->read(f, &io), 0); /* the end of the file is a short count */
    assert_int_equal(io.got, 10);
    io.offset = 1u << 30;
    assert_int_equal(f->source->read(f, &io), 0);
    assert_int_equal(io.got, 0);
    assert_int_equal(stk_file_read(f, 0, got, sizeof got, &err), 0);
    assert_memory_equal(got, content, sizeof got);
    assert_int_equal(stk_file_read(f, 10, got, sizeof got, &err), STK_ECORRUPT);
    assert_int_equal(err.offset, 10);
    assert_non_null(strstr(err.message, "cut short"));
}

static void check_try_reads(stk_file *f)
{
    static uint8_t got[sizeof content + 100];
    stk_io io = { .len = sizeof content, .dst = got, .file = f };
    int rc;

    assert_int_equal(stk_file_read(f, 0, got, sizeof content, NULL), 0); /* now cached */
    memset(got, 0, sizeof got);
    rc = f->source->try_read(f, &io);
    assert_true(rc == 0 || rc == STK_PENDING);
    if (rc == 0) {
        assert_int_equal(io.got, sizeof content);
        assert_memory_equal(got, content, sizeof content);
    }
    io.offset = 50;
    rc = f->source->try_read(f, &io); /* past the end: short, not pending without limit */
    assert_true(rc == STK_PENDING || io.got == sizeof content - 50);
}

static void local_reads(void **state)
{
    stk_file_info info;
    stk_file *f = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &f, &err), 0);
    check_reads(f);
    check_try_reads(f);
    assert_int_equal(stk_source_local.ready(f, 1, &info, &err), 0);
    assert_true(info.mtime_ns > 1500000000000000000);
    stk_file_close(&f);
    assert_null(f);
    stk_file_close(&f);
}

/* Out of the page cache (where the system obeys): "would wait", with nothing half done, or all. */
static void cold_reads(void **state)
{
    static uint8_t got[sizeof content];
    stk_io io = { .len = sizeof content, .dst = got };
    stk_file *f = NULL;
    int fd = open(path, O_RDONLY), rc;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd) | posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) | close(fd), 0);
    assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &f, NULL), 0);
    rc = f->source->try_read(f, &io);
    print_message("cold try_read: %s\n", stk_code_name(rc));
    assert_true((rc == 0 && io.got == sizeof content) || (rc == STK_PENDING && io.got == 0));
    assert_int_equal(f->source->read(f, &io), 0);
    assert_int_equal(io.got, sizeof content);
    assert_memory_equal(got, content, sizeof content);
    stk_file_close(&f);
}

/* procfs knows no RWF_NOWAIT: read plainly, the second time at once. */
static void without_nowait(void **state)
{
    char got[2][4096];
    stk_io io = { .len = sizeof got[0] };
    stk_file *f = NULL;

    (void)state;
    if (stk_source_local.open(STK_URL("/proc/version", NULL), &f, NULL))
        skip();
    for (int i = 0; i < 2; i++) {
        io.dst = got[i];
        assert_int_equal(f->source->try_read(f, &io), 0);
        assert_true(io.got > 5 && io.got < sizeof got[0]);
        assert_memory_equal(got[i], "Linux", 5);
    }
    stk_file_close(&f);
}

static void file_urls(void **state)
{
    char url[192];
    stk_file *f = NULL;

    (void)state;
    snprintf(url, sizeof url, "file://%s", path);
    assert_int_equal(stk_source_local.open(STK_URL(url, NULL), &f, NULL), 0);
    check_reads(f);
    stk_file_close(&f);
    snprintf(url, sizeof url, "file://localhost%s", path);
    assert_int_equal(stk_source_local.open(STK_URL(url, NULL), &f, NULL), 0);
    stk_file_close(&f);
}

static void open_errors(void **state)
{
    char name[192];
    stk_file *f = (stk_file *)1;
    stk_error err;

    (void)state;
    snprintf(name, sizeof name, "%s/none", folder);
    assert_int_equal(stk_source_local.open(STK_URL(name, NULL), &f, &err), STK_ENOTFOUND);
    assert_null(f);
    assert_string_equal(err.shard, name);
    assert_string_equal(err.message, "no such file");
    assert_int_equal(stk_source_local.open(STK_URL(folder, NULL), &f, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "directory"));
    assert_string_equal(err.shard, folder);
    assert_int_equal(mkfifo(name, 0600), 0);
    /* and does not wait */
    assert_int_equal(stk_source_local.open(STK_URL(name, NULL), &f, &err), STK_EIO);
    assert_int_equal(unlink(name), 0);
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(path, 0), 0);
        assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &f, &err), STK_EIO);
        assert_non_null(strstr(err.message, "permission"));
        assert_int_equal(chmod(path, 0600), 0);
    }
}

static void absurd_offsets(void **state)
{
    uint8_t byte;
    stk_io io = { .offset = UINT64_MAX - 3, .len = 1, .dst = &byte };
    stk_file *f = NULL;

    (void)state;
    assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &f, NULL), 0);
    assert_int_equal(f->source->read(f, &io), STK_EIO);
    assert_int_equal(io.rc, STK_EIO);
    assert_int_equal(f->source->try_read(f, &io), STK_EIO);
    stk_file_close(&f);
}

static void memory_reads(void **state)
{
    stk_file *f = NULL, *g = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_source_memory.open(STK_URL("mem://x", NULL), &f, &err), STK_ENOTFOUND);
    assert_string_equal(err.shard, "mem://x");
    assert_int_equal(stk_memory_put("x", content, sizeof content, &err), 0);
    assert_int_equal(stk_source_memory.open(STK_URL("mem://x", NULL), &f, &err), 0);
    check_reads(f);
    check_try_reads(f);
    assert_ptr_equal(f->source->peek(f, 77, 100), content + 77);
    assert_null(f->source->peek(f, sizeof content - 99, 100));
    assert_null(f->source->peek(f, UINT64_MAX, 1));
    assert_int_equal(stk_memory_put("x", content, 5, &err), 0); /* replaced */
    assert_int_equal(stk_source_memory.open(STK_URL("mem://x", NULL), &g, &err), 0);
    assert_null(g->source->peek(g, 0, 6));
    assert_int_equal(stk_memory_put("x", NULL, 0, &err), 0);
    assert_int_equal(stk_memory_put("x", NULL, 0, &err), 0);
    check_reads(f); /* an open file outlives its name */
    stk_file_close(&f);
    stk_file_close(&g);
    assert_int_equal(stk_source_memory.open(STK_URL("mem://x", NULL), &f, &err), STK_ENOTFOUND);
}

/* ---- retries and reasons ---- */

static int flaky_left, flaky_sys;

static int flaky_read(stk_file *f, stk_io *io)
{
    (void)f;
    io->rc = flaky_left ? STK_EIO : 0;
    io->sys = flaky_left ? flaky_sys : 0;
    io->got = flaky_left ? 0 : io->len;
    flaky_left -= flaky_left > 0;
    return io->rc;
}

static int flaky_reason(const stk_io *io, char *text, size_t size)
{
    return io->sys == 4711 && snprintf(text, size, "no such bucket") > 0;
}

/* STK_EIO is retried before it is reported, as base.h says, here too. */
static void failed_reads(void **state)
{
    const stk_source flaky = { .name = "flaky", .read = flaky_read, .reason = flaky_reason };
    static const struct {
        int sys;
        const char *says;
    } why[] = { { EIO, "Input/output error" },
                { -503, "HTTP status 503" },
                { 0, "EIO" },
                { 4711, "no such bucket" } };
    stk_file f = { &flaky };
    stk_error err;
    char byte;

    (void)state;
    flaky_sys = EIO;
    flaky_left = STK_IO_TRIES - 1;
    assert_int_equal(stk_file_read(&f, 0, &byte, 1, &err), 0);
    assert_int_equal(flaky_left, 0);
    for (int i = 0; i < 4; i++) {
        flaky_left = STK_IO_TRIES + 1;
        flaky_sys = why[i].sys;
        assert_int_equal(stk_file_read(&f, 7, &byte, 1, &err), STK_EIO);
        assert_int_equal(flaky_left, 1);
        assert_int_equal(err.offset, 7);
        if (!strstr(err.message, why[i].says))
            fail_msg("\"%s\" has no \"%s\"", err.message, why[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_reads),    cmocka_unit_test(cold_reads),
        cmocka_unit_test(without_nowait), cmocka_unit_test(file_urls),
        cmocka_unit_test(open_errors),    cmocka_unit_test(absurd_offsets),
        cmocka_unit_test(memory_reads),   cmocka_unit_test(failed_reads),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
