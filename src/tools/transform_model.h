/* SPDX-License-Identifier: Apache-2.0 */
/* transform_model.h - what transforms of pictures (transform.c) and of sound (transform_sound.c)
 * share. */
#ifndef STOKER_TOOLS_TRANSFORM_MODEL_H
#define STOKER_TOOLS_TRANSFORM_MODEL_H

#include <stoker/transform.h>

#include "base/lock.h"
#include "base/mem.h"
#include "chain/chain.h"
#include "gpu/gpu_views.h"
#include "kern/kern.h"

#define STK_TRANSFORM_GPUS 64
#define STK_TRANSFORM_SHARES 4 /* runs of pictures or recordings per thread */
#define STK_TRANSFORM_IDLE 8   /* most rooms that are stored for the next call */

typedef struct stk_transform_room { /* memory that a thread works with */
    stk_scratch scratch;
    void *sound; /* context of the codec `sound`; NULL: not used so far */
} stk_transform_room;

typedef struct stk_transform_idle {
    stk_mutex lock;
    uint32_t n;                                  /* lock */
    stk_transform_room room[STK_TRANSFORM_IDLE]; /* lock */
} stk_transform_idle;

struct stk_transform {
    stk_chain chain;
    const stk_kern *kern;
    uint64_t seed;
    uint32_t workers;
    uint8_t output;
    stk_registry *registry;
    stk_transform_idle *idle;
    stk_mutex lock;
    stk_views *views[STK_TRANSFORM_GPUS]; /* lock */
};

/* take(): a stored room, or an empty one.  give(): stores it for the next call. */
void stk_transform_room_take(const stk_transform *t, stk_transform_room *out);
void stk_transform_room_give(const stk_transform *t, stk_transform_room *room);

/* STK_EINVAL, STK_ENOTSUP: a transform can't run this chain of sound by itself. */
int stk_transform_check_sound(const stk_chain *c, stk_error *err);

#endif
