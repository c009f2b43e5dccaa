/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - the kinds of data beside indexed shards.  A new kind is one line here. */
#include "dataset/kinds.h"

#include "array/arrays_open.h"
#include "table/arrow_data.h"
#include "table/beton_data.h"
#include "table/hdf5_data.h"
#include "table/mds_data.h"
#include "table/parquet_data.h"

/* In the order in which they are asked. */
static const stk_data_kind kinds[] = {
    { stk_arrays_meant, stk_arrays_open, 0 },   { stk_mds_meant, stk_mds_open, 1 },
    { stk_parquet_meant, stk_parquet_open, 1 }, { stk_arrow_meant, stk_arrow_open, 1 },
    { stk_hdf5_meant, stk_hdf5_open, 1 },       { stk_beton_meant, stk_beton_open, 1 },
};

const stk_data_kind *stk_kind_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !o->format; i++)
        if (kinds[i].meant(urls, n, o))
            return &kinds[i];
    return NULL;
}
