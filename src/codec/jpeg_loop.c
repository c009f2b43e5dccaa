/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_loop.c - the loops of jpeg_loop.h for any processor. */
#include "codec/jpeg_loop.h"

const stk_jpeg_loops stk_jpeg_loops_c = { begin, run_one, run_two };
