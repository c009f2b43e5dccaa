/* SPDX-License-Identifier: Apache-2.0 */
/* py_object.c - objects of a bucket by their address, for notes and files that pack() writes
 * there. */
#include "pystoker.h"

#include <stoker/plugin.h>
#include <stoker/store.h>
#include <string.h>

/* "O&" of the functions below: a store, or None for the process's own. */
static int to_store(PyObject *value, void *out)
{
    stk_store *s = store_of(value);

    *(stk_store **)out = s;
    return s || !PyErr_Occurred();
}

static int add_listed(void *cookie, const stk_listed *f, stk_error *err)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *pair = Py_BuildValue("(NK)", text_from(f->url, strlen(f->url)),
                                   (unsigned long long)f->size);
    int rc = pair ? PyList_Append(cookie, pair) : -1;

    Py_XDECREF(pair);
    PyErr_Clear();
    PyGILState_Release(gil);
    return rc < 0 ? stk_fail(err, STK_ENOMEM, "no memory for a listing") : 0;
}

/* object_list(prefix, store): [(url, size), ...] */
PyObject *object_list(PyObject *module, PyObject *args)
{
    const char *prefix;
    stk_error err = { 0 };
    PyObject *out;
    stk_store *s;
    int rc;

    if (!PyArg_ParseTuple(args, "yO&:object_list", &prefix, to_store, &s))
        return NULL;
    out = PyList_New(0);
    if (!out)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_list(prefix, s, add_listed, out, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0) {
        Py_DECREF(out);
        return raise_error(PyModule_GetState(module), rc, &err);
    }
    return out;
}

/* object_read(url, store): bytes; None: it is not there. */
PyObject *object_read(PyObject *module, PyObject *args)
{
    const char *url;
    stk_error err = { 0 };
    void *data = NULL;
    PyObject *out;
    size_t len = 0;
    stk_store *s;
    int rc;

    if (!PyArg_ParseTuple(args, "yO&:object_read", &url, to_store, &s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_read(url, s, &data, &len, &err);
    Py_END_ALLOW_THREADS
    if (rc == STK_ENOTFOUND)
        Py_RETURN_NONE;
    if (rc < 0)
        return raise_error(PyModule_GetState(module), rc, &err);
    out = PyBytes_FromStringAndSize(data, (Py_ssize_t)len);
    stk_free(data);
    return out;
}

/* video_info(url, store): a dict of what its tables say. */
PyObject *video_info(PyObject *module, PyObject *args)
{
    stk_video_info v = { .size = sizeof v };
    stk_error err = { 0 };
    const char *url;
    stk_store *s;
    int rc;

    if (!PyArg_ParseTuple(args, "yO&:video_info", &url, to_store, &s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_video_info_read(url, s, &v, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(PyModule_GetState(module), rc, &err);
    return Py_BuildValue("{sssIsIsKsKsKsLsL}", "codec", v.codec, "width", v.width, "height",
                         v.height, "frames", (unsigned long long)v.frames, "keyframes",
                         (unsigned long long)v.keyframes, "longest_gop",
                         (unsigned long long)v.longest_gop, "first_us", (long long)v.first_us,
                         "duration_us", (long long)v.duration_us);
}

PyObject *object_write(PyObject *module, PyObject *args)
{
    const char *url;
    Py_buffer data;
    stk_error err = { 0 };
    stk_store *s;
    int rc;

    if (!PyArg_ParseTuple(args, "yy*O&:object_write", &url, &data, to_store, &s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_write(url, s, data.buf, (size_t)data.len, &err);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    return none_or_error(PyModule_GetState(module), rc, &err);
}

PyObject *object_remove(PyObject *module, PyObject *args)
{
    const char *url;
    stk_error err = { 0 };
    stk_store *s;
    int rc;

    if (!PyArg_ParseTuple(args, "yO&:object_remove", &url, to_store, &s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_remove(url, s, &err);
    Py_END_ALLOW_THREADS
    return none_or_error(PyModule_GetState(module), rc, &err);
}

PyObject *object_writable(PyObject *module, PyObject *args)
{
    stk_error err = { 0 };
    const char *url;
    int rc;

    if (!PyArg_ParseTuple(args, "y:object_writable", &url))
        return NULL;
    rc = stk_object_writable(url, &err);
    return none_or_error(PyModule_GetState(module), rc, &err);
}

static int is_dead(void *cookie, const char *url)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *name = text_from(url, strlen(url));
    PyObject *answer = name ? PyObject_CallFunctionObjArgs(cookie, name, NULL) : NULL;
    int yes = answer && PyObject_IsTrue(answer) == 1;

    Py_XDECREF(answer);
    Py_XDECREF(name);
    PyErr_Clear(); /* an upload of which nothing is known stays */
    PyGILState_Release(gil);
    return yes;
}

/* object_sweep(prefix, dead, store): abort uploads that dead(url) says to be dead processes'.  Who
 * may not list uploads writes all the same: the bucket's own rules end them some day. */
PyObject *object_sweep(PyObject *module, PyObject *args)
{
    const char *prefix;
    stk_error err = { 0 };
    PyObject *dead;
    stk_store *s;
    int rc;

    (void)module;
    if (!PyArg_ParseTuple(args, "yOO&:object_sweep", &prefix, &dead, to_store, &s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_sweep(prefix, s, is_dead, dead, &err);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(rc == 0);
}

/* ---- one that is written piece by piece ---- */

typedef struct put_object {
    PyObject_HEAD stk_put *put; /* NULL: closed */
} put_object;

static int put_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "url", "store", NULL };
    put_object *self = (put_object *)obj;
    stk_error err = { 0 };
    const char *url;
    stk_store *s;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "yO&:Put", names, &url, to_store, &s))
        return -1;
    if (self->put) {
        PyErr_SetString(PyExc_TypeError, "a Put is opened once");
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    rc = stk_object_put(url, s, &self->put, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

static PyObject *put_write(PyObject *obj, PyObject *args)
{
    put_object *self = (put_object *)obj;
    stk_error err = { 0 };
    Py_buffer data;
    int rc;

    if (!PyArg_ParseTuple(args, "y*:write", &data))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = self->put ? self->put->write(self->put, data.buf, (size_t)data.len, &err)
                   : stk_fail(&err, STK_ECLOSED, "this object is closed");
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    return none_or_error(state_of(obj), rc, &err);
}

static void end(put_object *self)
{
    stk_put *put = self->put;

    self->put = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (put)
        put->close(put); /* what was not committed is aborted */
    Py_END_ALLOW_THREADS
}

static PyObject *put_close(PyObject *obj, PyObject *args)
{
    put_object *self = (put_object *)obj;
    stk_error err = { 0 };
    int commit, rc = 0;

    if (!PyArg_ParseTuple(args, "p:close", &commit))
        return NULL;
    if (commit && self->put) {
        Py_BEGIN_ALLOW_THREADS
        rc = self->put->commit(self->put, &err);
        Py_END_ALLOW_THREADS
    }
    end(self);
    return none_or_error(state_of(obj), rc, &err);
}

static void put_dealloc(PyObject *obj)
{
    end((put_object *)obj);
    free_object(obj);
}

static PyMethodDef put_methods[] = {
    { "write", put_write, METH_VARARGS, "write(bytes): in order" },
    { "close", put_close, METH_VARARGS, "close(commit): it appears, or nothing of it stays" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot put_slots[] = {
    { Py_tp_doc, (void *)"An object of a bucket while it is written; one thread." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_init, (void *)put_init },
    { Py_tp_dealloc, (void *)put_dealloc },
    { Py_tp_methods, put_methods },
    { 0, NULL },
};

PyType_Spec put_spec = {
    .name = "stoker._stoker.Put",
    .basicsize = sizeof(put_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = put_slots,
};
