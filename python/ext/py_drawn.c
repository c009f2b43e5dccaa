/* SPDX-License-Identifier: Apache-2.0 */
/* py_drawn.c - for explain(): what a watched loader drew, and where a sample is. */
#include "py_loader.h"

static void note_drawn(void *cookie, const stk_drawn *d)
{
    drawn_list *list = cookie;

    if (list->n < MAX_DRAWN)
        list->at[list->n++] = (drawn){ d->output, d->step, d->op, *d->view };
}

const stk_draw_observer drawn_noting = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_draw_observer), .name = "draws", .drawn = note_drawn
};

static PyObject *drawn_tuple(const drawn *d)
{
    const stk_view *v = &d->view;

    return Py_BuildValue("(IIz(IIII)(II)(iiII)OO)", d->output, d->step, d->op, v->clip.x, v->clip.y,
                         v->clip.w, v->clip.h, v->res_w, v->res_h, v->vis_x, v->vis_y, v->vis_w,
                         v->vis_h, v->flip_x ? Py_True : Py_False, v->flip_y ? Py_True : Py_False);
}

PyObject *loader_drawn(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    PyObject *list;
    uint32_t n;

    (void)unused;
    if (enter(self) < 0)
        return NULL;
    n = self->drawn ? self->drawn->n : 0;
    list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *v = drawn_tuple(&self->drawn->at[i]);

        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    if (self->drawn)
        self->drawn->n = 0;
    leave(self);
    return list;
}

PyObject *loader_find(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long epoch, id;
    stk_error err = { 0 };
    uint64_t position;
    int rc;

    if (!PyArg_ParseTuple(args, "KK:find", &epoch, &id) || enter(self) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = stk_loader_find(self->l, epoch, id, &position, &err);
    leave(self);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(state_of(obj), rc, &err);
    return PyLong_FromUnsignedLongLong(position);
}
