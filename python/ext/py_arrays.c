/* SPDX-License-Identifier: Apache-2.0 */
/* py_arrays.c - data sets of arrays: files joined row by row, and memory that Python objects lend.
 *
 * A lent buffer is held by the Dataset object, which every Loader over it holds in turn until its
 * threads are gone; so the library never has to call back into Python to let go. */
#include "pystoker.h"

#include <stoker/arrow.h>

#include <string.h>

typedef struct joining {
    stk_array_in *in;
    int64_t (*shape)[STK_MAX_DIMS];
    const char ***urls;
    Py_ssize_t n;
} joining;

static void joining_free(joining *j)
{
    for (Py_ssize_t i = 0; j->urls && i < j->n; i++)
        PyMem_Free((void *)j->urls[i]);
    PyMem_Free((void *)j->urls);
    PyMem_Free(j->shape);
    PyMem_Free(j->in);
}

int dims_of(PyObject *tuple, int64_t *out)
{
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;

    if (n < 0 || n > STK_MAX_DIMS) {
        PyErr_SetString(PyExc_TypeError, "a shape is a tuple of at most 8 numbers");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return (int)n;
}

/* (name, source, dtype, shape of a row, rows, stride); source: a list of paths, or a buffer. */
static int join_one(joining *j, Py_ssize_t i, PyObject *tuple, Py_buffer *view)
{
    stk_array_in *in = &j->in[i];
    PyObject *source, *shape;
    unsigned long long rows;
    long long stride;
    int dtype, ndim;

    if (!PyArg_ParseTuple(tuple, "sOiO!KL:join", &in->name, &source, &dtype, &PyTuple_Type, &shape,
                          &rows, &stride))
        return -1;
    ndim = dims_of(shape, j->shape[i]);
    if (ndim < 0)
        return -1;
    in->dtype = (stk_dtype)dtype;
    in->ndim = (uint32_t)ndim;
    in->shape = j->shape[i];
    if (PyList_Check(source)) {
        in->urls = j->urls[i] = strings_of(source, &in->n_urls);
        return in->urls ? 0 : -1;
    }
    if (PyObject_GetBuffer(source, view, PyBUF_STRIDED_RO) < 0)
        return -1;
    in->data = view->buf;
    in->rows = rows;
    in->stride = stride;
    return 0;
}

static int join_all(PyObject *obj, PyObject *list, stk_store *store, joining *j)
{
    dataset_object *self = (dataset_object *)obj;
    stk_error err = { 0 };
    int rc;

    for (Py_ssize_t i = 0; i < j->n; i++) {
        if (join_one(j, i, PyList_GetItem(list, i), &self->view[i]) < 0)
            return -1;
        j->in[i].store = store;
    }
    Py_BEGIN_ALLOW_THREADS
    rc = stk_dataset_join(&self->ds, j->in, (size_t)j->n, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

PyObject *dataset_join(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    dataset_object *self;
    PyObject *list, *store;
    joining j = { 0 };
    int rc = -1;

    if (!PyArg_ParseTuple(args, "O!O:join", &PyList_Type, &list, &store))
        return NULL;
    self = (dataset_object *)PyType_GenericAlloc(st->dataset, 0);
    if (!self)
        return NULL;
    j.n = PyList_Size(list);
    j.in = PyMem_Calloc((size_t)j.n + 1, sizeof *j.in);
    j.shape = PyMem_Calloc((size_t)j.n + 1, sizeof *j.shape);
    j.urls = PyMem_Calloc((size_t)j.n + 1, sizeof *j.urls);
    self->view = PyMem_Calloc((size_t)j.n + 1, sizeof *self->view);
    self->n_views = j.n;
    if (j.in && j.shape && j.urls && self->view)
        rc = join_all((PyObject *)self, list, store_of(store), &j);
    else
        PyErr_NoMemory();
    joining_free(&j);
    if (rc < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

/* The stream is the capsule's until it is opened, which takes it over. */
PyObject *dataset_from_arrow(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    stk_dataset_options o = { .size = sizeof o };
    PyObject *capsule, *null = Py_None;
    Py_buffer runs = { 0 };
    struct ArrowArrayStream *stream, mine;
    dataset_object *self;
    stk_error err = { 0 };
    int64_t list_null = 0;
    int rc;

    if (!PyArg_ParseTuple(args, "O|Oy*:from_arrow", &capsule, &null, &runs))
        return NULL;
    o.runs = runs.buf;
    o.n_runs = (uint64_t)runs.len / sizeof *o.runs;
    stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream && null != Py_None) {
        list_null = PyLong_AsLongLong(null);
        o.list_null = &list_null;
    }
    if (stream && !PyErr_Occurred() && !stream->release)
        PyErr_SetString(PyExc_ValueError, "the Arrow stream was read before");
    self = stream && !PyErr_Occurred() ? (dataset_object *)PyType_GenericAlloc(st->dataset, 0)
                                       : NULL;
    if (!self) {
        PyBuffer_Release(&runs);
        return NULL;
    }
    mine = *stream;
    stream->release = NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_dataset_open_arrow(&self->ds, &mine, &o, &err);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&runs);
    if (rc < 0) {
        Py_DECREF((PyObject *)self);
        return raise_error(st, rc, &err);
    }
    return (PyObject *)self;
}

void views_release(dataset_object *self)
{
    for (Py_ssize_t i = 0; self->view && i < self->n_views; i++)
        PyBuffer_Release(&self->view[i]); /* one that was never lent: nothing */
    PyMem_Free(self->view);
    self->view = NULL;
}

PyObject *dataset_kind(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    const char *kind = ds ? stk_dataset_arrays(ds) : NULL;

    (void)unused;
    return PyUnicode_FromString(kind ? kind : "");
}
