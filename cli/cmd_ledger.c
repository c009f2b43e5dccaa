/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ledger.c - stoker ledger: which samples a run was given, when, and by whom. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_cmd.h"

static const cli_option options[] = {
    { "sample", "ID|KEY", NULL, "when was it seen?  A key needs --data" },
    { "step", "N", NULL, "what was in step N?" },
    { "epoch", "E", "all", "look at this epoch only" },
    { "twice", NULL, NULL, "list samples that an epoch has more than once" },
    { "never", NULL, NULL, "list samples that an epoch has not (yet)" },
    { "data", "DATA", NULL,
      "the run's data, for keys; once for each data set, in the loader's order" },
    { NULL },
};

/* ---- lists ---- */

typedef struct listing {
    const ledger_data *data;
    uint64_t samples, found;
    int twice, json;
} listing;

static void list_one(listing *w, uint64_t epoch, uint64_t id)
{
    size_t len;
    const char *key = ledger_key(w->data, id, &len);

    w->found++;
    if (w->json) {
        cli_json j = { .to = stdout, .lines = 1 };

        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "epoch", epoch);
        cli_json_count(&j, "sample", id);
        if (key)
            cli_json_bytes(&j, "key", key, len);
        cli_json_close(&j, '}');
        return;
    }
    cli_put(stdout, "epoch %" PRIu64 "  %" PRIu64, epoch, id);
    if (key) {
        fputs("  ", stdout);
        cli_put_shown(stdout, key, len);
    }
    putchar('\n');
}

static void list_epoch(void *cookie, const ledger_epoch *e)
{
    listing *w = cookie;

    for (uint64_t i = 0; i < w->samples && !ferror(stdout); i++) {
        uint64_t word = w->twice ? e->again[i / 64] : ~e->seen[i / 64];

        if (!word)
            i |= 63;
        else if (word >> i % 64 & 1)
            list_one(w, e->epoch, i);
    }
}

/* ---- the summary ---- */

typedef struct generation {
    stk_ledger_file first; /* of its files */
    uint32_t files;
} generation;

/* The generations that count, oldest first.  They come newest first, rank by rank. */
static size_t generations_of(const stk_ledger *l, generation **out, size_t *given_up)
{
    stk_ledger_file f = { .size = sizeof f };
    size_t n = 0, files = 0;

    while (stk_ledger_file_at(l, files, &f) == 0)
        files++;
    *out = calloc(files + 1, sizeof **out);
    *given_up = 0;
    for (size_t i = files; *out && i-- > 0;) {
        stk_ledger_file_at(l, i, &f);
        if (f.given_up) {
            ++*given_up;
            continue;
        }
        if (!n || (*out)[n - 1].first.generation != f.generation)
            n++;
        (*out)[n - 1].first = f;
        (*out)[n - 1].files++;
    }
    return *out ? n : 0;
}

static void summary_json(const ledger_counts *c, const generation *g, size_t n, size_t given_up)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "samples", c->samples);
    cli_json_count(&j, "epoch_samples", g[n - 1].first.samples);
    cli_json_count(&j, "seed", g[n - 1].first.seed);
    cli_json_open(&j, "generations", '[');
    for (size_t i = 0; i < n; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "generation", g[i].first.generation);
        cli_json_count(&j, "world_size", g[i].first.world_size);
        cli_json_count(&j, "files", g[i].files);
        cli_json_count(&j, "global_batch_size", g[i].first.global_batch_size);
        cli_json_count(&j, "epoch", g[i].first.epoch);
        cli_json_count(&j, "position", g[i].first.position);
        cli_json_count(&j, "started_ns", g[i].first.started_ns);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "epochs", '[');
    for (size_t i = 0; i < c->n; i++) {
        const ledger_epoch *e = &c->epoch[i];

        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "epoch", e->epoch);
        cli_json_count(&j, "steps", e->steps);
        cli_json_count(&j, "positions", e->positions);
        cli_json_count(&j, "rows", e->valid);
        cli_json_count(&j, "not_valid", e->not_valid);
        cli_json_count(&j, "once", e->once);
        cli_json_count(&j, "twice", e->twice);
        cli_json_count(&j, "never", e->never);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_count(&j, "superseded_steps", c->superseded);
    cli_json_count(&j, "torn_steps", c->torn);
    cli_json_count(&j, "given_up_files", given_up);
    cli_json_close(&j, '}');
}

static void summary_lines(const ledger_counts *c, const generation *g, size_t n, size_t given_up)
{
    char a[32], b[32];

    cli_put(stdout, "%s samples, ", cli_many(a, c->samples));
    if (g[n - 1].first.samples) /* else epochs differ: packed rows, batches of a budget */
        cli_put(stdout, "%s in an epoch, ", cli_many(b, g[n - 1].first.samples));
    cli_put(stdout, "seed %" PRIu64 "\n", g[n - 1].first.seed);
    for (size_t i = 0; i < n; i++)
        cli_put(stdout,
                "generation %" PRIu64 ": from epoch %" PRIu64 ", position %s, %u rank%s, global "
                "batch %s%s\n",
                g[i].first.generation, g[i].first.epoch, cli_many(a, g[i].first.position),
                g[i].first.world_size, g[i].first.world_size == 1 ? "" : "s",
                cli_many(b, g[i].first.global_batch_size),
                g[i].files < g[i].first.world_size ? " (files of some ranks are missing)" : "");
    cli_put(stdout, "%8s %10s %14s %14s %14s %14s\n", "epoch", "steps", "seen once", "more often",
            "never", "not valid");
    for (size_t i = 0; i < c->n; i++) {
        const ledger_epoch *e = &c->epoch[i];

        cli_put(stdout,
                "%8" PRIu64 " %10" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64
                "%s\n",
                e->epoch, e->steps, e->once, e->twice, e->never, e->not_valid,
                e->positions < g[n - 1].first.samples ? "  (not whole)" : "");
    }
    if (c->superseded || c->torn || given_up)
        cli_put(stdout,
                "left out: %" PRIu64 " superseded and %" PRIu64 " torn steps, %zu files of tries "
                "that were given up\n",
                c->superseded, c->torn, given_up);
}

static int summary(const stk_ledger *l, const ledger_counts *c, int json)
{
    generation *g;
    size_t given_up, n = generations_of(l, &g, &given_up);

    if (n && json)
        summary_json(c, g, n, given_up);
    else if (n)
        summary_lines(c, g, n, given_up);
    free(g);
    return n ? CLI_OK : CLI_FAILED;
}

/* ---- the command ---- */

static int open_data(const cli_args *a, ledger_data *d, uint64_t samples)
{
    stk_dataset_options o = { .size = sizeof o, .log = cli_log };
    const char *name;
    stk_error err;

    for (; (name = cli_value_at(a, "data", d->n)); d->n++) {
        if (d->n == LEDGER_SETS)
            return cli_usage("--data: at most %d data sets", LEDGER_SETS);
        if (stk_dataset_open(&d->set[d->n], &name, 1, &o, &err) < 0)
            return cli_failed(&err);
        d->start[d->n + 1] = d->start[d->n] + stk_dataset_len(d->set[d->n]);
    }
    if (d->n && d->start[d->n] != samples)
        return cli_usage("--data: this has %" PRIu64 " samples, and the run's data had %" PRIu64,
                         d->start[d->n], samples);
    return 0;
}

static int count(const cli_args *a, stk_ledger *l, const ledger_data *d, uint64_t samples)
{
    int twice = cli_value(a, "twice") != NULL, never = cli_value(a, "never") != NULL;
    listing w = {
        .data = d, .samples = samples, .twice = twice, .json = cli_value(a, "json") != NULL
    };
    ledger_counts c = { .samples = samples };
    int rc = ledger_count(l, &c, twice || never ? list_epoch : NULL, &w);

    if (!rc && (twice || never))
        rc = w.found ? CLI_BAD : CLI_OK;
    else if (!rc)
        rc = summary(l, &c, w.json);
    ledger_counts_free(&c);
    return rc;
}

static int answer(const cli_args *a, stk_ledger *l, double step, double epoch)
{
    const char *sample = cli_value(a, "sample");
    stk_ledger_file f = { .size = sizeof f };
    int rc, json = cli_value(a, "json") != NULL;
    ledger_data d = { 0 };

    stk_ledger_file_at(l, 0, &f);
    rc = open_data(a, &d, f.data.samples);
    if (epoch >= 0)
        stk_ledger_range(l, (uint64_t)epoch, (uint64_t)epoch);
    if (!rc && sample)
        rc = ledger_sample(l, &d, sample, json);
    else if (!rc && step >= 0)
        rc = ledger_step(l, &d, (uint64_t)step, json);
    else if (!rc)
        rc = count(a, l, &d, f.data.samples);
    for (uint32_t i = 0; i < d.n; i++)
        stk_dataset_unref(&d.set[i]);
    return rc;
}

static int run(const cli_args *a)
{
    int asked = !!cli_value(a, "sample") + !!cli_value(a, "step") + !!cli_value(a, "twice") +
                !!cli_value(a, "never");
    double step = -1, epoch = -1;
    stk_ledger *l = NULL;
    stk_error err;
    int rc;

    if (asked > 1)
        return cli_usage("take one of --sample, --step, --twice and --never");
    if (cli_number(a, "step", 0, 9e15, &step) || cli_number(a, "epoch", 0, 4294967295.0, &epoch))
        return CLI_USAGE;
    if (stk_ledger_open(&l, cli_word_list(a)[0], &err) < 0)
        return cli_failed(&err);
    rc = answer(a, l, step, epoch);
    stk_ledger_close(&l);
    return rc;
}

const cli_command cli_ledger = {
    .name = "ledger",
    .synopsis = "FOLDER [options]",
    .summary = "which samples was a run given, when, and which twice or never?",
    .about =
        "Reads what loader.ledger(FOLDER) wrote while a run trained: the samples of every "
        "step and rank, as\n"
        "they were handed out.  A run that died and was resumed is one history: steps after "
        "the checkpoint\n"
        "that it was resumed from are left out, however many ranks it had then and has now.  "
        "Without an\n"
        "option it counts, for every epoch, samples seen once, more than once and never.  "
        "Rows that are not\n"
        "valid (a stand-in for a bad sample, or a row that fills up the last batch) don't "
        "count as seen.\n"
        "With weights, repeat or a mixture an epoch has samples more than once, and others not at "
        "all:\nthat is as it should be.\n"
        "Exit code 1 when --twice or --never list something, or --sample or --step find "
        "nothing.",
    .examples = "  stoker ledger runs/7/ledger --step 1200 --epoch 3\n"
                "  stoker ledger runs/7/ledger --sample n01440764/10026 --data 'train-*.tar'\n",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
