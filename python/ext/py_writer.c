/* SPDX-License-Identifier: Apache-2.0 */
/* py_writer.c - a shard writer, and packing a data set.  Values are bytes here; writer.py makes
 * them. */
#include "pystoker.h"

#include <string.h>

typedef struct writer_object {
    PyObject_HEAD stk_writer *w; /* NULL: closed */
    PyThread_type_lock lock;
    uint64_t count[3]; /* shards, samples and bytes when it was last looked at */
} writer_object;

static int writer_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "pattern", "samples", "bytes", "first", "mtime", "force", NULL };
    writer_object *self = (writer_object *)obj;
    stk_writer_options o = { .size = sizeof o };
    unsigned long long samples, bytes, first;
    long long mtime;
    stk_error err = { 0 };
    const char *pattern;
    int force, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "yKKKLp:Writer", names, &pattern, &samples,
                                     &bytes, &first, &mtime, &force))
        return -1;
    if (self->lock) {
        PyErr_SetString(PyExc_TypeError, "a Writer is opened once");
        return -1;
    }
    o.samples = samples;
    o.bytes = bytes;
    o.first = first;
    o.mtime = mtime;
    o.force = force ? STK_YES : STK_UNSET;
    self->lock = PyThread_allocate_lock();
    if (!self->lock) {
        PyErr_NoMemory();
        return -1;
    }
    rc = stk_writer_open(&self->w, pattern, &o, &err);
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

/* Fields as (name, bytes) pairs in a tuple, which keeps them alive. */
static stk_part *parts_of(PyObject *pairs, Py_ssize_t n)
{
    stk_part *out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value;
        char *data;
        Py_ssize_t len;

        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "yS", &out[i].name, &value) ||
            PyBytes_AsStringAndSize(value, &data, &len) < 0) {
            PyMem_Free(out);
            return NULL;
        }
        out[i].data = data;
        out[i].len = (size_t)len;
    }
    return out;
}

static PyObject *writer_add(PyObject *obj, PyObject *args)
{
    writer_object *self = (writer_object *)obj;
    stk_error err = { 0 };
    const char *key;
    Py_ssize_t key_len, n;
    PyObject *pairs;
    stk_part *parts;
    int rc;

    if (!PyArg_ParseTuple(args, "y#O!:add", &key, &key_len, &PyTuple_Type, &pairs))
        return NULL;
    n = PyTuple_Size(pairs);
    parts = parts_of(pairs, n);
    if (!parts)
        return NULL;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w)
        rc = stk_writer_add(self->w, key, (size_t)key_len, parts, (uint32_t)n, &err);
    else
        rc = stk_fail(&err, STK_ECLOSED, "this writer is closed");
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS PyMem_Free(parts);
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    Py_RETURN_NONE;
}

static PyObject *writer_counts(PyObject *obj, PyObject *unused)
{
    writer_object *self = (writer_object *)obj;
    uint64_t n[3];

    (void)unused;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w)
        stk_writer_counts(self->w, &self->count[0], &self->count[1], &self->count[2]);
    memcpy(n, self->count, sizeof n);
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS return Py_BuildValue("(KKK)", (unsigned long long)n[0],
                                              (unsigned long long)n[1], (unsigned long long)n[2]);
}

/* close(commit): finish the shard in flight, or drop it.  Again: nothing. */
static PyObject *writer_close(PyObject *obj, PyObject *args)
{
    writer_object *self = (writer_object *)obj;
    stk_error err = { 0 };
    int commit, rc = 0;

    if (!PyArg_ParseTuple(args, "p:close", &commit))
        return NULL;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w && commit)
        rc = stk_writer_commit(self->w, &err);
    if (self->w)
        stk_writer_counts(self->w, &self->count[0], &self->count[1], &self->count[2]);
    stk_writer_close(&self->w);
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS if (rc < 0) return raise_error(state_of(obj), rc, &err);
    Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *obj)
{
    writer_object *self = (writer_object *)obj;

    Py_BEGIN_ALLOW_THREADS stk_writer_close(&self->w);
    Py_END_ALLOW_THREADS if (self->lock) PyThread_free_lock(self->lock);
    free_object(obj);
}

static PyMethodDef writer_methods[] = {
    { "add", writer_add, METH_VARARGS, "add(key, ((field, bytes), ...))" },
    { "counts", writer_counts, METH_NOARGS, "(shards finished, samples, bytes)" },
    { "close", writer_close, METH_VARARGS, "close(commit)" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot writer_slots[] = {
    { Py_tp_doc, (void *)"Samples into tar shards." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_init, (void *)writer_init },
    { Py_tp_dealloc, (void *)writer_dealloc },
    { Py_tp_methods, writer_methods },
    { 0, NULL },
};

PyType_Spec writer_spec = {
    .name = "stoker._stoker.Writer",
    .basicsize = sizeof(writer_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = writer_slots,
};

/* ---- pack ---- */

PyObject *pack_dataset(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "dataset", "dst",   "samples", "bytes", "shuffle",  "seed",
                             "name",    "force", "index",   "jpeg",  "num_proc", NULL };
    module_state *st = PyModule_GetState(module);
    stk_pack_options o = { .size = sizeof o };
    stk_pack_report r = { .size = sizeof r };
    unsigned long long samples, bytes, seed;
    int shuffle, force, index, jpeg, rc;
    stk_error err = { 0 };
    const char *dst;
    PyObject *ds;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!yKKpKypppI:pack", names, st->dataset, &ds,
                                     &dst, &samples, &bytes, &shuffle, &seed, &o.name, &force,
                                     &index, &jpeg, &o.num_workers))
        return NULL;
    if (!((dataset_object *)ds)->ds) {
        PyErr_SetString(PyExc_TypeError, "the Dataset was not opened");
        return NULL;
    }
    o.samples = samples;
    o.bytes = bytes;
    o.seed = seed;
    o.shuffle = shuffle ? STK_YES : STK_UNSET;
    o.force = force ? STK_YES : STK_UNSET;
    o.no_index = index ? STK_UNSET : STK_YES;
    o.jpeg = jpeg ? STK_YES : STK_UNSET;
    Py_BEGIN_ALLOW_THREADS rc = stk_pack(((dataset_object *)ds)->ds, dst, &o, &r, &err);
    Py_END_ALLOW_THREADS if (rc < 0) return raise_error(st, rc, &err);
    return Py_BuildValue("{sKsKsKsKsKsN}", "shards", (unsigned long long)r.shards, "samples",
                         (unsigned long long)r.samples, "bytes", (unsigned long long)r.bytes,
                         "kept_shards", (unsigned long long)r.kept_shards, "changed_keys",
                         (unsigned long long)r.changed_keys, "pattern",
                         text_from(r.pattern, strlen(r.pattern)));
}
