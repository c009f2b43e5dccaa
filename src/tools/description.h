/* SPDX-License-Identifier: Apache-2.0 */
/* description.h - the description of a data set (stoker/tools.h) while it is made or read.  Shared
 * by describe*.c, which make one, description.c, which reads one, and drift.c, which compares
 * two. */
#ifndef STOKER_TOOLS_DESCRIPTION_H
#define STOKER_TOOLS_DESCRIPTION_H

#include <stoker/seeing.h>

#define STK_MAX_FEATURES 512
#define STK_MAX_VALUES 1000 /* most values of a category; all others count as one */

struct stk_description {
    stk_description_counts counts;
    uint32_t n;
    stk_feature *feature; /* memory for STK_MAX_FEATURES */
};

int stk_description_open(stk_description **out, stk_error *err);
/* Adds a feature; NULL: there are too many. */
stk_feature *stk_description_add(stk_description *d, const char *name, size_t len);
/* describe_arrays.c: describes a data set of arrays (stk_dataset_arrays()). */
int stk_describe_arrays(const stk_dataset *ds, const stk_describe_options *o, stk_description *d,
                        stk_error *err);
/* Fills in a feature from n numbers, which are sorted in place; NaN: the sample has none. */
void stk_feature_numbers(stk_feature *f, double *v, uint64_t n);

#endif
