/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_seekfile - any bytes as HASH.seek: everything that can be asked for is bytes inside of the
 * file, or nothing.
 *
 * Also with all checksums put right, which chance would never do.  Records are taken for seek
 * points of a JPEG, as a decoder would. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "codec/jpeg_seek.h"
#include "fuzz.h"
#include "index/seeklayout.h"

#define MAX_ROWS 5000u

static uint64_t hear_record(stk_bytes b)
{
    stk_jpeg_seek s;
    stk_jpeg_head h;
    int32_t dc[STK_JPEG_COMPS];

    if (b.len && stk_jpeg_seek_open(&s, &h, b, NULL) == 0) {
        FUZZ_CHECK(s.rows && s.chunks && s.dcs);
        (void)stk_jpeg_seek_row(&s, s.rows - 1);
        stk_jpeg_seek_dc(&s, s.rows - 1, s.dcs - 1, dc);
        if (!s.rows_only && s.chunks > 1)
            (void)stk_jpeg_seek_len(&s, s.rows - 1, s.chunks - 2);
        (void)stk_jpeg_seek_check(&s, &h, b, NULL);
    }
    return b.len ? stk_hash64(b.len, b.data, b.len) : 0; /* touches all of it */
}

static uint64_t hear(stk_seekfile *s)
{
    uint64_t fields, others, bytes, hash = 0;
    stk_seek_room room = { 0 }, whole = { 0 }, part = { 0 };
    stk_seek_counts counts;

    stk_seekfile_counts(s, &fields, &others, &bytes);
    FUZZ_CHECK(stk_seekfile_foreign(s) == 0);
    hash = (uint64_t)stk_seekfile_whole(s);
    for (uint64_t shard = 0; shard < 4; shard++)
        for (uint64_t row = 0; row < MAX_ROWS; row += row % 1024 < 20 ? 1 : 97) {
            stk_bytes g = stk_seekfile_group(s, shard, row, &whole, &counts);

            FUZZ_CHECK(g.len <= stk_seekfile_bytes(s));
            (void)stk_seekfile_made(s, shard, row);
            for (uint32_t f = 0; f < 3; f++) {
                stk_bytes b = stk_seekfile_get(s, &(stk_seek_field){ shard, row, f }, &room);

                const stk_seek_field some = { shard, row, f, .most = 5, .from = 3 };
                stk_bytes p = stk_seekfile_get(s, &some, &part);

                FUZZ_CHECK(!b.data || b.len <= g.len);
                FUZZ_CHECK(!p.len || (p.len <= 5 && b.len >= 3 + p.len &&
                                      !memcmp(p.data, b.data + 3, p.len)));
                hash = stk_mix64(hash ^ hear_record(b));
            }
        }
    FUZZ_CHECK(!stk_seekfile_get(s, &(stk_seek_field){ UINT64_MAX, 0, 0 }, &room).data);
    FUZZ_CHECK(!stk_seekfile_get(s, &(stk_seek_field){ 0, UINT64_MAX, 0 }, &room).data);
    stk_seek_room_fini(&room);
    stk_seek_room_fini(&whole);
    stk_seek_room_fini(&part);
    FUZZ_CHECK(stk_seekfile_match(s, &(stk_shard_info){ .size = 1, .print = 2 }) <= UINT64_MAX);
    return hash;
}

static void once(const uint8_t *data, size_t size)
{
    int fd = memfd_create("seek", MFD_CLOEXEC);
    stk_seekfile *s = NULL;
    char path[40];
    stk_error err;
    int rc;

    memset(&err, 0, sizeof err);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = stk_seekfile_open(&s, path, NULL, &err);
    FUZZ_CHECK((rc == 0) == (s != NULL));
    FUZZ_CHECK(rc == 0 || (err.code == rc && err.message[0] && !strchr(err.message, '\n')));
    if (s)
        FUZZ_CHECK(hear(s) == hear(s)); /* the second time its groups are known */
    stk_seekfile_close(&s);
    close(fd);
}

/* Put every checksum right, and the length. */
static void seal(uint8_t *data, size_t size)
{
    seek_head h;
    size_t shards, groups;

    if (size < SEEK_HEAD)
        return;
    memcpy(&h, data, sizeof h);
    memcpy(h.magic, SEEK_MAGIC, sizeof h.magic);
    h.version = SEEK_VERSION;
    h.file_bytes = size;
    if (h.tables <= size) {
        shards = (size_t)(h.shards <= size ? h.shards : 0) * sizeof(seek_shard);
        groups = (size_t)(h.groups <= size ? h.groups : 0) * sizeof(seek_place);
        for (size_t at = h.tables + shards; groups && at + sizeof(seek_place) <= size;
             at += sizeof(seek_place)) {
            seek_place p;

            memcpy(&p, data + at, sizeof p);
            if (seek_offset(&p) <= size && p.len <= size - seek_offset(&p))
                p.crc = stk_crc32c(0, data + seek_offset(&p), p.len);
            memcpy(data + at, &p, sizeof p);
        }
        h.table_crc = stk_crc32c(0, data + h.tables, size - h.tables);
    }
    h.crc = stk_crc32c(0, &h, SEEK_HEAD - 4);
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
