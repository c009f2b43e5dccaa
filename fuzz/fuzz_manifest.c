/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest - any bytes as a manifest: samples whose every field can be found again, or a clean
 * error.
 *
 * What the format reported goes back through locate() and find() as the index would give it.  A
 * CSV record that is cut anywhere waits for more or is the same record; it never fails where the
 * whole does not. */
#include <string.h>

#include "base/mem.h"
#include "format/csv.h"
#include "format/format.h"
#include "fuzz.h"

typedef struct story {
    stk_scan scan;
    const uint8_t *data;
    uint64_t size, last, samples;
} story;

static void check_field(const stk_entry *e, stk_field f)
{
    stk_place here, file;
    stk_error err;
    char *name = stk_strndup(f.name, f.name_len); /* the index gives them with their NUL */
    int rc;

    FUZZ_CHECK(name && strlen(name) == f.name_len && f.name_len);
    f.name = name;
    FUZZ_CHECK(stk_format_manifest.locate(e, &f, &here, &err) == 0);
    FUZZ_CHECK(here.here.data >= e->key.data && here.here.len == f.size);
    FUZZ_CHECK(here.here.data + f.size <= e->key.data + e->key.len);
    rc = stk_format_manifest.find(e, &f, &file, &err);
    FUZZ_CHECK(rc == (f.size ? 0 : STK_ECORRUPT));
    if (!strcmp(name, "path"))
        FUZZ_CHECK(f.size && here.here.data == e->key.data &&
                   strlen((char *)e->key.data) == f.size);
    else
        FUZZ_CHECK(rc < 0 || (file.whole && !file.offset));
    FUZZ_CHECK(strcmp(name, "offset") != 0 && strcmp(name, "length") != 0);
    stk_free(name);
}

/* A line that is data: every field is a range that unpacks. */
static void check_line(const story *s, const stk_entry *e, stk_field f)
{
    char *name = stk_strndup(f.name, f.name_len);
    stk_place p;
    stk_error err;
    uint8_t *dst;
    size_t len;

    FUZZ_CHECK(name && strlen(name) == f.name_len && f.name_len);
    f.name = name;
    FUZZ_CHECK(stk_format_manifest.locate(e, &f, &p, &err) == 0);
    FUZZ_CHECK(p.here.data ? !f.size : p.offset <= s->size && p.len <= s->size - p.offset);
    FUZZ_CHECK(stk_format_manifest.find(e, &f, &p, &err) == STK_ENOTSUP);
    FUZZ_CHECK(stk_format_manifest.locate(e, &f, &p, &err) == 0);
    len = (size_t)p.unpacked;
    dst = malloc(len ? len : 1);
    FUZZ_CHECK(dst && p.unpacked == p.len);
    if (!p.here.data)
        FUZZ_CHECK(stk_format_manifest.unpack((stk_bytes){ s->data + p.offset, (size_t)p.len }, dst,
                                              &len, &err) == 0 &&
                   len <= p.unpacked);
    free(dst);
    stk_free(name);
}

static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    story *s = (story *)scan;
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };
    uint32_t paths = 0;

    (void)err;
    FUZZ_CHECK(key.len > 0 && offset < s->size && (!s->samples || offset > s->last));
    s->last = offset;
    s->samples++;
    if (!memchr(key.data, 0, key.len)) {
        for (uint32_t i = 0; i < n; i++)
            check_line(s, &e, f[i]);
        return 0;
    }
    FUZZ_CHECK(n > 0);
    for (uint32_t i = 0; i < n; i++) {
        check_field(&e, f[i]);
        paths += f[i].name_len == 4 && !memcmp(f[i].name, "path", 4);
    }
    FUZZ_CHECK(paths == 1);
    return 0;
}

static void as_manifest(const uint8_t *data, size_t size)
{
    story s = { .scan.sample = hear, .data = data, .size = size };
    stk_file *f = NULL;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(stk_memory_put("fuzz", size ? (const void *)data : "", size, NULL) == 0);
    FUZZ_CHECK(stk_source_memory.open(STK_URL("mem://fuzz", NULL), &f, NULL) == 0);
    rc = stk_format_manifest.index(f, size, &s.scan, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT || rc == STK_ELIMIT);
    FUZZ_CHECK(rc == 0 || !strncmp(err.message, "line ", 5));
    FUZZ_CHECK(!strchr(err.message, '\n'));
    stk_file_close(&f);
    FUZZ_CHECK(stk_memory_put("fuzz", NULL, 0, NULL) == 0);
}

static void cut(const uint8_t *data, size_t size, size_t at)
{
    stk_cells whole = { 0 }, part = { 0 };
    uint64_t lines, part_lines;
    size_t used = 0, part_used = 0;
    stk_error err;
    int rc = stk_csv_record((stk_bytes){ data, size }, 1, &whole, &used, &lines, &err);
    int rc2 = stk_csv_record((stk_bytes){ data, at }, 0, &part, &part_used, &part_lines, &err);

    FUZZ_CHECK(rc <= 0 && (rc < 0 || used <= size));
    FUZZ_CHECK(rc2 == STK_PENDING || rc2 == rc);
    if (rc2 == 0) {
        FUZZ_CHECK(used == part_used && lines == part_lines && whole.n == part.n);
        FUZZ_CHECK(whole.text.len == part.text.len);
        FUZZ_CHECK(!memcmp(whole.text.s, part.text.s, part.text.len));
    }
    stk_cells_fini(&whole);
    stk_cells_fini(&part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_manifest(data, size);
    for (size_t at = 1; at < size && at < 64; at++)
        cut(data, size, at);
    return 0;
}
