/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what a run of a loader measured, between bench_run.c, which fills it, and those who
 * tell it. */
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

#define BENCH_BINS 120

typedef struct bench_flow { /* samples over time; bins widen as the run goes on */
    double width;           /* of a bin, in seconds */
    double samples[BENCH_BINS];
} bench_flow;

typedef struct bench_result {
    stk_output *outputs; /* owned; a name and its chain are one piece */
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
    double *interval; /* from batch to batch, in order; owned */
    size_t n_intervals;
    bench_flow flow;
    stk_stats stats;
    stk_sight from, to; /* when the loader was open, and at the end */
    stk_diagnosis found;
    /* what threads did at last, where a page or a trace was asked for; owned */
    stk_trace_span *span;
    uint64_t n_spans;
} bench_result;

typedef struct bench_how {
    const cli_args *args;
    uint32_t workers, prefetch; /* in place of those in args; 0: theirs */
    double seconds;             /* likewise */
    int trace;                  /* as --trace and --html ask for */
} bench_how;

/* bench_trace.c: note what threads do, where that was asked for; 0 or an exit code (said why). */
int bench_trace_begin(const cli_args *a, stk_loader *l, cli_file *file);
int bench_trace_end(stk_loader *l, cli_file *file, int keep, bench_result *r);

/* 0: end with bench_free(); else it said why */
int bench_run(const bench_how *how, bench_result *out);
void bench_free(bench_result *r);
int bench_sweep(const cli_args *a);   /* --sweep; an exit code */
int bench_against(const cli_args *a); /* --against; an exit code */
/* --html: a page on a run; 0, or CLI_FAILED (said why). */
int bench_page(const cli_args *a, const bench_result *r, const char *title);
void bench_put_checks(const stk_diagnosis *d); /* figures beside what is usual */
void bench_json_found(cli_json *j, const stk_diagnosis *d);

void bench_print(const bench_result *r);
void bench_print_json(const bench_result *r);

#endif
