/* SPDX-License-Identifier: Apache-2.0 */
/* points_cache.h - points of videos that rows name, kept while a loader runs.
 *
 * What an index keeps of its own fields no index keeps of files that rows name.  Their tables are
 * read once, and found again by what the file is: a file that changed is another one.  row_video.c
 * asks; the state of the codec `video` owns it, so that each output has its own.  Thread: any. */
#ifndef STOKER_VIDEO_POINTS_CACHE_H
#define STOKER_VIDEO_POINTS_CACHE_H

#include "base/err.h"

#define STK_POINTS_CACHE ((size_t)64 << 20) /* bytes; at more all are dropped, and read again */

typedef struct stk_points_cache stk_points_cache;

int stk_points_cache_open(stk_points_cache **out, stk_error *err);
void stk_points_cache_close(stk_points_cache **k); /* NULL is fine */

/* What the file is; 0: that can't be told, and nothing is kept of it. */
uint64_t stk_points_key(stk_file *f, stk_bytes name);
/* A copy in the caller's room, which grows; no data: there are none. */
typedef struct stk_points_room {
    uint8_t **data;
    size_t *cap;
} stk_points_room;
stk_bytes stk_points_cache_get(stk_points_cache *k, uint64_t key, stk_points_room room);
/* As much as there is memory for. */
void stk_points_cache_put(stk_points_cache *k, uint64_t key, stk_bytes points);

/* A copy of `points` in `room`; no data: there is no memory. */
stk_bytes stk_points_copy(stk_points_room room, stk_bytes points);

#endif
