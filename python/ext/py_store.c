/* SPDX-License-Identifier: Apache-2.0 */
/* py_store.c - settings of remote data, as a capsule that data sets are opened with.  Keys can come
 * from a function, which is called on a thread of the library. */
#include "pystoker.h"

#include <stoker/store.h>
#include <string.h>

#define CAPSULE "stoker.store"

static void store_free(PyObject *capsule)
{
    stk_store *s = PyCapsule_GetPointer(capsule, CAPSULE);

    stk_store_unref(&s);
}

stk_store *store_of(PyObject *capsule)
{
    return !capsule || capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, CAPSULE);
}

/* Text of a dict into a buffer; absent or None: "".  -1: it is not text, or too long. */
static int text_of(PyObject *dict, const char *name, char *out, size_t size)
{
    PyObject *v = PyDict_GetItemString(dict, name);
    const char *s;
    Py_ssize_t len;

    out[0] = 0;
    if (!v || v == Py_None)
        return 0;
    s = PyUnicode_Check(v) ? PyUnicode_AsUTF8AndSize(v, &len) : NULL;
    if (!s || (size_t)len >= size || strlen(s) != (size_t)len)
        return -1;
    memcpy(out, s, (size_t)len + 1);
    return 0;
}

static int take_keys(PyObject *dict, stk_keys *out)
{
    PyObject *end;

    if (!dict || !PyDict_Check(dict) || text_of(dict, "access_key", out->id, sizeof out->id) < 0 ||
        text_of(dict, "secret_key", out->secret, sizeof out->secret) < 0 ||
        text_of(dict, "session_token", out->token, sizeof out->token) < 0)
        return -1;
    end = PyDict_GetItemString(dict, "expires");
    out->expires = end && PyLong_Check(end) ? PyLong_AsLongLong(end) : 0;
    return PyErr_Occurred() ? -1 : 0;
}

/* What the function raised may name keys, so only its type is told. */
static int ask(void *cookie, stk_keys *out, stk_error *err)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *answer = PyObject_CallNoArgs(cookie);
    int rc = take_keys(answer, out);

    PyErr_Clear();
    Py_XDECREF(answer);
    PyGILState_Release(gil);
    return rc < 0
               ? stk_fail(err, STK_EINVAL,
                          "credentials() failed: it must return a dict with access_key, secret_key "
                          "and, where there are, session_token and expires (seconds since 1970)")
               : 0;
}

static void released(void *cookie)
{
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)cookie);
    PyGILState_Release(gil);
}

static stk_tri tri(int x)
{
    return x ? STK_YES : STK_UNSET;
}

PyObject *module_store(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "profile",       "region",    "endpoint",       "access_key",  "secret_key",
        "session_token", "anonymous", "requester_pays", "credentials", "cache",
        "cache_limit",   "hedge",     "timeout",        NULL
    };
    stk_store_options o = { .size = sizeof o };
    int anonymous = 0, pays = 0, hedge = 0;
    unsigned long long limit = 0;
    PyObject *function = Py_None, *capsule;
    stk_error err = { 0 };
    stk_store *s = NULL;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zzzzzzppOzKpI:store", names, &o.profile,
                                     &o.region, &o.endpoint, &o.access_key, &o.secret_key,
                                     &o.session_token, &anonymous, &pays, &function, &o.cache,
                                     &limit, &hedge, &o.timeout))
        return NULL;
    o.anonymous = tri(anonymous);
    o.requester_pays = tri(pays);
    o.cache_limit = limit;
    o.hedge = tri(hedge);
    if (function != Py_None) {
        o.credentials = ask;
        o.released = released;
        o.cookie = Py_NewRef(function);
    }
    rc = stk_store_open(&s, &o, &err);
    if (rc < 0) {
        if (o.cookie)
            Py_DECREF((PyObject *)o.cookie);
        return raise_error(PyModule_GetState(module), rc, &err);
    }
    capsule = PyCapsule_New(s, CAPSULE, store_free);
    if (!capsule)
        stk_store_unref(&s);
    return capsule;
}
