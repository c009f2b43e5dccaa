/* SPDX-License-Identifier: Apache-2.0 */
/* key_look.c - keys are looked up by a thread for the purpose, which asks servers and runs programs
 * and functions.
 *
 * Transfers wait for it in a list and can be told to end; the thread is left to itself then, so
 * that closing waits for no one's metadata server. */
#include <pthread.h>
#include <stdio.h>

#include "base/thread.h"
#include "store/credentials.h"
#include "store/http_client.h"

static void unref(stk_key_look *l)
{
    if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    stk_store_unref(&l->store);
    stk_free(l);
}

static void *look_main(void *arg)
{
    stk_key_look *l = arg;
    stk_error err;

    stk_halt_enter(&l->halt);
    stk_error_clear(&err);
    l->rc = stk_keys_find(l->store, l->of, l->turn, &err);
    if (l->rc < 0)
        snprintf(l->why, sizeof l->why, "%.150s", err.message);
    stk_client_post(l);
    unref(l);
    return NULL;
}

static stk_key_look *begin(stk_client *c, const stk_transfer *t)
{
    stk_key_look *l = STK_NEW(stk_key_look);
    pthread_t thread;

    if (!l)
        return NULL;
    atomic_init(&l->refs, 2);
    l->client = c->number;
    l->store = stk_store_ref(t->to->store);
    l->of = t->to->dialect;
    l->turn = t->own.keys_turn;
    if (stk_thread_start(&thread, look_main, l, "stk-keys") < 0) {
        atomic_store_explicit(&l->refs, 1, memory_order_relaxed);
        unref(l);
        return NULL;
    }
    pthread_detach(thread);
    l->next = c->looks;
    return c->looks = l;
}

static int serves(const stk_key_look *l, const stk_transfer *t)
{
    return l->store == t->to->store && l->of == t->to->dialect && l->turn == t->own.keys_turn &&
           !stk_halt_is(&l->halt);
}

void stk_client_keys(stk_client *c, stk_transfer *t)
{
    stk_key_look *l = c->looks;

    while (l && !serves(l, t))
        l = l->next;
    if (!l)
        l = begin(c, t);
    if (!l) {
        t->rc = STK_ENOMEM;
        snprintf(t->why, sizeof t->why, "no thread could be started");
        stk_client_finish(t);
        return;
    }
    t->next = l->wait;
    l->wait = t;
}

void stk_client_found(stk_client *c, stk_key_look *list)
{
    for (stk_key_look *l = list, *next; l; l = next) {
        stk_key_look **at = &c->looks;

        next = l->next_found;
        while (*at != l)
            at = &(*at)->next;
        *at = l->next;
        for (stk_transfer *t = l->wait, *more; t; t = more) {
            more = t->next;
            t->own.keys_rc = l->rc;
            if (l->rc < 0)
                memcpy(t->why, l->why, sizeof t->why);
            stk_client_wait(c, t);
        }
        unref(l);
    }
}

void stk_key_looks_close(stk_client *c)
{
    for (stk_key_look *l = c->looks, *next; l; l = next) {
        next = l->next;
        stk_halt_set(&l->halt, 1);
        unref(l);
    }
    c->looks = NULL;
}
