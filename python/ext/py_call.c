/* SPDX-License-Identifier: Apache-2.0 */
/* py_call.c - functions of Python on values in the middle of a chain (stk_caller).
 *
 * A worker thread of the loader writes the value into the slot of a process that is free, tells it
 * by one message on its socket, and waits for the answer without the GIL.  What came back is in the
 * slot.  A process that dies is seen by its pidfd: `died` (Python) says how, and starts another
 * one.  Without processes the function runs here, with the GIL (`run`).
 *
 * A slot: ring.h's head, the request at HEAD, short texts at TEXT, data at RING_DATA. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "py_call.h"
#include "ring.h"

#define HEAD 64
#define TEXT 512
#define FAILURES 64 /* tracebacks of failures */
#define MAX_PROCESSES 256
#define MAX_DEATHS 3 /* in a row */

typedef struct message { /* `_calls.py` has the same as a struct */
    /* wants: dtype of what it is to give */
    uint32_t number, kind, out, gives, dtype, wants, ndim, status;
    uint64_t address, bytes;
    int64_t shape[STK_MAX_DIMS];
} message;
_Static_assert(sizeof(message) == 48 + 8 * STK_MAX_DIMS && HEAD + sizeof(message) <= TEXT,
               "a head");

enum { ANSWERED, FAILED, ENDED }; /* status; ENDED: the program is to end, no sample stands in */

typedef struct process {
    int sock, pid; /* pid: a pidfd */
    uint8_t *slot;
    size_t room;
    uint32_t number; /* of the slot */
    int busy;        /* lock */
} process;

typedef struct failure {
    uint64_t sample, epoch, position;
    char *trace; /* NULL: there is none */
} failure;

typedef struct calls_object {
    PyObject_HEAD PyObject *names; /* bytes: "function\0which" */
    PyObject *run, *died;
    Py_buffer *views; /* of the slots */
    process *p;
    uint32_t n;
    pthread_mutex_t lock;
    pthread_cond_t free;
    int ready, stop, stopped;   /* stop: an eventfd; stopped: lock */
    uint32_t deaths;            /* lock */
    failure failures[FAILURES]; /* lock */
    uint64_t *spent;            /* lock: ns in each function, by its number */
} calls_object;

/* ---- what failed ---- */

/* Is a handed out before b? */
static int before(const failure *a, const failure *b)
{
    return a->epoch < b->epoch || (a->epoch == b->epoch && a->position < b->position);
}

/* Where there is room, or what is handed out last: the next error that is raised is the first in
 * order, while workers that are ahead may fail many times.  NULL: f is the last. */
static failure *place_for(calls_object *c, const failure *f)
{
    failure *last = &c->failures[0];

    for (uint32_t i = 0; i < FAILURES && last->trace; i++)
        if (!c->failures[i].trace || before(last, &c->failures[i]))
            last = &c->failures[i];
    return !last->trace || before(f, last) ? last : NULL;
}

static void keep_trace(calls_object *c, const stk_call_at *at, const char *text, size_t len)
{
    failure f = { at->sample, at->epoch, at->position, malloc(len + 1) }, *to;

    if (!f.trace)
        return;
    memcpy(f.trace, text, len);
    f.trace[len] = 0;
    pthread_mutex_lock(&c->lock);
    to = place_for(c, &f);
    if (to) {
        free(to->trace);
        *to = f;
    }
    pthread_mutex_unlock(&c->lock);
    if (!to)
        free(f.trace);
}

static void drop_trace(failure *f)
{
    free(f->trace);
    f->trace = NULL;
}

/* What came before it was raised, or is never asked for. */
static void drop_before(calls_object *c, failure until)
{
    for (uint32_t i = 0; i < FAILURES; i++)
        if (c->failures[i].trace && before(&c->failures[i], &until))
            drop_trace(&c->failures[i]);
}

static PyObject *calls_trace(PyObject *obj, PyObject *arg)
{
    calls_object *c = (calls_object *)obj;
    unsigned long long sample = PyLong_AsUnsignedLongLong(arg);
    const failure *newest = NULL;
    PyObject *found = NULL;

    if (PyErr_Occurred())
        return NULL;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < FAILURES; i++)
        if (c->failures[i].trace && c->failures[i].sample == sample &&
            (!newest || before(newest, &c->failures[i])))
            newest = &c->failures[i];
    if (newest) {
        found = PyUnicode_DecodeUTF8(newest->trace, (Py_ssize_t)strlen(newest->trace), "replace");
        drop_before(c, *newest);
    }
    pthread_mutex_unlock(&c->lock);
    if (!found && !PyErr_Occurred())
        Py_RETURN_NONE;
    return found;
}

/* ---- what a function gave ---- */

/* The bytes that shape and type say; 0 where they make no sense. */
static int size_of(const message *m, size_t *out)
{
    size_t size = stk_dtype_size((stk_dtype)m->dtype);

    if (!size || m->ndim > STK_MAX_DIMS)
        return 0;
    for (uint32_t i = 0; i < m->ndim; i++)
        if (m->shape[i] < 0 || __builtin_mul_overflow(size, (size_t)m->shape[i], &size))
            return 0;
    *out = size;
    return 1;
}

static int take(const message *m, const void *data, size_t room, stk_value_row *row,
                stk_scratch *scratch, stk_error *err)
{
    size_t size;

    if (!size_of(m, &size) || size != m->bytes || size > room)
        return stk_fail(err, STK_ECORRUPT,
                        "a function's answer makes no sense: its process is damaged");
    row->dtype = (stk_dtype)m->dtype;
    row->ndim = m->ndim;
    memcpy(row->shape, m->shape, sizeof row->shape);
    row->data = stk_scratch_get(scratch, size + 1);
    if (!row->data)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes that a function gave", size);
    memcpy(row->data, data, size);
    return 0;
}

static int failed(calls_object *c, const stk_call_at *at, const message *m, const char *text,
                  stk_error *err)
{
    keep_trace(c, at, text + m->bytes, (size_t)m->shape[0]);
    return stk_fail(err, m->status == ENDED ? STK_ECLOSED : STK_ECORRUPT,
                    "output %.40s: call(%.60s) raised %.*s", at->output, at->function,
                    (int)m->bytes, text);
}

static message request_of(const stk_call_at *at, const stk_value_row *row)
{
    message m = { .number = at->number,
                  .kind = at->kind,
                  .out = at->out,
                  .gives = at->gives,
                  .dtype = row->dtype,
                  .wants = at->dtype,
                  .ndim = row->ndim,
                  .address = ring_hash(at->seed, at->epoch, at->position),
                  .bytes = stk_dtype_size(row->dtype) };

    if (at->view)
        m.address = ring_hash(m.address, at->view, 0);
    for (uint32_t i = 0; i < row->ndim; i++) {
        m.shape[i] = row->shape[i];
        m.bytes *= (uint64_t)row->shape[i];
    }
    return m;
}

/* ---- in this process ---- */

/* `run` answers (message, data); or (message, text of the error and its traceback). */
static int run_here(calls_object *c, const stk_call_at *at, stk_value_row *row,
                    stk_scratch *scratch, stk_error *err)
{
    message m = request_of(at, row);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *data = PyMemoryView_FromMemory(row->data ? row->data : (char *)&m,
                                             (Py_ssize_t)m.bytes, PyBUF_READ);
    PyObject *made = data ? PyObject_CallFunction(c->run, "y#O", (const char *)&m,
                                                  (Py_ssize_t)sizeof m, data)
                          : NULL;
    const char *head;
    Py_ssize_t len;
    PyObject *body;
    Py_buffer view;
    int rc = STK_EINVAL;

    if (made && PyArg_ParseTuple(made, "y#O", &head, &len, &body) && len == sizeof m &&
        PyObject_GetBuffer(body, &view, PyBUF_C_CONTIGUOUS) == 0) {
        memcpy(&m, head, sizeof m);
        rc = m.status ? failed(c, at, &m, view.buf, err)
                      : take(&m, view.buf, (size_t)view.len, row, scratch, err);
        PyBuffer_Release(&view);
    } else {
        stk_fail(err, STK_EINVAL, "call(%.80s): the function could not be called", at->function);
        PyErr_Clear();
    }
    Py_XDECREF(made);
    Py_XDECREF(data);
    PyGILState_Release(gil);
    return rc;
}

/* ---- in a process of its own ---- */

/* A process that is free; NULL: the loader is being closed. */
static process *take_process(calls_object *c)
{
    process *p = NULL;

    pthread_mutex_lock(&c->lock);
    while (!c->stopped && !p) {
        for (uint32_t i = 0; i < c->n && !p; i++)
            p = c->p[i].busy ? NULL : &c->p[i];
        if (!p)
            pthread_cond_wait(&c->free, &c->lock);
    }
    if (p)
        p->busy = 1;
    pthread_mutex_unlock(&c->lock);
    return p;
}

static void give_process(calls_object *c, process *p, int well)
{
    pthread_mutex_lock(&c->lock);
    if (well)
        c->deaths = 0;
    p->busy = 0;
    pthread_cond_signal(&c->free);
    pthread_mutex_unlock(&c->lock);
}

/* 0: it has answered; 1: it has ended; 2: the loader is being closed. */
static int wait_for(const calls_object *c, const process *p)
{
    struct pollfd at[3] = { { p->sock, POLLIN, 0 }, { p->pid, POLLIN, 0 }, { c->stop, POLLIN, 0 } };
    char dot;

    for (;;) {
        if (poll(at, 3, -1) < 0 && errno != EINTR)
            return 1;
        if (at[0].revents & POLLIN && recv(p->sock, &dot, 1, MSG_DONTWAIT) == 1)
            return 0;
        if (at[1].revents)
            return 1;
        if (at[2].revents)
            return 2;
        if (at[0].revents & (POLLHUP | POLLERR))
            at[0].fd = -1; /* its pidfd says the rest */
        for (int i = 0; i < 3; i++)
            at[i].revents = 0;
    }
}

/* Say how it ended, and have another one in its place. */
static int buried(calls_object *c, process *p, const stk_call_at *at, stk_error *err)
{
    uint32_t number = (uint32_t)(p - c->p), deaths;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *said = PyObject_CallFunction(c->died, "IKs", number, (unsigned long long)at->sample,
                                           at->function);
    const char *why;
    int rc, sock, pid;

    pthread_mutex_lock(&c->lock);
    deaths = ++c->deaths;
    pthread_mutex_unlock(&c->lock);
    if (said && PyArg_ParseTuple(said, "sii", &why, &sock, &pid)) {
        p->sock = sock;
        p->pid = pid;
        rc = stk_fail(err, deaths < MAX_DEATHS ? STK_ECORRUPT : STK_ECLOSED, "%s", why);
    } else {
        PyErr_Clear();
        rc = stk_fail(err, STK_ECLOSED,
                      "worker process %u of call(%.80s) ended, and no other one could be started",
                      number, at->function);
    }
    Py_XDECREF(said);
    PyGILState_Release(gil);
    return rc;
}

static int tell(calls_object *c, process *p, const stk_call_at *at, const stk_value_row *row,
                stk_error *err)
{
    message m = request_of(at, row);
    uint32_t word[2] = { p->number, 0 };

    (void)c;
    if (m.bytes > p->room - RING_DATA)
        return stk_fail(err, STK_ELIMIT,
                        "a value of %llu bytes for call(%.80s), and at most %zu fit",
                        (unsigned long long)m.bytes, at->function, p->room - RING_DATA);
    memcpy(p->slot + HEAD, &m, sizeof m);
    if (m.bytes)
        memcpy(p->slot + RING_DATA, row->data, m.bytes);
    (void)!send(p->sock, word, sizeof word, MSG_NOSIGNAL); /* one that has ended is found so */
    return 0;
}

static int answer_of(calls_object *c, const process *p, const stk_call_at *at, stk_value_row *row,
                     stk_scratch *scratch, stk_error *err)
{
    message m;

    memcpy(&m, p->slot + HEAD, sizeof m);
    if (!m.status)
        return take(&m, p->slot + RING_DATA, p->room - RING_DATA, row, scratch, err);
    if (m.bytes > RING_DATA - TEXT || m.shape[0] < 0 ||
        (uint64_t)m.shape[0] > RING_DATA - TEXT - m.bytes)
        return stk_fail(err, STK_ECORRUPT,
                        "a function's answer makes no sense: its process is damaged");
    return failed(c, at, &m, (const char *)p->slot + TEXT, err);
}

static int run_there(calls_object *c, const stk_call_at *at, stk_value_row *row,
                     stk_scratch *scratch, stk_error *err)
{
    process *p = take_process(c);
    int how, rc;

    if (!p)
        return stk_fail(err, STK_ECLOSED, "the loader is being closed");
    rc = tell(c, p, at, row, err);
    how = rc < 0 ? 0 : wait_for(c, p);
    if (rc == 0 && how == 0)
        rc = answer_of(c, p, at, row, scratch, err);
    else if (how == 1)
        rc = buried(c, p, at, err);
    else if (how == 2)
        /* it stays busy: its answer comes */
        return stk_fail(err, STK_ECLOSED, "the loader is being closed");
    give_process(c, p, how == 0);
    return rc;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int call(void *cookie, const stk_call_at *at, stk_value_row *row, stk_scratch *scratch,
                stk_error *err)
{
    calls_object *c = cookie;
    uint64_t from = now_ns();
    int rc = c->n ? run_there(c, at, row, scratch, err) : run_here(c, at, row, scratch, err);

    pthread_mutex_lock(&c->lock);
    c->spent[at->number] += now_ns() - from;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* Seconds in each function, in the order of names. */
static PyObject *calls_spent(PyObject *obj, PyObject *unused)
{
    calls_object *c = (calls_object *)obj;
    Py_ssize_t n = PyTuple_Size(c->names);
    PyObject *list = PyList_New(n);

    (void)unused;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *s;
        uint64_t ns;

        pthread_mutex_lock(&c->lock);
        ns = c->spent[i];
        pthread_mutex_unlock(&c->lock);
        s = PyFloat_FromDouble((double)ns * 1e-9);
        if (!s || PyList_SetItem(list, i, s) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- the object ---- */

/* Called while the loader is opened, without the GIL. */
static int find(void *cookie, const char *function, uint32_t which, uint32_t *number,
                stk_error *err)
{
    calls_object *c = cookie;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_ssize_t n = PyTuple_Size(c->names);
    int rc = -1;

    for (Py_ssize_t i = 0; rc < 0 && i < n; i++) {
        const char *name;
        unsigned k;

        if (!PyArg_ParseTuple(PyTuple_GetItem(c->names, i), "sI", &name, &k)) {
            PyErr_Clear();
        } else if (k == which && !strcmp(name, function)) {
            *number = (uint32_t)i;
            rc = 0;
        }
    }
    PyGILState_Release(gil);
    return rc == 0 ? 0
                   : stk_fail(err, STK_EINVAL,
                              "there is no function for call(%.80s): give it to a chain that is "
                              "built, stoker.image().call(function)",
                              function);
}

stk_caller caller_of(PyObject *calls)
{
    return (stk_caller){ .abi = STK_PLUGIN_ABI,
                         .size = sizeof(stk_caller),
                         .name = "python",
                         .cookie = calls,
                         .find = find,
                         .call = call };
}

/* processes: a tuple of (socket, pidfd, number of the slot, Slot); none: functions run in this
 * process. */
static int take_processes(calls_object *c, PyObject *processes)
{
    Py_ssize_t n = PyTuple_Size(processes);

    if (n > MAX_PROCESSES) {
        PyErr_SetString(PyExc_ValueError, "too many processes");
        return -1;
    }
    c->p = PyMem_Calloc((size_t)n + 1, sizeof *c->p);
    c->views = PyMem_Calloc((size_t)n + 1, sizeof *c->views);
    if (!c->p || !c->views) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        process *p = &c->p[i];
        PyObject *slot;

        if (!PyArg_ParseTuple(PyTuple_GetItem(processes, i), "iiIO", &p->sock, &p->pid, &p->number,
                              &slot) ||
            PyObject_GetBuffer(slot, &c->views[i], PyBUF_WRITABLE) < 0)
            return -1;
        p->slot = c->views[i].buf;
        p->room = (size_t)c->views[i].len;
        c->n++;
    }
    return 0;
}

static int calls_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "names", "processes", "run", "died", NULL };
    calls_object *c = (calls_object *)obj;
    PyObject *list, *processes, *run, *died;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!OO:Calls", names, &PyTuple_Type, &list,
                                     &PyTuple_Type, &processes, &run, &died))
        return -1;
    if (c->ready) {
        PyErr_SetString(PyExc_TypeError, "Calls is made once");
        return -1;
    }
    c->stop = eventfd(0, EFD_CLOEXEC);
    if (c->stop < 0 || pthread_mutex_init(&c->lock, NULL) || pthread_cond_init(&c->free, NULL)) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    c->ready = 1;
    c->spent = PyMem_Calloc((size_t)PyTuple_Size(list) + 1, sizeof *c->spent);
    if (!c->spent) {
        PyErr_NoMemory();
        return -1;
    }
    Py_INCREF(list);
    Py_INCREF(run);
    Py_INCREF(died);
    c->names = list;
    c->run = run;
    c->died = died;
    return take_processes(c, processes);
}

static PyObject *calls_stop(PyObject *obj, PyObject *unused)
{
    calls_object *c = (calls_object *)obj;

    (void)unused;
    pthread_mutex_lock(&c->lock);
    c->stopped = 1;
    pthread_cond_broadcast(&c->free);
    pthread_mutex_unlock(&c->lock);
    if (eventfd_write(c->stop, 1) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static void calls_dealloc(PyObject *obj)
{
    calls_object *c = (calls_object *)obj;

    for (uint32_t i = 0; i < c->n; i++)
        PyBuffer_Release(&c->views[i]);
    for (uint32_t i = 0; i < FAILURES; i++)
        free(c->failures[i].trace);
    if (c->ready) {
        close(c->stop);
        pthread_cond_destroy(&c->free);
        pthread_mutex_destroy(&c->lock);
    }
    PyMem_Free(c->p);
    PyMem_Free(c->views);
    PyMem_Free(c->spent);
    Py_XDECREF(c->names);
    Py_XDECREF(c->run);
    Py_XDECREF(c->died);
    free_object(obj);
}

static PyMethodDef calls_methods[] = {
    { "stop", calls_stop, METH_NOARGS,
      "calls that wait, and later ones, fail: the loader is being closed" },
    { "spent", calls_spent, METH_NOARGS, "seconds in each function" },
    { "trace", calls_trace, METH_O, "the traceback of a sample's failure, or None" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot calls_slots[] = {
    { Py_tp_init, (void *)calls_init },
    { Py_tp_dealloc, (void *)calls_dealloc },
    { Py_tp_methods, calls_methods },
    { 0, NULL },
};

PyType_Spec calls_spec = { .name = "stoker._stoker.Calls",
                           .basicsize = sizeof(calls_object),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = calls_slots };
