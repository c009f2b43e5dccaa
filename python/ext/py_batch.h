/* SPDX-License-Identifier: Apache-2.0 */
/* py_batch.h - from a C batch to Python values. */
#ifndef STOKER_PY_BATCH_H
#define STOKER_PY_BATCH_H

#include "pystoker.h"

/* ([(name, is_json, value)], ids as int64 bytes, valid as bytes); gives the batch back in
 * every case. */
PyObject *batch_take(module_state *st, stk_batch **b);

#endif
