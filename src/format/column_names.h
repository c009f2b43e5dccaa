/* SPDX-License-Identifier: Apache-2.0 */
/* column_names.h - gives columns of the same name different names, so that each can be asked for.
 * Parquet and Arrow files may have such columns. */
#ifndef STOKER_COLUMN_NAMES_H
#define STOKER_COLUMN_NAMES_H

#include "base/err.h"

/* Of n columns, *name[i] being the name of each, the first with a name keeps it; the others are
 * name_1, name_2, ..., as DuckDB calls them.  Names are from stk_alloc() and its like. */
int stk_column_names(char **const *name, uint32_t n, stk_error *err);

#endif
