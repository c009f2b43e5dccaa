/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - nanoseconds for times that users see, ticks for counters of workers.
 *
 * Reading ticks takes one instruction.  They are turned into nanoseconds by comparing both clocks
 * over the life of a loader, so nothing has to be calibrated. */
#ifndef STOKER_BASE_CLOCK_H
#define STOKER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t stk_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CPU time that this thread has used. */
static inline uint64_t stk_thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time in `ms` milliseconds, on the clock of stk_cond_timedwait(). */
static inline struct timespec stk_in_ms(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;
    return t;
}

static inline uint64_t stk_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return stk_now_ns();
#endif
}

#endif
