/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c - stoker bench: how fast this machine loads, and what is slow. */
#include <stdlib.h>

#include "bench.h"

static int put_metrics(cli_file *file, const stk_stats *s)
{
    size_t len = stk_stats_metrics(s, NULL, 0);
    char *text = malloc(len + 1);

    if (!text)
        return cli_failed(&(stk_error){ .code = STK_ENOMEM, .message = "no memory" });
    fwrite(text, 1, stk_stats_metrics(s, text, len + 1), file->to); /* closing says why not */
    free(text);
    return 0;
}

/* The file of metrics is opened before anything runs: that it can't be written is said at once. */
static int run_once(const cli_args *a, bench_result *r)
{
    const char *path = cli_value(a, "metrics");
    cli_file file = { 0 };
    int rc = path ? cli_file_open(&file, path) : 0;

    if (rc == 0)
        rc = bench_run(&(bench_how){ .args = a, .trace = 1 }, r);
    if (rc == 0 && path && (put_metrics(&file, &r->stats) || cli_file_close(&file, 1))) {
        bench_free(r);
        rc = CLI_FAILED;
    }
    cli_file_close(&file, 0);
    return rc;
}

static int run(const cli_args *a)
{
    static const char *const of_one_run[] = { "trace", "metrics" };
    bench_result r;
    int rc;

    for (int i = 0; i < 2; i++)
        if (cli_value(a, of_one_run[i]) && (cli_value(a, "sweep") || cli_value(a, "against")))
            return cli_usage("--%s is of one run: leave out --sweep and --against", of_one_run[i]);
    if (cli_value(a, "against"))
        return bench_against(a);
    if (cli_value(a, "sweep"))
        return bench_sweep(a);
    rc = run_once(a, &r);
    if (rc)
        return rc;
    (cli_value(a, "json") ? bench_print_json : bench_print)(&r);
    rc = bench_page(a, &r, "stoker bench");
    bench_free(&r);
    return rc;
}

static const cli_option options[] = {
    { "field", "NAME=CHAIN", NULL,
      "an output of the batch; may be given several times (default: pictures with the usual "
      "augmentation and the label from cls, windows of token files, or every field as it is)" },
    { "where", "CONDITION", NULL, "load only what satisfies it: 'width >= 256'" },
    { "batch-size", "N", "64", "samples in a batch" },
    { "epochs", "N", NULL, "stop after N epochs" },
    { "seconds", "S", "10", "stop after S seconds" },
    { "step-ms", "MS", "0", "pretend to train for MS milliseconds on each batch" },
    { "sweep", NULL, NULL, "try workers and batches ahead in a grid, --seconds (1) each" },
    { "against", "torch", NULL,
      "compare with PyTorch's DataLoader and Pillow over the same data and chains, in rounds of "
      "--seconds (1)" },
    { "trace", "FILE", NULL,
      "write what every worker did, for ui.perfetto.dev or chrome://tracing: the last 65,536 "
      "stages of each" },
    { "metrics", "FILE", NULL, "write the figures as OpenMetrics text, for Prometheus" },
    { "html", "FILE", NULL, "also write a page with charts: one file, no network" },
    { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",
      "where indexes of read-only data go" },
    { "format", "NAME", "found by looking",
      "how the shards are laid out; 'stoker ops' lists formats" },
    { NULL },
};

const cli_command cli_bench = {
    .name = "bench",
    .synopsis = "DATA... [options]",
    .summary = "load as a training loop would, and say how fast and what is slow",
    .about = "Pulls batches as fast as they come and prints samples/s, MB/s, time to first batch, "
             "CPU time, peak\n"
             "memory, the share of every stage and the gap between epochs.  Use it to choose "
             "workers and batch\n"
             "size, to see whether reading or decoding is the limit, and (with --step-ms) whether "
             "a training loop\n"
             "would have to wait.  The first epoch may read from disk; later ones come from the "
             "page cache.",
    .examples = "  stoker bench 'train-{000000..000099}.tar' --shuffle --seconds 30\n"
                "  stoker bench data/ --field 'image=from(jpg) | image | resize(256) | "
                "center_crop(224)' \\\n"
                "      --field 'label=from(cls) | int' --batch-size 256 --workers 8 --json\n"
                "  stoker bench data/ --against torch\n",
    .options = options,
    .loader = 1,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
