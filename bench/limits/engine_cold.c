/* SPDX-License-Identifier: Apache-2.0 */
/* engine_cold.c - the engine over cold files: an epoch of `bytes` samples whose shards have just
 * been put out of the page cache.
 *
 *     engine_cold SHARDS seq|random THREADS BATCH FIELD [PREFETCH]
 *
 * An epoch before that is not timed: it brings the loader's memory in.  The order is that of
 * limit_uring.  STK_URING=0 has the reader threads measured instead.  What is
 * printed says how many reads had to wait: nearly all, where dropping works. */
#include <string.h>

#include "cold.h"

static uint64_t run_epoch(stk_loader *l)
{
    stk_batch *b = NULL;
    uint64_t samples = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
        samples += stk_batch_rows(b);
        stk_batch_release(&b);
    }
    if (rc < 0)
        die(&err);
    return samples;
}

int main(int argc, char **argv)
{
    char chain[64];
    stk_output out = { "x", chain };
    stk_loader_options o = { .size = sizeof o, .outputs = &out, .n_outputs = 1 };
    stk_stats stats = { .size = sizeof stats }, before = stats;
    stk_dataset *d = NULL;
    stk_loader *l = NULL;
    stk_error err;
    cold_run from;
    uint64_t samples;

    if (argc < 6 || (strcmp(argv[2], "seq") && strcmp(argv[2], "random"))) {
        fprintf(stderr, "usage: engine_cold SHARDS seq|random THREADS BATCH FIELD [PREFETCH]\n");
        return 2;
    }
    snprintf(chain, sizeof chain, "from(%.32s) | bytes", argv[5]);
    o.shuffle = argv[2][0] == 'r' ? STK_SHUFFLE_EXACT : STK_SHUFFLE_NONE;
    o.num_workers = (int32_t)strtol(argv[3], NULL, 10);
    o.batch_size = (uint32_t)strtoul(argv[4], NULL, 10);
    o.prefetch = argv[6] ? (uint32_t)strtoul(argv[6], NULL, 10) : 0;
    if (stk_dataset_open(&d, (const char *const *)&argv[1], 1, NULL, &err) < 0 ||
        stk_loader_open(&l, &d, 1, &o, &err) < 0)
        die(&err);
    run_epoch(l);
    if (stk_loader_seek(l, 2, 0, &err) < 0) /* what epoch 1 had read ahead is let go */
        die(&err);
    stk_loader_stats(l, &before);
    drop_shards(d);
    from = cold_now();
    samples = run_epoch(l);
    stk_loader_stats(l, &stats);
    report_cold("engine_cold", samples, &from, stats.cold_reads - before.cold_reads, stats.cold_by);
    stk_loader_close(&l);
    stk_dataset_unref(&d);
    return 0;
}
