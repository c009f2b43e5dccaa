/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - takes tables of plug-ins from programs: checks them and copies them to the size of this
 * build.  The registry and the options call it. */
#ifndef STOKER_BASE_TABLE_H
#define STOKER_BASE_TABLE_H

#include <stoker/plugin.h>

#define STK_TABLE_MAX 4096 /* most bytes of a table */

/* Copies `table`, which begins like stk_plugin, to dst, a table of `size` bytes in this build.
 * Fields that the plug-in's version does not have are zero.  `what` is for errors: "order". */
int stk_table_take(void *dst, size_t size, const void *table, const char *what, stk_error *err);

#endif
