/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - runs n independent jobs on a few threads and waits for all of them. Indexing, packing
 * and checking call it. */
#ifndef STOKER_JOBS_H
#define STOKER_JOBS_H

#include "base/err.h"

/* Call fn(cookie, i, err) for every i < n.  The first failure stops new jobs and is returned.
 * workers 0: the cores. */
int stk_jobs_run(uint32_t workers, uint64_t n, int (*fn)(void *cookie, uint64_t i, stk_error *err),
                 void *cookie, stk_error *err);

/* The same with a watch: while threads work, the calling one does nothing but call tick(cookie),
 * at once and every STK_TICK_MS.  A non-zero answer stops new jobs; the ones in flight end, without
 * waiting for a server any longer, then it is STK_ECLOSED. Where the caller's thread does the work
 * itself, tick is not called: jobs look themselves. */
#define STK_TICK_MS 50
int stk_jobs_watch(uint32_t workers, uint64_t n,
                   int (*fn)(void *cookie, uint64_t i, stk_error *err), int (*tick)(void *cookie),
                   void *cookie, stk_error *err);

#endif
