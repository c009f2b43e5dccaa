/* SPDX-License-Identifier: Apache-2.0 */
/* bench_run.c - pull batches as a training loop would, and note what that took: for bench, doctor
 * and plan.
 *
 * The consumer lets every batch go at once (after --step-ms of pretended training), so the rate
 * is what the loader can do on this machine with nothing else running. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench.h"

#define MAX_OUTPUTS 64
#define DEFAULT_BATCH 64
#define DEFAULT_SECONDS 10.0

static const char *const image_fields[] = { "image", "jpg", "jpeg", "png", "webp" };
static const char image_chain[] =
    "image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)";

typedef struct bench {
    const cli_args *args;
    stk_dataset *data;
    uint64_t *id; /* --where: samples that take part */
    stk_loader *loader;
    stk_output output[MAX_OUTPUTS];
    char *text[MAX_OUTPUTS]; /* what output[] points to and we own */
    uint32_t n_text;
    double max_epochs, max_seconds, step_ms;
    int trace;
    double *interval; /* from batch to batch within an epoch */
    size_t n_intervals, cap;
    bench_result r;
} bench;

/* ---- outputs ---- */

static int has_field(const bench *b, const char *name)
{
    const char *f;

    for (uint32_t i = 0; (f = stk_dataset_field(b->data, i)); i++)
        if (!strcmp(f, name))
            return 1;
    return 0;
}

static int add_output(bench *b, const char *name, const char *chain)
{
    uint32_t n = b->r.n_outputs;
    size_t len = strlen(name) + 1;

    if (n == MAX_OUTPUTS)
        return cli_usage("at most %d fields; name those you want with --field", MAX_OUTPUTS);
    b->text[n] = malloc(len + strlen(chain) + 1);
    if (!b->text[n])
        return cli_usage("out of memory");
    memcpy(b->text[n], name, len);
    strcpy(b->text[n] + len, chain);
    b->output[n] = (stk_output){ b->text[n], b->text[n] + len };
    b->n_text = ++b->r.n_outputs;
    return 0;
}

/* The result outlives the run, and so do its outputs' texts. */
static int keep_outputs(bench *b)
{
    b->r.outputs = malloc((b->n_text + 1) * sizeof *b->r.outputs);
    if (!b->r.outputs)
        return cli_usage("out of memory");
    memcpy(b->r.outputs, b->output, b->n_text * sizeof *b->output);
    b->n_text = 0;
    return 0;
}

static int given_outputs(bench *b)
{
    const char *f;
    int rc = 0;

    for (size_t i = 0; rc == 0 && (f = cli_value_at(b->args, "field", i)); i++) {
        const char *equals = strchr(f, '=');
        char name[128];

        if (!equals || equals == f || equals - f >= (int)sizeof name)
            return cli_usage(
                "--field is NAME=CHAIN, as in --field 'label=from(cls) | int', not \"%s\"", f);
        snprintf(name, sizeof name, "%.*s", (int)(equals - f), f);
        rc = add_output(b, name, equals + 1);
    }
    return rc;
}

/* Windows of tokens with their labels; every other array as it is stored. */
static int array_outputs(bench *b, const char *kind)
{
    char chain[300];
    const char *f;
    int rc = 0;

    if (!strcmp(kind, "tokens")) {
        rc = add_output(b, "input", "tokens(block=1024)");
        return rc == 0 ? add_output(b, "label", "tokens(block=1024, shift=1)") : rc;
    }
    for (uint32_t i = 0; rc == 0 && (f = stk_dataset_field(b->data, i)); i++) {
        snprintf(chain, sizeof chain, "from(\"%.200s\")", f);
        rc = add_output(b, f, chain);
    }
    return rc;
}

/* A field as it is.  What is not read is left out, and lists that differ in length: batches of them
 * need a --field that says how. */
static int plain_output(bench *b, const stk_field_type *t)
{
    char chain[300];

    if (t->refused || (t->dtype && t->ndim && t->shape[0] < 0))
        return 0;
    snprintf(chain, sizeof chain, "from(\"%.200s\"%s)%s", t->name,
             !t->nullable ? ""
             : t->dtype   ? ", default=0"
                          : ", default=''",
             t->dtype ? "" : " | bytes");
    return add_output(b, t->name, chain);
}

/* Pictures with the usual augmentation and their label, or else every field as it is. */
static int default_outputs(bench *b)
{
    const char *kind = stk_dataset_arrays(b->data);
    char chain[300] = "";
    stk_field_type t;
    size_t n = 0;
    int rc = 0;

    if (kind)
        return array_outputs(b, kind);
    for (size_t i = 0; i < sizeof image_fields / sizeof *image_fields; i++)
        if (has_field(b, image_fields[i]))
            n += (size_t)snprintf(chain + n, sizeof chain - n, "%s%s", n ? ", " : "from(",
                                  image_fields[i]);
    if (n) {
        snprintf(chain + n, sizeof chain - n, ") | %s", image_chain);
        rc = add_output(b, "image", chain);
        return rc == 0 && has_field(b, "cls") ? add_output(b, "label", "from(cls) | int") : rc;
    }
    for (uint32_t i = 0; rc == 0 && stk_dataset_field_type(b->data, i, &t); i++)
        rc = plain_output(b, &t);
    return rc;
}

/* ---- measuring ---- */

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* A line of /proc/self/status in bytes; 0 where there is none. */
static uint64_t memory_line(const char *name)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    uint64_t kb = 0;

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            kb = strtoull(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return kb * 1024;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int note_interval(bench *b, double seconds)
{
    if (b->n_intervals == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 1024;
        double *p = realloc(b->interval, cap * sizeof *p);

        if (!p)
            return cli_usage("out of memory");
        b->interval = p;
        b->cap = cap;
    }
    b->interval[b->n_intervals++] = seconds;
    return 0;
}

/* So many samples came `at` seconds after the start. */
static void note_flow(bench_flow *f, double at, uint32_t samples)
{
    if (f->width <= 0)
        f->width = 0.01;
    while (at / f->width >= BENCH_BINS) {
        for (size_t i = 0; i < BENCH_BINS / 2; i++)
            f->samples[i] = f->samples[2 * i] + f->samples[2 * i + 1];
        memset(f->samples + BENCH_BINS / 2, 0, sizeof f->samples / 2);
        f->width *= 2;
    }
    f->samples[(size_t)(at / f->width)] += samples;
}

static bench_epoch *new_epoch(bench *b)
{
    bench_epoch *p = realloc(b->r.epoch, (b->r.n_epochs + 1) * sizeof *p);

    if (!p)
        return NULL;
    b->r.epoch = p;
    p[b->r.n_epochs] = (bench_epoch){ 0 };
    return &p[b->r.n_epochs++];
}

static void pretend_to_train(const bench *b)
{
    struct timespec t = { (time_t)(b->step_ms / 1e3), (long)(fmod(b->step_ms, 1e3) * 1e6) };

    if (b->step_ms > 0)
        nanosleep(&t, NULL);
}

static void draw(bench *b, cli_bar *bar, double elapsed)
{
    double share = isfinite(b->max_seconds)
                       ? elapsed / b->max_seconds
                       : (double)b->r.batches /
                             (b->max_epochs * (double)stk_loader_steps(b->loader));
    char rate[32], note[64];

    snprintf(note, sizeof note, "%s samples/s",
             cli_many(rate, (uint64_t)(elapsed > 0 ? (double)b->r.samples / elapsed : 0)));
    cli_bar_draw(bar, share, note);
}

/* One epoch; *more is 0 when time is up.  Its own clock reads stand outside of what is timed as
 * waiting. */
static int run_epoch(bench *b, cli_bar *bar, double start, int *more)
{
    bench_epoch *e = new_epoch(b);
    double from = cli_seconds(), last = from, asked, now;
    stk_batch *batch = NULL;
    stk_error err;
    int rc;

    if (!e)
        return cli_usage("out of memory");
    for (;;) {
        asked = cli_seconds();
        rc = stk_loader_next(b->loader, &batch, -1, &err);
        now = cli_seconds();
        if (rc)
            break;
        b->r.wait_seconds += now - asked;
        if (!e->batches)
            e->first_wait = now - asked;
        else if (note_interval(b, now - last))
            return CLI_FAILED;
        if (!b->r.batches)
            b->r.first_batch = now - start;
        e->batches++;
        e->samples += stk_batch_rows(batch);
        note_flow(&b->r.flow, now - start, stk_batch_rows(batch));
        b->r.batches++;
        b->r.samples += stk_batch_rows(batch);
        stk_batch_release(&batch);
        last = now;
        pretend_to_train(b);
        draw(b, bar, now - start);
        if (now - start >= b->max_seconds) {
            *more = 0;
            break;
        }
    }
    e->seconds = now - from;
    e->whole = rc == STK_END || e->batches == stk_loader_steps(b->loader);
    e->rss = memory_line("VmRSS:");
    return rc < 0 ? cli_failed(&err) : 0;
}

static void sum_up(bench *b, double start, double cpu)
{
    bench_result *r = &b->r;

    r->seconds = cli_seconds() - start;
    r->cpu_seconds = cpu_seconds() - cpu;
    r->rss_peak = memory_line("VmHWM:");
    r->stats.size = sizeof r->stats;
    stk_loader_stats(b->loader, &r->stats);
    r->interval = b->n_intervals ? malloc(b->n_intervals * sizeof *r->interval) : NULL;
    r->n_intervals = r->interval ? b->n_intervals : 0;
    if (r->interval)
        memcpy(r->interval, b->interval, b->n_intervals * sizeof *r->interval);
    if (b->n_intervals)
        qsort(b->interval, b->n_intervals, sizeof *b->interval, by_size);
    r->median_batch = b->n_intervals ? b->interval[b->n_intervals / 2] : 0;
    for (size_t i = 1; i < r->n_epochs; i++)
        if (r->epoch[i].first_wait > r->longest_gap)
            r->longest_gap = r->epoch[i].first_wait;
}

static int measure(bench *b, const stk_loader_options *o)
{
    double start = cli_seconds(), cpu = cpu_seconds();
    cli_file trace = { 0 };
    stk_error err;
    cli_bar bar;
    int rc, more = 1, failed;

    rc = stk_loader_open(&b->loader, &b->data, 1, o, &err);
    if (rc < 0)
        return cli_failed(&err);
    if (b->trace)
        rc = bench_trace_begin(b->args, b->loader, &trace);
    b->r.from.size = b->r.to.size = sizeof b->r.to;
    stk_loader_sight(b->loader, &b->r.from);
    cli_bar_open(&bar, "loading");
    while (rc == 0 && more && (double)b->r.n_epochs < b->max_epochs)
        rc = run_epoch(b, &bar, start, &more);
    cli_bar_close(&bar);
    sum_up(b, start, cpu);
    stk_loader_sight(b->loader, &b->r.to);
    b->r.found.size = sizeof b->r.found;
    stk_diagnose(&b->r.from, &b->r.to,
                 &(stk_diagnose_options){ .size = sizeof(stk_diagnose_options),
                                          .data = cli_word_list(b->args)[0] },
                 &b->r.found);
    failed = b->trace ? bench_trace_end(b->loader, &trace, rc == 0, &b->r) : 0;
    stk_loader_close(&b->loader);
    return rc ? rc : failed;
}

/* ---- the whole ---- */

static int read_limits(bench *b)
{
    b->max_epochs = b->max_seconds = INFINITY;
    if (cli_value(b->args, "epochs") && cli_value(b->args, "seconds"))
        return cli_usage("take --epochs or --seconds, not both");
    if (!cli_value(b->args, "epochs"))
        b->max_seconds = DEFAULT_SECONDS;
    if (cli_number(b->args, "epochs", 1, 1e9, &b->max_epochs) ||
        cli_number(b->args, "seconds", 0.01, 1e9, &b->max_seconds) ||
        cli_number(b->args, "step-ms", 0, 1e6, &b->step_ms))
        return CLI_USAGE;
    return 0;
}

static int open_data(bench *b)
{
    stk_dataset_options o = { .size = sizeof o,
                              .log = cli_log,
                              .cache_dir = cli_value(b->args, "cache-dir"),
                              .format = cli_value(b->args, "format") };
    double start = cli_seconds();
    stk_error err;

    if (stk_dataset_open(&b->data, cli_word_list(b->args), cli_words(b->args), &o, &err) < 0)
        return cli_failed(&err);
    b->r.open_seconds = cli_seconds() - start;
    b->r.dataset_samples = stk_dataset_len(b->data);
    b->r.dataset_shards = stk_dataset_shards(b->data);
    if (b->r.dataset_samples)
        return 0;
    cli_usage("the data set has no samples: its %llu shard%s hold no member that is a field",
              (unsigned long long)b->r.dataset_shards, b->r.dataset_shards == 1 ? "" : "s");
    return CLI_FAILED;
}

/* --where: which samples take part. */
static int choose(bench *b, stk_loader_options *o)
{
    const char *where = cli_value(b->args, "where");
    stk_error err;

    if (!where)
        return 0;
    if (stk_dataset_where(b->data, where, &b->id, &o->n_select, &err) < 0)
        return cli_failed(&err);
    o->select = b->id;
    if (o->n_select)
        return 0;
    cli_usage("no sample satisfies --where %.200s", where);
    return CLI_FAILED;
}

static int free_and(bench *b, int rc)
{
    stk_dataset_where_free(&b->id);
    stk_dataset_unref(&b->data);
    for (uint32_t i = 0; i < b->n_text; i++)
        free(b->text[i]);
    free(b->interval);
    if (rc)
        bench_free(&b->r);
    return rc;
}

int bench_run(const bench_how *how, bench_result *out)
{
    stk_loader_options o = { .size = sizeof o, .batch_size = DEFAULT_BATCH, .log = cli_log };
    bench b = { .args = how->args, .trace = how->trace };
    int rc = read_limits(&b);

    if (rc == 0)
        rc = cli_loader_options(how->args, &o);
    if (rc == 0)
        rc = open_data(&b);
    if (rc == 0)
        rc = choose(&b, &o);
    if (rc == 0)
        rc = cli_value(how->args, "field") ? given_outputs(&b) : default_outputs(&b);
    if (rc == 0) {
        if (how->seconds > 0) {
            b.max_seconds = how->seconds;
            b.max_epochs = INFINITY;
        }
        o.num_workers = how->workers ? (int32_t)how->workers : o.num_workers;
        o.prefetch = how->prefetch ? how->prefetch : o.prefetch;
        o.outputs = b.output;
        o.n_outputs = b.r.n_outputs;
        b.r.batch_size = o.batch_size;
        rc = measure(&b, &o);
    }
    if (rc == 0)
        rc = keep_outputs(&b);
    rc = free_and(&b, rc);
    *out = b.r; /* with an error, nothing is in it */
    return rc;
}

void bench_free(bench_result *r)
{
    for (uint32_t i = 0; i < r->n_outputs && r->outputs; i++)
        free((char *)r->outputs[i].name);
    free(r->outputs);
    free(r->epoch);
    free(r->interval);
    free(r->span);
    r->span = NULL;
    r->interval = NULL;
    r->outputs = NULL;
    r->epoch = NULL;
    r->n_outputs = 0;
}
