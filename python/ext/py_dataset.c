/* SPDX-License-Identifier: Apache-2.0 */
/* py_dataset.c - a data set: open, count, read one sample.  Thread: any, as stk_dataset is. */
#include "pystoker.h"

#include <stdlib.h>
#include <string.h>

const char **strings_of(PyObject *list, size_t *n)
{
    const char **out;

    *n = (size_t)PyList_Size(list);
    out = PyMem_Malloc((*n + 1) * sizeof *out);
    if (!out)
        return (void *)PyErr_NoMemory();
    for (size_t i = 0; i < *n; i++) {
        char *s;
        Py_ssize_t len;

        if (PyBytes_AsStringAndSize(PyList_GetItem(list, (Py_ssize_t)i), &s, &len) < 0)
            goto fail;
        if (strlen(s) != (size_t)len) {
            PyErr_SetString(PyExc_ValueError, "a path, class or column has no null bytes");
            goto fail;
        }
        out[i] = s;
    }
    return out;
fail:
    PyMem_Free(out);
    return NULL;
}

typedef struct opening {
    PyThreadState *thread; /* of the caller, while the GIL is away */
} opening;

/* On the caller's thread: the place to look at Ctrl-C, which only the main thread does. */
static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    opening *o = cookie;
    int stop;

    (void)done, (void)total;
    PyEval_RestoreThread(o->thread);
    stop = PyErr_CheckSignals() < 0;
    o->thread = PyEval_SaveThread();
    return stop;
}

static int open_dataset(module_state *st, const char **urls, size_t n, stk_dataset_options *options,
                        stk_dataset **out)
{
    stk_error err = { 0 };
    opening o;
    int rc;

    options->log = log_line;
    options->log_cookie = st->log;
    options->progress = on_progress;
    options->progress_cookie = &o;
    o.thread = PyEval_SaveThread();
    rc = stk_dataset_open(out, urls, n, options, &err);
    PyEval_RestoreThread(o.thread);
    if (rc < 0 && !PyErr_Occurred()) /* KeyboardInterrupt, by on_progress() */
        raise_error(st, rc, &err);
    return rc < 0 ? -1 : 0;
}

/* A list of 256 code points, -1: none. */
static int code_points_of(PyObject *list, uint32_t out[256])
{
    if (!PyList_Check(list) || PyList_Size(list) != 256) {
        PyErr_SetString(PyExc_TypeError, "an encoding is a list of 256 code points");
        return -1;
    }
    for (Py_ssize_t i = 0; i < 256; i++) {
        long c = PyLong_AsLong(PyList_GetItem(list, i));

        if (c == -1 && PyErr_Occurred())
            return -1;
        out[i] = c < 0 || c > 0xFFFF ? UINT32_MAX : (uint32_t)c;
    }
    return 0;
}

static int dataset_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "urls",     "classes", "columns", "jpeg",    "dtype",
                             "shape",    "reindex", "store",   "salvage", "skip_damaged",
                             "encoding", "null",    NULL };
    dataset_object *self = (dataset_object *)obj;
    stk_dataset_options o = { .size = sizeof o };
    PyObject *urls, *classes, *columns, *shape = NULL, *held = NULL, *store = NULL;
    int64_t dims[STK_MAX_DIMS];
    stk_dataset *ds = NULL;
    const char **strings = NULL;
    size_t n, n_classes = 0, n_columns = 0;
    int jpeg, rc = -1, dtype = 0, ndim = 0, reindex = 0, salvage = 0, skip = 0;
    uint32_t points[256];
    PyObject *encoding = NULL, *null = NULL;
    int64_t list_null = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOp|iOpOppOO:Dataset", names, &urls, &classes,
                                     &columns, &jpeg, &dtype, &shape, &reindex, &store, &salvage,
                                     &skip, &encoding, &null) ||
        (shape && (ndim = dims_of(shape, dims)) < 0) ||
        (encoding && encoding != Py_None && code_points_of(encoding, points) < 0))
        return -1;
    if (null && null != Py_None) {
        list_null = PyLong_AsLongLong(null);
        o.list_null = &list_null;
    }
    o.encoding = encoding && encoding != Py_None ? points : NULL;
    o.skip_damaged = skip ? STK_YES : STK_UNSET;
    o.dtype = (stk_dtype)dtype;
    o.ndim = (uint32_t)ndim;
    o.shape = dims;
    o.store = store_of(store);
    if (PyErr_Occurred())
        return -1;
    if (self->ds || !PyList_Check(urls) || !PyList_Check(classes) || !PyList_Check(columns)) {
        PyErr_SetString(PyExc_TypeError, "a Dataset is made once, from three lists of bytes");
        return -1;
    }
    /* Keeps the strings while the GIL is away. */
    held = Py_BuildValue("NNN", PyList_AsTuple(urls), PyList_AsTuple(classes),
                         PyList_AsTuple(columns));
    o.classes = held ? strings_of(classes, &n_classes) : NULL;
    o.columns = o.classes ? strings_of(columns, &n_columns) : NULL;
    strings = o.columns ? strings_of(urls, &n) : NULL;
    o.n_classes = (uint32_t)n_classes;
    o.n_columns = (uint32_t)n_columns;
    o.jpeg = jpeg ? STK_YES : STK_UNSET;
    o.reindex = reindex ? STK_YES : STK_UNSET;
    o.salvage = salvage ? STK_YES : STK_UNSET;
    if (strings)
        rc = open_dataset(state_of(obj), strings, n, &o, &ds);
    PyMem_Free(strings);
    PyMem_Free((void *)o.columns);
    PyMem_Free((void *)o.classes);
    Py_XDECREF(held);
    self->ds = ds;
    return rc;
}

static void dataset_dealloc(PyObject *obj)
{
    stk_dataset_unref(&((dataset_object *)obj)->ds);
    views_release((dataset_object *)obj);
    free_object(obj);
}

static Py_ssize_t dataset_len(PyObject *obj)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;

    return ds ? (Py_ssize_t)stk_dataset_len(ds) : 0;
}

/* Of sample i; data without keys of its own goes by numbers. */
static PyObject *sample_dict(const stk_dataset *ds, uint64_t i, const stk_sample *s)
{
    PyObject *d = PyDict_New(), *value;
    const char *key, *name;
    const void *data;
    size_t len;
    int bad;

    if (!d)
        return NULL;
    key = stk_dataset_key(ds, i, &len);
    value = key ? text_from(key, len) : PyUnicode_FromFormat("%llu", (unsigned long long)i);
    bad = !value || PyDict_SetItemString(d, "__key__", value) < 0;
    Py_XDECREF(value);
    if (!bad) {
        value = text_from(stk_sample_shard(s), strlen(stk_sample_shard(s)));
        bad = !value || PyDict_SetItemString(d, "__url__", value) < 0;
        Py_XDECREF(value);
    }
    for (uint32_t k = 0; !bad && k < stk_sample_fields(s); k++) {
        PyObject *field;

        name = stk_sample_field(s, k, &data, &len);
        field = text_from(name, strlen(name));
        value = data ? PyBytes_FromStringAndSize(data, (Py_ssize_t)len) : Py_NewRef(Py_None);
        bad = !field || !value || PyDict_SetItem(d, field, value) < 0;
        Py_XDECREF(field);
        Py_XDECREF(value);
    }
    if (bad)
        Py_CLEAR(d);
    return d;
}

static PyObject *dataset_read(PyObject *obj, PyObject *arg)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    unsigned long long i = PyLong_AsUnsignedLongLong(arg);
    stk_error err = { 0 };
    stk_sample *s = NULL;
    PyObject *d;
    int rc;

    if (PyErr_Occurred())
        return NULL;
    if (!ds || i >= stk_dataset_len(ds)) {
        PyErr_SetString(PyExc_IndexError, "no such sample");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    rc = stk_dataset_read(ds, i, &s, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    d = sample_dict(ds, i, s);
    stk_sample_close(&s);
    return d;
}

/* Append a string to a list; NULL (list dropped) on failure. */
static PyObject *append_text(PyObject *list, const char *s)
{
    PyObject *text = text_from(s, strlen(s));

    if (!text || PyList_Append(list, text) < 0)
        Py_CLEAR(list);
    Py_XDECREF(text);
    return list;
}

/* All that name_at() answers. */
static PyObject *names_of(PyObject *obj, const char *(*name_at)(const stk_dataset *ds, uint32_t i))
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    PyObject *list = PyList_New(0);
    const char *name;

    for (uint32_t i = 0; ds && list && (name = name_at(ds, i)); i++)
        list = append_text(list, name);
    return list;
}

static PyObject *dataset_fields(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return names_of(obj, stk_dataset_field);
}

static PyObject *dataset_where(PyObject *obj, PyObject *arg)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    stk_error err = { 0 };
    uint64_t *ids = NULL, n = 0;
    PyObject *out, *held = PyUnicode_AsUTF8String(arg);
    char *text = NULL;
    int rc;

    if (!held || PyBytes_AsStringAndSize(held, &text, NULL) < 0) { /* also a null character */
        Py_XDECREF(held);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    rc = stk_dataset_where(ds, text, &ids, &n, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(held);
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    out = PyBytes_FromStringAndSize((const char *)ids, (Py_ssize_t)(n * sizeof *ids));
    stk_dataset_where_free(&ids);
    return out;
}

/* -1: a side that differs by row. */
static PyObject *shape_of(const stk_field_type *t)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)t->ndim);

    for (uint32_t i = 0; shape && i < t->ndim; i++) {
        PyObject *side = PyLong_FromLongLong(t->shape[i]);

        if (!side || PyTuple_SetItem(shape, (Py_ssize_t)i, side) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *dataset_types(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    PyObject *list = PyList_New(0);
    stk_field_type t;

    (void)unused;
    for (uint32_t i = 0; ds && list && stk_dataset_field_type(ds, i, &t); i++) {
        PyObject *shape = shape_of(&t),
                 *item = shape ? Py_BuildValue("(ssN)", t.name,
                                               t.dtype  ? stk_dtype_name(t.dtype)
                                               : t.text ? "text"
                                                        : "",
                                               shape)
                               : NULL;

        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *dataset_shards(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    PyObject *list = PyList_New(0);

    (void)unused;
    for (uint64_t i = 0; ds && list && i < stk_dataset_shards(ds); i++)
        list = append_text(list, stk_dataset_shard_name(ds, i));
    return list;
}

static PyObject *dataset_classes(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return names_of(obj, stk_dataset_class);
}

static PyObject *dataset_index_path(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    const char *path = ds ? stk_dataset_index_path(ds) : "";

    (void)unused;
    return text_from(path, strlen(path));
}

/* print(): (bytes of the shards, hash of what is in them) */
static PyObject *dataset_print(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    stk_fingerprint p = { 0 };
    stk_error err = { 0 };
    int rc;

    (void)unused;
    rc = ds ? stk_dataset_print(ds, &p, &err) : 0;
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    return Py_BuildValue("(KK)", (unsigned long long)p.bytes, (unsigned long long)p.content);
}

/* The data set that number `id` falls into when all are counted through; *id becomes its own
 * number there. */
static stk_dataset *dataset_at(module_state *st, PyObject *tuple, uint64_t *id)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        PyObject *d = PyTuple_GetItem(tuple, i);
        stk_dataset *ds = PyObject_TypeCheck(d, st->dataset) ? ((dataset_object *)d)->ds : NULL;

        if (!ds)
            break;
        if (*id < stk_dataset_len(ds))
            return ds;
        *id -= stk_dataset_len(ds);
    }
    PyErr_SetString(PyExc_IndexError, "no data set has this sample");
    return NULL;
}

PyObject *dataset_keys(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    PyObject *tuple, *list;
    Py_ssize_t bytes, n;
    const char *ids;

    if (!PyArg_ParseTuple(args, "O!y#:keys", &PyTuple_Type, &tuple, &ids, &bytes))
        return NULL;
    n = bytes / (Py_ssize_t)sizeof(uint64_t);
    list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *text = NULL;
        const char *key;
        stk_dataset *ds;
        uint64_t id, own;
        size_t len;

        memcpy(&id, ids + i * (Py_ssize_t)sizeof id, sizeof id);
        own = id;
        ds = dataset_at(st, tuple, &own);
        key = ds && !stk_dataset_arrays(ds) ? stk_dataset_key(ds, own, &len) : NULL;
        if (key)
            text = text_from(key, len);
        else if (ds) /* rows of arrays and tables go by their numbers */
            text = PyUnicode_FromFormat("%llu", (unsigned long long)id);
        if (!text || PyList_SetItem(list, i, text) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- samples by their keys ---- */

typedef struct match {
    uint64_t key, sample;
} match;

typedef struct match_list {
    match *at;
    size_t n, cap;
    uint64_t first; /* id of the data set's first sample */
} match_list;

static int note_match(void *cookie, uint64_t key, uint64_t sample)
{
    match_list *l = cookie;

    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 1024;
        match *grown = realloc(l->at, cap * sizeof *grown);

        if (!grown)
            return 1;
        l->at = grown;
        l->cap = cap;
    }
    l->at[l->n++] = (match){ key, l->first + sample };
    return 0;
}

/* Keys as bytes in a list, which keeps them alive. */
static stk_key *keys_of(PyObject *list, Py_ssize_t n)
{
    stk_key *keys = PyMem_Calloc((size_t)n + 1, sizeof *keys);

    if (!keys)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t len;
        char *text;

        if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &text, &len) < 0) {
            PyMem_Free(keys);
            return NULL;
        }
        keys[i] = (stk_key){ text, (size_t)len };
    }
    return keys;
}

/* Rows of tables have no keys: a row's number in all data is its key, written as sample_keys has
 * it. */
static int find_numbers(const stk_dataset *ds, const stk_key *keys, uint64_t n, match_list *found)
{
    uint64_t rows = stk_dataset_len(ds);
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        const char *s = keys[i].text;
        uint64_t number = 0;
        size_t k = 0;

        while (k < keys[i].len && k < 19 && s[k] >= '0' && s[k] <= '9')
            number = 10 * number + (uint64_t)(s[k++] - '0');
        /* below it wraps */
        if (k && k == keys[i].len && (s[0] != '0' || k == 1) && number - found->first < rows)
            rc = note_match(found, i, number - found->first);
    }
    return rc;
}

PyObject *dataset_find_keys(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    PyObject *tuple, *list, *out = NULL;
    match_list found = { 0 };
    stk_error err = { 0 };
    stk_key *keys;
    int rc = 0;

    if (!PyArg_ParseTuple(args, "O!O!:find_keys", &PyTuple_Type, &tuple, &PyList_Type, &list) ||
        !(keys = keys_of(list, PyList_Size(list))))
        return NULL;
    for (Py_ssize_t i = 0; rc == 0 && i < PyTuple_Size(tuple); i++) {
        PyObject *d = PyTuple_GetItem(tuple, i);
        Py_ssize_t n = PyList_Size(list);
        stk_dataset *ds;

        if (!PyObject_TypeCheck(d, st->dataset) || !(ds = ((dataset_object *)d)->ds)) {
            PyErr_SetString(PyExc_TypeError, "data must be opened Datasets");
            goto done;
        }
        Py_BEGIN_ALLOW_THREADS
        rc = stk_dataset_find_keys(ds, keys, (uint64_t)n, note_match, &found, &err);
        if (rc == STK_ENOTSUP)
            rc = find_numbers(ds, keys, (uint64_t)n, &found);
        Py_END_ALLOW_THREADS
        found.first += stk_dataset_len(ds);
    }
    if (rc > 0)
        PyErr_NoMemory();
    else if (rc < 0)
        raise_error(st, rc, &err);
    else
        out = PyByteArray_FromStringAndSize((const char *)found.at,
                                            (Py_ssize_t)(found.n * sizeof *found.at));
done:
    PyMem_Free(keys);
    free(found.at);
    return out;
}

static PyMethodDef dataset_methods[] = {
    { "read", dataset_read, METH_O, "sample i: {\"__key__\", \"__url__\", field: bytes}" },
    { "fields", dataset_fields, METH_NOARGS, "names of the fields that occur" },
    { "types", dataset_types, METH_NOARGS,
      "of fields: (name, dtype, \"text\" or \"\": bytes, shape of a row)" },
    { "where", dataset_where, METH_O, "numbers of the samples that satisfy a condition, as u64" },
    { "shards", dataset_shards, METH_NOARGS, "names of the shards" },
    { "classes", dataset_classes, METH_NOARGS, "names of the classes, number 0 first" },
    { "columns", dataset_columns, METH_NOARGS, "typed columns that are available: (name, type)" },
    { "column", dataset_column, METH_VARARGS, "column(name, read): (type, values)" },
    { "arrow", dataset_arrow, METH_NOARGS, "the index as a capsule \"arrow_array_stream\"" },
    { "kind", dataset_kind, METH_NOARGS, "of arrays: tokens, npy, npz, raw, memory; else \"\"" },
    { "print", dataset_print, METH_NOARGS, "(bytes of the shards, hash of what is in them)" },
    { "index_path", dataset_index_path, METH_NOARGS, "where the index is; \"\" in memory only" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot dataset_slots[] = {
    { Py_tp_doc, (void *)"Shards plus their index." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_init, (void *)dataset_init },
    { Py_tp_dealloc, (void *)dataset_dealloc },
    { Py_tp_methods, dataset_methods },
    { Py_sq_length, (void *)dataset_len },
    { 0, NULL },
};

PyType_Spec dataset_spec = {
    .name = "stoker._stoker.Dataset",
    .basicsize = sizeof(dataset_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = dataset_slots,
};

/* index_build(urls, jpeg, store): as `stoker index`. */
PyObject *index_build(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    stk_index_options o = { .size = sizeof o, .log = log_line, .log_cookie = st->log };
    PyObject *urls, *store, *held;
    const char **list = NULL;
    stk_error err = { 0 };
    size_t n = 0;
    int jpeg, rc = -1;

    if (!PyArg_ParseTuple(args, "O!pO:index_build", &PyList_Type, &urls, &jpeg, &store))
        return NULL;
    o.jpeg = jpeg ? STK_YES : STK_UNSET;
    o.store = store_of(store);
    held = PyList_AsTuple(urls); /* keeps the strings while the GIL is away */
    list = held ? strings_of(urls, &n) : NULL;
    if (list) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_index_build(list, n, &o, NULL, &err);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free((void *)list);
    Py_XDECREF(held);
    return none_or_error(st, rc, &err);
}
