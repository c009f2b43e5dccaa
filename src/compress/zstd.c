/* SPDX-License-Identifier: Apache-2.0 */
/* zstd.c - Zstandard unpacked and packed, by libzstd; the only file that knows its header.
 *
 * Fields: also frames one after another.  Room is made for what the frames say they hold, or can
 * hold at most, and no more than STK_UNPACK_MAX.  The library's memory comes from scratch, so that
 * no sample allocates: that part of its interface is not called stable, hence the define. */
#include "base/mem.h"
#include "compress/squeeze.h"
#include "compress/unpack.h"

#include <config.h>

#if STK_HAVE_ZSTD

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

int stk_unzstd_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    size_t work = (ZSTD_estimateDCtxSize() + 63) & ~(size_t)63, n;
    unsigned long long room = in.len ? ZSTD_decompressBound(in.data, in.len)
                                     : ZSTD_CONTENTSIZE_ERROR;
    uint8_t *memory, *dst;
    ZSTD_DCtx *ctx;

    if (room == ZSTD_CONTENTSIZE_ERROR)
        return stk_fail(err, STK_ECORRUPT,
                        "unzstd: these %zu bytes are no Zstandard frames, or cut short", in.len);
    if (room > STK_UNPACK_MAX)
        return stk_unpack_bomb("unzstd", in.len, err);
    memory = stk_scratch_get(scratch, work + (size_t)room);
    if (!memory)
        return stk_fail_nomem(err, work + (size_t)room);
    ctx = ZSTD_initStaticDCtx(memory, work);
    if (!ctx)
        return stk_fail(err, STK_ENOTSUP, "unzstd: libzstd is not the version this was built for");
    dst = memory + work;
    n = ZSTD_decompressDCtx(ctx, dst, (size_t)room, in.data, in.len);
    if (ZSTD_isError(n))
        return stk_fail(err, STK_ECORRUPT, "unzstd: %s", ZSTD_getErrorName(n));
    *out = (stk_bytes){ dst, n };
    return 0;
}

size_t stk_unzstd_some(stk_bytes in, uint8_t *dst, size_t room)
{
    size_t n = ZSTD_decompress(dst, room, in.data, in.len);

    if (ZSTD_isError(n))
        return SIZE_MAX;
    STK_WRITTEN(dst, n);
    return n;
}

int stk_unzstd_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    size_t n = ZSTD_decompress(dst, len, in.data, in.len);

    if (ZSTD_isError(n) || n != len)
        return stk_fail(err, STK_ECORRUPT, "zstd: a page does not unpack to %zu bytes%s%s", len,
                        ZSTD_isError(n) ? ": " : "", ZSTD_isError(n) ? ZSTD_getErrorName(n) : "");
    STK_WRITTEN(dst, len);
    return 0;
}

static int unzstd_step(void *library, const uint8_t *in, size_t *n, uint8_t *out, size_t *room,
                       stk_error *err)
{
    ZSTD_inBuffer from = { in, *n, 0 };
    ZSTD_outBuffer to = { out, *room, 0 };
    size_t left = ZSTD_decompressStream(library, &to, &from);

    if (ZSTD_isError(left))
        return stk_fail(err, STK_ECORRUPT, "unzstd: %s", ZSTD_getErrorName(left));
    *n = from.pos;
    *room = to.pos;
    return left > 0;
}

int stk_unzstd_all(const stk_unpack_io *io, stk_error *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    int rc = z ? stk_unpack_stream(io, unzstd_step, z, "unzstd", err)
               : stk_fail_nomem(err, sizeof z);

    ZSTD_freeDStream(z);
    return rc;
}

/* ---- packing: frames, and after them their sizes as the seekable format has them ---- */

#define TABLE_MAGIC 0x184D2A5Eu /* of the skippable frame that is the table */
#define SEEKABLE_MAGIC 0x8F92EAB1u
#define LEVEL 3

typedef struct zstd {
    stk_framer base;
    ZSTD_CCtx *ctx;
    stk_text sizes; /* by frame: packed, unpacked; 32 bits each */
    uint8_t *buf;
    size_t cap;
} zstd;

static void to_word(uint8_t b[4], size_t v)
{
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> 8 * i);
}

static int zstd_room(zstd *z, size_t len, stk_error *err)
{
    size_t need = ZSTD_compressBound(len);
    uint8_t *more = need > z->cap ? stk_alloc(need) : z->buf;

    if (!more)
        return stk_fail_nomem(err, need);
    if (more != z->buf) {
        stk_free(z->buf);
        z->buf = more;
        z->cap = need;
    }
    return 0;
}

static int zstd_frame(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err)
{
    zstd *z = (zstd *)f;
    uint8_t sizes[8];
    size_t n;

    STK_TRY(zstd_room(z, in.len, err));
    n = ZSTD_compress2(z->ctx, z->buf, z->cap, in.data, in.len);
    if (ZSTD_isError(n))
        return stk_fail(err, STK_EINVAL, "zstd: %s", ZSTD_getErrorName(n));
    to_word(sizes, n);
    to_word(sizes + 4, in.len);
    STK_TRY(stk_text_put(&z->sizes, sizes, sizeof sizes, err));
    return stk_text_put(out, z->buf, n, err);
}

static int zstd_end(stk_framer *f, stk_text *out, stk_error *err)
{
    zstd *z = (zstd *)f;
    uint8_t head[8], foot[9] = { 0 }; /* foot[4]: without checksums, which the frames have */

    to_word(head, TABLE_MAGIC);
    to_word(head + 4, z->sizes.len + sizeof foot);
    to_word(foot, z->sizes.len / 8);
    to_word(foot + 5, SEEKABLE_MAGIC);
    STK_TRY(stk_text_put(out, head, sizeof head, err));
    STK_TRY(stk_text_put(out, z->sizes.s, z->sizes.len, err));
    return stk_text_put(out, foot, sizeof foot, err);
}

static void zstd_close(stk_framer *f)
{
    zstd *z = (zstd *)f;

    ZSTD_freeCCtx(z->ctx);
    stk_free(z->sizes.s);
    stk_free(z->buf);
    stk_free(z);
}

int stk_squeeze_zstd(stk_framer **out, stk_error *err)
{
    zstd *z = STK_NEW(zstd);

    *out = NULL;
    if (z)
        z->ctx = ZSTD_createCCtx();
    if (!z || !z->ctx) {
        stk_free(z);
        return stk_fail_nomem(err, sizeof *z);
    }
    ZSTD_CCtx_setParameter(z->ctx, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(z->ctx, ZSTD_c_checksumFlag, 1);
    z->base = (stk_framer){ .frame = zstd_frame, .end = zstd_end, .close = zstd_close };
    *out = &z->base;
    return 0;
}

#else

static int no_zstd(stk_error *err)
{
    return stk_no_library("zstd", "libzstd", "libzstd-dev", err);
}

int stk_squeeze_zstd(stk_framer **out, stk_error *err)
{
    *out = NULL;
    return no_zstd(err);
}

int stk_unzstd_all(const stk_unpack_io *io, stk_error *err)
{
    (void)io;
    return no_zstd(err);
}

int stk_unzstd_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    (void)in, (void)scratch, (void)out;
    return no_zstd(err);
}

size_t stk_unzstd_some(stk_bytes in, uint8_t *dst, size_t room)
{
    (void)in, (void)dst, (void)room;
    return SIZE_MAX;
}

int stk_unzstd_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return no_zstd(err);
}

#endif
