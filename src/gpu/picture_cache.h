/* SPDX-License-Identifier: Apache-2.0 */
/* picture_cache.h - pictures that a GPU keeps, encoded: one arena there, and what of whom is in it.
 *
 * An entry is a sample's picture, by the sample's number and that of the output.  The batch that
 * sends its batch claims it (none -> coming) and gets a place in the arena; when the batch has
 * arrived it is there, and a worker that draws the sample again needs no byte of its file.  A
 * picture that could not be made is bad for good.  Places are cut off the front of the arena and
 * never moved or given to another, so an offset is good until the end; a claim that came to nothing
 * keeps its place for the next one.  Lookups take no lock. */
#ifndef STOKER_KEEP_H
#define STOKER_KEEP_H

#include "gpu/load.h"

typedef struct stk_picture_cache stk_picture_cache; /* Thread: any. */

typedef struct stk_picture_cache_options {
    uint64_t bytes;   /* of the arena */
    uint64_t samples; /* numbers are below it */
    uint32_t outputs; /* likewise */
} stk_picture_cache_options;

int stk_picture_cache_open(stk_picture_cache **out, const stk_cuda *cuda, int gpu,
                           const stk_picture_cache_options *o, stk_error *err);
void stk_picture_cache_close(stk_picture_cache **k); /* nothing on the GPU uses it */

uint8_t *stk_picture_cache_arena(const stk_picture_cache *k, uint64_t *len); /* the GPU's memory */

typedef struct stk_cache_key { /* whose */
    uint64_t sample;
    uint32_t output;
} stk_cache_key;

/* Where it is in the arena; 0: nowhere. */
uint64_t stk_picture_cache_find(const stk_picture_cache *k, stk_cache_key of);
/* Would a claim of `len` bytes have a chance? */
int stk_picture_cache_wants(const stk_picture_cache *k, stk_cache_key of, uint64_t len);
/* It is on its way: where it goes; 0: it is there already, on its way, bad, or there is no room. */
uint64_t stk_picture_cache_claim(stk_picture_cache *k, stk_cache_key of, uint64_t len);
/* What was claimed is there. */
void stk_picture_cache_there(stk_picture_cache *k, stk_cache_key of);
/* What was claimed did not come, and may be claimed again. */
void stk_picture_cache_undo(stk_picture_cache *k, stk_cache_key of);
/* No picture could be made of it: never again. */
void stk_picture_cache_bad(stk_picture_cache *k, stk_cache_key of);

typedef struct stk_picture_cache_stats {
    uint64_t bytes, limit, entries;
} stk_picture_cache_stats;
void stk_picture_cache_figures(const stk_picture_cache *k, stk_picture_cache_stats *out);

#endif
