/* SPDX-License-Identifier: Apache-2.0 */
/* flac_rice.c - the loop of flac_bits.h for any processor. */
#define STK_RICE stk_flac_rice_c
#include "codec/flac_rice_body.h"
