/* SPDX-License-Identifier: Apache-2.0 */
/* array_table.h - a data set of arrays as a table, whose columns are the arrays.  The plan of data
 * opens it for loaders that have arrays beside shards or tables (loader/plan_data.c).
 *
 * A loader whose data sets are all arrays needs no table: it copies rows without requests
 * (row/row_array.c). */
#ifndef STOKER_ARRAY_TABLE_H
#define STOKER_ARRAY_TABLE_H

#include "array/arrays.h"
#include "table/table_data.h"

/* Sets *out to the table, which the caller closes.  It holds a reference to `arrays`, whose `can`
 * has STK_DATA_IMMEDIATE. */
int stk_array_table_open(stk_dataset **out, stk_dataset *arrays, stk_error *err);

#endif
