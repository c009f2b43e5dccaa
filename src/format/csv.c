/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - one record of comma-separated values.
 *
 * RFC 4180, strictly but for the comma, which may be another mark: quotes enclose a whole cell, a
 * quote in it is doubled, marks and ends of lines in it are its own.  A lone quote elsewhere is an
 * error: guessing would shift the columns of everything after it.  Lines end in LF or CR LF. */
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

uint8_t stk_csv_mark(stk_bytes in, int last)
{
    int quoted = 0, tab = 0, semicolon = 0;

    for (size_t i = 0; i < in.len; i++) {
        uint8_t c = in.data[i];

        quoted ^= c == '"'; /* a doubled one opens again what it closed */
        if (quoted)
            continue;
        if (c == ',')
            return ',';
        if (c == '\n')
            return tab ? '\t' : semicolon ? ';' : ',';
        tab |= c == '\t';
        semicolon |= c == ';';
    }
    return !last ? 0 : tab ? '\t' : semicolon ? ';' : ',';
}

stk_bytes stk_cells_at(const stk_cells *c, uint32_t i)
{
    size_t at = i ? c->end[i - 1] : 0;

    return (stk_bytes){ (const uint8_t *)c->text.s + at, c->end[i] - at };
}

void stk_cells_fini(stk_cells *c)
{
    stk_free(c->text.s);
    stk_free(c->end);
    memset(c, 0, sizeof *c);
}

static int end_cell(csv *c, stk_error *err)
{
    stk_cells *o = c->out;

    if (o->n == MAX_CELLS)
        return stk_fail(err, STK_ELIMIT, "more than %u cells in a record", MAX_CELLS);
    if (o->n == o->cap) {
        uint32_t cap = o->cap ? 2 * o->cap : 16;
        size_t *grown = stk_grow(o->end, o->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        o->end = grown;
        o->cap = cap;
    }
    o->end[o->n++] = o->text.len;
    return 0;
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
            c->lines += *p == '\n';
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

    while (c->p < c->end && *c->p != c->mark && *c->p != '\n' && *c->p != '"')
        c->p++;
    if (c->p == c->end && !c->last)
        return STK_PENDING;
    if (c->p < c->end && *c->p == '"')
        return stk_fail(err, STK_ECORRUPT,
                        "a quote inside cell %u, which does not begin with one: quote the whole "
                        "cell and double the quotes in it",
                        c->out->n + 1);
    return stk_text_put(&c->out->text, from, (size_t)(c->p - from), err);
}

/* After a cell.  0: another follows; STK_END: the record is over (the CR before a line's end goes
 * with it). */
static int after_cell(csv *c, int quoted, stk_error *err)
{
    stk_text *t = &c->out->text;

    if (quoted && c->p < c->end && *c->p == '\r') {
        if (c->p + 1 == c->end && !c->last)
            return STK_PENDING;
        if (c->p + 1 == c->end || c->p[1] == '\n')
            c->p++;
    }
    if (c->p < c->end && *c->p == c->mark) {
        c->p++;
        return end_cell(c, err);
    }
    if (c->p < c->end && *c->p != '\n')
        return stk_fail(err, STK_ECORRUPT, "text after the closing quote of cell %u",
                        c->out->n + 1);
    if (!quoted && t->len > (c->out->n ? c->out->end[c->out->n - 1] : 0) &&
        t->s[t->len - 1] == '\r')
        t->len--;
    c->p += c->p < c->end;
    c->lines++;
    STK_TRY(end_cell(c, err));
    return STK_END;
}

int stk_csv_record(stk_bytes in, int last, stk_cells *out, size_t *used, uint64_t *lines,
                   stk_error *err)
{
    csv c = { in.data, in.data + in.len, last, 0, out, out->mark ? out->mark : ',' };
    int rc = 0, quoted = 0;

    out->n = 0;
    out->text.len = 0;
    STK_TRY(stk_text_put(&out->text, "", 0, err));
    while (rc == 0) {
        quoted = c.p < c.end && *c.p == '"';
        if (c.p == c.end && !last)
            return STK_PENDING;
        rc = quoted ? quoted_cell(&c, err) : plain_cell(&c, err);
        if (rc == 0)
            rc = after_cell(&c, quoted, err);
    }
    if (rc != STK_END)
        return rc;
    if (out->n == 1 && !out->text.len && !quoted)
        out->n = 0;
    *used = (size_t)(c.p - in.data);
    *lines = c.lines;
    return 0;
}
