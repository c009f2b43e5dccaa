/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_mediafile - any bytes as HASH.media: everything that can be asked for is inside of the file,
 * or nothing.
 *
 * Also with all checksums put right, which chance would never do. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "fuzz.h"
#include "index/medialayout.h"

#define MAX_ROWS 2000u

static uint64_t hear(const stk_mediafile *m)
{
    uint64_t hash = stk_mediafile_shards(m);
    const char *name;

    for (uint32_t i = 0; (name = stk_mediafile_name(m, i)) && i < 8; i++) {
        FUZZ_CHECK(stk_mediafile_figure(m, 2 * i) && stk_mediafile_figure(m, 2 * i + 1));
        for (uint64_t shard = 0; shard < 4; shard++) {
            stk_media_column c = stk_mediafile_column(m, shard, name);

            for (uint64_t row = 0; row <= c.rows && row < MAX_ROWS; row++) {
                stk_media_rec r = stk_media_at(&c, row);

                hash = stk_mix64(hash ^ r.units ^ r.width ^ (uint64_t)r.height << 32 ^ r.kind);
            }
            FUZZ_CHECK(!c.rows || !stk_media_at(&c, c.rows).kind);
        }
    }
    FUZZ_CHECK(!stk_mediafile_column(m, UINT64_MAX, "jpg").data);
    return hash;
}

/* Shards that a file has can be carried over to another. */
static void carry(const stk_mediafile *m)
{
    stk_media_records r = { 0 };
    stk_media_shard id = { 0 };
    uint8_t *data = NULL;
    size_t len;

    if (stk_mediafile_has(m, 0, &id)) {
        FUZZ_CHECK(stk_mediafile_match(m, &id) == 0);
        FUZZ_CHECK(stk_media_records_copy(&r, m, 0, NULL) == 0);
        FUZZ_CHECK(stk_mediafile_make(&r, 1, &data, &len, NULL) == 0);
        stk_free(data);
    }
    stk_media_records_fini(&r);
}

static void once(const uint8_t *data, size_t size)
{
    uint8_t *own = stk_alloc(size + 1);
    stk_mediafile *m = NULL;
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(own != NULL);
    memcpy(own, data, size);
    rc = stk_mediafile_take(&m, own, size, &err);
    FUZZ_CHECK((rc == 0) == (m != NULL));
    FUZZ_CHECK(rc == 0 || (err.code == rc && err.message[0] && !strchr(err.message, '\n')));
    if (m) {
        FUZZ_CHECK(hear(m) == hear(m));
        carry(m);
    }
    stk_mediafile_close(&m);
}

/* Put every checksum right, and the length. */
static void seal(uint8_t *data, size_t size)
{
    media_head h;

    if (size < MEDIA_HEAD)
        return;
    memcpy(&h, data, sizeof h);
    memcpy(h.magic, MEDIA_MAGIC, sizeof h.magic);
    h.version = MEDIA_VERSION;
    h.file_bytes = size;
    if (h.tables <= size && h.shards <= size / sizeof(media_shard)) {
        size_t at = (size_t)h.tables + (size_t)h.shards * sizeof(media_shard);
        uint64_t samples = 0;

        if (h.shards && size - h.tables >= sizeof(media_shard))
            memcpy(&samples, data + h.tables + 16, 8);
        for (uint64_t k = 0;
             k < h.columns && size >= sizeof(media_column) && at <= size - sizeof(media_column);
             k++, at += sizeof(media_column)) {
            media_column c;

            memcpy(&c, data + at, sizeof c);
            if (c.offset <= size && c.width && samples <= (size - c.offset) / c.width)
                c.crc = stk_crc32c(0, data + c.offset, (size_t)samples * c.width);
            memcpy(data + at, &c, sizeof c);
        }
        h.table_crc = stk_crc32c(0, data + h.tables, size - (size_t)h.tables);
    }
    h.crc = stk_crc32c(0, &h, MEDIA_HEAD - 4);
    memcpy(data, &h, sizeof h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    FUZZ_CHECK(copy != NULL);
    once(data, size);
    memcpy(copy, data, size);
    seal(copy, size);
    once(copy, size);
    free(copy);
    return 0;
}
