/* SPDX-License-Identifier: Apache-2.0 */
/* py_log.c - the library's lines to logging, as the logger "stoker".
 *
 * Lines may come from any thread, so the GIL is taken for each one of INFO and above; no one waits
 * for such a thread with the GIL held.  After the interpreter begins to end, taking the GIL
 * would hang: log_stop() comes before that, from atexit, when all loaders are closed.  The bridge
 * itself is never freed, since a thread may still hold it; it is a few bytes. */
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

void log_line(void *cookie, stk_log_level level, const char *line)
{
    log_bridge *b = cookie;
    PyObject *type, *value, *trace, *done;
    PyGILState_STATE gil;

    if (level > STK_LOG_INFO || !atomic_load_explicit(&b->on, memory_order_acquire))
        return;
    gil = PyGILState_Ensure();
    if (atomic_load_explicit(&b->on, memory_order_acquire)) {
        PyErr_Fetch(&type, &value, &trace); /* the caller may be about to raise */
        done = PyObject_CallFunction(b->emit, "iN", (int)level, text_from(line, strlen(line)));
        if (!done)
            PyErr_WriteUnraisable(b->emit);
        Py_XDECREF(done);
        PyErr_Restore(type, value, trace);
    }
    PyGILState_Release(gil);
}
