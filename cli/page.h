/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - writes one HTML page of figures for users, without network or scripts, light and dark.
 * Commands with --html call it. */
#ifndef STOKER_CLI_PAGE_H
#define STOKER_CLI_PAGE_H

#include "cli.h"

typedef struct page {
    cli_file file;
    int on; /* 0: no page was asked for, and all functions below do nothing */
} page;

/* Opens the page that --html FILE asks for.  0, or CLI_FAILED after an error was printed. */
int page_open(page *p, const cli_args *a, const char *title);
int page_close(page *p, int keep); /* keep: the file gets its name; else it is removed */

/* Adds an element; kind: "p", "h2"; text may be anything. */
void page_text(page *p, const char *kind, const char *text);
void page_table(page *p, const char *caption);
/* mark: 1: the value is good; -1: it is bad; 0: neither. */
void page_row(page *p, const char *name, const char *value, int mark);
void page_table_end(page *p);

typedef struct page_bar {
    const char *name;
    double value;
} page_bar;
void page_bars(page *p, const char *caption, const page_bar *bar, size_t n, const char *unit);
/* over time */
void page_line(page *p, const char *caption, const double *y, size_t n, const char *unit);

typedef struct page_grid { /* a heat map: value[row * columns + column] */
    const char *down, *across;
    const uint32_t *row, *column;
    uint32_t rows, columns;
    const double *value;
    const char *unit;
} page_grid;
void page_heat(page *p, const char *caption, const page_grid *g);

/* page_time.c: spans by thread and time, as stk_loader_spans() gives them; the last ones are
 * shown. */
void page_timeline(page *p, const stk_trace_span *span, uint64_t n);
/* page_pictures.c: some samples of the command's data before and after the first of `outputs` that
 * is a picture. */
void page_pictures(page *p, const cli_args *a, const stk_output *outputs, uint32_t n);

#endif
