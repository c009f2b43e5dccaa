/* SPDX-License-Identifier: Apache-2.0 */
/* timing.h - what the bare loops share: a clock, threads, one line of JSON. */
#ifndef STOKER_TIMING_H
#define STOKER_TIMING_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_THREADS 256

static inline double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of processor time so far: steadier than the clock where others use the machine too. */
static inline double cpu_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

typedef struct timed_thread {
    void (*fn)(void *arg, unsigned number);
    void *arg;
    unsigned number;
    pthread_t id;
} timed_thread;

static inline void *timed_main(void *p)
{
    timed_thread *t = p;

    t->fn(t->arg, t->number);
    return NULL;
}

/* Run fn(arg, thread number) on n threads, the last of them the caller's; the seconds it took. */
static inline double run_threads(unsigned n, void (*fn)(void *arg, unsigned number), void *arg)
{
    timed_thread t[MAX_THREADS];
    double start = now_s();

    for (unsigned i = 0; i < n; i++) {
        t[i] = (timed_thread){ fn, arg, i, 0 };
        if (i + 1 < n && pthread_create(&t[i].id, NULL, timed_main, &t[i])) {
            perror("pthread_create");
            exit(3);
        }
    }
    fn(arg, n - 1);
    for (unsigned i = 0; i + 1 < n; i++)
        pthread_join(t[i].id, NULL);
    return now_s() - start;
}

static inline void report(const char *name, uint64_t samples, double seconds, double cpu)
{
    printf("{\"name\": \"%s\", \"samples\": %llu, \"seconds\": %.6f, \"samples_per_s\": %.1f, "
           "\"cpu_us_per_sample\": %.4f}\n",
           name, (unsigned long long)samples, seconds, (double)samples / seconds,
           cpu * 1e6 / (double)samples);
}

#endif
