/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_chunk.h - an HDF5 chunk as it is stored -> its elements: the filters of a data set in
 * reverse. */
#ifndef STOKER_UNPACK_CHUNK_H
#define STOKER_UNPACK_CHUNK_H

#include "base/err.h"
#include "format/hdf5/hdf5.h"

/* Exactly dst[0..len), or an error.  mask: bit i says that filter i was left out.  Thread: any. */
int stk_unpack_chunk(const stk_h5_filter *filter, uint32_t n, uint32_t mask, stk_bytes raw,
                     stk_bytes dst, stk_error *err);

/* lzf, as LibLZF packs: how many bytes it makes, at most `room`; SIZE_MAX: it is damaged. */
size_t stk_unlzf(stk_bytes in, uint8_t *dst, size_t room);

/* The filters that take more than a few lines: exactly dst[0..len), or an error.  unpack_bits.c,
 * unpack_blosc.c, szip.c. */
int stk_unnbit(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unscale(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unbitshuffle(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len,
                     stk_error *err);
int stk_unblosc(stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unszip(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
/* The n-th bytes of all elements come one after another: -> elements. */
void stk_unshuffle(const uint8_t *src, uint8_t *dst, size_t len, size_t width);

#endif
