/* SPDX-License-Identifier: Apache-2.0 */
/* halt.c - which halt is a thread's own, and waits that look at it. */
#include "base/halt.h"

#include <time.h>

static _Thread_local const stk_halt *mine;
static _Thread_local stk_asking asking;

const stk_halt *stk_halt_mine(void)
{
    return mine;
}

const stk_halt *stk_halt_enter(const stk_halt *h)
{
    const stk_halt *was = mine;

    mine = h;
    return was;
}

void stk_thread_ask(stk_asked_fn asked, void *cookie)
{
    asking = (stk_asking){ asked, cookie };
}

stk_asking stk_thread_hush(void)
{
    stk_asking was = asking;

    asking = (stk_asking){ 0 };
    return was;
}

int stk_halt_wanted(void)
{
    return stk_halt_is(mine) || (asking.asked && asking.asked(asking.cookie));
}

int stk_fail_halted(stk_error *err)
{
    return stk_fail(err, STK_ECLOSED, "interrupted while it waited");
}

int stk_halt_sleep(uint32_t ms)
{
    if (stk_halt_wanted())
        return STK_ECLOSED;
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
    return 0;
}

void stk_halt_cond_wait(pthread_cond_t *c, stk_mutex *l)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += STK_HALT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)stk_cond_timedwait(c, l, &until);
}

void stk_wait_init(stk_wait *w, uint32_t n)
{
    pthread_condattr_t monotonic;

    stk_mutex_init(&w->lock);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->came, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->left = n;
}

void stk_wait_fini(stk_wait *w)
{
    pthread_cond_destroy(&w->came);
    stk_mutex_destroy(&w->lock);
}

void stk_wait_came(stk_wait *w)
{
    stk_mutex_lock(&w->lock);
    if (!--w->left)
        pthread_cond_signal(&w->came);
    stk_mutex_unlock(&w->lock);
}

int stk_wait_look(stk_wait *w)
{
    uint32_t left = 1;

    for (int looks = 0; left; looks++) {
        if (looks && stk_halt_wanted()) /* a short wait asks nothing */
            return STK_ECLOSED;
        stk_mutex_lock(&w->lock);
        if (w->left)
            stk_halt_cond_wait(&w->came, &w->lock);
        left = w->left;
        stk_mutex_unlock(&w->lock);
    }
    return 0;
}

void stk_wait_all(stk_wait *w)
{
    stk_mutex_lock(&w->lock);
    while (w->left)
        stk_cond_wait(&w->came, &w->lock);
    stk_mutex_unlock(&w->lock);
}
