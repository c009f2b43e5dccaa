/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_coco - any bytes as an annotation file: samples whose every field can be found again, or a
 * clean error.  Pictures are files that every process has (/proc/self/status). */
#include <string.h>

#include "base/mem.h"
#include "format/annotated.h"
#include "fuzz.h"

#define NAME "coco:///fuzz.json&images=/proc/self"

typedef struct story {
    stk_scan scan;
    stk_bytes first;
    uint64_t samples;
} story;

static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    story *s = (story *)scan;
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };
    const char *name = NAME;
    stk_format_data in = { .shards = &name, .n_shards = 1, .first = &key };
    void *state = NULL;
    stk_place p;

    FUZZ_CHECK(key.len && memchr(key.data, 0, key.len) && n >= 5);
    if (!s->samples++) {
        FUZZ_CHECK(stk_format_coco.open(&in, &state, err) == 0);
        e.state = state;
    }
    for (uint32_t i = 0; i < n; i++) {
        int file = !strcmp(f[i].name, "image");

        if (file && !state)
            continue;
        FUZZ_CHECK(stk_format_coco.locate(&e, &f[i], &p, err) == 0);
        FUZZ_CHECK(file ? p.name.data && p.root && !strcmp(p.root, "/proc/self")
                        : p.here.data && p.here.len == f[i].size);
    }
    stk_format_coco.close(state);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    story s = { .scan.sample = hear, .scan.name = NAME };
    stk_file *f = NULL;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(stk_memory_put("fuzz", size ? (const void *)data : "", size, NULL) == 0);
    FUZZ_CHECK(stk_source_memory.open(STK_URL("mem://fuzz", NULL), &f, NULL) == 0);
    rc = stk_format_coco.index(f, size, &s.scan, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT || rc == STK_ELIMIT || rc == STK_ENOTFOUND);
    FUZZ_CHECK(!strchr(err.message, '\n'));
    stk_file_close(&f);
    FUZZ_CHECK(stk_memory_put("fuzz", NULL, 0, NULL) == 0);
    return 0;
}
