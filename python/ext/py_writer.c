/* SPDX-License-Identifier: Apache-2.0 */
/* py_writer.c - a shard writer, and packing a data set.  Values are bytes here; writer.py makes
 * them. */
#include "pystoker.h"

#include <string.h>

typedef struct writer_object {
    PyObject_HEAD stk_writer *w; /* NULL: closed */
    PyThread_type_lock lock;
    uint64_t count[3]; /* shards, samples and bytes when it was last looked at */
} writer_object;

static int writer_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "pattern", "samples", "bytes", "first", "mtime",
                             "force",   "empty",   "store", NULL };
    writer_object *self = (writer_object *)obj;
    stk_writer_options o = { .size = sizeof o };
    unsigned long long samples, bytes, first;
    long long mtime;
    stk_error err = { 0 };
    const char *pattern;
    PyObject *store;
    int force, empty, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "yKKKLppO:Writer", names, &pattern, &samples,
                                     &bytes, &first, &mtime, &force, &empty, &store))
        return -1;
    if (self->lock) {
        PyErr_SetString(PyExc_TypeError, "a Writer is opened once");
        return -1;
    }
    o.samples = samples;
    o.bytes = bytes;
    o.first = first;
    o.mtime = mtime;
    o.force = force ? STK_YES : STK_UNSET;
    o.empty = empty ? STK_YES : STK_UNSET;
    o.store = store_of(store);
    self->lock = PyThread_allocate_lock();
    if (!self->lock) {
        PyErr_NoMemory();
        return -1;
    }
    rc = stk_writer_open(&self->w, pattern, &o, &err);
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

/* Fields as (name, bytes) pairs in a tuple, which keeps them alive. */
static stk_part *parts_of(PyObject *pairs, Py_ssize_t n)
{
    stk_part *out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value;
        char *data;
        Py_ssize_t len;

        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "yS", &out[i].name, &value) ||
            PyBytes_AsStringAndSize(value, &data, &len) < 0) {
            PyMem_Free(out);
            return NULL;
        }
        out[i].data = data;
        out[i].len = (size_t)len;
    }
    return out;
}

/* (key, ((field, bytes), ...)) */
static int sample_of(PyObject *pair, stk_new_sample *out)
{
    PyObject *pairs;
    Py_ssize_t key_len, n;

    if (!PyArg_ParseTuple(pair, "y#O!", &out->key, &key_len, &PyTuple_Type, &pairs))
        return -1;
    n = PyTuple_Size(pairs);
    out->key_len = (size_t)key_len;
    out->n = (uint32_t)n;
    out->parts = parts_of(pairs, n);
    return out->parts ? 0 : -1;
}

static PyObject *add_samples(PyObject *obj, const stk_new_sample *samples, size_t n)
{
    writer_object *self = (writer_object *)obj;
    stk_error err = { 0 };
    int rc;

    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w)
        rc = stk_writer_add_all(self->w, samples, n, &err);
    else
        rc = stk_fail(&err, STK_ECLOSED, "this writer is closed");
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

/* add((key, fields), ...): all or none. */
static PyObject *writer_add(PyObject *obj, PyObject *args)
{
    Py_ssize_t n = PyTuple_Size(args);
    stk_new_sample *samples = PyMem_Calloc((size_t)n + 1, sizeof *samples);
    PyObject *out = NULL;
    Py_ssize_t i = 0;

    if (!samples)
        return PyErr_NoMemory();
    while (i < n && sample_of(PyTuple_GetItem(args, i), &samples[i]) == 0)
        i++;
    if (i == n)
        out = add_samples(obj, samples, (size_t)n);
    for (i = 0; i < n; i++)
        PyMem_Free((void *)(uintptr_t)samples[i].parts);
    PyMem_Free(samples);
    return out;
}

static PyObject *writer_counts(PyObject *obj, PyObject *unused)
{
    writer_object *self = (writer_object *)obj;
    uint64_t n[3];

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w)
        stk_writer_counts(self->w, &self->count[0], &self->count[1], &self->count[2]);
    memcpy(n, self->count, sizeof n);
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(KKK)", (unsigned long long)n[0], (unsigned long long)n[1],
                         (unsigned long long)n[2]);
}

/* finish(): the size of the shard in flight, which is whole and has no name yet. */
static PyObject *writer_finish(PyObject *obj, PyObject *unused)
{
    writer_object *self = (writer_object *)obj;
    stk_error err = { 0 };
    uint64_t size = 0;
    int rc;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    rc = self->w ? stk_writer_finish(self->w, &size, &err)
                 : stk_fail(&err, STK_ECLOSED, "this writer is closed");
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    return PyLong_FromUnsignedLongLong(size);
}

/* close(commit): finish the shard in flight, or drop it.  Again: nothing. */
static PyObject *writer_close(PyObject *obj, PyObject *args)
{
    writer_object *self = (writer_object *)obj;
    stk_error err = { 0 };
    int commit, rc = 0;

    if (!PyArg_ParseTuple(args, "p:close", &commit))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    if (self->w && commit)
        rc = stk_writer_commit(self->w, &err);
    if (self->w)
        stk_writer_counts(self->w, &self->count[0], &self->count[1], &self->count[2]);
    stk_writer_close(&self->w);
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

static void writer_dealloc(PyObject *obj)
{
    writer_object *self = (writer_object *)obj;

    Py_BEGIN_ALLOW_THREADS
    stk_writer_close(&self->w);
    Py_END_ALLOW_THREADS
    if (self->lock)
        PyThread_free_lock(self->lock);
    free_object(obj);
}

static PyMethodDef writer_methods[] = {
    { "add", writer_add, METH_VARARGS,
      "add((key, ((field, bytes), ...)), ...): all of these samples, or none" },
    { "counts", writer_counts, METH_NOARGS, "(shards finished, samples, bytes)" },
    { "finish", writer_finish, METH_NOARGS,
      "the size of the shard in flight, whole and without its name" },
    { "close", writer_close, METH_VARARGS, "close(commit)" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot writer_slots[] = {
    { Py_tp_doc, (void *)"Samples into tar shards." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_init, (void *)writer_init },
    { Py_tp_dealloc, (void *)writer_dealloc },
    { Py_tp_methods, writer_methods },
    { 0, NULL },
};

PyType_Spec writer_spec = {
    .name = "stoker._stoker.Writer",
    .basicsize = sizeof(writer_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = writer_slots,
};

/* ---- pack ---- */

/* (name, chain) pairs of bytes, borrowed from `list`. */
static stk_output *pack_fields(PyObject *list, uint32_t *n)
{
    Py_ssize_t len = PyTuple_Size(list);
    stk_output *out = len < 0 ? NULL : PyMem_Calloc((size_t)len + 1, sizeof *out);

    if (!out && len >= 0)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; out && i < len; i++)
        if (!PyArg_ParseTuple(PyTuple_GetItem(list, i), "yy", &out[i].name, &out[i].chain)) {
            PyMem_Free(out);
            return NULL;
        }
    *n = (uint32_t)(len < 0 ? 0 : len);
    return out;
}

typedef struct pack_call {
    PyObject *ds, *fields, *ops; /* ops: what has o.registry */
    PyObject *store;
    const char *dst;
    Py_buffer select;
    stk_pack_options o;
} pack_call;

static stk_tri tri(int yes)
{
    return yes ? STK_YES : STK_UNSET;
}

static int pack_take(module_state *st, PyObject *args, PyObject *kwargs, pack_call *c)
{
    static char *names[] = { "dataset",  "dst",       "samples",     "bytes", "shuffle",  "seed",
                             "name",     "force",     "index",       "jpeg",  "num_proc", "fields",
                             "select",   "exclude",   "fraction",    "keep",  "part",     "parts",
                             "merge",    "plan_only", "only_failed", "where", "dedup",    "balance",
                             "compress", "arrays",    "store",       NULL };
    unsigned long long samples, bytes, seed, part, parts;
    int shuffle, force, index, jpeg, merge, plan_only, only_failed, arrays;

    *c = (pack_call){ .o = { .size = sizeof c->o, .log = log_line, .log_cookie = st->log } };
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!yKKpKypppIO!z*zd(dd)KKpppzzzzpO:pack", names, st->dataset, &c->ds,
            &c->dst, &samples, &bytes, &shuffle, &seed, &c->o.name, &force, &index, &jpeg,
            &c->o.num_workers, &PyTuple_Type, &c->fields, &c->select, &c->o.exclude, &c->o.fraction,
            &c->o.keep_from, &c->o.keep_to, &part, &parts, &merge, &plan_only, &only_failed,
            &c->o.where, &c->o.dedup, &c->o.balance, &c->o.compress, &arrays, &c->store))
        return -1;
    Py_XINCREF(st->own_ops);
    c->ops = st->own_ops;
    c->o.registry = registry_now(st);
    c->o.samples = samples;
    c->o.bytes = bytes;
    c->o.seed = seed;
    c->o.part = part;
    c->o.parts = parts;
    c->o.shuffle = tri(shuffle);
    c->o.force = tri(force);
    c->o.no_index = tri(!index);
    c->o.jpeg = tri(jpeg);
    c->o.merge = tri(merge);
    c->o.plan_only = tri(plan_only);
    c->o.only_failed = tri(only_failed);
    c->o.arrays = tri(arrays);
    c->o.store = store_of(c->store);
    c->o.select = c->select.buf;
    c->o.n_select = c->select.buf ? (uint64_t)c->select.len / sizeof *c->o.select : 0;
    c->o.fields = pack_fields(c->fields, &c->o.n_fields);
    if (c->o.fields && !((dataset_object *)c->ds)->ds)
        PyErr_SetString(PyExc_TypeError, "the Dataset was not opened");
    return PyErr_Occurred() ? -1 : 0;
}

static void pack_call_end(pack_call *c)
{
    if (c->select.buf)
        PyBuffer_Release(&c->select);
    PyMem_Free((void *)(uintptr_t)c->o.fields);
    Py_XDECREF(c->ops);
}

static PyObject *pack_dropped(const stk_pack_dropped *d)
{
    return Py_BuildValue("{sKsKsKsKsKsKsK}", "exclude", (unsigned long long)d->exclude, "where",
                         (unsigned long long)d->where, "fraction", (unsigned long long)d->fraction,
                         "split", (unsigned long long)d->split, "duplicates",
                         (unsigned long long)d->duplicates, "near_duplicates",
                         (unsigned long long)d->near_duplicates, "balance",
                         (unsigned long long)d->balance);
}

static PyObject *pack_done(const stk_pack_report *r)
{
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsNsN}", "shards", (unsigned long long)r->shards, "samples",
        (unsigned long long)r->samples, "bytes", (unsigned long long)r->bytes, "kept_shards",
        (unsigned long long)r->kept_shards, "changed_keys", (unsigned long long)r->changed_keys,
        "failed", (unsigned long long)r->failed, "left_out", (unsigned long long)r->left_out,
        "fingerprint", (unsigned long long)r->fingerprint, "dropped", pack_dropped(&r->dropped),
        "pattern", text_from(r->pattern, strlen(r->pattern)));
}

PyObject *pack_dataset(PyObject *module, PyObject *args, PyObject *kwargs)
{
    module_state *st = PyModule_GetState(module);
    stk_pack_report r = { .size = sizeof r };
    stk_error err = { 0 };
    pack_call c;
    int rc = pack_take(st, args, kwargs, &c);

    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_pack(((dataset_object *)c.ds)->ds, c.dst, &c.o, &r, &err);
        Py_END_ALLOW_THREADS
    }
    pack_call_end(&c);
    if (PyErr_Occurred())
        return NULL;
    return rc < 0 ? raise_error(st, rc, &err) : pack_done(&r);
}

/* (ids, counts): the samples that take part, in the order in which they are written, 64-bit numbers
 * as bytes. */
PyObject *pack_ids(PyObject *module, PyObject *args, PyObject *kwargs)
{
    module_state *st = PyModule_GetState(module);
    stk_pack_report r = { .size = sizeof r };
    uint64_t *ids = NULL;
    stk_error err = { 0 };
    PyObject *out = NULL;
    pack_call c;
    int rc = pack_take(st, args, kwargs, &c);

    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = stk_pack_ids(((dataset_object *)c.ds)->ds, c.dst, &c.o, &ids, &r, &err);
        Py_END_ALLOW_THREADS
    }
    pack_call_end(&c);
    if (!PyErr_Occurred())
        out = rc < 0 ? raise_error(st, rc, &err)
                     : Py_BuildValue("y#N", (const char *)ids,
                                     (Py_ssize_t)(r.samples * sizeof *ids), pack_done(&r));
    stk_free(ids);
    return out;
}
