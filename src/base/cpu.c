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

/* The number a variable begins with ("4(x2)" of Slurm is 4: the first node has the most); 0: none.
 */
static long env_count(const char *name)
{
    const char *text = getenv(name);
    long n = text ? strtol(text, NULL, 10) : 0;

    return n > 0 && n < 4096 ? n : 0;
}

/* srun's own steps; ids from 0xFFFFFFF0 on are of batch scripts and of interactive shells. */
static int in_slurm_step(void)
{
    const char *id = getenv("SLURM_STEP_ID");
    char *end = NULL;
    unsigned long long n;

    if (!id)
        id = getenv("SLURM_STEPID");
    n = id ? strtoull(id, &end, 10) : 0;
    return id && end != id && !*end && n < 0xFFFFFFF0;
}

/* Whether this process was given cores of its own: fewer than there are for all ranks here. */
static int is_bound(long cores)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < cores;
}

uint32_t stk_cpu_share(void)
{
    static const char *const mpi[] = { "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS" };
    static const char *const slurm[] = { "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
                                         "SLURM_NTASKS_PER_NODE" };
    uint32_t n = stk_cpu_count();
    long ranks = env_count("LOCAL_WORLD_SIZE"), cores = 0; /* torchrun binds nothing */

    for (int i = 0; !ranks && i < 2; i++)
        if ((ranks = env_count(mpi[i])) != 0)
            cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; !ranks && i < 3 && in_slurm_step(); i++)
        if ((ranks = env_count(slurm[i])) != 0)
            cores = env_count("SLURM_CPUS_ON_NODE");
    if (ranks > 1 && !is_bound(cores))
        n /= (uint32_t)ranks;
    return n ? n : 1;
}

uint32_t stk_cpu_list(const char *text, uint8_t *mask, uint32_t n)
{
    uint32_t found = 0;

    memset(mask, 0, n);
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long from = strtoul(text, &end, 10), to = from;

        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        for (; from <= to && from < n; from++) {
            found += !mask[from];
            mask[from] = 1;
        }
        text = *end == ',' ? end + 1 : "";
    }
    return found;
}

int stk_cpu_bind(int node, uint32_t threads)
{
    char path[64], text[4096];
    uint8_t mask[CPU_SETSIZE];
    cpu_set_t ours, near;
    size_t len;
    FILE *f;

    if (node < 0 || access("/sys/devices/system/node/node1", F_OK) != 0 ||
        sched_getaffinity(0, sizeof ours, &ours) != 0)
        return 0;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    f = fopen(path, "re");
    if (!f)
        return 0;
    len = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[len] = 0;
    stk_cpu_list(text, mask, CPU_SETSIZE);
    CPU_ZERO(&near);
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (mask[i] && CPU_ISSET(i, &ours))
            CPU_SET(i, &near);
    return (uint32_t)CPU_COUNT(&near) >= threads && threads &&
           sched_setaffinity(0, sizeof near, &near) == 0;
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
