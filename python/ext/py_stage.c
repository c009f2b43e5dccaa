/* SPDX-License-Identifier: Apache-2.0 */
/* py_stage.c - a stage whose work is done by a thread of Python, ahead of the consumer.
 *
 * Workers put batches into a queue and go on; they never wait for the GIL.  One thread of Python
 * takes them in turn (ahead), calls its functions, and says that the batch is whole (ahead_done).
 * So order, state and ledger stay the loader's.  Once the queue is shut, batches fail at once: the
 * thread that drains the loader waits for the one batch in hand at most. */
#include <pthread.h>
#include <stdlib.h>

#include "py_loader.h"

typedef struct item {
    struct item *next;
    stk_batch *batch;
    stk_ticket *ticket;
} item;

struct stage_queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    item *first, **end; /* lock */
    item *current;      /* the Python thread's; lock */
    int shut;           /* lock */
};

stage_queue *stage_queue_open(void)
{
    stage_queue *q = calloc(1, sizeof *q);

    if (!q)
        return NULL;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    q->end = &q->first;
    return q;
}

static int put(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err)
{
    stage_queue *q = state;
    item *i = calloc(1, sizeof *i);
    int shut;

    if (!i)
        return stk_fail(err, STK_ENOMEM, "out of memory for a batch of batch_ops");
    *i = (item){ NULL, b, ticket };
    stk_batch_ref(b);
    pthread_mutex_lock(&q->lock);
    shut = q->shut;
    if (!shut) {
        *q->end = i;
        q->end = &i->next;
        pthread_cond_signal(&q->more);
    }
    pthread_mutex_unlock(&q->lock);
    if (!shut)
        return STK_PENDING;
    stk_batch_release(&i->batch);
    free(i);
    return stk_fail(err, STK_ECLOSED, "the loader is being closed");
}

stk_stage stage_of(stage_queue *q)
{
    return (stk_stage){ .abi = STK_PLUGIN_ABI,
                        .size = sizeof(stk_stage),
                        .name = "batch_ops",
                        .state = q,
                        .run = put };
}

static void finish(item *i, int rc, const stk_error *err)
{
    stk_ticket *t = i->ticket;

    stk_batch_release(&i->batch);
    free(i);
    stk_ticket_done(t, rc, err);
}

void stage_queue_shut(stage_queue *q)
{
    stk_error err = { 0 };
    item *i;

    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->shut = 1;
    i = q->first;
    q->first = NULL;
    q->end = &q->first;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
    while (i) {
        item *next = i->next;

        finish(i, stk_fail(&err, STK_ECLOSED, "the loader is being closed"), &err);
        i = next;
    }
}

void stage_queue_close(stage_queue **q)
{
    if (*q) {
        pthread_mutex_destroy(&(*q)->lock);
        pthread_cond_destroy(&(*q)->more);
        free(*q);
    }
    *q = NULL;
}

/* The next batch, or NULL once the queue is shut. */
static item *wait_for_item(stage_queue *q)
{
    item *i;

    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->shut)
        pthread_cond_wait(&q->more, &q->lock);
    i = q->first;
    if (i) {
        q->first = i->next;
        if (!q->first)
            q->end = &q->first;
    }
    q->current = i;
    pthread_mutex_unlock(&q->lock);
    return i;
}

PyObject *loader_ahead(PyObject *obj, PyObject *unused)
{
    stage_queue *q = ((loader_object *)obj)->ahead;
    unsigned long long serial, epoch, step;
    stk_batch *b;
    item *i;

    (void)unused;
    if (!q)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    i = wait_for_item(q);
    Py_END_ALLOW_THREADS
    if (!i)
        Py_RETURN_NONE;
    b = i->batch;
    stk_batch_ref(b);
    serial = stk_batch_serial(b);
    epoch = stk_batch_epoch(b);
    step = stk_batch_step(b);
    return Py_BuildValue("(NKKK)", batch_take(state_of(obj), &b), serial, epoch, step);
}

/* (None or what went wrong): the batch that ahead() answered is whole. */
PyObject *loader_ahead_done(PyObject *obj, PyObject *args)
{
    stage_queue *q = ((loader_object *)obj)->ahead;
    stk_error err = { .offset = STK_NO_OFFSET, .sample = UINT64_MAX };
    const char *why;
    item *i;
    int rc = 0;

    if (!PyArg_ParseTuple(args, "z:ahead_done", &why))
        return NULL;
    pthread_mutex_lock(&q->lock);
    i = q->current;
    q->current = NULL;
    pthread_mutex_unlock(&q->lock);
    if (why)
        rc = stk_fail(&err, STK_EINVAL, "%s", why);
    Py_BEGIN_ALLOW_THREADS
    if (i)
        finish(i, rc, &err);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
