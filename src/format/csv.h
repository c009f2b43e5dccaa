/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - reads one record of CSV (RFC 4180) with commas, tabs or semicolons.  The format and the
 * columns of CSV shards call it. */
#ifndef STOKER_FORMAT_CSV_H
#define STOKER_FORMAT_CSV_H

#include "base/text.h"

typedef struct stk_cell {
    size_t end;       /* end of its text in stk_cells.text; it begins where the last cell ended */
    size_t from, len; /* its range in the record, with quotes */
    size_t quotes;    /* 1: it is written with quotes */
} stk_cell;

typedef struct stk_cells { /* init with zeros, end with fini */
    stk_text text;         /* all cells, one after the other, without their quotes */
    stk_cell *cell;
    uint32_t n, cap;
    uint8_t mark; /* character between cells; 0: a comma */
    uint8_t end;  /* last character of lines: CR; other values: LF or CR LF */
} stk_cells;

int stk_cells_add(stk_cells *c, stk_cell cell, stk_error *err);
stk_bytes stk_cells_at(const stk_cells *c, uint32_t i);
void stk_cells_fini(stk_cells *c);

/* Sets out->mark and out->end for a file with this header line.  The mark is a comma, or, if the
 * line has none, a tab or a semicolon.  STK_PENDING: the line goes on past `in`. */
int stk_csv_marks(stk_bytes in, int last, stk_cells *out);

/* Reads the record at the beginning of `in`, which has *used bytes and *lines lines with their
 * ends.  An empty line is a record without cells.  last: the file ends with `in`.  STK_PENDING: it
 * does not, and the record may go on. */
int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err);

#endif
