/* SPDX-License-Identifier: Apache-2.0 */
/* arrays_open.h - from names of files to arrays. */
#ifndef STOKER_ARRAYS_OPEN_H
#define STOKER_ARRAYS_OPEN_H

#include "array/arrays.h"
#include "data/data.h"
#include "format/zip.h"

/* Do these names, or what is known of the data, mean arrays and not shards with an index? */
int stk_arrays_meant(const char *const *urls, size_t n, const stk_dataset_options *o);

/* One array of the files, or several where it is an .npz. */
int stk_arrays_open(stk_dataset **out, const char *const *urls, size_t n,
                    const stk_dataset_options *o, stk_error *err);

/* npz_check.c: do the stored members have the checksums that the archive says? */
int stk_npz_check(stk_file *f, const char *name, const stk_zip *z, const stk_dataset_options *o,
                  stk_error *err);

#endif
