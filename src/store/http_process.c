/* SPDX-License-Identifier: Apache-2.0 */
/* http_process.c - the one HTTP client of a process: the first holder opens it, the last one
 * closes it, and other threads hand it requests, keys and halts.
 *
 * `lock` guards which client that is; it is taken before the client's own lock.  fork(): a handler
 * takes the lock before and gives it back after, and the child forgets the parent's client, whose
 * thread it does not have. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "store/credentials.h"
#include "store/http_client.h"
#include "store/store_cache.h"

static stk_mutex lock = STK_MUTEX_INITIALIZER;
static stk_client *the STK_GUARDED(lock); /* NULL: none is open */
static uint32_t holders STK_GUARDED(lock);
static int forks_seen STK_GUARDED(lock);   /* the handlers of fork() are installed */
static uint64_t clients STK_GUARDED(lock); /* opened so far */

static void before_fork(void) STK_UNCHECKED /* given back by the two below */
{
    stk_puller_before_fork();
    stk_mutex_lock(&lock);
    stk_store_before_fork();
}

static void after_fork_parent(void) STK_UNCHECKED
{
    stk_store_after_fork();
    stk_mutex_unlock(&lock);
    stk_puller_after_fork(0);
}

/* The parent's threads are not here, and its connections are not ours. */
static void after_fork_child(void) STK_UNCHECKED
{
    the = NULL;
    stk_keys_forked();
    stk_store_after_fork();
    stk_mutex_unlock(&lock);
    stk_puller_after_fork(1);
}

static int have_locked(stk_error *err) STK_REQUIRES(lock)
{
    if (!forks_seen)
        forks_seen = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    STK_TRY(the ? 0 : stk_client_open(&the, err));
    if (!the->number)
        the->number = ++clients;
    return 0;
}

int stk_http_hold(stk_error *err)
{
    int rc;

    stk_mutex_lock(&lock);
    rc = have_locked(err);
    holders += rc == 0;
    stk_mutex_unlock(&lock);
    return rc;
}

void stk_http_drop(void)
{
    stk_client *c = NULL;

    stk_mutex_lock(&lock);
    assert(holders > 0);
    if (!--holders) {
        c = the;
        the = NULL;
    }
    stk_mutex_unlock(&lock);
    stk_client_close(&c);
}

void stk_client_post(stk_key_look *l)
{
    stk_client *c;

    stk_mutex_lock(&lock);
    c = the;
    if (c && c->number == l->client) {
        stk_mutex_lock(&c->lock);
        l->next_found = c->found;
        c->found = l;
        stk_mutex_unlock(&c->lock);
        stk_client_wake(c);
    }
    stk_mutex_unlock(&lock);
}

void stk_http_look(void)
{
    stk_mutex_lock(&lock);
    if (the) {
        stk_mutex_lock(&the->lock);
        the->look = 1;
        stk_mutex_unlock(&the->lock);
        stk_client_wake(the);
    }
    stk_mutex_unlock(&lock);
}

int stk_source_owing(const char *url, stk_owing *out)
{
    int owes;

    stk_mutex_lock(&lock);
    owes = the && stk_client_owes(the, url, out);
    stk_mutex_unlock(&lock);
    return owes;
}

void stk_http_start(stk_transfer *t)
{
    stk_error err = { 0 };
    stk_client *c;
    int rc;

    if (!t->budget_ms)
        t->budget_ms = stk_store_patience(t->to->store, 0);
    t->own.deadline_ns = stk_now_ns() + (uint64_t)t->budget_ms * 1000000u;
    if (!t->halt)
        t->halt = stk_halt_mine();
    stk_answer_clear(&t->answer);
    stk_mutex_lock(&lock);
    rc = have_locked(&err); /* again in a forked child */
    c = the;
    stk_mutex_unlock(&lock);
    if (rc == 0) {
        stk_client_push(c, t);
        return;
    }
    t->rc = rc;
    snprintf(t->why, sizeof t->why, "%.150s", err.message);
    t->done(t);
}
