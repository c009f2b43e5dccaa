/* SPDX-License-Identifier: Apache-2.0 */
/* arrays_open.h - opens the files that a name stands for (.npy, .npz, .bin) as arrays in mapped
 * memory. stk_dataset_open() and the loader call it by way of the kind of data `arrays`. */
#ifndef STOKER_ARRAYS_OPEN_H
#define STOKER_ARRAYS_OPEN_H

#include "array/arrays.h"
#include "data/data.h"
#include "format/zip.h"

/* npz_check.c: do the stored members have the checksums that the archive says? */
int stk_npz_check(stk_file *f, const char *name, const stk_zip *z, const stk_dataset_options *o,
                  stk_error *err);

#endif
