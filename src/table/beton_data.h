/* SPDX-License-Identifier: Apache-2.0 */
/* beton_data.h - FFCV's .beton files as a kind of data.
 *
 * The rows of a file are read into memory at open; what they point to is a range of the file.  A
 * picture without compression is handed out as a PPM file, so that chains read it like any other
 * picture. */
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
    stk_beton_alloc *alloc; /* ranges in the pages, by offset; NULL: no picture needs them */
} stk_beton_shard;

typedef struct stk_beton_data { /* Thread: any, once opened. */
    /* columns are the fields of the first file; those that are not read come last */
    stk_table base;
    stk_beton_shard *shard;
    uint32_t *field; /* by column: number of its field in the file */
} stk_beton_data;

#endif
