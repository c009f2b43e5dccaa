/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_loop_bmi2.c - the loops of jpeg_loop.h with BMI2's shifts, which take any register and
 * leave the flags alone. */
#include "codec/jpeg_loop.h"

const stk_jpeg_loops stk_jpeg_loops_bmi2 = { begin, run_one, run_two };
