/* SPDX-License-Identifier: Apache-2.0 */
/* description.h - between describe.c, which makes one, description.c, which reads one, and
 * drift.c. */
#ifndef STOKER_TOOLS_DESCRIPTION_H
#define STOKER_TOOLS_DESCRIPTION_H

#include <stoker/seeing.h>

#define STK_MAX_FEATURES 512
#define STK_MAX_VALUES 1000 /* of a category; the rest is one */

struct stk_description {
    stk_description_counts counts;
    uint32_t n;
    stk_feature *feature; /* STK_MAX_FEATURES of them have room */
};

int stk_description_open(stk_description **out, stk_error *err);
/* NULL: too many */
stk_feature *stk_description_add(stk_description *d, const char *name, size_t len);
/* describe_arrays.c: of data that stk_dataset_arrays() says is arrays. */
int stk_describe_arrays(const stk_dataset *ds, const stk_describe_options *o, stk_description *d,
                        stk_error *err);
/* Numbers, which are sorted in place; NaN: absent. */
void stk_feature_numbers(stk_feature *f, double *v, uint64_t n);

#endif
