/* SPDX-License-Identifier: Apache-2.0 */
/* dot_avx2.c - the same loop, compiled with AVX2. */
#define STK_DOT_NAME stk_dot_avx2
#include "sound/dot_body.h"
