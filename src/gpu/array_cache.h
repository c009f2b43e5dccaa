/* SPDX-License-Identifier: Apache-2.0 */
/* array_cache.h - arrays that a GPU keeps: memory there that is filled once, while batches already
 * come by the usual way, and that rows are gathered out of when all of it is there. */
#ifndef STOKER_ARRAY_CACHE_H
#define STOKER_ARRAY_CACHE_H

#include "gpu/load.h"

#define STK_ARRAY_CHUNK ((size_t)8 << 20) /* bytes that go over at once */

typedef struct stk_array_cache stk_array_cache; /* Thread: one fills it, any looks. */

int stk_array_cache_open(stk_array_cache **out, const stk_cuda *cuda, int gpu, uint64_t bytes,
                         stk_error *err);
void stk_array_cache_close(stk_array_cache **s); /* nothing on the GPU uses it */

/* Page-locked room for the next STK_ARRAY_CHUNK bytes; NULL: it failed (say).  Then put() what was
 * written there at `at`; ready() when everything is put: waits until it is there. */
void *stk_array_cache_room(stk_array_cache *s);
int stk_array_cache_put(stk_array_cache *s, uint64_t at, size_t len);
int stk_array_cache_ready(stk_array_cache *s);

int stk_array_cache_there(const stk_array_cache *s); /* 1: all of it */
const uint8_t *stk_array_cache_arena(const stk_array_cache *s,
                                     uint64_t *len);       /* the GPU's memory */
uint64_t stk_array_cache_filled(const stk_array_cache *s); /* bytes so far */

#endif
