/* SPDX-License-Identifier: Apache-2.0 */
/* py_signals.c - Ctrl-C while the library waits for a server.
 *
 * The thread that imports stoker, as a rule the main one, is asked about 20 times a second while it
 * waits: handlers of signals run then.  What a handler raises is kept, the call is told to end, and
 * its error gives way to it.  Should the call succeed all the same, the interpreter raises it soon
 * after. */
#include "pystoker.h"

static PyObject *raised[3]; /* the GIL: by a handler, and not seen by anyone yet */

int signals_raise(void)
{
    PyObject *type = raised[0], *value = raised[1], *trace = raised[2];

    if (!type)
        return 0;
    raised[0] = raised[1] = raised[2] = NULL;
    PyErr_Restore(type, value, trace);
    return -1;
}

static int later(void *unused)
{
    (void)unused;
    return signals_raise();
}

/* What is raised now is raised by the call in hand, or soon. */
void signals_keep(void)
{
    if (raised[0]) {
        PyErr_Clear();
        return;
    }
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    (void)Py_AddPendingCall(later, NULL);
}

static int asked(void *unused)
{
    PyGILState_STATE gil;
    int stop;

    (void)unused;
    if (!Py_IsInitialized())
        return 0;
    gil = PyGILState_Ensure();
    stop = raised[0] || PyErr_Occurred();
    if (!stop && PyErr_CheckSignals() < 0) {
        signals_keep();
        stop = 1;
    }
    PyGILState_Release(gil);
    return stop;
}

void signals_ask(void)
{
    stk_thread_ask(asked, NULL);
}
