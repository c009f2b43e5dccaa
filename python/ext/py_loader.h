/* SPDX-License-Identifier: Apache-2.0 */
/* py_loader.h - a loader object and its lock.
 *
 * A stk_loader is used by one thread at a time, but without the GIL several Python threads may call
 * it.  So every call takes `lock`, always after the GIL was released.  Functions that read figures
 * take `figures` instead, so that they never wait for next(); only they and close() hold it.  A
 * process that inherited the object through fork never touches the locks: their holder may be a
 * thread that it does not have. */
#ifndef STOKER_PY_LOADER_H
#define STOKER_PY_LOADER_H

#include <unistd.h>

#include "py_batch.h"

#define MAX_DRAWN 1024 /* 32 outputs of 32 steps */

typedef struct drawn {
    uint32_t output, step;
    const char *op; /* static, or NULL: as it was read */
    stk_view view;
} drawn;

struct drawn_list { /* draws of the row that is being made; a watched loader has no threads */
    uint32_t n;
    drawn at[MAX_DRAWN];
};

typedef struct drawn_list drawn_list;
typedef struct stage_queue stage_queue; /* py_stage.c */

typedef struct loader_object {
    PyObject_HEAD stk_loader *l; /* either lock reads it, close() has both; NULL: closed */
    PyThread_type_lock lock, figures;
    pid_t pid;
    drawn_list *drawn;  /* lock; NULL: draws are not watched */
    PyObject *data;     /* the data sets, some of which lend memory to the threads */
    PyObject *calls;    /* functions of the chains; NULL: none */
    stage_queue *ahead; /* batches for functions of batch_ops; NULL: none */
} loader_object;

static inline void raise_closed(PyObject *obj, const char *why)
{
    stk_error err = { .offset = STK_NO_OFFSET, .sample = UINT64_MAX };

    raise_error(state_of(obj), stk_fail(&err, STK_ECLOSED, "%s", why), &err);
}

/* 0 with `with` held, one of the two locks, or -1 with an exception set. */
static inline int enter_with(loader_object *self, PyThread_type_lock with)
{
    if (!self->lock || self->pid != getpid()) {
        raise_closed((PyObject *)self, self->lock ? "this loader was made in another process and "
                                                    "came here through fork, without its threads: "
                                                    "make one in this process"
                                                  : "this loader was never opened");
        return -1;
    }
    /* Figures keep the GIL if they can: to get it back may take milliseconds. */
    if (with == self->lock || !PyThread_acquire_lock(with, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(with, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    if (self->l) {
        if (with == self->lock) /* a handler may want the loader, which would wait for itself */
            stk_thread_ask(NULL, NULL);
        return 0;
    }
    PyThread_release_lock(with);
    raise_closed((PyObject *)self, "this loader is closed");
    return -1;
}

static inline int enter(loader_object *self)
{
    return enter_with(self, self->lock);
}

static inline void leave(loader_object *self)
{
    PyThread_release_lock(self->lock);
    signals_ask();
}

static inline int look(loader_object *self)
{
    return enter_with(self, self->figures);
}

static inline void look_away(loader_object *self)
{
    PyThread_release_lock(self->figures);
}

PyObject *loader_sight(PyObject *self, PyObject *unused); /* py_diagnosis.c */
PyObject *loader_trace(PyObject *self, PyObject *args);
PyObject *loader_trace_text(PyObject *self, PyObject *unused);
PyObject *loader_set_ahead(PyObject *self, PyObject *args);

/* py_figures.c */
PyObject *loader_stats(PyObject *self, PyObject *unused);
PyObject *loader_metrics(PyObject *self, PyObject *unused);
PyObject *loader_doing(PyObject *self, PyObject *args);
PyObject *loader_by_workers(PyObject *self, PyObject *args);
PyObject *loader_in_parts(PyObject *self, PyObject *args);
PyObject *loader_reads_whole(PyObject *self, PyObject *args);
PyObject *loader_waiting(PyObject *self, PyObject *unused);
PyObject *loader_skipped(PyObject *self, PyObject *args);

/* py_next.c: methods of Loader that give batches. */
PyObject *loader_next(PyObject *self, PyObject *epoch);
PyObject *loader_peek(PyObject *self, PyObject *epoch);
PyObject *loader_give(PyObject *self, PyObject *args);
PyObject *loader_again(PyObject *self, PyObject *unused);

/* py_drawn.c */
extern const stk_draw_observer drawn_noting;
PyObject *loader_drawn(PyObject *self, PyObject *unused);
PyObject *loader_find(PyObject *self, PyObject *args);

/* py_stage.c */
stage_queue *stage_queue_open(void);
stk_stage stage_of(stage_queue *q);
void stage_queue_shut(stage_queue *q);
void stage_queue_close(stage_queue **q);
PyObject *loader_ahead(PyObject *self, PyObject *unused);
PyObject *loader_ahead_done(PyObject *self, PyObject *args);

#endif
