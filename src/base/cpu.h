/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - what this machine's CPU can do (vector instructions), and how many cores this process
 * may use. */
#ifndef STOKER_BASE_CPU_H
#define STOKER_BASE_CPU_H

#include <stdint.h>

typedef enum stk_cpu { /* each level includes those before it */
                       STK_CPU_NONE = 0,
                       STK_CPU_AVX2 = 1,  /* and F16C, BMI, BMI2 */
                       STK_CPU_AVX512 = 2 /* F, BW, DQ, VL */
} stk_cpu;

/* The best level that the machine and STK_CPU=none|avx2|avx512 allow.  Reads the environment at
 * every call, so call it when planning. */
stk_cpu stk_cpu_level(void);

/* Cores this process may use, by affinity and cgroup quota; at least 1. */
uint32_t stk_cpu_count(void);

/* This rank's share of them.  Variables of the launcher say how many ranks share the machine.
 * Cores that Slurm or MPI bound to a rank belong to it and are not divided again. */
uint32_t stk_cpu_share(void);

/* Parses a list of cores as in sysfs ("0-3,8") into a mask of `n` bytes, and returns how many
 * cores. */
uint32_t stk_cpu_list(const char *text, uint8_t *mask, uint32_t n);

/* Binds the calling thread to the cores of a NUMA node, if the machine has several nodes and this
 * one has at least `threads` of our cores.  1: it is bound. */
int stk_cpu_bind(int node, uint32_t threads);

/* Bytes of memory this process may use: of the machine, or the cgroup's limit. */
uint64_t stk_memory_total(void);

#endif
