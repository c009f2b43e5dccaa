/* SPDX-License-Identifier: Apache-2.0 */
/* py_transform.c - a chain's ops on pictures that Python objects lend as buffers.
 *
 * Pictures come as a list of buffers (height, width, channels) of u8 with any strides; what comes
 * out goes into one writable buffer at given offsets.  Every buffer is held while it is read, and
 * the library checks that each picture fits where it goes. */
#include "pystoker.h"

#include <string.h>

typedef struct transform_object {
    PyObject_HEAD stk_transform *t; /* NULL: __init__ has not run or failed */
} transform_object;

typedef struct lent { /* what one call works on */
    Py_buffer *view;  /* of the pictures */
    stk_picture *pictures;
    Py_ssize_t n;
    Py_buffer positions, out, offsets;
} lent;

static int transform_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "chain", "seed", "output", "num_workers", NULL };
    transform_object *self = (transform_object *)obj;
    stk_transform_options o = { .size = sizeof o };
    unsigned long long seed = 0;
    stk_error err = { 0 };
    const char *chain;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|KII:Transform", names, &chain, &seed,
                                     &o.output, &o.num_workers))
        return -1;
    if (self->t) { /* another thread may be running it */
        PyErr_SetString(PyExc_RuntimeError, "this transform is open");
        return -1;
    }
    o.seed = seed;
    rc = stk_transform_open(&self->t, chain, &o, &err);
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

static void transform_dealloc(PyObject *obj)
{
    stk_transform_close(&((transform_object *)obj)->t);
    free_object(obj);
}

static const stk_transform *opened(PyObject *obj)
{
    const stk_transform *t = ((transform_object *)obj)->t;

    if (!t)
        PyErr_SetString(PyExc_RuntimeError, "this transform was never opened");
    return t;
}

static void lent_free(lent *l)
{
    for (Py_ssize_t i = 0; l->view && i < l->n; i++)
        PyBuffer_Release(&l->view[i]); /* one that was never lent: nothing */
    PyBuffer_Release(&l->positions);
    PyBuffer_Release(&l->out);
    PyBuffer_Release(&l->offsets);
    PyMem_Free(l->view);
    PyMem_Free(l->pictures);
}

static int picture_of(const Py_buffer *v, stk_picture *out)
{
    if (v->itemsize != 1 || v->ndim != 3 || v->shape[0] > UINT32_MAX || v->shape[1] > UINT32_MAX) {
        PyErr_SetString(PyExc_TypeError, "a picture is a buffer (height, width, channels) of u8");
        return -1;
    }
    *out = (stk_picture){ .data = v->buf,
                          .height = (uint32_t)v->shape[0],
                          .width = (uint32_t)v->shape[1],
                          .channels = (uint32_t)v->shape[2],
                          .step_y = v->strides[0],
                          .step_x = v->strides[1],
                          .step_c = v->strides[2] };
    return 0;
}

/* The pictures of a list, and the positions that go with them. */
static int lent_take(lent *l, PyObject *list, PyObject *positions)
{
    l->n = PyList_Size(list);
    l->view = PyMem_Calloc((size_t)l->n + 1, sizeof *l->view);
    l->pictures = PyMem_Calloc((size_t)l->n + 1, sizeof *l->pictures);
    if (!l->view || !l->pictures) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyObject_GetBuffer(positions, &l->positions, PyBUF_SIMPLE) < 0)
        return -1;
    if (l->positions.len != l->n * (Py_ssize_t)sizeof(uint64_t)) {
        PyErr_SetString(PyExc_ValueError, "one position a picture, as u64");
        return -1;
    }
    for (Py_ssize_t i = 0; i < l->n; i++) {
        if (PyObject_GetBuffer(PyList_GetItem(list, i), &l->view[i], PyBUF_STRIDED_RO) < 0 ||
            picture_of(&l->view[i], &l->pictures[i]) < 0)
            return -1;
        memcpy(&l->pictures[i].position, (char *)l->positions.buf + (size_t)i * sizeof(uint64_t),
               sizeof(uint64_t));
    }
    return 0;
}

static PyObject *sizes_list(const lent *l)
{
    PyObject *list = PyList_New(0);

    for (Py_ssize_t i = 0; list && i < l->n; i++) {
        PyObject *one = Py_BuildValue("(II)", l->pictures[i].out_height, l->pictures[i].out_width);

        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *transform_sizes(PyObject *obj, PyObject *args)
{
    const stk_transform *t = opened(obj);
    PyObject *list, *positions, *answer = NULL;
    stk_error err = { 0 };
    unsigned int epoch;
    lent l = { 0 };
    int rc;

    if (!t || !PyArg_ParseTuple(args, "IO!O:sizes", &epoch, &PyList_Type, &list, &positions))
        return NULL;
    if (lent_take(&l, list, positions) == 0) {
        Py_BEGIN_ALLOW_THREADS rc = stk_transform_sizes(t, epoch, l.pictures, (uint64_t)l.n, &err);
        Py_END_ALLOW_THREADS answer = rc < 0 ? raise_error(state_of(obj), rc, &err)
                                             : sizes_list(&l);
    }
    lent_free(&l);
    return answer;
}

/* Where each picture goes: from its offset to the next one's. */
static int lent_aim(lent *l, PyObject *out, PyObject *offsets)
{
    const uint64_t *at;

    if (PyObject_GetBuffer(out, &l->out, PyBUF_WRITABLE) < 0 ||
        PyObject_GetBuffer(offsets, &l->offsets, PyBUF_SIMPLE) < 0)
        return -1;
    if (l->offsets.len != (l->n + 1) * (Py_ssize_t)sizeof *at) {
        PyErr_SetString(PyExc_ValueError, "one offset a picture and one for the end, as u64");
        return -1;
    }
    at = l->offsets.buf;
    for (Py_ssize_t i = 0; i < l->n; i++) {
        if (at[i] > at[i + 1] || at[i + 1] > (uint64_t)l->out.len) {
            PyErr_SetString(PyExc_ValueError, "offsets rise and end inside the buffer");
            return -1;
        }
        l->pictures[i].out = (char *)l->out.buf + at[i];
        l->pictures[i].out_size = at[i + 1] - at[i];
    }
    return 0;
}

static PyObject *transform_run(PyObject *obj, PyObject *args)
{
    const stk_transform *t = opened(obj);
    PyObject *list, *positions, *out, *offsets;
    stk_error err = { 0 };
    unsigned int epoch;
    lent l = { 0 };
    int rc = -1;

    if (!t || !PyArg_ParseTuple(args, "IO!OOO:run", &epoch, &PyList_Type, &list, &positions, &out,
                                &offsets))
        return NULL;
    if (lent_take(&l, list, positions) == 0 && lent_aim(&l, out, offsets) == 0) {
        Py_BEGIN_ALLOW_THREADS rc = stk_transform_run(t, epoch, l.pictures, (uint64_t)l.n, &err);
        Py_END_ALLOW_THREADS if (rc < 0) raise_error(state_of(obj), rc, &err);
    }
    lent_free(&l);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *transform_info(PyObject *obj, PyObject *unused)
{
    stk_transform_info info = { .size = sizeof info };
    const stk_transform *t = opened(obj);

    (void)unused;
    if (!t)
        return NULL;
    stk_transform_describe(t, &info);
    return Py_BuildValue("(ssII)", stk_dtype_name(info.dtype), info.layout, info.height,
                         info.width);
}

static PyMethodDef transform_methods[] = {
    { "info", transform_info, METH_NOARGS, "(dtype, layout, height, width); 0: differ by picture" },
    { "sizes", transform_sizes, METH_VARARGS,
      "sizes(epoch, pictures, positions): (height, width) of each as it comes out" },
    { "run", transform_run, METH_VARARGS, "run(epoch, pictures, positions, out, offsets)" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot transform_slots[] = {
    { Py_tp_doc, (void *)"A chain's ops on decoded pictures; use stoker.Transform." },
    { Py_tp_init, (void *)transform_init },
    { Py_tp_dealloc, (void *)transform_dealloc },
    { Py_tp_methods, transform_methods },
    { 0, NULL },
};

PyType_Spec transform_spec = {
    .name = "stoker._stoker.Transform",
    .basicsize = sizeof(transform_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = transform_slots,
};
