/* SPDX-License-Identifier: Apache-2.0 */
/* py_log.c - the library's lines to logging, as the logger "stoker".
 *
 * Lines may come from any thread, so the GIL is taken for each one of INFO and above; no one waits
 * for such a thread with the GIL held.  After the interpreter begins to end, taking the GIL
 * would hang: log_stop() comes before that, from atexit, when all loaders are closed.  The bridge
 * itself is never freed, since a thread may still hold it; it is a few bytes.
 *
 * Handlers of logging and of signals run while a line is emitted, and may call the loader.  So
 * lines that come up in next() are put aside (log_defer) until its lock is free, and what a
 * signal's handler raises meanwhile is raised by next(). */
#include "pystoker.h"

#include <stdatomic.h>
#include <string.h>

struct log_bridge {
    _Atomic int on;
    PyObject *emit; /* the module's reference; used with the GIL and while `on` */
};

log_bridge *log_start(PyObject *emit)
{
    log_bridge *b = stk_alloc(sizeof *b);

    if (!b)
        return NULL;
    b->emit = emit;
    atomic_init(&b->on, 1);
    return b;
}

void log_stop(log_bridge *b)
{
    if (b)
        atomic_store_explicit(&b->on, 0, memory_order_release);
}

static _Thread_local log_lines *aside;

void log_defer(log_lines *to)
{
    aside = to;
}

int log_flush(log_bridge *b, log_lines *lines)
{
    uint32_t n = lines->n;
    int rc = 0;

    lines->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *done = rc < 0 || !atomic_load_explicit(&b->on, memory_order_acquire)
                             ? NULL
                             : PyObject_CallFunction(
                                   b->emit, "iN", (int)lines->level[i],
                                   text_from(lines->line[i], strlen(lines->line[i])));

        if (!done && PyErr_Occurred())
            rc = -1;
        Py_XDECREF(done);
        stk_free(lines->line[i]);
    }
    return rc;
}

static void put_aside(stk_log_level level, const char *line)
{
    size_t len = strlen(line) + 1;
    char *copy = aside->n < LOG_LINES ? stk_alloc(len) : NULL;

    if (!copy)
        return; /* some of very many, or there is no memory for it */
    memcpy(copy, line, len);
    aside->level[aside->n] = level;
    aside->line[aside->n++] = copy;
}

void log_line(void *cookie, stk_log_level level, const char *line)
{
    log_bridge *b = cookie;
    PyObject *type, *value, *trace, *done;
    PyGILState_STATE gil;

    if (level > STK_LOG_INFO || !atomic_load_explicit(&b->on, memory_order_acquire))
        return;
    if (aside) {
        put_aside(level, line);
        return;
    }
    gil = PyGILState_Ensure();
    if (atomic_load_explicit(&b->on, memory_order_acquire)) {
        PyErr_Fetch(&type, &value, &trace); /* the caller may be about to raise */
        done = PyObject_CallFunction(b->emit, "iN", (int)level, text_from(line, strlen(line)));
        if (!done)
            signals_keep(); /* of a signal's handler: all else emit() catches */
        Py_XDECREF(done);
        PyErr_Restore(type, value, trace);
    }
    PyGILState_Release(gil);
}
