/* SPDX-License-Identifier: Apache-2.0 */
/* proc.h - what /proc says of threads and cores.  For figures: where it says nothing, they are
 * unknown. */
#ifndef STOKER_BASE_PROC_H
#define STOKER_BASE_PROC_H

#include <stdint.h>

/* Nanoseconds that a thread of this process ran, and that it could have run but had no core.  0, or
 * -1: not known. */
int stk_proc_thread(uint32_t tid, uint64_t *ran, uint64_t *delayed);

/* Seconds that the cores this process may use were busy, with any process; negative: not known. */
double stk_proc_cores_busy(void);

double stk_proc_own_cpu(void); /* seconds of this process, children apart */

#endif
