/* SPDX-License-Identifier: Apache-2.0 */
/* pin.h - page-locked memory for batches on the host (pin_memory). */
#ifndef STOKER_PIN_H
#define STOKER_PIN_H

#include "gpu/load.h"

typedef struct stk_pins stk_pins; /* Thread: any. */

/* *memory is for one pool, which closes it; *out is valid as long. */
int stk_pins_open(stk_pins **out, int gpu, stk_memory *memory, stk_error *err);

/* Call when the consumer queues copies of its batches on `stream`. */
void stk_pins_seen(stk_pins *p, void *stream);

#endif
