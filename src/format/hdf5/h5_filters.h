/* SPDX-License-Identifier: Apache-2.0 */
/* h5_filters.h - turns an HDF5 chunk as it is stored into its elements, by undoing the filters of
 * the data set.  table/hdf5_*.c calls it. */
#ifndef STOKER_H5_FILTERS_H
#define STOKER_H5_FILTERS_H

#include "base/err.h"
#include "format/hdf5/hdf5.h"

/* Makes exactly `dst`, or returns an error.  mask: bit i: filter i was not applied.  Thread:
 * any. */
int stk_unpack_chunk(const stk_h5_filter *filter, uint32_t n, uint32_t mask, stk_bytes raw,
                     stk_bytes dst, stk_error *err);

/* The filters that store numbers in fewer bits: exactly dst[0..len), or an error.  h5_bits.c. */
int stk_unnbit(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);
int stk_unscale(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err);

#endif
