/* SPDX-License-Identifier: Apache-2.0 */
/* yuv_avx2.c - yuv_body.h, compiled for AVX2. */
#define YUV(name) stk_yuv_avx2_##name
#include "kern/yuv_body.h"
