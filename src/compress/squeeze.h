/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze.h - ways to pack a shard: gz, zstd (seekable), lz4.
 *
 * Each frame is whole by itself: a member of gzip, a frame of Zstandard or of LZ4, one after
 * another, which every reader of these formats takes for one stream.  After Zstandard's comes a
 * skippable frame with the sizes of all, as its seekable format has it, so that a reader can unpack
 * only the frame with the sample it wants.  The same bytes give the same frames. */
#ifndef STOKER_SQUEEZE_H
#define STOKER_SQUEEZE_H

#include "base/text.h"

typedef struct stk_framer stk_framer; /* Thread: one. */

struct stk_framer {
    /* Append one frame that holds `in`, which has at least a byte and at most STK_FRAME_MAX. */
    int (*frame)(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err);
    /* Append what comes after the last frame; NULL: nothing does. */
    int (*end)(stk_framer *f, stk_text *out, stk_error *err);
    void (*close)(stk_framer *f);
};

#define STK_FRAME ((size_t)256 << 10) /* a frame ends with the sample that brings it to this */
/* and in the middle of a sample that is larger than this */
#define STK_FRAME_MAX ((size_t)64 << 20)

/* By the name of a file: "gz", "zstd", "lz4"; NULL: nothing says that it is packed. */
const char *stk_squeeze_of(const char *path);
/* ".gz", ".zst", ".lz4"; NULL: there is no such way. */
const char *stk_squeeze_suffix(const char *name);
/* By name; STK_EINVAL where there is no such way.  *out: end with its close(). */
int stk_squeeze_open(stk_framer **out, const char *name, stk_error *err);

/* zlib.c, zstd.c, lz4.c */
int stk_squeeze_gz(stk_framer **out, stk_error *err);
int stk_squeeze_zstd(stk_framer **out, stk_error *err);
int stk_squeeze_lz4(stk_framer **out, stk_error *err);

#endif
