/* SPDX-License-Identifier: Apache-2.0 */
/* bench_sweep.c - stoker bench --sweep: workers and batches ahead in a grid, and the line of Python
 * for the best. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "page.h"

#define MOST 12
#define DEFAULT_SECONDS 1.0

typedef struct sweep {
    uint32_t workers[MOST], prefetch[4], n_workers, n_prefetch;
    double rate[MOST * 4];
    uint32_t best; /* cell */
} sweep;

static void plan(sweep *s, uint32_t cores)
{
    static const uint32_t ahead[] = { 2, 4, 8, 16 };
    uint32_t n = 1;

    for (; n < cores && s->n_workers < MOST - 2; n *= 2)
        s->workers[s->n_workers++] = n;
    s->workers[s->n_workers++] = cores;
    s->workers[s->n_workers++] = 2 * cores;
    memcpy(s->prefetch, ahead, sizeof ahead);
    s->n_prefetch = 4;
}

static int try_all(const cli_args *a, double seconds, sweep *s)
{
    cli_bar bar;
    int rc = 0;
    uint32_t cells = s->n_workers * s->n_prefetch;

    cli_bar_open(&bar, "sweeping");
    for (uint32_t i = 0; i < cells && rc == 0; i++) {
        bench_how how = { .args = a,
                          .workers = s->workers[i / s->n_prefetch],
                          .prefetch = s->prefetch[i % s->n_prefetch],
                          .seconds = seconds };
        bench_result r;

        rc = bench_run(&how, &r);
        if (rc)
            break;
        s->rate[i] = r.seconds > r.first_batch ? (double)r.samples / r.seconds : 0;
        if (s->rate[i] > s->rate[s->best])
            s->best = i;
        bench_free(&r);
        cli_bar_draw(&bar, (double)(i + 1) / cells, "");
    }
    cli_bar_close(&bar);
    return rc;
}

static void line_of(const sweep *s, const char *data, char *text, size_t size)
{
    snprintf(text, size, "stoker.Loader(\"%.200s\", ..., num_workers=%u, prefetch=%u)", data,
             s->workers[s->best / s->n_prefetch], s->prefetch[s->best % s->n_prefetch]);
}

static void print(const sweep *s, const char *line)
{
    char many[32];

    cli_put(stdout, "samples/s: workers down, batches ahead across\n%10s", "");
    for (uint32_t c = 0; c < s->n_prefetch; c++)
        cli_put(stdout, "%12u", s->prefetch[c]);
    for (uint32_t i = 0; i < s->n_workers * s->n_prefetch; i++) {
        if (i % s->n_prefetch == 0)
            cli_put(stdout, "\n%10u", s->workers[i / s->n_prefetch]);
        cli_put(stdout, "%11s%c", cli_many(many, (uint64_t)(s->rate[i] + 0.5)),
                i == s->best ? '*' : ' ');
    }
    cli_put(stdout, "\n\n%s\n", line);
}

static void print_json(const sweep *s, const char *line)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "cells", '[');
    for (uint32_t i = 0; i < s->n_workers * s->n_prefetch; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "workers", s->workers[i / s->n_prefetch]);
        cli_json_count(&j, "prefetch", s->prefetch[i % s->n_prefetch]);
        cli_json_real(&j, "samples_per_s", s->rate[i]);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_text(&j, "line", line);
    cli_json_close(&j, '}');
}

static int write_page(const cli_args *a, const sweep *s, const char *line)
{
    page_grid g = { "workers",    "batches ahead", s->workers, s->prefetch,
                    s->n_workers, s->n_prefetch,   s->rate,    "samples/s" };
    page p;
    int rc = page_open(&p, a, "stoker bench --sweep");

    if (rc)
        return rc;
    page_text(&p, "say", line);
    page_heat(&p, "which settings are fastest", &g);
    return page_close(&p, 1);
}

int bench_sweep(const cli_args *a)
{
    sweep s = { .n_workers = 0 };
    double seconds = DEFAULT_SECONDS;
    bench_result probe;
    char line[400];
    int rc = cli_number(a, "seconds", 0.02, 1e6, &seconds);

    if (rc == 0)
        /* also warms up */
        rc = bench_run(&(bench_how){ .args = a, .seconds = seconds / 4 }, &probe);
    if (rc)
        return rc;
    plan(&s, (uint32_t)probe.to.cores);
    bench_free(&probe);
    rc = try_all(a, seconds, &s);
    if (rc)
        return rc;
    line_of(&s, cli_word_list(a)[0], line, sizeof line);
    (cli_value(a, "json") ? print_json : print)(&s, line);
    return write_page(a, &s, line);
}
