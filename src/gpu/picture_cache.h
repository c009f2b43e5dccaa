/* SPDX-License-Identifier: Apache-2.0 */
/* picture_cache.h - cache of encoded pictures in GPU memory: one arena, and a table of what is in
 * it. device.c owns it; rows look pictures up (row/row_gpu.c).
 *
 * An entry is a picture of a sample, by the numbers of sample and output.  The batch that sends a
 * picture claims its entry (none -> coming) and gets a place in the arena.  When the batch has
 * arrived, the entry is there, and a worker that draws the sample again needs no byte of its file.
 * A picture that could not be made stays bad.  Places are cut from the front of the arena and never
 * move, so an offset stays valid.  A claim that failed leaves its place to the next one.  Lookups
 * take no lock. */
#ifndef STOKER_KEEP_H
#define STOKER_KEEP_H

#include "gpu/load.h"

typedef struct stk_picture_cache stk_picture_cache; /* Thread: any. */

typedef struct stk_picture_cache_options {
    uint64_t bytes;   /* size of the arena */
    uint64_t samples; /* samples have smaller numbers */
    uint32_t outputs; /* outputs have smaller numbers */
} stk_picture_cache_options;

int stk_picture_cache_open(stk_picture_cache **out, const stk_cuda *cuda, int gpu,
                           const stk_picture_cache_options *o, stk_error *err);
void stk_picture_cache_close(stk_picture_cache **k); /* call when no work on the GPU uses it */

uint8_t *stk_picture_cache_arena(const stk_picture_cache *k, uint64_t *len); /* in GPU memory */

typedef struct stk_cache_key { /* which picture */
    uint64_t sample;
    uint32_t output;
} stk_cache_key;

/* The picture's offset in the arena; 0: it is not in the cache. */
uint64_t stk_picture_cache_find(const stk_picture_cache *k, stk_cache_key of);
/* 1: a claim of `len` bytes may succeed. */
int stk_picture_cache_wants(const stk_picture_cache *k, stk_cache_key of, uint64_t len);
/* Claims an entry and returns its offset in the arena.  0: it is cached, in flight or bad, or there
 * is no room. */
uint64_t stk_picture_cache_claim(stk_picture_cache *k, stk_cache_key of, uint64_t len);
/* The claimed picture has arrived. */
void stk_picture_cache_there(stk_picture_cache *k, stk_cache_key of);
/* The claimed picture did not arrive; it may be claimed again. */
void stk_picture_cache_undo(stk_picture_cache *k, stk_cache_key of);
/* No picture could be made of it; it is never claimed again. */
void stk_picture_cache_bad(stk_picture_cache *k, stk_cache_key of);

typedef struct stk_picture_cache_stats {
    uint64_t bytes, limit, entries;
} stk_picture_cache_stats;
void stk_picture_cache_figures(const stk_picture_cache *k, stk_picture_cache_stats *out);

#endif
