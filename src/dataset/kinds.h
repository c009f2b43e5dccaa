/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.h - which kind of data some names mean.  Names that none of these kinds opens are indexed
 * shards. */
#ifndef STOKER_KINDS_H
#define STOKER_KINDS_H

#include "data/data.h"

typedef struct stk_data_kind {
    /* Do these names, or what is said of the data, mean this kind? */
    int (*meant)(const char *const *urls, size_t n, const stk_dataset_options *o);
    int (*open)(stk_dataset **out, const char *const *urls, size_t n, const stk_dataset_options *o,
                stk_error *err);
    /* samples that are read one by one: check goes through them; `index` opens the data set */
    int rows;
} stk_data_kind;

/* The first kind that is meant; NULL: indexed shards.  A format in the options is one of shards. */
const stk_data_kind *stk_kind_meant(const char *const *urls, size_t n,
                                    const stk_dataset_options *o);

#endif
