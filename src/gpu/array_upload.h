/* SPDX-License-Identifier: Apache-2.0 */
/* array_upload.h - the thread that copies arrays to a GPU.  The engine starts and stops it. */
#ifndef STOKER_ARRAY_UPLOAD_H
#define STOKER_ARRAY_UPLOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "array/arrays.h"
#include "base/log.h"
#include "gpu/array_cache.h"

typedef struct stk_array_move { /* an array, and its place in the cache */
    const stk_array *array;
    uint64_t at;
} stk_array_move;

/* Begins as zeros; then cache, move and n are set.  Thread: one starts and stops it. */
typedef struct stk_array_upload {
    stk_array_cache *cache;
    const stk_array_move *move;
    uint32_t n;
    stk_log log;
    _Atomic int state; /* not started, running, or ending: array_upload.c */
    pthread_t thread;
} stk_array_upload;

int stk_array_upload_start(stk_array_upload *u, stk_error *err); /* later calls do nothing */
/* waits until it ends; does nothing if it was not started */
void stk_array_upload_stop(stk_array_upload *u);

#endif
