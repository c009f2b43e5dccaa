/* SPDX-License-Identifier: Apache-2.0 */
/* pack_plan_file.h - parses the text of a plan of `stoker pack`.  pack_plan_file.c and a fuzzer
 * call it. */
#ifndef STOKER_PACK_PLAN_FILE_H
#define STOKER_PACK_PLAN_FILE_H

#include <stoker/plugin.h>
#include <stoker/tools.h>

/* The caller frees *out, on failure too. */
int stk_pack_plan_parse(stk_pack_plan **out, stk_bytes doc, stk_error *err);

#endif
