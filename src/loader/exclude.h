/* SPDX-License-Identifier: Apache-2.0 */
/* exclude.h - reads a file that names bad samples, as ids of the loaded data sets.  The plan of the
 * schedule calls it for exclude=. */
#ifndef STOKER_EXCLUDE_H
#define STOKER_EXCLUDE_H

#include "base/log.h"
#include "data/data.h"
#include "order/order.h"

/* Reads the manifest `path`: what `stoker check --write-exclude` writes, or keys, one per line. The
 * ids are stk_alloc()ed, sorted and distinct; data set i begins with id start[i]. */
int stk_exclude_load(stk_exclude *out, const char *path, stk_dataset *const *data,
                     const stk_sample_set *set, const stk_log *log, stk_error *err);

#endif
