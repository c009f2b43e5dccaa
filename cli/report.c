/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what stoker bench and doctor say: a page for people, one object for programs. */
#include <string.h>

#include "bench.h"
#include "page.h"

static double per(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double stage_seconds(const bench_result *r, int i)
{
    return (double)r->stats.stage_ns[i] * 1e-9;
}

static double stage_total(const bench_result *r)
{
    double total = 0;

    for (int i = 0; i < STK_STAGES; i++)
        total += stage_seconds(r, i);
    return total;
}

/* ---- people ---- */

static void print_head(const bench_result *r)
{
    char samples[32], shards[32];

    cli_put(
        stdout,
        "%s samples in %s shard%s, opened in %.1f ms; batches of %u, %u worker%s, %u made ahead\n",
        cli_many(samples, r->dataset_samples), cli_many(shards, r->dataset_shards),
        r->dataset_shards == 1 ? "" : "s", r->open_seconds * 1e3, r->batch_size, r->stats.workers,
        r->stats.workers == 1 ? "" : "s", r->stats.slots);
    for (uint32_t i = 0; i < r->n_outputs; i++)
        cli_put(stdout, "  %-8s%s\n", r->outputs[i].name, r->outputs[i].chain);
}

static void print_rates(const bench_result *r)
{
    char samples[32], rate[32], rss[16], planned[16], limit[16];

    cli_put(stdout, "\n  %-24s%12s  (%s samples in %.2f s)\n", "samples/s",
            cli_many(rate, (uint64_t)(per((double)r->samples, r->seconds) + 0.5)),
            cli_many(samples, r->samples), r->seconds);
    cli_put(stdout, "  %-24s%12.1f\n", "MB/s", per((double)r->stats.bytes * 1e-6, r->seconds));
    cli_put(stdout, "  %-24s%9.1f ms\n", "time to first batch", r->first_batch * 1e3);
    cli_put(stdout, "  %-24s%10.3f s  for 1,000 samples\n", "CPU time",
            per(r->cpu_seconds * 1e3, (double)r->samples));
    cli_put(stdout, "  %-24s%12s  (planned %s of at most %s)\n", "peak memory",
            stk_size_format(rss, r->rss_peak), stk_size_format(planned, r->stats.memory_peak),
            stk_size_format(limit, r->stats.memory_limit));
    cli_put(stdout, "  %-24s%10.2f s  (%.0f %%)\n", "consumer waited", r->wait_seconds,
            100 * per(r->wait_seconds, r->seconds));
    if (r->n_epochs > 1)
        cli_put(stdout, "  %-24s%9.1f ms  (median batch %.1f ms)\n", "gap between epochs",
                r->longest_gap * 1e3, r->median_batch * 1e3);
    if (r->stats.cold_by)
        cli_put(stdout, "  %-24s%12s  (by %s)\n", "reads that had to wait",
                cli_many(rate, r->stats.cold_reads), r->stats.cold_by);
    if (r->stats.skipped)
        cli_put(stdout, "  %-24s%12s\n", "bad samples skipped", cli_many(rate, r->stats.skipped));
}

static void print_stages(const bench_result *r)
{
    double total = stage_total(r);

    cli_put(stdout, "\n  %-10s%10s%8s%12s   (summed over workers)\n", "stage", "seconds", "share",
            "us/sample");
    for (int i = 0; i < STK_STAGES; i++)
        cli_put(stdout, "  %-10s%10.3f%7.1f%%%12.2f\n", stk_stage_name((stk_stage_id)i),
                stage_seconds(r, i), 100 * per(stage_seconds(r, i), total),
                per(stage_seconds(r, i) * 1e6, (double)r->stats.samples));
}

#define MANY_EPOCHS 16 /* of which the page has a line each, and of the last */

static void print_epochs(const bench_result *r)
{
    char rate[32], rss[16];

    cli_put(stdout, "\n  %-10s%10s%12s%12s%12s\n", "epoch", "seconds", "samples/s", "first batch",
            "resident");
    for (size_t i = 0; i < r->n_epochs; i++) {
        const bench_epoch *e = &r->epoch[i];

        if (i == MANY_EPOCHS && r->n_epochs > MANY_EPOCHS + 1) { /* small data has thousands */
            i = r->n_epochs - 1;
            e = &r->epoch[i];
            cli_put(stdout, "  ... %zu more; all of them: --json\n", i - MANY_EPOCHS);
        }
        cli_put(stdout, "  %-10zu%10.3f%12s%9.1f ms%12s%s\n", i, e->seconds,
                cli_many(rate, (uint64_t)(per((double)e->samples, e->seconds) + 0.5)),
                e->first_wait * 1e3, stk_size_format(rss, e->rss), e->whole ? "" : "  (cut short)");
    }
}

void bench_print(const bench_result *r)
{
    print_head(r);
    print_rates(r);
    print_stages(r);
    print_epochs(r);
    cli_put(stdout, "\n%s\n", r->found.sentence);
}

static void page_checks(page *p, const stk_diagnosis *d)
{
    char text[96];

    page_table(p, "figures beside what is usual in the field");
    for (uint32_t i = 0; i < d->n_checks; i++) {
        const stk_check_line *c = &d->check[i];

        snprintf(text, sizeof text, "%.1f %s (%s)", c->value, c->unit, c->rule);
        page_row(p, c->name, text, c->good ? 1 : -1);
    }
    page_table_end(p);
}

static void page_figures(page *p, const bench_result *r)
{
    char text[64], many[32];

    page_table(p, "what was measured");
    snprintf(text, sizeof text, "%s",
             cli_many(many, (uint64_t)(per((double)r->samples, r->seconds) + 0.5)));
    page_row(p, "samples/s", text, 0);
    snprintf(text, sizeof text, "%.1f", per((double)r->stats.bytes * 1e-6, r->seconds));
    page_row(p, "MB/s", text, 0);
    snprintf(text, sizeof text, "%.1f ms", r->first_batch * 1e3);
    page_row(p, "time to first batch", text, 0);
    snprintf(text, sizeof text, "%.3f s", per(r->cpu_seconds * 1e3, (double)r->samples));
    page_row(p, "CPU time for 1,000 samples", text, 0);
    page_row(p, "peak memory", stk_size_format(text, r->rss_peak), 0);
    snprintf(text, sizeof text, "%u workers, %u batches ahead of %u", r->stats.workers,
             r->stats.ring_ahead, r->stats.slots);
    page_row(p, "settings", text, 0);
    for (uint32_t i = 0; i < r->n_outputs; i++)
        page_row(p, r->outputs[i].name, r->outputs[i].chain, 0);
    page_table_end(p);
}

#define WAITS 24 /* classes of the wait histogram, each twice the one before */

static void page_charts(page *p, const bench_result *r)
{
    page_bar stage[STK_STAGES], wait[WAITS];
    char name[WAITS][32];
    double total = stage_total(r);
    size_t n = 0;

    for (int i = 0; i < STK_STAGES; i++)
        stage[i] = (page_bar){ stk_stage_name((stk_stage_id)i),
                               100 * per(stage_seconds(r, i), total) };
    page_bars(p, "where the workers' time went", stage, STK_STAGES, "%");
    for (size_t k = 0; k < WAITS; k++) {
        double least = 1e-6 * (double)(1u << k);
        double count = 0;

        for (size_t i = 0; i < r->n_intervals; i++)
            count += r->interval[i] >= least && (r->interval[i] < 2 * least || k + 1 == WAITS);
        if (count > 0) {
            snprintf(name[n], sizeof name[n], "from %.3g ms", least * 1e3);
            wait[n] = (page_bar){ name[n], count };
            n++;
        }
    }
    page_bars(p, "time from batch to batch", wait, n, "batches");
    page_line(p, "time of each batch, in order", r->interval, r->n_intervals, "s");
}

/* Samples per second over the run: each point is of some batches, or it would show when they came.
 * The last bins, which are not full, are left out. */
static void page_flow(page *p, const bench_result *r)
{
    double rate[BENCH_BINS] = { 0 };
    size_t bins = r->flow.width > 0 ? (size_t)(r->seconds / r->flow.width) : 0, each, n;

    bins = bins < BENCH_BINS ? bins : BENCH_BINS;
    each = 1 + 4 * bins / (size_t)(r->batches + 1);
    n = bins / each;
    for (size_t i = 0; i < n * each; i++)
        rate[i / each] += r->flow.samples[i] / (r->flow.width * (double)each);
    page_line(p, "throughput over time", rate, n, "samples/s");
}

int bench_page(const cli_args *a, const bench_result *r, const char *title)
{
    page p;
    int rc = page_open(&p, a, title);

    if (rc || !p.on)
        return rc;
    page_text(&p, "say", r->found.sentence);
    page_figures(&p, r);
    page_checks(&p, &r->found);
    page_charts(&p, r);
    page_flow(&p, r);
    page_timeline(&p, r->span, r->n_spans);
    page_pictures(&p, a, r->outputs, r->n_outputs);
    return page_close(&p, 1);
}

void bench_put_checks(const stk_diagnosis *d)
{
    for (uint32_t i = 0; i < d->n_checks; i++)
        cli_put(stdout, "  %s %-16s%12.1f %-16s (%s)\n", d->check[i].good ? "ok" : "!!",
                d->check[i].name, d->check[i].value, d->check[i].unit, d->check[i].rule);
}

void bench_json_found(cli_json *j, const stk_diagnosis *d)
{
    cli_json_open(j, "diagnosis", '{');
    cli_json_text(j, "cause", stk_cause_name(d->cause));
    cli_json_real(j, "gain", d->gain);
    cli_json_real(j, "gain_low", d->gain_low);
    cli_json_real(j, "wait_share", d->share);
    cli_json_real(j, "ceiling_steps_per_s", d->ceiling);
    cli_json_text(j, "sentence", d->sentence);
    cli_json_text(j, "remedy", d->remedy);
    cli_json_open(j, "checks", '[');
    for (uint32_t i = 0; i < d->n_checks; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", d->check[i].name);
        cli_json_real(j, "value", d->check[i].value);
        cli_json_text(j, "unit", d->check[i].unit);
        cli_json_text(j, "rule", d->check[i].rule);
        cli_json_bool(j, "good", d->check[i].good);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

/* ---- programs ---- */

static void json_outputs(cli_json *j, const bench_result *r)
{
    cli_json_open(j, "fields", '{');
    for (uint32_t i = 0; i < r->n_outputs; i++)
        cli_json_text(j, r->outputs[i].name, r->outputs[i].chain);
    cli_json_close(j, '}');
}

static void json_stages(cli_json *j, const bench_result *r)
{
    double total = stage_total(r);

    cli_json_open(j, "stages", '{');
    for (int i = 0; i < STK_STAGES; i++) {
        cli_json_open(j, stk_stage_name((stk_stage_id)i), '{');
        cli_json_real(j, "seconds", stage_seconds(r, i));
        cli_json_real(j, "share", per(stage_seconds(r, i), total));
        cli_json_real(j, "us_per_sample", per(stage_seconds(r, i) * 1e6, (double)r->stats.samples));
        cli_json_close(j, '}');
    }
    cli_json_close(j, '}');
}

static void json_epochs(cli_json *j, const bench_result *r)
{
    cli_json_open(j, "epochs", '[');
    for (size_t i = 0; i < r->n_epochs; i++) {
        const bench_epoch *e = &r->epoch[i];

        cli_json_open(j, NULL, '{');
        cli_json_count(j, "samples", e->samples);
        cli_json_count(j, "batches", e->batches);
        cli_json_real(j, "seconds", e->seconds);
        cli_json_real(j, "first_batch_wait_s", e->first_wait);
        cli_json_count(j, "rss_bytes", e->rss);
        cli_json_bool(j, "whole", e->whole);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void json_memory(cli_json *j, const bench_result *r)
{
    cli_json_open(j, "memory", '{');
    cli_json_count(j, "peak_rss_bytes", r->rss_peak);
    cli_json_count(j, "planned_peak_bytes", r->stats.memory_peak);
    cli_json_count(j, "limit_bytes", r->stats.memory_limit);
    cli_json_close(j, '}');
}

void bench_print_json(const bench_result *r)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "version", stk_version());
    cli_json_count(&j, "dataset_samples", r->dataset_samples);
    cli_json_count(&j, "dataset_shards", r->dataset_shards);
    json_outputs(&j, r);
    cli_json_count(&j, "batch_size", r->batch_size);
    cli_json_count(&j, "workers", r->stats.workers);
    cli_json_count(&j, "slots", r->stats.slots);
    cli_json_real(&j, "open_s", r->open_seconds);
    cli_json_count(&j, "samples", r->samples);
    cli_json_count(&j, "batches", r->batches);
    cli_json_real(&j, "seconds", r->seconds);
    cli_json_real(&j, "samples_per_s", per((double)r->samples, r->seconds));
    cli_json_real(&j, "mb_per_s", per((double)r->stats.bytes * 1e-6, r->seconds));
    cli_json_real(&j, "first_batch_s", r->first_batch);
    cli_json_real(&j, "cpu_s", r->cpu_seconds);
    cli_json_real(&j, "cpu_s_per_1000_samples", per(r->cpu_seconds * 1e3, (double)r->samples));
    cli_json_real(&j, "consumer_wait_s", r->wait_seconds);
    cli_json_real(&j, "median_batch_s", r->median_batch);
    if (r->n_epochs > 1)
        cli_json_real(&j, "epoch_gap_s", r->longest_gap);
    else
        cli_json_text(&j, "epoch_gap_s", NULL);
    cli_json_count(&j, "skipped", r->stats.skipped);
    cli_json_count(&j, "cold_reads", r->stats.cold_reads);
    cli_json_text(&j, "cold_by", r->stats.cold_by);
    json_memory(&j, r);
    json_stages(&j, r);
    json_epochs(&j, r);
    bench_json_found(&j, &r->found);
    cli_json_close(&j, '}');
}
