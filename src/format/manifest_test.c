/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_test.c - records of CSV, and manifests to samples and back, with every allocation made
 * to fail.  CSV at large is held against Python's by python/tests/test_manifest.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/csv.h"
#include "format/format.h"

/* The record's cells in <>, then bytes and lines used; or "more", or the error. */
static const char *record(const char *text, int last)
{
    static char out[512];
    stk_cells c = { 0 };
    uint64_t lines = 0;
    size_t used = 0, n = 0;
    stk_error err;
    int rc = stk_csv_record((stk_bytes){ (const uint8_t *)text, strlen(text) }, last, &c, &used,
                            &lines, &err);

    if (rc)
        snprintf(out, sizeof out, "%s", rc == STK_PENDING ? "more" : err.message);
    for (uint32_t i = 0; rc == 0 && i < c.n; i++) {
        stk_bytes cell = stk_cells_at(&c, i);

        n += (size_t)snprintf(out + n, sizeof out - n, "<%.*s>", (int)cell.len,
                              (const char *)cell.data);
    }
    if (rc == 0)
        snprintf(out + n, sizeof out - n, " %zu %u", used, (unsigned)lines);
    stk_cells_fini(&c);
    return out;
}

static void csv(void **state)
{
    (void)state;
    assert_string_equal(record("a,b\nc", 0), "<a><b> 4 1");
    assert_string_equal(record("a,b\r\nc", 0), "<a><b> 5 1");
    assert_string_equal(record("a,\r\n", 0), "<a><> 4 1");
    assert_string_equal(record(",,", 1), "<><><> 2 1");
    assert_string_equal(record("\nx", 0), " 1 1");
    assert_string_equal(record("\r\nx", 0), " 2 1");
    assert_string_equal(record("\"\"\n", 0), "<> 3 1");
    assert_string_equal(record("\"a\"\"b\",\"c\nd\"\n", 0), "<a\"b><c\nd> 13 2");
    assert_string_equal(record("\"a\"\r\n", 0), "<a> 5 1");
    assert_string_equal(record("a\rb\n", 0), "<a\rb> 4 1");
    assert_string_equal(record("a,b", 0), "more");
    assert_string_equal(record("a,\"b\"", 0), "more");
    assert_string_equal(record("a,\"b\"\r", 0), "more");
    assert_string_equal(record("a,\"b", 0), "more");
    assert_string_equal(record("a,\"b", 1), "a quoted cell has no closing quote");
    assert_string_equal(record("\"a\"b\n", 0), "text after the closing quote of cell 1");
    assert_non_null(strstr(record("a,b\"\n", 0), "a quote inside cell 2"));
}

typedef struct heard {
    stk_scan scan;
    char text[1024];
    size_t n;
    const char *file;
} heard;

/* key@offset: name=value ... and what open would read. */
static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    heard *h = (heard *)scan;
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };
    char *p = h->text;
    size_t room = sizeof h->text;

    (void)err;
    h->n += (size_t)snprintf(p + h->n, room - h->n, "%s@%u:", (const char *)key.data,
                             (unsigned)offset);
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        stk_field field = f[i];
        stk_place here, file;
        char value[64] = "";
        stk_bytes raw;
        size_t len = sizeof value;

        snprintf(name, sizeof name, "%.*s", (int)f[i].name_len, f[i].name);
        field.name = name;
        assert_int_equal(stk_format_manifest.locate(&e, &field, &here, NULL), 0);
        assert_true(here.len == here.unpacked && here.len < sizeof value);
        assert_int_equal(here.here.data != NULL, !here.len);
        raw = (stk_bytes){ (const uint8_t *)h->file + here.offset, (size_t)here.len };
        assert_int_equal(stk_format_manifest.unpack(raw, value, &len, NULL), 0);
        h->n += (size_t)snprintf(p + h->n, room - h->n, " %s=%.*s", name, (int)len, value);
        if (strcmp(name, "path") != 0)
            continue;
        assert_int_equal(stk_format_manifest.find(&e, &field, &file, NULL), 0);
        h->n += (size_t)snprintf(p + h->n, room - h->n, "[%u+%u%s]", (unsigned)file.offset,
                                 (unsigned)file.len, file.whole ? "*" : "");
    }
    h->n += (size_t)snprintf(p + h->n, room - h->n, "\n");
    return 0;
}

static int list(const char *text, heard *h, stk_error *err)
{
    stk_file *f = NULL;
    int rc;

    *h = (heard){ .scan.sample = hear, .file = text };
    rc = stk_memory_put("list", text, strlen(text), err);
    if (rc == 0)
        rc = stk_source_memory.open(STK_URL("mem://list", NULL), &f, err);
    if (rc == 0)
        rc = stk_format_manifest.index(f, strlen(text), &h->scan, err);
    stk_file_close(&f);
    return rc;
}

static const char table[] = "path,offset,length,label\na,,,x\nb,5,,\"y,\"\"z\"\nb,5,7,\n";
static const char lines[] = "{\"path\": \"a\", \"label\": 1}\n\n"
                            "{\"n\": null, \"box\": [1, 2], \"path\": \"\\u00e9\", \"length\": 3}";

static void samples(void **state)
{
    stk_error err;
    heard h;

    (void)state;
    assert_int_equal(list(table, &h, &err), 0);
    assert_string_equal(h.text, "a@25: path=a[0+0*] offset= length= label=x\n"
                                "b@31: path=b[5+0*] offset=5 length= label=y,\"z\n"
                                "b@44: path=b[5+7] offset=5 length=7 label=\n");
    assert_int_equal(list(lines, &h, &err), 0);
    assert_string_equal(h.text, "a@0: path=a[0+0*] label=1\n"
                                "\xc3\xa9@27: box=[1, 2] path=\xc3\xa9[0+3] length=3\n");
    assert_int_equal(list("path,x\na,1\nb\n", &h, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "line 3: 1 cells, the header line has 2");
    assert_int_equal(err.offset, 11);
    assert_int_equal(list("", &h, &err), STK_ECORRUPT);
    assert_int_equal(stk_format_manifest.probe("x.CSV", (stk_bytes){ 0 }), 90);
    assert_int_equal(stk_format_manifest.probe("x.csv.tar", (stk_bytes){ 0 }), 0);
}

/* What an index that is may say. */
static void bad_index(void **state)
{
    static const struct {
        const char *key;
        size_t len;
        int locate, find;
    } keys[] = { { "a\0\3xxxx", 7, 0, STK_ECORRUPT }, /* half a range */
                 { "a\0\1xxxx", 7, STK_ESTALE, STK_ESTALE },
                 { "a\0\0", 3, STK_ESTALE, STK_ESTALE },
                 { "a\0", 2, 0, STK_ECORRUPT },
                 { "7", 1, 0, STK_ECORRUPT },
                 { "", 0, 0, STK_ECORRUPT },
                 { "a\0\2", 3, 0, 0 } };
    stk_field f = { "path", 4, 10, 1 };
    stk_place p;

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        stk_entry e = { .offset = 10, .key = { (const uint8_t *)keys[i].key, keys[i].len } };

        assert_int_equal(stk_format_manifest.locate(&e, &f, &p, NULL), keys[i].locate);
        assert_int_equal(stk_format_manifest.find(&e, &f, &p, NULL), keys[i].find);
    }
}

static void no_memory(void **state)
{
    const char *texts[] = { table, lines };
    stk_error err;
    heard h;

    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t n;
        int rc;

        for (n = 1;; n++) {
            stk_mem_fail_at(n);
            rc = list(texts[i], &h, &err);
            stk_mem_fail_at(0);
            if (rc == 0)
                break;
            assert_int_equal(rc, STK_ENOMEM);
        }
        assert_true(n > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv),
        cmocka_unit_test(samples),
        cmocka_unit_test(bad_index),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
