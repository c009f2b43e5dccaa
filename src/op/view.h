/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - declares every op that registry.def lists, for code that names one.  What an op and a
 * view are is in stoker/plugin_op.h. */
#ifndef STOKER_VIEW_H
#define STOKER_VIEW_H

#include "base/err.h"

#define STK_OP(name) extern const stk_op stk_op_##name;
#include "registry.def"

#endif
