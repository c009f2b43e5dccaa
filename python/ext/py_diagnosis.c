/* SPDX-License-Identifier: Apache-2.0 */
/* py_diagnosis.c - sights as dicts, diagnoses and plans of a run: see stoker/seeing.h. */
#include <stddef.h>
#include <string.h>

#include "py_loader.h"

typedef struct named_place {
    const char *name;
    size_t at;
} named_place;

#define PLACE(type, field)                                                                         \
    {                                                                                              \
#field, offsetof(type, field)                                                              \
    }

static const named_place sight_fields[] = { PLACE(stk_sight, at_s),
                                            PLACE(stk_sight, steps),
                                            PLACE(stk_sight, samples),
                                            PLACE(stk_sight, bytes),
                                            PLACE(stk_sight, wait_s),
                                            PLACE(stk_sight, start_s),
                                            PLACE(stk_sight, consumer_cpu_s),
                                            PLACE(stk_sight, idle_s),
                                            PLACE(stk_sight, delay_s),
                                            PLACE(stk_sight, others_s),
                                            PLACE(stk_sight, copy_s),
                                            PLACE(stk_sight, clip_queue_s),
                                            PLACE(stk_sight, cold),
                                            PLACE(stk_sight, remote),
                                            PLACE(stk_sight, jpegs),
                                            PLACE(stk_sight, jpegs_seek),
                                            PLACE(stk_sight, cache_hits),
                                            PLACE(stk_sight, cache_misses),
                                            PLACE(stk_sight, workers),
                                            PLACE(stk_sight, cores),
                                            PLACE(stk_sight, slots),
                                            PLACE(stk_sight, slots_short),
                                            PLACE(stk_sight, memory_peak),
                                            PLACE(stk_sight, memory_limit),
                                            PLACE(stk_sight, gpu),
                                            PLACE(stk_sight, sm_share),
                                            PLACE(stk_sight, gpu_memory_share),
                                            { NULL, 0 } };
static const named_place need_fields[] = { PLACE(stk_need, samples),
                                           PLACE(stk_need, sample_bytes),
                                           PLACE(stk_need, batch),
                                           PLACE(stk_need, gpus),
                                           PLACE(stk_need, step_s),
                                           PLACE(stk_need, rate),
                                           PLACE(stk_need, row_bytes),
                                           PLACE(stk_need, load_s),
                                           PLACE(stk_need, loader_rate),
                                           PLACE(stk_need, storage_rate),
                                           PLACE(stk_need, link_rate),
                                           PLACE(stk_need, gpu_hour),
                                           { NULL, 0 } };
static const named_place plan_fields[] = {
    PLACE(stk_plan_figures, samples_rate),    PLACE(stk_plan_figures, steps_rate),
    PLACE(stk_plan_figures, storage_rate),    PLACE(stk_plan_figures, link_rate),
    PLACE(stk_plan_figures, link_s),          PLACE(stk_plan_figures, cores),
    PLACE(stk_plan_figures, cache_bytes),     PLACE(stk_plan_figures, epoch_s),
    PLACE(stk_plan_figures, use_overlapped),  PLACE(stk_plan_figures, use_serial),
    PLACE(stk_plan_figures, idle_cost_month), { NULL, 0 }
};

static int put(PyObject *dict, const char *name, PyObject *v)
{
    int rc = v ? PyDict_SetItemString(dict, name, v) : -1;

    Py_XDECREF(v);
    return rc;
}

/* Steals nothing; NULL with an exception. */
static PyObject *dict_of(const void *from, const named_place *p)
{
    PyObject *d = PyDict_New();

    for (; d && p->name; p++)
        if (put(d, p->name, PyFloat_FromDouble(*(const double *)((const char *)from + p->at))) < 0)
            Py_CLEAR(d);
    return d;
}

/* What the dict has; the rest stays as it is.  -1 with an exception. */
static int take(PyObject *d, void *into, const named_place *p)
{
    for (; p->name; p++) {
        PyObject *v = PyDict_GetItemString(d, p->name); /* borrowed */
        double x = v ? PyFloat_AsDouble(v) : 0;

        if (v && x == -1 && PyErr_Occurred())
            return -1;
        if (v)
            *(double *)((char *)into + p->at) = x;
    }
    return 0;
}

static PyObject *busy_dict(const stk_sight *s)
{
    PyObject *d = PyDict_New();

    for (int i = 0; d && i < STK_CAUSES; i++)
        if (s->busy_s[i] > 0 &&
            put(d, stk_cause_name((stk_cause)i), PyFloat_FromDouble(s->busy_s[i])) < 0)
            Py_CLEAR(d);
    return d;
}

PyObject *loader_sight(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    stk_sight s = { .size = sizeof s };
    PyObject *d;

    (void)unused;
    if (look(self) < 0)
        return NULL;
    stk_loader_sight(self->l, &s);
    look_away(self);
    d = dict_of(&s, sight_fields);
    if (d && put(d, "busy_s", busy_dict(&s)) < 0)
        Py_CLEAR(d);
    return d;
}

PyObject *loader_trace(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    unsigned n;
    int rc;

    if (!PyArg_ParseTuple(args, "I:trace", &n) || enter(self) < 0)
        return NULL;
    rc = stk_loader_trace(self->l, n, &err);
    leave(self);
    return none_or_error(state_of(obj), rc, &err);
}

static int add_text(void *list, const char *text, size_t len)
{
    PyObject *piece = PyBytes_FromStringAndSize(text, (Py_ssize_t)len);
    int rc = piece ? PyList_Append(list, piece) : -1;

    Py_XDECREF(piece);
    return rc;
}

/* Its text as a list of bytes. */
PyObject *loader_trace_text(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    PyObject *list = PyList_New(0);
    stk_error err = { 0 };
    int rc;

    (void)unused;
    if (!list || look(self) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    rc = stk_loader_trace_text(self->l, add_text, list, &err);
    look_away(self);
    if (rc == 0)
        return list;
    Py_DECREF(list);
    return raise_error(state_of(obj), rc, &err);
}

PyObject *loader_set_ahead(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    stk_error err = { 0 };
    unsigned n;
    int rc;

    if (!PyArg_ParseTuple(args, "I:set_ahead", &n) || look(self) < 0)
        return NULL;
    rc = stk_loader_set_ahead(self->l, n, &err);
    look_away(self);
    return none_or_error(state_of(obj), rc, &err);
}

static int sight_of(PyObject *d, stk_sight *out)
{
    PyObject *busy;

    *out = (stk_sight){ .size = sizeof *out, .sm_share = -1, .gpu_memory_share = -1 };
    if (!PyDict_Check(d)) {
        PyErr_SetString(PyExc_TypeError, "a sight is a dict");
        return -1;
    }
    if (take(d, out, sight_fields) < 0)
        return -1;
    busy = PyDict_GetItemString(d, "busy_s");
    for (int i = 0; busy && PyDict_Check(busy) && i < STK_CAUSES; i++) {
        PyObject *v = PyDict_GetItemString(busy, stk_cause_name((stk_cause)i));

        out->busy_s[i] = v ? PyFloat_AsDouble(v) : 0;
        if (out->busy_s[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *checks_list(const stk_diagnosis *d)
{
    PyObject *list = PyList_New(d->n_checks);

    for (uint32_t i = 0; list && i < d->n_checks; i++) {
        const stk_check_line *c = &d->check[i];
        PyObject *v = Py_BuildValue("(sdssO)", c->name, c->value, c->unit, c->rule,
                                    c->good ? Py_True : Py_False);

        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *diagnosis_dict(const stk_diagnosis *d)
{
    return Py_BuildValue("{sssdsdsdsdsIsNsNsN}", "cause", stk_cause_name(d->cause), "gain", d->gain,
                         "gain_low", d->gain_low, "share", d->share, "ceiling", d->ceiling, "rank",
                         d->rank, "sentence", text_from(d->sentence, strlen(d->sentence)), "remedy",
                         text_from(d->remedy, strlen(d->remedy)), "checks", checks_list(d));
}

/* A list of sights; *n of them, for PyMem_Free().  NULL with an exception. */
static stk_sight *sights_of(PyObject *list, Py_ssize_t n)
{
    stk_sight *s = PyMem_Calloc((size_t)n + 1, sizeof *s);

    if (!s)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; s && i < n; i++)
        if (sight_of(PyList_GetItem(list, i), &s[i]) < 0) {
            PyMem_Free(s);
            s = NULL;
        }
    return s;
}

PyObject *module_diagnose(PyObject *module, PyObject *args)
{
    stk_diagnose_options o = { .size = sizeof o };
    stk_diagnosis d = { .size = sizeof d };
    PyObject *from, *to, *out = NULL;
    stk_sight *a = NULL, *b = NULL;
    Py_ssize_t n;
    int foreign;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!zp|z:diagnose", &PyList_Type, &from, &PyList_Type, &to,
                          &o.data, &foreign, &o.function))
        return NULL;
    n = PyList_Size(to);
    if (n < 1 || (PyList_Size(from) != n && PyList_Size(from) != 0)) {
        PyErr_SetString(PyExc_ValueError, "one sight for each rank, before and after");
        return NULL;
    }
    o.foreign = foreign ? STK_YES : STK_NO;
    b = sights_of(to, n);
    a = b ? sights_of(from, PyList_Size(from)) : NULL;
    if (a && n > 1)
        stk_diagnose_ranks(PyList_Size(from) ? a : NULL, b, (uint32_t)n, &o, &d);
    else if (a)
        stk_diagnose(PyList_Size(from) ? a : NULL, b, &o, &d);
    if (a)
        out = diagnosis_dict(&d);
    PyMem_Free(a);
    PyMem_Free(b);
    return out;
}

PyObject *module_plan_need(PyObject *module, PyObject *arg)
{
    stk_need n = { .size = sizeof n };
    stk_plan_figures f = { .size = sizeof f };
    stk_error err = { 0 };
    int rc;

    if (!PyDict_Check(arg)) {
        PyErr_SetString(PyExc_TypeError, "what a run needs is a dict");
        return NULL;
    }
    if (take(arg, &n, need_fields) < 0)
        return NULL;
    rc = stk_plan_need(&n, &f, &err);
    if (rc < 0)
        return raise_error(PyModule_GetState(module), rc, &err);
    return dict_of(&f, plan_fields);
}

PyObject *module_gpu_use(PyObject *module, PyObject *arg)
{
    double sm, memory;
    unsigned long gpu = PyLong_AsUnsignedLong(arg);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    if (stk_gpu_use((uint32_t)gpu, &sm, &memory) < 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(dd)", sm, memory);
}

/* ---- descriptions ---- */

#define MOST_ROWS 1100

static PyObject *drift_rows(const stk_drift_row *row, uint32_t n)
{
    PyObject *list = PyList_New(n);

    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *v = Py_BuildValue("(NsddO)", text_from(row[i].feature, strlen(row[i].feature)),
                                    row[i].test, row[i].value, row[i].bound,
                                    row[i].drifted ? Py_True : Py_False);

        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Without ids the description is only read. */
static int compare(const char *text, size_t len, stk_dataset *ds, const stk_describe_options *o,
                   stk_description *both[2], stk_error *err)
{
    int rc = stk_description_read(&both[0], text, len, err);

    if (rc == 0 && o->n_select)
        rc = stk_describe(ds, o, &both[1], err);
    return rc;
}

PyObject *module_drift_of(PyObject *module, PyObject *args)
{
    module_state *st = PyModule_GetState(module);
    stk_describe_options o = { .size = sizeof o, .num_workers = 1 };
    stk_description *both[2] = { NULL, NULL };
    stk_drift_row *row = PyMem_Calloc(MOST_ROWS, sizeof *row);
    Py_ssize_t len, bytes;
    const char *text, *ids;
    PyObject *data, *out = NULL;
    stk_error err = { 0 };
    uint32_t n = 0;
    int rc;

    if (!row ||
        !PyArg_ParseTuple(args, "y#O!y#:drift_of", &text, &len, st->dataset, &data, &ids, &bytes)) {
        PyMem_Free(row);
        return row ? NULL : PyErr_NoMemory();
    }
    o.n_select = (uint64_t)bytes / sizeof(uint64_t);
    o.select = (const uint64_t *)ids; /* of a bytes object, which malloc aligned */
    Py_BEGIN_ALLOW_THREADS
    rc = compare(text, (size_t)len, ((dataset_object *)data)->ds, &o, both, &err);
    if (rc == 0 && both[1])
        stk_drift(both[0], both[1], row, MOST_ROWS, &n);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        raise_error(st, rc, &err);
    else
        out = drift_rows(row, n < MOST_ROWS ? n : MOST_ROWS);
    stk_description_close(&both[0]);
    stk_description_close(&both[1]);
    PyMem_Free(row);
    return out;
}
