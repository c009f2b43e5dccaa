/* SPDX-License-Identifier: Apache-2.0 */
/* page_time.c - what every thread did at last, as a picture: one line per thread, a color per
 * stage.
 *
 * A page shows so many spans that one still sees them and that the file stays small: the window is
 * halved until there are no more.  The whole is in stoker bench --trace. */
#include <string.h>

#include "page.h"

#define MOST 2500
#define LEFT 60.0
#define WIDE 355.0

static uint64_t end_of(const stk_trace_span *s, uint64_t n)
{
    uint64_t end = 0;

    for (uint64_t i = 0; i < n; i++)
        end = s[i].to_ns > end ? s[i].to_ns : end;
    return end;
}

static uint64_t begin_of(const stk_trace_span *s, uint64_t n, uint64_t end)
{
    uint64_t wide = 2000000000, shown;

    for (;; wide /= 2) {
        uint64_t from = end > wide ? end - wide : 0;

        shown = 0;
        for (uint64_t i = 0; i < n; i++)
            shown += s[i].to_ns > from;
        if (shown <= MOST || wide < 1000)
            return from;
    }
}

static const char *name_of(uint32_t stage)
{
    return stage < STK_STAGES ? stk_stage_name((stk_stage_id)stage) : "next";
}

static void put_span(FILE *to, const stk_trace_span *s, double begin, double scale, double y)
{
    double x = (double)s->from_ns > begin ? ((double)s->from_ns - begin) * scale : 0;
    double w = ((double)s->to_ns - begin) * scale - x;

    if (w < 0.05) /* a fifth of what can be seen */
        return;
    fprintf(to,
            "<rect class=\"s%u\" x=\"%.1f\" y=\"%.0f\" width=\"%.2f\" height=\"14\"><title>%s %.3f "
            "ms</title></rect>\n",
            s->stage, LEFT + x, y, w, name_of(s->stage), (double)(s->to_ns - s->from_ns) * 1e-6);
}

static void put_legend(page *p)
{
    fputs("<p>", p->file.to);
    for (uint32_t i = 0; i <= STK_STAGES; i++)
        fprintf(p->file.to,
                "<svg class=\"k\" viewBox=\"0 0 12 12\"><rect class=\"s%u\" width=\"12\" "
                "height=\"12\"/></svg> %s&ensp;",
                i, name_of(i));
    fputs("</p>\n", p->file.to);
}

void page_timeline(page *p, const stk_trace_span *span, uint64_t n)
{
    uint64_t end = end_of(span, n), begin = begin_of(span, n, end), threads = 0;
    double scale = end > begin ? WIDE / (double)(end - begin) : 0;
    char caption[100];

    if (!p->on || !n)
        return;
    for (uint64_t i = 0; i < n; i++)
        threads += i == 0 || span[i].thread != span[i - 1].thread;
    snprintf(caption, sizeof caption, "what every thread did in the last %.4g ms",
             (double)(end - begin) * 1e-6);
    page_text(p, "h2", caption);
    put_legend(p);
    fprintf(p->file.to, "<svg viewBox=\"0 0 420 %llu\" role=\"img\">\n",
            (unsigned long long)(18 * threads + 4));
    threads = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i == 0 || span[i].thread != span[i - 1].thread) {
            double y = 18.0 * (double)threads++;

            if (span[i].thread == STK_CONSUMER)
                fprintf(p->file.to, "<text x=\"0\" y=\"%.0f\">loop</text>\n", y + 12);
            else
                fprintf(p->file.to, "<text x=\"0\" y=\"%.0f\">worker %u</text>\n", y + 12,
                        span[i].thread);
        }
        if (span[i].to_ns > begin)
            put_span(p->file.to, &span[i], (double)begin, scale, 18.0 * (double)(threads - 1));
    }
    fputs("</svg>\n", p->file.to);
}
