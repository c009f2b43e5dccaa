/* SPDX-License-Identifier: Apache-2.0 */
/* py_ring.c - the ring of Python data sets: slots as buffers, and copies into them without the GIL.
 *
 * A Slot that take() gave goes back to the ring when its last reference goes: a tensor over its
 * memory is such a reference, so that a batch's memory is used again when the batch is gone. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "pystoker.h"
#include "ring.h"

#define SMALL 4096 /* copies below it are shorter than letting go of the GIL */

typedef struct ring_object {
    PyObject_HEAD ring *r;
} ring_object;

typedef struct slot_object {
    PyObject_HEAD ring *r;
    uint8_t *memory;
    uint32_t number;
    int lease; /* it goes back to the ring */
} slot_object;

/* ---- Slot ---- */

static PyObject *slot_new(module_state *st, ring *r, uint32_t number, int lease)
{
    uint8_t *memory = ring_slot(r, number);
    slot_object *self;

    if (!memory)
        return PyErr_SetFromErrno(PyExc_OSError);
    self = PyObject_New(slot_object, st->slot);
    if (!self)
        return NULL;
    ring_ref(r);
    self->r = r;
    self->memory = memory;
    self->number = number;
    self->lease = lease;
    return (PyObject *)self;
}

static void slot_dealloc(PyObject *obj)
{
    slot_object *self = (slot_object *)obj;

    if (self->lease)
        ring_give(self->r, self->number);
    ring_unref(self->r);
    free_object(obj);
}

static int slot_buffer(PyObject *obj, Py_buffer *view, int flags)
{
    slot_object *self = (slot_object *)obj;

    return PyBuffer_FillInfo(view, obj, self->memory, (Py_ssize_t)ring_room(self->r), 0, flags);
}

static PyObject *slot_say(PyObject *obj, PyObject *args)
{
    unsigned long long at = 0, len = 0;
    ring_message m = { 0 };

    if (!PyArg_ParseTuple(args, "I|KK:say", &m.state, &at, &len))
        return NULL;
    m.at = at;
    m.len = len;
    ring_say(((slot_object *)obj)->memory, &m);
    Py_RETURN_NONE;
}

static PyObject *slot_hear(PyObject *obj, PyObject *unused)
{
    slot_object *self = (slot_object *)obj;
    ring_message m;

    (void)unused;
    ring_hear(self->memory, &m);
    if (m.at > ring_room(self->r) || m.len > ring_room(self->r) - m.at) {
        PyErr_SetString(PyExc_ValueError, "a slot's message is outside of the slot");
        return NULL;
    }
    return Py_BuildValue("(IKK)", m.state, (unsigned long long)m.at, (unsigned long long)m.len);
}

/* Refuses what does not fit. */
static int check_room(const slot_object *self, unsigned long long at, uint64_t len)
{
    char text[200];

    if (at <= ring_room(self->r) && len <= ring_room(self->r) - at)
        return 0;
    snprintf(text, sizeof text,
             "a batch of more than %.1f GB does not fit a slot of the ring: lower batch_size",
             (double)ring_room(self->r) / 1e9);
    PyErr_SetString(PyExc_MemoryError, text);
    return -1;
}

static void copy(uint8_t *to, const void *from, uint64_t len)
{
    if (len < SMALL) {
        memcpy(to, from, len);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    memcpy(to, from, len);
    Py_END_ALLOW_THREADS
}

/* copy(at, buffer): the buffer's bytes; how many. */
static PyObject *slot_copy(PyObject *obj, PyObject *args)
{
    slot_object *self = (slot_object *)obj;
    unsigned long long at;
    PyObject *from;
    Py_buffer view;
    Py_ssize_t len;

    if (!PyArg_ParseTuple(args, "KO:copy", &at, &from) ||
        PyObject_GetBuffer(from, &view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    len = view.len;
    if (check_room(self, at, (uint64_t)len) == 0)
        copy(self->memory + at, view.buf, (uint64_t)len);
    PyBuffer_Release(&view);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(len);
}

/* copy_from(at, address, len): memory that the caller keeps alive, a torch tensor's. */
static PyObject *slot_copy_from(PyObject *obj, PyObject *args)
{
    slot_object *self = (slot_object *)obj;
    unsigned long long at, address, len;

    if (!PyArg_ParseTuple(args, "KKK:copy_from", &at, &address, &len) ||
        check_room(self, at, len) < 0)
        return NULL;
    copy(self->memory + at, (const void *)(uintptr_t)address, len);
    Py_RETURN_NONE;
}

/* check(at, len): an error where that is beyond the slot. */
static PyObject *slot_check(PyObject *obj, PyObject *args)
{
    unsigned long long at, len;

    if (!PyArg_ParseTuple(args, "KK:check", &at, &len) ||
        check_room((slot_object *)obj, at, len) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* find(buffer): where in the slot it is; -1: elsewhere. */
static PyObject *slot_find(PyObject *obj, PyObject *from)
{
    slot_object *self = (slot_object *)obj;
    uintptr_t first = (uintptr_t)self->memory, at;
    Py_buffer view;

    if (PyObject_GetBuffer(from, &view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    at = (uintptr_t)view.buf;
    PyBuffer_Release(&view);
    if (at < first || at - first >= ring_room(self->r))
        return PyLong_FromLong(-1);
    return PyLong_FromUnsignedLongLong(at - first);
}

/* One number of a column; -1 with an exception set. */
static int put_number(uint8_t *to, PyObject *value, char kind)
{
    double d;
    int64_t i;

    if (kind == 'd') {
        d = PyFloat_AsDouble(value);
        memcpy(to, &d, sizeof d);
    } else {
        i = PyLong_AsLongLong(value);
        memcpy(to, &i, sizeof i);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* fill(at, list, kind): Python numbers as float64 ('d') or int64 ('q'). */
static PyObject *slot_fill(PyObject *obj, PyObject *args)
{
    slot_object *self = (slot_object *)obj;
    unsigned long long at;
    PyObject *list;
    Py_ssize_t n;
    int kind;

    if (!PyArg_ParseTuple(args, "KO!C:fill", &at, &PyList_Type, &list, &kind))
        return NULL;
    n = PyList_Size(list);
    if (check_room(self, at, (uint64_t)n * 8) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (put_number(self->memory + at + 8 * i, PyList_GetItem(list, i), (char)kind) < 0)
            return NULL;
    Py_RETURN_NONE;
}

static PyObject *slot_number(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((slot_object *)obj)->number);
}

static PyObject *slot_address(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((slot_object *)obj)->memory);
}

static PyMethodDef slot_methods[] = {
    { "say", slot_say, METH_VARARGS, "say(state, at=0, len=0): what was written is complete" },
    { "hear", slot_hear, METH_NOARGS, "(state, at, len) as the other side said it" },
    { "copy", slot_copy, METH_VARARGS, "copy(at, buffer): its bytes, without the GIL" },
    { "copy_from", slot_copy_from, METH_VARARGS, "copy_from(at, address, len)" },
    { "check", slot_check, METH_VARARGS, "check(at, len): MemoryError where that does not fit" },
    { "find", slot_find, METH_O, "where in the slot a buffer is; -1: elsewhere" },
    { "fill", slot_fill, METH_VARARGS, "fill(at, numbers, 'd' or 'q')" },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef slot_getset[] = {
    { "number", slot_number, NULL, "of the slot in its ring", NULL },
    { "address", slot_address, NULL, "where it is mapped in this process", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slot_slots[] = {
    { Py_tp_dealloc, (void *)slot_dealloc },
    { Py_tp_methods, slot_methods },
    { Py_tp_getset, slot_getset },
    { Py_bf_getbuffer, (void *)slot_buffer },
    { 0, NULL },
};

PyType_Spec slot_spec = { .name = "stoker._stoker.Slot",
                          .basicsize = sizeof(slot_object),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = slot_slots };

/* ---- Ring ---- */

static int ring_init(PyObject *obj, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "fd", "room", NULL };
    ring_object *self = (ring_object *)obj;
    unsigned long long room = 0;
    int fd = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iK:Ring", names, &fd, &room))
        return -1;
    if (self->r) {
        PyErr_SetString(PyExc_TypeError, "a Ring is opened once");
        return -1;
    }
    self->r = ring_open(fd, (size_t)room);
    if (!self->r)
        PyErr_SetFromErrno(PyExc_OSError);
    return self->r ? 0 : -1;
}

static void ring_dealloc(PyObject *obj)
{
    if (((ring_object *)obj)->r)
        ring_unref(((ring_object *)obj)->r);
    free_object(obj);
}

static ring *ring_of(PyObject *obj)
{
    ring *r = ((ring_object *)obj)->r;

    if (!r)
        PyErr_SetString(PyExc_ValueError, "the ring is not open");
    return r;
}

static PyObject *py_ring_take(PyObject *obj, PyObject *unused)
{
    ring *r = ring_of(obj);
    uint32_t number;
    PyObject *slot;

    (void)unused;
    if (!r)
        return NULL;
    number = ring_take(r);
    if (number == RING_SLOTS)
        return PyErr_SetFromErrno(PyExc_OSError);
    slot = slot_new(state_of(obj), r, number, 1);
    if (!slot)
        ring_give(r, number);
    return slot;
}

static PyObject *py_ring_slot(PyObject *obj, PyObject *arg)
{
    unsigned long number = PyLong_AsUnsignedLong(arg);
    ring *r = ring_of(obj);

    if (!r || PyErr_Occurred())
        return NULL;
    if (number >= RING_SLOTS) {
        PyErr_SetString(PyExc_IndexError, "a ring has no such slot");
        return NULL;
    }
    return slot_new(state_of(obj), r, (uint32_t)number, 0);
}

static PyObject *py_ring_taken(PyObject *obj, PyObject *unused)
{
    ring *r = ring_of(obj);

    (void)unused;
    return r ? PyLong_FromUnsignedLong(ring_taken(r)) : NULL;
}

static PyObject *py_ring_fd(PyObject *obj, void *unused)
{
    ring *r = ring_of(obj);

    (void)unused;
    return r ? PyLong_FromLong(ring_fd(r)) : NULL;
}

static PyObject *py_ring_room(PyObject *obj, void *unused)
{
    ring *r = ring_of(obj);

    (void)unused;
    return r ? PyLong_FromSize_t(ring_room(r)) : NULL;
}

static PyMethodDef ring_methods[] = {
    { "take", py_ring_take, METH_NOARGS,
      "a Slot that is free; it goes back with its last reference" },
    { "slot", py_ring_slot, METH_O, "the Slot with a number, for those who were given it" },
    { "taken", py_ring_taken, METH_NOARGS, "how many slots are out" },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef ring_getset[] = {
    { "fd", py_ring_fd, NULL, "of the memfd", NULL },
    { "room", py_ring_room, NULL, "bytes that a slot may have", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot ring_slots[] = {
    { Py_tp_init, (void *)ring_init },
    { Py_tp_dealloc, (void *)ring_dealloc },
    { Py_tp_methods, ring_methods },
    { Py_tp_getset, ring_getset },
    { 0, NULL },
};

PyType_Spec ring_spec = { .name = "stoker._stoker.Ring",
                          .basicsize = sizeof(ring_object),
                          .flags = Py_TPFLAGS_DEFAULT,
                          .slots = ring_slots };

/* ---- what a worker process asks of the system ---- */

PyObject *die_with_parent(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* Memory of samples is used again and not given back: every megabyte that is mapped again costs
 * page faults. */
PyObject *keep_heap(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
    Py_RETURN_NONE;
}

/* ---- long lists ---- */

#define LONG_LIST 10000 /* items that are worth a look */
#define DEEPEST 4       /* tuples within tuples */

/* Whether it is of a type that marshal keeps whole: of subclasses and of what has a buffer it does
 * not. */
static int is_plain(PyObject *value, int depth)
{
    PyTypeObject *type = Py_TYPE(value);

    if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyBool_Type || type == &PyBytes_Type || value == Py_None)
        return 1;
    if (type != &PyTuple_Type || depth == DEEPEST)
        return 0;
    for (Py_ssize_t i = 0, n = PyTuple_Size(value); i < n; i++)
        if (!is_plain(PyTuple_GetItem(value, i), depth + 1))
            return 0;
    return 1;
}

/* pick_plain(take, value): None; of a long list of plain values, and of tuples of them,
 * take(value).  It is called for every object that a data set's pickle has. */
PyObject *pick_plain(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "pick_plain(take, value)");
        return NULL;
    }
    if (!PyList_CheckExact(args[1]) || PyList_Size(args[1]) < LONG_LIST)
        Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < PyList_Size(args[1]); i++)
        if (!is_plain(PyList_GetItem(args[1], i), 0))
            Py_RETURN_NONE;
    return PyObject_CallFunctionObjArgs(args[0], args[1], NULL);
}

/* ---- numbers with addresses ---- */

/* addresses(seed, epoch, positions as u64): one number of 64 bits for each. */
PyObject *ring_addresses(PyObject *module, PyObject *args)
{
    unsigned long long seed, epoch;
    PyObject *positions, *list;
    Py_buffer view;
    Py_ssize_t n;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKO:addresses", &seed, &epoch, &positions) ||
        PyObject_GetBuffer(positions, &view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    n = view.len / 8;
    list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        uint64_t position;
        PyObject *v;

        memcpy(&position, (const char *)view.buf + 8 * i, 8);
        v = PyLong_FromUnsignedLongLong(ring_hash(seed, epoch, position));
        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    PyBuffer_Release(&view);
    return list;
}

/* twister(address, which): the 624 words of a Mersenne Twister, as bytes.  0: random's, 1:
 * NumPy's. */
PyObject *ring_twister(PyObject *module, PyObject *args)
{
    unsigned long long address;
    uint32_t words[624];
    unsigned which;

    (void)module;
    if (!PyArg_ParseTuple(args, "KI:twister", &address, &which))
        return NULL;
    ring_words(which ? ring_hash(address, which, 0) : address, words);
    return PyBytes_FromStringAndSize((const char *)words, sizeof words);
}

/* set_twisters(address, random, words, gauss): memory that _seeds.py has found to be there; 0: it
 * has not.  random: {int index; uint32_t words[624]}, words: {uint32_t words[624]; int index} of
 * NumPy, gauss: {int; double} of a normal number in store.  It is called for every sample. */
PyObject *ring_set_twisters(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    unsigned long long v[4];
    uint32_t words[625];

    (void)module;
    if (n != 4) {
        PyErr_SetString(PyExc_TypeError, "set_twisters(address, random, words, gauss)");
        return NULL;
    }
    for (int i = 0; i < 4; i++)
        v[i] = PyLong_AsUnsignedLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    if (v[1]) {
        words[0] = 624;
        ring_words(v[0], words + 1);
        memcpy((void *)(uintptr_t)v[1], words, sizeof words);
    }
    if (v[2]) {
        ring_words(ring_hash(v[0], 1, 0), words);
        words[624] = 624;
        memcpy((void *)(uintptr_t)v[2], words, sizeof words);
        memset((void *)(uintptr_t)v[3], 0, 16);
    }
    Py_RETURN_NONE;
}
