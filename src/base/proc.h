/* SPDX-License-Identifier: Apache-2.0 */
/* proc.h - reads times of threads and cores from /proc, for statistics.  What /proc does not have
 * is unknown. */
#ifndef STOKER_BASE_PROC_H
#define STOKER_BASE_PROC_H

#include <stdint.h>

/* Nanoseconds that a thread of this process ran, and that it was ready but had no core.  0, or -1:
 * unknown. */
int stk_proc_thread(uint32_t tid, uint64_t *ran, uint64_t *delayed);

/* Seconds that the cores this process may use were busy, with any process; negative: unknown. */
double stk_proc_cores_busy(void);

double stk_proc_own_cpu(void); /* seconds of this process, without children */

#endif
