/* SPDX-License-Identifier: Apache-2.0 */
/* py_batch.h - turns a C batch into Python values.  py_loader*.c call it. */
#ifndef STOKER_PY_BATCH_H
#define STOKER_PY_BATCH_H

#include "pystoker.h"

/* Returns ([(name, is_json, value)], ids as int64 bytes, valid as bytes), or NULL with an
 * exception.  Releases the batch in every case. */
PyObject *batch_take(module_state *st, stk_batch **b);

#endif
