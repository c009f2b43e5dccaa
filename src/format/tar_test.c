/* SPDX-License-Identifier: Apache-2.0 */
/* tar_test.c - tar files built by hand, sound and broken, and what the index of each must be.
 *
 * Other writers and readers are the oracle in tests/formats; here are the forms they don't
 * write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/tar.h"

static uint8_t image[48 << 20];
static size_t image_len;

/* ---- building ---- */

static void seal(uint8_t *h)
{
    unsigned sum = 0;

    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

static uint8_t *add_header(const char *name, char type, uint32_t size)
{
    uint8_t *h = image + image_len;

    memset(h, 0, 512);
    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    memcpy(h + 100, "0000644", 7);
    snprintf((char *)h + 124, 12, "%011o", (unsigned)size);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    seal(h);
    image_len += 512;
    return h;
}

static void add_data(const void *data, size_t len)
{
    memcpy(image + image_len, data, len);
    memset(image + image_len + len, 0, (512 - len % 512) % 512);
    image_len += (len + 511) / 512 * 512;
}

static void add_member(const char *name, char type, const char *text)
{
    add_header(name, type, strlen(text));
    add_data(text, strlen(text));
}

static void add_pax(char type, const char *key, const char *value)
{
    char record[8192];
    int len = (int)(strlen(key) + strlen(value)) + 3, all = len;

    while (snprintf(record, sizeof record, "%d", all) + len != all)
        all = snprintf(record, sizeof record, "%d", all) + len;
    snprintf(record, sizeof record, "%d %s=%s\n", all, key, value);
    add_member("pax", type, record);
}

static void add_zeros(unsigned blocks)
{
    memset(image + image_len, 0, blocks * 512);
    image_len += blocks * 512;
}

/* ---- looking ---- */

typedef struct watch {
    stk_scan scan;
    char text[4096];
    size_t n;
    unsigned calls;
    unsigned warned;
} watch;

static int watch_sample(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f,
                        uint32_t n, stk_error *err)
{
    watch *w = (watch *)scan;

    (void)err;
    w->calls++;
    if (w->n > sizeof w->text / 2) /* tests with many samples only count them */
        return 0;
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%s%.*s@%u", w->n ? " " : "",
                             (int)key.len, (const char *)key.data, (unsigned)offset);
    for (uint32_t i = 0; i < n && i < 20; i++) {
        assert_int_equal(strlen(f[i].name), f[i].name_len);
        w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, ",%s=%u+%u", f[i].name,
                                 (unsigned)f[i].offset, (unsigned)f[i].size);
    }
    return 0;
}

static void watch_warn(stk_scan *scan, const char *why)
{
    assert_non_null(strstr(why, "no end mark"));
    ((watch *)scan)->warned++;
}

/* A file over `image` that can't be peeked into and counts what is read. */
typedef struct counted {
    stk_file base;
    uint64_t bytes, reads;
} counted;

static int counted_read(stk_file *f, stk_io *io)
{
    counted *c = (counted *)f;

    io->rc = io->sys = 0;
    io->got = io->offset >= image_len            ? 0
              : io->len < image_len - io->offset ? io->len
                                                 : image_len - io->offset;
    memcpy(io->dst, image + io->offset, io->got);
    c->bytes += io->got;
    c->reads++;
    return 0;
}

static const stk_source counted_source = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_source), .name = "counted", .read = counted_read
};

static watch seen;
static stk_error err;

static int index_counted(counted *c, uint64_t size)
{
    memset(&seen, 0, sizeof seen);
    seen.scan.sample = watch_sample;
    seen.scan.warn = watch_warn;
    return stk_format_tar.index(&c->base, size, &seen.scan, &err);
}

static int index_image(void)
{
    char by_peek[sizeof seen.text];
    counted c = { .base.source = &counted_source };
    stk_file *f = NULL;
    int rc, rc2;

    memset(&seen, 0, sizeof seen);
    seen.scan.sample = watch_sample;
    seen.scan.warn = watch_warn;
    assert_int_equal(stk_memory_put("t", image, image_len, NULL), 0);
    assert_int_equal(stk_source_memory.open(STK_URL("mem://t", NULL), &f, NULL), 0);
    rc = stk_format_tar.index(f, image_len, &seen.scan, &err);
    stk_file_close(&f);
    assert_int_equal(stk_memory_put("t", NULL, 0, NULL), 0);
    memcpy(by_peek, seen.text, sizeof by_peek);
    rc2 = index_counted(&c, image_len);
    assert_int_equal(rc, rc2);
    assert_string_equal(by_peek, seen.text);
    return rc;
}

static void expect(const char *text)
{
    int rc = index_image();

    if (rc)
        fail_msg("%s: %s at %u", stk_code_name(rc), err.message, (unsigned)err.offset);
    assert_string_equal(seen.text, text);
    image_len = 0;
}

static void expect_error(int code, uint64_t offset, const char *part)
{
    assert_int_equal(index_image(), code);
    if (err.offset != offset || !strstr(err.message, part))
        fail_msg("\"%s\" at %u, expected \"%s\" at %u", err.message, (unsigned)err.offset, part,
                 (unsigned)offset);
    image_len = 0;
}

/* ---- sound files ---- */

static void groups_adjacent_members(void **state)
{
    (void)state;
    add_member("a.jpg", '0', "12345");
    add_member("a.CLS", '0', "7");
    add_member("dir/b.seg.png", '0', "");
    add_member("readme", '0', "no field");
    add_member("dir/b.json", '7', "{}");
    add_member("a.jpg", '\0', "again");
    add_zeros(2);
    expect("a@0,jpg=512+5,cls=1536+1 dir/b@2048,seg.png=2560+0,json=4096+2 a@4608,jpg=5120+5");
}

static void skips_what_is_no_file(void **state)
{
    (void)state;
    add_header("d.x/", '5', 0);
    add_header("old.y/", '\0', 0);
    add_header("a.lnk", '2', 0);
    add_header("a.hard", '1', 99999); /* the size of a link counts no data */
    add_header("a.chr", '3', 0);
    add_header("a.fifo", '6', 0);
    add_member("a.vendor", 'V', "volume"); /* unknown types have data */
    add_member("__meta__", '0', "x");
    add_member("__dir__/a.jpg", '0', "x");
    add_member("a.txt", '0', "t");
    expect("a@6144,txt=6656+1");
}

static void ustar_prefix(void **state)
{
    uint8_t *h;

    (void)state;
    h = add_header("b.jpg", '0', 0);
    memcpy(h + 345, "very/long", 9);
    seal(h);
    h = add_header("c.jpg", '0', 0); /* GNU keeps times there */
    memcpy(h + 257, "ustar  \0", 8);
    memcpy(h + 345, "14151617", 8);
    seal(h);
    h = add_header("d.jpg", '0', 0); /* v7 has neither */
    memset(h + 257, 0, 8);
    seal(h);
    h = add_header("x", '0', 0); /* both fields full, no NUL */
    memset(h, 'n', 100);
    memcpy(h + 96, ".jpg", 4);
    memset(h + 345, 'p', 155);
    seal(h);
    assert_int_equal(index_image(), 0);
    assert_non_null(
        strstr(seen.text, "very/long/b@0,jpg=512+0 c@512,jpg=1024+0 d@1024,jpg=1536+0 ppp"));
    assert_int_equal(seen.calls, 4);
    image_len = 0;
}

static void pax_headers(void **state)
{
    (void)state;
    add_pax('g', "comment", "made by hand");
    add_pax('g', "path", "not/taken.jpg");
    add_pax('x', "path", "long/name.jpg");
    add_member("short.jpg", '0', "12");
    add_pax('x', "size", "3");
    add_header("big.jpg", '0', 0);
    add_data("123", 3);
    add_pax('X', "path", "y.jpg///"); /* slashes at the end go, as in tarfile */
    add_pax('x', "path", "z.jpg");    /* the first of several wins, as there */
    add_member("short.jpg", '0', "1");
    add_member("after.jpg", '0', "1");
    expect("long/name@2048,jpg=3584+2 big@4096,jpg=5632+3 y@6144,jpg=8704+1 after@9216,jpg=9728+1");
}

static void gnu_long_names(void **state)
{
    char name[301], want[400];

    (void)state;
    memset(name, 'n', 300);
    name[300] = 0;
    memcpy(name + 296, ".jpg", 4);
    add_member("././@LongLink", 'K', "some/target");
    add_member("././@LongLink", 'L', name);
    add_member("nnnn", '0', "12");
    name[296] = 0;
    snprintf(want, sizeof want, "%s@0,jpg=2560+2", name);
    expect(want);
}

static void numbers(void **state)
{
    uint8_t *h;

    (void)state;
    h = add_header("a.jpg", '0', 0); /* base-256 */
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 5;
    seal(h);
    add_data("12345", 5);
    h = add_header("b.jpg", '0', 0); /* spaces, no NUL */
    memcpy(h + 124, "         3  ", 12);
    seal(h);
    add_data("123", 3);
    h = add_header("c.jpg", '0', 0); /* an empty field is 0 */
    memset(h + 124, 0, 12);
    seal(h);
    expect("a@0,jpg=512+5 b@1024,jpg=1536+3 c@2048,jpg=2560+0");
}

static void signed_checksum(void **state)
{
    int sum = 0;
    uint8_t *h = add_header("\xe9.jpg", '0', 0);

    (void)state;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (int8_t)h[i];
    snprintf((char *)h + 148, 8, "%06o", (unsigned)sum);
    expect("\xe9@0,jpg=512+0");
}

static void ends(void **state)
{
    (void)state;
    expect_error(STK_ECORRUPT, 0, "0 bytes");
    add_zeros(1);
    expect("");
    assert_int_equal(seen.warned, 0);
    add_zeros(20);
    expect("");
    add_member("a.x", '0', "1");
    expect("a@0,x=512+1"); /* no end mark at all */
    assert_int_equal(seen.warned, 1);
    add_member("a.x", '0', "1");
    add_zeros(1);
    expect("a@0,x=512+1");
    assert_int_equal(seen.warned, 0);
    add_member("a.x", '0', "1");
    add_zeros(2);
    add_member("b.x", '0', "behind the end");
    expect("a@0,x=512+1");
    add_member("a.x", '0', "1");
    add_zeros(1);
    add_member("b.x", '0', "1");
    expect_error(STK_ECORRUPT, 1024, "one block of zeros");
}

/* Cut between two members: an error where the last sample shows it, else a warning. */
static void cut_between_members(void **state)
{
    (void)state;
    add_member("a.x", '0', "1");
    add_member("a.y", '0', "2");
    add_member("b.x", '0', "3");
    expect_error(STK_ECORRUPT, 3072, "ends inside sample \"b\"");
    add_member("a.x", '0', "1");
    add_member("a.y", '0', "2");
    add_member("b.x", '0', "3");
    add_zeros(2); /* ended by its writer: a sample with fewer fields */
    expect("a@0,x=512+1,y=1536+1 b@2048,x=2560+1");
    assert_int_equal(seen.warned, 0);
    add_member("a.x", '0', "1");
    add_member("a.y", '0', "2");
    add_member("b.y", '0', "3"); /* not the first of the others' fields */
    expect("a@0,x=512+1,y=1536+1 b@2048,y=2560+1");
    assert_int_equal(seen.warned, 1);
    add_member("a.x", '0', "1");
    add_member("b.x", '0', "1");
    add_member("b.y", '0', "2"); /* samples differ: it can't be known */
    add_member("c.x", '0', "3");
    expect("a@0,x=512+1 b@1024,x=1536+1,y=2560+1 c@3072,x=3584+1");
    assert_int_equal(seen.warned, 1);
}

/* ---- WebDataset's names ---- */

static void names_as_webdataset(void **state)
{
    (void)state;
    add_member("a.", '0', "1");
    add_member("a..jpg", '0', "1");
    add_member("dir/.hidden", '0', "1");
    add_member("__index__.json", '0', "1");
    add_member("bad.jpg", '0', "1");
    add_member("bad.__bad__", '0', "1");
    add_member("good.__bad__", '0', "");
    expect("a@0,=512+1,.jpg=1536+1 dir/@2048,hidden=2560+1 __index__@3072,json=3584+1 "
           "good@6144,__bad__=6656+0");
}

static void duplicates(void **state)
{
    (void)state;
    add_member("k.jpg", '0', "1");
    add_member("k.cls", '0', "1");
    add_member("k.JPG", '0', "1");
    expect_error(STK_ECORRUPT, 2048, "\"jpg\" of key \"k\"");
    assert_string_equal(err.key, "k");
    add_member("k.__key__", '0', "1");
    expect_error(STK_ECORRUPT, 0, "reserved");
}

static void many_fields(void **state)
{
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 65536; i++) {
        snprintf(name, sizeof name, "k.%u", i);
        add_header(name, '0', 0);
        if (i == 65534) {
            assert_int_equal(index_image(), 0);
            assert_int_equal(seen.calls, 1);
        }
    }
    expect_error(STK_ECORRUPT, 65535 * 512, "at most 65535 fields");
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "k.%u", i);
        add_header(name, '0', 0);
    }
    add_header("k.17", '0', 0);
    expect_error(STK_ECORRUPT, 5000 * 512, "\"17\" of key");
}

/* ---- broken files ---- */

static void torn(void **state)
{
    (void)state;
    add_member("a.jpg", '0', "1");
    add_member("b.jpg", '0', "1");
    image_len -= 512 + 112;
    expect_error(STK_ECORRUPT, 1024, "inside a header");
    add_member("a.jpg", '0', "1");
    add_header("b.jpg", '0', 700);
    add_data("half", 4);
    expect_error(STK_ECORRUPT, 1024, "\"b.jpg\" has 700 bytes, the shard ends after 512");
    add_member("a.jpg", '0', "1");
    image_len -= 100;
    expect_error(STK_ECORRUPT, 0, "last block");
    add_member("a.jpg", '0', "1");
    add_pax('x', "path", "b.jpg");
    expect_error(STK_ECORRUPT, 2048, "between an extension header and its member");
    add_pax('x', "path", "b.jpg");
    add_zeros(2);
    expect_error(STK_ECORRUPT, 1024, "between an extension header and its member");
}

static void damaged(void **state)
{
    uint8_t *h;

    (void)state;
    add_member("a.jpg", '0', "1");
    add_member("b.jpg", '0', "1");
    image[1024 + 3] ^= 1;
    expect_error(STK_ECORRUPT, 1024, "checksum");
    memset(image, 'x', 1024);
    image_len = 1024;
    expect_error(STK_ECORRUPT, 0, "checksum");
    h = add_header("a.jpg", '0', 0);
    memset(h + 124, 0xff, 12); /* -1 */
    seal(h);
    expect_error(STK_ECORRUPT, 0, "not a number");
    h = add_header("a.jpg", '0', 0);
    memset(h + 125, 0, 11);
    h[124] = 0x80;
    h[128] = 0x7f; /* close to 2^63 */
    seal(h);
    expect_error(STK_ECORRUPT, 0, "the shard ends");
    h = add_header("a.jpg", '0', 0);
    memcpy(h + 124, "12x", 3);
    seal(h);
    expect_error(STK_ECORRUPT, 0, "not a number");
}

static void bad_extensions(void **state)
{
    (void)state;
    add_member("pax", 'x', "99 path=short\n");
    expect_error(STK_ECORRUPT, 0, "damaged at its byte 0");
    add_member("pax", 'x', "12 path=abc\nrubbish");
    expect_error(STK_ECORRUPT, 0, "damaged at its byte 12");
    add_member("pax", 'x', "12 path=abcd");
    expect_error(STK_ECORRUPT, 0, "damaged");
    add_pax('x', "size", "-5");
    expect_error(STK_ECORRUPT, 0, "size in a pax header");
    add_pax('x', "size", "99999999999999999999999");
    expect_error(STK_ECORRUPT, 0, "size in a pax header");
    add_pax('x', "size", "999999999");
    add_member("a.jpg", '0', "1");
    expect_error(STK_ECORRUPT, 1024, "has 999999999 bytes");
    add_header("pax", 'x', (1 << 20) + 1);
    image_len += 2 << 20;
    expect_error(STK_ECORRUPT, 0, "limit is 1048576");
    add_header("long", 'L', (64 << 10) + 1);
    image_len += 1 << 20;
    expect_error(STK_ECORRUPT, 0, "limit is 65536");
    add_pax('g', "size", "7");
    add_member("a.jpg", '0', "1");
    expect_error(STK_ENOTSUP, 1024, "global pax header");
}

static void refused(void **state)
{
    (void)state;
    add_member("a.jpg", '0', "1");
    add_header("s.bin", 'S', 0);
    expect_error(STK_ENOTSUP, 1024, "\"s.bin\" is a GNU sparse");
    add_pax('x', "GNU.sparse.major", "1");
    add_member("s.bin", '0', "1");
    expect_error(STK_ENOTSUP, 1024, "sparse");
    memset(image, 'z', 600);
    memcpy(image, "\x1f\x8b\x08", 3);
    image_len = 600;
    expect_error(STK_ENOTSUP, STK_NO_OFFSET,
                 "is gzip-compressed; Stoker needs plain tar for random access: gunzip it");
    add_member("BZh.jpg", '0', "a name like bzip2's magic");
    expect("BZh@0,jpg=512+25");
}

/* ---- cost, failure, probing ---- */

static void reads_headers_only(void **state)
{
    counted c = { .base.source = &counted_source };
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "%06u.jpg", i);
        add_header(name, '0', 100000);
        image_len += 100352;
        snprintf(name, sizeof name, "%06u.cls", i);
        add_member(name, '0', "7");
    }
    assert_int_equal(index_counted(&c, image_len), 0);
    assert_int_equal(seen.calls, 200);
    assert_true(c.bytes < image_len / 20);
    assert_true(c.reads < 420);
    image_len = 0;

    c = (counted){ .base.source = &counted_source };
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "%06u.txt", i);
        add_member(name, '0', "small");
    }
    assert_int_equal(index_counted(&c, image_len), 0);
    assert_int_equal(seen.calls, 20000);
    assert_true(c.bytes < image_len + image_len / 100);
    assert_true(c.reads < 120); /* 20 MB in windows of 256 KiB */
    image_len = 0;
}

static void file_shorter_than_said(void **state)
{
    counted c = { .base.source = &counted_source };

    (void)state;
    add_member("a.jpg", '0', "1");
    assert_int_equal(index_counted(&c, image_len + 4096), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "cut short"));
    image_len = 0;
}

static int stop(stk_scan *scan, uint64_t offset)
{
    (void)scan;
    return offset > 0;
}

static void stops(void **state)
{
    counted c = { .base.source = &counted_source };

    (void)state;
    add_member("a.jpg", '0', "1");
    memset(&seen, 0, sizeof seen);
    seen.scan.sample = watch_sample;
    seen.scan.progress = stop;
    assert_int_equal(stk_format_tar.index(&c.base, image_len, &seen.scan, &err), STK_ECLOSED);
    image_len = 0;
}

static void no_memory(void **state)
{
    uint64_t n = 1;
    int rc = STK_ENOMEM;

    (void)state;
    add_pax('x', "path", "a.jpg");
    for (unsigned i = 0; i < 20; i++) {
        char name[16];

        snprintf(name, sizeof name, "a.%u", i);
        add_member(name, '0', "1");
    }
    for (; rc < 0; n++) {
        counted c = { .base.source = &counted_source };

        stk_mem_fail_at(n);
        rc = index_counted(&c, image_len);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
    }
    assert_true(n > 6);
    image_len = 0;
}

static void probes(void **state)
{
    stk_bytes head = { image, 512 };

    (void)state;
    add_header("a.jpg", '0', 0);
    assert_int_equal(stk_format_tar.probe("x", head), 100);
    memset(image + 257, 0, 8);
    seal(image);
    assert_in_range(stk_format_tar.probe("x", head), 60, 90); /* v7: only the checksum speaks */
    assert_int_equal(stk_format_tar.probe("x.tar", head), 100);
    memset(image, 0, 512);
    assert_int_equal(stk_format_tar.probe("x.bin", head), 0);
    assert_in_range(stk_format_tar.probe("x.TAR", head), 1, 99); /* an empty shard */
    assert_in_range(stk_format_tar.probe("x.tar", (stk_bytes){ NULL, 0 }), 1, 99);
    assert_in_range(stk_format_tar.probe("x.tgz", (stk_bytes){ (const uint8_t *)"\x1f\x8b", 2 }), 1,
                    99);
    assert_int_equal(stk_format_tar.probe("x.jpg", (stk_bytes){ (const uint8_t *)"\xff\xd8", 2 }),
                     0);
    image_len = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_adjacent_members),
        cmocka_unit_test(skips_what_is_no_file),
        cmocka_unit_test(ustar_prefix),
        cmocka_unit_test(pax_headers),
        cmocka_unit_test(gnu_long_names),
        cmocka_unit_test(numbers),
        cmocka_unit_test(signed_checksum),
        cmocka_unit_test(ends),
        cmocka_unit_test(cut_between_members),
        cmocka_unit_test(names_as_webdataset),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(many_fields),
        cmocka_unit_test(torn),
        cmocka_unit_test(damaged),
        cmocka_unit_test(bad_extensions),
        cmocka_unit_test(refused),
        cmocka_unit_test(reads_headers_only),
        cmocka_unit_test(file_shorter_than_said),
        cmocka_unit_test(stops),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(probes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
