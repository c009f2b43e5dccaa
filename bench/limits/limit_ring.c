/* SPDX-License-Identifier: Apache-2.0 */
/* limit_ring.c - a bare ring between processes: what shared memory gives when nothing else is done.
 *
 *     limit_ring SAMPLE_BYTES BATCH SECONDS [WRITERS]
 *
 * Each writer, a child, copies one sample again and again into the rows of a batch, in slots of a
 * memfd; the parent waits for each batch on a pipe and looks at one byte of each row.  A loader
 * with two workers is compared with two writers: one has one core only. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"

#define SLOTS 4
#define MAX_WRITERS 64

typedef struct ring {
    uint8_t *memory;
    size_t sample, batch;
    int full[2], empty[2]; /* pipes of slot numbers */
} ring;

static void fill(const ring *r, const uint8_t *from)
{
    uint8_t slot;

    while (read(r->empty[0], &slot, 1) == 1) {
        uint8_t *to = r->memory + slot * r->sample * r->batch;

        for (size_t i = 0; i < r->batch; i++)
            memcpy(to + i * r->sample, from, r->sample);
        if (write(r->full[1], &slot, 1) != 1)
            return;
    }
}

static uint64_t take(const ring *r, double seconds, uint64_t *sum)
{
    double until = now_s() + seconds;
    uint64_t batches = 0;
    uint8_t slot;

    while (now_s() < until && read(r->full[0], &slot, 1) == 1) {
        const uint8_t *at = r->memory + slot * r->sample * r->batch;

        for (size_t i = 0; i < r->batch; i++)
            *sum += at[i * r->sample];
        batches++;
        if (write(r->empty[1], &slot, 1) != 1)
            break;
    }
    return batches;
}

static int start_writers(const ring *r, const uint8_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid < 0)
            return -1;
        if (pid == 0) {
            close(r->empty[1]);
            fill(r, from);
            _exit(0);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    ring r = { .sample = argc > 1 ? strtoull(argv[1], NULL, 10) : 602112,
               .batch = argc > 2 ? strtoull(argv[2], NULL, 10) : 64 };
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 2;
    uint32_t writers = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
    size_t bytes = SLOTS * r.sample * r.batch;
    int fd = memfd_create("limit_ring", 0);
    uint8_t *from = malloc(r.sample);
    uint64_t batches, sum = 0;

    if (!writers || writers > MAX_WRITERS || fd < 0 || !from || ftruncate(fd, (off_t)bytes) ||
        pipe(r.full) || pipe(r.empty))
        return 2;
    memset(from, 1, r.sample);
    r.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r.memory == MAP_FAILED)
        return 2;
    if (start_writers(&r, from, writers))
        return 2;
    for (uint8_t slot = 0; slot < SLOTS; slot++)
        if (write(r.empty[1], &slot, 1) != 1)
            return 2;
    take(&r, 0.2, &sum); /* pages are made */
    batches = take(&r, seconds, &sum);
    close(r.empty[1]);
    while (wait(NULL) > 0)
        continue;
    report("limit_ring", batches * r.batch, seconds, cpu_s());
    return sum == 0;
}
