/* SPDX-License-Identifier: Apache-2.0 */
/* pack_plan_file.h - reading a plan, apart from its file. */
#ifndef STOKER_PACK_PLAN_FILE_H
#define STOKER_PACK_PLAN_FILE_H

#include <stoker/plugin.h>
#include <stoker/tools.h>

/* *out is the caller's, also on failure. */
int stk_pack_plan_parse(stk_pack_plan **out, stk_bytes doc, stk_error *err);

#endif
