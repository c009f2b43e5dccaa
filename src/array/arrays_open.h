/* SPDX-License-Identifier: Apache-2.0 */
/* arrays_open.h - a part of opening .npz files as arrays.  The files arrays_*.c of this folder call
 * it. */
#ifndef STOKER_ARRAYS_OPEN_H
#define STOKER_ARRAYS_OPEN_H

#include "array/arrays.h"
#include "data/data.h"
#include "format/zip.h"

/* npz_check.c: STK_ECORRUPT: a stored member does not have the checksum that the archive says. */
int stk_npz_check(stk_file *f, const char *name, const stk_zip *z, const stk_dataset_options *o,
                  stk_error *err);

#endif
