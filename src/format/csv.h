/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - one record of comma-separated values (RFC 4180). */
#ifndef STOKER_FORMAT_CSV_H
#define STOKER_FORMAT_CSV_H

#include "base/text.h"

typedef struct stk_cells { /* init with zeros, end with fini */
    stk_text text;         /* all cells, one after the other, without their quotes */
    size_t *end;           /* where each ends */
    uint32_t n, cap;
} stk_cells;

stk_bytes stk_cells_at(const stk_cells *c, uint32_t i);
void stk_cells_fini(stk_cells *c);

/* The record at the beginning of `in`: *used bytes and *lines lines of it, with their end.  An
 * empty line is a record without cells.  `last`: the file ends with `in`; else a record that may
 * go on is STK_PENDING. */
int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err);

#endif
