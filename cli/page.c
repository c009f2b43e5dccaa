/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - one HTML file for people.  Charts are SVG with their numbers as text, so that the page
 * says all it has without a script, on a phone and on paper. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; img-src data:\">\n"
    "<style>\n"
    ":root{color-scheme:light "
    "dark;--ink:#1b1b1b;--dim:#666;--paper:#fff;--line:#ddd;--bar:#3a6ea5;--good:#217a3c;--bad:#"
    "b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#eaeaea;--dim:#aaa;--paper:#16181b;--line:#"
    "3a3d42;--bar:#6ea3dc;"
    "--good:#6fcf8a;--bad:#ff8a80}}\n"
    "body{font:16px/1.5 "
    "system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:auto;"
    "padding:1rem}\n"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}.say{font-size:1.15rem;border-left:"
    "4px solid var(--bar);padding-left:.8rem}\n"
    "table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--dim);padding:."
    "6rem 0 .2rem}\n"
    "td,th{border-top:1px solid var(--line);padding:.25rem "
    ".5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}\n"
    "td.v{text-align:right;font-variant-numeric:tabular-nums}.good{color:var(--good)}.bad{color:"
    "var(--bad)}\n"
    "svg{width:100%;max-width:640px;height:auto}svg text{fill:var(--ink);font:12px "
    "system-ui,sans-serif}.b{fill:var(--bar)}\n"
    ".s0{fill:#d98e04}.s1{fill:#c0392b}.s2{fill:#2e86c1}.s3{fill:#8e44ad}.s4{fill:#1e8449}.s5{fill:"
    "#b0b7bd}.s6{fill:#5d6d7e}\n"
    "svg.k{width:.8em;height:.8em}figure{display:inline-block;margin:.4rem;width:210px;vertical-"
    "align:top;overflow-wrap:anywhere}\n"
    "small{color:var(--dim)}.l{fill:none;stroke:var(--bar);stroke-width:2}\n"
    "</style>\n";

static void put_escaped(FILE *to, const char *text)
{
    static const char *const names[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"
    };
    const char *from = text;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= 128 || !names[c])
            continue;
        cli_put_shown(to, from, (size_t)(text - from));
        fputs(names[c], to);
        from = text + 1;
    }
    cli_put_shown(to, from, strlen(from));
}

/* A title or a sentence: addresses in it are shown without their secrets. */
static void put_said(FILE *to, const char *text)
{
    char *copy = strdup(text);

    if (copy) {
        stk_secrets_hide(copy);
        put_escaped(to, copy);
    }
    free(copy);
}

int page_open(page *p, const cli_args *a, const char *title)
{
    const char *path = cli_value(a, "html");
    int rc;

    *p = (page){ .on = 0 };
    if (!path)
        return 0;
    rc = cli_file_open(&p->file, path);
    if (rc)
        return rc;
    p->on = 1;
    fputs(head, p->file.to);
    fputs("<title>", p->file.to);
    put_said(p->file.to, title);
    fputs("</title></head><body>\n", p->file.to);
    page_text(p, "h1", title);
    return 0;
}

int page_close(page *p, int keep)
{
    if (!p->on)
        return 0;
    p->on = 0;
    cli_put(p->file.to, "<p><small>stoker %s</small></p></body></html>\n", stk_version());
    return cli_file_close(&p->file, keep);
}

void page_text(page *p, const char *kind, const char *text)
{
    int say = !strcmp(kind, "say");

    if (!p->on)
        return;
    fprintf(p->file.to, "<%s%s>", say ? "p" : kind, say ? " class=\"say\"" : "");
    put_said(p->file.to, text);
    fprintf(p->file.to, "</%s>\n", say ? "p" : kind);
}

void page_table(page *p, const char *caption)
{
    if (!p->on)
        return;
    fputs("<table><caption>", p->file.to);
    put_said(p->file.to, caption);
    fputs("</caption>\n", p->file.to);
}

void page_row(page *p, const char *name, const char *value, int mark)
{
    if (!p->on)
        return;
    fputs("<tr><th>", p->file.to);
    put_escaped(p->file.to, name);
    fprintf(p->file.to, "</th><td class=\"v%s\">", mark > 0 ? " good" : mark < 0 ? " bad" : "");
    put_escaped(p->file.to, value);
    fputs(mark > 0 ? " &#10003;" : mark < 0 ? " &#10007;" : "", p->file.to);
    fputs("</td></tr>\n", p->file.to);
}

void page_table_end(page *p)
{
    if (p->on)
        fputs("</table>\n", p->file.to);
}

static double highest(const double *y, size_t n, size_t stride)
{
    double high = 0;

    for (size_t i = 0; i < n; i++)
        high = y[i * stride] > high ? y[i * stride] : high;
    return high > 0 ? high : 1;
}

void page_bars(page *p, const char *caption, const page_bar *bar, size_t n, const char *unit)
{
    double high = 0;

    if (!p->on || !n)
        return;
    for (size_t i = 0; i < n; i++)
        high = bar[i].value > high ? bar[i].value : high;
    high = high > 0 ? high : 1;
    page_text(p, "h2", caption);
    fprintf(p->file.to, "<svg viewBox=\"0 0 420 %zu\" role=\"img\">\n", 26 * n + 4);
    for (size_t i = 0; i < n; i++) {
        fprintf(p->file.to,
                "<rect class=\"b\" x=\"100\" y=\"%zu\" width=\"%.1f\" height=\"16\"/><text x=\"0\" "
                "y=\"%zu\">",
                26 * i + 4, 190 * bar[i].value / high, 26 * i + 17);
        put_escaped(p->file.to, bar[i].name);
        fprintf(p->file.to, "</text><text x=\"296\" y=\"%zu\">%.4g %s</text>\n", 26 * i + 17,
                bar[i].value, unit);
    }
    fputs("</svg>\n", p->file.to);
}

void page_line(page *p, const char *caption, const double *y, size_t n, const char *unit)
{
    size_t step = n > 600 ? n / 600 + 1 : 1; /* points that a screen can show */
    double high;

    if (!p->on || n < 2)
        return;
    high = highest(y, n, 1);
    page_text(p, "h2", caption);
    fputs("<svg viewBox=\"0 0 420 150\" role=\"img\"><polyline class=\"l\" points=\"", p->file.to);
    for (size_t i = 0; i < n; i += step)
        fprintf(p->file.to, "%.1f,%.1f ", 10 + 400.0 * (double)i / (double)(n - 1),
                125 - 105 * y[i] / high);
    fprintf(p->file.to,
            "\"/><text x=\"10\" y=\"14\">%.4g %s</text><text x=\"10\" y=\"145\">0</text></svg>\n",
            high, unit);
}

void page_heat(page *p, const char *caption, const page_grid *g)
{
    double high;

    if (!p->on)
        return;
    high = highest(g->value, (size_t)g->rows * g->columns, 1);
    page_text(p, "h2", caption);
    fprintf(p->file.to, "<table><caption>%s: %s down, %s across</caption><tr><th></th>", g->unit,
            g->down, g->across);
    for (uint32_t c = 0; c < g->columns; c++)
        fprintf(p->file.to, "<th>%u</th>", g->column[c]);
    fputs("</tr>\n", p->file.to);
    for (uint32_t r = 0; r < g->rows; r++) {
        fprintf(p->file.to, "<tr><th>%u</th>", g->row[r]);
        for (uint32_t c = 0; c < g->columns; c++) {
            double v = g->value[r * g->columns + c];

            fprintf(p->file.to,
                    "<td class=\"v\" style=\"background:rgba(58,110,165,%.2f)\">%.0f</td>",
                    0.75 * v / high, v);
        }
        fputs("</tr>\n", p->file.to);
    }
    fputs("</table>\n", p->file.to);
}
