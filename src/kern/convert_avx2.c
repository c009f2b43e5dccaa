/* SPDX-License-Identifier: Apache-2.0 */
/* convert_avx2.c - the same loops, compiled with AVX2. */
#define STK_CONVERT stk_convert_avx2
#include "kern/convert_body.h"
