/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - instruction sets, cores and memory, as the kernel and the container grant them. */
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

stk_cpu stk_cpu_level(void)
{
    const char *want = getenv("STK_CPU");

    if (want && !strcmp(want, "none"))
        return STK_CPU_NONE;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) { /* and so F16C, BMI */
        if ((want && !strcmp(want, "avx2")) || !__builtin_cpu_supports("avx512bw") ||
            !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
            return STK_CPU_AVX2;
        return STK_CPU_AVX512;
    }
#endif
    return STK_CPU_NONE;
}

/* The first one or two numbers of a cgroup file; how many were read. */
static int read_numbers(const char *path, long long *a, long long *b)
{
    FILE *f = fopen(path, "re");
    int n;

    if (!f)
        return 0;
    n = fscanf(f, "%lld %lld", a, b);
    fclose(f);
    return n < 0 ? 0 : n;
}

uint32_t stk_cpu_count(void)
{
    cpu_set_t set;
    long long quota = 0, period = 0;
    uint32_t n = 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = (uint32_t)CPU_COUNT(&set);
    if (read_numbers("/sys/fs/cgroup/cpu.max", &quota, &period) == 2 && quota > 0 && period > 0) {
        uint32_t granted = (uint32_t)((quota + period - 1) / period);

        if (granted < n)
            n = granted;
    }
    return n ? n : 1;
}

uint64_t stk_memory_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 30;
    long long limit = 0, unused;

    if (read_numbers("/sys/fs/cgroup/memory.max", &limit, &unused) >= 1 && limit > 0 &&
        (uint64_t)limit < total)
        total = (uint64_t)limit;
    return total;
}
