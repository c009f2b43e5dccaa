/* SPDX-License-Identifier: Apache-2.0 */
/* py_loader.c - a loader: open, seek, close.  Its batches: py_next.c; its figures:
 * py_figures.c; its lock: py_loader.h. */
#include <string.h>
#include <unistd.h>

#include "py_call.h"
#include "py_loader.h"

/* ---- open and close ---- */

typedef struct output_list {
    stk_output *output;
    stk_collation *collation;
} output_list;

static void outputs_free(output_list *o)
{
    PyMem_Free(o->output);
    PyMem_Free(o->collation);
}

/* Outputs as tuples (name, chain, collate, pad, multiple) in a tuple, which keeps the text
 * alive. */
static int outputs_of(PyObject *tuples, Py_ssize_t n, output_list *o)
{
    o->output = PyMem_Calloc((size_t)n + 1, sizeof *o->output);
    o->collation = PyMem_Calloc((size_t)n + 1, sizeof *o->collation);
    if (!o->output || !o->collation) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        stk_output *out = &o->output[i];
        int how;

        if (!PyArg_ParseTuple(PyTuple_GetItem(tuples, i), "ssidI", &out->name, &out->chain, &how,
                              &o->collation[i].pad, &o->collation[i].multiple))
            return -1;
        o->collation[i].collate = (stk_collate)how;
    }
    return 0;
}

static stk_dataset **datasets_of(PyObject *obj, PyObject *tuple, Py_ssize_t n)
{
    stk_dataset **out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *d = PyTuple_GetItem(tuple, i);

        if (!PyObject_TypeCheck(d, state_of(obj)->dataset) || !((dataset_object *)d)->ds) {
            PyErr_SetString(PyExc_TypeError, "data must be opened Datasets");
            PyMem_Free(out);
            return NULL;
        }
        out[i] = ((dataset_object *)d)->ds;
    }
    return out;
}

static int open_loader(loader_object *self, PyObject *data, PyObject *pairs, stk_loader_options *o)
{
    Py_ssize_t n_data = PyTuple_Size(data), n_out = PyTuple_Size(pairs);
    stk_dataset **datasets = datasets_of((PyObject *)self, data, n_data);
    output_list out = { 0 };
    stk_error err = { 0 };
    stk_loader *l = NULL;
    int rc = -1;

    if (datasets && outputs_of(pairs, n_out, &out) == 0) {
        o->size = sizeof *o;
        o->registry = registry_now(state_of((PyObject *)self));
        o->outputs = out.output;
        o->collations = out.collation;
        o->n_outputs = (uint32_t)n_out;
        o->log = log_line;
        o->log_cookie = state_of((PyObject *)self)->log;
        Py_INCREF(data);
        self->data = data;
        Py_BEGIN_ALLOW_THREADS
        rc = stk_loader_open(&l, datasets, (size_t)n_data, o, &err);
        Py_END_ALLOW_THREADS
        if (rc < 0)
            raise_error(state_of((PyObject *)self), rc, &err);
        self->l = l;
    }
    PyMem_Free(datasets);
    outputs_free(&out);
    return rc < 0 ? -1 : 0;
}

int options_parse(PyObject *obj, PyObject *words, stk_loader_options *o)
{
    PyObject *name, *text;
    stk_error err = { 0 };
    Py_ssize_t at = 0;

    while (PyDict_Next(words, &at, &name, &text)) {
        const char *key = PyUnicode_AsUTF8AndSize(name, NULL);
        const char *value = key ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
        int rc;

        if (!value)
            return -1;
        rc = stk_option_set(o, key, value, &err);
        if (rc < 0) {
            raise_error(state_of(obj), rc, &err);
            return -1;
        }
    }
    return 0;
}

/* Everything is closed again by dealloc. */
static int loader_prepare(loader_object *self, int watch)
{
    if (self->lock) {
        PyErr_SetString(PyExc_TypeError, "a Loader is opened once");
        return -1;
    }
    self->pid = getpid();
    self->figures = PyThread_allocate_lock();
    self->lock = self->figures ? PyThread_allocate_lock() : NULL;
    if (watch)
        self->drawn = PyMem_Calloc(1, sizeof *self->drawn);
    if (self->lock && (self->drawn || !watch))
        return 0;
    PyErr_NoMemory();
    return -1;
}

static int loader_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "data",     "outputs", "options", "exclude", "watch",
                             "sampling", "ahead",   "calls",   NULL };
    PyObject *data, *outputs, *words, *exclude = Py_None, *taken = Py_None, *calls = Py_None;
    loader_object *self = (loader_object *)obj;
    stk_loader_options o = { 0 };
    sampling arrays = { 0 };
    int rc = -1, watch = 0, ahead = 0;
    stk_draw_observer told;
    const stk_stage *stages[1];
    stk_stage stage;
    stk_caller caller;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!|OpOpO:Loader", names, &PyTuple_Type,
                                     &data, &PyTuple_Type, &outputs, &PyDict_Type, &words, &exclude,
                                     &watch, &taken, &ahead, &calls) ||
        loader_prepare(self, watch) < 0 || options_parse(obj, words, &o) < 0)
        return -1;
    if (exclude != Py_None && !(o.exclude = PyBytes_AsString(exclude)))
        return -1;
    told = drawn_noting;
    told.cookie = self->drawn;
    if (watch) {
        o.watch = &told;
        o.num_workers = STK_NONE; /* the list is the caller's */
    }
    if (ahead) {
        self->ahead = stage_queue_open();
        if (!self->ahead) {
            PyErr_NoMemory();
            return -1;
        }
        stage = stage_of(self->ahead);
        stages[0] = &stage;
        o.stages = stages;
        o.n_stages = 1;
    }
    if (calls != Py_None) {
        if (!PyObject_TypeCheck(calls, state_of(obj)->calls)) {
            PyErr_SetString(PyExc_TypeError, "calls must be Calls");
            return -1;
        }
        Py_INCREF(calls);
        self->calls = calls;
        caller = caller_of(calls);
        o.caller = &caller;
    }
    if (sampling_parse(taken, &arrays, &o) == 0)
        rc = open_loader(self, data, outputs, &o);
    sampling_free(&arrays);
    return rc;
}

static PyObject *loader_close(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    stk_loader *l;

    (void)unused;
    if (!self->lock || self->pid != getpid())
        Py_RETURN_NONE; /* never opened, or the parent's */
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    PyThread_acquire_lock(self->figures, WAIT_LOCK);
    l = self->l;
    self->l = NULL;
    PyThread_release_lock(self->figures);
    stage_queue_shut(self->ahead);
    stk_loader_close(&l);
    PyThread_release_lock(self->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void loader_dealloc(PyObject *obj)
{
    loader_object *self = (loader_object *)obj;
    int ours = self->pid == getpid();

    if (ours)
        stage_queue_shut(self->ahead);
    Py_BEGIN_ALLOW_THREADS
    stk_loader_close(&self->l); /* after fork it frees nothing and joins no one */
    Py_END_ALLOW_THREADS
    if (self->lock && ours)
        PyThread_free_lock(self->lock);
    if (ours)
        stage_queue_close(&self->ahead);
    if (self->figures && ours)
        PyThread_free_lock(self->figures);
    Py_XDECREF(self->data);
    Py_XDECREF(self->calls);
    PyMem_Free(self->drawn);
    free_object(obj);
}

/* ---- where it stands ---- */

static PyObject *loader_resume(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long epoch, position;
    stk_error err = { 0 };
    int rc;

    if (!PyArg_ParseTuple(args, "KK:resume", &epoch, &position) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_resume(self->l, epoch, position, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

/* ledger(folder or None, generation, epoch, position) */
static PyObject *loader_ledger(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long generation, epoch, position;
    stk_error err = { 0 };
    PyObject *path;
    char *folder = NULL;
    int rc;

    if (!PyArg_ParseTuple(args, "OKKK:ledger", &path, &generation, &epoch, &position) ||
        (path != Py_None && PyBytes_AsStringAndSize(path, &folder, NULL) < 0) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_ledger(self->l, folder, generation, epoch, position, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

static PyObject *loader_copies_on(PyObject *obj, PyObject *arg)
{
    loader_object *self = (loader_object *)obj;
    void *stream = PyLong_AsVoidPtr(arg);

    if (PyErr_Occurred() || enter(self) < 0)
        return NULL;
    stk_loader_copies_on(self->l, stream);
    leave(self);
    Py_RETURN_NONE;
}

static PyObject *loader_where(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    uint64_t epoch, step, position;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    stk_loader_where(self->l, &epoch, &step);
    position = stk_loader_position(self->l);
    leave(self);
    return Py_BuildValue("(KK)", (unsigned long long)epoch, (unsigned long long)position);
}

static PyObject *loader_sizes(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    uint64_t steps, samples;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    steps = stk_loader_steps(self->l);
    samples = stk_loader_samples(self->l);
    leave(self);
    return Py_BuildValue("(KK)", (unsigned long long)steps, (unsigned long long)samples);
}

/* Samples of each data set, in the order in which ids are counted through them. */
static PyObject *loader_counts(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    Py_ssize_t n = self->data ? PyTuple_Size(self->data) : 0;
    PyObject *list;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *v = PyLong_FromUnsignedLongLong(stk_loader_samples_of(self->l, (uint32_t)i));

        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    leave(self);
    return list;
}

static PyObject *loader_streams(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    uint64_t streams, window;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    stk_loader_streams(self->l, &streams, &window);
    leave(self);
    return Py_BuildValue("(KK)", (unsigned long long)streams, (unsigned long long)window);
}

static PyObject *loader_set_streams(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long streams, window;
    stk_error err = { 0 };
    int rc;

    if (!PyArg_ParseTuple(args, "KK:set_streams", &streams, &window) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_set_streams(self->l, streams, window, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

static PyObject *loader_bins(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    uint64_t window, together, print;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    stk_loader_bins(self->l, &window, &together, &print);
    leave(self);
    return Py_BuildValue("(KKK)", (unsigned long long)window, (unsigned long long)together,
                         (unsigned long long)print);
}

static PyObject *loader_groups(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    int groups;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    groups = stk_loader_groups(self->l);
    leave(self);
    return PyBool_FromLong(groups);
}

static PyObject *loader_set_bins(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long window, together;
    stk_error err = { 0 };
    int rc;

    if (!PyArg_ParseTuple(args, "KK:set_bins", &window, &together) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_set_bins(self->l, window, together, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

static PyObject *loader_epoch_sizes(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long epoch;
    uint64_t n, steps;

    if (!PyArg_ParseTuple(args, "K:epoch_sizes", &epoch) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    n = stk_loader_positions(self->l, epoch);
    steps = stk_loader_steps_of(self->l, epoch);
    leave(self);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(KK)", (unsigned long long)steps, (unsigned long long)n);
}

/* (samples, shards, bytes, names, content, taken) of all data together. */
static PyObject *loader_print(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    stk_fingerprint p;
    int rc;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_print(self->l, &p, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    return Py_BuildValue("(KKKKKK)", (unsigned long long)p.samples, (unsigned long long)p.shards,
                         (unsigned long long)p.bytes, (unsigned long long)p.names,
                         (unsigned long long)p.content, (unsigned long long)p.taken);
}

static PyObject *loader_drawn_print(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    uint64_t print;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    print = stk_loader_drawn_print(self->l);
    leave(self);
    return PyLong_FromUnsignedLongLong(print);
}

static PyObject *chain_print(PyObject *obj, PyObject *arg,
                             uint64_t (*of)(const stk_loader *l, uint32_t output))
{
    unsigned long output = PyLong_AsUnsignedLong(arg);
    loader_object *self = (loader_object *)obj;
    uint64_t print;

    if (PyErr_Occurred() || enter(self) < 0)
        return NULL;
    print = of(self->l, (uint32_t)output);
    leave(self);
    return PyLong_FromUnsignedLongLong(print);
}

static PyObject *loader_chain_print(PyObject *obj, PyObject *arg)
{
    return chain_print(obj, arg, stk_loader_chain_print);
}

static PyObject *loader_chain_old_print(PyObject *obj, PyObject *arg)
{
    return chain_print(obj, arg, stk_loader_chain_old_print);
}

static PyObject *loader_set_workers(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    unsigned n;
    int rc;

    if (!PyArg_ParseTuple(args, "I:set_workers", &n) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_set_workers(self->l, n, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    return none_or_error(state_of(obj), rc, &err);
}

/* ---- mixtures ---- */

static PyObject *loader_mix(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    PyObject *list;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    list = mix_tuples(self->l);
    leave(self);
    return list;
}

static PyObject *loader_set_mix(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    PyObject *tuples;
    mix_list m;
    int rc = -1, parsed = 0;

    if (!PyArg_ParseTuple(args, "O!:set_mix", &PyTuple_Type, &tuples))
        return NULL;
    if (mix_parse(tuples, &m) == 0 && enter(self) == 0) {
        parsed = 1;
        Py_BEGIN_ALLOW_THREADS
        rc = stk_loader_set_mix(self->l, m.change, m.n, &err);
        leave(self);
        Py_END_ALLOW_THREADS
    }
    mix_free(&m);
    if (rc < 0)
        return parsed ? raise_error(state_of(obj), rc, &err) : NULL;
    Py_RETURN_NONE;
}

static PyObject *loader_set_weights(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long epoch, position;
    stk_error err = { 0 };
    PyObject *tuple;
    double *weights;
    size_t n;
    int rc;

    if (!PyArg_ParseTuple(args, "O!KK:set_weights", &PyTuple_Type, &tuple, &epoch, &position) ||
        !(weights = floats_of(tuple)))
        return NULL;
    if (enter(self) < 0) {
        PyMem_Free(weights);
        return NULL;
    }
    n = (size_t)PyTuple_Size(tuple);
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_set_weights(self->l, weights, n, epoch, position, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    PyMem_Free(weights);
    return none_or_error(state_of(obj), rc, &err);
}

static PyMethodDef loader_methods[] = {
    { "next", loader_next, METH_O, "the parts of the epoch's next batch, or None at its end" },
    { "peek", loader_peek, METH_O,
      "(parts, token) of the epoch's next batch, which is not taken yet; None at its end" },
    { "give", loader_give, METH_VARARGS,
      "(token): take the batch that was peeked at; False: another thread has it" },
    { "again", loader_again, METH_NOARGS, "make the batch that comes next once more" },
    { "resume", loader_resume, METH_VARARGS, "go on at (epoch, position)" },
    { "copies_on", loader_copies_on, METH_O, "pinned batches are copied on this CUDA stream" },
    { "where", loader_where, METH_NOARGS, "(epoch, position): what the consumer received" },
    { "ledger", loader_ledger, METH_VARARGS,
      "(folder or None, generation, epoch, position): write down what is handed out" },
    { "sizes", loader_sizes, METH_NOARGS, "(steps, samples) of an epoch" },
    { "counts", loader_counts, METH_NOARGS, "samples of each data set" },
    { "streams", loader_streams, METH_NOARGS, "(streams, window) of block shuffle, else zeros" },
    { "set_streams", loader_set_streams, METH_VARARGS, "take other (streams, window)" },
    { "bins", loader_bins, METH_NOARGS,
      "(window, together, fingerprint of the lengths) of max_tokens and bucket, else zeros" },
    { "groups", loader_groups, METH_NOARGS, "True: batches of all ranks are made together" },
    { "set_bins", loader_set_bins, METH_VARARGS, "take other (window, together)" },
    { "epoch_sizes", loader_epoch_sizes, METH_VARARGS,
      "(epoch): its steps, and what its positions are counted to" },
    { "mix", loader_mix, METH_NOARGS, "weights of a mixture: (from, parts, base) of all changes" },
    { "set_mix", loader_set_mix, METH_VARARGS, "take these changes" },
    { "set_weights", loader_set_weights, METH_VARARGS,
      "(weights, epoch, position): mix by them from there on" },
    { "set_workers", loader_set_workers, METH_VARARGS, "park or add workers" },
    { "print", loader_print, METH_NOARGS,
      "(samples, shards, bytes, names, content, taken): the fingerprint of the data" },
    { "drawn_print", loader_drawn_print, METH_NOARGS, "the fingerprint of weights or classes" },
    { "chain_print", loader_chain_print, METH_O, "the fingerprint of an output's chain" },
    { "chain_old_print", loader_chain_old_print, METH_O, "the same, up to version 0.1" },
    { "find", loader_find, METH_VARARGS, "(epoch, id): its position there" },
    { "drawn", loader_drawn, METH_NOARGS,
      "(output, step, op, clip, resized, window, mirrored) of what was watched since the last "
      "call" },
    { "stats", loader_stats, METH_NOARGS, "figures since open" },
    { "metrics", loader_metrics, METH_NOARGS, "they as OpenMetrics text" },
    { "trace", loader_trace, METH_VARARGS, "trace(spans): note what threads do; 0: no more" },
    { "trace_text", loader_trace_text, METH_NOARGS, "the trace as JSON, in pieces" },
    { "sight", loader_sight, METH_NOARGS, "figures and what the system knows, for diagnose()" },
    { "set_ahead", loader_set_ahead, METH_VARARGS, "so many batches may be open" },
    { "doing", loader_doing, METH_VARARGS,
      "(stage, ticket, seconds) of what the i-th worker does now, or None" },
    { "by_workers", loader_by_workers, METH_VARARGS,
      "why workers make the i-th output; None: a GPU does, where it can decode the field" },
    { "in_parts", loader_in_parts, METH_VARARGS,
      "rows so far of which only parts of the i-th output's field were read" },
    { "reads_whole", loader_reads_whole, METH_VARARGS,
      "why the field of the i-th output is read whole; None: only what is seen, where it has "
      "points" },
    { "waiting", loader_waiting, METH_NOARGS, "what next() waits for, as a dict, or None" },
    { "skipped", loader_skipped, METH_VARARGS,
      "(shard, offset or -1, key, reason) of the i-th skipped sample, or None" },
    { "ahead", loader_ahead, METH_NOARGS,
      "(parts, serial, epoch, step) of the next batch for batch_ops; None: no more come" },
    { "ahead_done", loader_ahead_done, METH_VARARGS, "(None, or what went wrong): it is made" },
    { "close", loader_close, METH_NOARGS, "stop and free; again: nothing" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot loader_slots[] = {
    { Py_tp_doc, (void *)"Epochs over one or more data sets." },
    { Py_tp_new, (void *)PyType_GenericNew },
    { Py_tp_init, (void *)loader_init },
    { Py_tp_dealloc, (void *)loader_dealloc },
    { Py_tp_methods, loader_methods },
    { 0, NULL },
};

PyType_Spec loader_spec = {
    .name = "stoker._stoker.Loader",
    .basicsize = sizeof(loader_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loader_slots,
};
