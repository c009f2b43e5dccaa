/* SPDX-License-Identifier: Apache-2.0 */
/* py_tensor.c - one output of a batch: DLPack and buffer protocol over a held stk_buffer.
 *
 * Every way out takes a reference of its own to the stk_buffer, so the memory outlives the Tensor,
 * the batch and the loader.  A DLPack deleter touches no Python: consumers may call it from any
 * thread, without the GIL, and after the interpreter is gone.  NumPy has no bfloat16: through the
 * buffer protocol it shows as uint16 with the same bits; DLPack says bfloat. */
#include "pystoker.h"

#include <string.h>

#include "dlpack_abi.h"

typedef struct tensor_object {
    PyObject_HEAD void *data;
    stk_buffer *buffer;
    stk_dtype dtype;
    int ndim;
    Py_ssize_t items; /* elements */
    Py_ssize_t shape[STK_MAX_DIMS];
    Py_ssize_t strides[STK_MAX_DIMS]; /* in bytes */
    int gpu;                          /* 0: host memory; n: of GPU n - 1 */
} tensor_object;

static const struct {
    const char *format; /* struct module's letter */
    uint8_t code, bits; /* DLPack */
} dtypes[] = {
    [STK_U8] = { "B", DL_UINT, 8 },    [STK_I8] = { "b", DL_INT, 8 },
    [STK_U16] = { "H", DL_UINT, 16 },  [STK_I16] = { "h", DL_INT, 16 },
    [STK_I32] = { "i", DL_INT, 32 },   [STK_I64] = { "q", DL_INT, 64 },
    [STK_F16] = { "e", DL_FLOAT, 16 }, [STK_BF16] = { "H", DL_BFLOAT, 16 },
    [STK_F32] = { "f", DL_FLOAT, 32 }, [STK_F64] = { "d", DL_FLOAT, 64 },
    [STK_U32] = { "I", DL_UINT, 32 },
};

PyObject *tensor_new(module_state *st, const stk_tensor *t)
{
    tensor_object *self = (tensor_object *)PyType_GenericAlloc(st->tensor, 0);
    Py_ssize_t size = (Py_ssize_t)stk_dtype_size(t->dtype);

    if (!self)
        return NULL;
    self->data = t->data;
    self->dtype = t->dtype;
    self->ndim = (int)t->ndim;
    self->items = 1;
    for (uint32_t i = 0; i < t->ndim; i++) {
        self->shape[i] = (Py_ssize_t)t->shape[i];
        self->strides[i] = (Py_ssize_t)t->strides[i] * size;
        self->items *= self->shape[i];
    }
    self->gpu = (int)t->gpu;
    self->buffer = t->buffer;
    stk_buffer_ref(self->buffer);
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *obj)
{
    tensor_object *self = (tensor_object *)obj;

    if (self->buffer)
        stk_buffer_unref(self->buffer);
    free_object(obj);
}

/* ---- buffer protocol ---- */

/* Whether rows follow each other without gaps, the last (or, for Fortran, the first) index
 * fastest. */
static int is_contiguous(const tensor_object *t, int fortran)
{
    Py_ssize_t want = (Py_ssize_t)stk_dtype_size(t->dtype);

    for (int k = 0; k < t->ndim && t->items; k++) {
        int i = fortran ? k : t->ndim - 1 - k;

        if (t->shape[i] != 1 && t->strides[i] != want)
            return 0;
        want *= t->shape[i];
    }
    return 1;
}

static int fits_request(const tensor_object *t, int flags)
{
    int c = is_contiguous(t, 0), f = is_contiguous(t, 1);

    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS)
        return c;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS)
        return f;
    if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS)
        return c || f;
    return c || (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
}

static int tensor_getbuffer(PyObject *obj, Py_buffer *view, int flags)
{
    tensor_object *t = (tensor_object *)obj;

    if (t->gpu || !fits_request(t, flags)) {
        PyErr_SetString(PyExc_BufferError,
                        t->gpu ? "this tensor is in a GPU's memory: take it by __dlpack__"
                               : "this tensor is not contiguous: ask for strides");
        view->obj = NULL;
        return -1;
    }
    *view = (Py_buffer){
        .buf = t->data,
        .obj = Py_NewRef(obj),
        .itemsize = (Py_ssize_t)stk_dtype_size(t->dtype),
        .len = t->items * (Py_ssize_t)stk_dtype_size(t->dtype),
        .ndim = t->ndim,
        .format = flags & PyBUF_FORMAT ? (char *)dtypes[t->dtype].format : NULL,
        .shape = flags & PyBUF_ND ? t->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? t->strides : NULL,
    };
    return 0;
}

/* ---- DLPack ---- */

typedef struct exported { /* one allocation a capsule: header, extents, maybe a copy */
    union {
        dl_managed old;
        dl_versioned now;
    } dl;
    stk_buffer *buffer; /* NULL: `copy` is the data */
    void *stream;       /* GPU memory: what the consumer queues its uses on */
    void *copy;
    int64_t extents[2 * STK_MAX_DIMS];
} exported;

static void export_free(exported *e)
{
    if (e->buffer) {
        stk_buffer_used(e->buffer, e->stream);
        stk_buffer_unref(e->buffer);
    }
    stk_free(e->copy);
    stk_free(e);
}

static void delete_old(dl_managed *m)
{
    export_free(m->owner);
}

static void delete_versioned(dl_versioned *m)
{
    export_free(m->owner);
}

/* A capsule that no one took still owns its tensor. */
static void capsule_free(PyObject *capsule)
{
    void *p;

    if (PyCapsule_IsValid(capsule, "dltensor")) {
        p = PyCapsule_GetPointer(capsule, "dltensor");
        delete_old(p);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        p = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        delete_versioned(p);
    }
}

/* Copy the whole span that the strides reach, so that the copy has the same strides. */
static int export_copy(exported *e, const tensor_object *t)
{
    size_t span = stk_dtype_size(t->dtype);

    for (int i = 0; i < t->ndim; i++)
        span += (size_t)((t->shape[i] - (t->shape[i] > 0)) * t->strides[i]);
    e->copy = stk_alloc(span);
    if (!e->copy)
        return -1;
    if (t->items)
        memcpy(e->copy, t->data, span);
    return 0;
}

static exported *export_new(const tensor_object *t, int versioned, int copy)
{
    exported *e = stk_alloc(sizeof *e);
    dl_tensor *d;

    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    if (copy && export_copy(e, t) < 0) {
        stk_free(e);
        return NULL;
    }
    if (!copy) {
        e->buffer = t->buffer;
        stk_buffer_ref(e->buffer);
    }
    if (versioned)
        e->dl.now = (dl_versioned){ .major = DL_MAJOR,
                                    .minor = DL_MINOR,
                                    .owner = e,
                                    .deleter = delete_versioned,
                                    .flags = copy ? DL_FLAG_COPIED : 0 };
    else
        e->dl.old = (dl_managed){ .owner = e, .deleter = delete_old };
    d = versioned ? &e->dl.now.tensor : &e->dl.old.tensor;
    *d = (dl_tensor){ .data = copy ? e->copy : t->data,
                      .device_type = t->gpu ? DL_CUDA : DL_CPU,
                      .device_id = t->gpu ? t->gpu - 1 : 0,
                      .ndim = t->ndim,
                      .code = dtypes[t->dtype].code,
                      .bits = dtypes[t->dtype].bits,
                      .lanes = 1,
                      .shape = e->extents,
                      .strides = e->extents + STK_MAX_DIMS };
    for (int i = 0; i < t->ndim; i++) {
        d->shape[i] = t->shape[i];
        d->strides[i] = t->strides[i] / (Py_ssize_t)stk_dtype_size(t->dtype);
    }
    return e;
}

static int wants_versioned(PyObject *max_version, int *out)
{
    int major, minor;

    *out = 0;
    if (max_version == Py_None)
        return 0;
    if (!PyTuple_Check(max_version)) {
        PyErr_SetString(PyExc_TypeError, "max_version must be a tuple (major, minor)");
        return -1;
    }
    if (!PyArg_ParseTuple(max_version, "ii", &major, &minor))
        return -1;
    *out = major >= DL_MAJOR;
    return 0;
}

/* The consumer's stream as CUDA's handle: 1 and 2 are its names for the two default ones, which is
 * also what no word of it means.  Nothing waits: a batch is whole when it is handed out. */
static int parse_stream(const tensor_object *t, PyObject *stream, void **out)
{
    long long n;

    *out = (void *)1;
    if (stream == Py_None)
        return 0;
    if (!t->gpu) {
        PyErr_SetString(PyExc_BufferError, "this tensor is in host memory: stream must be None");
        return -1;
    }
    n = PyLong_AsLongLong(stream);
    if (n == -1 && PyErr_Occurred())
        return -1;
    if (n > 0)
        *out = (void *)(intptr_t)n;
    return 0;
}

static int check_place(const tensor_object *t, PyObject *dl_device)
{
    int type, id;

    if (dl_device == Py_None)
        return 0;
    if (!PyTuple_Check(dl_device)) {
        PyErr_SetString(PyExc_TypeError, "dl_device must be a tuple (type, id)");
        return -1;
    }
    if (!PyArg_ParseTuple(dl_device, "ii", &type, &id))
        return -1;
    if (type != (t->gpu ? DL_CUDA : DL_CPU) || id != (t->gpu ? t->gpu - 1 : 0)) {
        PyErr_Format(PyExc_BufferError, "this tensor is in %s memory: dl_device must be (%d, %d)",
                     t->gpu ? "a GPU's" : "host", t->gpu ? DL_CUDA : DL_CPU,
                     t->gpu ? t->gpu - 1 : 0);
        return -1;
    }
    return 0;
}

static PyObject *tensor_dlpack(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None,
             *capsule;
    tensor_object *t = (tensor_object *)obj;
    int versioned, copied;
    void *queue;
    exported *e;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
                                     &max_version, &device, &copy) ||
        parse_stream(t, stream, &queue) < 0 || check_place(t, device) < 0 ||
        wants_versioned(max_version, &versioned) < 0)
        return NULL;
    copied = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (copied < 0)
        return NULL;
    if (copied && t->gpu) {
        PyErr_SetString(PyExc_BufferError, "GPU memory is not copied here: copy it afterwards");
        return NULL;
    }
    e = export_new(t, versioned, copied);
    if (!e)
        return PyErr_NoMemory();
    e->stream = queue;
    capsule = PyCapsule_New(e, versioned ? "dltensor_versioned" : "dltensor", capsule_free);
    if (!capsule)
        export_free(e);
    return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *obj, PyObject *unused)
{
    tensor_object *t = (tensor_object *)obj;

    (void)unused;
    return Py_BuildValue("(ii)", t->gpu ? DL_CUDA : DL_CPU, t->gpu ? t->gpu - 1 : 0);
}

/* ---- parts ---- */

static int take_numbers(PyObject *tuple, Py_ssize_t n, Py_ssize_t *out, Py_ssize_t times)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
        out[i] *= times;
    }
    return 0;
}

/* as_strided(shape, strides, first): torch's, of numbers that the extension itself has said. */
static PyObject *tensor_as_strided(PyObject *obj, PyObject *args)
{
    const tensor_object *whole = (tensor_object *)obj;
    Py_ssize_t size = (Py_ssize_t)stk_dtype_size(whole->dtype), first, n, last;
    PyObject *shape, *strides;
    tensor_object *self;

    if (!PyArg_ParseTuple(args, "O!O!n:as_strided", &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                          &first))
        return NULL;
    n = PyTuple_Size(shape);
    self = (tensor_object *)PyType_GenericAlloc(Py_TYPE(obj), 0);
    if (!self)
        return NULL;
    if (n > STK_MAX_DIMS || PyTuple_Size(strides) != n ||
        take_numbers(shape, n, self->shape, 1) < 0 ||
        take_numbers(strides, n, self->strides, size) < 0)
        goto wrong;
    self->items = 1;
    last = first;
    for (Py_ssize_t i = 0; i < n; i++) {
        self->items *= self->shape[i];
        last += (self->shape[i] - 1) * (self->strides[i] / size);
    }
    if (self->items < 0 || first < 0 || (self->items && last >= whole->items))
        goto wrong;
    self->data = (uint8_t *)whole->data + first * size;
    self->dtype = whole->dtype;
    self->ndim = (int)n;
    self->gpu = whole->gpu;
    self->buffer = whole->buffer;
    stk_buffer_ref(self->buffer);
    return (PyObject *)self;
wrong:
    Py_DECREF(self);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "as_strided: a part that is not inside the tensor");
    return NULL;
}

/* ---- looks ---- */

static PyObject *tensor_shape(PyObject *obj, void *unused)
{
    tensor_object *t = (tensor_object *)obj;
    PyObject *shape = PyTuple_New(t->ndim);

    (void)unused;
    for (int i = 0; shape && i < t->ndim; i++) {
        PyObject *n = PyLong_FromSsize_t(t->shape[i]);

        if (!n || PyTuple_SetItem(shape, i, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *tensor_dtype(PyObject *obj, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(stk_dtype_name(((tensor_object *)obj)->dtype));
}

static PyObject *tensor_gpu(PyObject *obj, void *unused)
{
    int gpu = ((tensor_object *)obj)->gpu;

    (void)unused;
    if (!gpu)
        Py_RETURN_NONE;
    return PyLong_FromLong(gpu - 1);
}

static PyGetSetDef tensor_getset[] = {
    { "gpu", tensor_gpu, NULL, "number of the GPU whose memory it is in; None: host memory", NULL },
    { "shape", tensor_shape, NULL, "extents, the batch first", NULL },
    { "dtype", tensor_dtype, NULL, "name of the element type: \"f32\"", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef tensor_methods[] = {
    { "__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
      "a DLPack capsule that shares this memory" },
    { "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
      "(1, 0): host memory; (2, n): memory of GPU n" },
    { "as_strided", tensor_as_strided, METH_VARARGS, "a part of its memory, as torch's" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot tensor_slots[] = {
    { Py_tp_doc,
      (void *)"One output of a batch; numpy.asarray() and torch.from_dlpack() share its memory." },
    { Py_tp_dealloc, (void *)tensor_dealloc },
    { Py_tp_methods, tensor_methods },
    { Py_tp_getset, tensor_getset },
    { Py_bf_getbuffer, (void *)tensor_getbuffer },
    { 0, NULL },
};

PyType_Spec tensor_spec = {
    .name = "stoker._stoker.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tensor_slots,
};
