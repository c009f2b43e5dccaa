/* SPDX-License-Identifier: Apache-2.0 */
/* lz4.c - LZ4 blocks and frames, by liblz4; the only file that knows its headers.
 *
 * Fields: a first walk over the lengths of blocks says how much the frames make at most.  Room for
 * that is made, and no more than STK_UNPACK_MAX.  The library's memory comes from scratch, so that
 * no sample allocates: that part of its interface is not called stable, hence the define.
 * Checksums of heads, blocks and contents are compared where there are any. */
#include <config.h>
#include <string.h>

#include "base/mem.h"
#include "compress/squeeze.h"
#include "compress/unpack.h"

#if STK_HAVE_LZ4

#define LZ4F_STATIC_LINKING_ONLY
#include <lz4.h>
#include <lz4frame.h>

#define SKIPPABLE 0x184D2A50u /* and the 15 after it */
#define STORED 0x80000000u    /* of a block's length: it is as it is */

/* ---- blocks ---- */

int stk_lz4_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    if (!len)
        return 0;
    if (in.len > LZ4_MAX_INPUT_SIZE || len > LZ4_MAX_INPUT_SIZE ||
        LZ4_decompress_safe((const char *)in.data, (char *)dst, (int)in.len, (int)len) != (int)len)
        return stk_fail(err, STK_ECORRUPT, "lz4: a page does not unpack to %zu bytes", len);
    STK_WRITTEN(dst, len);
    return 0;
}

static uint64_t big_endian(const uint8_t *p, uint32_t n)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

/* Two numbers, how much a frame unpacks to and how many packed bytes follow.  0: these are no
 * frames that make exactly len bytes. */
static int hadoop_frames(stk_bytes in, uint8_t *dst, size_t len)
{
    size_t at = 0;

    while (in.len >= 8) {
        size_t makes = (size_t)big_endian(in.data, 4), packed = (size_t)big_endian(in.data + 4, 4);

        if (packed > in.len - 8 || makes > len - at ||
            stk_lz4_page((stk_bytes){ in.data + 8, packed }, dst + at, makes, NULL) < 0)
            return 0;
        at += makes;
        in = (stk_bytes){ in.data + 8 + packed, in.len - 8 - packed };
    }
    return !in.len && at == len;
}

int stk_lz4_hadoop_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    return hadoop_frames(in, dst, len) ? 0 : stk_lz4_page(in, dst, len, err);
}

size_t stk_lz4_plugin_some(stk_bytes in, uint8_t *dst, size_t room)
{
    size_t at = 12, n = 0, len;
    uint64_t block;

    if (in.len < 12 || big_endian(in.data, 8) > room)
        return SIZE_MAX;
    len = (size_t)big_endian(in.data, 8);
    block = big_endian(in.data + 8, 4);
    while (n < len) { /* blocks with their lengths */
        size_t want = block < len - n ? (size_t)block : len - n, packed;

        if (!block || in.len - at < 4)
            return SIZE_MAX;
        packed = (size_t)big_endian(in.data + at, 4);
        at += 4;
        if (packed > in.len - at)
            return SIZE_MAX;
        if (packed == want)
            memcpy(dst + n, in.data + at, want);
        else if (stk_lz4_page((stk_bytes){ in.data + at, packed }, dst + n, want, NULL) < 0)
            return SIZE_MAX;
        at += packed;
        n += want;
    }
    return n;
}

/* ---- frames in memory ---- */

enum { DAMAGED = 1, TORN, SHORT, BOMB }; /* SHORT: of memory */

/* All frames to dst[0..room); *made: bytes that came out. */
static int unpack_frames(LZ4F_dctx *z, stk_bytes in, uint8_t *dst, size_t room, size_t *made)
{
    const LZ4F_decompressOptions_t how = { .stableDst = 1 };
    size_t at = 0, left = 1;

    while (at < in.len) {
        size_t n = in.len - at, m = room - *made;

        left = LZ4F_decompress(z, dst + *made, &m, in.data + at, &n, &how);
        if (LZ4F_isError(left) || (!n && !m)) /* neither: there is no room for more */
            return LZ4F_getErrorCode(left) == LZ4F_ERROR_allocation_failed ? SHORT : DAMAGED;
        at += n;
        *made += m;
    }
    STK_WRITTEN(dst, *made);
    return left ? TORN : 0;
}

int stk_lz4_frame_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    LZ4F_dctx *z = NULL;
    size_t made = 0;
    int rc = LZ4F_isError(LZ4F_createDecompressionContext(&z, LZ4F_VERSION))
                 ? stk_fail_nomem(err, sizeof z)
                 : 0;

    if (rc == 0 && unpack_frames(z, in, dst, len, &made))
        rc = stk_fail(err, STK_ECORRUPT, "lz4: it is not an LZ4 frame, or damaged");
    if (rc == 0 && made != len)
        rc = stk_fail(err, STK_ECORRUPT, "lz4: a page makes %zu bytes in place of %zu", made, len);
    LZ4F_freeDecompressionContext(z);
    return rc;
}

/* ---- fields ---- */

typedef struct memory { /* of the library */
    stk_scratch *scratch;
    size_t used;
    _Alignas(16) uint8_t context[1024]; /* what is small; the rest is in scratch */
} memory;

static void *memory_get(void *opaque, size_t size)
{
    memory *m = opaque;
    size_t n = (size + 15) & ~(size_t)15;

    if (n > sizeof m->context - m->used)
        return stk_scratch_get(m->scratch, size);
    m->used += n;
    return m->context + m->used - n;
}

static void memory_give(void *opaque, void *p)
{
    (void)opaque, (void)p; /* all of it goes with the sample */
}

/* Each use begins with a context of its own: one that was reset remembers what was left of a frame.
 * Nothing is to be freed. */
static LZ4F_dctx *fresh(memory *m)
{
    m->used = 0;
    return LZ4F_createDecompressionContext_advanced(
        (LZ4F_CustomMem){ memory_get, NULL, memory_give, m }, LZ4F_VERSION);
}

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Passes over a frame; *most grows by what it can make. */
static int measure_frame(memory *m, stk_bytes *in, size_t *most)
{
    LZ4F_frameInfo_t head;
    LZ4F_dctx *z = fresh(m);
    size_t n = in->len, rc, block;

    if (!z)
        return SHORT;
    rc = LZ4F_getFrameInfo(z, &head, in->data, &n);
    if (LZ4F_isError(rc))
        return LZ4F_getErrorCode(rc) == LZ4F_ERROR_frameHeader_incomplete ? TORN : DAMAGED;
    if (head.dictID)
        return DAMAGED;
    block = (size_t)1 << (8 + 2 * head.blockSizeID);
    for (;;) {
        uint32_t length = n + 4 <= in->len ? word(in->data + n) : 0;
        size_t packed = length & ~STORED;

        n += 4 + packed + (length ? head.blockChecksumFlag * 4u : head.contentChecksumFlag * 4u);
        if (n > in->len)
            return TORN;
        if (!length)
            break;
        *most += length & STORED ? packed : block;
    }
    *in = (stk_bytes){ in->data + n, in->len - n };
    return 0;
}

static int measure(memory *m, stk_bytes in, size_t *most)
{
    int rc = in.len ? 0 : TORN;

    while (rc == 0 && in.len) {
        if (in.len < 8) {
            rc = TORN;
        } else if ((word(in.data) & ~15u) == SKIPPABLE) {
            size_t n = (size_t)8 + word(in.data + 4);

            rc = n > in.len ? TORN : 0;
            if (rc == 0)
                in = (stk_bytes){ in.data + n, in.len - n };
        } else {
            rc = measure_frame(m, &in, most);
        }
    }
    return rc;
}

static int unpack_field(memory *m, stk_bytes in, stk_bytes *out)
{
    size_t room = 0, made = 0;
    LZ4F_dctx *z;
    unsigned mark;
    uint8_t *dst;
    int rc = measure(m, in, &room);

    if (rc)
        return rc;
    room = room < STK_UNPACK_MAX ? room : STK_UNPACK_MAX;
    z = fresh(m);
    dst = stk_scratch_get(m->scratch, room + !room);
    if (!z || !dst)
        return SHORT;
    mark = stk_scratch_mark(m->scratch);
    rc = unpack_frames(z, in, dst, room, &made);
    stk_scratch_rewind(m->scratch, mark);
    *out = (stk_bytes){ dst, made };
    return rc == DAMAGED && made == STK_UNPACK_MAX ? BOMB : rc;
}

int stk_unlz4_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    memory m = { .scratch = scratch };

    switch (unpack_field(&m, in, out)) {
    case 0: return 0;
    case SHORT: return stk_fail_nomem(err, in.len);
    case BOMB: return stk_unpack_bomb("unlz4", in.len, err);
    case TORN:
        return stk_fail(err, STK_ECORRUPT, "unlz4: truncated: its %zu bytes end too early", in.len);
    default:
        return stk_fail(err, STK_ECORRUPT, "unlz4: these %zu bytes are not LZ4 frames, or damaged",
                        in.len);
    }
}

/* ---- streams ---- */

static int unlz4_step(void *library, const uint8_t *in, size_t *n, uint8_t *out, size_t *room,
                      stk_error *err)
{
    size_t left = LZ4F_decompress(library, out, room, in, n, NULL);

    if (LZ4F_isError(left))
        return stk_fail(err, STK_ECORRUPT, "unlz4: it is not an LZ4 frame, or damaged");
    return left > 0;
}

int stk_unlz4_all(const stk_unpack_io *io, stk_error *err)
{
    LZ4F_dctx *z = NULL;
    int rc = LZ4F_isError(LZ4F_createDecompressionContext(&z, LZ4F_VERSION))
                 ? stk_fail_nomem(err, sizeof z)
                 : stk_unpack_stream(io, unlz4_step, z, "unlz4", err);

    LZ4F_freeDecompressionContext(z);
    return rc;
}

/* ---- packing: a frame of independent blocks, its size, and a checksum of what it holds ---- */

static int lz4_frame(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err)
{
    const LZ4F_preferences_t how = { .frameInfo = { .blockSizeID = LZ4F_max4MB,
                                                    .blockMode = LZ4F_blockIndependent,
                                                    .contentChecksumFlag = 1,
                                                    .contentSize = in.len } };
    size_t room = LZ4F_compressFrameBound(in.len, &how), n;
    uint8_t *dst = stk_alloc(room);
    int rc;

    (void)f;
    if (!dst)
        return stk_fail_nomem(err, room);
    n = LZ4F_compressFrame(dst, room, in.data, in.len, &how);
    rc = LZ4F_isError(n) ? stk_fail(err, STK_EINVAL, "lz4: %s", LZ4F_getErrorName(n))
                         : stk_text_put(out, dst, n, err);
    stk_free(dst);
    return rc;
}

static void lz4_close(stk_framer *f)
{
    stk_free(f);
}

int stk_squeeze_lz4(stk_framer **out, stk_error *err)
{
    *out = STK_NEW(stk_framer);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    **out = (stk_framer){ .frame = lz4_frame, .close = lz4_close };
    return 0;
}

#else

static int no_lz4(stk_error *err)
{
    return stk_no_library("lz4", "liblz4 1.9.4", "liblz4-dev", err);
}

int stk_squeeze_lz4(stk_framer **out, stk_error *err)
{
    *out = NULL;
    return no_lz4(err);
}

int stk_unlz4_all(const stk_unpack_io *io, stk_error *err)
{
    (void)io;
    return no_lz4(err);
}

int stk_unlz4_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    (void)in, (void)scratch, (void)out;
    return no_lz4(err);
}

int stk_lz4_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return no_lz4(err);
}

int stk_lz4_hadoop_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return no_lz4(err);
}

int stk_lz4_frame_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return no_lz4(err);
}

size_t stk_lz4_plugin_some(stk_bytes in, uint8_t *dst, size_t room)
{
    (void)in, (void)dst, (void)room;
    return SIZE_MAX;
}

#endif
