/* SPDX-License-Identifier: Apache-2.0 */
/* squeeze.h - ways to pack a shard: gz, zstd (seekable), lz4.
 *
 * Each frame is whole by itself: a member of gzip, a frame of Zstandard or of LZ4, one after
 * another, which every reader of these formats takes for one stream.  After Zstandard's comes a
 * skippable frame with the sizes of all, as its seekable format has it, so that a reader can unpack
 * only the frame with the sample it wants. */
#ifndef STOKER_SQUEEZE_H
#define STOKER_SQUEEZE_H

#include "format/frames.h"

/* By the name of a file: "gz", "zstd", "lz4"; NULL: nothing says that it is packed. */
const char *stk_squeeze_of(const char *path);
/* ".gz", ".zst", ".lz4"; NULL: there is no such way. */
const char *stk_squeeze_suffix(const char *name);
/* By name; STK_EINVAL where there is no such way.  *out: end with its close(). */
int stk_squeeze_open(stk_framer **out, const char *name, stk_error *err);

int stk_squeeze_gz(stk_framer **out, stk_error *err);   /* gunzip.c */
int stk_squeeze_zstd(stk_framer **out, stk_error *err); /* unzstd.c */
int stk_squeeze_lz4(stk_framer **out, stk_error *err);  /* squeeze_lz4.c */
uint32_t stk_xxh32(stk_bytes in);                       /* squeeze_lz4.c: LZ4's checksum */

#endif
