/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - one record of values with commas between them (RFC 4180), or tabs or semicolons. */
#ifndef STOKER_FORMAT_CSV_H
#define STOKER_FORMAT_CSV_H

#include "base/text.h"

typedef struct stk_cell {
    size_t end;       /* of its text in stk_cells.text; it begins where the last one ended */
    size_t from, len; /* as it is written in the record, with its quotes */
    size_t quotes;    /* 1: as it is written, it has quotes */
} stk_cell;

typedef struct stk_cells { /* init with zeros, end with fini */
    stk_text text;         /* all cells, one after the other, without their quotes */
    stk_cell *cell;
    uint32_t n, cap;
    uint8_t mark; /* between cells; 0: a comma */
    uint8_t end;  /* of lines: CR; else LF or CR LF */
} stk_cells;

int stk_cells_add(stk_cells *c, stk_cell cell, stk_error *err);
stk_bytes stk_cells_at(const stk_cells *c, uint32_t i);
void stk_cells_fini(stk_cells *c);

/* Set what is between cells and at the ends of lines of a file with this header line: a comma, or,
 * where it has none, a tab or a semicolon.  STK_PENDING: the line goes on past `in`. */
int stk_csv_marks(stk_bytes in, int last, stk_cells *out);

/* The record at the beginning of `in`: *used bytes and *lines lines of it, with their end.  An
 * empty line is a record without cells.  `last`: the file ends with `in`; else a record that may
 * go on is STK_PENDING. */
int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err);

#endif
