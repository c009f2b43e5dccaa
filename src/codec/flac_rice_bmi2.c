/* SPDX-License-Identifier: Apache-2.0 */
/* flac_rice_bmi2.c - the loop of flac_bits.h for processors whose shifts take any register and
 * leave the flags alone. */
#define STK_RICE stk_flac_rice_bmi2
#include "codec/flac_rice_body.h"
