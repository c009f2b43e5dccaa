/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.h - the decoders of a registry, with one thread's contexts.  Thread: worker. */
#ifndef STOKER_CODEC_DECODERS_H
#define STOKER_CODEC_DECODERS_H

#include "base/registry.h"

typedef struct stk_decoders {
    const stk_registry *registry;
    size_t n;   /* as many as there were at init() */
    void **ctx; /* opened at first use */
} stk_decoders;

int stk_decoders_init(stk_decoders *d, const stk_registry *registry, stk_error *err);
void stk_decoders_fini(stk_decoders *d);
/* The decoder that knows these bytes, and its context.  STK_END: none does. */
int stk_decoders_find(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                      stk_error *err);

#endif
