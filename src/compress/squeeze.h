/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze.h - ways to compress a shard while it is written: gz, zstd (seekable), lz4.  `stoker
 * pack` calls it (format/tar_write.h, tools/).
 *
 * A shard is a sequence of frames: members of gzip, or frames of Zstandard or LZ4.  Each can be
 * unpacked alone, and every reader of these formats takes the sequence for one stream.  After
 * Zstandard's frames comes a skippable frame with the sizes of all, as its seekable format has it,
 * so that a reader can unpack only the frame with the sample it wants.  The same bytes give the
 * same frames. */
#ifndef STOKER_SQUEEZE_H
#define STOKER_SQUEEZE_H

#include "base/text.h"

typedef struct stk_framer stk_framer; /* Thread: one. */

struct stk_framer {
    /* Appends one frame that holds `in`, which has 1 to STK_FRAME_MAX bytes. */
    int (*frame)(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err);
    /* Appends what comes after the last frame; NULL: nothing does. */
    int (*end)(stk_framer *f, stk_text *out, stk_error *err);
    void (*close)(stk_framer *f);
};

/* a frame ends after the sample that brings it to this size */
#define STK_FRAME ((size_t)256 << 10)
/* a frame also ends within a sample that is larger than this */
#define STK_FRAME_MAX ((size_t)64 << 20)

/* The way that a file's suffix says: "gz", "zstd", "lz4"; NULL: the file is not compressed. */
const char *stk_squeeze_of(const char *path);
/* The suffix of a way: ".gz", ".zst", ".lz4"; NULL: there is no such way. */
const char *stk_squeeze_suffix(const char *name);
/* Opens a way by its name; end with its close().  STK_EINVAL: there is no such way. */
int stk_squeeze_open(stk_framer **out, const char *name, stk_error *err);

/* zlib.c, zstd.c, lz4.c */
int stk_squeeze_gz(stk_framer **out, stk_error *err);
int stk_squeeze_zstd(stk_framer **out, stk_error *err);
int stk_squeeze_lz4(stk_framer **out, stk_error *err);

#endif
