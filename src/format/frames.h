/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - what packs a shard while it is written: frame after frame, each of which unpacks by
 * itself.
 *
 * The same bytes give the same frames.  Who implements it is codec/squeeze.h's affair. */
#ifndef STOKER_FORMAT_FRAMES_H
#define STOKER_FORMAT_FRAMES_H

#include "base/text.h"

typedef struct stk_framer stk_framer; /* Thread: one. */

struct stk_framer {
    /* Append one frame that holds `in`, which has at least a byte and at most STK_FRAME_MAX. */
    int (*frame)(stk_framer *f, stk_bytes in, stk_text *out, stk_error *err);
    /* Append what comes after the last frame; NULL: nothing does. */
    int (*end)(stk_framer *f, stk_text *out, stk_error *err);
    void (*close)(stk_framer *f);
};

#define STK_FRAME ((size_t)256 << 10) /* a frame ends with the sample that brings it to this */
/* and in the middle of a sample that is larger than this */
#define STK_FRAME_MAX ((size_t)64 << 20)

#endif
