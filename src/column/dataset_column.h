/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_column.h - questions about a column that only the library asks; what programs ask is in
 * stoker/dataset.h. */
#ifndef STOKER_DATASET_COLUMN_H
#define STOKER_DATASET_COLUMN_H

#include <stoker/dataset.h>

int stk_column_utf8(const stk_column *c); /* a column of text: is all of it UTF-8? */

#endif
