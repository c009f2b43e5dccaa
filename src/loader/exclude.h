/* SPDX-License-Identifier: Apache-2.0 */
/* exclude.h - reads a file that names bad samples, as ids of the loaded data sets.  The plan of the
 * schedule calls it for exclude=. */
#ifndef STOKER_EXCLUDE_H
#define STOKER_EXCLUDE_H

#include "base/log.h"
#include "data/data.h"
#include "order/order.h"

/* Reads the file `path`: what `stoker check --write-exclude` writes, or keys, one per line.  The
 * ids in *out are stk_alloc()ed, sorted and distinct; they are counted over all data sets. */
int stk_exclude_load(stk_exclude *out, const char *path, stk_dataset *const *data,
                     const stk_sample_set *set, const stk_log *log, stk_error *err);

#endif
