/* SPDX-License-Identifier: Apache-2.0 */
/* py_ops.c - ops of the user's own: from a shared object, or a function compiled by Numba (or
 * ctypes).
 *
 * Ops is a registry (stk_registry).  The one that use_ops() was given last is what loaders and
 * transforms that are opened from then on can name; those that are open keep theirs.  Tables and
 * functions stay while the process runs: a thread of a loader may be in one. */
#include <stdlib.h>
#include <string.h>

#include <stoker/own_op.h>

#include "pystoker.h"

#define MAX_ARGS 8

typedef struct own { /* a compiled function; never freed */
    void *function;
    stk_dtype dtype; /* 0: pixels */
    uint32_t n;
    stk_arg arg[MAX_ARGS + 1];
    char *name;
} own;

typedef struct own_state { /* of one step */
    const own *o;
    double arg[MAX_ARGS];
} own_state;

typedef void (*pixels_fn)(uint8_t *pixels, intptr_t height, intptr_t width, const double *args,
                          uint64_t seed);
typedef void (*numbers_fn)(void *numbers, intptr_t n, const double *args);

typedef struct ops_object {
    PyObject_HEAD stk_registry *r;
} ops_object;

/* ---- the op of a compiled function ---- */

static int own_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    own_state *s = state;
    const own *o = s->o;

    for (uint32_t i = 0; i < o->n; i++)
        s->arg[i] = stk_args_f64(args, o->arg[i].name);
    if (!o->dtype &&
        (spec->kind != STK_KIND_IMAGE || spec->picture.normalized || spec->dtype_fixed))
        return stk_fail(err, STK_EINVAL,
                        "%s works on pixels: put it after image, and before normalize and to",
                        o->name);
    if (o->dtype && (spec->kind != STK_KIND_VALUE || spec->array || spec->dtype != o->dtype))
        return stk_fail(err, STK_EINVAL, "%s works on numbers of the type %s: put to(%s) before it",
                        o->name, stk_dtype_name(o->dtype), stk_dtype_name(o->dtype));
    return 0;
}

/* Its seed is drawn at the picture's address. */
static uint32_t own_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    (void)state, (void)canvas;
    *out = (stk_action){ .code = STK_ACT_OWN, .n = 2 };
    out->v.u[0] = stk_rng_u32(rng);
    out->v.u[1] = stk_rng_u32(rng);
    return 1;
}

static void own_tile(const void *state, const stk_action *a, stk_tile *t)
{
    const own_state *s = state;
    pixels_fn run;

    memcpy(&run, &s->o->function, sizeof run);
    run((uint8_t *)t->data, (intptr_t)t->height, (intptr_t)t->width, s->arg,
        (uint64_t)a->v.u[1] << 32 | a->v.u[0]);
}

static int own_value(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                     stk_error *err)
{
    const own_state *s = state;
    numbers_fn run;
    intptr_t n = 1;

    (void)scratch;
    if (row->dtype != s->o->dtype)
        return stk_fail(err, STK_ECORRUPT, "%s works on numbers of the type %s, and these are %s",
                        s->o->name, stk_dtype_name(s->o->dtype), stk_dtype_name(row->dtype));
    for (uint32_t i = 0; i < row->ndim; i++)
        n *= (intptr_t)row->shape[i];
    memcpy(&run, &s->o->function, sizeof run);
    run(row->data, n, s->arg); /* the numbers are this row's own */
    return 0;
}

static stk_op table_of(const own *o, unsigned version)
{
    stk_op op = { .abi = STK_PLUGIN_ABI,
                  .size = sizeof(stk_op),
                  .name = o->name,
                  .help = "an op of your own",
                  .args = o->arg,
                  .state_size = sizeof(own_state),
                  .plan = own_plan,
                  .version = version,
                  .cookie = o };

    if (o->dtype) {
        op.value = own_value;
    } else {
        op.can = STK_OP_NEAR;
        op.act = own_act;
        op.tile = own_tile;
    }
    return op;
}

/* ---- Ops ---- */

static int own_args(own *o, PyObject *args)
{
    o->n = (uint32_t)PyTuple_Size(args);
    for (uint32_t i = 0; i < o->n; i++) {
        const char *name, *fallback;

        if (!PyArg_ParseTuple(PyTuple_GetItem(args, i), "ss", &name, &fallback))
            return -1;
        o->arg[i] = (stk_arg){ strdup(name), STK_ARG_FLOAT, strdup(fallback), "", 0 };
        if (!o->arg[i].name || !o->arg[i].fallback) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* add(name, address of the function, dtype or 0, ((argument, default as text), ...), version) */
static PyObject *ops_add(PyObject *obj, PyObject *args)
{
    unsigned long long address;
    unsigned dtype, version;
    stk_error err = { 0 };
    const char *name;
    PyObject *list;
    stk_op table;
    own *o;
    int rc;

    if (!PyArg_ParseTuple(args, "sKIO!I:add", &name, &address, &dtype, &PyTuple_Type, &list,
                          &version))
        return NULL;
    o = calloc(1, sizeof *o);
    if (!o || !(o->name = strdup(name)))
        return PyErr_NoMemory();
    o->function = (void *)(uintptr_t)address;
    o->dtype = (stk_dtype)dtype;
    if (PyTuple_Size(list) > MAX_ARGS) {
        PyErr_Format(PyExc_ValueError, "an op takes at most %d arguments", MAX_ARGS);
        return NULL;
    }
    if (own_args(o, list) < 0)
        return NULL;
    table = table_of(o, version);
    rc = stk_registry_add(((ops_object *)obj)->r, STK_PLUGIN_OP, &table, &err);
    return none_or_error(state_of(obj), rc, &err);
}

/* load(path): the names of its ops. */
static PyObject *ops_load(PyObject *obj, PyObject *args)
{
    const stk_op *const *ops;
    stk_error err = { 0 };
    const char *path;
    PyObject *list;
    int rc;

    if (!PyArg_ParseTuple(args, "y:load", &path))
        return NULL;
    rc = stk_registry_load(((ops_object *)obj)->r, path, &ops, &err);
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    list = PyList_New(0);
    for (; list && *ops; ops++) {
        PyObject *name = PyUnicode_FromString((*ops)->name);

        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static int ops_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    ops_object *self = (ops_object *)obj;
    stk_error err = { 0 };
    int rc;

    (void)args, (void)kwargs;
    stk_registry_close(&self->r);
    rc = stk_registry_open(&self->r, NULL, &err);
    if (rc < 0)
        raise_error(state_of(obj), rc, &err);
    return rc < 0 ? -1 : 0;
}

static void ops_dealloc(PyObject *obj)
{
    stk_registry_close(&((ops_object *)obj)->r);
    free_object(obj);
}

stk_registry *registry_now(const module_state *st)
{
    return st->own_ops ? ((ops_object *)st->own_ops)->r : NULL;
}

PyObject *module_use_ops(PyObject *module, PyObject *arg)
{
    module_state *st = PyModule_GetState(module);
    PyObject *old = st->own_ops;

    if (!PyObject_TypeCheck(arg, st->ops)) {
        PyErr_SetString(PyExc_TypeError, "use_ops takes Ops");
        return NULL;
    }
    Py_INCREF(arg);
    st->own_ops = arg;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyMethodDef ops_methods[] = {
    { "add", ops_add, METH_VARARGS, "add(name, address, dtype, arguments, version)" },
    { "load", ops_load, METH_VARARGS, "load(path): names of its ops" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot ops_slots[] = {
    { Py_tp_init, (void *)ops_init },
    { Py_tp_dealloc, (void *)ops_dealloc },
    { Py_tp_methods, ops_methods },
    { 0, NULL },
};

PyType_Spec ops_spec = { .name = "stoker._stoker.Ops",
                         .basicsize = sizeof(ops_object),
                         .flags = Py_TPFLAGS_DEFAULT,
                         .slots = ops_slots };
