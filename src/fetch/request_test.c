/* SPDX-License-Identifier: Apache-2.0 */
/* request_test.c - one sample's reads: joined when near, shared when equal, checked when short,
 * now or later.
 *
 * The source here has its file in memory and is told how to behave: wait, answer later, come up
 * short, fail. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/shard_data.h"
#include "fetch/request.h"

#define PAD 40000

static uint8_t image[PAD * 2 + 20000];
static size_t image_len;

static struct {
    int warm;   /* try_read() has the bytes */
    int fail;   /* reads that fail with STK_EIO */
    size_t cut; /* the file ends here now */
    unsigned tries, reads;
    stk_io *queued[8];
    unsigned n_queued;
} act;

static const stk_source unit;

static int unit_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    *out = STK_NEW(stk_file);
    (void)o;
    if (!*out)
        return stk_fail(err, STK_ENOMEM, "no memory");
    (*out)->source = &unit;
    return 0;
}

static int unit_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)f;
    (void)err;
    memset(out, 0, sizeof *out);
    out->size = image_len;
    return 0;
}

static int unit_read(stk_file *f, stk_io *io)
{
    size_t end = act.cut ? act.cut : image_len;

    (void)f;
    act.reads++;
    io->got = 0;
    io->rc = io->sys = 0;
    if (act.fail) {
        act.fail -= act.fail > 0;
        io->sys = ENETDOWN;
        return io->rc = STK_EIO;
    }
    if (io->offset < end) {
        io->got = io->len < end - io->offset ? io->len : end - (size_t)io->offset;
        memcpy(io->dst, image + io->offset, io->got);
    }
    return 0;
}

static int unit_try(stk_file *f, stk_io *io)
{
    act.tries++;
    return act.warm ? unit_read(f, io) : STK_PENDING;
}

static void unit_close(stk_file *f)
{
    stk_free(f);
}

static const stk_source unit = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_source),
                                 .name = "unit",
                                 .help = "told how to behave",
                                 .scheme = "unit",
                                 .open = unit_open,
                                 .ready = unit_ready,
                                 .read = unit_read,
                                 .try_read = unit_try,
                                 .close = unit_close };

static void queue(void *cookie, stk_io *io)
{
    (void)cookie;
    act.queued[act.n_queued++] = io;
}

static void member(const char *name, uint8_t byte, size_t len)
{
    uint8_t *h = image + image_len;
    unsigned sum = 0;

    memset(h, 0, 512);
    memcpy(h, name, strlen(name));
    memcpy(h + 100, "0000644", 7);
    snprintf((char *)h + 124, 12, "%011o", (unsigned)len);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    memset(h + 512, byte, len);
    image_len += 512 + (len + 511) / 512 * 512;
}

static stk_dataset *ds;
static stk_account account;
static stk_request *r;
static unsigned arrivals;

static void arrived(stk_request *x)
{
    (void)x;
    arrivals++;
}

/* Fields of the one sample: a, b, pad, c, empty. */
static int setup(void **state)
{
    const char *urls[] = { "unit://one.tar" };
    stk_error err;

    (void)state;
    member("one.a", 'a', 10);
    member("one.b", 'b', 100);
    member("one.pad", 'p', PAD);
    member("one.c", 'c', 1000);
    member("one.empty", 0, 0);
    image_len += 1024;
    act.warm = 1;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_SOURCE, &unit, &err), 0);
    setenv("STOKER_CACHE", "/nonexistent/stoker", 1);
    if (stk_dataset_open(&ds, urls, 1, NULL, &err) < 0)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static int fresh(void **state)
{
    stk_error err;

    (void)state;
    memset(&act, 0, sizeof act);
    arrivals = 0;
    stk_account_init(&account, 1 << 20);
    assert_int_equal(stk_request_open(&r, 8, NULL, &account, &err), 0);
    r->arrived = arrived;
    return 0;
}

static int through(void **state)
{
    (void)state;
    stk_request_end(r);
    stk_request_close(&r);
    assert_int_equal(atomic_load(&account.used), 0);
    return 0;
}

static void begin(const char *names)
{
    static const char order[] = "abpce";
    uint32_t n = 0;
    stk_error err;

    r->data = ds;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    for (; names[n]; n++)
        r->want[n].number = (uint16_t)(strchr(order, names[n]) - order);
    if (stk_request_begin(r, n, &err) < 0)
        fail_msg("%s", err.message);
}

static void check(const char *names)
{
    stk_error err;

    if (stk_request_finish(r, &err) < 0)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; names[i]; i++) {
        size_t len = names[i] == 'a'   ? 10
                     : names[i] == 'b' ? 100
                     : names[i] == 'p' ? PAD
                     : names[i] == 'c' ? 1000
                                       : 0;

        assert_int_equal(r->want[i].bytes.len, len);
        for (size_t k = 0; k < len; k++)
            assert_int_equal(r->want[i].bytes.data[k], names[i]);
    }
}

static void near_fields_are_one_read(void **state)
{
    static const struct {
        const char *fields;
        unsigned reads;
    } cases[] = { { "ab", 1 },  { "ba", 1 }, { "a", 1 },   { "aa", 1 },  { "abab", 1 },
                  { "ac", 2 },  { "ca", 2 }, { "cab", 2 }, { "apc", 1 }, { "pp", 1 },
                  { "ace", 2 }, { "e", 1 },  { "ee", 1 },  { "ae", 2 },  { "bc", 2 } };
    stk_error err;

    (void)state;
    act.warm = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        act.reads = 0;
        begin(cases[i].fields);
        assert_int_equal(r->reads.n, cases[i].reads);
        assert_int_equal(stk_request_try(r, &err), 0);
        assert_int_equal(act.reads, cases[i].reads);
        check(cases[i].fields);
        stk_request_end(r);
    }
    assert_true(atomic_load(&account.used) > PAD); /* its memory is kept for the next */
    assert_int_equal(stk_request_trim(r), 1);
    assert_int_equal(stk_request_trim(r), 0);
    assert_int_equal(atomic_load(&account.used), 0);
}

static void cold_reads_come_later(void **state)
{
    stk_error err;

    (void)state;
    begin("cab");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, queue, NULL, &err), STK_PENDING);
    assert_int_equal(act.n_queued, 2);
    for (unsigned i = 2; i--;) { /* the other way round */
        uint64_t retried = 0;

        assert_int_equal(arrivals, 0);
        stk_io_read(act.queued[i], &retried);
        act.queued[i]->done(act.queued[i]);
    }
    assert_int_equal(arrivals, 1);
    check("cab");
}

static void or_here_and_now(void **state)
{
    stk_error err;

    (void)state;
    act.fail = 2;
    begin("ac");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, NULL, NULL, &err), 0);
    assert_int_equal(atomic_load(&r->retries), 2);
    assert_int_equal(arrivals, 0);
    check("ac");
}

static void failures_have_an_address(void **state)
{
    stk_error err;

    (void)state;
    act.fail = -1;
    begin("ac");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, NULL, NULL, &err), 0);
    assert_int_equal(stk_request_finish(r, &err), STK_EIO);
    assert_int_equal(err.offset, 512);
    assert_non_null(strstr(err.message, strerror(ENETDOWN)));
}

static void short_reads_are_found(void **state)
{
    stk_error err;

    (void)state;
    act.warm = 1;
    for (size_t cut = 513; cut < 3000; cut += 61) {
        int rc;

        act.cut = cut;
        begin("ab");
        assert_int_equal(stk_request_try(r, &err), 0);
        rc = stk_request_finish(r, &err);
        if (cut >= 1536 + 100) { /* b is at 1536 */
            assert_int_equal(rc, 0);
        } else {
            assert_int_equal(rc, STK_ESTALE);
            assert_int_equal(err.offset, cut < 522 ? 512 : 1536);
            assert_non_null(strstr(err.message, "it was cut after it was indexed"));
        }
        stk_request_end(r);
    }
}

static void limits(void **state)
{
    stk_error err;

    (void)state;
    r->data = ds;
    r->want[0].number = 2;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    account.limit = PAD - 1;
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ELIMIT); /* never: a bad sample */
    assert_int_equal(r->memory.lacks, 0);
    account.limit = 2 * PAD;
    assert_int_equal(stk_account_take(&account, PAD + 1), 1);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ELIMIT); /* not now */
    assert_int_equal(r->memory.lacks, PAD);
    stk_account_give(&account, PAD + 1);
    assert_int_equal(atomic_load(&account.used), 0);
    account.limit = PAD;
    assert_int_equal(stk_request_begin(r, 1, &err), 0); /* to the byte */
    stk_request_end(r);
    assert_int_equal(stk_request_trim(r), 1);
    assert_int_equal(atomic_load(&account.used), 0);
    account.limit = 1 << 20;
    stk_mem_fail_at(1);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
    assert_int_equal(atomic_load(&account.used), 0);
}

/* Data that says a field is where no file can reach. */
static int far_locate(const stk_dataset *d, const stk_entry *e, const stk_field *field, int named,
                      stk_place *out, stk_error *err)
{
    (void)d;
    (void)named;
    (void)e;
    (void)field;
    (void)err;
    *out = (stk_place){ .offset = UINT64_MAX - 10, .len = 20 };
    return 0;
}

static void places_that_wrap(void **state)
{
    stk_data_ops far = *ds->ops;
    stk_shard_data copy;
    stk_error err;

    (void)state;
    memcpy((void *)&copy, ds, sizeof copy);
    far.locate = far_locate;
    copy.base.ops = &far;
    copy.base.can &= ~(uint32_t)STK_DATA_RANGES;
    r->data = &copy.base;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ECORRUPT);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, through)
    const struct CMUnitTest tests[] = {
        T(near_fields_are_one_read), T(cold_reads_come_later), T(or_here_and_now),
        T(failures_have_an_address), T(short_reads_are_found), T(limits),
        T(places_that_wrap),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
