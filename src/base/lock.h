/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h - a mutex that clang's thread-safety analysis knows.
 *
 * A function whose name ends in _locked says which mutex its caller holds:
 *
 *     static int pop_locked(queue *q) STK_REQUIRES(q->lock)
 *
 * make lint runs the analysis if clang is installed.  It finds a call without the lock, a lock that
 * an early return leaves held, and a lock that is taken twice.  Other compilers ignore it.  Clang
 * accepts STK_GUARDED only on variables of a file, not on fields; fields have the comment
 * "lock". */
#ifndef STOKER_BASE_LOCK_H
#define STOKER_BASE_LOCK_H

#include <pthread.h>

#if defined(__clang__)
#define STK_ANALYSIS(x) __attribute__((x))
#else
#define STK_ANALYSIS(x)
#endif
#define STK_REQUIRES(...) STK_ANALYSIS(requires_capability(__VA_ARGS__)) /* held by the caller */
#define STK_GUARDED(lock) STK_ANALYSIS(guarded_by(lock))
#define STK_ACQUIRES(lock) STK_ANALYSIS(acquire_capability(lock))
#define STK_RELEASES(lock) STK_ANALYSIS(release_capability(lock))
/* For functions that the analysis can't follow; a comment there says why they are right. */
#define STK_UNCHECKED STK_ANALYSIS(no_thread_safety_analysis)

typedef struct STK_ANALYSIS(capability("mutex")) stk_mutex {
    pthread_mutex_t m;
} stk_mutex;

#define STK_MUTEX_INITIALIZER                                                                      \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }

static inline int stk_mutex_init(stk_mutex *l)
{
    return pthread_mutex_init(&l->m, NULL);
}

static inline void stk_mutex_destroy(stk_mutex *l)
{
    pthread_mutex_destroy(&l->m);
}

static inline void stk_mutex_lock(stk_mutex *l) STK_ACQUIRES(*l) STK_UNCHECKED
{
    pthread_mutex_lock(&l->m);
}

static inline void stk_mutex_unlock(stk_mutex *l) STK_RELEASES(*l) STK_UNCHECKED
{
    pthread_mutex_unlock(&l->m);
}

/* 1: it is held now; 0: another thread has it. */
static inline int stk_mutex_try(stk_mutex *l)
    STK_ANALYSIS(try_acquire_capability(1, *l)) STK_UNCHECKED
{
    return pthread_mutex_trylock(&l->m) == 0;
}

static inline void stk_cond_wait(pthread_cond_t *c, stk_mutex *l) STK_REQUIRES(*l)
{
    pthread_cond_wait(c, &l->m);
}

/* 0, or ETIMEDOUT. */
static inline int stk_cond_timedwait(pthread_cond_t *c, stk_mutex *l, const struct timespec *until)
    STK_REQUIRES(*l)
{
    return pthread_cond_timedwait(c, &l->m, until);
}

#endif
