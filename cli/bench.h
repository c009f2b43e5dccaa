/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what a run of `stoker bench` measured.  bench_run.c fills it in; the other bench_*.c
 * files print it. */
#ifndef STOKER_CLI_BENCH_H
#define STOKER_CLI_BENCH_H

#include "cli.h"

typedef struct bench_epoch {
    uint64_t samples, batches;
    double seconds;
    double first_wait; /* wait for its first batch; for epoch 0 that is start-up */
    uint64_t rss;      /* resident memory when it ended */
    int whole;         /* true if the epoch ran to its end */
} bench_epoch;

#define BENCH_BINS 120

typedef struct bench_flow { /* samples over time; bins widen as the run goes on */
    double width;           /* width of a bin, in seconds */
    double samples[BENCH_BINS];
} bench_flow;

typedef struct bench_result {
    stk_output *outputs; /* owned; a name and its chain are one piece */
    uint32_t n_outputs, batch_size;
    uint64_t dataset_samples, dataset_shards;
    double open_seconds;                       /* time to open the data set, with its index */
    double seconds, wait_seconds, cpu_seconds; /* from opening the loader to the last batch */
    double first_batch;
    uint64_t samples, batches;
    double median_batch; /* time from batch to batch */
    double longest_gap;  /* longest wait for the first batch of a later epoch */
    uint64_t rss_peak;
    bench_epoch *epoch;
    size_t n_epochs;
    double *interval; /* times from batch to batch, in order; owned */
    size_t n_intervals;
    bench_flow flow;
    stk_stats stats;
    stk_sight from, to; /* figures after the loader was opened, and at the end */
    stk_diagnosis found;
    /* the last spans of threads, if a page or a trace was asked for; owned */
    stk_trace_span *span;
    uint64_t n_spans;
} bench_result;

typedef struct bench_how {
    const cli_args *args;
    uint32_t workers, prefetch; /* replace those in args; 0: those are used */
    double seconds;             /* replaces that in args; 0: that is used */
    int trace;                  /* true if --trace or --html was given */
} bench_how;

/* bench_trace.c: records what threads do, if that was asked for.  0, or an exit code after an error
 * was printed. */
int bench_trace_begin(const cli_args *a, stk_loader *l, cli_file *file);
int bench_trace_end(stk_loader *l, cli_file *file, int keep, bench_result *r);

/* Runs a loader.  0: end with bench_free().  Otherwise an error was printed. */
int bench_run(const bench_how *how, bench_result *out);
void bench_free(bench_result *r);
int bench_sweep(const cli_args *a);   /* --sweep; an exit code */
int bench_against(const cli_args *a); /* --against; an exit code */
/* --html: a page on a run; 0, or CLI_FAILED (said why). */
int bench_page(const cli_args *a, const bench_result *r, const char *title);
void bench_put_checks(const stk_diagnosis *d); /* prints figures beside the usual ones */
void bench_json_found(cli_json *j, const stk_diagnosis *d);

void bench_print(const bench_result *r);
void bench_print_json(const bench_result *r);

#endif
