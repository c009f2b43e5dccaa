/* SPDX-License-Identifier: Apache-2.0 */
/* stores - random ranges by the source of a URL, as a loader's workers ask for them: one thread
 * submits, the client does the rest, signed where the environment has keys.  Beside limit_curl,
 * which does the least.
 *
 *   bench_stores URL LEN IN_FLIGHT COUNT        prints requests/s and CPU microseconds per
 *                                               request */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/registry.h"
#include "source/source.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static stk_io *ready; /* lock */

static void on_done(stk_io *io)
{
    pthread_mutex_lock(&lock);
    io->next = ready;
    ready = io;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
}

static double cpu(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int begin(stk_io *io, uint64_t size)
{
    static uint64_t x = 1;

    x = x * 6364136223846793005u + 1442695040888963407u;
    io->offset = (x >> 20) % (size - io->len);
    return io->file->source->submit(io->file, io);
}

static stk_io *take(void)
{
    stk_io *io;

    pthread_mutex_lock(&lock);
    while (!ready)
        pthread_cond_wait(&work, &lock);
    io = ready;
    ready = NULL;
    pthread_mutex_unlock(&lock);
    return io;
}

static int run(stk_file *f, uint64_t size, size_t len, int n, int count)
{
    stk_io *all = calloc((size_t)n, sizeof *all);
    int started = 0, done = 0;

    for (; started < n; started++) {
        all[started] = (stk_io){ .len = len, .dst = malloc(len), .done = on_done, .file = f };
        if (begin(&all[started], size) != STK_PENDING)
            return 1;
    }
    while (done < count)
        for (stk_io *io = take(), *next; io; io = next) {
            next = io->next;
            if (io->rc < 0 || io->got != len)
                return fprintf(stderr, "bench_stores: a read failed\n"), 1;
            done++;
            if (started++ < count && begin(io, size) != STK_PENDING)
                return 1;
        }
    for (int i = 0; i < n; i++)
        free(all[i].dst);
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    const stk_source *s = argc == 5 ? stk_registry_source(argv[1]) : NULL;
    stk_file_info info;
    stk_error err = { 0 };
    stk_file *f = NULL;
    double t, c;
    int count = argc == 5 ? atoi(argv[4]) : 0;

    if (!s)
        return fprintf(stderr, "bench_stores URL LEN IN_FLIGHT COUNT\n"), 2;
    if (stk_source_open(s, STK_URL(argv[1], NULL), &f, &err) < 0 ||
        stk_file_stat(f, &info, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    t = (double)stk_now_ns();
    c = cpu();
    if (run(f, info.size, strtoull(argv[2], NULL, 10), atoi(argv[3]), count))
        return 1;
    t = ((double)stk_now_ns() - t) / 1e9;
    c = cpu() - c;
    printf("%.0f requests/s, %.1f us CPU per request\n", count / t, c / count * 1e6);
    stk_file_close(&f);
    return 0;
}
