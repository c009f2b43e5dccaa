/* SPDX-License-Identifier: Apache-2.0 */
/* request_testing.h - a shard of one sample, for tests of requests.
 *
 * The source here has its file in memory and is told how to behave: wait, answer later, come up
 * short, fail. */
#ifndef STOKER_FETCH_REQUEST_TESTING_H
#define STOKER_FETCH_REQUEST_TESTING_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "data/shard_data.h"
#include "fetch/request.h"

#define PAD 40000
#define LARGE ((1 << 20) + 100000) /* more than is read in vain to save a request */

static uint8_t image[PAD * 2 + 20000 + LARGE];
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

/* Of large fields each byte says where it is. */
static uint8_t byte_of(char field, size_t at)
{
    return (uint8_t)(strchr("pl", field) && field ? at * 7 + at / 251 : (size_t)field);
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
    for (size_t i = 0; i < len; i++)
        h[512 + i] = byte_of((char)byte, i);
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

/* Fields of the one sample: a, b, pad, c, empty, large. */
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
    member("one.large", 'l', LARGE);
    image_len += 1024;
    act.warm = 1;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_SOURCE, &unit, &err), 0);
    setenv("STOKER_CACHE", "/dev/null/stoker", 1); /* where root can make no folder either */
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

static uint32_t name(const char *names)
{
    static const char order[] = "abpcel";
    uint32_t n = 0;
    stk_error err;

    r->data = ds;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    for (; names[n]; n++)
        r->want[n].number = (uint16_t)(strchr(order, names[n]) - order);
    return n;
}

static void begin(const char *names)
{
    uint32_t n = name(names);
    stk_error err;

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
            assert_int_equal(r->want[i].bytes.data[k], byte_of(names[i], k));
    }
}

#endif
