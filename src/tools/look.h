/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - finds samples that are alike, by a hash of their bytes and a hash of how a picture
 * looks. `stoker describe` and `stoker pack` call it. */
#ifndef STOKER_TOOLS_LOOK_H
#define STOKER_TOOLS_LOOK_H

#include "base/scratch.h"
#include "codec/decoders.h"

typedef struct stk_same { /* equal for equal bytes; 128 bits, not for adversaries */
    uint64_t a, b;
} stk_same;

/* Of the fields of a sample, one after the other; start with zeros. */
void stk_same_add(stk_same *s, const char *name, const void *data, size_t len);

typedef struct stk_look { /* of a picture */
    uint64_t hash;  /* which of 8 x 8 neighbouring areas is brighter than the one right of it */
    double mean[3]; /* of red, green and blue, 0 to 255 */
} stk_look;

/* `p` is RGBX and has the whole picture, w x h. */
void stk_look_at(const stk_pixels *p, uint32_t w, uint32_t h, stk_look *out);

#define STK_LOOK_PIXELS 178956970u /* of a picture that is looked at, by default */

/* Decode `in` and look at it.  1: `out` and `info` are set.  0: it is not a picture.  Negative: it
 * is a bad one, or has more than max_pixels.  The scratch is reset. */
int stk_look_read(stk_decoders *decoders, stk_scratch *scratch, stk_bytes in, uint64_t max_pixels,
                  stk_media_info *info, stk_look *out);

#define STK_LOOK_ALIKE 3 /* bits that may differ */

/* Samples that are like an earlier one: group[i] is the first one that sample i is like, or i
 * itself. */
int stk_same_groups(const stk_same *s, uint64_t n, uint64_t *group, stk_error *err);
/* The same by look; has[i] 0: sample i has no picture. */
int stk_look_groups(const uint64_t *hash, const uint8_t *has, uint64_t n, uint64_t *group,
                    stk_error *err);

#endif
