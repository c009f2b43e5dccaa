/* SPDX-License-Identifier: Apache-2.0 */
/* guarded.c - maps whose missing pages become zeros; see guarded.h.
 *
 * A signal handler can take no lock and can't be told that memory was freed.  So maps are in a list
 * that only grows: an entry that is closed has the address 0 and is used again.  An address is
 * published after the map is made and withdrawn before it ends, so that a fault is never taken for
 * that of a map which is gone. */
#include "base/guarded.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

#define TAKEN ((uintptr_t)1) /* an address that no map has */

struct stk_guarded {
    _Atomic uintptr_t begin; /* 0: free */
    _Atomic size_t len;
    _Atomic int torn;
    stk_guarded *next; /* set before it is listed */
};

static _Atomic(stk_guarded *) list;
static _Atomic uint64_t tears;
static struct sigaction before; /* written once, before the handler is in place */
static uintptr_t page;

/* Not of a map: what was there before takes it. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };

    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(sig, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(sig);
    else {
        sigaction(sig, &usual, NULL); /* the access is tried again, and ends the process */
        if (info->si_code <= 0)
            raise(sig); /* it was sent: nothing is tried again */
    }
}

/* Zeros from the page at `at` on, to the end of the map. */
static int tear(stk_guarded *g, uintptr_t at)
{
    uintptr_t begin = atomic_load_explicit(&g->begin, memory_order_acquire);
    size_t len = atomic_load_explicit(&g->len, memory_order_relaxed);

    if (begin <= TAKEN || at < begin || at - begin >= len)
        return 0;
    at &= ~(page - 1);
    len = ((begin + len + page - 1) & ~(page - 1)) - at;
    if (mmap((void *)at, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return 0;
    atomic_store_explicit(&g->torn, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tears, 1, memory_order_release);
    return 1;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    stk_guarded *g = atomic_load_explicit(&list, memory_order_acquire);
    int saved = errno;

    while (g && (info->si_code <= 0 || !tear(g, (uintptr_t)info->si_addr)))
        g = g->next;
    if (!g)
        pass_on(sig, info, context);
    errno = saved;
}

static void install(void)
{
    const char *said = getenv("STOKER_SIGBUS");
    struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if ((!said || strcmp(said, "0") != 0) && sigaction(SIGBUS, NULL, &before) == 0)
        sigaction(SIGBUS, &a, NULL);
}

/* An entry that is free, else a new one in the list. */
static stk_guarded *entry(void)
{
    stk_guarded *g = atomic_load_explicit(&list, memory_order_acquire);

    for (; g; g = g->next) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong_explicit(&g->begin, &none, TAKEN, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return g;
    }
    g = STK_NEW(stk_guarded);
    if (!g)
        return NULL;
    atomic_init(&g->begin, TAKEN);
    g->next = atomic_load_explicit(&list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&list, &g->next, g, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return g;
}

int stk_guarded_map(stk_guarded **out, int fd, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    stk_guarded *g;
    void *at;

    *out = NULL;
    pthread_once(&once, install);
    g = entry();
    if (!g) {
        errno = ENOMEM;
        return -1;
    }
    at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        atomic_store_explicit(&g->begin, 0, memory_order_release);
        return -1;
    }
    atomic_store_explicit(&g->torn, 0, memory_order_relaxed);
    atomic_store_explicit(&g->len, len, memory_order_relaxed);
    atomic_store_explicit(&g->begin, (uintptr_t)at, memory_order_release);
    *out = g;
    return 0;
}

void stk_guarded_close(stk_guarded **gp)
{
    stk_guarded *g = *gp;
    uintptr_t at;

    *gp = NULL;
    if (!g)
        return;
    at = atomic_exchange_explicit(&g->begin, TAKEN, memory_order_acq_rel);
    munmap((void *)at, atomic_load_explicit(&g->len, memory_order_relaxed));
    atomic_store_explicit(&g->begin, 0, memory_order_release);
}

const uint8_t *stk_guarded_data(const stk_guarded *g)
{
    return (const uint8_t *)atomic_load_explicit(&g->begin, memory_order_relaxed);
}

int stk_guarded_torn(const stk_guarded *g)
{
    return g && atomic_load_explicit(&g->torn, memory_order_relaxed);
}

int stk_guarded_has(const void *p)
{
    const stk_guarded *g = atomic_load_explicit(&list, memory_order_acquire);
    uintptr_t at = (uintptr_t)p;

    for (; g; g = g->next) {
        uintptr_t begin = atomic_load_explicit(&g->begin, memory_order_acquire);

        if (begin > TAKEN && at >= begin &&
            at - begin < atomic_load_explicit(&g->len, memory_order_relaxed))
            return 1;
    }
    return 0;
}

uint64_t stk_guarded_tears(void)
{
    return atomic_load_explicit(&tears, memory_order_acquire);
}
