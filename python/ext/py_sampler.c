/* SPDX-License-Identifier: Apache-2.0 */
/* py_sampler.c - which samples a rank of a Python data set gets: stoker/sampler.h as a type. */
#include <stoker/sampler.h>

#include <string.h>

#include "pystoker.h"

typedef struct sampler_object {
    PyObject_HEAD stk_sampler *s;
    uint64_t *memory; /* for the rows of a step: ids, positions */
    uint32_t rows;
} sampler_object;

static uint64_t *lens_of(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    uint64_t *out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        out[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
    if (PyErr_Occurred()) {
        PyMem_Free(out);
        return NULL;
    }
    return out;
}

static int open_sampler(sampler_object *self, PyObject *lens, const stk_loader_options *o)
{
    uint64_t *len = lens_of(lens);
    stk_error err = { 0 };
    stk_sampler_info info;
    int rc;

    if (!len)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_sampler_open(&self->s, len, (size_t)PyTuple_Size(lens), o, &err);
    Py_END_ALLOW_THREADS
    PyMem_Free(len);
    if (rc < 0) {
        raise_error(state_of((PyObject *)self), rc, &err);
        return -1;
    }
    stk_sampler_describe(self->s, &info);
    self->rows = (uint32_t)info.rows;
    self->memory = PyMem_Calloc((size_t)info.rows, 2 * sizeof *self->memory);
    if (!self->memory)
        PyErr_NoMemory();
    return self->memory ? 0 : -1;
}

/* Sampler(samples of each data set, options as words, sampling) */
static int sampler_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "lens", "options", "sampling", NULL };
    PyObject *lens, *words, *taken = Py_None;
    sampler_object *self = (sampler_object *)obj;
    stk_loader_options o = { .size = sizeof o };
    sampling arrays = { 0 };
    int rc = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|O:Sampler", names, &PyTuple_Type, &lens,
                                     &PyDict_Type, &words, &taken))
        return -1;
    if (self->s) {
        PyErr_SetString(PyExc_TypeError, "a Sampler is opened once");
        return -1;
    }
    if (options_parse(obj, words, &o) == 0 && sampling_parse(taken, &arrays, &o) == 0)
        rc = open_sampler(self, lens, &o);
    sampling_free(&arrays);
    return rc;
}

static void sampler_dealloc(PyObject *obj)
{
    sampler_object *self = (sampler_object *)obj;

    stk_sampler_close(&self->s);
    PyMem_Free(self->memory);
    free_object(obj);
}

static stk_sampler *sampler_of(PyObject *obj)
{
    stk_sampler *s = ((sampler_object *)obj)->s;

    if (!s)
        PyErr_SetString(PyExc_ValueError, "the sampler is not open");
    return s;
}

/* describe(): (positions, rows of a global batch, fingerprint of what takes part, of weights) */
static PyObject *sampler_describe(PyObject *obj, PyObject *unused)
{
    const stk_sampler *s = sampler_of(obj);
    stk_sampler_info i;

    (void)unused;
    if (!s)
        return NULL;
    stk_sampler_describe(s, &i);
    return Py_BuildValue("(KKKK)", (unsigned long long)i.positions, (unsigned long long)i.global,
                         (unsigned long long)i.taken, (unsigned long long)i.drawn);
}

static PyObject *sampler_steps(PyObject *obj, PyObject *arg)
{
    unsigned long long from = PyLong_AsUnsignedLongLong(arg);
    const stk_sampler *s = sampler_of(obj);

    if (!s || PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(stk_sampler_steps(s, from));
}

/* at(epoch, from, step): (ids, positions, valid, start, count, number); ids and positions as
 * u64. */
static PyObject *sampler_at(PyObject *obj, PyObject *args)
{
    sampler_object *self = (sampler_object *)obj;
    unsigned long long epoch, from, step;
    const stk_sampler *s = sampler_of(obj);
    stk_error err = { 0 };
    stk_sampler_step out;
    int rc;

    if (!s || !PyArg_ParseTuple(args, "KKK:at", &epoch, &from, &step))
        return NULL;
    out = (stk_sampler_step){ .ids = self->memory,
                              .positions = self->memory + self->rows,
                              .cap = self->rows };
    rc = stk_sampler_at(s, epoch, from, step, &out, &err);
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    return Py_BuildValue("(y#y#OKKK)", (const char *)out.ids, (Py_ssize_t)(out.rows * 8),
                         (const char *)out.positions, (Py_ssize_t)(out.rows * 8),
                         out.valid ? Py_True : Py_False, (unsigned long long)out.start,
                         (unsigned long long)out.count, (unsigned long long)out.number);
}

static PyObject *sampler_substitute(PyObject *obj, PyObject *args)
{
    const stk_sampler *s = sampler_of(obj);
    unsigned long long epoch, position;
    unsigned attempt;

    if (!s || !PyArg_ParseTuple(args, "KKI:substitute", &epoch, &position, &attempt))
        return NULL;
    return PyLong_FromUnsignedLongLong(stk_sampler_substitute(s, epoch, position, attempt));
}

/* ---- weights of a mixture ---- */

static int next_change(const void *cookie, uint64_t i, stk_mix_change_info *out)
{
    return stk_sampler_mix(cookie, i, out);
}

static PyObject *sampler_mix(PyObject *obj, PyObject *unused)
{
    const stk_sampler *s = sampler_of(obj);

    (void)unused;
    return s ? changes_list(next_change, s) : NULL;
}

static PyObject *sampler_set_mix(PyObject *obj, PyObject *tuples)
{
    stk_sampler *s = sampler_of(obj);
    stk_error err = { 0 };
    mix_list list = { 0 };
    int rc = -1;

    if (!s || !PyTuple_Check(tuples) || mix_parse(tuples, &list) < 0) {
        mix_free(&list);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "changes come in a tuple");
    }
    rc = stk_sampler_set_mix(s, list.change, list.n, &err);
    mix_free(&list);
    return none_or_error(state_of(obj), rc, &err);
}

/* set_weights(weights, epoch, position) */
static PyObject *sampler_set_weights(PyObject *obj, PyObject *args)
{
    stk_sampler *s = sampler_of(obj);
    unsigned long long epoch, position;
    stk_error err = { 0 };
    PyObject *tuple;
    double *weights;
    int rc;

    if (!s || !PyArg_ParseTuple(args, "O!KK:set_weights", &PyTuple_Type, &tuple, &epoch, &position))
        return NULL;
    weights = floats_of(tuple);
    if (!weights)
        return NULL;
    rc = stk_sampler_set_weights(s, weights, (size_t)PyTuple_Size(tuple), epoch, position, &err);
    PyMem_Free(weights);
    return none_or_error(state_of(obj), rc, &err);
}

/* ---- ledger ---- */

/* ledger(folder or None, generation, epoch, position, fingerprint of the data set's name) */
static PyObject *sampler_ledger(PyObject *obj, PyObject *args)
{
    unsigned long long generation, epoch, position, names;
    stk_sampler *s = sampler_of(obj);
    stk_error err = { 0 };
    stk_ledger_from from;
    char *folder = NULL;
    PyObject *path;
    int rc;

    if (!s ||
        !PyArg_ParseTuple(args, "OKKKK:ledger", &path, &generation, &epoch, &position, &names) ||
        (path != Py_None && PyBytes_AsStringAndSize(path, &folder, NULL) < 0))
        return NULL;
    from = (stk_ledger_from){ generation, epoch, position, names };
    Py_BEGIN_ALLOW_THREADS
    rc = stk_sampler_ledger(s, folder, &from, &err);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

/* note(epoch, ids as u64, valid as bytes, start, count, number) */
static PyObject *sampler_note(PyObject *obj, PyObject *args)
{
    unsigned long long epoch, start, count, number;
    stk_sampler *s = sampler_of(obj);
    Py_buffer ids, valid;
    stk_sampler_step step;
    stk_error err = { 0 };
    int rc = STK_EINVAL;

    if (!s ||
        !PyArg_ParseTuple(args, "Ky*y*KKK:note", &epoch, &ids, &valid, &start, &count, &number))
        return NULL;
    step = (stk_sampler_step){ .ids = ids.buf,
                               .rows = (uint32_t)(ids.len / 8),
                               .start = start,
                               .count = count,
                               .number = number };
    if (valid.len == ids.len / 8) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_sampler_note(s, epoch, &step, valid.buf, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&ids);
    PyBuffer_Release(&valid);
    return none_or_error(state_of(obj), rc, &err);
}

static PyMethodDef sampler_methods[] = {
    { "describe", sampler_describe, METH_NOARGS, "(positions, global, taken, drawn)" },
    { "steps", sampler_steps, METH_O, "of an epoch that is entered at a position" },
    { "at", sampler_at, METH_VARARGS,
      "at(epoch, from, step): (ids, positions, valid, start, count, number)" },
    { "substitute", sampler_substitute, METH_VARARGS,
      "substitute(epoch, position, attempt): an id" },
    { "mix", sampler_mix, METH_NOARGS, "changes of a mixture's weights" },
    { "set_mix", sampler_set_mix, METH_O, "all changes again" },
    { "set_weights", sampler_set_weights, METH_VARARGS, "set_weights(weights, epoch, position)" },
    { "ledger", sampler_ledger, METH_VARARGS,
      "ledger(folder or None, generation, epoch, position, names)" },
    { "note", sampler_note, METH_VARARGS, "note(epoch, ids, valid, start, count, number)" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot sampler_slots[] = {
    { Py_tp_init, (void *)sampler_init },
    { Py_tp_dealloc, (void *)sampler_dealloc },
    { Py_tp_methods, sampler_methods },
    { 0, NULL },
};

PyType_Spec sampler_spec = { .name = "stoker._stoker.Sampler",
                             .basicsize = sizeof(sampler_object),
                             .flags = Py_TPFLAGS_DEFAULT,
                             .slots = sampler_slots };
