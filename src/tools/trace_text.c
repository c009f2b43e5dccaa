/* SPDX-License-Identifier: Apache-2.0 */
/* trace_text.c - a trace as JSON for Perfetto and chrome://tracing: one line per span.
 *
 * The format is the "Trace Event Format": complete events ("X") with microseconds, and the names of
 * the threads as metadata ("M").  The loop is thread 0 and worker i is thread i + 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stoker/stoker.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

typedef struct writer {
    int (*put)(void *cookie, const char *text, size_t len);
    void *cookie;
    size_t n;
    char text[16384];
    int failed;
} writer;

static void flush(writer *w)
{
    if (!w->failed && w->n)
        w->failed = w->put(w->cookie, w->text, w->n) != 0;
    w->n = 0;
}

static void make_room(writer *w)
{
    if (w->n + 256 > sizeof w->text) /* which a line never needs */
        flush(w);
}

static void put_name(writer *w, int pid, uint32_t thread, int first)
{
    make_room(w);
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n,
                             "%s{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%" PRIu32
                             ",\"args\":{\"name\":\"",
                             first ? "" : ",\n", pid, thread + 1);
    w->n += thread == STK_CONSUMER
                ? (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "loop\"}}")
                : (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "worker %" PRIu32 "\"}}",
                                   thread);
}

static void put_span(writer *w, int pid, const stk_trace_span *s)
{
    int loop = s->thread == STK_CONSUMER;

    make_room(w);
    w->n += (size_t)snprintf(
        w->text + w->n, sizeof w->text - w->n,
        ",\n{\"ph\":\"X\",\"cat\":\"stoker\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32
        ",\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"args\":{\"%s\":%" PRIu64 "}}",
        loop ? "next" : stk_stage_name((stk_stage_id)s->stage), pid, s->thread + 1,
        s->from_ns / 1000, (unsigned)(s->from_ns % 1000), (s->to_ns - s->from_ns) / 1000,
        (unsigned)((s->to_ns - s->from_ns) % 1000), loop ? "step" : "row", s->number);
}

int stk_loader_trace_text(const stk_loader *l,
                          int (*put)(void *cookie, const char *text, size_t len), void *cookie,
                          stk_error *err)
{
    uint64_t n = stk_loader_spans(l, NULL, 0);
    stk_trace_span *span = stk_zalloc(n + 1, sizeof *span);
    writer w = { .put = put, .cookie = cookie };
    int pid = (int)getpid();

    if (!span)
        return stk_fail_nomem(err, (n + 1) * sizeof *span);
    n = stk_loader_spans(l, span, n);
    w.n = (size_t)snprintf(w.text, sizeof w.text,
                           "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    put_name(&w, pid, STK_CONSUMER, 1);
    for (uint64_t i = 0; i < n && !w.failed; i++) {
        if (span[i].thread != STK_CONSUMER && (i == 0 || span[i].thread != span[i - 1].thread))
            put_name(&w, pid, span[i].thread, 0);
        put_span(&w, pid, &span[i]);
    }
    make_room(&w);
    w.n += (size_t)snprintf(w.text + w.n, sizeof w.text - w.n, "\n]}\n");
    flush(&w);
    stk_free(span);
    return w.failed ? stk_fail(err, STK_EIO, "the trace could not be written") : 0;
}
