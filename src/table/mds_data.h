/* SPDX-License-Identifier: Apache-2.0 */
/* mds_data.h - MosaicML's data sets (a folder with index.json and .mds shards) as a kind of data. */
#ifndef STOKER_MDS_DATA_H
#define STOKER_MDS_DATA_H

#include <stdatomic.h>

#include "data/data.h"
#include "format/mds.h"

typedef struct stk_mds_file { /* one shard */
    uint64_t first, size;     /* number of its first sample; bytes of the file that is read */
    int packed;               /* that file is compressed */
    _Atomic(stk_file *) file; /* opened at first touch */
    _Atomic(uint8_t *) head;  /* its table of places, read at first touch */
} stk_mds_file;

typedef struct stk_mds { /* Thread: any, once opened. */
    stk_dataset base;
    stk_mds_index index;
    stk_names names; /* of the files that are read, absolute */
    stk_mds_file *file;
    uint32_t print; /* of index.json */
} stk_mds;

int stk_mds_meant(const char *const *urls, size_t n, const stk_dataset_options *o);
int stk_mds_open(stk_dataset **out, const char *const *urls, size_t n, const stk_dataset_options *o, stk_error *err);
extern const stk_data_ops stk_mds_ops;

#endif
