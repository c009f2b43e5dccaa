/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_column.h - functions on columns for the library alone; those for programs are in
 * stoker/dataset.h. */
#ifndef STOKER_DATASET_COLUMN_H
#define STOKER_DATASET_COLUMN_H

#include <stoker/dataset.h>

int stk_column_utf8(const stk_column *c); /* 1: all texts of the column are UTF-8 */

#endif
