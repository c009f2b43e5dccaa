/* SPDX-License-Identifier: Apache-2.0 */
/* request_wait.c - requests outside an engine (`stoker cat`, ds[i], columns): their caller waits,
 * and nothing is done meanwhile. */
#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "fetch/reads.h"

typedef struct waiting { /* a thread, for others to finish a block */
    stk_mutex lock;
    pthread_cond_t cond;
    int over; /* lock */
} waiting;

static void waiting_end(stk_request *r)
{
    waiting *p = r->owner;

    stk_mutex_lock(&p->lock);
    p->over = 1;
    pthread_cond_signal(&p->cond);
    stk_mutex_unlock(&p->lock);
}

static void waiting_wait(waiting *p)
{
    stk_mutex_lock(&p->lock);
    while (!p->over)
        stk_cond_wait(&p->cond, &p->lock);
    p->over = 0;
    stk_mutex_unlock(&p->lock);
}

/* Blocks that other threads read or unpack are waited for after our own are read: no deadlock. */
static int wait_blocks(stk_request *r, stk_error *err)
{
    waiting p = { .lock = STK_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
    int rc;

    r->arrived = waiting_end;
    r->owner = &p;
    memset(r->reads.missing, 0, r->reads.n);
    if (stk_request_submit(r, NULL, NULL, err) == STK_PENDING)
        waiting_wait(&p);
    while ((rc = stk_request_finish(r, err)) == STK_PENDING)
        waiting_wait(&p);
    return rc;
}

int stk_request_wait(stk_request *r, void *dst, stk_error *err)
{
    assert(!r->account);
    stk_reads_place(r, dst);
    for (uint32_t i = 0; i < r->reads.n; i++) {
        stk_io *io = &r->reads.io[i];

        if (io->len)
            STK_TRY(stk_file_read(io->file, io->offset, io->dst, io->len, err));
        io->got = io->len;
    }
    return r->blocks ? wait_blocks(r, err) : stk_request_finish(r, err);
}

int stk_request_read_first(stk_request *r, stk_error *err)
{
    stk_reads_plan(r, 0);
    STK_TRY(stk_request_size_check(r, 0, err));
    stk_request_free_buffer(r);
    r->memory.buf = stk_large_alloc((size_t)r->reads.total + 1);
    if (!r->memory.buf)
        return stk_fail_nomem(err, (size_t)r->reads.total);
    r->memory.cap = (size_t)r->reads.total + 1;
    STK_TRY(stk_request_wait(r, r->memory.buf, err));
    return stk_request_second(r, err);
}
