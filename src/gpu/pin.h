/* SPDX-License-Identifier: Apache-2.0 */
/* pin.h - page-locked memory for batches on the host (the option pin_memory).  The plan opens it
 * (loader/plan_memory.c).  A buffer is used again only after queued copies of it have ended. */
#ifndef STOKER_PIN_H
#define STOKER_PIN_H

#include "gpu/load.h"

typedef struct stk_pins stk_pins; /* Thread: any. */

/* Sets *memory to allocate for one pool, which closes it; *out is valid until then. */
int stk_pins_open(stk_pins **out, int gpu, stk_memory *memory, stk_error *err);

/* Call when the consumer queues copies of its batches on `stream`. */
void stk_pins_seen(stk_pins *p, void *stream);

#endif
