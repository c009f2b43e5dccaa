/* SPDX-License-Identifier: Apache-2.0 */
/* padded.h - tensors that a GPU makes of rows of different sizes: private to device.c and
 * pictures.c. */
#ifndef STOKER_PADDED_H
#define STOKER_PADDED_H

#include "gpu/transfer.h"

/* The layout of an output's pictures in their rows: patches, or the size they are padded to. */
stk_pic_lay stk_padded_lay(const stk_batch *b, uint32_t output);
/* Queues filling the padding after rows, before any row is made.  Returns CUDA's error number, or
 * 0. */
int stk_padded_fill(stk_gpu_transfer *f, const stk_batch *b, uint32_t output);
/* Replaces row `row`, which the host made again and which may have another size now. */
int stk_padded_redo(stk_gpu_transfer *f, stk_batch *b, uint32_t output, uint32_t row,
                    stk_error *err);

#endif
