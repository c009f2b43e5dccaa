/* SPDX-License-Identifier: Apache-2.0 */
/* patch_sizes - sizes by formula, for oracles: reads pairs of u32 (height, width) from standard
 * input, writes four u32 for each: height and width of the resized picture, then of its canvas;
 * zeros where it has none.
 *
 *     patch_sizes RULE PATCH MERGE MAX_PATCHES MIN_PIXELS MAX_PIXELS MAX_SIDE MAX_RATIO
 *     patch_sizes bucket AREA STEP LEAST MOST     resized, then the bucket */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/patch_size.h"

static void by_rule(const stk_patch_sizing *s, const uint32_t in[2], uint32_t out[4])
{
    stk_patch_size z = { 0 };

    if (!stk_patch_size_of(s, in[1], in[0], &z)) {
        out[0] = z.h, out[1] = z.w;
        out[2] = z.canvas_h, out[3] = z.canvas_w;
    }
}

static void by_bucket(const stk_bucket_sizes *b, const uint32_t in[2], uint32_t out[4])
{
    uint64_t w, h;
    uint32_t at = stk_bucket_of(b, in[1], in[0], &w, &h);

    out[0] = (uint32_t)h, out[1] = (uint32_t)w;
    out[2] = b->h[at], out[3] = b->w[at];
}

int main(int argc, char **argv)
{
    static stk_bucket_sizes buckets;
    stk_patch_sizing s = { 0 };
    uint32_t in[2];
    int bucket;

    if (argc < 6)
        return 2;
    bucket = !strcmp(argv[1], "bucket");
    if (bucket)
        stk_bucket_sizes_make(&buckets, strtoull(argv[2], NULL, 10), (uint32_t)atoi(argv[3]),
                              (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]));
    else if (argc == 9)
        s = (stk_patch_sizing){ (stk_patch_rule)atoi(argv[1]), (uint32_t)atoi(argv[2]),
                                (uint32_t)atoi(argv[3]),       strtoull(argv[4], NULL, 10),
                                strtoull(argv[5], NULL, 10),   strtoull(argv[6], NULL, 10),
                                (uint32_t)atoi(argv[7]),       atof(argv[8]) };
    else
        return 2;
    while (fread(in, sizeof in, 1, stdin) == 1) {
        uint32_t out[4] = { 0 };

        if (bucket)
            by_bucket(&buckets, in, out);
        else
            by_rule(&s, in, out);
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
