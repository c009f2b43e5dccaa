/* SPDX-License-Identifier: Apache-2.0 */
/* mp4_box.h - reads boxes of ISO base media files (MP4), and numbers in them.  The files mp4*.c
 * call it.  Every read is checked: past the end of a box, numbers are 0 and in.bad is set. */
#ifndef STOKER_VIDEO_MP4_BOX_H
#define STOKER_VIDEO_MP4_BOX_H

#include "video/track.h"

#define STK_BOX(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

typedef struct stk_mp4_in { /* a cursor */
    const uint8_t *p, *end;
    uint64_t at; /* offset of *p in the file */
    int bad;
} stk_mp4_in;

static inline uint64_t stk_mp4_be(stk_mp4_in *in, uint32_t bytes)
{
    uint64_t v = 0;

    if ((size_t)(in->end - in->p) < bytes) {
        in->bad = 1;
        in->at += (uint64_t)(in->end - in->p);
        in->p = in->end;
        return 0;
    }
    for (uint32_t i = 0; i < bytes; i++)
        v = v << 8 | in->p[i];
    in->p += bytes;
    in->at += bytes;
    return v;
}

static inline void stk_mp4_skip(stk_mp4_in *in, uint64_t bytes)
{
    size_t left = (size_t)(in->end - in->p);

    if (bytes > left)
        in->bad = 1;
    else
        left = (size_t)bytes;
    if (left) /* a box that is not there has no place */
        in->p += left;
    in->at += left;
}

/* The version and flags that begin a full box. */
static inline uint32_t stk_mp4_version(stk_mp4_in *in, uint32_t *flags)
{
    uint32_t v = (uint32_t)stk_mp4_be(in, 4);

    if (flags)
        *flags = v & 0xffffff;
    return v >> 24;
}

typedef struct stk_mp4_box {
    uint32_t type;
    stk_mp4_in in; /* its body */
} stk_mp4_box;

/* Sets *out to the next box of `in`.  0: there are no more; what is left may be too short for
 * one. */
static inline int stk_mp4_next(stk_mp4_in *in, stk_mp4_box *out)
{
    const uint8_t *from = in->p;
    uint64_t size, head;

    if (in->end - in->p < 8)
        return 0;
    size = stk_mp4_be(in, 4);
    out->type = (uint32_t)stk_mp4_be(in, 4);
    if (size == 1)
        size = stk_mp4_be(in, 8);
    head = (uint64_t)(in->p - from);
    if (size == 0)
        size = (uint64_t)(in->end - from);
    if (in->bad || size < head || size > (uint64_t)(in->end - from)) {
        in->bad = 1;
        return 0;
    }
    out->in = (stk_mp4_in){ in->p, from + size, in->at, 0 };
    stk_mp4_skip(in, size - head);
    return 1;
}

#endif
