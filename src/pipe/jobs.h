/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - run n independent jobs on a few threads: indexing now, packing and checking later. */
#ifndef STOKER_JOBS_H
#define STOKER_JOBS_H

#include "base/err.h"

/* Call fn(cookie, i, err) for every i < n.  The first failure stops new jobs and is returned.
 * workers 0: the cores. */
int stk_jobs_run(uint32_t workers, uint64_t n, int (*fn)(void *cookie, uint64_t i, stk_error *err),
                 void *cookie, stk_error *err);

#endif
