/* SPDX-License-Identifier: Apache-2.0 */
/* padded.h - tensors that a GPU makes of rows of different sizes: private to device.c and
 * pictures.c. */
#ifndef STOKER_PADDED_H
#define STOKER_PADDED_H

#include "gpu/transfer.h"

/* How pictures of an output lie in their rows. */
stk_pic_lay stk_padded_lay(const stk_batch *b, uint32_t output);
/* What is behind rows, before any of them is made.  CUDA's error number, or 0. */
int stk_padded_fill(stk_gpu_transfer *f, const stk_batch *b, uint32_t output);
/* Row `row` was made by the host again, as a record of what it must be. */
int stk_padded_redo(stk_gpu_transfer *f, stk_batch *b, uint32_t output, uint32_t row,
                    stk_error *err);

#endif
