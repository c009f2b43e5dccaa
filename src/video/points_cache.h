/* SPDX-License-Identifier: Apache-2.0 */
/* points_cache.h - points of videos that the index keeps none of, kept while a loader runs.
 *
 * The tables of a field are read once, and found again by where it is: a file that changed is
 * another one.  Points are shared, not copied: of a long video they are hundreds of kilobytes.
 * row_video.c asks; the state of the codec `video` owns it, so that each output has its own.
 * Thread: any. */
#ifndef STOKER_VIDEO_POINTS_CACHE_H
#define STOKER_VIDEO_POINTS_CACHE_H

#include "base/buf.h"
#include "base/err.h"

#define STK_POINTS_CACHE ((size_t)64 << 20) /* bytes; at more all are dropped, and read again */

typedef struct stk_points_cache stk_points_cache;

int stk_points_cache_open(stk_points_cache **out, stk_error *err);
void stk_points_cache_close(stk_points_cache **k); /* NULL is fine */

/* What the file is; 0: that can't be told, and nothing is kept of it. */
uint64_t stk_points_key(stk_file *f, stk_bytes name);
/* The field at these bytes of it; 0 of 0. */
uint64_t stk_points_key_at(uint64_t key, uint64_t offset, uint64_t len);
/* The caller's to stk_buffer_unref(); NULL: there are none. */
stk_buffer *stk_points_cache_get(stk_points_cache *k, uint64_t key);
/* A copy of `points`, which others find if there is room for it (key 0: they do not).  The
 * caller's to stk_buffer_unref(); NULL: there is no memory. */
stk_buffer *stk_points_cache_put(stk_points_cache *k, uint64_t key, stk_bytes points);

#endif
