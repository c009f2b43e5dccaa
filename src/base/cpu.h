/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - what this machine's CPU can do (vector instructions), and how many cores this process
 * may use. */
#ifndef STOKER_BASE_CPU_H
#define STOKER_BASE_CPU_H

#include <stdint.h>

typedef enum stk_cpu { /* each has all of those before it */
                       STK_CPU_NONE = 0,
                       STK_CPU_AVX2 = 1,  /* and F16C, BMI, BMI2 */
                       STK_CPU_AVX512 = 2 /* F, BW, DQ, VL */
} stk_cpu;

/* The best level that machine and STK_CPU=none|avx2|avx512 allow (the environment is read at every
 * call: plan time only). */
stk_cpu stk_cpu_level(void);

/* Cores this process may use: affinity and cgroup quota honoured, at least 1. */
uint32_t stk_cpu_count(void);

/* Those of them that are this rank's: a launcher's variables say how many ranks share the machine.
 * Cores that Slurm or MPI bound a rank to are its own and are not divided again. */
uint32_t stk_cpu_share(void);

/* The cores of a list as sysfs has it ("0-3,8") that `text` names, into a mask of `n` bytes; how
 * many. */
uint32_t stk_cpu_list(const char *text, uint8_t *mask, uint32_t n);

/* Keep the calling thread on the cores of a NUMA node, where this machine has several and the node
 * has at least `threads` cores of ours.  1: it is kept there. */
int stk_cpu_bind(int node, uint32_t threads);

/* Memory this process may use, in bytes: the machine's or the cgroup's limit. */
uint64_t stk_memory_total(void);

#endif
