/* SPDX-License-Identifier: Apache-2.0 */
/* cache_build.c - a whole object of the host cache, written in order: its size is known at its end.
 * It gets its name when all of it is on disk. */
#include "base/atomic_file.h"
#include "store/cache_layout.h"

struct stk_cache_build {
    stk_atomic_file file;
    stk_cache_folder *folder;
    stk_cache_id id;
    uint64_t size, taken;
    uint64_t *record; /* of whole chunks */
    size_t cap;
    uint32_t crc; /* of the chunk that is being filled */
};

int stk_cache_build_open(stk_cache_build **out, stk_cache_folder *f, const stk_cache_id *id,
                         stk_error *err)
{
    stk_cache_build *b = STK_NEW(stk_cache_build);
    char path[4096];
    int rc;

    *out = b;
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    b->folder = f;
    b->id = *id;
    stk_cache_object_path(f, id, "", path, sizeof path);
    rc = stk_atomic_open(&b->file, path, err);
    if (rc < 0) {
        stk_free(b);
        *out = NULL;
    }
    return rc;
}

static int need_room(stk_cache_build *b, uint64_t size, stk_error *err)
{
    char text[16];

    while (b->taken < size) {
        if (!stk_cache_folder_take(b->folder, stk_cache_group(b->id.url), STK_CHUNK))
            return stk_fail(err, STK_ELIMIT,
                            "the cache has no room for it: it unpacks to more than %s; raise "
                            "cache_limit, or stoker cache clear",
                            stk_size_format(text, b->taken));
        b->taken += STK_CHUNK;
    }
    return 0;
}

static int end_chunk(stk_cache_build *b, stk_error *err)
{
    size_t n = (size_t)((b->size - 1) / STK_CHUNK), cap = b->cap ? b->cap * 2 : 64;
    uint64_t *grown;

    if (n >= b->cap) {
        grown = stk_grow(b->record, b->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        b->record = grown;
        b->cap = cap;
    }
    b->record[n] = b->crc | (uint64_t)stk_cache_folder_session(b->folder) << 32;
    b->crc = 0;
    return 0;
}

int stk_cache_build_write(stk_cache_build *b, const void *data, size_t len, stk_error *err)
{
    const uint8_t *p = data;

    STK_TRY(need_room(b, b->size + len, err));
    STK_TRY(stk_atomic_write(&b->file, data, len, b->size, err));
    while (len) {
        uint64_t left = STK_CHUNK - b->size % STK_CHUNK;
        size_t n = len < left ? len : (size_t)left;

        b->crc = stk_crc32c(b->crc, p, n);
        b->size += n;
        p += n;
        len -= n;
        if (n == left)
            STK_TRY(end_chunk(b, err));
    }
    return 0;
}

int stk_cache_build_commit(stk_cache_build *b, stk_error *err)
{
    uint64_t at = map_at(b->size);
    head h;

    if (b->size % STK_CHUNK)
        STK_TRY(end_chunk(b, err));
    b->id.size = b->size;
    head_make(&h, &b->id);
    STK_TRY(stk_atomic_write(&b->file, &h, sizeof h, at, err));
    if (b->size)
        STK_TRY(stk_atomic_write(&b->file, b->record, (size_t)h.n_chunks * 8, at + HEAD, err));
    return stk_atomic_commit(&b->file, STK_COMMIT_SYNC, err);
}

void stk_cache_build_close(stk_cache_build **bp)
{
    stk_cache_build *b = *bp;

    *bp = NULL;
    if (!b)
        return;
    if (!b->file.committed && b->taken)
        stk_cache_folder_give(b->folder, b->taken);
    stk_atomic_close(&b->file);
    stk_free(b->record);
    stk_free(b);
}
