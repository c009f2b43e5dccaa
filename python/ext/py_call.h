/* SPDX-License-Identifier: Apache-2.0 */
/* py_call.h - makes a loader's stk_caller from the Python functions that call() in chains names.
 * The files that open a loader call it. */
#ifndef STOKER_PY_CALL_H
#define STOKER_PY_CALL_H

#include <stoker/plugin_loader.h>

#include "pystoker.h"

stk_caller caller_of(PyObject *calls); /* a Calls object, which the loader must keep */

#endif
