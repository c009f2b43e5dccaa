/* SPDX-License-Identifier: Apache-2.0 */
/* array_table.h - a data set of arrays as a table, whose columns are the arrays.
 *
 * A loader whose data sets are all arrays copies rows without requests (row/row_array.c).  Beside
 * shards or tables arrays are read as a table is: this one. */
#ifndef STOKER_ARRAY_TABLE_H
#define STOKER_ARRAY_TABLE_H

#include "array/arrays.h"
#include "table/table_data.h"

/* *out: the caller's; it holds `arrays`, whose can has STK_DATA_IMMEDIATE. */
int stk_array_table_open(stk_dataset **out, stk_dataset *arrays, stk_error *err);

#endif
