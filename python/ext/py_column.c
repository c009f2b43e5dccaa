/* SPDX-License-Identifier: Apache-2.0 */
/* py_column.c - typed columns of a data set, as bytes that NumPy looks into or as a list of texts;
 * the index as an Arrow stream.
 *
 * The values are written while the GIL is away, into memory that no one else knows yet. */
#include "pystoker.h"

#include <stoker/arrow.h>
#include <string.h>

#define RUN 4096u    /* texts at a time */
#define KNOWN 65536u /* places for texts that were turned into str already */

PyObject *dataset_columns(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    PyObject *list = PyList_New(0);
    stk_column_type type;
    const char *name;

    (void)unused;
    for (uint32_t i = 0; ds && list && (name = stk_dataset_column(ds, i, &type)); i++) {
        PyObject *text = text_from(name, strlen(name));
        PyObject *pair = text ? Py_BuildValue("Ni", text, (int)type) : NULL;

        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* ---- texts ---- */

/* A text is known by its address and its length: an empty one shares the next one's address. */
typedef struct known {
    const char *text;
    size_t len;
    PyObject *str;
} known;

static PyObject *text_known(known *k, const char *text, size_t len)
{
    known *at = &k[((uintptr_t)text * 0x9E3779B97F4A7C15u) >> 48 & (KNOWN - 1)];

    if (!text)
        return Py_NewRef(Py_None);
    if (at->text != text || at->len != len || !at->str) {
        PyObject *str = text_from(text, len);

        if (!str)
            return NULL;
        Py_XDECREF(at->str);
        *at = (known){ text, len, str };
    }
    return Py_NewRef(at->str);
}

static int put_run(PyObject *list, uint64_t first, uint64_t n, const stk_column *c, known *seen)
{
    const char *text[RUN];
    size_t len[RUN];

    if (stk_column_text(c, first, n, text, len, NULL) < 0)
        return -1;
    for (uint64_t i = 0; i < n; i++) {
        PyObject *str = text_known(seen, text[i], len[i]);

        if (!str || PyList_SetItem(list, (Py_ssize_t)(first + i), str) < 0)
            return -1;
    }
    return 0;
}

static PyObject *texts_of(const stk_column *c, uint64_t rows)
{
    known *seen = PyMem_Calloc(KNOWN, sizeof *seen);
    PyObject *list = seen ? PyList_New((Py_ssize_t)rows) : PyErr_NoMemory();

    for (uint64_t i = 0; list && i < rows; i += RUN)
        if (put_run(list, i, rows - i < RUN ? rows - i : RUN, c, seen) < 0)
            Py_CLEAR(list);
    for (size_t i = 0; seen && i < KNOWN; i++)
        Py_XDECREF(seen[i].str);
    PyMem_Free(seen);
    return list;
}

/* ---- numbers ---- */

static PyObject *numbers_of(const stk_column *c, uint64_t rows, int whole)
{
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(rows * 8));
    void *to = bytes ? PyByteArray_AsString(bytes) : NULL;
    int rc = 0;

    if (!bytes)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = whole ? stk_column_i64(c, 0, rows, to, NULL) : stk_column_f64(c, 0, rows, to, NULL);
    Py_END_ALLOW_THREADS
    if (rc < 0) {
        Py_CLEAR(bytes);
        PyErr_SetString(PyExc_RuntimeError, "the column changed its type");
    }
    return bytes;
}

typedef struct waiting {
    PyThreadState *thread; /* of the caller, while the GIL is away */
} waiting;

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    waiting *w = cookie;
    int stop;

    (void)done, (void)total;
    PyEval_RestoreThread(w->thread);
    stop = PyErr_CheckSignals() < 0;
    w->thread = PyEval_SaveThread();
    return stop;
}

PyObject *dataset_column(PyObject *obj, PyObject *args)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    waiting w;
    stk_column_options o = { .size = sizeof o, .progress = on_progress, .progress_cookie = &w };
    stk_column *c = NULL;
    PyObject *out = NULL;
    stk_error err = { 0 };
    const char *name;
    stk_column_type type;
    int read, rc;

    if (!PyArg_ParseTuple(args, "yp:column", &name, &read))
        return NULL;
    if (!ds) {
        PyErr_SetString(PyExc_ValueError, "the data set is not open");
        return NULL;
    }
    o.read = read ? STK_YES : STK_NO;
    w.thread = PyEval_SaveThread();
    rc = stk_column_open(&c, ds, name, &o, &err);
    PyEval_RestoreThread(w.thread);
    if (rc < 0)
        return PyErr_Occurred() ? NULL : raise_error(state_of(obj), rc, &err);
    type = stk_column_kind(c);
    if (type == STK_COLUMN_I64 && stk_column_nulls(c))
        type = STK_COLUMN_F64; /* NaN says null */
    if (type == STK_COLUMN_TEXT)
        out = texts_of(c, stk_dataset_len(ds));
    else
        out = numbers_of(c, stk_dataset_len(ds), type == STK_COLUMN_I64);
    stk_column_close(&c);
    return out ? Py_BuildValue("iN", (int)type, out) : NULL;
}

/* ---- the index as an Arrow stream ---- */

static void stream_end(PyObject *capsule)
{
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, "arrow_array_stream");

    if (s && s->release) /* else its consumer has taken it */
        s->release(s);
    PyMem_Free(s);
}

PyObject *dataset_arrow(PyObject *obj, PyObject *unused)
{
    stk_dataset *ds = ((dataset_object *)obj)->ds;
    struct ArrowArrayStream *s = PyMem_Calloc(1, sizeof *s);
    stk_error err = { 0 };
    PyObject *capsule;
    int rc = STK_EINVAL;

    (void)unused;
    if (!s)
        return PyErr_NoMemory();
    if (ds) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_dataset_arrow(ds, s, &err);
        Py_END_ALLOW_THREADS
    }
    if (rc < 0) {
        PyMem_Free(s);
        return raise_error(state_of(obj), rc, &err);
    }
    capsule = PyCapsule_New(s, "arrow_array_stream", stream_end);
    if (!capsule) {
        s->release(s);
        PyMem_Free(s);
    }
    return capsule;
}
