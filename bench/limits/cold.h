/* SPDX-License-Identifier: Apache-2.0 */
/* cold.h - removes files from the page cache, and checks that they are gone, for the bare loops
 * that read cold files. */
#ifndef STOKER_COLD_H
#define STOKER_COLD_H

#include <sys/resource.h>

#include "shards.h"
#include "timing.h"

/* The share of the file's pages that are in memory. */
static inline double resident(int fd, size_t len)
{
    size_t pages = (len + 4095) / 4096, here = 0;
    unsigned char *map = malloc(pages);
    void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

    if (!map || p == MAP_FAILED || mincore(p, len, map)) {
        perror("mincore");
        exit(3);
    }
    for (size_t i = 0; i < pages; i++)
        here += map[i] & 1;
    munmap(p, len);
    free(map);
    return (double)here / (double)pages;
}

/* Bytes that this process has had read from disks so far. */
static inline uint64_t disk_bytes(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_inblock * 512;
}

typedef struct cold_run { /* what a timed stretch took */
    double seconds, cpu;
    uint64_t disk;
} cold_run;

static inline cold_run cold_now(void)
{
    return (cold_run){ now_s(), cpu_s(), disk_bytes() };
}

static inline void report_cold(const char *name, uint64_t samples, const cold_run *from,
                               uint64_t cold_reads, const char *cold_by)
{
    cold_run to = cold_now();
    double seconds = to.seconds - from->seconds, cpu = to.cpu - from->cpu;

    printf("{\"name\": \"%s\", \"samples\": %llu, \"seconds\": %.6f, \"samples_per_s\": %.1f, "
           "\"cpu_us_per_sample\": %.4f, \"disk_bytes\": %llu, \"cold_reads\": %llu, "
           "\"cold_by\": \"%s\"}\n",
           name, (unsigned long long)samples, seconds, (double)samples / seconds,
           cpu * 1e6 / (double)samples, (unsigned long long)(to.disk - from->disk),
           (unsigned long long)cold_reads, cold_by ? cold_by : "none");
}

/* Put every shard out of the page cache; exits if the system keeps more than a hundredth. */
static inline void drop_shards(const stk_dataset *d)
{
    const char *name;

    for (uint64_t i = 0; (name = stk_dataset_shard_name(d, i)); i++) {
        struct stat st;
        int fd = open(name, O_RDONLY);

        if (fd < 0 || fstat(fd, &st) || fdatasync(fd) ||
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) {
            perror(name);
            exit(3);
        }
        if (resident(fd, (size_t)st.st_size) > 0.01) {
            fprintf(stderr, "bench: %s stays in the page cache\n", name);
            exit(3);
        }
        close(fd);
    }
}

#endif
