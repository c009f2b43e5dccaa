/* SPDX-License-Identifier: Apache-2.0 */
/* _stoker.c - the extension module: errors, the registry's listing, and the types of the other
 * files.
 *
 * Built against the stable ABI of Python 3.11.  No Python object is kept in a C global: types
 * and the error factory are in the module's state, so that subinterpreters have their own. */
#include "pystoker.h"

#include <stoker/store.h>
#include <string.h>

#include <stoker/own_op.h>
#include <stoker/tools.h>

PyObject *text_from(const char *s, size_t len)
{
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)len, "surrogateescape");
}

module_state *state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

static PyObject *or_none(PyObject *value, int there)
{
    if (there)
        return value;
    Py_XDECREF(value);
    Py_RETURN_NONE;
}

PyObject *raise_error(module_state *st, int rc, const stk_error *err)
{
    stk_error blank = { .code = rc, .offset = STK_NO_OFFSET, .sample = UINT64_MAX };
    char line[1024];
    PyObject *exc;

    if (PyErr_Occurred() || signals_raise() < 0)
        return NULL;
    if (rc == STK_ENOMEM && (!err || !err->message[0]))
        return PyErr_NoMemory();
    err = err && err->message[0] ? err : &blank;
    if (!err->message[0])
        strcpy(blank.message, "failed without saying why");
    stk_error_format(err, line, sizeof line);
    exc = PyObject_CallFunction(
        st->make_error, "sNNNNN", stk_code_name(rc),
        PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "backslashreplace"),
        or_none(text_from(err->shard, strlen(err->shard)), err->shard[0]),
        or_none(PyLong_FromUnsignedLongLong(err->offset), err->offset != STK_NO_OFFSET),
        or_none(text_from(err->key, strlen(err->key)), err->key[0]),
        or_none(PyLong_FromUnsignedLongLong(err->sample), err->sample != UINT64_MAX));
    if (exc) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        Py_DECREF(exc);
    }
    return NULL;
}

PyObject *none_or_error(module_state *st, int rc, const stk_error *err)
{
    if (rc < 0)
        return raise_error(st, rc, err);
    Py_RETURN_NONE;
}

/* ---- registry: what chains can name, for chains.py ---- */

static const char *arg_type_name(stk_arg_type type)
{
    static const char *const names[] = {
        [STK_ARG_INT] = "int",       [STK_ARG_FLOAT] = "float", [STK_ARG_BOOL] = "bool",
        [STK_ARG_NAME] = "name",     [STK_ARG_NAMES] = "names", [STK_ARG_INTS] = "ints",
        [STK_ARG_FLOATS] = "floats", [STK_ARG_ANY] = "any",     [STK_ARG_CHAIN] = "chain",
        [STK_ARG_CHAINS] = "chains",
    };
    return names[type];
}

static PyObject *args_list(const stk_arg *args)
{
    PyObject *list = PyList_New(0);

    for (; list && args && args->name; args++) {
        PyObject *row = Py_BuildValue("(sszs)", args->name, arg_type_name(args->type),
                                      args->fallback, args->help);

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *kind_list(stk_plugin_kind kind)
{
    PyObject *list = PyList_New(0);
    stk_plugin_info info;

    for (size_t i = 0; list && stk_plugin_list(kind, i, &info) == 0; i++) {
        PyObject *row = Py_BuildValue("(ssN)", info.name, info.help, args_list(info.args));

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *registry(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("{sNsNsNsNsNsN}", "source", kind_list(STK_PLUGIN_SOURCE), "format",
                         kind_list(STK_PLUGIN_FORMAT), "codec", kind_list(STK_PLUGIN_CODEC),
                         "decoder", kind_list(STK_PLUGIN_DECODER), "op", kind_list(STK_PLUGIN_OP),
                         "data", kind_list(STK_PLUGIN_DATA));
}

/* Text without NUL; lone surrogates stay what they are. */
static PyObject *secrets_hidden(PyObject *self, PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"), *out = NULL;
    char *copy;

    (void)self;
    if (!bytes)
        return NULL;
    copy = PyMem_Malloc((size_t)PyBytes_Size(bytes) + 1);
    if (copy) {
        strcpy(copy, PyBytes_AsString(bytes));
        stk_secrets_hide(copy);
        out = PyUnicode_Decode(copy, (Py_ssize_t)strlen(copy), "utf-8", "surrogatepass");
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(copy);
    Py_DecRef(bytes);
    return out;
}

static PyObject *build_info(PyObject *self, PyObject *unused)
{
    char video[640];

    (void)self, (void)unused;
    stk_video_libraries(video, sizeof video);
    return PyUnicode_FromFormat("%s; video: %s", stk_build_info(), video);
}

static PyObject *option_list(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    stk_option_info o;

    (void)self, (void)unused;
    for (size_t i = 0; list && stk_option_list(i, &o) == 0; i++) {
        PyObject *row = Py_BuildValue("(ssss)", o.name, o.values, o.fallback, o.help);

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *parse_size(PyObject *self, PyObject *args)
{
    const char *text;
    uint64_t bytes;

    (void)self;
    if (!PyArg_ParseTuple(args, "s:parse_size", &text))
        return NULL;
    if (stk_size_parse(text, &bytes) < 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *check_chain(PyObject *self, PyObject *args)
{
    stk_error err = { 0 };
    const char *text;
    int rc;

    if (!PyArg_ParseTuple(args, "s:check_chain", &text))
        return NULL;
    rc = stk_chain_check_in(registry_now(PyModule_GetState(self)), text, &err);
    return none_or_error(PyModule_GetState(self), rc, &err);
}

static PyObject *stop_logging(PyObject *self, PyObject *unused)
{
    module_state *st = PyModule_GetState(self);

    (void)unused;
    log_stop(st->log);
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    { "registry", registry, METH_NOARGS,
      "kind -> [(name, help, [(argument, type, fallback, help)])]" },
    { "stream_open", (PyCFunction)(void (*)(void))stream_open, METH_VARARGS | METH_KEYWORDS,
      "shards as streams" },
    { "stream_chosen", stream_chosen, METH_O, "(streams, window) of a stream" },
    { "stream_tell", stream_tell, METH_VARARGS, "where streams go on, at or before a sample" },
    { "stream_seek", stream_seek, METH_VARARGS, "such a place, of an earlier run" },
    { "from_arrow", dataset_from_arrow, METH_VARARGS,
      "a Dataset of the table of a capsule \"arrow_array_stream\"" },
    { "join", dataset_join, METH_VARARGS, "a Dataset of arrays, joined row by row" },
    { "keys", dataset_keys, METH_VARARGS, "keys of the samples with these ids" },
    { "find_keys", dataset_find_keys, METH_VARARGS,
      "(number of a key, id of a sample that has it): pairs of u64" },
    { "pack_lengths", pack_lengths, METH_VARARGS,
      "(lengths, block, best, window): rows and tokens when they are packed" },
    { "stop_logging", stop_logging, METH_NOARGS, "for atexit: no more lines to logging" },
    { "pack", (PyCFunction)(void (*)(void))pack_dataset, METH_VARARGS | METH_KEYWORDS,
      "write a data set as tar shards" },
    { "pack_ids", (PyCFunction)(void (*)(void))pack_ids, METH_VARARGS | METH_KEYWORDS,
      "ids of the samples that a pack with these arguments takes, in its order" },
    { "index_build", index_build, METH_VARARGS, "index shards, beside them where they are remote" },
    { "object_list", object_list, METH_VARARGS,
      "[(url, size)] of the objects whose address begins so" },
    { "object_read", object_read, METH_VARARGS, "an object's bytes; None: it is not there" },
    { "video_info", video_info, METH_VARARGS, "what the tables of a video say" },
    { "object_write", object_write, METH_VARARGS, "write a small object" },
    { "object_remove", object_remove, METH_VARARGS, "remove an object, if it is there" },
    { "object_writable", object_writable, METH_VARARGS, "raise where nothing can be written" },
    { "object_sweep", object_sweep, METH_VARARGS, "abort uploads that dead processes left" },
    { "options", option_list, METH_NOARGS, "[(name, values, fallback, help)] of loaders" },
    { "parse_size", parse_size, METH_VARARGS, "bytes of \"1.5GiB\"; None: it is not a size" },
    { "addresses", ring_addresses, METH_VARARGS, "addresses(seed, epoch, positions): numbers" },
    { "twister", ring_twister, METH_VARARGS, "624 words for a Mersenne Twister, as bytes" },
    { "set_twisters", (PyCFunction)(void (*)(void))ring_set_twisters, METH_FASTCALL,
      "set_twisters(address, random, words, gauss)" },
    { "die_with_parent", die_with_parent, METH_NOARGS,
      "SIGKILL when the thread that made it ends" },
    { "keep_heap", keep_heap, METH_NOARGS, "freed memory stays with malloc" },
    { "pick_plain", (PyCFunction)(void (*)(void))pick_plain, METH_FASTCALL,
      "take(value) of a long list of plain values, else None" },
    { "diagnose", module_diagnose, METH_VARARGS,
      "(sights before or none, sights after, data or None, foreign): what holds a loop up" },
    { "drift_of", module_drift_of, METH_VARARGS,
      "(description, data set, ids): [(feature, test, value, bound, drifted)] of these samples" },
    { "plan_need", module_plan_need, METH_O, "what a run needs of its data" },
    { "gpu_use", module_gpu_use, METH_O, "(SM, memory) shares of a GPU by NVML, or None" },
    { "use_ops", module_use_ops, METH_O, "what chains may name besides what ships, from now on" },
    { "check_chain", check_chain, METH_VARARGS,
      "raise what is wrong with a chain's names and arguments" },
    { "store", (PyCFunction)(void (*)(void))module_store, METH_VARARGS | METH_KEYWORDS,
      "settings of remote data" },
    { "secrets_hidden", secrets_hidden, METH_O, "a text whose addresses show no secret" },
    { "build_info", build_info, METH_NOARGS, "one line on what this build found" },
    { NULL, NULL, 0, NULL },
};

/* ---- module ---- */

static int add_type(PyObject *m, PyType_Spec *spec, PyTypeObject **slot)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(m, spec, NULL);
    return *slot ? PyModule_AddType(m, *slot) : -1;
}

static PyObject *function_of(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module), *f = m ? PyObject_GetAttrString(m, name) : NULL;

    Py_XDECREF(m);
    return f;
}

static int module_exec(PyObject *m)
{
    module_state *st = PyModule_GetState(m);

    st->make_error = function_of("stoker.errors", "from_code");
    st->emit = st->make_error ? function_of("stoker._log", "emit") : NULL;
    if (!st->emit)
        return -1;
    st->log = log_start(st->emit);
    if (!st->log) {
        PyErr_NoMemory();
        return -1;
    }
    stk_store_log(log_line, st->log);
    signals_ask();
    if (add_type(m, &tensor_spec, &st->tensor) < 0 ||
        add_type(m, &dataset_spec, &st->dataset) < 0 ||
        add_type(m, &loader_spec, &st->loader) < 0 || add_type(m, &writer_spec, &st->writer) < 0 ||
        add_type(m, &put_spec, &st->put) < 0 || add_type(m, &transform_spec, &st->transform) < 0 ||
        add_type(m, &giver_spec, &st->giver) < 0 || add_type(m, &ring_spec, &st->ring) < 0 ||
        add_type(m, &slot_spec, &st->slot) < 0 || add_type(m, &sampler_spec, &st->sampler) < 0 ||
        add_type(m, &calls_spec, &st->calls) < 0 || add_type(m, &ops_spec, &st->ops) < 0)
        return -1;
    return PyModule_AddStringConstant(m, "__version__", stk_version());
}

static int module_traverse(PyObject *m, visitproc visit, void *arg)
{
    module_state *st = PyModule_GetState(m);

    if (!st)
        return 0;
    Py_VISIT(st->tensor);
    Py_VISIT(st->dataset);
    Py_VISIT(st->loader);
    Py_VISIT(st->writer);
    Py_VISIT(st->put);
    Py_VISIT(st->transform);
    Py_VISIT(st->giver);
    Py_VISIT(st->ring);
    Py_VISIT(st->slot);
    Py_VISIT(st->sampler);
    Py_VISIT(st->calls);
    Py_VISIT(st->ops);
    Py_VISIT(st->own_ops);
    Py_VISIT(st->make_error);
    Py_VISIT(st->emit);
    return 0;
}

static int module_clear(PyObject *m)
{
    module_state *st = PyModule_GetState(m);

    if (!st)
        return 0;
    Py_CLEAR(st->tensor);
    Py_CLEAR(st->dataset);
    Py_CLEAR(st->loader);
    Py_CLEAR(st->writer);
    Py_CLEAR(st->put);
    Py_CLEAR(st->transform);
    Py_CLEAR(st->giver);
    Py_CLEAR(st->ring);
    Py_CLEAR(st->slot);
    Py_CLEAR(st->sampler);
    Py_CLEAR(st->calls);
    Py_CLEAR(st->own_ops);
    Py_CLEAR(st->ops);
    Py_CLEAR(st->make_error);
    log_stop(st->log);
    Py_CLEAR(st->emit);
    return 0;
}

static void module_free(void *m)
{
    module_clear(m);
}

static PyModuleDef_Slot module_slots[] = {
    { Py_mod_exec, (void *)module_exec },
    { 0, NULL },
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "stoker._stoker",
    .m_doc = "libstoker as Python objects; use the stoker package.",
    .m_size = sizeof(module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__stoker(void);
PyMODINIT_FUNC PyInit__stoker(void)
{
    return PyModuleDef_Init(&module_def);
}
