/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - the ops that ship with the library (geometry of a view: plugin.h). */
#ifndef STOKER_VIEW_H
#define STOKER_VIEW_H

#include "base/err.h"

#define STK_OP(name) extern const stk_op stk_op_##name;
#define STK_SOURCE(name)
#define STK_FORMAT(name)
#define STK_CODEC(name)
#define STK_DECODER(name)
#include "registry.def"
#undef STK_OP
#undef STK_SOURCE
#undef STK_FORMAT
#undef STK_CODEC
#undef STK_DECODER

#endif
