/* SPDX-License-Identifier: Apache-2.0 */
/* py_next.c - batches of a loader, and an iterator that loses none when a signal's handler raises.
 *
 * A handler written in Python runs between any two steps of Python code, and what it raises drops
 * the values in flight there.  So a batch is only looked at (peek) while Python makes tensors of
 * it, and taken (give) when the finished object is handed to the caller: by C, where no handler
 * runs.  The loader's place and its ledger move in give() alone.  What was cut short is made again
 * by the next call.  A for loop stores what an iterator in C answers without a look at signals
 * between.
 *
 * next() waits in slices, so that Ctrl-C, close() and other threads' calls get their turn. */
#include "py_loader.h"

#include <structmember.h>

#define SLICE_MS 100

/* ---- batches ---- */

typedef int (*step_fn)(stk_loader *l, stk_batch **b, int timeout_ms, stk_error *err);

/* Looks at a batch; the end of an epoch is taken. */
static int peek_or_end(stk_loader *l, stk_batch **b, int timeout_ms, stk_error *err)
{
    int rc = stk_loader_peek(l, b, timeout_ms, err);

    return rc == STK_END ? stk_loader_next(l, b, timeout_ms, err) : rc;
}

/* The caller says which epoch it means: a thread that came late must not begin the next one.
 * 0: *b is a batch; 1: the epoch is over; -1: an exception is set. */
static int wait_for(loader_object *self, PyObject *epoch_number, step_fn step, stk_batch **b)
{
    unsigned long long epoch = PyLong_AsUnsignedLongLong(epoch_number);
    log_lines lines = { 0 };
    stk_error err = { 0 };
    uint64_t now, at;
    int rc;

    if (PyErr_Occurred())
        return -1;
    do {
        if (PyErr_CheckSignals() < 0 || enter(self) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        stk_loader_where(self->l, &now, &at);
        log_defer(&lines);
        rc = now == epoch ? step(self->l, b, SLICE_MS, &err) : STK_END;
        log_defer(NULL);
        leave(self);
        Py_END_ALLOW_THREADS
        if (log_flush(state_of((PyObject *)self)->log, &lines) < 0) {
            stk_batch_release(b);
            return -1;
        }
    } while (rc == STK_ETIMEOUT);
    if (rc < 0)
        raise_error(state_of((PyObject *)self), rc, &err);
    return rc < 0 ? -1 : rc == STK_END;
}

PyObject *loader_next(PyObject *obj, PyObject *epoch)
{
    stk_batch *b = NULL;
    int rc = wait_for((loader_object *)obj, epoch, stk_loader_next, &b);

    if (rc > 0)
        Py_RETURN_NONE;
    return rc < 0 ? NULL : batch_take(state_of(obj), &b);
}

/* The token says which batch it is: (epoch, step).  Its serial number is no other batch's. */
PyObject *loader_peek(PyObject *obj, PyObject *epoch)
{
    unsigned long long number, step, serial;
    stk_batch *b = NULL;
    int rc = wait_for((loader_object *)obj, epoch, peek_or_end, &b);

    if (rc > 0)
        Py_RETURN_NONE;
    if (rc < 0)
        return NULL;
    number = stk_batch_epoch(b);
    step = stk_batch_step(b);
    serial = stk_batch_serial(b);
    return Py_BuildValue("(N(KK)K)", batch_take(state_of(obj), &b), number, step, serial);
}

PyObject *loader_give(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long epoch, step;
    stk_error err = { 0 };
    stk_batch *b = NULL;
    uint64_t now, at;
    int rc;

    if (!PyArg_ParseTuple(args, "KK:give", &epoch, &step) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    stk_loader_where(self->l, &now, &at);
    rc = now == epoch && at == step ? stk_loader_next(self->l, &b, 0, &err) : STK_END;
    leave(self);
    stk_batch_release(&b);
    Py_END_ALLOW_THREADS
    if (rc < 0 && rc != STK_ETIMEOUT)
        return raise_error(state_of(obj), rc, &err);
    return PyBool_FromLong(rc == 0);
}

/* The batch that comes next is made again: what was peeked at is not what is handed out. */
PyObject *loader_again(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    int rc;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_again(self->l, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

/* ---- the iterator ---- */

typedef struct giver_object {
    PyObject_HEAD Py_ssize_t given;
} giver_object;

/* self._make() answers (value, give, token) in Python; give(*token) is a function in C that takes
 * the value off its queue, or answers something false: then it is made again.  After give() there
 * is nothing that can raise. */
static PyObject *giver_next(PyObject *obj)
{
    for (;;) {
        PyObject *made = PyObject_CallMethod(obj, "_make", NULL), *value, *give, *token, *done;
        int ok;

        if (!made)
            return NULL; /* StopIteration too */
        done = PyArg_ParseTuple(made, "OOO!:_make", &value, &give, &PyTuple_Type, &token)
                   ? PyObject_CallObject(give, token)
                   : NULL;
        ok = done ? PyObject_IsTrue(done) : -1;
        if (ok > 0)
            Py_INCREF(value);
        Py_XDECREF(done);
        Py_DECREF(made);
        if (ok < 0)
            return NULL;
        if (ok) {
            ((giver_object *)obj)->given++;
            return value;
        }
    }
}

static PyObject *giver_iter(PyObject *obj)
{
    Py_INCREF(obj);
    return obj;
}

static void giver_dealloc(PyObject *obj)
{
    free_object(obj);
}

static PyMemberDef giver_members[] = {
    { "given", T_PYSSIZET, offsetof(giver_object, given), READONLY, "how many were handed out" },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot giver_slots[] = {
    { Py_tp_doc,
      (void *)"An iterator over what _make() answers, which is taken when it is given." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_dealloc, (void *)giver_dealloc },
    { Py_tp_iter, (void *)giver_iter },
    { Py_tp_iternext, (void *)giver_next },
    { Py_tp_members, giver_members },
    { 0, NULL },
};

PyType_Spec giver_spec = {
    .name = "stoker._stoker.Giver",
    .basicsize = sizeof(giver_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = giver_slots,
};
