/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tfrecord - any bytes as a record and as a shard: fields that are in it and unpack, or a
 * clean error.  The record's checksums are made here, or none would get through. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/format.h"
#include "fuzz.h"

typedef struct story {
    stk_scan scan;
    const uint8_t *data;
    uint64_t size, samples;
} story;

static void check_field(const story *s, const stk_entry *e, const stk_field *f)
{
    stk_place p;
    stk_error err;
    uint8_t *dst;
    size_t len;

    FUZZ_CHECK(f->name_len && f->offset >= e->offset);
    FUZZ_CHECK(stk_format_tfrecord.locate(e, f, &p, &err) == 0);
    if (p.here.data)
        return;
    FUZZ_CHECK(p.offset <= s->size && p.len <= s->size - p.offset);
    len = (size_t)p.unpacked;
    dst = malloc(len ? len : 1);
    FUZZ_CHECK(dst);
    if (len)
        FUZZ_CHECK(stk_format_tfrecord.unpack((stk_bytes){ s->data + p.offset, (size_t)p.len }, dst,
                                              &len, &err) == 0 &&
                   len && len <= p.unpacked);
    free(dst);
}

static int hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                stk_error *err)
{
    story *s = (story *)scan;
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };

    (void)err;
    FUZZ_CHECK(key.len && n);
    s->samples++;
    for (uint32_t i = 0; i < n; i++)
        check_field(s, &e, &f[i]);
    return 0;
}

static void as_shard(const uint8_t *data, size_t size)
{
    story s = { .scan.sample = hear, .data = data, .size = size };
    stk_file *f = NULL;
    stk_error err = { 0 };
    int rc;

    FUZZ_CHECK(stk_memory_put("fuzz", size ? (const void *)data : "", size, NULL) == 0);
    FUZZ_CHECK(stk_source_memory.open(STK_URL("mem://fuzz", NULL), &f, NULL) == 0);
    rc = stk_format_tfrecord.index(f, size, &s.scan, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    stk_file_close(&f);
    FUZZ_CHECK(stk_memory_put("fuzz", NULL, 0, NULL) == 0);
}

static void put_sum(uint8_t *at, const void *data, size_t len)
{
    uint32_t crc = stk_crc32c(0, data, len);

    crc = (crc >> 15 | crc << 17) + 0xA282EAD8u;
    memcpy(at, &crc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *whole = malloc(size + 16);
    uint64_t len = size;

    FUZZ_CHECK(whole);
    memcpy(whole, &len, 8);
    put_sum(whole + 8, whole, 8);
    if (size)
        memcpy(whole + 12, data, size);
    put_sum(whole + 12 + size, whole + 12, size);
    as_shard(whole, size + 16);
    as_shard(data, size);
    free(whole);
    return 0;
}
