/* SPDX-License-Identifier: Apache-2.0 */
/* beton_data.h - FFCV's .beton files as a kind of data.
 *
 * Rows are in memory from the beginning on, as the file has them; what they point to is read where
 * it is.  A picture without compression is handed out as a PPM file, so that the image chain reads
 * it as any other. */
#ifndef STOKER_BETON_DATA_H
#define STOKER_BETON_DATA_H

#include "format/beton.h"
#include "table/table_data.h"

typedef struct stk_beton_alloc {
    uint64_t offset, len;
} stk_beton_alloc;

typedef struct stk_beton_shard {
    stk_beton head;
    uint8_t *rows;
    stk_beton_alloc *alloc; /* by offset; NULL: no picture needs it */
} stk_beton_shard;

typedef struct stk_beton_data { /* Thread: any, once opened. */
    /* columns are the fields of the first file; those that are not read come last */
    stk_table base;
    stk_beton_shard *shard;
    uint32_t *field; /* by column */
} stk_beton_data;

#endif
