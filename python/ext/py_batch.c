/* SPDX-License-Identifier: Apache-2.0 */
/* py_batch.c - a C batch as a tuple of Python values, then given back at once.
 *
 * Tensors keep what they need by their own reference to a buffer; ids and flags are copied, keys
 * are found by id when somebody asks (a str each would cost more than the batch). So memory
 * returns to the loader as the tensors die, and nothing here outlives a closed loader. */
#include "py_batch.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_LEAST ((size_t)1 << 18)
#define HEAP_MOST ((size_t)31 << 20) /* glibc follows no more than 32 MB */

static PyObject *row_bytes(const stk_batch *b, uint32_t output, uint32_t row, int text)
{
    stk_tensor t;

    if (stk_batch_row(b, output, row, &t) < 0) {
        PyErr_SetString(PyExc_SystemError, "a row that is not there");
        return NULL;
    }
    if (text)
        return text_from(t.data, (size_t)t.shape[0]);
    return PyBytes_FromStringAndSize(t.data, (Py_ssize_t)t.shape[0]);
}

static PyObject *row_tensor(module_state *st, const stk_batch *b, uint32_t output, uint32_t row)
{
    stk_tensor t;

    if (stk_batch_row(b, output, row, &t) < 0) {
        PyErr_SetString(PyExc_SystemError, "a row that is not there");
        return NULL;
    }
    return tensor_new(st, &t);
}

static size_t tensor_bytes(const stk_tensor *t)
{
    size_t n = stk_dtype_size(t->dtype);

    for (uint32_t i = 0; i < t->ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* All rows as one tensor of numbers, where they lie in one buffer.  0: they do not. */
static int rows_together(const stk_batch *b, uint32_t output, stk_tensor *all)
{
    const uint8_t *low = NULL, *high = NULL;
    stk_tensor t;

    for (uint32_t row = 0; row < stk_batch_rows(b); row++) {
        const uint8_t *at;

        if (stk_batch_row(b, output, row, &t) < 0)
            return 0;
        at = t.data;
        if (row && (t.buffer != all->buffer || t.dtype != all->dtype || t.gpu != all->gpu))
            return 0;
        if (!row) {
            *all = t;
            low = high = at;
        }
        low = at < low ? at : low;
        high = at + tensor_bytes(&t) > high ? at + tensor_bytes(&t) : high;
        if ((size_t)(at - (const uint8_t *)all->data) % stk_dtype_size(t.dtype))
            return 0;
    }
    all->data = (void *)(uintptr_t)low;
    all->ndim = 1;
    all->shape[0] = (int64_t)((size_t)(high - low) / stk_dtype_size(all->dtype));
    all->strides[0] = 1;
    return stk_batch_rows(b) > 1 && high > low;
}

static PyObject *numbers_tuple(const int64_t *v, uint32_t n)
{
    PyObject *out = PyTuple_New(n);

    for (uint32_t i = 0; out && i < n; i++) {
        PyObject *x = PyLong_FromLongLong(v[i]);

        if (!x || PyTuple_SetItem(out, i, x) < 0)
            Py_CLEAR(out);
    }
    return out;
}

/* (Tensor of all, [(shape, strides, first), ...]): one tensor is quicker handed over than many. */
static PyObject *rows_of_one(module_state *st, const stk_batch *b, uint32_t output,
                             const stk_tensor *all)
{
    uint32_t n = stk_batch_rows(b);
    PyObject *list = PyList_New(n);
    stk_tensor t;

    for (uint32_t row = 0; list && row < n; row++) {
        PyObject *v = NULL;

        if (stk_batch_row(b, output, row, &t) == 0)
            v = Py_BuildValue("(NNn)", numbers_tuple(t.shape, t.ndim),
                              numbers_tuple(t.strides, t.ndim),
                              (Py_ssize_t)((size_t)((uint8_t *)t.data - (uint8_t *)all->data) /
                                           stk_dtype_size(t.dtype)));
        if (!v || PyList_SetItem(list, row, v) < 0)
            Py_CLEAR(list);
    }
    return list ? Py_BuildValue("(NN)", tensor_new(st, all), list) : NULL;
}

/* A batch of large bytes objects makes the heap grow, and malloc would give all of it back to the
 * system when they die: every batch would fault its pages in again, which takes longer than the
 * copy.  Memory of that size, once freed, tells malloc (glibc's threshold follows what programs
 * free) to keep as much. */
static void expect_bytes(module_state *st, const stk_batch *b, uint32_t output)
{
    size_t bytes = 0;
    void *volatile room;
    stk_tensor t;

    for (uint32_t row = 0; row < stk_batch_rows(b); row++)
        bytes += stk_batch_row(b, output, row, &t) == 0 ? (size_t)t.shape[0] : 0;
    if (bytes <= st->most_bytes || bytes < HEAP_LEAST || bytes > HEAP_MOST)
        return;
    st->most_bytes = bytes;
    room = malloc(bytes);
    free(room);
}

static PyObject *output_rows(module_state *st, const stk_batch *b, uint32_t output)
{
    stk_out_kind kind = stk_batch_output_kind(b, output);
    uint32_t n = stk_batch_rows(b);
    PyObject *list;
    stk_tensor all;

    if (kind == STK_OUT_LIST && rows_together(b, output, &all))
        return rows_of_one(st, b, output, &all);
    list = PyList_New(n);
    if (kind == STK_OUT_BYTES)
        expect_bytes(st, b, output);
    for (uint32_t row = 0; list && row < n; row++) {
        PyObject *v = kind == STK_OUT_LIST ? row_tensor(st, b, output, row)
                                           : row_bytes(b, output, row, kind != STK_OUT_BYTES);

        if (!v || PyList_SetItem(list, row, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (dimensions, int64 sizes of every row) of a padded output, else None; scalars have none. */
static PyObject *output_lengths(const stk_batch *b, uint32_t output)
{
    uint32_t n = stk_batch_rows(b);
    size_t bytes = 0;
    PyObject *raw;
    stk_tensor t;
    char *at;

    if (!stk_batch_padded(b, output) || stk_batch_row(b, output, 0, &t) < 0 || !t.ndim)
        Py_RETURN_NONE;
    bytes = t.ndim * sizeof *t.shape;
    raw = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(n * bytes));
    at = raw ? PyByteArray_AsString(raw) : NULL;
    for (uint32_t row = 0; raw && row < n; row++)
        if (stk_batch_row(b, output, row, &t) == 0)
            memcpy(at + row * bytes, t.shape, bytes);
    return raw ? Py_BuildValue("(IN)", t.ndim, raw) : NULL;
}

/* Of rows of several pictures: (1 joined + 2 with frames, side of a block or 0, int64 grids of all
 * pictures, int64 numbers of the first one of each row, and of all). */
static PyObject *several_grid(const stk_batch *b, uint32_t output)
{
    uint32_t n = stk_batch_rows(b), of_row = 0, first = 0, block = 0;
    PyObject *raw, *bounds = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)((n + 1) * 8));
    int64_t *at = bounds ? (int64_t *)(void *)PyByteArray_AsString(bounds) : NULL;
    int64_t grid[3] = { 0 };
    char *to;

    for (uint32_t row = 0; at && row < n; row++) {
        first = stk_batch_pictures(b, output, row, &of_row);
        at[row] = first;
        at[row + 1] = first + of_row;
    }
    if (at && !n)
        at[0] = 0;
    raw = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)((first + of_row) * sizeof grid));
    to = raw ? PyByteArray_AsString(raw) : NULL;
    for (uint32_t i = 0; to && i < first + of_row; i++) {
        (void)stk_batch_picture_grid(b, output, i, grid);
        memcpy(to + i * sizeof grid, grid, sizeof grid);
    }
    block = stk_batch_picture_grid(b, output, first + of_row, grid);
    if (!raw || !bounds) {
        Py_XDECREF(raw);
        Py_XDECREF(bounds);
        return NULL;
    }
    return Py_BuildValue("(iINN)", stk_batch_joined(b, output) | (block && grid[0] ? 2 : 0), block,
                         raw, bounds);
}

/* (joined, side of a block, int64 grids of every row, None) of rows that are joined or patches,
 * else None; no grids: bytes of length 0. */
static PyObject *output_grid(const stk_batch *b, uint32_t output)
{
    uint32_t n = stk_batch_rows(b), block = 0;
    int64_t grid[3];
    PyObject *raw;
    char *at;

    if (stk_batch_several(b, output))
        return several_grid(b, output);
    if (n)
        block = stk_batch_grid(b, output, 0, grid);
    if (!block && !stk_batch_joined(b, output))
        Py_RETURN_NONE;
    raw = PyByteArray_FromStringAndSize(NULL, block ? (Py_ssize_t)(n * sizeof grid) : 0);
    at = raw ? PyByteArray_AsString(raw) : NULL;
    for (uint32_t row = 0; raw && block && row < n; row++) {
        (void)stk_batch_grid(b, output, row, grid);
        memcpy(at + row * sizeof grid, grid, sizeof grid);
    }
    return raw ? Py_BuildValue("(iINO)", stk_batch_joined(b, output), block, raw, Py_None) : NULL;
}

/* (frames of a row, int64 numbers, f64 seconds of all rows) of clips, else None. */
static PyObject *output_frames(const stk_batch *b, uint32_t output)
{
    uint32_t n, rows = stk_batch_rows(b);
    const stk_frame_at *f = stk_batch_frames(b, output, 0, &n);
    PyObject *number, *seconds;
    size_t all;

    if (!f)
        Py_RETURN_NONE;
    all = (size_t)rows * n;
    number = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(all * sizeof f->number));
    seconds = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(all * sizeof f->seconds));
    for (size_t i = 0; number && seconds && i < all; i++) {
        memcpy(PyByteArray_AsString(number) + i * sizeof f->number, &f[i].number, sizeof f->number);
        memcpy(PyByteArray_AsString(seconds) + i * sizeof f->seconds, &f[i].seconds,
               sizeof f->seconds);
    }
    if (number && seconds)
        return Py_BuildValue("(INN)", n, number, seconds);
    Py_XDECREF(number);
    Py_XDECREF(seconds);
    return NULL;
}

/* (name, is_json, value, lengths, grid, frames): value is a Tensor, a list of Tensors, bytes or
 * str, or
 * what rows_of_one() makes. */
static PyObject *output_tuple(module_state *st, const stk_batch *b, uint32_t output)
{
    stk_out_kind kind = stk_batch_output_kind(b, output);
    const char *name = stk_batch_output_name(b, output);
    PyObject *value;
    stk_tensor t;

    if (kind == STK_OUT_DENSE)
        value = stk_batch_dense(b, output, &t) == 0 ? tensor_new(st, &t) : NULL;
    else
        value = output_rows(st, b, output);
    if (!value && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "a dense output that has no tensor");
    return value ? Py_BuildValue("(siNNNN)", name, kind == STK_OUT_JSON, value,
                                 output_lengths(b, output), output_grid(b, output),
                                 output_frames(b, output))
                 : NULL;
}

static PyObject *outputs_list(module_state *st, const stk_batch *b)
{
    uint32_t n = stk_batch_outputs(b);
    PyObject *list = PyList_New(n);

    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *v = output_tuple(st, b, i);

        if (!v || PyList_SetItem(list, i, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *batch_take(module_state *st, stk_batch **b)
{
    Py_ssize_t n = stk_batch_rows(*b);
    PyObject *out;

    out = Py_BuildValue("(NNN)", outputs_list(st, *b),
                        PyBytes_FromStringAndSize((const char *)stk_batch_ids(*b),
                                                  n * (Py_ssize_t)sizeof(uint64_t)),
                        PyBytes_FromStringAndSize((const char *)stk_batch_valid(*b), n));
    stk_batch_release(b);
    return out;
}
