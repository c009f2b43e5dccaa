/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - stoker doctor: what holds loading up, what removing that would give, and how.
 *
 * Differential runs: as it is, once more with the same samples, which come from memory then, and
 * with one worker per core.  What changes between them is what the change touches. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "doctor.h"

#define RUNS 3
#define DEFAULT_SECONDS 3.0

typedef struct one_run {
    const char *name, *what;
    double rate;
    bench_result r;
} one_run;

static double rate_of(const bench_result *r)
{
    double s = r->to.at_s - r->from.at_s - (r->to.start_s - r->from.start_s);

    return s > 0 ? (double)r->samples / s : 0;
}

static int run_all(const cli_args *a, double seconds, one_run *run)
{
    uint32_t cores;
    int rc = 0;

    for (int i = 0; i < RUNS && rc == 0; i++) {
        bench_how how = { .args = a, .seconds = seconds, .trace = i == 0 };

        cores = i ? (uint32_t)run[0].r.to.cores : 0;
        how.workers = i == 2 ? cores : 0;
        if (i == 2 && (!cores || (double)cores == run[0].r.to.workers))
            break;
        rc = bench_run(&how, &run[i].r);
        if (rc == 0)
            run[i].rate = rate_of(&run[i].r);
    }
    return rc;
}

static double epoch_of(const one_run *run)
{
    return run->rate > 0 ? (double)run->r.dataset_samples / run->rate : 0;
}

static double planned_epoch(const bench_result *r, double step_ms)
{
    return (double)r->dataset_samples / r->batch_size * step_ms * 1e-3;
}

static void print(const one_run *run, double step_ms)
{
    const bench_result *r = &run[0].r;
    char many[32], video[640];

    stk_video_libraries(video, sizeof video);
    cli_put(stdout, "%s samples, batches of %u, %u workers on %.0f cores\nvideo: %s\n\n",
            cli_many(many, r->dataset_samples), r->batch_size, r->stats.workers, r->to.cores,
            video);
    for (int i = 0; i < RUNS; i++)
        if (run[i].rate > 0)
            cli_put(stdout, "  %-12s%12s samples/s  %s\n", run[i].name,
                    cli_many(many, (uint64_t)(run[i].rate + 0.5)), run[i].what);
    if (step_ms > 0)
        cli_put(stdout, "  %-12s%12s samples/s  %s\n", "ceiling",
                cli_many(many, (uint64_t)(1e3 / step_ms * r->batch_size + 0.5)),
                "a loop that never waits");
    if (step_ms > 0)
        cli_put(stdout, "  %-12s%12.1f s          planned %.1f s: steps that never wait\n",
                "an epoch", epoch_of(&run[0]), planned_epoch(r, step_ms));
    cli_put(stdout, "\n");
    bench_put_checks(&r->found);
    if (run[1].rate > 1.1 * run[0].rate && r->stats.cold_reads)
        cli_put(stdout, "\nThe data came from storage at first: from memory it is %.2fx as fast.\n",
                run[1].rate / run[0].rate);
    if (run[2].rate > 1.1 * run[1].rate)
        cli_put(stdout, "\nWith one worker per core it is %.2fx as fast.\n",
                run[2].rate / run[1].rate);
    cli_put(stdout, "\n%s\n", r->found.sentence);
}

static void print_json(const one_run *run, double step_ms)
{
    cli_json j = { .to = stdout };
    char video[640];

    stk_video_libraries(video, sizeof video);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "video", video);
    cli_json_count(&j, "dataset_samples", run[0].r.dataset_samples);
    cli_json_count(&j, "workers", run[0].r.stats.workers);
    cli_json_open(&j, "samples_per_s", '{');
    for (int i = 0; i < RUNS; i++)
        if (run[i].rate > 0)
            cli_json_real(&j, run[i].name, run[i].rate);
    cli_json_close(&j, '}');
    if (step_ms > 0) {
        cli_json_real(&j, "epoch_s", epoch_of(&run[0]));
        cli_json_real(&j, "planned_epoch_s", planned_epoch(&run[0].r, step_ms));
    }
    bench_json_found(&j, &run[0].r.found);
    cli_json_close(&j, '}');
}

static int doctor_data(const cli_args *a)
{
    one_run run[RUNS] = { { .name = "as it is", .what = "" },
                          { .name = "again", .what = "what was read before is in memory" },
                          { .name = "all cores", .what = "one worker per core" } };
    double seconds = DEFAULT_SECONDS, step_ms = 0;
    int rc = cli_number(a, "seconds", 0.05, 1e6, &seconds);

    if (rc == 0)
        rc = cli_number(a, "step-ms", 0, 1e6, &step_ms);
    if (rc == 0)
        rc = run_all(a, seconds, run);
    if (rc == 0 && cli_value(a, "json"))
        print_json(run, step_ms);
    else if (rc == 0)
        print(run, step_ms);
    if (rc == 0)
        rc = bench_page(a, &run[0].r, "stoker doctor");
    for (int i = 0; i < RUNS; i++)
        bench_free(&run[i].r);
    return rc;
}

static int run(const cli_args *a)
{
    const char *const *command = cli_words_after(a);

    if (!command)
        return doctor_data(a);
    if (!command[0])
        return cli_usage("a command comes after --, as in: stoker doctor -- python train.py");
    if (command != cli_word_list(a))
        return cli_usage("doctor looks at data or at a command, not at both: '%s' stands before --",
                         cli_word_list(a)[0]);
    return doctor_child(command, cli_value(a, "json") != NULL);
}

static const cli_option options[] = {
    { "field", "NAME=CHAIN", NULL, "an output of the batch, as for bench" },
    { "batch-size", "N", "64", "samples in a batch" },
    { "seconds", "S", "3", "how long each of the runs takes" },
    { "step-ms", "MS", "0", "a training step takes so long: pretend to train" },
    { "html", "FILE", NULL, "also write a page with charts: one file, no network" },
    { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",
      "where indexes of read-only data go" },
    { "format", "NAME", "found by looking",
      "how the shards are laid out; 'stoker ops' lists formats" },
    { NULL },
};

const cli_command cli_doctor = {
    .name = "doctor",
    .synopsis = "DATA... [options]  |  -- COMMAND ...",
    .summary = "why is my GPU idle? names what holds loading up, and the remedy",
    .about =
        "With data: loads it as bench does, several times with one thing changed, and says in one\n"
        "sentence what holds it up, what removing that would give and how.  With -- and a "
        "command:\n"
        "runs an unedited Python script, watches its PyTorch DataLoaders and stoker loaders, and "
        "says\n"
        "the same of it; the exit status is the script's.  Figures stand beside what is usual in "
        "the\n"
        "field (docs/seeing.md).",
    .examples = "  stoker doctor photos/ --step-ms 120 --batch-size 256\n"
                "  stoker doctor -- python train.py --epochs 1\n",
    .options = options,
    .loader = 1,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
