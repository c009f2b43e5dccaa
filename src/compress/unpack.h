/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - decompresses bytes: one group of functions per library.
 *
 * Formats call these for pages and chunks, codec/decompress.c for fields, data/unpacked.c for whole
 * shards.  None of them knows what the bytes are.  A function whose library the build lacks fails
 * with STK_ENOTSUP and names the package. */
#ifndef STOKER_UNPACK_H
#define STOKER_UNPACK_H

#include "base/err.h"
#include "base/scratch.h"

/* Tells MemorySanitizer that a library that it did not instrument has written these bytes. */
#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define STK_WRITTEN(p, n) __msan_unpoison(p, n)
#endif
#endif
#ifndef STK_WRITTEN
#define STK_WRITTEN(p, n) ((void)(p), (void)(n))
#endif

#define STK_UNPACK_MAX ((size_t)256 << 20) /* bytes that one field may unpack to */

static inline int stk_unpack_bomb(const char *name, size_t len, stk_error *err)
{
    return stk_fail(err, STK_ELIMIT, "%s: its %zu bytes unpack to more than the limit of %zu", name,
                    len, STK_UNPACK_MAX);
}

static inline int stk_no_library(const char *name, const char *library, const char *package,
                                 stk_error *err)
{
    return stk_fail(err, STK_ENOTSUP,
                    "%s: this build has no %s: install its headers (%s) and build again", name,
                    library, package);
}

/* ---- fields: all frames or members of `in`, at most STK_UNPACK_MAX; *out is in scratch ---- */

int stk_gunzip_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err);
int stk_unzstd_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err);
int stk_unlz4_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err);

/* ---- streams of any length, from one place to another ---- */

typedef struct stk_unpack_io {
    int (*read)(void *cookie, void *dst, size_t room, size_t *got, stk_error *err); /* 0: the end */
    int (*write)(void *cookie, const void *data, size_t len, stk_error *err);
    void *cookie;
} stk_unpack_io;

/* These take several members or frames, one after the other, too. */
int stk_gunzip_all(const stk_unpack_io *io, stk_error *err);
int stk_inflate_all(const stk_unpack_io *io,
                    stk_error *err); /* deflate without a head, as in zip */
int stk_unzstd_all(const stk_unpack_io *io, stk_error *err);
int stk_unlz4_all(const stk_unpack_io *io, stk_error *err);

/* The part of stk_unpack_stream() that a library does: unpacks from in[0..*n) to out[0..*room), and
 * sets both to the bytes that it used.  1: the stream goes on; 0: a frame or member ended. */
typedef int (*stk_unpack_step)(void *library, const uint8_t *in, size_t *n, uint8_t *out,
                               size_t *room, stk_error *err);
int stk_unpack_stream(const stk_unpack_io *io, stk_unpack_step step, void *library,
                      const char *name, stk_error *err); /* stream.c */

/* ---- pages of tables: exactly dst[0..len), or an error ---- */

int stk_inflate_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unzstd_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_brotli_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_bunzip2_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_lz4_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err); /* one block */
/* The same in the frames of Hadoop, or without them, as some writers left them out. */
int stk_lz4_hadoop_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* The same in frames as the lz4 command writes them. */
int stk_lz4_frame_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* The same as the lz4 filter of HDF5 writes it.  Returns the number of bytes; SIZE_MAX: it is
 * damaged, or longer than `room`. */
size_t stk_lz4_plugin_some(stk_bytes in, uint8_t *dst, size_t room);

/* deflate.c: exactly dst[0..len) of gzip or zlib's format.  Returns
 * STK_END if `in` has another format, is damaged, or this build has no libdeflate: the caller then
 * inflates with zlib, which also reports what is wrong. */
int stk_inflate_quick(stk_bytes in, uint8_t *dst, size_t len);

/* ---- data whose length is not known: the functions return how many bytes it unpacks to ---- */

/* SIZE_MAX: it is damaged, longer than `room`, or the build has no such library. */
size_t stk_inflate_some(stk_bytes in, uint8_t *dst, size_t room); /* zlib's format, below 4 GiB */
size_t stk_unzstd_some(stk_bytes in, uint8_t *dst, size_t room);
size_t stk_unlzf(stk_bytes in, uint8_t *dst, size_t room); /* as LibLZF packs */
/* Unpacks the beginning of a zlib stream, at most `room` bytes (below 4 GiB), and returns how many
 * it was.  Damage ends it.  Allocates nothing. */
size_t stk_inflate_head(stk_bytes in, uint8_t *dst, size_t room);

/* ---- chunks of numbers: exactly dst[0..len), or an error ---- */

/* value: the n parameters that HDF5 stores for the filter. */
int stk_unszip(const uint32_t *value, uint32_t n, stk_bytes in, stk_bytes dst, stk_error *err);
int stk_unbitshuffle(const uint32_t *value, uint32_t n, stk_bytes in, stk_bytes dst,
                     stk_error *err);
int stk_unblosc(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* The n-th bytes of all elements come one after another: -> elements. */
void stk_unshuffle(const uint8_t *src, uint8_t *dst, size_t len, size_t width);

#endif
