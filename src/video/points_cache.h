/* SPDX-License-Identifier: Apache-2.0 */
/* points_cache.h - caches the points of videos for which the index has none, while a loader runs.
 * row_video.c calls it; the state of the codec `video` owns it, so each output has its own.
 *
 * The tables of a field are read once.  Their points are found again by the file's identity and the
 * place of the field; a changed file has another identity.  Points are shared, not copied: for a
 * long video they are hundreds of kilobytes.  Thread: any. */
#ifndef STOKER_VIDEO_POINTS_CACHE_H
#define STOKER_VIDEO_POINTS_CACHE_H

#include "base/buf.h"
#include "base/err.h"

#define STK_POINTS_CACHE ((size_t)64 << 20) /* most bytes; beyond it, all points are dropped */

typedef struct stk_points_cache stk_points_cache;

int stk_points_cache_open(stk_points_cache **out, stk_error *err);
void stk_points_cache_close(stk_points_cache **k); /* NULL is fine */

/* A key for the identity of a file; 0: it is not known, and its points are not cached. */
uint64_t stk_points_key(stk_file *f, stk_bytes name);
/* The key of the field at these bytes of the file; 0 if `key` is 0. */
uint64_t stk_points_key_at(uint64_t key, uint64_t offset, uint64_t len);
/* The points for a key, which the caller releases with stk_buffer_unref(); NULL: there are none. */
stk_buffer *stk_points_cache_get(stk_points_cache *k, uint64_t key);
/* Stores a copy of `points` and returns it; the caller releases it with stk_buffer_unref().  With
 * key 0 it is not stored.  NULL: there is no memory. */
stk_buffer *stk_points_cache_put(stk_points_cache *k, uint64_t key, stk_bytes points);

#endif
