/* SPDX-License-Identifier: Apache-2.0 */
/* pack_job.c - see pack_job.h.  A plan keeps the arguments of the command, which are read again as
 * if they had been typed. */
#include "pack_job.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

static int take_fields(pack_job *job)
{
    const char *f;

    for (size_t i = 0; (f = cli_value_at(job->what, "field", i)); i++) {
        const char *equals = strchr(f, '=');
        uint32_t n = job->o.n_fields;

        if (!equals || equals == f)
            return cli_usage("--field is NAME=CHAIN, as in --field 'jpg=image | resize(256) | "
                             "encode(jpeg, 90)', not \"%s\"",
                             f);
        if (n == PACK_FIELDS)
            return cli_usage("at most %d fields", PACK_FIELDS);
        job->name[n] = strndup(f, (size_t)(equals - f));
        job->field[n] = (stk_output){ job->name[n], equals + 1 };
        job->o.n_fields++;
    }
    job->o.fields = job->field;
    return 0;
}

/* "train=0.9,val=0.1": ranges of the key's hash, one after the other. */
static int take_split(pack_job *job)
{
    const char *s = cli_value(job->what, "split");
    double at = 0;

    if (s && !*s)
        return cli_usage("--split is NAME=PART,..., as in train=0.9,val=0.1, not \"\"");
    while (s && *s) {
        const char *equals = strchr(s, '=');
        pack_split *x = &job->split[job->n_splits];
        char *end = NULL;
        double part = equals ? strtod(equals + 1, &end) : 0;

        for (uint32_t i = 0; equals && i < job->n_splits; i++)
            if (strlen(job->split[i].name) == (size_t)(equals - s) &&
                !strncmp(job->split[i].name, s, (size_t)(equals - s)))
                return cli_usage("--split has the part %s twice", job->split[i].name);
        if (!equals || equals == s || end == equals + 1 || (*end && *end != ',') || !(part > 0) ||
            memchr(s, '/', (size_t)(equals - s)) || (size_t)(equals - s) >= sizeof x->name ||
            job->n_splits == PACK_SPLITS)
            return cli_usage("--split is NAME=PART,..., as in train=0.9,val=0.1, not \"%s\"",
                             cli_value(job->what, "split"));
        snprintf(x->name, sizeof x->name, "%.*s", (int)(equals - s), s);
        x->from = at;
        x->to = at + part > 1 - 1e-9 && at + part < 1 + 1e-9 ? 1 : at + part;
        at = x->to;
        job->n_splits++;
        s = *end ? end + 1 : end;
        if (*end && !*s)
            return cli_usage("--split is NAME=PART,..., as in train=0.9,val=0.1, not \"%s\"",
                             cli_value(job->what, "split"));
    }
    if (at > 1)
        return cli_usage("the parts of --split are more than 1 together: \"%s\"",
                         cli_value(job->what, "split"));
    if (job->n_splits && (strchr(pack_job_dst(job), '%') || cli_value(job->what, "name")))
        return cli_usage("--split names the shards: give a folder, without --name");
    return 0;
}

static int take_options(pack_job *job)
{
    double samples = 0, seed = 0;
    const cli_args *a = job->what;
    stk_pack_options *o = &job->o;

    if (cli_number(a, "samples", 1, 1e15, &samples) || cli_size_value(a, "bytes", &o->bytes) ||
        cli_number(a, "shuffle", 0, 9007199254740992.0, &seed) ||
        cli_number(a, "fraction", 1e-12, 1, &o->fraction))
        return CLI_USAGE;
    o->samples = (uint64_t)samples;
    o->shuffle = cli_value(a, "shuffle") ? STK_YES : STK_UNSET;
    o->seed = (uint64_t)seed;
    o->force = cli_value(a, "force") ? STK_YES : STK_UNSET;
    o->no_index = cli_value(a, "no-index") ? STK_YES : STK_UNSET;
    o->jpeg = cli_value(a, "jpeg") ? STK_YES : STK_UNSET;
    o->name = cli_value(a, "name");
    o->exclude = cli_value(a, "exclude");
    o->where = cli_value(a, "where");
    o->dedup = cli_value(a, "dedup");
    o->balance = cli_value(a, "balance");
    o->compress = cli_value(a, "compress");
    o->arrays = cli_value(a, "arrays") ? STK_YES : STK_UNSET;
    if (o->name && strchr(o->name, '/'))
        return cli_usage("--name is the beginning of a file's name, not \"%s\"", o->name);
    return 0;
}

/* What belongs to this run and not to the plan. */
static int take_run(pack_job *job, const cli_args *a)
{
    const char *part = cli_value(a, "part"), *only = cli_value(a, "only");
    unsigned long long i, n;
    double workers = 0, shard = -1;
    char more;

    if (cli_number(a, "workers", 1, 256, &workers) || cli_number(a, "shard", 0, 1e9, &shard))
        return CLI_USAGE;
    job->o.num_workers = (uint32_t)workers;
    job->shard = shard < 0 ? UINT64_MAX : (uint64_t)shard;
    job->o.merge = cli_value(a, "merge") ? STK_YES : STK_UNSET;
    if (only && strcmp(only, "failed"))
        return cli_usage("--only takes `failed`, not \"%s\"", only);
    job->o.only_failed = only ? STK_YES : STK_UNSET;
    if (part && (sscanf(part, "%llu/%llu%c", &i, &n, &more) != 2 || !n || i >= n))
        return cli_usage("--part is I/N with I from 0 to N - 1, as in 3/64, not \"%s\"", part);
    if (part) {
        job->o.part = i;
        job->o.parts = n;
    }
    if (!job->plan && (part || shard >= 0 || job->o.merge == STK_YES))
        return cli_usage("--part, --shard and --merge need --from-plan PLAN");
    if ((part != NULL) + (shard >= 0) + (job->o.merge == STK_YES) > 1)
        return cli_usage("--part, --shard and --merge: one of them at a time");
    if (only && cli_value(a, "write-plan"))
        return cli_usage(
            "--only failed is for a plan that was run: --from-plan PLAN --only failed");
    return 0;
}

/* ---- plans ---- */

static int open_plan(pack_job *job, const char *path)
{
    char **argv;
    stk_error err;
    int rc;

    if (stk_pack_plan_load(&job->plan, path, &err) < 0)
        return cli_failed(&err);
    argv = calloc(job->plan->n_args + 1, sizeof *argv);
    for (uint32_t i = 0; argv && i < job->plan->n_args; i++)
        argv[i] = (char *)(uintptr_t)job->plan->args[i];
    rc = argv ? cli_args_parse(&job->of_plan, &cli_pack, (int)job->plan->n_args, argv) : CLI_FAILED;
    free(argv);
    if (rc == 0 && (cli_words(job->of_plan) < 2 || cli_value(job->of_plan, "from-plan")))
        rc = cli_usage("%s is not a plan of this command", path);
    job->what = job->of_plan;
    return rc < 0 ? CLI_USAGE : rc;
}

/* Names of options that are this run's, not the plan's. */
static int of_a_run(const char *name)
{
    static const char *const names[] = { "write-plan", "from-plan", "shard", "part",
                                         "merge",      "workers",   "only",  NULL };

    for (int i = 0; names[i]; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

/* What would be left unused is refused. */
static int check_alone(const cli_args *a)
{
    for (const cli_option *o = cli_pack.options; o->name; o++)
        if (cli_value(a, o->name) && (!of_a_run(o->name) || !strcmp(o->name, "write-plan")))
            return cli_usage("--%s does not go with --from-plan, which has all of this: write "
                             "another plan with it",
                             o->name);
    return 0;
}

int pack_job_take(pack_job *job, const cli_args *a)
{
    const char *plan = cli_value(a, "from-plan");
    int rc = 0;

    job->what = a;
    if (plan && cli_words(a))
        return cli_usage("--from-plan has data and target: leave \"%s\" away", cli_word_list(a)[0]);
    if (plan)
        rc = check_alone(a) ? CLI_USAGE : open_plan(job, plan);
    else if (cli_words(a) < 2)
        return cli_usage(
            "pack needs data and a target: stoker pack photos/ shards/; try 'stoker pack --help'");
    if (rc == 0)
        rc = take_options(job);
    if (rc == 0)
        rc = take_fields(job);
    if (rc == 0)
        rc = take_split(job);
    return rc == 0 ? take_run(job, a) : rc;
}

void pack_job_free(pack_job *job)
{
    for (uint32_t i = 0; i < PACK_FIELDS; i++)
        free(job->name[i]);
    if (job->of_plan)
        cli_args_free(job->of_plan);
    stk_pack_plan_free(&job->plan);
}

const char *pack_job_dst(const pack_job *job)
{
    return cli_word_list(job->what)[cli_words(job->what) - 1];
}

uint32_t pack_job_targets(const pack_job *job)
{
    return job->n_splits ? job->n_splits : 1;
}

void pack_job_target(pack_job *job, uint32_t i)
{
    if (!job->n_splits)
        return;
    job->o.name = job->split[i].name;
    job->o.keep_from = job->split[i].from;
    job->o.keep_to = job->split[i].to;
}

int pack_job_open(const pack_job *job, stk_dataset **out)
{
    stk_dataset_options o = { .size = sizeof o,
                              .log = cli_log,
                              .salvage = cli_value(job->what, "salvage") ? STK_YES : STK_UNSET };
    stk_error err;

    *out = NULL;
    if (stk_dataset_open(out, cli_word_list(job->what), cli_words(job->what) - 1, &o, &err) < 0)
        return cli_failed(&err);
    return 0;
}

/* What all targets come to. */
static int sum_up(pack_job *job, stk_dataset *ds, stk_pack_plan *sum)
{
    stk_error err;

    *sum = (stk_pack_plan){ .size = sizeof *sum };
    for (uint32_t i = 0; i < pack_job_targets(job); i++) {
        stk_pack_report r = { .size = sizeof r };
        stk_pack_options o;

        pack_job_target(job, i);
        o = job->o;
        o.plan_only = STK_YES;
        o.parts = 0;
        if (stk_pack(ds, pack_job_dst(job), &o, &r, &err) < 0)
            return cli_failed(&err);
        sum->shards += r.shards;
        sum->samples += r.samples;
        sum->fingerprint = sum->fingerprint * 0x9E3779B97F4A7C15u + r.fingerprint;
    }
    return 0;
}

/* Of a split the targets' fingerprints are one sum, which only planning all of them gives. */
static int split_check(pack_job *job, stk_dataset *ds)
{
    stk_pack_plan now;
    int rc = sum_up(job, ds, &now);

    if (rc == 0 && now.fingerprint != job->plan->fingerprint)
        return cli_usage("the data is not what the plan was made of: write the plan again");
    return rc == 0 && job->shard != UINT64_MAX ? cli_usage("--shard with --split: take --part I/N")
                                               : rc;
}

int pack_plan_check(pack_job *job, stk_dataset *ds)
{
    if (!job->plan)
        return 0;
    /* what is made again may have been repaired: the list decides */
    if (job->o.only_failed == STK_YES)
        return job->shard == UINT64_MAX ? 0
                                        : cli_usage("--shard with --only failed: take --part I/N");
    if (job->n_splits)
        return split_check(job, ds);
    job->o.expect = job->plan->fingerprint;
    if (job->shard == UINT64_MAX)
        return 0;
    if (job->shard >= job->plan->shards)
        return cli_usage("--shard %" PRIu64 ": the plan has %" PRIu64 " shards, from 0", job->shard,
                         job->plan->shards);
    job->o.part = job->shard;
    job->o.parts = job->plan->shards;
    return 0;
}

/* Absolute, so that a process elsewhere finds it. */
static char *absolute(const char *word)
{
    char cwd[PATH_MAX], *s;
    size_t size;

    if (word[0] == '/' || strstr(word, "://") || !getcwd(cwd, sizeof cwd))
        return strdup(word);
    size = strlen(cwd) + strlen(word) + 2;
    s = malloc(size);
    if (s)
        snprintf(s, size, "%s/%s", cwd, word);
    return s;
}

static int add_arg(char ***args, uint32_t *n, char *text)
{
    char **more = realloc(*args, (*n + 2) * sizeof *more);

    if (more)
        *args = more;
    if (!more || !text) {
        free(text);
        return cli_usage("no memory for the plan");
    }
    more[(*n)++] = text;
    return 0;
}

static int add_options(const cli_args *a, char ***args, uint32_t *n)
{
    int rc = 0;

    for (const cli_option *o = cli_pack.options; rc == 0 && o->name; o++) {
        const char *v;
        char dashed[80];
        int skip = of_a_run(o->name);

        snprintf(dashed, sizeof dashed, "--%s", o->name);
        for (size_t i = 0; !skip && rc == 0 && (v = cli_value_at(a, o->name, i)); i++) {
            rc = add_arg(args, n, strdup(dashed));
            if (rc == 0 && o->value)
                rc = add_arg(args, n, strcmp(o->name, "exclude") ? strdup(v) : absolute(v));
        }
    }
    return rc;
}

int pack_plan_write(pack_job *job, const char *path)
{
    stk_pack_plan plan;
    stk_dataset *ds = NULL;
    char **args = NULL;
    uint32_t n = 0;
    stk_error err;
    int rc = pack_job_open(job, &ds);

    if (rc == 0)
        rc = sum_up(job, ds, &plan);
    for (size_t i = 0; rc == 0 && i < cli_words(job->what); i++)
        rc = add_arg(&args, &n, absolute(cli_word_list(job->what)[i]));
    if (rc == 0)
        rc = add_options(job->what, &args, &n);
    if (rc == 0) {
        plan.args = (const char *const *)args;
        plan.n_args = n;
        if (stk_pack_plan_save(path, &plan, &err) < 0)
            rc = cli_failed(&err);
        else
            cli_put(stdout,
                    "%" PRIu64 " samples in %" PRIu64
                    " shards: stoker pack --from-plan %s --part 0/N, ..., "
                    "then --merge\n",
                    plan.samples, plan.shards, path);
    }
    for (uint32_t i = 0; i < n; i++)
        free(args[i]);
    free(args);
    stk_dataset_unref(&ds);
    return rc;
}
