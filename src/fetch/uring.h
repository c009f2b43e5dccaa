/* SPDX-License-Identifier: Apache-2.0 */
/* uring.h - reads of local files that have to wait, through one io_uring.
 *
 * Any thread pushes reads, one thread runs the ring and calls io->done().  Where the kernel
 * refuses rings, or the build has no liburing, open() says so and others must do the reading. */
#ifndef STOKER_URING_H
#define STOKER_URING_H

#include <config.h>

#include "source/source.h"

typedef struct stk_uring stk_uring;

#if STK_HAVE_URING

/* At most `depth` reads in the kernel at once; more wait their turn here.  *retried counts reads
 * that failed and were tried again.  STK_ENOTSUP: the kernel refuses, and err says how. */
int stk_uring_open(stk_uring **out, uint32_t depth, _Atomic uint64_t *retried, stk_error *err);
void stk_uring_close(stk_uring **u); /* NULL-safe, nulls; when run() has returned or never ran */

/* io->file is of stk_source_local and stays open until io->done(); its first io->got bytes are here
 * already.  Thread: any. */
void stk_uring_push(stk_uring *u, stk_io *io);
/* Serve the ring until stop() was called and every read pushed before it is done.  Thread: one. */
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

/* No one has a ring to call these with. */
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
