/* SPDX-License-Identifier: Apache-2.0 */
/* pystoker.h - what all files of the extension share.  They only convert: parse arguments, release
 * the GIL, call the library, raise exceptions.  Policy is in the .py files. */
#ifndef STOKER_PYSTOKER_H
#define STOKER_PYSTOKER_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000 /* meson's limited_api gives it too */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stoker/plugin.h>
#include <stoker/stoker.h>

typedef struct log_bridge log_bridge;

typedef struct module_state {
    PyTypeObject *tensor, *dataset, *loader, *writer, *put, *transform, *giver, *ring, *slot,
        *sampler, *calls, *ops;
    PyObject *own_ops;    /* Ops of the user's own, for what is opened from now on; NULL: none */
    PyObject *make_error; /* stoker.errors.from_code */
    PyObject *emit;       /* stoker._log.emit */
    log_bridge *log;      /* cookie of log_line() */
    size_t most_bytes;    /* of a batch's rows that were made as bytes objects, so far */
} module_state;

typedef struct dataset_object {
    PyObject_HEAD stk_dataset *ds; /* NULL: __init__ has not run or failed */
    Py_buffer *view;               /* memory that arrays are in, lent by other objects */
    Py_ssize_t n_views;
} dataset_object;

extern PyType_Spec tensor_spec, dataset_spec, loader_spec, writer_spec, put_spec, transform_spec,
    giver_spec, ring_spec, slot_spec, sampler_spec, calls_spec, ops_spec;

module_state *state_of(PyObject *self); /* of an object of our types */

/* py_store.c: store(...) returns a capsule; store_of() borrows its content, and returns NULL
 * without an error for None and NULL. */
PyObject *module_store(PyObject *module, PyObject *args, PyObject *kwargs);
stk_store *store_of(PyObject *capsule);
/* py_diagnosis.c */
PyObject *module_diagnose(PyObject *module, PyObject *args);
PyObject *module_drift_of(PyObject *module, PyObject *args);
PyObject *module_plan_need(PyObject *module, PyObject *arg);
PyObject *module_gpu_use(PyObject *module, PyObject *arg);
/* Sets the exception for `rc`; always returns NULL. */
PyObject *raise_error(module_state *st, int rc, const stk_error *err);
PyObject *none_or_error(module_state *st, int rc, const stk_error *err); /* rc < 0: raised */

/* py_signals.c */
void signals_ask(void);  /* lets this thread check for signals while it waits in the library */
int signals_raise(void); /* -1: a signal's handler raised before; its exception is set now */
void signals_keep(void); /* call when a handler has raised: stores it for signals_raise() */

/* py_log.c: passes the library's log lines to `emit`, which log_start() borrows, until
 * log_stop(). */
log_bridge *log_start(PyObject *emit); /* NULL: no memory */
void log_stop(log_bridge *b);
void log_line(void *cookie, stk_log_level level, const char *line); /* a stk_log_fn */
#define LOG_LINES 16
typedef struct log_lines {
    uint32_t n;
    stk_log_level level[LOG_LINES];
    char *line[LOG_LINES];
} log_lines;
void log_defer(log_lines *to); /* collects the calling thread's lines in *to; NULL: ends that */
/* Emits the collected lines and empties the list; needs the GIL.  -1: a signal's handler raised. */
int log_flush(log_bridge *b, log_lines *lines);

/* A C string that may be no UTF-8 (shard names, keys); round-trips by surrogateescape. */
PyObject *text_from(const char *s, size_t len);

/* A Tensor that takes its own reference to t->buffer. */
PyObject *tensor_new(module_state *st, const stk_tensor *t);

/* keys(data sets, ids as int64 bytes): the samples' keys, counted through all data sets. */
PyObject *dataset_keys(PyObject *module, PyObject *args);
/* A list of bytes objects as C strings that borrow from them; freed with PyMem_Free(). */
const char **strings_of(PyObject *list, size_t *n);
/* py_arrays.c: join([(name, paths or buffer, dtype, shape of a row, rows, stride), ...]) */
PyObject *dataset_join(PyObject *module, PyObject *list);
PyObject *dataset_from_arrow(PyObject *module, PyObject *args);
/* py_stream.c */
PyObject *stream_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *stream_chosen(PyObject *module, PyObject *ds); /* (streams, window) */
PyObject *stream_tell(PyObject *module, PyObject *args);
PyObject *stream_seek(PyObject *module, PyObject *args);
PyObject *dataset_kind(PyObject *self, PyObject *unused);
int dims_of(PyObject *tuple, int64_t *out); /* a tuple of at most 8 numbers; how many, or -1 */
void views_release(dataset_object *self);
/* Methods of Dataset (py_column.c).  A type is that of stk_column_type; numbers come as the bytes
 * of int64 or float64, texts as a list of str or None. */
PyObject *dataset_columns(PyObject *self, PyObject *unused);
PyObject *dataset_column(PyObject *self, PyObject *args);
PyObject *dataset_arrow(PyObject *self, PyObject *unused); /* a capsule "arrow_array_stream" */
/* pack_lengths(array of u32, block, best, window): (rows, tokens). */
PyObject *pack_lengths(PyObject *module, PyObject *args);
/* find_keys(data sets, keys as bytes): pairs of u64 (number of the key, id of a sample). */
PyObject *dataset_find_keys(PyObject *module, PyObject *args);
PyObject *index_build(PyObject *module, PyObject *args); /* py_dataset.c */
PyObject *object_list(PyObject *module, PyObject *args); /* py_object.c, with the next ones */
PyObject *object_read(PyObject *module, PyObject *args);
PyObject *video_info(PyObject *module, PyObject *args);
PyObject *object_write(PyObject *module, PyObject *args);
PyObject *object_remove(PyObject *module, PyObject *args);
PyObject *object_writable(PyObject *module, PyObject *args);
PyObject *object_sweep(PyObject *module, PyObject *args);
PyObject *pack_dataset(PyObject *module, PyObject *args, PyObject *kwargs); /* py_writer.c */
PyObject *pack_ids(PyObject *module, PyObject *args, PyObject *kwargs);

/* py_sampling.c: what the keyword `sampling` of a loader says, and the memory it is in. */
#define SAMPLING_ARRAYS 6

typedef struct sampling {
    Py_buffer view[SAMPLING_ARRAYS];
    unsigned n;
} sampling;

/* Fill the options from a tuple (None: nothing); -1 with an exception set.  They borrow from it
 * until sampling_free(), which is fine after a failure too. */
int sampling_parse(PyObject *tuple, sampling *s, stk_loader_options *o);
void sampling_free(sampling *s);

/* py_loader.c: options as words, name -> text, which the dict keeps alive; -1 with an exception
 * set. */
int options_parse(PyObject *obj, PyObject *words, stk_loader_options *o);

/* Weights of a mixture: all changes as tuples (from, parts, base), and back. */
PyObject *mix_tuples(const stk_loader *l);
PyObject *changes_list(int (*get)(const void *cookie, uint64_t i, stk_mix_change_info *out),
                       const void *cookie);
typedef struct mix_list {
    stk_mix_change_info *change;
    size_t n;
    void *memory;
} mix_list;
int mix_parse(PyObject *tuples, mix_list *out); /* -1 with an exception set */
void mix_free(mix_list *m);
/* Floats of a tuple; NULL with an exception set, else PyMem_Free() it. */
double *floats_of(PyObject *tuple);

/* py_ring.c: addresses(seed, epoch, positions), twister(address, which), set_twisters(...). */
PyObject *ring_addresses(PyObject *module, PyObject *args);
PyObject *ring_twister(PyObject *module, PyObject *args);
PyObject *ring_set_twisters(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *die_with_parent(PyObject *module, PyObject *unused);
PyObject *keep_heap(PyObject *module, PyObject *unused);
PyObject *pick_plain(PyObject *module, PyObject *const *args, Py_ssize_t n);

/* py_ops.c: what chains may name, for what is opened now; NULL: what ships. */
stk_registry *registry_now(const module_state *st);
PyObject *module_use_ops(PyObject *module, PyObject *ops);

void free_object(PyObject *self); /* the end of every tp_dealloc */

#endif
