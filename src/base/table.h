/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - tables of plug-ins as they come in: checked, then copied into one of this build's
 * size. */
#ifndef STOKER_BASE_TABLE_H
#define STOKER_BASE_TABLE_H

#include <stoker/plugin.h>

#define STK_TABLE_MAX 4096 /* bytes of a table: more is a mistake */

/* Copy `table`, which begins as stk_plugin does, to dst, a table of `size` bytes as this build has
 * it; fields that the plug-in's does not have are zero.  `what` is for messages: "order". */
int stk_table_take(void *dst, size_t size, const void *table, const char *what, stk_error *err);

#endif
