/* SPDX-License-Identifier: Apache-2.0 */
/* py_transform.c - a chain's ops on pictures that Python objects lend as buffers, or of a GPU, and
 * on recordings.
 *
 * Pictures come as a list of buffers (height, width, channels) of u8 with any strides; what comes
 * out goes into one writable buffer at given offsets.  Every buffer is held while it is read, and
 * the library checks that each picture fits where it goes.  Pictures on a GPU come as a table of
 * addresses, sizes and strides: what they say is transform.py's to know.
 *
 * Recordings come as a list of buffers (channels, samples) of f32, whose samples are side by side;
 * the library says how long rows are, so that they come out as Tensors. */
#include "pystoker.h"

#include <string.h>

typedef struct transform_object {
    PyObject_HEAD stk_transform *t; /* NULL: __init__ has not run or failed */
} transform_object;

typedef struct lent { /* what one call works on */
    Py_buffer *view;  /* of the pictures */
    stk_picture *pictures;
    Py_ssize_t n;
    Py_buffer positions, out, offsets, table;
} lent;

enum { T_DATA, T_HEIGHT, T_WIDTH, T_CHANNELS, T_STEP_Y, T_STEP_X, T_STEP_C, T_COLUMNS };

static int transform_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "chain", "seed", "output", "num_workers", "rate", NULL };
    transform_object *self = (transform_object *)obj;
    stk_transform_options o = { .size = sizeof o };
    unsigned long long seed = 0;
    stk_error err = { 0 };
    const char *chain;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|KIII:Transform", names, &chain, &seed,
                                     &o.output, &o.num_workers, &o.rate))
        return -1;
    if (self->t) { /* another thread may be running it */
        PyErr_SetString(PyExc_RuntimeError, "this transform is open");
        return -1;
    }
    o.seed = seed;
    o.registry = registry_now(state_of(obj));
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
    PyBuffer_Release(&l->table);
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

/* n pictures, and the positions that go with them. */
static int lent_begin(lent *l, Py_ssize_t n, PyObject *positions)
{
    l->n = n;
    l->pictures = PyMem_Calloc((size_t)l->n + 1, sizeof *l->pictures);
    if (!l->pictures) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyObject_GetBuffer(positions, &l->positions, PyBUF_SIMPLE) < 0)
        return -1;
    if (l->positions.len != l->n * (Py_ssize_t)sizeof(uint64_t)) {
        PyErr_SetString(PyExc_ValueError, "one position a picture, as u64");
        return -1;
    }
    return 0;
}

/* Views of a picture come one after the other. */
static void lent_number(lent *l, uint32_t views)
{
    for (Py_ssize_t i = 0; i < l->n; i++) {
        memcpy(&l->pictures[i].position, (char *)l->positions.buf + (size_t)i * sizeof(uint64_t),
               sizeof(uint64_t));
        l->pictures[i].view = (uint32_t)(i % views);
    }
}

static uint32_t views_of(const stk_transform *t)
{
    stk_transform_info info = { .size = sizeof info };

    stk_transform_describe(t, &info);
    return info.views ? info.views : 1;
}

/* The pictures of a list. */
static int lent_take(lent *l, PyObject *list, PyObject *positions, const stk_transform *t)
{
    if (lent_begin(l, PyList_Size(list), positions) < 0)
        return -1;
    l->view = PyMem_Calloc((size_t)l->n + 1, sizeof *l->view);
    if (!l->view) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < l->n; i++)
        if (PyObject_GetBuffer(PyList_GetItem(list, i), &l->view[i], PyBUF_STRIDED_RO) < 0 ||
            picture_of(&l->view[i], &l->pictures[i]) < 0)
            return -1;
    lent_number(l, views_of(t));
    return 0;
}

/* The pictures of a table of i64, T_COLUMNS each. */
static int lent_table(lent *l, PyObject *table, PyObject *positions, const stk_transform *t)
{
    const Py_ssize_t each = T_COLUMNS * (Py_ssize_t)sizeof(int64_t);
    const int64_t *row;

    if (PyObject_GetBuffer(table, &l->table, PyBUF_SIMPLE) < 0)
        return -1;
    if (l->table.len % each) {
        PyErr_SetString(PyExc_ValueError, "a picture is seven numbers, as i64");
        return -1;
    }
    if (lent_begin(l, l->table.len / each, positions) < 0)
        return -1;
    row = l->table.buf;
    for (Py_ssize_t i = 0; i < l->n; i++, row += T_COLUMNS) {
        if (row[T_HEIGHT] < 0 || row[T_HEIGHT] > UINT32_MAX || row[T_WIDTH] < 0 ||
            row[T_WIDTH] > UINT32_MAX || row[T_CHANNELS] < 0 || row[T_CHANNELS] > UINT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a picture's size is not valid");
            return -1;
        }
        l->pictures[i] = (stk_picture){ .data = (const void *)(uintptr_t)row[T_DATA],
                                        .height = (uint32_t)row[T_HEIGHT],
                                        .width = (uint32_t)row[T_WIDTH],
                                        .channels = (uint32_t)row[T_CHANNELS],
                                        .step_y = row[T_STEP_Y],
                                        .step_x = row[T_STEP_X],
                                        .step_c = row[T_STEP_C] };
    }
    lent_number(l, views_of(t));
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

/* Of a list of buffers, or of a table. */
static PyObject *transform_sizes(PyObject *obj, PyObject *args)
{
    const stk_transform *t = opened(obj);
    PyObject *given, *positions, *answer = NULL;
    stk_error err = { 0 };
    unsigned int epoch;
    lent l = { 0 };
    int rc;

    if (!t || !PyArg_ParseTuple(args, "IOO:sizes", &epoch, &given, &positions))
        return NULL;
    rc = PyList_Check(given) ? lent_take(&l, given, positions, t)
                             : lent_table(&l, given, positions, t);
    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_transform_sizes(t, epoch, l.pictures, (uint64_t)l.n, &err);
        Py_END_ALLOW_THREADS
        answer = rc < 0 ? raise_error(state_of(obj), rc, &err) : sizes_list(&l);
    }
    lent_free(&l);
    return answer;
}

/* Where each picture goes, of `size` bytes from `out` on: from its offset to the next one's. */
static int lent_aim(lent *l, char *out, uint64_t size, PyObject *offsets)
{
    const uint64_t *at;

    if (PyObject_GetBuffer(offsets, &l->offsets, PyBUF_SIMPLE) < 0)
        return -1;
    if (l->offsets.len != (l->n + 1) * (Py_ssize_t)sizeof *at) {
        PyErr_SetString(PyExc_ValueError, "one offset a picture and one for the end, as u64");
        return -1;
    }
    at = l->offsets.buf;
    for (Py_ssize_t i = 0; i < l->n; i++) {
        if (at[i] > at[i + 1] || at[i + 1] > size) {
            PyErr_SetString(PyExc_ValueError, "offsets rise and end inside the buffer");
            return -1;
        }
        l->pictures[i].out = out + at[i];
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
    if (lent_take(&l, list, positions, t) == 0 &&
        PyObject_GetBuffer(out, &l.out, PyBUF_WRITABLE) == 0 &&
        lent_aim(&l, l.out.buf, (uint64_t)l.out.len, offsets) == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_transform_run(t, epoch, l.pictures, (uint64_t)l.n, &err);
        Py_END_ALLOW_THREADS
    }
    lent_free(&l);
    return none_or_error(state_of(obj), rc, &err);
}

static PyObject *transform_run_gpu(PyObject *obj, PyObject *args)
{
    stk_transform_place where = { .size = sizeof where };
    unsigned long long out, size, stream;
    PyObject *table, *positions, *offsets;
    stk_error err = { 0 };
    unsigned int epoch;
    lent l = { 0 };
    int rc = -1;

    if (!opened(obj) || !PyArg_ParseTuple(args, "IOO(KK)O(IK):run_gpu", &epoch, &table, &positions,
                                          &out, &size, &offsets, &where.gpu, &stream))
        return NULL;
    where.stream = (void *)(uintptr_t)stream;
    if (lent_table(&l, table, positions, opened(obj)) == 0 &&
        lent_aim(&l, (char *)(uintptr_t)out, size, offsets) == 0) {
        stk_transform *t = ((transform_object *)obj)->t;

        Py_BEGIN_ALLOW_THREADS
        rc = stk_transform_run_gpu(t, epoch, l.pictures, (uint64_t)l.n, &where, &err);
        Py_END_ALLOW_THREADS
    }
    lent_free(&l);
    return none_or_error(state_of(obj), rc, &err);
}

/* ---- recordings ---- */

typedef struct heard {
    Py_buffer *view; /* of the recordings */
    stk_recording *in;
    stk_tensor *out;
    Py_ssize_t n;
    Py_buffer rates, positions; /* u32, u64 */
} heard;

static void heard_free(heard *h)
{
    for (Py_ssize_t i = 0; h->view && i < h->n; i++)
        PyBuffer_Release(&h->view[i]);
    for (Py_ssize_t i = 0; h->out && i < h->n; i++)
        if (h->out[i].buffer)
            stk_buffer_unref(h->out[i].buffer);
    PyBuffer_Release(&h->rates);
    PyBuffer_Release(&h->positions);
    PyMem_Free(h->view);
    PyMem_Free(h->in);
    PyMem_Free(h->out);
}

static int recording_of(const Py_buffer *v, stk_recording *out)
{
    if (v->ndim != 2 || v->itemsize != 4 || !v->format || strcmp(v->format, "f") != 0 ||
        v->shape[0] > UINT32_MAX || (v->shape[1] > 1 && v->strides[1] != 4)) {
        PyErr_SetString(PyExc_TypeError, "a recording is a buffer (channels, samples) of f32, "
                                         "samples side by side");
        return -1;
    }
    *out = (stk_recording){ .data = v->buf,
                            .channels = (uint32_t)v->shape[0],
                            .samples = (uint64_t)v->shape[1],
                            .step_c = v->strides[0] };
    return 0;
}

static int heard_take(heard *h, PyObject *list, PyObject *rates, PyObject *positions)
{
    const uint32_t *rate;
    const uint64_t *position;

    h->n = PyList_Size(list);
    h->view = PyMem_Calloc((size_t)h->n + 1, sizeof *h->view);
    h->in = PyMem_Calloc((size_t)h->n + 1, sizeof *h->in);
    h->out = PyMem_Calloc((size_t)h->n + 1, sizeof *h->out);
    if (!h->view || !h->in || !h->out) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyObject_GetBuffer(rates, &h->rates, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(positions, &h->positions, PyBUF_SIMPLE) < 0)
        return -1;
    if (h->rates.len != h->n * (Py_ssize_t)sizeof *rate ||
        h->positions.len != h->n * (Py_ssize_t)sizeof *position) {
        PyErr_SetString(PyExc_ValueError, "one rate a recording, as u32, and a position, as u64");
        return -1;
    }
    rate = h->rates.buf;
    position = h->positions.buf;
    for (Py_ssize_t i = 0; i < h->n; i++) {
        if (PyObject_GetBuffer(PyList_GetItem(list, i), &h->view[i],
                               PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0 ||
            recording_of(&h->view[i], &h->in[i]) < 0)
            return -1;
        h->in[i].rate = rate[i];
        h->in[i].position = position[i];
    }
    return 0;
}

/* All rows as one, which are one after another. */
static PyObject *rows_together(module_state *st, const heard *h)
{
    stk_tensor t = h->out[0];

    memmove(t.shape + 1, t.shape, t.ndim * sizeof *t.shape);
    memmove(t.strides + 1, t.strides, t.ndim * sizeof *t.strides);
    t.shape[0] = (int64_t)h->n;
    t.strides[0] = t.ndim ? t.shape[1] * t.strides[1] : 1;
    t.ndim++;
    return tensor_new(st, &t);
}

static PyObject *rows_list(module_state *st, const heard *h)
{
    PyObject *list = PyList_New(0);

    for (Py_ssize_t i = 0; list && i < h->n; i++) {
        PyObject *one = tensor_new(st, &h->out[i]);

        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *transform_run_sound(PyObject *obj, PyObject *args)
{
    stk_transform_info info = { .size = sizeof info };
    const stk_transform *t = opened(obj);
    PyObject *list, *rates, *positions, *answer = NULL;
    stk_error err = { 0 };
    unsigned int epoch;
    heard h = { 0 };
    int rc;

    if (!t ||
        !PyArg_ParseTuple(args, "IO!OO:run_sound", &epoch, &PyList_Type, &list, &rates, &positions))
        return NULL;
    stk_transform_describe(t, &info);
    if (heard_take(&h, list, rates, positions) == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_transform_run_sound(t, epoch, h.in, (uint64_t)h.n, h.out, &err);
        Py_END_ALLOW_THREADS
        answer = rc < 0             ? raise_error(state_of(obj), rc, &err)
                 : info.ndim && h.n ? rows_together(state_of(obj), &h)
                                    : rows_list(state_of(obj), &h);
    }
    heard_free(&h);
    return answer;
}

static PyObject *shape_of(const stk_transform_info *info)
{
    PyObject *shape = PyTuple_New(info->ndim);

    for (uint32_t i = 0; shape && i < info->ndim; i++) {
        PyObject *n = PyLong_FromLongLong(info->shape[i]);

        if (!n || PyTuple_SetItem(shape, i, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

/* 0: it is closed, and an exception is set. */
static int describe(PyObject *obj, stk_transform_info *out)
{
    const stk_transform *t = opened(obj);

    *out = (stk_transform_info){ .size = sizeof *out };
    if (t)
        stk_transform_describe(t, out);
    return t != NULL;
}

static PyObject *transform_sound_info(PyObject *obj, PyObject *unused)
{
    stk_transform_info info;

    (void)unused;
    if (!describe(obj, &info))
        return NULL;
    if (!info.sound)
        Py_RETURN_NONE;
    return shape_of(&info);
}

static PyObject *transform_info(PyObject *obj, PyObject *unused)
{
    stk_transform_info info;

    (void)unused;
    if (!describe(obj, &info))
        return NULL;
    return Py_BuildValue("(ssIII)", stk_dtype_name(info.dtype), info.layout, info.views,
                         info.height, info.width);
}

static PyMethodDef transform_methods[] = {
    { "info", transform_info, METH_NOARGS,
      "(dtype, layout, views, height, width); 0: no views, or differ by picture" },
    { "sizes", transform_sizes, METH_VARARGS,
      "sizes(epoch, pictures or table, positions): (height, width) of each as it comes out" },
    { "run", transform_run, METH_VARARGS, "run(epoch, pictures, positions, out, offsets)" },
    { "run_gpu", transform_run_gpu, METH_VARARGS,
      "run_gpu(epoch, table, positions, (address, bytes), offsets, (gpu, stream)); a picture of "
      "the "
      "table: address, height, width, channels and strides of these" },
    { "sound_info", transform_sound_info, METH_NOARGS,
      "shape of a recording's row, () where they differ; None: it takes pictures" },
    { "run_sound", transform_run_sound, METH_VARARGS,
      "run_sound(epoch, recordings, rates, positions): rows, together where they have one shape" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot transform_slots[] = {
    { Py_tp_doc, (void *)"A chain's ops on decoded pictures or sound; use stoker.Transform." },
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
