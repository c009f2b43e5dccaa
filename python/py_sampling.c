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

static int borrow_arrays(sampling *s, PyObject *select, PyObject *weights, PyObject *balance,
                         stk_loader_options *o)
{
    if (borrow(s, select, sizeof *o->select, (const void **)&o->select, &o->n_select) < 0 ||
        borrow(s, weights, sizeof *o->weights, (const void **)&o->weights, &o->n_weights) < 0)
        return -1;
    return borrow(s, balance, sizeof *o->balance, (const void **)&o->balance, &o->n_balance);
}

int sampling_parse(PyObject *tuple, sampling *s, stk_loader_options *o)
{
    unsigned long long skip, limit, epoch_size;
    PyObject *select, *weights, *balance;
    int replacement;

    if (tuple == Py_None)
        return 0;
    if (!PyArg_ParseTuple(tuple, "OKKIKOOp", &select, &skip, &limit, &o->repeat, &epoch_size,
                          &weights, &balance, &replacement))
        return -1;
    o->skip = skip;
    o->limit = limit;
    o->epoch_size = epoch_size;
    o->replacement = replacement ? STK_YES : STK_NO;
    return borrow_arrays(s, select, weights, balance, o);
}

void sampling_free(sampling *s)
{
    while (s->n)
        PyBuffer_Release(&s->view[--s->n]);
}
