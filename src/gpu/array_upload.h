/* SPDX-License-Identifier: Apache-2.0 */
/* array_upload.h - the thread that copies arrays to a GPU. */
#ifndef STOKER_ARRAY_UPLOAD_H
#define STOKER_ARRAY_UPLOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "array/arrays.h"
#include "base/log.h"
#include "gpu/array_cache.h"

typedef struct stk_array_move { /* an array, and where it goes in the cache */
    const stk_array *array;
    uint64_t at;
} stk_array_move;

/* zeros, then what is to be done.  Thread: one starts and stops it. */
typedef struct stk_array_upload {
    stk_array_cache *cache;
    const stk_array_move *move;
    uint32_t n;
    stk_log log;
    _Atomic int state;
    pthread_t thread;
} stk_array_upload;

int stk_array_upload_start(stk_array_upload *u, stk_error *err); /* once; then it does nothing */
void stk_array_upload_stop(stk_array_upload *u); /* waits for it; also where it was not started */

#endif
