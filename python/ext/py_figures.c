/* SPDX-License-Identifier: Apache-2.0 */
/* py_figures.c - figures of a loader as dicts and as text.  Any thread may ask at any time. */
#include <string.h>

#include "py_loader.h"

/* {name of a stage: what `make` gives for it}. */
static PyObject *by_stage(const stk_stats *s, PyObject *(*make)(const stk_stats *s, int stage))
{
    PyObject *d = PyDict_New();

    for (int i = 0; d && i < STK_STAGES; i++) {
        PyObject *v = make(s, i);

        if (!v || PyDict_SetItemString(d, stk_stage_name((stk_stage_id)i), v) < 0)
            Py_CLEAR(d);
        Py_XDECREF(v);
    }
    return d;
}

static PyObject *stage_seconds(const stk_stats *s, int stage)
{
    return PyFloat_FromDouble((double)s->stage_ns[stage] * 1e-9);
}

/* What the GPU keeps; None where it keeps nothing. */
static PyObject *cache_dict(const stk_stats *s)
{
    if (!s->gpu_cache_limit)
        Py_RETURN_NONE;
    return Py_BuildValue("{sKsKsKsKsK}", "bytes", (unsigned long long)s->gpu_cache_bytes, "limit",
                         (unsigned long long)s->gpu_cache_limit, "entries",
                         (unsigned long long)s->gpu_cache_entries, "hits",
                         (unsigned long long)s->gpu_cache_hits, "misses",
                         (unsigned long long)s->gpu_cache_misses);
}

static PyObject *memory_dict(const stk_stats *s)
{
    unsigned long long b = s->memory_batches, r = s->memory_reads;
    unsigned long long k = s->memory_blocks, t = s->memory_scratch;

    return Py_BuildValue("{sKsKsKsK}", "batches", b, "reads", r, "blocks", k, "scratch", t);
}

/* What the GPU did; None where there is none. */
static PyObject *gpu_dict(const stk_stats *s)
{
    if (!s->gpu_memory_limit)
        Py_RETURN_NONE;
    return Py_BuildValue(
        "{sdsdsKsKsKsKsKsdsKsKsKsN}", "copy_s", (double)s->gpu_copy_ns * 1e-9, "picture_s",
        (double)s->gpu_picture_ns * 1e-9, "bytes", (unsigned long long)s->gpu_bytes, "jpegs",
        (unsigned long long)s->gpu_jpegs, "redecoded", (unsigned long long)s->gpu_redecoded,
        "clips", (unsigned long long)s->gpu_clips, "clips_by_workers",
        (unsigned long long)s->gpu_clips_by_workers, "clip_queue_s",
        (double)s->gpu_clip_queue_ns * 1e-9, "memory", (unsigned long long)s->gpu_memory,
        "memory_peak", (unsigned long long)s->gpu_memory_peak, "memory_limit",
        (unsigned long long)s->gpu_memory_limit, "cache", cache_dict(s));
}

/* Of a stage: (seconds, how many took so long or longer, but less than twice that), none left out
 * between the first and the last. */
static PyObject *histogram(const stk_stats *s, int stage)
{
    const uint32_t *n = s->stage_times[stage];
    int first = 0, end = STK_TIMES;
    PyObject *list;

    while (first < end && !n[first])
        first++;
    while (end > first && !n[end - 1])
        end--;
    list = PyList_New(end - first);
    for (int k = first; list && k < end; k++) {
        PyObject *v = Py_BuildValue("(dI)", (double)((uint64_t)1 << k) * s->tick_ns * 1e-9, n[k]);

        if (!v || PyList_SetItem(list, k - first, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (stage, ticket, seconds) of what worker i does; None past the last. */
PyObject *loader_doing(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    stk_doing d;
    unsigned i;
    int rc;

    if (!PyArg_ParseTuple(args, "I:doing", &i) || look(self) < 0)
        return NULL;
    rc = stk_loader_doing(self->l, i, &d);
    look_away(self);
    if (rc != 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(sKd)", stk_stage_name(d.stage), (unsigned long long)d.ticket,
                         (double)d.ns * 1e-9);
}

PyObject *loader_by_workers(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    char why[400];
    size_t len;
    unsigned i;

    if (!PyArg_ParseTuple(args, "I:by_workers", &i) || look(self) < 0)
        return NULL;
    len = stk_loader_by_workers(self->l, i, why, sizeof why);
    look_away(self);
    if (!len)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
}

PyObject *loader_in_parts(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    uint64_t rows;
    unsigned i;

    if (!PyArg_ParseTuple(args, "I:in_parts", &i) || look(self) < 0)
        return NULL;
    rows = stk_loader_in_parts(self->l, i);
    look_away(self);
    return PyLong_FromUnsignedLongLong(rows);
}

PyObject *loader_reads_whole(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    const char *why;
    unsigned i;

    if (!PyArg_ParseTuple(args, "I:reads_whole", &i) || look(self) < 0)
        return NULL;
    why = stk_loader_reads_whole(self->l, i);
    look_away(self);
    return Py_BuildValue("z", why);
}

/* Where the consumer's time in next() went. */
static PyObject *wait_dict(const stk_stats *s)
{
    uint64_t parts = s->wait_ns + s->repair_ns + s->ledger_ns;
    uint64_t rest = s->next_ns > parts ? s->next_ns - parts : 0;

    return Py_BuildValue("{sdsdsdsdsdsdsdsd}", "reads_s", (double)s->read_wait_ns * 1e-9,
                         "memory_s", (double)s->room_ns * 1e-9, "first_s",
                         (double)s->first_wait_ns * 1e-9, "data_s", (double)s->wait_ns * 1e-9,
                         "repair_s", (double)s->repair_ns * 1e-9, "ledger_s",
                         (double)s->ledger_ns * 1e-9, "rest_s", (double)rest * 1e-9, "now_s",
                         (double)s->waiting_ns * 1e-9);
}

static PyObject *ring_dict(const stk_stats *s)
{
    return Py_BuildValue("{sIsIsIsI}", "slots", s->slots, "ahead", s->ring_ahead, "open",
                         s->ring_open, "ready", s->ring_ready);
}

static int snapshot(PyObject *obj, stk_stats *s)
{
    loader_object *self = (loader_object *)obj;

    if (look(self) < 0)
        return -1;
    stk_loader_stats(self->l, s);
    look_away(self);
    return 0;
}

PyObject *loader_stats(PyObject *obj, PyObject *unused)
{
    stk_stats s = { .size = sizeof s };

    (void)unused;
    if (snapshot(obj, &s) < 0)
        return NULL;
    return Py_BuildValue(
        "{sKsKsKsKsKsIsIsNsNsdsdsdsdsKsKsKsKszsKsKsKsNsIsKsKsKsKsKsKsNsNsN}", "samples",
        (unsigned long long)s.samples, "handed_out", (unsigned long long)s.handed_out, "batches",
        (unsigned long long)s.batches, "bytes", (unsigned long long)s.bytes, "bytes_unread",
        (unsigned long long)s.bytes_unread, "workers", s.workers, "slots", s.slots, "stages",
        by_stage(&s, stage_seconds), "gpu", gpu_dict(&s), "wait_s", (double)s.wait_ns * 1e-9,
        "first_batch_s", (double)s.first_batch_ns * 1e-9, "elapsed_s", (double)s.elapsed_ns * 1e-9,
        "open_s", (double)s.open_ns * 1e-9, "remote_reads", (unsigned long long)s.remote_reads,
        "skipped", (unsigned long long)s.skipped, "retried_reads",
        (unsigned long long)s.retried_reads, "cold_reads", (unsigned long long)s.cold_reads,
        "cold_by", s.cold_by, "memory", (unsigned long long)s.memory, "memory_peak",
        (unsigned long long)s.memory_peak, "memory_limit", (unsigned long long)s.memory_limit,
        "memory_of", memory_dict(&s), "held", s.held, "jpeg_seek", (unsigned long long)s.jpeg_seek,
        "jpeg_misfit", (unsigned long long)s.jpeg_misfit, "jpeg_fallback",
        (unsigned long long)s.jpeg_fallback, "jpeg_learned", (unsigned long long)s.jpeg_learned,
        "packed_tokens", (unsigned long long)s.packed_tokens, "packed_room",
        (unsigned long long)s.packed_room, "wait", wait_dict(&s), "ring", ring_dict(&s),
        "histograms", by_stage(&s, histogram));
}

/* The figures as OpenMetrics text. */
PyObject *loader_metrics(PyObject *obj, PyObject *unused)
{
    stk_stats s = { .size = sizeof s };
    PyObject *text;
    size_t len;
    char *out;

    (void)unused;
    if (snapshot(obj, &s) < 0)
        return NULL;
    len = stk_stats_metrics(&s, NULL, 0);
    out = PyMem_Malloc(len + 1);
    if (!out)
        return PyErr_NoMemory();
    stk_stats_metrics(&s, out, len + 1);
    text = PyUnicode_FromStringAndSize(out, (Py_ssize_t)len);
    PyMem_Free(out);
    return text;
}

/* What next() waits for, as a dict; None: it does not, or not for a second yet. */
PyObject *loader_waiting(PyObject *obj, PyObject *unused)
{
    loader_object *self = (loader_object *)obj;
    stk_waiting w;
    int rc;

    (void)unused;
    if (look(self) < 0)
        return NULL;
    rc = stk_loader_waiting(self->l, &w);
    look_away(self);
    if (rc != 0)
        Py_RETURN_NONE;
    return Py_BuildValue("{sdsKsKsNsNsIsN}", "seconds", (double)w.ns * 1e-9, "epoch",
                         (unsigned long long)w.epoch, "step", (unsigned long long)w.step, "shard",
                         text_from(w.shard, strlen(w.shard)), "host",
                         text_from(w.host, strlen(w.host)), "retries", w.retries, "text",
                         text_from(w.text, strlen(w.text)));
}

/* (shard, offset or -1, key, reason) of a skipped sample; None past the last. */
PyObject *loader_skipped(PyObject *obj, PyObject *args)
{
    loader_object *self = (loader_object *)obj;
    unsigned long long i;
    stk_error e;
    int rc;

    if (!PyArg_ParseTuple(args, "K:skipped", &i) || look(self) < 0)
        return NULL;
    rc = stk_loader_skipped(self->l, i, &e);
    look_away(self);
    if (rc != 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(NLNN)", text_from(e.shard, strlen(e.shard)),
                         e.offset == STK_NO_OFFSET ? -1LL : (long long)e.offset,
                         text_from(e.key, strlen(e.key)), text_from(e.message, strlen(e.message)));
}
