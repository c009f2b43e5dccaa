/* SPDX-License-Identifier: Apache-2.0 */
/* py_sampling.c - arrays of Python that say which samples take part, borrowed while a loader is
 * opened.  Lengths and types are checked in _sampling.py. */
#include "pystoker.h"

/* The memory of `array`, in items of `size`; NULL and *n 0 for None. */
static int borrow(sampling *s, PyObject *array, size_t size, const void **out, uint64_t *n)
{
    Py_buffer *v = &s->view[s->n];

    *out = NULL;
    *n = 0;
    if (array == Py_None)
        return 0;
    if (PyObject_GetBuffer(array, v, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    s->n++;
    *out = v->len ? v->buf : (const void *)s; /* an empty array is not none */
    *n = (uint64_t)v->len / size;
    return 0;
}

int sampling_parse(PyObject *tuple, sampling *s, stk_loader_options *o)
{
    unsigned long long skip, limit, epoch_size;
    PyObject *select, *weights, *balance, *stratify, *mix, *lengths = Py_None;
    int replacement;

    if (tuple == Py_None)
        return 0;
    if (!PyArg_ParseTuple(tuple, "OKKIKOOpOO|O", &select, &skip, &limit, &o->repeat, &epoch_size,
                          &weights, &balance, &replacement, &stratify, &mix, &lengths))
        return -1;
    o->skip = skip;
    o->limit = limit;
    o->epoch_size = epoch_size;
    o->replacement = replacement ? STK_YES : STK_NO;
    if (borrow(s, select, sizeof *o->select, (const void **)&o->select, &o->n_select) < 0 ||
        borrow(s, weights, sizeof *o->weights, (const void **)&o->weights, &o->n_weights) < 0 ||
        borrow(s, balance, sizeof *o->balance, (const void **)&o->balance, &o->n_balance) < 0 ||
        borrow(s, stratify, sizeof *o->stratify, (const void **)&o->stratify, &o->n_stratify) < 0 ||
        borrow(s, lengths, sizeof *o->lengths, (const void **)&o->lengths, &o->n_lengths) < 0)
        return -1;
    return borrow(s, mix, sizeof *o->mix, (const void **)&o->mix, &o->n_mix);
}

void sampling_free(sampling *s)
{
    while (s->n)
        PyBuffer_Release(&s->view[--s->n]);
}

/* ---- lengths that are packed ---- */

PyObject *pack_lengths(PyObject *module, PyObject *args)
{
    stk_fit_options o = { .size = sizeof o };
    sampling s = { 0 };
    const void *lengths;
    stk_fit_info info;
    stk_error err = { 0 };
    PyObject *array;
    uint64_t n;
    int best, rc;

    if (!PyArg_ParseTuple(args, "OIpI:pack_lengths", &array, &o.block, &best, &o.window) ||
        borrow(&s, array, sizeof(uint32_t), &lengths, &n) < 0)
        return NULL;
    o.first = !best;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_fit_lengths(lengths, n, &o, &info, &err);
    Py_END_ALLOW_THREADS
    sampling_free(&s);
    if (rc < 0)
        return raise_error(PyModule_GetState(module), rc, &err);
    return Py_BuildValue("(KK)", (unsigned long long)info.rows, (unsigned long long)info.tokens);
}

/* ---- weights of a mixture ---- */

static PyObject *change_tuple(const stk_mix_change_info *c)
{
    PyObject *parts = PyTuple_New(c->n), *base = PyTuple_New(c->n);

    for (uint32_t d = 0; parts && base && d < c->n; d++) {
        PyObject *p = PyLong_FromUnsignedLong(c->parts[d]),
                 *b = PyLong_FromUnsignedLongLong(c->base[d]);

        if (!p || !b || PyTuple_SetItem(parts, d, p) < 0 || PyTuple_SetItem(base, d, b) < 0)
            Py_CLEAR(parts);
    }
    if (!parts || !base) {
        Py_XDECREF(parts);
        Py_XDECREF(base);
        return NULL;
    }
    return Py_BuildValue("(KNN)", (unsigned long long)c->from, parts, base);
}

PyObject *changes_list(int (*get)(const void *cookie, uint64_t i, stk_mix_change_info *out),
                       const void *cookie)
{
    PyObject *list = PyList_New(0);
    stk_mix_change_info c;

    for (uint64_t i = 0; list && get(cookie, i, &c) == 0; i++) {
        PyObject *t = change_tuple(&c);

        if (!t || PyList_Append(list, t) < 0)
            Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

static int loader_change(const void *cookie, uint64_t i, stk_mix_change_info *out)
{
    return stk_loader_mix(cookie, i, out);
}

PyObject *mix_tuples(const stk_loader *l)
{
    return changes_list(loader_change, l);
}

/* One change: (from, parts, base), tuples of one length; its numbers go after each other. */
static int change_parse(PyObject *tuple, uint32_t n, uint64_t *base, uint32_t *parts,
                        stk_mix_change_info *out)
{
    PyObject *p, *b;
    unsigned long long from;

    if (!PyArg_ParseTuple(tuple, "KO!O!", &from, &PyTuple_Type, &p, &PyTuple_Type, &b))
        return -1;
    if (PyTuple_Size(p) != n || PyTuple_Size(b) != n) {
        PyErr_SetString(PyExc_ValueError, "changes of a mixture are of one length");
        return -1;
    }
    for (uint32_t d = 0; d < n; d++) {
        parts[d] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(p, d));
        base[d] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(b, d));
        if (PyErr_Occurred())
            return -1;
    }
    *out = (stk_mix_change_info){ from, parts, base, n };
    return 0;
}

int mix_parse(PyObject *tuples, mix_list *out)
{
    size_t n = (size_t)PyTuple_Size(tuples), sets = 0;
    uint64_t *base;
    PyObject *first;

    *out = (mix_list){ 0 };
    if (n) { /* as many as in the first: the others must be like it */
        first = PyTuple_GetItem(tuples, 0);
        if (!PyTuple_Check(first) || PyTuple_Size(first) != 3 ||
            !PyTuple_Check(PyTuple_GetItem(first, 1))) {
            PyErr_SetString(PyExc_TypeError, "a change of a mixture is (from, parts, base)");
            return -1;
        }
        sets = (size_t)PyTuple_Size(PyTuple_GetItem(first, 1));
    }
    out->change = PyMem_Calloc(n + 1, sizeof *out->change);
    out->memory = PyMem_Calloc(n * sets + 1, sizeof(uint64_t) + sizeof(uint32_t));
    if (!out->change || !out->memory) {
        PyErr_NoMemory();
        return -1;
    }
    base = out->memory;
    for (; out->n < n; out->n++)
        if (change_parse(PyTuple_GetItem(tuples, (Py_ssize_t)out->n), (uint32_t)sets,
                         base + out->n * sets, (uint32_t *)(base + n * sets) + out->n * sets,
                         &out->change[out->n]) < 0)
            return -1;
    return 0;
}

void mix_free(mix_list *m)
{
    PyMem_Free(m->change);
    PyMem_Free(m->memory);
}

double *floats_of(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    double *out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred()) {
            PyMem_Free(out);
            return NULL;
        }
    }
    return out;
}
