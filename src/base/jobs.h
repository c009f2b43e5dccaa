/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - runs n independent jobs on a few threads and waits for all of them.  Indexing, packing
 * and checking call it. */
#ifndef STOKER_JOBS_H
#define STOKER_JOBS_H

#include "base/err.h"

/* Calls fn(cookie, i, err) for every i < n.  The first failure stops new jobs and is returned.
 * workers 0: one per core. */
int stk_jobs_run(uint32_t workers, uint64_t n, int (*fn)(void *cookie, uint64_t i, stk_error *err),
                 void *cookie, stk_error *err);

/* The same with a watch: while threads work, the calling thread only calls tick(cookie), at once
 * and every STK_TICK_MS.  If tick() returns non-zero, no new jobs begin, jobs in flight end without
 * waiting for servers, and the result is STK_ECLOSED.  If the calling thread does the work itself,
 * tick() is not called, and jobs have to check for a stop. */
#define STK_TICK_MS 50
int stk_jobs_watch(uint32_t workers, uint64_t n,
                   int (*fn)(void *cookie, uint64_t i, stk_error *err), int (*tick)(void *cookie),
                   void *cookie, stk_error *err);

#endif
