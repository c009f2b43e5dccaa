/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tar - any bytes as a tar shard: a clean index or a clean error.
 *
 * Also with the checksums put right, which chance would seldom do.  Read twice each time, in
 * place and through the window: both must tell the same story.  Every field is in the file,
 * every key has letters, samples come in order, an error has a code, a message and a place
 * inside the file. */
#include <string.h>

#include "base/hash.h"
#include "format/format.h"
#include "fuzz.h"

typedef struct story {
    stk_scan scan;
    uint64_t size, last, hash;
} story;

static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    story *s = (story *)scan;

    (void)err;
    FUZZ_CHECK(key.len > 0 && n > 0 && n <= 65535);
    FUZZ_CHECK(offset % 512 == 0 && offset < s->size && offset >= s->last);
    s->last = offset;
    s->hash = stk_hash64(s->hash, key.data, key.len);
    for (uint32_t i = 0; i < n; i++) {
        FUZZ_CHECK(f[i].offset % 512 == 0 && f[i].offset > offset);
        FUZZ_CHECK(f[i].offset <= s->size && f[i].size <= s->size - f[i].offset);
        FUZZ_CHECK(strlen(f[i].name) == f[i].name_len && !memchr(f[i].name, '/', f[i].name_len));
        s->hash = stk_hash64(s->hash ^ f[i].offset ^ f[i].size << 20, f[i].name, f[i].name_len);
    }
    return 0;
}

static uint64_t run(stk_file *f, size_t size)
{
    story s = { .scan.sample = hear, .size = size };
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    rc = stk_format_tar.index(f, size, &s.scan, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    FUZZ_CHECK(rc == 0 || err.offset <= size || err.offset == STK_NO_OFFSET);
    FUZZ_CHECK(!strchr(err.message, '\n'));
    return s.hash ^ (uint64_t)(int64_t)rc;
}

static void both_ways(const uint8_t *data, size_t size)
{
    stk_source windowed = stk_source_memory;
    stk_file *f = NULL;
    uint64_t in_place;

    FUZZ_CHECK(stk_memory_put("fuzz", size ? (const void *)data : "", size, NULL) == 0);
    FUZZ_CHECK(stk_source_memory.open(STK_URL("mem://fuzz", NULL), &f, NULL) == 0);
    in_place = run(f, size);
    windowed.peek = NULL;
    f->source = &windowed;
    FUZZ_CHECK(run(f, size) == in_place);
    stk_file_close(&f);
    FUZZ_CHECK(stk_memory_put("fuzz", NULL, 0, NULL) == 0);
}

/* Give every block that begins like a member's header the checksum it should have. */
static void seal(uint8_t *data, size_t size)
{
    for (uint8_t *h = data; (size_t)(data + size - h) >= 512; h += 512) {
        unsigned sum = 256;

        if (!h[0] || h[155] != ' ')
            continue;
        for (size_t i = 0; i < 512; i++)
            sum += i < 148 || i > 155 ? h[i] : 0;
        snprintf((char *)h + 148, 7, "%06o", sum & 0777777);
        h[154] = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_bytes head = { data, size < 1024 ? size : 1024 };
    uint8_t *copy = malloc(size + 1);

    FUZZ_CHECK(copy);
    FUZZ_CHECK(stk_format_tar.probe("x.bin", head) <= 100);
    both_ways(data, size);
    if (size)
        memcpy(copy, data, size);
    seal(copy, size);
    both_ways(copy, size);
    free(copy);
    return 0;
}
