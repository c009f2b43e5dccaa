/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c - stoker plan: what a training run needs of its data, before it is started. */
#include <string.h>

#include "bench.h"
#include "page.h"

#define MS_PER_S 1e3

typedef struct plan_ask {
    stk_need need;
    double seconds; /* of sound in a sample; 0: it has none */
} plan_ask;

static int mean_of(stk_column *c, uint64_t n, double *out, stk_error *err)
{
    double part[1024], sum = 0;
    uint64_t known = 0;

    for (uint64_t at = 0; at < n; at += 1024) {
        uint64_t some = n - at < 1024 ? n - at : 1024;
        int rc = stk_column_f64(c, at, some, part, err);

        if (rc < 0)
            return rc;
        for (uint64_t i = 0; i < some; i++)
            if (part[i] > 0) {
                sum += part[i];
                known++;
            }
    }
    *out = known ? sum / (double)known : 0;
    return 0;
}

/* The mean length of the recordings in the first field whose name is one of sound. */
static int find_seconds(stk_dataset *ds, double *out, stk_error *err)
{
    static const char *const names[] = { "wav",  "flac", "mp3",   "ogg",
                                         "opus", "m4a",  "audio", "sound" };
    const stk_column_options how = { .size = sizeof how, .read = STK_YES };
    const char *field;
    char name[200];

    for (uint32_t i = 0; (field = stk_dataset_field(ds, i)); i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const char *dot = strrchr(field, '.');
            stk_column *c = NULL;
            int rc;

            if (strcmp(dot ? dot + 1 : field, names[k]) != 0)
                continue;
            snprintf(name, sizeof name, "%.180s.seconds", field);
            rc = stk_column_open(&c, ds, name, &how, NULL);
            if (rc == 0)
                rc = mean_of(c, stk_dataset_len(ds), out, err);
            stk_column_close(&c);
            if (rc == 0 && *out > 0)
                return 0;
        }
    return 0;
}

static int open_data(const cli_args *a, plan_ask *ask)
{
    stk_need *n = &ask->need;
    stk_dataset_options o = { .size = sizeof o,
                              .log = cli_log,
                              .cache_dir = cli_value(a, "cache-dir"),
                              .format = cli_value(a, "format") };
    stk_fingerprint print = { 0 };
    stk_dataset *ds = NULL;
    stk_error err;
    int rc;

    if (!cli_words(a))
        return 0;
    rc = stk_dataset_open(&ds, cli_word_list(a), cli_words(a), &o, &err);
    if (rc == 0)
        rc = stk_dataset_print(ds, &print, &err);
    n->samples = ds ? (double)stk_dataset_len(ds) : 0;
    n->sample_bytes = n->samples > 0 ? (double)print.bytes / n->samples : 0;
    if (rc == 0 && !cli_value(a, "sample-seconds"))
        rc = find_seconds(ds, &ask->seconds, &err);
    stk_dataset_unref(&ds);
    if (rc < 0)
        return cli_failed(&err);
    if (n->samples > 0)
        return 0;
    cli_usage("the data set has no samples: there is nothing to plan for");
    return CLI_FAILED;
}

static int bytes_value(const cli_args *a, const char *name, double *v)
{
    uint64_t bytes = 0;

    if (!cli_value(a, name))
        return 0;
    if (cli_size_value(a, name, &bytes))
        return CLI_USAGE;
    *v = (double)bytes;
    return 0;
}

/* What was given in place of what the data says, or where there is none. */
static int read_need(const cli_args *a, plan_ask *ask)
{
    stk_need *n = &ask->need;
    double step_ms = 0, load_ms = n->load_s * MS_PER_S; /* measured, where nothing is given */
    int bad = cli_number(a, "step-ms", 1e-3, 1e9, &step_ms) ||
              cli_number(a, "rate", 1e-6, 1e15, &n->rate) ||
              cli_number(a, "batch-size", 1, 1e9, &n->batch) ||
              cli_number(a, "gpus", 1, 1e6, &n->gpus) ||
              cli_number(a, "samples", 1, 1e18, &n->samples) ||
              cli_number(a, "load-ms", 0, 1e9, &load_ms) ||
              cli_number(a, "sample-seconds", 1e-6, 1e9, &ask->seconds) ||
              cli_number(a, "loader-rate", 1e-6, 1e15, &n->loader_rate) ||
              cli_number(a, "gpu-hour", 0, 1e6, &n->gpu_hour) ||
              bytes_value(a, "sample-bytes", &n->sample_bytes) ||
              bytes_value(a, "row-bytes", &n->row_bytes) ||
              bytes_value(a, "storage", &n->storage_rate) || bytes_value(a, "pcie", &n->link_rate);

    n->step_s = step_ms / MS_PER_S;
    n->load_s = load_ms / MS_PER_S;
    return bad ? CLI_USAGE : 0;
}

/* --bench: how fast the data is loaded here, and what a sample costs. */
static int measure(const cli_args *a, stk_need *n)
{
    bench_result r;
    int rc;

    if (!cli_value(a, "bench") || !cli_words(a))
        return 0;
    rc = bench_run(&(bench_how){ .args = a, .seconds = 3 }, &r);
    if (rc)
        return rc;
    n->loader_rate = r.seconds > 0 ? (double)r.samples / r.seconds : 0;
    n->load_s = r.samples ? r.cpu_seconds / (double)r.samples : 0;
    bench_free(&r);
    return 0;
}

/* ---- people ---- */

typedef struct sink { /* where lines go: the terminal, the page */
    FILE *to;         /* NULL: not there */
    page *p;
} sink;

static void line_bytes(const sink *k, const char *name, double bytes, const char *unit)
{
    char text[16], all[32];

    if (bytes < 0)
        return;
    snprintf(all, sizeof all, "%s%s", stk_size_format(text, (uint64_t)bytes), unit);
    if (k->to)
        cli_put(k->to, "  %-34s%12s%s\n", name, text, unit);
    page_row(k->p, name, all, 0);
}

static void line(const sink *k, const char *name, double v, const char *unit)
{
    char all[64];

    if (v < 0)
        return;
    snprintf(all, sizeof all, v < 100 ? "%.2f %s" : "%.0f %s", v, unit);
    if (k->to)
        cli_put(k->to, v < 100 ? "  %-34s%12.2f %s\n" : "  %-34s%12.0f %s\n", name, v, unit);
    page_row(k->p, name, all, 0);
}

static void line_time(const sink *k, double s)
{
    if (s < 0)
        return;
    if (s >= 2 * 86400)
        line(k, "an epoch", s / 86400, "days");
    else if (s >= 2 * 3600)
        line(k, "an epoch", s / 3600, "hours");
    else
        line(k, "an epoch", s, "s");
}

/* -1: not known. */
static double sound_of(const plan_ask *ask, double samples)
{
    return ask->seconds > 0 && samples > 0 ? samples * ask->seconds : -1;
}

static void print(const sink *k, const plan_ask *ask, const stk_plan_figures *f)
{
    const stk_need *n = &ask->need;

    line(k, "loaded here", n->loader_rate > 0 ? n->loader_rate : -1, "samples/s");
    line(k, "sound loaded here", sound_of(ask, n->loader_rate), "s/s");
    line(k, "samples", f->samples_rate, "/s");
    line(k, "sound", sound_of(ask, f->samples_rate), "s/s");
    line(k, "sound in an epoch", sound_of(ask, n->samples / 3600), "hours");
    line(k, "steps", f->steps_rate, "/s");
    line_bytes(k, "from storage", f->storage_rate, "/s");
    line_bytes(k, "to each GPU (PCIe)", f->link_rate, "/s");
    line(k, "a batch over PCIe", f->link_s < 0 ? -1 : f->link_s * MS_PER_S, "ms");
    line(k, "cores to make samples", f->cores, "");
    line_bytes(k, "to cache all of it", f->cache_bytes, "");
    line_time(k, f->epoch_s);
    line(k, "GPU busy, loading overlapped", f->use_overlapped < 0 ? -1 : 100 * f->use_overlapped,
         "%");
    line(k, "GPU busy, loading in series", f->use_serial < 0 ? -1 : 100 * f->use_serial, "%");
    line(k, "idle GPUs cost", f->idle_cost_month, "$ a month");
}

static void real_or_null(cli_json *j, const char *key, double v)
{
    if (v < 0)
        cli_json_text(j, key, NULL);
    else
        cli_json_real(j, key, v);
}

static void print_json(const plan_ask *ask, const stk_plan_figures *f)
{
    const stk_need *n = &ask->need;
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    real_or_null(&j, "loaded_per_s", n->loader_rate > 0 ? n->loader_rate : -1);
    real_or_null(&j, "samples_per_s", f->samples_rate);
    real_or_null(&j, "sound_loaded_per_s", sound_of(ask, n->loader_rate));
    real_or_null(&j, "sound_per_s", sound_of(ask, f->samples_rate));
    real_or_null(&j, "sound_s", sound_of(ask, n->samples));
    real_or_null(&j, "steps_per_s", f->steps_rate);
    real_or_null(&j, "storage_bytes_per_s", f->storage_rate);
    real_or_null(&j, "pcie_bytes_per_s", f->link_rate);
    real_or_null(&j, "pcie_batch_s", f->link_s);
    real_or_null(&j, "cores", f->cores);
    real_or_null(&j, "cache_bytes", f->cache_bytes);
    real_or_null(&j, "epoch_s", f->epoch_s);
    real_or_null(&j, "gpu_use_overlapped", f->use_overlapped);
    real_or_null(&j, "gpu_use_serial", f->use_serial);
    real_or_null(&j, "idle_cost_month", f->idle_cost_month);
    cli_json_close(&j, '}');
}

static int tell(const cli_args *a, const plan_ask *n, const stk_plan_figures *f)
{
    page p;
    sink k = { cli_value(a, "json") ? NULL : stdout, &p };
    int rc = page_open(&p, a, "stoker plan");

    if (rc)
        return rc;
    page_table(&p, "what the run needs");
    print(&k, n, f);
    page_table_end(&p);
    if (!k.to)
        print_json(n, f);
    return page_close(&p, 1);
}

static int run(const cli_args *a)
{
    plan_ask ask = { .need = { .size = sizeof ask.need } };
    stk_need *n = &ask.need;
    stk_plan_figures f = { .size = sizeof f };
    stk_error err;
    int rc = open_data(a, &ask);

    if (rc == 0)
        rc = measure(a, n);
    if (rc == 0)
        rc = read_need(a, &ask);
    if (rc == 0 && n->step_s <= 0 && n->rate <= 0)
        return cli_usage("how fast is the model? give --step-ms MS (of one step) or --rate N "
                         "(samples/s of one GPU)");
    if (rc == 0 && stk_plan_need(n, &f, &err) < 0)
        return cli_failed(&err);
    return rc ? rc : tell(a, &ask, &f);
}

static const cli_option options[] = {
    { "step-ms", "MS", NULL, "a training step takes so long without loading" },
    { "rate", "N", NULL, "in its place: samples/s of one GPU" },
    { "batch-size", "N", "1", "samples of a step on one GPU" },
    { "gpus", "N", "1", "GPUs that train" },
    { "samples", "N", "the data's", "samples of an epoch, or tokens" },
    { "sample-bytes", "SIZE", "the data's mean", "of a sample as it is stored" },
    { "sample-seconds", "S", "the data's mean", "of sound in a sample" },
    { "row-bytes", "SIZE", NULL, "of a sample as it goes to the GPU: 3 x 224 x 224 x 2 for f16" },
    { "load-ms", "MS", NULL, "CPU time of one core to make a sample" },
    { "loader-rate", "N", NULL, "samples/s that are loaded" },
    { "bench", NULL, NULL, "measure both on the data, for 3 seconds" },
    { "storage", "SIZE", NULL, "bytes/s that the storage gives: 500MB" },
    { "pcie", "SIZE", NULL, "bytes/s to a GPU: 28GB" },
    { "gpu-hour", "PRICE", NULL, "of one GPU, for what idle ones cost" },
    { "html", "FILE", NULL, "also write a page: one file, no network" },
    { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",
      "where indexes of read-only data go" },
    { "format", "NAME", "found by looking",
      "how the shards are laid out; 'stoker ops' lists formats" },
    { NULL },
};

const cli_command cli_plan = {
    .name = "plan",
    .synopsis = "[DATA...] --step-ms MS | --rate N [options]",
    .summary = "what will a run need of storage, network, PCIe and cores?",
    .about =
        "From the data's index and the time of a training step: samples/s, bytes/s from storage "
        "and\n"
        "over PCIe, cores, cache size, the time of an epoch, how busy the GPUs will be and what "
        "idle\n"
        "ones cost.  Only what follows from what is known is printed.  docs/seeing.md has worked\n"
        "examples.",
    .examples = "  stoker plan photos/ --step-ms 120 --batch-size 256 --gpus 8 --bench\n"
                "  stoker plan --samples 100e9 --rate 500e3\n",
    .options = options,
    .min_words = 0,
    .max_words = -1,
    .run = run,
};
