/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - what /proc says of threads and cores. */
#include "base/proc.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int stk_proc_thread(uint32_t tid, uint64_t *ran, uint64_t *delayed)
{
    char path[64];
    FILE *f;
    int n;

    *ran = *delayed = 0;
    snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", tid);
    f = tid ? fopen(path, "re") : NULL;
    if (!f)
        return -1;
    n = fscanf(f, "%" SCNu64 " %" SCNu64, ran, delayed);
    fclose(f);
    return n == 2 ? 0 : -1;
}

/* user nice system idle iowait irq softirq steal: all but idle and iowait are taken. */
static double busy_of(const char *line)
{
    unsigned long long t[8] = { 0 };

    if (sscanf(line, "%llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) < 4)
        return 0;
    return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]);
}

double stk_proc_cores_busy(void)
{
    FILE *f = fopen("/proc/stat", "re");
    long hz = sysconf(_SC_CLK_TCK);
    char line[512];
    double busy = 0;
    cpu_set_t ours;
    unsigned cpu;
    int at, seen = 0;

    if (!f)
        return -1;
    if (sched_getaffinity(0, sizeof ours, &ours) != 0)
        CPU_ZERO(&ours);
    while (fgets(line, sizeof line, f) && !strncmp(line, "cpu", 3)) {
        if (sscanf(line, "cpu%u%n", &cpu, &at) != 1 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &ours))
            continue;
        busy += busy_of(line + at);
        seen = 1;
    }
    fclose(f);
    return seen && hz > 0 ? busy / (double)hz : -1;
}

double stk_proc_own_cpu(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return -1;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}
