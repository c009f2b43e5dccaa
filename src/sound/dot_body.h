/* SPDX-License-Identifier: Apache-2.0 */
/* dot_body.h - the loop of dot.h, compiled once for any machine and once for AVX2.  The including
 * file defines STK_DOT_NAME. */
#include "sound/dot.h"

#include <string.h>

typedef float stk_lanes __attribute__((vector_size(32), aligned(4), may_alias));

float STK_DOT_NAME(const float *a, const float *b, size_t n)
{
    stk_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    float sum[STK_DOT];

    for (size_t i = 0; i < n; i += STK_DOT) {
        const stk_lanes *p = (const stk_lanes *)(const void *)(a + i);
        const stk_lanes *q = (const stk_lanes *)(const void *)(b + i);

        s0 += p[0] * q[0];
        s1 += p[1] * q[1];
        s2 += p[2] * q[2];
        s3 += p[3] * q[3];
    }
    memcpy(sum, &s0, sizeof s0);
    memcpy(sum + 8, &s1, sizeof s1);
    memcpy(sum + 16, &s2, sizeof s2);
    memcpy(sum + 24, &s3, sizeof s3);
    return stk_dot_sum(sum);
}
