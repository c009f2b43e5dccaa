/* SPDX-License-Identifier: Apache-2.0 */
/* zlib.c - gzip, zlib's format and deflate unpacked, and gzip packed, by zlib; the only file beside
 * libspng that needs it.
 *
 * Fields: also members one after another, as gzip allows.  The last four bytes say how long the
 * last member was: room for that is made, and where it does not suffice (several members, or a
 * wrong size) the bytes are counted first.  zlib's memory comes from scratch, so that no sample
 * allocates.  What unpacks to more than STK_UNPACK_MAX is refused. */
#include "base/mem.h"
#include "compress/squeeze.h"
#include "compress/unpack.h"

#include <config.h>

#include <string.h>

#if STK_HAVE_ZLIB

#include <zlib.h>

#define ARENA ((size_t)128 << 10) /* inflate's state and its window of 32 KiB */
#define MAX_RATIO 1032            /* of deflate */

typedef struct arena {
    uint8_t *data;
    size_t used;
} arena;

static void *arena_get(void *opaque, unsigned items, unsigned size)
{
    arena *a = opaque;
    size_t n = ((size_t)items * size + 63) & ~(size_t)63;

    if (n > ARENA - a->used)
        return NULL;
    a->used += n;
    return a->data + a->used - n;
}

static void arena_give(void *opaque, void *p)
{
    (void)opaque, (void)p; /* all of it goes with the sample */
}

static int gunzip_fail(int rc, stk_bytes in, stk_error *err)
{
    if (rc == Z_BUF_ERROR)
        return stk_fail(err, STK_ECORRUPT, "gunzip: truncated: its %zu bytes end too early",
                        in.len);
    if (rc == Z_MEM_ERROR)
        return stk_fail(err, STK_ENOMEM, "gunzip: zlib wants more than %zu bytes", ARENA);
    return stk_fail(err, STK_ECORRUPT, "gunzip: these %zu bytes are not a gzip file, or damaged",
                    in.len);
}

/* All members into dst, or nowhere (dst NULL: only counted).  *out: bytes unpacked, more than
 * `room` where they don't fit. */
static int inflate_all(z_stream *z, stk_bytes in, uint8_t *dst, size_t room, size_t *out)
{
    uint8_t sink[4096];
    size_t done = 0;
    int rc = Z_OK;

    z->next_in = (Bytef *)(uintptr_t)in.data;
    z->avail_in = (unsigned)in.len;
    for (;;) {
        size_t left = room - done, n;

        z->next_out = dst && left ? dst + done : sink;
        n = dst && left ? left : sizeof sink;
        z->avail_out = (unsigned)n;
        rc = inflate(z, Z_NO_FLUSH);
        done += n - z->avail_out;
        if (done > room)
            break;
        if (rc == Z_STREAM_END && z->avail_in && z->next_in[0] == 0x1F)
            rc = inflateReset(z); /* another member */
        else if (rc == Z_STREAM_END)
            break;
        if (rc != Z_OK)
            return rc;
    }
    *out = done;
    return 0;
}

static int run(stk_bytes in, uint8_t *dst, size_t room, arena *a, size_t *out)
{
    z_stream z = { .zalloc = arena_get, .zfree = arena_give, .opaque = a };
    int rc;

    a->used = 0;
    rc = inflateInit2(&z, 15 + 16); /* a window of 32 KiB, gzip's header only */
    if (rc == Z_OK)
        rc = inflate_all(&z, in, dst, room, out);
    inflateEnd(&z);
    return rc;
}

/* ---- streams ---- */

static int inflate_step(void *library, const uint8_t *in, size_t *n, uint8_t *out, size_t *room,
                        stk_error *err)
{
    z_stream *z = library;
    int rc;

    z->next_in = (Bytef *)(uintptr_t)in;
    z->avail_in = (unsigned)*n;
    z->next_out = out;
    z->avail_out = (unsigned)*room;
    rc = inflate(z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END && inflateReset(z) != Z_OK) /* another member may follow */
        rc = Z_DATA_ERROR;
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return stk_fail(err, STK_ECORRUPT, "gunzip: it is not a gzip file, or damaged");
    *n -= z->avail_in;
    *room -= z->avail_out;
    return rc != Z_STREAM_END;
}

static int inflate_stream(const stk_unpack_io *io, int window, stk_error *err)
{
    z_stream z = { 0 };
    int rc = inflateInit2(&z, window) == Z_OK
                 ? stk_unpack_stream(io, inflate_step, &z, "gunzip", err)
                 : stk_fail_nomem(err, ARENA);

    inflateEnd(&z);
    return rc;
}

int stk_gunzip_all(const stk_unpack_io *io, stk_error *err)
{
    return inflate_stream(io, 15 + 16, err);
}

int stk_inflate_all(const stk_unpack_io *io, stk_error *err)
{
    return inflate_stream(io, -15, err);
}

/* ---- pages ---- */

/* What comes out, at most `room` bytes; *whole: all of it did, and its checksum fits. */
static size_t inflate_into(stk_bytes in, uint8_t *dst, size_t room, int *whole)
{
    uint8_t memory[ARENA]; /* of little that is packed: nothing is allocated for it */
    arena a = { .data = memory };
    z_stream z = { .zalloc = arena_get, .zfree = arena_give, .opaque = &a };

    *whole = 0;
    if (in.len > UINT32_MAX || room > UINT32_MAX || inflateInit2(&z, 15) != Z_OK)
        return 0;
    z.next_in = (Bytef *)(uintptr_t)in.data;
    z.avail_in = (unsigned)in.len;
    z.next_out = dst;
    z.avail_out = (unsigned)room;
    *whole = inflate(&z, Z_SYNC_FLUSH) == Z_STREAM_END;
    inflateEnd(&z);
    return room - z.avail_out;
}

size_t stk_inflate_head(stk_bytes in, uint8_t *dst, size_t room)
{
    int whole;

    return inflate_into(in, dst, room, &whole); /* what came out before an error counts */
}

size_t stk_inflate_some(stk_bytes in, uint8_t *dst, size_t room)
{
    int whole;
    size_t n = inflate_into(in, dst, room, &whole);

    return whole ? n : SIZE_MAX;
}

int stk_inflate_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    arena a = { 0 };
    z_stream z = { .zalloc = arena_get, .zfree = arena_give, .opaque = &a };
    size_t made = 0;
    int rc;

    if (stk_inflate_quick(in, dst, len) == 0)
        return 0;
    a.data = stk_alloc(ARENA);
    rc = a.data ? 0 : stk_fail_nomem(err, ARENA);
    if (rc == 0 && in.len > UINT32_MAX)
        rc = stk_fail(err, STK_ELIMIT, "gzip: %zu packed bytes in one page", in.len);
    if (rc == 0 && inflateInit2(&z, 15 + 32) != Z_OK) /* gzip's header or zlib's */
        rc = stk_fail(err, STK_ENOMEM, "gzip: zlib wants more than %zu bytes", ARENA);
    if (rc == 0 && (inflate_all(&z, in, dst, len, &made) != 0 || made != len))
        rc = stk_fail(err, STK_ECORRUPT, "gzip: a page does not unpack to %zu bytes", len);
    if (a.data)
        inflateEnd(&z);
    stk_free(a.data);
    if (rc == 0)
        STK_WRITTEN(dst, len);
    return rc;
}

/* ---- fields ---- */

/* What the last four bytes say, if that can be. */
static size_t promised(stk_bytes in)
{
    const uint8_t *p = in.data + in.len - 4;
    size_t n = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    size_t most = in.len < STK_UNPACK_MAX / MAX_RATIO ? in.len * MAX_RATIO : STK_UNPACK_MAX;

    return n < most ? n : most;
}

int stk_gunzip_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    arena a = { 0 };
    size_t room, len = 0;
    uint8_t *dst;
    int rc;

    if (in.len < 18 || in.len > UINT32_MAX)
        return gunzip_fail(in.len < 18 ? Z_BUF_ERROR : Z_DATA_ERROR, in, err);
    room = promised(in);
    a.data = stk_scratch_get(scratch, ARENA + room + 1);
    if (!a.data)
        return stk_fail_nomem(err, room);
    dst = a.data + ARENA;
    rc = run(in, dst, room, &a, &len);
    if (!rc && len > room) { /* count, then again */
        rc = run(in, NULL, STK_UNPACK_MAX, &a, &len);
        if (!rc && len > STK_UNPACK_MAX)
            return stk_unpack_bomb("gunzip", in.len, err);
        room = len;
        dst = rc ? dst : stk_scratch_get(scratch, room + 1);
        if (!dst)
            return stk_fail_nomem(err, room);
        rc = rc ? rc : run(in, dst, room, &a, &len);
    }
    if (rc)
        return gunzip_fail(rc, in, err);
    *out = (stk_bytes){ dst, len };
    return 0;
}

/* ---- packing: a member per frame ---- */

#define LEVEL 6

typedef struct gz {
    stk_framer base;
    z_stream z;
} gz;

static int gz_frame(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err)
{
    z_stream *z = &((gz *)f)->z;
    size_t room;
    uint8_t *dst;
    int rc;

    if (deflateReset(z) != Z_OK)
        return stk_fail(err, STK_EINVAL, "gzip: zlib can't begin a member");
    room = deflateBound(z, in.len);
    dst = stk_alloc(room);
    if (!dst)
        return stk_fail_nomem(err, room);
    z->next_in = (Bytef *)(uintptr_t)in.data;
    z->avail_in = (unsigned)in.len;
    z->next_out = dst;
    z->avail_out = (unsigned)room;
    rc = deflate(z, Z_FINISH) == Z_STREAM_END
             ? stk_text_put(out, dst, room - z->avail_out, err)
             : stk_fail(err, STK_EINVAL, "gzip: zlib can't pack %zu bytes", in.len);
    stk_free(dst);
    return rc;
}

static void gz_close(stk_framer *f)
{
    deflateEnd(&((gz *)f)->z);
    stk_free(f);
}

int stk_squeeze_gz(stk_framer **out, stk_error *err)
{
    gz *g = STK_NEW(gz);

    *out = NULL;
    if (!g || deflateInit2(&g->z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        stk_free(g);
        return stk_fail_nomem(err, sizeof *g);
    }
    g->base = (stk_framer){ .frame = gz_frame, .close = gz_close };
    *out = &g->base;
    return 0;
}

#else

static int no_zlib(const char *name, stk_error *err)
{
    return stk_no_library(name, "zlib", "zlib1g-dev", err);
}

int stk_squeeze_gz(stk_framer **out, stk_error *err)
{
    *out = NULL;
    return no_zlib("gzip", err);
}

int stk_gunzip_all(const stk_unpack_io *io, stk_error *err)
{
    (void)io;
    return no_zlib("gzip", err);
}

int stk_inflate_all(const stk_unpack_io *io, stk_error *err)
{
    (void)io;
    return no_zlib("zip", err);
}

int stk_gunzip_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    (void)in, (void)scratch, (void)out;
    return no_zlib("gunzip", err);
}

size_t stk_inflate_head(stk_bytes in, uint8_t *dst, size_t room)
{
    (void)in, (void)dst, (void)room;
    return 0;
}

size_t stk_inflate_some(stk_bytes in, uint8_t *dst, size_t room)
{
    (void)in, (void)dst, (void)room;
    return SIZE_MAX;
}

int stk_inflate_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    (void)in, (void)dst, (void)len;
    return no_zlib("gzip", err);
}

#endif
