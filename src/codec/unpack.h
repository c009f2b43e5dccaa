/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - what the steps that unpack share: the bound that a bomb meets. */
#ifndef STOKER_UNPACK_H
#define STOKER_UNPACK_H

#include "base/err.h"
#include "base/scratch.h"
#include "format/zip.h"

/* For MSan: a library that is not built for it has written these bytes. */
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

/* gunzip, unzstd and unlz4 come before everything else in a chain. */
static inline int stk_unpack_plan(const char *name, const stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_BYTES || spec->out != STK_OUT_BYTES)
        return stk_fail(err, STK_EINVAL, "%s unpacks a field's bytes: put it first", name);
    return 0;
}

static inline int stk_unpack_bomb(const char *name, size_t len, stk_error *err)
{
    return stk_fail(err, STK_ELIMIT, "%s: its %zu bytes unpack to more than the limit of %zu", name,
                    len, STK_UNPACK_MAX);
}

/* A stream from one place to another. */
typedef struct stk_unpack_io {
    int (*read)(void *cookie, void *dst, size_t room, size_t *got, stk_error *err); /* 0: the end */
    int (*write)(void *cookie, const void *data, size_t len, stk_error *err);
    void *cookie;
} stk_unpack_io;

#define STK_STREAM_IN ((size_t)4 << 20)
#define STK_STREAM_OUT ((size_t)4 << 20)

/* Streams of any length: gunzip.c, unzstd.c, lz4_stream.c.  Members and frames one after another
 * too. */
int stk_gunzip_all(const stk_unpack_io *io, stk_error *err);
int stk_unzstd_all(const stk_unpack_io *io, stk_error *err);
int stk_unlz4_all(const stk_unpack_io *io, stk_error *err);
/* unlz4.c: LZ4 frames in memory; *out is in scratch. */
int stk_unlz4_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err);

/* lz4.c: a block whose copies may reach back to `dst - history`: how many bytes it makes, at most
 * `room`; SIZE_MAX: it is damaged. */
size_t stk_lz4_block(stk_bytes in, uint8_t *dst, size_t history, size_t room);

/* gunzip.c: unpack a deflated member of an archive into m->size bytes; its checksum must fit. */
int stk_inflate_member(stk_file *f, const stk_zip_member *m, void *dst, stk_error *err);

/* gunzip.c: the beginning of what a zlib stream unpacks to, at most `room` bytes (below 4 GiB); how
 * many came out.  Damage ends it.  Allocates nothing. */
size_t stk_inflate_head(stk_bytes in, uint8_t *dst, size_t room);

/* deflate.c: exactly dst[0..len) of gzip or zlib's format.  STK_END: it is something else, or
 * damaged, or there is no libdeflate: ask zlib. */
int stk_inflate_quick(stk_bytes in, uint8_t *dst, size_t len);

/* Streams whose length is not known: how many bytes they unpack to, at most `room`; SIZE_MAX:
 * damaged, longer, or there is no such library.  gunzip.c (zlib's format, below 4 GiB),
 * unzstd.c. */
size_t stk_inflate_some(stk_bytes in, uint8_t *dst, size_t room);
size_t stk_unzstd_some(stk_bytes in, uint8_t *dst, size_t room);

/* Pages of tables: exactly dst[0..len), or an error.  gunzip.c, unzstd.c, lz4.c, brotli.c,
 * bunzip2.c. */
int stk_inflate_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unzstd_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_lz4_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* ... in the frames of Hadoop; also without them, as some writers left them out. */
int stk_lz4_hadoop_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* ... in frames as the lz4 command writes them: lz4_stream.c. */
int stk_lz4_frame_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_brotli_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_bunzip2_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* Any of them, by the number that Parquet gives it: a stk_pq_unpack. */
int stk_unpack_page(int codec, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

#endif
