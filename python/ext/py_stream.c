/* SPDX-License-Identifier: Apache-2.0 */
/* py_stream.c - streams: shards that are read without an index, as a data set; and places in
 * them. */
#include "pystoker.h"

#include <stoker/stream.h>

typedef struct opened {
    const char **urls;
    size_t n;
    stk_stream_options o;
} opened;

static PyObject *open_urls(module_state *st, const opened *a)
{
    dataset_object *self = (dataset_object *)PyType_GenericAlloc(st->dataset, 0);
    stk_error err = { 0 };
    int rc;

    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_stream_open(&self->ds, a->urls, a->n, &a->o, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0) {
        Py_DECREF((PyObject *)self);
        return raise_error(st, rc, &err);
    }
    return (PyObject *)self;
}

PyObject *stream_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "urls",  "store",   "rank",     "world",  "streams", "batch",
                             "ahead", "shuffle", "replaces", "window", "seed",    NULL };
    opened a = { .o.size = sizeof a.o };
    PyObject *urls, *store, *held, *out = NULL;
    unsigned long long window, seed;
    int shuffle, replaces;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OIIIIIppKK:stream_open", names, &PyList_Type,
                                     &urls, &store, &a.o.rank, &a.o.world, &a.o.streams, &a.o.batch,
                                     &a.o.ahead, &shuffle, &replaces, &window, &seed))
        return NULL;
    a.o.shuffle = shuffle ? STK_YES : STK_NO;
    a.o.replaces = replaces ? STK_YES : STK_NO;
    a.o.window = window;
    a.o.seed = seed;
    a.o.store = store_of(store);
    /* keeps the strings while the GIL is away */
    held = PyErr_Occurred() ? NULL : PyList_AsTuple(urls);
    a.urls = held ? strings_of(urls, &a.n) : NULL;
    if (a.urls)
        out = open_urls(PyModule_GetState(module), &a);
    PyMem_Free(a.urls);
    Py_XDECREF(held);
    return out;
}

PyObject *stream_chosen(PyObject *module, PyObject *ds)
{
    const stk_dataset *d = ((dataset_object *)ds)->ds;

    (void)module;
    return Py_BuildValue("(IK)", stk_stream_count(d), (unsigned long long)stk_stream_window(d));
}

/* stream_tell(data set, sample): (block, [(pass, shard, offset), ...]) */
PyObject *stream_tell(PyObject *module, PyObject *args)
{
    PyObject *ds, *list;
    unsigned long long sample;
    stk_stream_place place[256];
    uint64_t block = 0;
    stk_error err = { 0 };
    uint32_t n;
    int rc;

    if (!PyArg_ParseTuple(args, "OK:stream_tell", &ds, &sample))
        return NULL;
    rc = stk_stream_tell(((dataset_object *)ds)->ds, sample, &block, place, &err);
    if (rc < 0)
        return raise_error(PyModule_GetState(module), rc, &err);
    n = stk_stream_count(((dataset_object *)ds)->ds);
    list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *at = Py_BuildValue("[KKK]", (unsigned long long)place[i].pass,
                                     (unsigned long long)place[i].shard,
                                     (unsigned long long)place[i].offset);

        if (!at || PyList_SetItem(list, (Py_ssize_t)i, at) < 0)
            Py_CLEAR(list);
    }
    return list ? Py_BuildValue("(KN)", (unsigned long long)block, list) : NULL;
}

PyObject *stream_seek(PyObject *module, PyObject *args)
{
    PyObject *ds, *list;
    unsigned long long block;
    stk_stream_place place[256];
    stk_error err = { 0 };
    Py_ssize_t n;
    int rc;

    if (!PyArg_ParseTuple(args, "OKO!:stream_seek", &ds, &block, &PyList_Type, &list))
        return NULL;
    n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n && i < 256; i++) {
        unsigned long long pass, shard, offset;

        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KKK:stream_seek", &pass, &shard, &offset))
            return NULL;
        place[i] = (stk_stream_place){ pass, shard, offset };
    }
    rc = stk_stream_seek(((dataset_object *)ds)->ds, block, place, n > 256 ? 0 : (uint32_t)n, &err);
    return none_or_error(PyModule_GetState(module), rc, &err);
}
