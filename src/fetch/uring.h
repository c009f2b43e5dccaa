/* SPDX-License-Identifier: Apache-2.0 */
/* uring.h - reads local files through one io_uring, for reads that have to wait.
 *
 * Any thread pushes reads; one thread of the engine (pipe/iothread.c) runs the ring and calls
 * io->done().  If the kernel refuses rings, or the build has no liburing, open() returns an error
 * and the blocking readers read instead. */
#ifndef STOKER_URING_H
#define STOKER_URING_H

#include <config.h>

#include "source/source.h"

typedef struct stk_uring stk_uring;

#if STK_HAVE_URING

/* At most `depth` reads are in the kernel at once; others wait here.  *retried counts failed reads
 * that were tried again.  STK_ENOTSUP: the kernel refuses, and err says how. */
int stk_uring_open(stk_uring **out, uint32_t depth, _Atomic uint64_t *retried, stk_error *err);
void stk_uring_close(stk_uring **u); /* NULL-safe.  Call when run() has returned or never ran */

/* io->file belongs to stk_source_local and stays open until io->done().  Its first io->got bytes
 * are read already.  Thread: any. */
void stk_uring_push(stk_uring *u, stk_io *io);
/* Serves the ring until stop() is called and every read pushed before it has finished.  Thread:
 * one. */
void stk_uring_run(stk_uring *u);
void stk_uring_stop(stk_uring *u); /* Thread: any */

#else

static inline int stk_uring_open(stk_uring **out, uint32_t depth, _Atomic uint64_t *retried,
                                 stk_error *err)
{
    (void)depth;
    (void)retried;
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP, "this build has no liburing");
}

/* Never called: no ring can be opened. */
static inline void stk_uring_close(stk_uring **u)
{
    (void)u;
}

static inline void stk_uring_push(stk_uring *u, stk_io *io)
{
    (void)u;
    (void)io;
}

static inline void stk_uring_run(stk_uring *u)
{
    (void)u;
}

static inline void stk_uring_stop(stk_uring *u)
{
    (void)u;
}

#endif
#endif
