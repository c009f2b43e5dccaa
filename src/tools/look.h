/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - finds samples that are alike, by a hash of their bytes and a hash of how a picture
 * looks. `stoker describe` and `stoker pack` call it. */
#ifndef STOKER_TOOLS_LOOK_H
#define STOKER_TOOLS_LOOK_H

#include "base/scratch.h"
#include "codec/decoders.h"

typedef struct stk_same { /* a hash of 128 bits; no protection against deliberate collisions */
    uint64_t a, b;
} stk_same;

/* Adds a field of a sample to the hash, which begins as zeros. */
void stk_same_add(stk_same *s, const char *name, const void *data, size_t len);

typedef struct stk_look { /* how a picture looks */
    uint64_t hash;        /* bit per area of 8 x 8: it is brighter than the area right of it */
    double mean[3];       /* mean of red, green and blue, 0 to 255 */
} stk_look;

/* `p` is RGBX and has the whole picture, w x h. */
void stk_look_at(const stk_pixels *p, uint32_t w, uint32_t h, stk_look *out);

#define STK_LOOK_PIXELS 178956970u /* default of max_pixels */

/* Decodes `in` and computes its look.  1: *out and *info are set.  0: it is not a picture.
 * Negative: it is a bad one, or has more than max_pixels.  Resets the scratch memory. */
int stk_look_read(stk_decoders *decoders, stk_scratch *scratch, stk_bytes in, uint64_t max_pixels,
                  stk_media_info *info, stk_look *out);

#define STK_LOOK_ALIKE 3 /* bits that may differ */

/* Sets group[i] to the first sample with the same bytes as sample i, which may be i itself. */
int stk_same_groups(const stk_same *s, uint64_t n, uint64_t *group, stk_error *err);
/* The same for pictures that look alike; has[i] 0: sample i has no picture. */
int stk_look_groups(const uint64_t *hash, const uint8_t *has, uint64_t n, uint64_t *group,
                    stk_error *err);

#endif
