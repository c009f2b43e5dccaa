/* SPDX-License-Identifier: Apache-2.0 */
/* array_cache.h - arrays in GPU memory, from which a GPU gathers rows.  array_upload.c fills it
 * once, while batches are made in the usual way; device.c gathers rows from it when it is
 * complete. */
#ifndef STOKER_ARRAY_CACHE_H
#define STOKER_ARRAY_CACHE_H

#include "gpu/load.h"

#define STK_ARRAY_CHUNK ((size_t)8 << 20) /* bytes that one copy takes to the GPU */

typedef struct stk_array_cache stk_array_cache; /* Thread: one fills it, any reads. */

int stk_array_cache_open(stk_array_cache **out, const stk_cuda *cuda, int gpu, uint64_t bytes,
                         stk_error *err);
void stk_array_cache_close(stk_array_cache **s); /* call when no work on the GPU uses it */

/* Page-locked memory for the next STK_ARRAY_CHUNK bytes.  NULL: an error of CUDA.  put() then
 * copies what was written there to `at`.  ready() waits until everything is copied. */
void *stk_array_cache_room(stk_array_cache *s);
int stk_array_cache_put(stk_array_cache *s, uint64_t at, size_t len);
int stk_array_cache_ready(stk_array_cache *s);

int stk_array_cache_there(const stk_array_cache *s); /* 1: all of it is on the GPU */
const uint8_t *stk_array_cache_arena(const stk_array_cache *s,
                                     uint64_t *len);       /* its memory on the GPU */
uint64_t stk_array_cache_filled(const stk_array_cache *s); /* bytes copied so far */

#endif
