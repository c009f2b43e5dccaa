/* SPDX-License-Identifier: Apache-2.0 */
/* limit_memcpy.c - a bare loop: copy every sample, in Stoker's shuffled order, into batches.
 *
 *     limit_memcpy SHARDS THREADS EPOCHS BATCH FIELD
 *
 * The order is known before the clock starts and the shards are in memory.  Threads take whole
 * batches in turn; a batch's memory is used again after a few others, as a consumer would free
 * it. */
#include <stdatomic.h>
#include <string.h>

#include "order/order.h"
#include "shards.h"
#include "timing.h"

#define SLOTS_A_THREAD 3

typedef struct job {
    span *samples; /* in order */
    uint64_t n, batches;
    uint32_t batch;
    size_t row; /* bytes of the largest sample */
    uint8_t *slots;
    _Atomic uint64_t next;
} job;

static void work(void *arg, unsigned number)
{
    job *j = arg;
    uint64_t b, done = 0;

    while ((b = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->batches) {
        uint64_t slot = number * SLOTS_A_THREAD + done++ % SLOTS_A_THREAD;
        uint8_t *dst = j->slots + slot * j->batch * j->row;

        for (uint64_t i = b * j->batch; i < (b + 1) * j->batch && i < j->n; i++, dst += j->row)
            memcpy(dst, j->samples[i].data, j->samples[i].len);
    }
}

static void put_in_order(const held_shards *h, job *j, unsigned epochs)
{
    for (unsigned e = 0; e < epochs; e++) {
        stk_perm perm;

        stk_perm_init(&perm, h->n_samples, 0, e + 1); /* 0 is the other side's warm-up */
        for (uint64_t p = 0; p < h->n_samples; p++)
            j->samples[e * h->n_samples + p] = h->sample[stk_perm_at(&perm, p)];
    }
    for (uint64_t i = 0; i < h->n_samples; i++)
        j->row = h->sample[i].len > j->row ? h->sample[i].len : j->row;
}

int main(int argc, char **argv)
{
    held_shards h = { 0 };
    job j = { 0 };
    unsigned threads, epochs;
    double cpu, seconds;
    size_t bytes;

    if (argc < 6) {
        fprintf(stderr, "usage: limit_memcpy SHARDS THREADS EPOCHS BATCH FIELD\n");
        return 2;
    }
    threads = (unsigned)strtoul(argv[2], NULL, 10);
    epochs = (unsigned)strtoul(argv[3], NULL, 10);
    j.batch = (uint32_t)strtoul(argv[4], NULL, 10);
    if (threads < 1 || threads > MAX_THREADS || !epochs || !j.batch)
        return 2;
    hold_shards(&h, argv[1], argv[5]);
    j.n = h.n_samples * epochs;
    j.batches = (j.n + j.batch - 1) / j.batch;
    j.samples = calloc(j.n, sizeof *j.samples);
    if (!j.samples)
        return 3;
    put_in_order(&h, &j, epochs);
    bytes = (size_t)threads * SLOTS_A_THREAD * j.batch * j.row;
    j.slots = malloc(bytes);
    if (!j.slots)
        return 3;
    memset(j.slots, 1, bytes); /* no page fault is timed */
    cpu = cpu_s();
    seconds = run_threads(threads, work, &j);
    report("limit_memcpy", j.n, seconds, cpu_s() - cpu);
    return 0;
}
