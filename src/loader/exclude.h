/* SPDX-License-Identifier: Apache-2.0 */
/* exclude.h - a file that names bad samples, as ids of the data sets that are loaded. */
#ifndef STOKER_EXCLUDE_H
#define STOKER_EXCLUDE_H

#include "base/log.h"
#include "data/data.h"
#include "order/order.h"

/* Read the manifest `path` (what `stoker check --write-exclude` writes, or keys, one a line).
 * The ids are stk_alloc()ed and settled; data set i begins with start[i]. */
int stk_exclude_load(stk_exclude *out, const char *path, stk_dataset *const *data,
                     const stk_sample_set *set, const stk_log *log, stk_error *err);

#endif
