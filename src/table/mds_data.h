/* SPDX-License-Identifier: Apache-2.0 */
/* mds_data.h - two kinds of data: MosaicML's data sets (a folder with index.json and .mds shards),
 * and LitData's chunks, whose layout is nearly the same. */
#ifndef STOKER_MDS_DATA_H
#define STOKER_MDS_DATA_H

#include <stdatomic.h>

#include "format/mds.h"
#include "table/table_data.h"

typedef struct stk_mds_file { /* one shard */
    int packed;               /* true if the file that is read is compressed */
    _Atomic(uint8_t *) head;  /* its table of offsets, read at first use */
} stk_mds_file;

typedef struct stk_mds { /* Thread: any, once opened. */
    stk_table base;      /* of the files that are read */
    stk_mds_index index;
    stk_mds_file *file;
    uint32_t print; /* fingerprint of index.json */
} stk_mds;

extern const stk_data_ops stk_mds_ops, stk_litdata_ops;

#endif
