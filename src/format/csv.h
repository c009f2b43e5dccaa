/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - one record of values with commas between them (RFC 4180), or tabs or semicolons. */
#ifndef STOKER_FORMAT_CSV_H
#define STOKER_FORMAT_CSV_H

#include "base/text.h"

typedef struct stk_cells { /* init with zeros, end with fini */
    stk_text text;         /* all cells, one after the other, without their quotes */
    size_t *end;           /* where each ends */
    uint32_t n, cap;
    uint8_t mark; /* between cells; 0: a comma */
} stk_cells;

stk_bytes stk_cells_at(const stk_cells *c, uint32_t i);
void stk_cells_fini(stk_cells *c);

/* What is between the cells of a file with this header line: a comma, or, where it has none, a tab
 * or a semicolon.  0: the line goes on past `in`. */
uint8_t stk_csv_mark(stk_bytes in, int last);

/* The record at the beginning of `in`: *used bytes and *lines lines of it, with their end.  An
 * empty line is a record without cells.  `last`: the file ends with `in`; else a record that may
 * go on is STK_PENDING. */
int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err);

#endif
