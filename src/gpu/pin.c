/* SPDX-License-Identifier: Apache-2.0 */
/* pin.c - page-locked memory for batches that stay here, and are read by a GPU at its leisure.
 *
 * A program that copies such a batch to a GPU without waiting, and lets go of it, must not find the
 * next batch in it.  So after the last holder an event is recorded on every stream that the
 * consumer was seen with, and the memory is used again when all of them have passed. */
#include "gpu/pin.h"

#include <assert.h>

#include "base/lock.h"
#include "base/mem.h"

#define STREAMS 4 /* that are told apart; the newest replaces the oldest */

struct stk_pins {
    const stk_cuda *cuda;
    int gpu;
    stk_mutex lock;
    void *stream[STREAMS]; /* lock */
    uint32_t n, next;      /* lock */
};

typedef struct mark { /* of one buffer */
    void *event[STREAMS];
    uint32_t n; /* recorded */
} mark;

static void *pin_alloc(void *cookie, size_t size)
{
    const stk_pins *p = cookie;
    void *out = NULL;

    return p->cuda->pinned_alloc(p->gpu, size, &out) == 0 ? out : NULL;
}

static void pin_free(void *cookie, void *at, size_t size)
{
    const stk_pins *p = cookie;

    (void)size;
    p->cuda->pinned_free(at);
}

/* NULL where no one was seen, or nothing can be noted: then the streams are waited for here. */
static void *pin_leave(void *cookie, void *old)
{
    stk_pins *p = cookie;
    mark *m = old ? old : STK_NEW(mark);
    void *stream[STREAMS];
    uint32_t n;

    stk_mutex_lock(&p->lock);
    n = p->n;
    assert(n <= STREAMS);
    for (uint32_t i = 0; i < n; i++)
        stream[i] = p->stream[i];
    stk_mutex_unlock(&p->lock);
    if (m)
        m->n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!m || (!m->event[i] && p->cuda->event_open(p->gpu, 0, &m->event[i])) ||
            p->cuda->event_record(p->gpu, m->event[i], stream[i]))
            (void)p->cuda->stream_sync(p->gpu, stream[i]);
        else
            m->n = i + 1;
    return m;
}

static int pin_ready(void *cookie, void *at, int wait)
{
    const stk_pins *p = cookie;
    mark *m = at;

    for (; m->n; m->n--)
        if (!p->cuda->event_done(p->gpu, m->event[m->n - 1], wait))
            return 0;
    return 1;
}

static void pin_forget(void *cookie, void *at)
{
    const stk_pins *p = cookie;
    mark *m = at;

    for (uint32_t i = 0; i < STREAMS; i++)
        if (m->event[i])
            p->cuda->event_close(p->gpu, m->event[i]);
    stk_free(m);
}

static void pin_close(void *cookie)
{
    stk_pins *p = cookie;

    stk_mutex_destroy(&p->lock);
    stk_free(p);
}

int stk_pins_open(stk_pins **out, int gpu, stk_memory *memory, stk_error *err)
{
    stk_pins *p = STK_NEW(stk_pins);
    int rc;

    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    rc = stk_cuda_load(&p->cuda, err);
    if (rc < 0) {
        stk_free(p);
        return rc;
    }
    p->gpu = gpu;
    stk_mutex_init(&p->lock);
    *memory = (stk_memory){ .abi = STK_PLUGIN_ABI,
                            .size = sizeof(stk_memory),
                            .name = "pinned",
                            .cookie = p,
                            .alloc = pin_alloc,
                            .free = pin_free,
                            .leave = pin_leave,
                            .ready = pin_ready,
                            .forget = pin_forget,
                            .close = pin_close };
    *out = p;
    return 0;
}

void stk_pins_seen(stk_pins *p, void *stream)
{
    uint32_t i = 0;

    stk_mutex_lock(&p->lock);
    while (i < p->n && p->stream[i] != stream)
        i++;
    if (i == p->n && p->n < STREAMS)
        p->stream[p->n++] = stream;
    else if (i == p->n)
        p->stream[p->next++ % STREAMS] = stream;
    stk_mutex_unlock(&p->lock);
}
