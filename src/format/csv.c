/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - one record of comma-separated values.
 *
 * RFC 4180, strictly but for the comma, which may be another mark: quotes enclose a whole cell, a
 * quote in it is doubled, marks and ends of lines in it are its own.  A lone quote elsewhere is an
 * error: guessing would shift the columns of everything after it.  Between tabs it is text, since
 * many who write tabs quote nothing: a cell that does not end where its quotes do has none that
 * count, unless they enclose the end of a line.  Lines end in LF or CR LF, or in CR where the
 * header line does; a CR elsewhere is text. */
#include "format/csv.h"

#include <string.h>

#include "base/mem.h"

#define MAX_CELLS 1024u

typedef struct csv {
    const uint8_t *p, *end;
    int last;
    uint64_t lines;
    stk_cells *out;
    uint8_t mark;
} csv;

int stk_csv_marks(stk_bytes in, int last, stk_cells *out)
{
    int quoted = 0, comma = 0, tab = 0, semicolon = 0;
    size_t i;

    for (i = 0; i < in.len; i++) {
        uint8_t c = in.data[i];

        quoted ^= c == '"'; /* a doubled one opens again what it closed */
        if (!quoted && (c == '\n' || c == '\r'))
            break;
        comma |= !quoted && c == ',';
        tab |= !quoted && c == '\t';
        semicolon |= !quoted && c == ';';
    }
    if (!last && (i == in.len || (in.data[i] == '\r' && i + 1 == in.len)))
        return STK_PENDING;
    out->mark = comma ? ',' : tab ? '\t' : semicolon ? ';' : ',';
    out->end = i < in.len && in.data[i] == '\r' && (i + 1 == in.len || in.data[i + 1] != '\n')
                   ? '\r'
                   : '\n';
    return 0;
}

stk_bytes stk_cells_at(const stk_cells *c, uint32_t i)
{
    size_t at = i ? c->cell[i - 1].end : 0;

    return (stk_bytes){ (const uint8_t *)c->text.s + at, c->cell[i].end - at };
}

void stk_cells_fini(stk_cells *c)
{
    stk_free(c->text.s);
    stk_free(c->cell);
    memset(c, 0, sizeof *c);
}

int stk_cells_add(stk_cells *c, stk_cell cell, stk_error *err)
{
    if (c->n == MAX_CELLS)
        return stk_fail(err, STK_ELIMIT, "more than %u cells in a record", MAX_CELLS);
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 16;
        stk_cell *grown = stk_grow(c->cell, c->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        c->cell = grown;
        c->cap = cap;
    }
    c->cell[c->n++] = cell;
    return 0;
}

/* Bytes of the line's end at p; 0: there is none, -1: what comes next decides. */
static int end_at(const csv *c, const uint8_t *p)
{
    if (p == c->end || (*p != '\r' && *p != '\n'))
        return 0;
    if (*p == '\n')
        return c->out->end != '\r';
    if (p + 1 == c->end)
        return c->last ? 1 : -1;
    return p[1] == '\n' ? 2 : c->out->end == '\r';
}

/* At an opening quote; ends after the closing one. */
static int quoted_cell(csv *c, stk_error *err)
{
    for (c->p++;;) {
        const uint8_t *q = memchr(c->p, '"', (size_t)(c->end - c->p));

        if (!q)
            return c->last ? stk_fail(err, STK_ECORRUPT, "a quoted cell has no closing quote")
                           : STK_PENDING;
        for (const uint8_t *p = c->p; p < q; p++)
            c->lines += *p == (c->out->end == '\r' ? '\r' : '\n');
        STK_TRY(stk_text_put(&c->out->text, c->p, (size_t)(q - c->p), err));
        c->p = q + 1;
        if (c->p == c->end && !c->last)
            return STK_PENDING; /* it may be a doubled one */
        if (c->p == c->end || *c->p != '"')
            return 0;
        STK_TRY(stk_text_put(&c->out->text, "\"", 1, err));
        c->p++;
    }
}

static int plain_cell(csv *c, stk_error *err)
{
    const uint8_t *from = c->p;
    int strict = c->mark != '\t';

    while (c->p < c->end && *c->p != c->mark && !end_at(c, c->p) && !(strict && *c->p == '"'))
        c->p++;
    if ((c->p == c->end && !c->last) || end_at(c, c->p) < 0)
        return STK_PENDING;
    if (c->p < c->end && *c->p == '"')
        return stk_fail(err, STK_ECORRUPT,
                        "a quote inside cell %u, which does not begin with one: quote the whole "
                        "cell and double the quotes in it",
                        c->out->n + 1);
    return stk_text_put(&c->out->text, from, (size_t)(c->p - from), err);
}

/* A cell, up to what is after it. */
static int one_cell(csv *c, stk_error *err)
{
    const uint8_t *from = c->p;
    size_t text = c->out->text.len;
    uint64_t lines = c->lines;
    int rc;

    if (c->p == c->end || *c->p != '"')
        return plain_cell(c, err);
    rc = quoted_cell(c, err);
    if (rc)
        return rc;
    if (end_at(c, c->p) < 0)
        return STK_PENDING;
    if (c->p == c->end || *c->p == c->mark || end_at(c, c->p))
        return 0;
    if (c->mark != '\t' || c->lines != lines)
        return stk_fail(err, STK_ECORRUPT, "text after the closing quote of cell %u",
                        c->out->n + 1);
    c->p = from;
    c->out->text.len = text;
    return plain_cell(c, err);
}

/* After a cell.  0: another follows; STK_END: the record is over, and its line's end is passed. */
static int after_cell(csv *c)
{
    if (c->p < c->end && *c->p == c->mark) {
        c->p++;
        return 0;
    }
    c->p += end_at(c, c->p);
    c->lines++;
    return STK_END;
}

int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err)
{
    csv c = { in.data, in.data + in.len, last, 0, out, out->mark ? out->mark : ',' };
    int rc = 0;

    out->n = 0;
    out->text.len = 0;
    STK_TRY(stk_text_put(&out->text, "", 0, err));
    while (rc == 0) {
        const uint8_t *from = c.p;
        stk_cell cell = { .from = (size_t)(from - in.data) };

        if (c.p == c.end && !last)
            return STK_PENDING;
        rc = one_cell(&c, err);
        if (rc)
            return rc;
        cell.len = (size_t)(c.p - from);
        cell.quotes = cell.len && memchr(from, '"', cell.len) != NULL;
        cell.end = out->text.len;
        STK_TRY(stk_cells_add(out, cell, err));
        rc = after_cell(&c);
    }
    if (rc != STK_END)
        return rc;
    if (out->n == 1 && !out->cell[0].len)
        out->n = 0;
    *used = (size_t)(c.p - in.data);
    *lines = c.lines;
    return 0;
}
