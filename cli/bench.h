/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what a run of stoker bench measured, between cmd_bench.c, which fills it, and
 * report.c. */
#ifndef STOKER_CLI_BENCH_H
#define STOKER_CLI_BENCH_H

#include "cli.h"

typedef struct bench_epoch {
    uint64_t samples, batches;
    double seconds;
    double first_wait; /* for its first batch; of epoch 0 that is start-up */
    uint64_t rss;      /* resident when it ended */
    int whole;
} bench_epoch;

typedef struct bench_result {
    const stk_output *outputs;
    uint32_t n_outputs, batch_size;
    uint64_t dataset_samples, dataset_shards;
    double open_seconds;                       /* the data set, its index included */
    double seconds, wait_seconds, cpu_seconds; /* from opening the loader to the last batch */
    double first_batch;
    uint64_t samples, batches;
    double median_batch; /* time from batch to batch */
    double longest_gap;  /* longest wait for the first batch of a later epoch */
    uint64_t rss_peak;
    bench_epoch *epoch;
    size_t n_epochs;
    stk_stats stats;
} bench_result;

void bench_print(const bench_result *r);
void bench_print_json(const bench_result *r);

#endif
