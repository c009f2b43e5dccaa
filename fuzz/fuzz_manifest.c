/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest - any bytes as a manifest: samples whose every field can be found again, or a clean
 * error.
 *
 * What the format reported goes back through locate() and find() as the index would give it.  A
 * CSV record that is cut anywhere waits for more or is the same record; it never fails where the
 * whole does not. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/csv.h"
#include "format/format.h"
#include "fuzz.h"

typedef struct story {
    stk_scan scan;
    const uint8_t *data;
    uint64_t size, last, samples;
} story;

/* Every field is a range that unpacks; a path in the key is the field's text. */
static void check_field(const story *s, const stk_entry *e, stk_field f)
{
    char *name = stk_strndup(f.name, f.name_len); /* the index gives them with their NUL */
    stk_place p, file;
    stk_error err;
    uint8_t *dst;
    size_t len;
    int rc;

    FUZZ_CHECK(name && strlen(name) == f.name_len && f.name_len);
    f.name = name;
    FUZZ_CHECK(stk_format_manifest.locate(e, &f, &p, &err) == 0);
    FUZZ_CHECK(p.here.data ? !f.size : p.offset <= s->size && p.len <= s->size - p.offset);
    rc = stk_format_manifest.find(e, &f, &file, &err);
    FUZZ_CHECK(rc == 0 || (rc == STK_ECORRUPT && (!f.size || !strcmp(name, "path"))));
    len = (size_t)p.unpacked;
    dst = malloc(len ? len : 1);
    FUZZ_CHECK(dst && p.unpacked == p.len);
    if (!p.here.data)
        FUZZ_CHECK(stk_format_manifest.unpack((stk_bytes){ s->data + p.offset, (size_t)p.len }, dst,
                                              &len, &err) == 0 &&
                   len <= p.unpacked);
    if (rc == 0 && file.name.data && !s->scan.encoding)
        FUZZ_CHECK(file.name.len == len && !memcmp(file.name.data, dst, len));
    if (s->scan.encoding && !p.here.data) {
        dst = realloc(dst, STK_RECODED_MAX * p.len);
        FUZZ_CHECK(dst && stk_recode(s->scan.encoding, dst, &len, STK_RECODED_MAX * (size_t)p.len,
                                     &err) == 0);
        FUZZ_CHECK(stk_utf8_span((stk_bytes){ dst, len }) == len);
    }
    free(dst);
    stk_free(name);
}

static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    story *s = (story *)scan;
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };

    (void)err;
    FUZZ_CHECK(key.len > 0 && offset < s->size && (!s->samples || offset > s->last));
    s->last = offset;
    s->samples++;
    for (uint32_t i = 0; i < n; i++)
        check_field(s, &e, f[i]);
    return 0;
}

static uint64_t as_manifest(const uint8_t *data, size_t size, const stk_scan *options)
{
    story s = { .scan = *options, .data = data, .size = size };
    stk_file *f = NULL;
    stk_error err;
    int rc;

    s.scan.sample = hear;
    memset(&err, 0, sizeof err);
    FUZZ_CHECK(stk_memory_put("fuzz", size ? (const void *)data : "", size, NULL) == 0);
    FUZZ_CHECK(stk_source_memory.open(STK_URL("mem://fuzz", NULL), &f, NULL) == 0);
    rc = stk_format_manifest.index(f, size, &s.scan, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT || rc == STK_ELIMIT || rc == STK_ENOTSUP ||
               rc == STK_EINVAL);
    FUZZ_CHECK(rc == 0 || rc == STK_ENOTSUP || rc == STK_EINVAL ||
               !strncmp(err.message, "line ", 5));
    FUZZ_CHECK(!strchr(err.message, '\n'));
    stk_file_close(&f);
    FUZZ_CHECK(stk_memory_put("fuzz", NULL, 0, NULL) == 0);
    return rc == 0 ? s.samples : 0;
}

static void cut(const uint8_t *data, size_t size, size_t at)
{
    stk_cells whole = { .mark = data[0] % 2 ? '\t' : ',', .end = data[0] % 4 < 2 ? '\r' : '\n' };
    stk_cells part = { .mark = whole.mark, .end = whole.end };
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
        FUZZ_CHECK(!part.n || !memcmp(whole.cell, part.cell, part.n * sizeof *part.cell));
    }
    stk_cells_fini(&whole);
    stk_cells_fini(&part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t turned[256]; /* an encoding of which every byte is a character */
    uint64_t n;

    for (uint32_t i = 0; i < 256; i++)
        turned[i] = i < 128 ? i : 0x2000 + i;
    n = as_manifest(data, size, &(stk_scan){ 0 });
    FUZZ_CHECK(as_manifest(data, size, &(stk_scan){ .skip_damaged = 1 }) >= n);
    as_manifest(data, size, &(stk_scan){ .encoding = turned });
    for (size_t at = 1; at < size && at < 64; at++)
        cut(data, size, at);
    return 0;
}
